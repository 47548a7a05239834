//! Asking once: a request, and an answer that is read as it comes, within bounds.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, StatusCode, redirect};
use rookery_client::sse;
use serde_json::Value;

use super::api::Draft;
use super::error::Trouble;
use super::messages::{Answer, Ask};
use super::target::Target;

const CONNECT_TIME: Duration = Duration::from_secs(15);
/// No answer is longer.
const ANSWER_BYTES: usize = 16 << 20;
/// What is read of an error.
const ERROR_BYTES: usize = 64 << 10;
/// What ends some streams, and is no JSON.
const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(super) struct Exchange {
    http: Client,
    target: Target,
    silence: Duration,
}

impl Exchange {
    pub(super) fn new(target: Target, silence: Duration) -> Result<Exchange, Trouble> {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Whoever can send us elsewhere could have the key.
        let http = Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECT_TIME);
        let http = http.user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")));
        // What runs on this machine is reached without whoever stands between it and the rest of the world.
        let http = if is_here(&target) { http.no_proxy() } else { http };
        let http = http.build().map_err(|error| Trouble::Setup(told(&error)))?;
        Ok(Exchange { http, target, silence })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) async fn ask(&self, ask: &Ask<'_>, said: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Trouble> {
        let url = self.target.url().ok_or_else(|| Trouble::Setup("there is no address to ask".to_owned()))?;
        let mut request = self.http.post(url).json(&(self.target.wire.body)(&self.target, ask));
        for (name, value) in self.target.headers() {
            request = request.header(name, value);
        }
        let sent = self.unless_silent(request.send()).await?;
        let response = sent.map_err(|error| Trouble::Unreachable(told(&error)))?;
        match response.status() {
            status if status.is_success() => self.read(response, said).await,
            status => Err(self.refused(status, response).await),
        }
    }

    async fn read(&self, mut response: Response, said: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Trouble> {
        let mut pieces = Pieces::of(&response);
        let mut draft = Draft::default();
        let mut room = ANSWER_BYTES;
        loop {
            // A connection that ends too early has no end of an answer either: that is told by the draft.
            let chunk = self.unless_silent(response.chunk()).await?.map_err(|_| Trouble::Cut)?;
            let is_last = chunk.is_none();
            let chunk = chunk.unwrap_or_default();
            room = room.checked_sub(chunk.len()).ok_or_else(|| Trouble::garbled("it is too long"))?;
            let data = if is_last { pieces.rest()? } else { pieces.feed(&chunk)? };
            for data in data.iter().map(|data| data.trim()).filter(|data| !data.is_empty()) {
                if data == DONE {
                    return draft.finish();
                }
                let data: Value = serde_json::from_str(data).map_err(|error| Trouble::garbled(error.to_string()))?;
                let piece = (self.target.wire.take)(&mut draft, &data).map_err(|trouble| self.hidden(trouble))?;
                piece.iter().for_each(|piece| said(piece));
            }
            if is_last {
                return draft.finish();
            }
        }
    }

    async fn refused(&self, status: StatusCode, mut response: Response) -> Trouble {
        let retry_after = retry_after(response.headers());
        let mut bytes = Vec::new();
        while let Ok(Ok(Some(chunk))) = self.unless_silent(response.chunk()).await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ERROR_BYTES {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match self.hidden(Trouble::status(status.as_u16(), &reason(&text))) {
            Trouble::Status { status, message, .. } => Trouble::Status { status, message, retry_after },
            other => other,
        }
    }

    fn hidden(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Status { status, message, retry_after } => {
                Trouble::Status { status, message: self.target.without_key(&message), retry_after }
            }
            other => other,
        }
    }

    async fn unless_silent<T>(&self, future: impl Future<Output = T>) -> Result<T, Trouble> {
        tokio::time::timeout(self.silence, future).await.map_err(|_| Trouble::Silent(self.silence))
    }
}

/// Cuts what comes into pieces that are JSON each.
enum Pieces {
    Events(sse::Parser),
    Lines(Vec<u8>),
    Whole(Vec<u8>),
}

impl Pieces {
    /// By what the answer says it is; some who are asked for a stream answer at once.
    fn of(response: &Response) -> Pieces {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Pieces::Events(sse::Parser::default()),
            "application/json" => Pieces::Whole(Vec::new()),
            _ => Pieces::Lines(Vec::new()),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, Trouble> {
        match self {
            Pieces::Events(parser) => {
                let events = parser.feed(bytes).map_err(|error| Trouble::garbled(error.to_string()))?;
                Ok(events.into_iter().map(|event| event.data).collect())
            }
            Pieces::Lines(waiting) => {
                waiting.extend_from_slice(bytes);
                let end = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let lines: Vec<u8> = waiting.drain(..end).collect();
                Ok(String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect())
            }
            Pieces::Whole(waiting) => {
                waiting.extend_from_slice(bytes);
                Ok(Vec::new())
            }
        }
    }

    /// What is left when nothing more comes. Not everybody ends the last piece.
    fn rest(&mut self) -> Result<Vec<String>, Trouble> {
        match self {
            Pieces::Events(_) => self.feed(b"\n\n"),
            Pieces::Lines(_) => self.feed(b"\n"),
            Pieces::Whole(waiting) => Ok(vec![String::from_utf8_lossy(waiting).into_owned()]),
        }
    }
}

/// What an error says, wherever the provider puts it.
fn reason(body: &str) -> String {
    let Ok(told) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    let told = if told.is_array() { told[0].clone() } else { told };
    let error = &told["error"];
    let message = error["message"].as_str().or(error.as_str()).or(told["message"].as_str());
    // The code tells apart what the words may not.
    match (message, error["code"].as_str()) {
        (Some(message), Some(code)) if !message.contains(code) => format!("{message} ({code})"),
        (Some(message), _) => message.to_owned(),
        (None, _) => body.to_owned(),
    }
}

/// How long nobody should ask: in milliseconds, in seconds, or until a time, which is held against the provider's own clock.
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

fn is_here(target: &Target) -> bool {
    let url = target.url();
    url.and_then(|url| url.host_str().map(str::to_owned)).is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// An error with what is behind it, which is what tells anything, and without the address, which may have a key in it.
fn told(error: &reqwest::Error) -> String {
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
    fn when_to_ask_again_is_said_in_many_ways() {
        let asked = |all: &[(&'static str, &'static str)]| retry_after(&headers(all));
        assert_eq!(asked(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(asked(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(asked(&[("retry-after", "7"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        let (now, then) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:29:30 GMT");
        assert_eq!(asked(&[("date", now), ("retry-after", then)]), Some(Duration::from_secs(90)));
        assert_eq!(asked(&[("date", then), ("retry-after", now)]), Some(Duration::ZERO));
        for nothing in [&[][..], &[("retry-after", "soon")], &[("retry-after", "-1")], &[("retry-after", then)]] {
            assert_eq!(asked(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn an_error_is_read_wherever_it_stands() {
        for (body, told) in [
            (r#"{"type":"error","error":{"type":"x","message":"no"}}"#, "no"),
            (r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#, "no money (insufficient_quota)"),
            (r#"[{"error":{"code":429,"message":"slow down","status":"X"}}]"#, "slow down"),
            (r#"{"error":"model not found"}"#, "model not found"),
            (r#"{"message":"Not Found"}"#, "Not Found"),
            ("<html>", "<html>"),
        ] {
            assert_eq!(reason(body), told);
        }
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_end() {
        let text = "{\"a\":\"ü\"}\n{\"b\":1}\n{\"c\":2}";
        for size in 1..=text.len() {
            let mut pieces = Pieces::Lines(Vec::new());
            let mut all: Vec<String> =
                text.as_bytes().chunks(size).flat_map(|chunk| pieces.feed(chunk).unwrap()).collect();
            all.extend(pieces.rest().unwrap());
            assert_eq!(all, ["{\"a\":\"ü\"}", "{\"b\":1}", "{\"c\":2}"], "chunks of {size}");
        }
    }
}
