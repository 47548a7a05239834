//! MCP: tool calls without a session; the agent is named by the connection's header, a person by the project's key.

use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use super::{Lacks, times};
use crate::act::{Act, AgentCall, Call, FileCall, HandoffCall, MessageCall, NewTask, TaskCall, Who};
use crate::answer::{Answer, refusal_flag};
use crate::scene::{Scene, Stage};

const VERSION: &str = "2026-07-28";

#[derive(Debug)]
pub struct ToolCall {
    tool: &'static str,
    arguments: Value,
}

impl ToolCall {
    fn new(tool: &'static str, arguments: Value) -> ToolCall {
        ToolCall { tool, arguments }
    }
}

pub fn request(act: &Act, scene: &Scene) -> Result<ToolCall, Lacks> {
    let mut call = match act.call {
        Call::Task(call) => task(call, scene),
        Call::Agent(call) => agent(call, act.by, scene),
        Call::File(call) => file(call, scene),
        Call::Handoff(call) => Ok(handoff(call, scene)),
        Call::Message(call) => Ok(message(call, scene)),
    }?;
    // A person names the agent that it acts for; tools that people use for themselves take no such argument.
    let acts_for_agent = matches!(act.call, Call::Task(_) | Call::File(_) | Call::Handoff(_));
    if act.by == Who::Person && acts_for_agent {
        call.arguments["agent_id"] = json!(scene.agent(act.by));
    }
    Ok(call)
}

fn task(call: TaskCall, scene: &Scene) -> Result<ToolCall, Lacks> {
    let status = |status: &str, more: Value| {
        let mut arguments = json!({"id": scene.task, "status": status});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ToolCall::new("task_update_status", arguments)
    };
    Ok(match call {
        TaskCall::Claim => ToolCall::new("task_claim", json!({"task_id": scene.task})),
        TaskCall::Start => status("in_progress", json!({})),
        TaskCall::Complete | TaskCall::CompleteTwice => {
            status("completed", json!({"outcome": "well", "outcome_detail": {"title": "well"}}))
        }
        TaskCall::CompleteWithoutOutcome => status("completed", json!({})),
        TaskCall::Fail => status("failed", json!({"error": "broke"})),
        TaskCall::FailWithoutError => status("failed", json!({})),
        TaskCall::Pause => status("paused", json!({"reason": "lunch"})),
        TaskCall::PauseForInput => status("paused", json!({"reason": "lunch", "waiting_for": "input"})),
        TaskCall::Review => status("review", json!({})),
        TaskCall::Plan => status("planning", json!({})),
        TaskCall::Release => ToolCall::new("task_release", json!({"task_id": scene.task, "reason": "not mine"})),
        TaskCall::SetPending => status("pending", json!({"reason": "not mine"})),
        TaskCall::Retry => status("pending", json!({})),
        TaskCall::Cancel => status("cancelled", json!({"reason": "enough"})),
        TaskCall::Skip => status("skipped", json!({"reason": "enough"})),
        TaskCall::AddCheckpoint => {
            let checkpoint = json!({"task_id": scene.task, "type": "progress", "summary": "half done"});
            ToolCall::new("checkpoint_add", checkpoint)
        }
        TaskCall::SetPlan => {
            let plan = json!({"approach": "slowly", "steps": ["one"]});
            ToolCall::new("task_set_plan", json!({"id": scene.task, "plan": plan}))
        }
        TaskCall::Create(new) => return create(new, scene),
        TaskCall::FailRetryable => return Err(Lacks("task_update_status cannot ask for another attempt")),
        TaskCall::Reopen => return Err(Lacks("no tool reopens a task; pending takes failed ones")),
        TaskCall::Assign(_) => return Err(Lacks("no tool assigns a task")),
    })
}

fn create(new: NewTask, scene: &Scene) -> Result<ToolCall, Lacks> {
    let (run, name) = (&scene.run_with_plan, scene.unique("new"));
    let arguments = match new {
        NewTask::Plain => json!({"workflow_id": run, "name": name}),
        NewTask::DependingOnTask => json!({"workflow_id": run, "name": name, "depends_on": ["first"]}),
        NewTask::DependingOnUnknown => {
            json!({"workflow_id": run, "name": name, "depends_on": [scene.unique("unknown")]})
        }
        NewTask::Untitled => json!({"workflow_id": run}),
        NewTask::ReservedFor(_) => return Err(Lacks("workflow_add_task has no assignee")),
    };
    Ok(ToolCall::new("workflow_add_task", arguments))
}

fn agent(call: AgentCall, by: Who, scene: &Scene) -> Result<ToolCall, Lacks> {
    let register = |name: Who, capability: &str| {
        let arguments = json!({
            "name": scene.name(name), "runtime": "test", "role": "worker", "capabilities": [capability],
        });
        Ok(ToolCall::new("agent_register", arguments))
    };
    // The caller needs no argument for itself.
    let heartbeat = |of: Who, mut arguments: Value| {
        if of != by {
            arguments["agent_id"] = json!(scene.name(of));
        }
        Ok(ToolCall::new("agent_heartbeat", arguments))
    };
    match call {
        AgentCall::Register => register(by, "code"),
        AgentCall::RegisterWithOtherCapability => register(by, "rust"),
        AgentCall::RegisterWithNameOf(other) => register(other, "code"),
        AgentCall::RegisterAs(_) => Err(Lacks("agent_register registers the caller alone")),
        AgentCall::SetWorkspacePath => Ok(ToolCall::new("agent_update", json!({"workspace_path": "/projects/shop"}))),
        AgentCall::UpdateCapabilities => Err(Lacks("agent_update takes no capabilities")),
        AgentCall::SetWorking(of) => heartbeat(of, json!({"status": "busy"})),
        AgentCall::SetIdle(of) => heartbeat(of, json!({"status": "online"})),
        AgentCall::SetWorkingOnTask(of) => heartbeat(of, json!({"status": "busy", "current_task_id": scene.task})),
        AgentCall::SetBlocked(_) => Err(Lacks("agent_heartbeat knows online, busy and offline only")),
        AgentCall::Heartbeat => heartbeat(by, json!({})),
        AgentCall::Leave(who) if who == by => Ok(ToolCall::new("agent_unregister", json!({}))),
        AgentCall::Leave(who) => Ok(ToolCall::new("agent_unregister", json!({"id": scene.name(who)}))),
        AgentCall::Pause(_) | AgentCall::Resume(_) => Err(Lacks("no tool pauses or resumes an agent")),
    }
}

fn file(call: FileCall, scene: &Scene) -> Result<ToolCall, Lacks> {
    let path = scene.file();
    Ok(match call {
        FileCall::Claim => ToolCall::new("resource_claim", json!({"path": path})),
        FileCall::ClaimFolderAbove => ToolCall::new("resource_claim", json!({"path": scene.folder()})),
        FileCall::ForceClaim => ToolCall::new("resource_claim", json!({"path": path, "force": true})),
        FileCall::Release => ToolCall::new("resource_release", json!({"path": path})),
        FileCall::Lock | FileCall::Unlock => return Err(Lacks("no tool locks or unlocks a file")),
        FileCall::ResolveFor(_) => return Err(Lacks("no tool resolves a conflict")),
    })
}

fn handoff(call: HandoffCall, scene: &Scene) -> ToolCall {
    match call {
        HandoffCall::Offer(to) => {
            let to = to.map(|to| scene.name(to));
            ToolCall::new("handoff_create", json!({"task_id": scene.task, "to_agent": to, "summary": "half done"}))
        }
        HandoffCall::Accept => ToolCall::new("handoff_accept", json!({"handoff_id": scene.handoff})),
        HandoffCall::Reject => ToolCall::new("handoff_reject", json!({"handoff_id": scene.handoff, "reason": "busy"})),
    }
}

fn message(call: MessageCall, scene: &Scene) -> ToolCall {
    match call {
        MessageCall::SayMentioning(who) => {
            ToolCall::new("channel_send", json!({"message": format!("hi @{}", scene.name(who))}))
        }
        MessageCall::Direct(who) => ToolCall::new("channel_send", json!({"message": "hi", "to": scene.name(who)})),
        MessageCall::Publish(who) => {
            let arguments = json!({"type": "GENERAL", "subject": "news", "body": "hi", "to": [scene.name(who)]});
            ToolCall::new("coord_publish_message", arguments)
        }
    }
}

pub async fn send(stage: &Stage, scene: &Scene, act: &Act, call: ToolCall) -> Answer {
    let key = (times(act) > 1).then(|| scene.unique("key"));
    let mut reply = Value::Null;
    for _ in 0..times(act) {
        reply = post(stage, act.by, &scene.name(act.by), &call, key.as_deref()).await;
    }
    answer(&reply)
}

/// Calls a tool as the lead, as part of a situation; the result's structured content.
pub async fn prepare(stage: &Stage, tool: &'static str, arguments: Value) -> Value {
    let reply = post(stage, Who::Lead, "lead", &ToolCall::new(tool, arguments), None).await;
    assert!(answer(&reply).rejection.is_none(), "{tool}: {reply}");
    reply["result"]["structuredContent"].clone()
}

async fn post(stage: &Stage, by: Who, agent: &str, call: &ToolCall, key: Option<&str>) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "parity", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": call.tool, "arguments": call.arguments, "_meta": meta});
    let mut request = stage
        .daemon
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", "tools/call")
        .header("mcp-name", call.tool)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    request = match by {
        Who::Person => request.bearer_auth(&stage.person_key),
        Who::Ada | Who::Ben | Who::Lead | Who::Stranger => request.header("x-agent-id", agent),
    };
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    read(request).await.unwrap().body
}

/// The names that MCP tools have for codes of the other surfaces, as docs/errors.md lists them.
const ALIASES: [(&str, &str); 5] = [
    ("INVALID_INPUT", "INVALID"),
    ("UNKNOWN_DEPENDENCY", "UNKNOWN_REFERENCE"),
    ("TASK_BLOCKED", "DEPENDENCIES_UNFINISHED"),
    ("NAME_CONFLICT", "ALREADY_EXISTS"),
    ("NOT_ASSIGNED", "NOT_HOLDER"),
];

/// The answer of a tool that failed. A code with another name on MCP counts as the same code, and the form shows the name.
fn tool_error(mut error: Value) -> Answer {
    match ALIASES.iter().find(|(alias, _)| error["code"] == *alias) {
        Some((alias, code)) => {
            error["code"] = json!(code);
            Answer::rejected(format!("tool error {alias}"), &error)
        }
        None => Answer::rejected("tool error", &error),
    }
}

fn answer(reply: &Value) -> Answer {
    let result = &reply["result"];
    let content = &result["structuredContent"];
    if let Some(error) = reply.get("error") {
        return Answer::rejected(format!("JSON-RPC error {}", error["code"]), error);
    }
    if result["isError"] == Value::Bool(true) {
        let text = result["content"][0]["text"].as_str().unwrap();
        let error = serde_json::from_str(text).unwrap_or_else(|_| json!({"message": text}));
        return tool_error(error);
    }
    match refusal_flag(content) {
        Some(flag) => Answer::rejected(format!("{flag}:false"), content),
        None => Answer::done("ok"),
    }
}
