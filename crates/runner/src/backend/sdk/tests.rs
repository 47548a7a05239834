//! The agent loop with a scripted model, over every API.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rookery_client::{Address, Client, Proof, SessionIssuer, Tools};
use rookery_core::kernel::instance::Instance;
use rookery_testkit::model::{ModelServer, Script};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::backend::{Daemon, Environment, Provider as ModelProvider, Secret};
use crate::file::Sandbox;
use crate::testing;

/// Identifies a script: the key if the provider has keys, otherwise the model.
const KEY: &str = "scripted";
const INTERFACES: [&str; 5] = ["anthropic", "openai", "google", "ollama", "somebody"];

/// Runs a test over every API, concurrently because some wait.
async fn everywhere(test: impl AsyncFn(&'static str)) {
    join_all(INTERFACES.iter().map(|provider| test(provider))).await;
}

fn quick() -> ModelRetryPolicy {
    let (first, most) = (Duration::from_millis(1), Duration::from_secs(2));
    ModelRetryPolicy { attempts: 4, first, most, silence: Duration::from_secs(2) }
}

fn seat(folder: &Path, url: &str, provider: &str) -> Seat {
    let address = Address { url: "http://127.0.0.1:9".to_owned(), socket: None, project: "none".to_owned() };
    let client = Client::new(address, Proof::Nothing).unwrap();
    let (project, state) = (folder.join("project"), folder.join("state"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&state).unwrap();
    Seat {
        id: "a@pr-1".into(),
        name: "a".to_owned(),
        instance: Instance::new("pr-1"),
        generation: 1,
        folder: project.clone(),
        project,
        state,
        tools: Tools::new(client, None),
        session: SessionIssuer::new("key", "helper".into(), None),
        daemon: Daemon { url: String::new(), socket: None },
        env: Environment::default(),
        model: Some(format!("{provider}/{KEY}")),
        allowed: Some(vec!["read".to_owned(), "edit".to_owned()]),
        sandbox: Sandbox::Off,
        program: "rookery".into(),
        records: folder.join("records"),
        max_tokens: None,
        provider: ModelProvider { base_url: Some(url.to_owned()), api_key: Some(Secret(KEY.to_owned())) },
        variables: Arc::new(testing::ready("agents: {a: {backend: claude}}\nkickoff: '@a'\n").variables),
    }
}

/// An agent with its model server.
struct SdkAgent {
    folder: tempfile::TempDir,
    server: ModelServer,
    provider: &'static str,
    sdk: Sdk,
}

impl SdkAgent {
    async fn new(provider: &'static str, script: Script) -> SdkAgent {
        SdkAgent::with(provider, script, |_| {}).await
    }

    async fn with(provider: &'static str, script: Script, change: impl FnOnce(&mut Seat)) -> SdkAgent {
        let server = ModelServer::start([(KEY, script)]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut seat = seat(folder.path(), server.url(), provider);
        change(&mut seat);
        let sdk = Sdk::with_retry_policy(&named_key(), &seat, quick()).unwrap();
        SdkAgent { folder, server, provider, sdk }
    }

    /// Restarts the agent, as after a restart of the runner.
    fn restart(&mut self) {
        let seat = seat(self.folder.path(), self.server.url(), self.provider);
        self.sdk = Sdk::with_retry_policy(&named_key(), &seat, quick()).unwrap();
    }

    async fn turn(&self, turn: &Turn) -> (BackendOutcome, Vec<BackendEvent>) {
        let (events, heard) = Events::with_capacity(1000);
        let ended = self.sdk.turn(turn, &events).await;
        drop(events);
        (ended, all(heard))
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("project").join(name)
    }
}

fn named_key() -> Provider {
    let agent = testing::agent("model: somebody/m\nprovider: {base_url: 'http://x', api_key: $MODEL_KEY}");
    match agent.backend {
        crate::file::Backend::Sdk { provider, .. } => provider,
        other => panic!("{other:?}"),
    }
}

fn all(mut heard: Receiver<BackendEvent>) -> Vec<BackendEvent> {
    std::iter::from_fn(|| heard.try_recv().ok()).collect()
}

fn turn(id: &str, conversation: Option<&str>) -> Turn {
    Turn {
        id: id.to_owned(),
        attempt: 1,
        repeats: vec![],
        system: "You are a.".to_owned(),
        prompt: format!("This is {id}."),
        inbox: vec![],
        conversation: conversation.map(str::to_owned),
        timeout: Duration::from_secs(30),
        cancel: CancellationToken::new(),
    }
}

fn notes(events: &[BackendEvent]) -> String {
    let note = |event: &BackendEvent| match event {
        BackendEvent::Note(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(note).collect::<Vec<_>>().join("\n")
}

fn failure(ended: &BackendOutcome) -> &Failure {
    match &ended.verdict {
        TurnVerdict::Failed(failure) => failure,
        done => panic!("{done:?}"),
    }
}

fn said(ended: &BackendOutcome) -> Option<&str> {
    match &ended.verdict {
        TurnVerdict::Done { said, .. } => said.as_deref(),
        failed => panic!("{failed:?}"),
    }
}

#[tokio::test]
async fn model_reads_edits_and_answers_over_every_api() {
    everywhere(async |provider| {
        let agent = SdkAgent::new(provider, scripted()).await;
        fs::write(agent.file("a.txt"), "one\n").unwrap();
        let (ended, events) = agent.turn(&turn("turn_1", None)).await;
        assert_eq!(said(&ended), Some("Done, as you wished."), "{provider}");
        assert!(matches!(ended.verdict, TurnVerdict::Done { worked: true, .. }));
        assert_eq!(fs::read_to_string(agent.file("a.txt")).unwrap(), "two\n", "{provider}");
        agent.server.check_finished(KEY).unwrap();
        let usage = Usage { input_tokens: 40, output_tokens: 20, cost_usd: None };
        assert_eq!((ended.usage, ended.conversation.as_deref()), (usage, Some("turn_1")), "{provider}");
        assert!(events.contains(&BackendEvent::Used(usage)), "{provider}: {events:?}");
        let lines = events.iter().filter_map(|event| match event {
            BackendEvent::Said(line) => Some(line.as_str()),
            _ => None,
        });
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines, ["Let me look.", "At both.", "Done, as you wished."], "{provider} tells whole lines");
        let failed = events.iter().filter(|event| matches!(event, BackendEvent::ToolFailed { .. })).count();
        assert_eq!(failed, 2, "{provider}: {events:?}");
        let asked = agent.server.requests(KEY);
        assert_eq!((asked[0].system.as_str(), asked[0].model.as_str()), ("You are a.", KEY), "{provider}");
        let names: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["edit", "read"], "{provider}");
        assert_eq!(asked[1].results[0].texts, ["one\n"], "{provider}");
        assert!(asked[3].results[3].texts[0].contains("not JSON") || asked[3].results[3].texts[0].contains("object"));
        let transcript = fs::read_to_string(ended.transcript.unwrap()).unwrap();
        assert_eq!(transcript.lines().count(), 8, "{transcript}");
    })
    .await;
}

fn scripted() -> Script {
    let both = [("read", json!({"path": "a.txt"})), ("read", json!({"path": "none.txt"}))];
    Script::new()
        .call_all("Let me look.\nAt both.", both)
        .call("edit", |story| {
            let text = story.result("read")?;
            anyhow::ensure!(text.as_str().unwrap_or_default().contains("no file none.txt"), "{text}");
            Ok(json!({"path": "a.txt", "old": "one", "new": "two"}))
        })
        .call_broken("edit", r#"{"path": "a.t"#)
        .say("Done, as you wished.")
}

#[tokio::test]
async fn temporary_errors_are_retried_over_every_api() {
    everywhere(async |provider| {
        let script = Script::new().fail(500, "sorry").cut().stall().limit(0).hang().fail(529, "full").say("here");
        let agent = SdkAgent::with(provider, script, |_| {}).await;
        // Four attempts are too few for six faults, so the second turn gets the rest.
        let (first, events) = agent.turn(&turn("turn_1", None)).await;
        let notes = notes(&events);
        assert!(notes.contains("500: sorry") && notes.contains("cut off") && notes.contains("nothing came"), "{notes}");
        assert_eq!(failure(&first).why, Why::Limited { retry_after: Duration::ZERO }, "{provider}");
        let (second, _) = agent.turn(&turn("turn_2", None)).await;
        assert_eq!(said(&second), Some("here"), "{provider}");
        agent.server.check_finished(KEY).unwrap();
        assert_eq!(agent.server.requests(KEY).len(), 7, "{provider}");
    })
    .await;
}

#[tokio::test]
async fn provider_that_wants_a_long_pause_limits_the_account() {
    everywhere(async |provider| {
        let agent = SdkAgent::new(provider, Script::new().limit(90).say("later")).await;
        let (ended, _) = agent.turn(&turn("turn_1", None)).await;
        assert_eq!(failure(&ended).why, Why::Limited { retry_after: Duration::from_secs(90) }, "{provider}");
        assert_eq!(agent.server.requests(KEY).len(), 1, "it is not asked again meanwhile");
    })
    .await;
}

#[tokio::test]
async fn permanent_errors_are_not_retried_and_have_a_hint() {
    everywhere(async |provider| {
        for (status, hint) in [(401, "MODEL_KEY"), (403, "MODEL_KEY"), (404, KEY), (402, "nothing left to spend")] {
            let agent = SdkAgent::new(provider, Script::new().fail_for_good(status, "no, because of scripted")).await;
            let (ended, _) = agent.turn(&turn("turn_1", None)).await;
            let failure = failure(&ended);
            assert_eq!(failure.why, Why::Hopeless, "{provider} {status}: {failure:?}");
            assert!(failure.hint.as_ref().unwrap().contains(hint), "{provider} {status}: {failure:?}");
            assert!(failure.reason.contains("no, because of …"), "the key is not repeated: {}", failure.reason);
            assert_eq!(agent.server.requests(KEY).len(), 1);
        }
        let agent = SdkAgent::new(provider, Script::new().fail_for_good(500, "sorry")).await;
        let (ended, _) = agent.turn(&turn("turn_1", None)).await;
        assert_eq!(failure(&ended).why, Why::Fault, "{provider}");
        assert_eq!(agent.server.requests(KEY).len(), 4);
    })
    .await;
}

#[tokio::test]
async fn unreachable_provider_is_a_fault_that_names_the_address() {
    let agent = SdkAgent::with("ollama", Script::new(), |seat| {
        seat.provider.base_url = Some("http://127.0.0.1:9".to_owned());
    })
    .await;
    let (ended, events) = agent.turn(&turn("turn_1", None)).await;
    let failure = failure(&ended);
    assert_eq!(failure.why, Why::Fault);
    assert!(failure.hint.as_ref().unwrap().contains("http://127.0.0.1:9"), "{failure:?}");
    assert_eq!(notes(&events).matches("asking again").count(), 3);
}

#[tokio::test]
async fn turn_stops_at_once_on_cancel_and_on_timeout() {
    everywhere(async |provider| {
        let agent = SdkAgent::with(provider, Script::new().stall().stall(), |_| {}).await;
        let cancelled = turn("turn_1", None);
        let cancel = cancelled.cancel.clone();
        let (events, mut heard) = Events::with_capacity(100);
        // As soon as a text arrives.
        let ask = async {
            while let Some(event) = heard.recv().await {
                if matches!(event, BackendEvent::Said(_)) {
                    cancel.cancel();
                }
            }
        };
        let ended = tokio::select! {
            ended = agent.sdk.turn(&cancelled, &events) => ended,
            () = ask => unreachable!(),
        };
        assert_eq!(failure(&ended).why, Why::Cancelled, "{provider}");
        let short = Turn { timeout: Duration::from_millis(20), ..turn("turn_2", None) };
        assert_eq!(failure(&agent.turn(&short).await.0).why, Why::TimedOut, "{provider}");
    })
    .await;
}

#[tokio::test]
async fn conversation_resumes_after_a_restart() {
    everywhere(async |provider| {
        let script = Script::new()
            .call("read", |_| Ok(json!({"path": "a.txt"})))
            .say("It says one.")
            .say("As I said, one.")
            .say("Who are you?");
        let mut agent = SdkAgent::new(provider, script).await;
        fs::write(agent.file("a.txt"), "one\n").unwrap();
        let (first, _) = agent.turn(&turn("turn_1", None)).await;
        assert_eq!(said(&first), Some("It says one."));
        agent.restart();
        let (second, events) = agent.turn(&turn("turn_2", first.conversation.as_deref())).await;
        assert_eq!((said(&second), notes(&events)), (Some("As I said, one."), String::new()), "{provider}");
        let asked = agent.server.requests(KEY).pop().unwrap();
        assert_eq!((asked.said.join(" "), asked.results.len()), ("It says one.".to_owned(), 1), "{provider}");
        // A crash during a write keeps the old file; a damaged one is reported all the same.
        let file = agent.folder.path().join("state/conversation.json");
        let kept = fs::read(&file).unwrap();
        fs::write(&file, &kept[..kept.len() / 2]).unwrap();
        agent.restart();
        let (third, events) = agent.turn(&turn("turn_3", second.conversation.as_deref())).await;
        assert!(notes(&events).contains("damaged"), "{events:?}");
        assert_eq!(third.conversation.as_deref(), Some("turn_3"), "{provider}");
        assert!(agent.server.requests(KEY).pop().unwrap().said.is_empty(), "{provider}");
    })
    .await;
}

#[tokio::test]
async fn failed_turn_leaves_no_trace_in_the_conversation() {
    let script =
        Script::new().say("one").call("read", |_| Ok(json!({"path": "a.txt"}))).fail_for_good(404, "the model is gone");
    let agent = SdkAgent::new("openai", script).await;
    let (first, _) = agent.turn(&turn("turn_1", None)).await;
    let file = agent.folder.path().join("state/conversation.json");
    let kept = fs::read(&file).unwrap();
    let (second, _) = agent.turn(&turn("turn_2", first.conversation.as_deref())).await;
    assert_eq!(failure(&second).why, Why::Hopeless);
    assert_eq!((fs::read(&file).unwrap(), second.conversation), (kept, first.conversation));
    assert_eq!(second.usage.input_tokens, 10, "what was used is counted all the same");
}

#[tokio::test]
async fn rejected_request_is_retried_without_earlier_turns() {
    everywhere(async |provider| {
        let script = Script::new().say("one").fail(400, "prompt is too long").say("again one");
        let agent = SdkAgent::new(provider, script).await;
        let (first, _) = agent.turn(&turn("turn_1", None)).await;
        let (second, events) = agent.turn(&turn("turn_2", first.conversation.as_deref())).await;
        // Without the earlier messages, the script starts again.
        assert_eq!(said(&second), Some("one"), "{provider}");
        assert!(notes(&events).contains("without the messages of earlier turns"), "{events:?}");
        let agent = SdkAgent::new(provider, Script::new().fail(400, "prompt is too long").say("x")).await;
        let (ended, _) = agent.turn(&turn("turn_1", None)).await;
        assert_eq!(failure(&ended).why, Why::Fault, "{provider}: there is nothing to leave out");
    })
    .await;
}

#[tokio::test]
async fn third_attempt_starts_a_new_conversation() {
    let agent = SdkAgent::new("openai", Script::new().say("one").say("two")).await;
    let (first, _) = agent.turn(&turn("turn_1", None)).await;
    let third = Turn { attempt: 3, ..turn("turn_4", first.conversation.as_deref()) };
    let (ended, _) = agent.turn(&third).await;
    assert_eq!((said(&ended), ended.conversation.as_deref()), (Some("one"), Some("turn_4")));
}

#[tokio::test]
async fn long_answer_fits_into_a_message() {
    let agent = SdkAgent::new("openai", Script::new().say("x".repeat(limit::TEXT_BYTES + 1))).await;
    let (ended, _) = agent.turn(&turn("turn_1", None)).await;
    let said = said(&ended).unwrap();
    assert!(said.len() < limit::TEXT_BYTES && said.contains("bytes left out"), "{}", said.len());
}

#[tokio::test]
async fn answer_limit_is_sent_in_the_form_of_each_api() {
    for (provider, place) in [
        ("anthropic", "/max_tokens"),
        ("openai", "/max_completion_tokens"),
        ("google", "/generationConfig/maxOutputTokens"),
        ("ollama", "/options/num_predict"),
        ("somebody", "/max_tokens"),
    ] {
        let agent = SdkAgent::with(provider, Script::new().say("x"), |seat| seat.max_tokens = Some(77)).await;
        agent.turn(&turn("turn_1", None)).await;
        assert_eq!(agent.server.requests(KEY)[0].body.pointer(place), Some(&json!(77)), "{provider}");
    }
}

#[tokio::test]
async fn signature_of_google_is_sent_back() {
    let agent = SdkAgent::new("google", Script::new().call("read", |_| Ok(json!({"path": "x"}))).say("x")).await;
    agent.turn(&turn("turn_1", None)).await;
    let asked = agent.server.requests(KEY).pop().unwrap();
    let part = asked.body.pointer("/contents/1/parts/0").unwrap();
    assert_eq!(part["thoughtSignature"], "signed call_0_0", "{part}");
}

#[tokio::test]
async fn endless_turn_is_stopped_after_the_maximum_of_requests() {
    let script = Script::new().call_until("read", |_| Ok(json!({"path": "x"})), |_: &Value| false);
    let agent = SdkAgent::new("openai", script).await;
    let (ended, _) = agent.turn(&turn("turn_1", None)).await;
    assert!(failure(&ended).reason.contains("60 times"), "{ended:?}");
    assert_eq!(agent.server.requests(KEY).len(), MAX_REQUESTS);
}

#[tokio::test]
async fn empty_answer_counts_as_no_work() {
    let agent = SdkAgent::new("openai", Script::new().say("")).await;
    let (ended, _) = agent.turn(&turn("turn_1", None)).await;
    assert_eq!(ended.verdict, TurnVerdict::Done { said: None, worked: false });
}

#[tokio::test]
async fn missing_key_prevents_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut seat = seat(folder.path(), "http://127.0.0.1:9", "openai");
    seat.provider.api_key = None;
    let failure = Sdk::new(&named_key(), &seat).unwrap_err();
    assert!(failure.why == Why::Hopeless && failure.hint.unwrap().contains("MODEL_KEY"));
    seat.provider = ModelProvider::default();
    let failure = Sdk::new(&Provider::default(), &seat).unwrap_err();
    assert!(failure.hint.unwrap().contains("OPENAI_API_KEY"));
    seat.env.0.insert("OPENAI_API_KEY".to_owned(), "k".to_owned());
    assert!(Sdk::new(&Provider::default(), &seat).is_ok());
}
