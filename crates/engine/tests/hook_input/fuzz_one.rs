//! The fuzz target for incoming webhooks, run by `cargo xtask fuzz hook_input`.
//!
//! An input is a signature header, a line break, and a body.

use std::task::{Context, Poll, Waker};

use rookery_core::Timestamp;
use rookery_engine::adapters::{Adapter, Hook, InboundError, Mapping, Raw, Scheme, Secret, Source, seal};
use serde_json::{Map, Value};

const SECRET: &str = "a secret that the fuzzer does not know";
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Panics if the reader does, if it accepts a body with a foreign signature, or if it rejects a signed body that
/// matches
/// the hook.
pub fn fuzz_one(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (signature, body) =
        (String::from_utf8_lossy(&data[..end]).into_owned(), data.get(end + 1..).unwrap_or_default());
    for scheme in [Scheme::Rookery, Scheme::Github] {
        let rejected = read(scheme, &signature, body);
        assert!(matches!(rejected, Err(InboundError::Signature(_))), "the body is not signed: {rejected:?}");
    }
    let signature = format!("{signature},t=1800000000,v1={}", seal(SECRET.as_bytes(), 1_800_000_000, body));
    match read(Scheme::Rookery, &signature, body) {
        Ok(envelopes) => {
            assert_eq!(envelopes.len(), 1);
            check_envelope(&envelopes[0], body);
        }
        Err(InboundError::Json(_)) => assert!(serde_json::from_slice::<Value>(body).is_err()),
        // A second time or signature in the header is ambiguous, and a body may lack what the hook needs.
        Err(InboundError::Signature(_) | InboundError::Gap(_) | InboundError::NotMeant(_)) => {}
    }
}

fn check_envelope(envelope: &Map<String, Value>, body: &[u8]) {
    let text = |field: &str| envelope[field].as_str().unwrap_or_default().to_owned();
    assert!(text("id").starts_with("hook_ci_") && text("idempotency_key").starts_with("hook:ci:"), "{envelope:?}");
    assert_eq!(envelope["from"]["agent_id"], "agent:ci", "a body does not choose its sender");
    let json: Value = serde_json::from_slice(body).expect("only JSON is taken");
    assert!(json.pointer("/to").is_some(), "{json}");
}

fn read(scheme: Scheme, signature: &str, body: &[u8]) -> Result<Vec<Map<String, Value>>, InboundError> {
    let header = |name: &str| name.ends_with("-signature").then(|| signature.to_owned());
    let header_256 = |name: &str| header(name.trim_end_matches("-256"));
    let hook = hook(scheme);
    let mut reading = hook.inbound(Raw { body, header: &header_256, at: NOW });
    match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => read,
        Poll::Pending => panic!("a hook reads what it has"),
    }
}

fn hook(scheme: Scheme) -> Hook {
    let sources = |all: &[(&'static str, &str)]| all.iter().map(|(field, from)| (*field, Source::read(from))).collect();
    let owned =
        |all: &[(&str, &str)]| all.iter().map(|(field, from)| ((*field).to_owned(), Source::read(from))).collect();
    Hook {
        name: "ci".to_owned(),
        secret: Secret::new(SECRET).expect("a secret"),
        scheme,
        from: "ci".into(),
        delivery: None,
        mapping: Mapping {
            when: vec![(Source::read("/action"), vec!["opened".to_owned(), "closed".to_owned()])],
            texts: sources(&[("type", "text:task.request"), ("task_id", "/task")]),
            to: vec![Source::read("/to")],
            payload: Some(owned(&[("title", "/title"), ("all", "/")])),
            deadline: Some(Source::read("/deadline")),
            limits: owned(&[("max_tokens", "/limit")]),
            attachments: vec![Source::read("/files")],
            ..Mapping::default()
        },
    }
}
