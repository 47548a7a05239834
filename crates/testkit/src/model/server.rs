//! The HTTP server that plays the scripts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::script::{Playing, Script, Step};
use super::talk::{Answer, Asked};
use super::{Wire, wire_at};

/// What a request is answered with that has nothing to do with the script, such as one for a title.
const ASIDE: &str = "ok";

/// A model server on a free port of the loopback address; it ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    roles: Arc<Roles>,
    serving: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    /// Starts it with a script for each key that programs send.
    pub async fn start(scripts: impl IntoIterator<Item = (&str, Script)>) -> anyhow::Result<ModelServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let roles = scripts.into_iter().map(|(key, script)| (key.to_owned(), Role::new(script))).collect();
        let roles = Arc::new(Roles(Mutex::new(roles)));
        let app = Router::new().fallback(answer).with_state(roles.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(ModelServer { url, roles, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything that was asked with a key, oldest first.
    pub fn asked(&self, key: &str) -> Vec<Asked> {
        self.roles.lock().get(key).map(|role| role.asked.clone()).unwrap_or_default()
    }

    /// Fails unless the script of a key was played to its end, and says where it stopped and why.
    pub fn ended(&self, key: &str) -> anyhow::Result<()> {
        let roles = self.roles.lock();
        let role = roles.get(key).with_context(|| format!("there is no script for {key}"))?;
        if let Some(trouble) = &role.trouble {
            bail!("{key}: {trouble}; the last result was {:?}", role.last_texts());
        }
        role.playing.ended().map_err(|stopped| {
            let last = role.last_texts();
            anyhow::anyhow!("{key}: {stopped}; the last result was {last:?}")
        })
    }
}

#[derive(Debug)]
struct Roles(Mutex<HashMap<String, Role>>);

impl Roles {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Role>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Role {
    playing: Playing,
    asked: Vec<Asked>,
    /// Why the script could not go on.
    trouble: Option<String>,
}

impl Role {
    fn new(script: Script) -> Role {
        Role { playing: Playing::new(script), asked: vec![], trouble: None }
    }

    fn last_texts(&self) -> Option<&[String]> {
        Some(&self.asked.last()?.results.last()?.texts)
    }

    /// What becomes of a request; the number tells it apart from the others.
    fn next(&mut self, asked: Asked) -> anyhow::Result<(Step, usize)> {
        let step = match asked.tools.is_empty() {
            true => Ok(Step::Answer(Answer::Text(ASIDE.to_owned()))),
            false => self.playing.next(&asked),
        };
        self.asked.push(asked);
        if let Err(error) = &step {
            self.trouble = Some(format!("{error:#}"));
        }
        Ok((step?, self.asked.len()))
    }
}

async fn answer(
    State(roles): State<Arc<Roles>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match (method, wire_at(&uri)) {
        (Method::POST, Some(wire)) => match play(&roles, wire, &headers, &body) {
            Ok(Played::Said(stream)) => ([(header::CONTENT_TYPE, "text/event-stream")], stream).into_response(),
            Ok(Played::Failed(status, message)) => failed(wire, status, message),
            Ok(Played::Nothing) => std::future::pending().await,
            Err(error) => failed(wire, StatusCode::BAD_REQUEST, &format!("{error:#}")),
        },
        (Method::GET, _) if uri.path().ends_with("/models") => {
            axum::Json(json!({"object": "list", "data": []})).into_response()
        }
        // Programs look whether somebody is there.
        (Method::HEAD | Method::GET, _) => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

enum Played {
    Said(String),
    Failed(StatusCode, &'static str),
    Nothing,
}

fn play(roles: &Roles, wire: Wire, headers: &HeaderMap, body: &[u8]) -> anyhow::Result<Played> {
    let body: Value = serde_json::from_slice(body).with_context(|| format!("no JSON for {}", wire.name))?;
    let asked = (wire.read)(&body)?;
    let key = key(headers).context("no key, by which to know whose script to play")?;
    let mut roles = roles.lock();
    let role = roles.get_mut(key).with_context(|| format!("there is no script for the key {key}"))?;
    let (step, number) = role.next(asked.clone())?;
    Ok(match step {
        Step::Answer(answer) => {
            let frames = (wire.write)(&asked, &answer, number);
            Played::Said(frames.iter().map(|frame| frame.written()).collect())
        }
        Step::Fail { status, message } => Played::Failed(StatusCode::from_u16(status)?, message),
        Step::Hang => Played::Nothing,
    })
}

/// The key of a program, in either of the usual places.
fn key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    text("x-api-key").or_else(|| text("authorization")?.strip_prefix("Bearer "))
}

fn failed(wire: Wire, status: StatusCode, message: &str) -> Response {
    let body = (wire.error)(message).to_string();
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body)).unwrap_or_else(|_| status.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::client;

    async fn post(server: &ModelServer, path: &str, key: &str, body: Value) -> (u16, String) {
        let request = client().unwrap().post(format!("{}{path}", server.url())).bearer_auth(key).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The data of the stream's events.
    fn events(stream: &str) -> Vec<Value> {
        stream
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    fn script() -> Script {
        Script::new().fail(529, "overloaded").call("claim", |_| Ok(json!({"id": "t"}))).say("done")
    }

    #[tokio::test]
    async fn messages_are_streamed() {
        let server = ModelServer::start([("one", script())]).await.unwrap();
        let body = |messages: Value| {
            json!({"model": "m", "system": [{"type": "text", "text": "be good"}],
            "tools": [{"name": "mcp__rookery__claim"}], "messages": messages})
        };
        let ask = async |messages| post(&server, "/v1/messages?beta=true", "one", body(messages)).await;
        let (status, text) = ask(json!([{"role": "user", "content": "go"}])).await;
        assert!(status == 529 && text.contains("overloaded"), "{text}");
        let (status, stream) = ask(json!([{"role": "user", "content": "go"}])).await;
        let call = events(&stream);
        assert_eq!((status, call.len()), (200, 6), "{stream}");
        assert_eq!(call[1]["content_block"]["name"], "mcp__rookery__claim");
        assert_eq!(call[2]["delta"]["partial_json"], r#"{"id":"t"}"#);
        let result = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1_0",
            "content": [{"type": "text", "text": "granted"}]}]}]);
        let (_, stream) = ask(result).await;
        assert_eq!(events(&stream)[2]["delta"]["text"], "done");
        server.ended("one").unwrap();
        let asked = server.asked("one");
        assert_eq!((asked.len(), asked[0].system.as_str()), (3, "be good"));
        assert_eq!(asked[2].results[0].texts, ["granted"]);
    }

    #[tokio::test]
    async fn responses_are_streamed() {
        let server = ModelServer::start([("two", script())]).await.unwrap();
        let tools = json!([{"type": "namespace", "name": "mcp__rookery", "tools": [{"name": "claim"}]}]);
        let ask = async |input: Value| {
            let body = json!({"model": "m", "instructions": "be good", "tools": tools, "input": input});
            post(&server, "/v1/responses", "two", body).await
        };
        assert_eq!(ask(json!([])).await.0, 529);
        let call = events(&ask(json!([])).await.1);
        let item = &call[2]["item"];
        assert_eq!((&item["namespace"], &item["name"]), (&json!("mcp__rookery"), &json!("claim")));
        let output = json!([{"type": "function_call_output", "call_id": "call_1_0",
            "output": [{"type": "input_text", "text": "granted"}]}]);
        let said = events(&ask(output).await.1);
        assert_eq!(said[4]["response"]["output"][0]["content"][0]["text"], "done");
        server.ended("two").unwrap();
    }

    #[tokio::test]
    async fn a_stranger_and_a_script_that_cannot_go_on_are_told_why() {
        let server = ModelServer::start([("one", script()), ("two", Script::new().say("bye"))]).await.unwrap();
        let body = json!({"tools": [{"name": "other"}], "messages": []});
        assert!(post(&server, "/v1/messages", "three", body.clone()).await.1.contains("no script for the key three"));
        post(&server, "/v1/messages", "one", body.clone()).await;
        let (status, text) = post(&server, "/v1/messages", "one", body.clone()).await;
        assert!(status == 400 && text.contains("claim is not among the tools"), "{text}");
        assert!(server.ended("one").unwrap_err().to_string().contains("claim is not among the tools"));
        assert!(server.ended("two").unwrap_err().to_string().contains("never began"));
        // Without tools it is asked for something else, such as a title.
        let (_, aside) = post(&server, "/v1/messages", "two", json!({"messages": []})).await;
        assert_eq!(events(&aside)[2]["delta"]["text"], ASIDE);
    }
}
