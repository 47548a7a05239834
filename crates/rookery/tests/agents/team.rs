//! Two programs of different makes work as one team.

use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::foreign::Ended;
use rookery_testkit::model::{ModelServer, Script};
use serde_json::json;

use crate::programs::{Agent, Way, claude, codex};

fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

async fn task(daemon: &Daemon) -> String {
    let body = json!({"title": "work", "assigned_by": "somebody"});
    let reply = daemon.post("/tasks", body).await.unwrap();
    reply.body["id"].as_str().unwrap().to_owned()
}

fn script(name: &'static str, other: &'static str, task: String) -> Script {
    let done = task.clone();
    Script::new()
        .call("agent_register", move |_| Ok(json!({"name": name, "runtime": name})))
        .call_until("agent_list", |_| Ok(json!({})), move |list| list.to_string().contains(other))
        .call("task_claim", move |_| Ok(json!({"task_id": task})))
        .call("task_update_status", move |_| Ok(json!({"id": done, "status": "completed", "outcome": "it works"})))
        .say("done")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smoke() {
    let daemon = setup().start().unwrap();
    let (first, second) = (task(&daemon).await, task(&daemon).await);
    let model = ModelServer::start([
        ("claude", script("claude", "codex", first)),
        ("codex", script("codex", "claude", second)),
    ])
    .await
    .unwrap();
    let (a, b) = tokio::join!(
        claude(Agent { id: "claude", way: Way::Http }, &daemon, &model, "go"),
        codex(Agent { id: "codex", way: Way::Bridge }, &daemon, &model, "go")
    );
    for ended in [a, b] {
        eprintln!("{:?}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
    }
    for key in ["claude", "codex"] {
        for asked in model.asked(key) {
            eprintln!("{key}: {:?} {:?}", asked.results.last(), asked.tools.len());
        }
        model.ended(key).unwrap();
    }
}
