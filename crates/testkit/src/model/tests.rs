//! Every protocol, with the requests of real programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::UNSCRIPTED_ANSWER;
use super::{ModelServer, Script};
use crate::daemon::client;

async fn post(server: &ModelServer, path: &str, key: &str, body: Value) -> (u16, String) {
    let response = send(server, path, key, body).await;
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn send(server: &ModelServer, path: &str, key: &str, body: Value) -> reqwest::Response {
    let request = client().unwrap().post(format!("{}{path}", server.url())).bearer_auth(key).json(&body);
    request.send().await.unwrap()
}

/// The data of the stream's events.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Joins the texts at a pointer of the events.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)).filter_map(Value::as_str).collect()
}

fn script() -> Script {
    Script::new().fail(529, "overloaded").call("claim", |_| Ok(json!({"id": "t"}))).say("done")
}

#[tokio::test]
async fn anthropic_messages_are_streamed() {
    let server = ModelServer::start([("one", script())]).await.unwrap();
    let body = |messages: Value| {
        json!({"model": "m", "system": [{"type": "text", "text": "be good"}], "stream": true,
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
    assert_eq!(joined(&events(&stream), "/delta/text"), "done");
    server.check_finished("one").unwrap();
    let requests = server.requests("one");
    assert_eq!((requests.len(), requests[0].system.as_str()), (3, "be good"));
    assert_eq!(requests[2].results[0].texts, ["granted"]);
}

#[tokio::test]
async fn openai_responses_are_streamed() {
    let server = ModelServer::start([("two", script())]).await.unwrap();
    let tools = json!([{"type": "namespace", "name": "mcp__rookery", "tools": [{"name": "claim"}]}]);
    let ask = async |input: Value| {
        let body = json!({"model": "m", "instructions": "be good", "tools": tools, "input": input, "stream": true});
        post(&server, "/v1/responses", "two", body).await
    };
    assert_eq!(ask(json!([])).await.0, 529);
    let call = events(&ask(json!([])).await.1);
    let item = &call[2]["item"];
    assert_eq!((&item["namespace"], &item["name"]), (&json!("mcp__rookery"), &json!("claim")));
    let output = json!([{"type": "function_call_output", "call_id": "call_1_0",
        "output": [{"type": "input_text", "text": "granted"}]}]);
    let said = events(&ask(output).await.1);
    let ended = said.last().unwrap();
    assert_eq!(ended["response"]["output"][0]["content"][0]["text"], "done");
    assert_eq!(joined(&said, "/delta"), "done");
    server.check_finished("two").unwrap();
}

#[tokio::test]
async fn openai_chat_completions_are_streamed_or_whole() {
    let server = ModelServer::start([("three", script())]).await.unwrap();
    let tools = json!([{"type": "function", "function": {"name": "claim"}}]);
    let ask = async |streamed: bool, more: &[Value]| {
        let mut messages = vec![json!({"role": "system", "content": "be good"})];
        messages.extend_from_slice(more);
        let body = json!({"model": "m", "tools": tools, "messages": messages, "stream": streamed,
            "stream_options": {"include_usage": true}});
        post(&server, "/v1/chat/completions", "three", body).await
    };
    assert_eq!(ask(true, &[]).await.0, 529);
    let (_, stream) = ask(true, &[]).await;
    let call = events(&stream);
    let delta = "/choices/0/delta/tool_calls/0";
    assert_eq!(joined(&call, &format!("{delta}/function/name")), "claim");
    assert_eq!(joined(&call, &format!("{delta}/function/arguments")), r#"{"id":"t"}"#);
    assert_eq!(joined(&call, &format!("{delta}/id")), "call_1_0");
    assert_eq!(call.last().unwrap()["usage"]["prompt_tokens"], 10);
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    let whole: Value = serde_json::from_str(&ask(false, &[]).await.1).unwrap();
    let called = &whole["choices"][0];
    assert_eq!(called["message"]["tool_calls"][0]["function"]["arguments"], r#"{"id":"t"}"#);
    assert_eq!(called["finish_reason"], "tool_calls");
    let result = json!({"role": "tool", "tool_call_id": "call_1_0", "content": "granted"});
    assert_eq!(joined(&events(&ask(true, &[result]).await.1), "/choices/0/delta/content"), "done");
    server.check_finished("three").unwrap();
    let last = server.requests("three").pop().unwrap();
    assert_eq!(last.system, "be good");
    assert_eq!(last.results[0].texts, ["granted"]);
}

#[tokio::test]
async fn gemini_content_is_streamed_or_whole() {
    let server = ModelServer::start([("four", script())]).await.unwrap();
    let ask = async |path: &str, more: &[Value]| {
        let body = json!({"systemInstruction": {"parts": [{"text": "be good"}]}, "contents": more,
            "tools": [{"functionDeclarations": [{"name": "claim"}]}]});
        let request = client().unwrap().post(format!("{}/v1beta/models/gem{path}", server.url())).json(&body);
        let response = request.header("x-goog-api-key", "four").send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (streamed, whole) = (":streamGenerateContent?alt=sse", ":generateContent");
    assert_eq!(ask(streamed, &[]).await.0, 529);
    let call = events(&ask(streamed, &[]).await.1);
    let part = &call[0]["candidates"][0]["content"]["parts"][0];
    assert_eq!((&part["functionCall"]["name"], &part["functionCall"]["args"]), (&json!("claim"), &json!({"id": "t"})));
    assert!(part["thoughtSignature"].is_string());
    let again: Value = serde_json::from_str(&ask(whole, &[]).await.1).unwrap();
    assert_eq!(again["candidates"][0]["content"]["parts"][0], *part);
    // With and without the id of the call.
    let result = |id: Value| {
        let mut answer = json!({"name": "claim", "response": {"output": "granted"}});
        if id.is_string() {
            answer["id"] = id;
        }
        json!({"role": "user", "parts": [{"functionResponse": answer}]})
    };
    for id in [json!("call_1_0"), Value::Null] {
        let said = events(&ask(streamed, &[result(id)]).await.1);
        assert_eq!(joined(&said, "/candidates/0/content/parts/0/text"), "done");
        assert_eq!(said.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    }
    let last = server.requests("four").pop().unwrap();
    assert_eq!((last.model.as_str(), last.system.as_str()), ("gem", "be good"));
    assert_eq!(last.results[0].texts, ["granted"]);
}

#[tokio::test]
async fn ollama_without_key_is_selected_by_model() {
    let server = ModelServer::start([("llama", script())]).await.unwrap();
    let ask = async |streamed: bool, more: &[Value]| {
        let mut body = json!({"model": "llama", "messages": more,
            "tools": [{"type": "function", "function": {"name": "claim"}}]});
        if !streamed {
            body["stream"] = false.into();
        }
        let request = client().unwrap().post(format!("{}/api/chat", server.url())).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let lines = |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    assert_eq!(ask(true, &[]).await, (529, json!({"error": "overloaded"}).to_string()));
    let call = lines(&ask(true, &[]).await.1);
    assert_eq!(call[0]["message"]["tool_calls"][0]["function"]["arguments"], json!({"id": "t"}));
    assert_eq!((&call[1]["done"], &call[1]["eval_count"]), (&json!(true), &json!(5)));
    let result = json!({"role": "tool", "tool_name": "claim", "content": "granted"});
    let said = lines(&ask(true, std::slice::from_ref(&result)).await.1);
    assert_eq!(joined(&said, "/message/content"), "done");
    let whole = lines(&ask(false, &[result]).await.1);
    assert_eq!((whole.len(), &whole[0]["message"]["content"]), (1, &json!("done")));
}

#[tokio::test]
async fn rate_limit_cut_stall_and_slow_answer_are_played() {
    let script = Script::new().limit(7).cut().stall().say_slowly("at last", Duration::from_millis(1));
    let server = ModelServer::start([("one", script)]).await.unwrap();
    let ask = || {
        let body = json!({"tools": [{"function": {"name": "other"}}], "messages": [], "stream": true});
        send(&server, "/v1/chat/completions", "one", body)
    };
    let limited = ask().await;
    assert_eq!((limited.status().as_u16(), limited.headers()["retry-after"].to_str().unwrap()), (429, "7"));
    let mut cut = ask().await;
    assert!(cut.chunk().await.unwrap().is_some());
    let rest = async {
        while cut.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    assert!(rest.await.is_err());
    let mut stalled = ask().await;
    assert!(stalled.chunk().await.unwrap().is_some());
    let silent = async { while stalled.chunk().await.unwrap().is_some() {} };
    assert!(tokio::time::timeout(Duration::from_millis(200), silent).await.is_err());
    let said = events(&ask().await.text().await.unwrap());
    assert_eq!(joined(&said, "/choices/0/delta/content"), "at last");
    server.check_finished("one").unwrap();
}

#[tokio::test]
async fn unknown_key_and_missing_tool_are_explained() {
    let server = ModelServer::start([("one", script()), ("two", Script::new().say("bye"))]).await.unwrap();
    let body = json!({"tools": [{"name": "other"}], "messages": [], "stream": true});
    assert!(post(&server, "/v1/messages", "three", body.clone()).await.1.contains("no script for the key three"));
    post(&server, "/v1/messages", "one", body.clone()).await;
    let (status, text) = post(&server, "/v1/messages", "one", body.clone()).await;
    assert!(status == 400 && text.contains("claim is not among the offered tools"), "{text}");
    assert!(server.check_finished("one").unwrap_err().to_string().contains("claim is not among the offered tools"));
    assert!(server.check_finished("two").unwrap_err().to_string().contains("never began"));
    // A request without tools is outside of the script, such as for a title.
    let (_, unscripted) = post(&server, "/v1/messages", "two", json!({"messages": []})).await;
    let unscripted: Value = serde_json::from_str(&unscripted).unwrap();
    assert_eq!(unscripted["content"][0]["text"], UNSCRIPTED_ANSWER);
}
