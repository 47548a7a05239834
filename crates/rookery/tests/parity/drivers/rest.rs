//! REST: the agent is named by header and in the body, a person by the project's key.

use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, read};
use serde_json::{Value, json};

use super::{Lacks, times};
use crate::act::{Act, AgentCall, Call, FileCall, HandoffCall, MessageCall, NewTask, TaskCall, Who};
use crate::answer::{Answer, refusal_flag};
use crate::scene::{Scene, Stage};

#[derive(Debug)]
pub struct Request {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Request {
    fn new(method: Method, path: impl Into<String>, body: Value) -> Request {
        Request { method, path: path.into(), body: Some(body) }
    }

    fn post(path: impl Into<String>, body: Value) -> Request {
        Request::new(Method::POST, path, body)
    }

    fn patch(path: impl Into<String>, body: Value) -> Request {
        Request::new(Method::PATCH, path, body)
    }
}

pub fn request(act: &Act, scene: &Scene) -> Result<Request, Lacks> {
    match act.call {
        Call::Task(call) => task(call, act.by, scene),
        Call::Agent(call) => agent(call, act.by, scene),
        Call::File(call) => Ok(file(call, act.by, scene)),
        Call::Handoff(call) => Ok(handoff(call, act.by, scene)),
        Call::Message(call) => message(call, act.by, scene),
    }
}

fn task(call: TaskCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    let path = format!("/tasks/{}", scene.task);
    let status = |status: &str| json!({"status": status, "agent_id": scene.agent(by)});
    let with = |mut body: Value, field: &str, value: Value| {
        body[field] = value;
        body
    };
    let change = match call {
        TaskCall::Claim => status("assigned"),
        TaskCall::Start => status("in_progress"),
        TaskCall::Complete | TaskCall::CompleteTwice => {
            let detail = with(status("done"), "outcome_detail", json!({"title": "well"}));
            with(detail, "outcome", json!("well"))
        }
        TaskCall::CompleteWithoutOutcome => status("done"),
        TaskCall::Fail => with(status("failed"), "reason", json!("broke")),
        TaskCall::FailWithoutError => status("failed"),
        TaskCall::Pause => with(status("blocked"), "reason", json!("lunch")),
        TaskCall::Review => status("review"),
        TaskCall::Release | TaskCall::SetPending => with(status("queued"), "reason", json!("not mine")),
        TaskCall::Retry => return Ok(Request::post(format!("{path}/retry"), json!({}))),
        TaskCall::Cancel => return Ok(Request::post(format!("{path}/cancel"), json!({"reason": "enough"}))),
        TaskCall::Assign(to) => {
            return Ok(Request::post(format!("{path}/assign"), json!({"agent_id": scene.name(to)})));
        }
        TaskCall::Create(new) => return Ok(Request::post("/tasks", new_task(new, by, scene))),
        TaskCall::FailRetryable => return Err(Lacks("PATCH /tasks/{id} cannot ask for another attempt")),
        TaskCall::PauseForInput => {
            return Err(Lacks("PATCH /tasks/{id} has no field for what a paused task waits for"));
        }
        TaskCall::Plan => return Err(Lacks("PATCH /tasks/{id} has no status for planning")),
        TaskCall::Skip => return Err(Lacks("no call skips a task; cancel is the nearest")),
        TaskCall::Reopen => return Err(Lacks("no call reopens a task; retry takes failed ones")),
        TaskCall::AddCheckpoint => return Err(Lacks("no call adds a checkpoint")),
        TaskCall::SetPlan => return Err(Lacks("no call sets the plan of a task")),
    };
    Ok(Request::patch(path, change))
}

fn new_task(new: NewTask, by: Who, scene: &Scene) -> Value {
    let (creator, title) = (scene.name(by), scene.unique("new"));
    match new {
        NewTask::Plain => json!({"title": title, "assigned_by": creator}),
        NewTask::ReservedFor(who) => {
            json!({"title": title, "assigned_by": creator, "assigned_to": scene.name(who)})
        }
        NewTask::DependingOnTask => json!({"title": title, "assigned_by": creator, "depends_on": [scene.task]}),
        NewTask::DependingOnUnknown => {
            json!({"title": title, "assigned_by": creator, "depends_on": [scene.unique("unknown")]})
        }
        NewTask::Untitled => json!({"assigned_by": creator}),
    }
}

fn agent(call: AgentCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    let announce = |id: String, name: String, capability: &str| {
        let body = json!({"id": id, "tool": "test", "role": "worker", "name": name, "capabilities": [capability]});
        Request::post("/agents/announce", body)
    };
    let own = || scene.name(by);
    let status = |of: Who, body: Value| Request::patch(format!("/agents/{}/status", scene.name(of)), body);
    Ok(match call {
        AgentCall::Register => announce(own(), own(), "code"),
        AgentCall::RegisterWithOtherCapability => announce(own(), own(), "rust"),
        AgentCall::RegisterWithNameOf(other) => announce(own(), scene.name(other), "code"),
        AgentCall::RegisterAs(other) => announce(scene.name(other), scene.name(other), "code"),
        AgentCall::SetWorking(of) => status(of, json!({"status": "working"})),
        AgentCall::SetIdle(of) => status(of, json!({"status": "idle"})),
        AgentCall::SetBlocked(of) => status(of, json!({"status": "blocked"})),
        AgentCall::SetWorkingOnTask(of) => status(of, json!({"status": "working", "current_task": scene.task})),
        AgentCall::Heartbeat => Request::post(format!("/agents/{}/heartbeat", own()), json!({})),
        AgentCall::Leave(who) => {
            Request { method: Method::DELETE, path: format!("/agents/{}", scene.name(who)), body: None }
        }
        AgentCall::Pause(who) => {
            Request::post(format!("/agents/{}/pause", scene.name(who)), json!({"reason": "lunch"}))
        }
        AgentCall::Resume(who) => Request::post(format!("/agents/{}/resume", scene.name(who)), json!({})),
        AgentCall::SetWorkspacePath | AgentCall::UpdateCapabilities => {
            return Err(Lacks("announce replaces the whole profile; no call changes one field"));
        }
    })
}

fn file(call: FileCall, by: Who, scene: &Scene) -> Request {
    let (path, agent) = (scene.file(), scene.agent(by));
    match call {
        FileCall::Claim => Request::post("/resources/claim", json!({"path": path, "agent_id": agent})),
        FileCall::ClaimFolderAbove => {
            Request::post("/resources/claim", json!({"path": scene.folder(), "agent_id": agent}))
        }
        FileCall::ForceClaim => {
            Request::post("/resources/claim", json!({"path": path, "agent_id": agent, "force": true}))
        }
        FileCall::Release => Request::post("/resources/release", json!({"path": path, "agent_id": agent})),
        FileCall::Lock => Request::post("/resources/lock", json!({"path": path})),
        FileCall::Unlock => Request::post("/resources/unlock", json!({"path": path})),
        FileCall::ResolveFor(winner) => {
            Request::post("/resources/resolve", json!({"path": path, "winner": scene.name(winner)}))
        }
    }
}

fn handoff(call: HandoffCall, by: Who, scene: &Scene) -> Request {
    let agent = scene.agent(by);
    let answer = |verb: &str| format!("/handoffs/{}/{verb}", scene.handoff);
    match call {
        HandoffCall::Offer(to) => {
            let to = to.map(|to| scene.name(to));
            let offer = json!({"from_agent": agent, "to_agent": to, "task_id": scene.task, "summary": "half done"});
            Request::post("/handoffs", offer)
        }
        HandoffCall::Accept => Request::patch(answer("accept"), json!({"agent_id": agent})),
        HandoffCall::Reject => Request::patch(answer("reject"), json!({"agent_id": agent, "reason": "busy"})),
    }
}

fn message(call: MessageCall, by: Who, scene: &Scene) -> Result<Request, Lacks> {
    match call {
        MessageCall::SayMentioning(who) => {
            let text = format!("hi @{}", scene.name(who));
            let body = match by {
                Who::Person => json!({"text": text}),
                Who::Ada | Who::Ben | Who::Lead | Who::Stranger => json!({"text": text, "agent_id": scene.name(by)}),
            };
            Ok(Request::post("/channels/default/messages", body))
        }
        MessageCall::Direct(_) => Err(Lacks("no call sends a direct message")),
        MessageCall::Publish(_) => Err(Lacks("no call publishes a coordination message")),
    }
}

pub async fn send(stage: &Stage, scene: &Scene, act: &Act, request: Request) -> Answer {
    let once = async || {
        let mut sent = stage.daemon.request(request.method.clone(), &request.path);
        sent = match act.by {
            Who::Person => sent.bearer_auth(&stage.person_key),
            Who::Ada | Who::Ben | Who::Lead | Who::Stranger => sent.header("x-agent-id", scene.name(act.by)),
        };
        if times(act) > 1 {
            sent = sent.header("idempotency-key", scene.unique("key"));
        }
        read(request.body.iter().fold(sent, |sent, body| sent.json(body))).await.unwrap()
    };
    let mut reply = once().await;
    for _ in 1..times(act) {
        reply = once().await;
    }
    answer(&reply)
}

fn answer(reply: &HttpReply) -> Answer {
    let status = reply.status.as_u16();
    match refusal_flag(&reply.body) {
        Some(flag) => Answer::rejected(format!("{status} {flag}:false"), &reply.body),
        None if reply.status.is_success() => Answer::done(status.to_string()),
        None => Answer::rejected(status.to_string(), &reply.body),
    }
}
