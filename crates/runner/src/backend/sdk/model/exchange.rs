//! Sends one request and reads the answer as it is streamed, within bounds.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, StatusCode, redirect};
use rookery_client::sse;
use serde_json::Value;

use super::api::AnswerDraft;
use super::error::ModelError;
use super::messages::{ModelAnswer, ModelRequest};
use super::target::ModelTarget;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of an answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Maximum size of an error body that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Ends some streams; it is not JSON.
const END_OF_STREAM: &str = "[DONE]";

#[derive(Debug)]
pub(super) struct Exchange {
    http: Client,
    target: ModelTarget,
    silence: Duration,
}

impl Exchange {
    pub(super) fn new(target: ModelTarget, silence: Duration) -> Result<Exchange, ModelError> {
        // Another part of the process may have installed a provider before, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect could send the key to another server.
        let http = Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let http = http.user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")));
        // Servers on this machine are reached without a proxy.
        let http = if is_on_this_machine(&target) { http.no_proxy() } else { http };
        let http = http.build().map_err(|error| ModelError::Setup(innermost_cause(&error)))?;
        Ok(Exchange { http, target, silence })
    }

    pub(super) fn target(&self) -> &ModelTarget {
        &self.target
    }

    pub(super) async fn ask(
        &self,
        ask: &ModelRequest<'_>,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let url = self.target.url().ok_or_else(|| ModelError::Setup("there is no address to ask".to_owned()))?;
        let mut request = self.http.post(url).json(&(self.target.api.body)(&self.target, ask));
        for (name, value) in self.target.headers() {
            request = request.header(name, value);
        }
        let sent = self.within_silence(request.send()).await?;
        let response = sent.map_err(|error| ModelError::Unreachable(innermost_cause(&error)))?;
        match response.status() {
            status if status.is_success() => self.read(response, on_text).await,
            status => Err(self.read_error(status, response).await),
        }
    }

    async fn read(
        &self,
        mut response: Response,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let mut pieces = StreamPieces::of(&response);
        let mut draft = AnswerDraft::default();
        let mut room = MAX_ANSWER_BYTES;
        loop {
            // A connection that breaks leaves the draft without an end, which `finish` reports.
            let chunk = self.within_silence(response.chunk()).await?.map_err(|_| ModelError::Cut)?;
            let is_last = chunk.is_none();
            let chunk = chunk.unwrap_or_default();
            room = room.checked_sub(chunk.len()).ok_or_else(|| ModelError::new_malformed("it is too long"))?;
            let data = if is_last { pieces.rest()? } else { pieces.feed(&chunk)? };
            for data in data.iter().map(|data| data.trim()).filter(|data| !data.is_empty()) {
                if data == END_OF_STREAM {
                    return draft.finish();
                }
                let data: Value =
                    serde_json::from_str(data).map_err(|error| ModelError::new_malformed(error.to_string()))?;
                let piece = (self.target.api.take)(&mut draft, &data).map_err(|error| self.without_key(error))?;
                piece.iter().for_each(|piece| on_text(piece));
            }
            if is_last {
                return draft.finish();
            }
        }
    }

    async fn read_error(&self, status: StatusCode, mut response: Response) -> ModelError {
        let retry_after = retry_after(response.headers());
        let mut bytes = Vec::new();
        while let Ok(Ok(Some(chunk))) = self.within_silence(response.chunk()).await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match self.without_key(ModelError::status(status.as_u16(), &reason(&text))) {
            ModelError::Status { status, message, .. } => ModelError::Status { status, message, retry_after },
            other => other,
        }
    }

    fn without_key(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Status { status, message, retry_after } => {
                ModelError::Status { status, message: self.target.without_key(&message), retry_after }
            }
            other => other,
        }
    }

    async fn within_silence<T>(&self, future: impl Future<Output = T>) -> Result<T, ModelError> {
        tokio::time::timeout(self.silence, future).await.map_err(|_| ModelError::Silent(self.silence))
    }
}

/// Splits a body into pieces that are JSON each.
enum StreamPieces {
    Events(sse::Parser),
    Lines(Vec<u8>),
    Whole(Vec<u8>),
}

impl StreamPieces {
    /// Chosen by the content type; some servers answer a stream request at once.
    fn of(response: &Response) -> StreamPieces {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => StreamPieces::Events(sse::Parser::default()),
            "application/json" => StreamPieces::Whole(Vec::new()),
            _ => StreamPieces::Lines(Vec::new()),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, ModelError> {
        match self {
            StreamPieces::Events(parser) => {
                let events = parser.feed(bytes).map_err(|error| ModelError::new_malformed(error.to_string()))?;
                Ok(events.into_iter().map(|event| event.data).collect())
            }
            StreamPieces::Lines(waiting) => {
                waiting.extend_from_slice(bytes);
                let end = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let lines: Vec<u8> = waiting.drain(..end).collect();
                Ok(String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect())
            }
            StreamPieces::Whole(waiting) => {
                waiting.extend_from_slice(bytes);
                Ok(Vec::new())
            }
        }
    }

    /// The remaining data at the end of the body. Some servers do not terminate the last piece.
    fn rest(&mut self) -> Result<Vec<String>, ModelError> {
        match self {
            StreamPieces::Events(_) => self.feed(b"\n\n"),
            StreamPieces::Lines(_) => self.feed(b"\n"),
            StreamPieces::Whole(waiting) => Ok(vec![String::from_utf8_lossy(waiting).into_owned()]),
        }
    }
}

/// The message of an error body, wherever the provider puts it.
fn reason(body: &str) -> String {
    let Ok(parsed) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    let parsed = if parsed.is_array() { parsed[0].clone() } else { parsed };
    let error = &parsed["error"];
    let message = error["message"].as_str().or(error.as_str()).or(parsed["message"].as_str());
    // The code distinguishes cases that the message may not.
    match (message, error["code"].as_str()) {
        (Some(message), Some(code)) if !message.contains(code) => format!("{message} ({code})"),
        (Some(message), _) => message.to_owned(),
        (None, _) => body.to_owned(),
    }
}

/// The time to wait: in milliseconds, in seconds, or until a date, which is compared with the provider's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let time = |text: &str| rfc2822::parse(text).ok();
    let wait = time(after)?.timestamp().duration_since(time(text("date")?)?.timestamp());
    Some(Duration::try_from(wait).unwrap_or_default())
}

fn is_on_this_machine(target: &ModelTarget) -> bool {
    let url = target.url();
    url.and_then(|url| url.host_str().map(str::to_owned)).is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// The innermost cause of an error. The error itself contains the address, which may contain a key.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut last = None;
    while let Some(inner) = source {
        last = Some(inner.to_string());
        source = inner.source();
    }
    last.unwrap_or_else(|| if error.is_timeout() { "it took too long".to_owned() } else { "it failed".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_is_parsed_in_all_its_forms() {
        let wait = |all: &[(&'static str, &'static str)]| retry_after(&headers(all));
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(wait(&[("retry-after", "7"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        let (now, then) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:29:30 GMT");
        assert_eq!(wait(&[("date", now), ("retry-after", then)]), Some(Duration::from_secs(90)));
        assert_eq!(wait(&[("date", then), ("retry-after", now)]), Some(Duration::ZERO));
        for nothing in [&[][..], &[("retry-after", "soon")], &[("retry-after", "-1")], &[("retry-after", then)]] {
            assert_eq!(wait(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn error_message_is_found_in_every_form_of_body() {
        for (body, message) in [
            (r#"{"type":"error","error":{"type":"x","message":"no"}}"#, "no"),
            (r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#, "no money (insufficient_quota)"),
            (r#"[{"error":{"code":429,"message":"slow down","status":"X"}}]"#, "slow down"),
            (r#"{"error":"model not found"}"#, "model not found"),
            (r#"{"message":"Not Found"}"#, "Not Found"),
            ("<html>", "<html>"),
        ] {
            assert_eq!(reason(body), message);
        }
    }

    #[test]
    fn lines_are_whole_wherever_chunks_end() {
        let text = "{\"a\":\"ü\"}\n{\"b\":1}\n{\"c\":2}";
        for size in 1..=text.len() {
            let mut pieces = StreamPieces::Lines(Vec::new());
            let mut all: Vec<String> =
                text.as_bytes().chunks(size).flat_map(|chunk| pieces.feed(chunk).unwrap()).collect();
            all.extend(pieces.rest().unwrap());
            assert_eq!(all, ["{\"a\":\"ü\"}", "{\"b\":1}", "{\"c\":2}"], "chunks of {size}");
        }
    }
}
