//! Clutch: envelopes posted to the gateway, which names their sender; the gateway's own calls where no envelope type does it.

use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, read};
use serde_json::{Value, json};

use super::{Lacks, times};
use crate::act::{Act, AgentCall, Call, MessageCall, NewTask, TaskCall, Who};
use crate::answer::Answer;
use crate::scene::{Scene, Stage};

#[derive(Debug)]
pub enum Request {
    Envelope(Value),
    /// A call of the gateway that is no message.
    Gateway(Method, String, Option<Value>),
}

/// The id of the envelope that performs the act of a scene.
pub fn message_id(scene: &Scene) -> String {
    scene.unique("message")
}

/// An envelope about the scene's task. It is addressed to a person, because nothing is routed then.
pub fn envelope(scene: &Scene, id: &str, kind: &str, from: Who, payload: Value) -> Value {
    json!({
        "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z",
        "thread_id": scene.thread, "run_id": scene.run, "task_id": scene.task,
        "from": {"agent_id": scene.name(from)}, "to": [{"agent_id": "person:anna"}],
        "type": kind, "payload": payload,
    })
}

pub fn card(agent: &str, capability: &str) -> Value {
    json!({
        "v": "clutch/0.1", "agent_id": format!("agent:{agent}"), "capabilities": [{"id": format!("skill:{capability}")}],
    })
}

pub fn request(act: &Act, scene: &Scene) -> Result<Request, Lacks> {
    match act.call {
        Call::Task(call) => task(call, act.by, scene),
        Call::Agent(call) => agent(call, act.by, scene),
        Call::File(_) => Err(Lacks("no type is about files")),
        Call::Handoff(_) => Err(Lacks("no type is about handoffs")),
        Call::Message(call) => message(call, act.by, scene),
    }
}

fn task(call: TaskCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    let send =
        |kind: &str, payload: Value| Ok(Request::Envelope(envelope(scene, &message_id(scene), kind, by, payload)));
    match call {
        TaskCall::Start => send("task.accept", json!({})),
        TaskCall::Complete | TaskCall::CompleteTwice => send("task.result", json!({"title": "well"})),
        TaskCall::CompleteWithoutOutcome => send("task.result", json!({})),
        TaskCall::Fail => send("task.error", json!({"message": "broke", "retryable": false})),
        TaskCall::FailWithoutError => send("task.error", json!({"retryable": false})),
        TaskCall::FailRetryable => send("task.error", json!({"message": "broke", "retryable": true})),
        TaskCall::Cancel => send("task.cancel", json!({"reason": "enough"})),
        TaskCall::Create(new) => create(new, by, scene),
        TaskCall::Reopen => {
            let path = format!("/clutch/v0/runs/{}/retry", scene.run);
            Ok(Request::Gateway(Method::POST, path, Some(json!({"task_id": scene.task}))))
        }
        TaskCall::Claim => Err(Lacks("task.accept claims and starts at once; see the start acts")),
        TaskCall::Pause | TaskCall::PauseForInput | TaskCall::Review | TaskCall::Plan => {
            Err(Lacks("no type pauses a task, sends it to review or plans it"))
        }
        TaskCall::Release | TaskCall::SetPending => Err(Lacks("no type gives a task back")),
        TaskCall::Retry => Err(Lacks("the retry of a run reopens tasks; see the reopen acts")),
        TaskCall::Skip => Err(Lacks("no type skips a task; task.cancel is the nearest")),
        TaskCall::Assign(_) => Err(Lacks("no type assigns a task; task.request names recipients")),
        TaskCall::AddCheckpoint => Err(Lacks("no type adds a checkpoint")),
        TaskCall::SetPlan => Err(Lacks("no type sets the plan of a task")),
    }
}

/// A request opens its own run.
fn create(new: NewTask, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    let payload = match new {
        NewTask::Plain => json!({"title": scene.unique("new")}),
        NewTask::Untitled => json!({}),
        NewTask::ReservedFor(_) => return Err(Lacks("a request to an agent is offered by the router, after the act")),
        NewTask::DependingOnTask | NewTask::DependingOnUnknown => return Err(Lacks("a request names no dependencies")),
    };
    let mut request = envelope(scene, &message_id(scene), "task.request", by, payload);
    request["task_id"] = json!(scene.unique("new"));
    request["run_id"] = json!(scene.unique("run"));
    request["thread_id"] = json!(scene.unique("thr"));
    Ok(Request::Envelope(request))
}

fn agent(call: AgentCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    let send = |kind: &str, payload: Value| {
        let mut envelope = envelope(scene, &message_id(scene), kind, by, payload);
        envelope["task_id"] = json!(scene.unique("task"));
        Ok(Request::Envelope(envelope))
    };
    let heartbeat = |of: Who, payload: Value| match of == by {
        true => send("agent.heartbeat", payload),
        false => Err(Lacks("a heartbeat is about its sender alone")),
    };
    match call {
        AgentCall::Register => send("agent.register", card(&scene.name(by), "code")),
        AgentCall::RegisterWithOtherCapability => send("agent.register", card(&scene.name(by), "rust")),
        AgentCall::RegisterAs(other) => send("agent.register", card(&scene.name(other), "code")),
        AgentCall::RegisterWithNameOf(_) => Err(Lacks("a card has no name beside the agent's id")),
        AgentCall::SetWorkspacePath => Err(Lacks("a card has no workspace path")),
        AgentCall::UpdateCapabilities => send("agent.update", card(&scene.name(by), "rust")),
        AgentCall::SetWorking(of) => heartbeat(of, json!({"status": "working"})),
        AgentCall::SetIdle(of) => heartbeat(of, json!({"status": "idle"})),
        AgentCall::SetBlocked(of) => heartbeat(of, json!({"status": "blocked"})),
        AgentCall::SetWorkingOnTask(of) => heartbeat(of, json!({"status": "working", "current_task_id": scene.task})),
        AgentCall::Heartbeat => send("agent.heartbeat", json!({})),
        AgentCall::Leave(who) => {
            Ok(Request::Gateway(Method::DELETE, format!("/clutch/v0/agents/{}", scene.name(who)), None))
        }
        AgentCall::Pause(_) | AgentCall::Resume(_) => Err(Lacks("no type pauses or resumes an agent")),
    }
}

fn message(call: MessageCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    match call {
        MessageCall::SayMentioning(who) => {
            let name = scene.name(who);
            let payload = json!({"text": format!("hi @{name}"), "mentions": [name]});
            let mut envelope = envelope(scene, &message_id(scene), "chat.message", by, payload);
            envelope["task_id"] = json!(scene.unique("task"));
            envelope["to"] = json!([{"agent_id": name}]);
            Ok(Request::Envelope(envelope))
        }
        MessageCall::Direct(_) => Err(Lacks("a chat.message belongs to its thread's channel")),
        MessageCall::Publish(_) => Err(Lacks("no type is a coordination message")),
    }
}

pub async fn send(stage: &Stage, scene: &Scene, act: &Act, request: Request) -> Answer {
    let (method, path, body, is_gateway_call) = match request {
        Request::Envelope(envelope) => (Method::POST, "/clutch/v0/messages".to_owned(), Some(envelope), false),
        Request::Gateway(method, path, body) => (method, path, body, true),
    };
    let once = async || {
        let mut sent = stage.daemon.request(method.clone(), &path);
        sent = match act.by {
            Who::Person => sent.bearer_auth(&stage.person_key),
            // An envelope names its sender itself.
            _ if !is_gateway_call => sent,
            Who::Ada | Who::Ben | Who::Lead | Who::Stranger => sent.header("x-agent-id", scene.name(act.by)),
        };
        read(body.iter().fold(sent, |sent, body| sent.json(body))).await.unwrap()
    };
    let mut reply = once().await;
    for _ in 1..times(act) {
        reply = once().await;
    }
    answer(&reply)
}

fn answer(reply: &HttpReply) -> Answer {
    let status = reply.status.as_u16();
    if reply.status.is_success() {
        let duplicate = reply.body["results"][0]["duplicate"] == Value::Bool(true);
        return Answer::done(if duplicate { format!("{status} duplicate") } else { status.to_string() });
    }
    match reply.body["details"]["pointer"].as_str() {
        Some(pointer) => Answer::rejected(format!("{status} at {pointer}"), &reply.body),
        None => Answer::rejected(status.to_string(), &reply.body),
    }
}
