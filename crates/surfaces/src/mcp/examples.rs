//! An example of every tool, in an order in which they work one after the other: a morning of two agents. The reference
//! shows them, and a test plays them against a daemon, so that none of them is out of date.

use serde_json::Value;

/// One call. A text that begins with `$` stands for what an earlier call answered.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    pub by: &'static str,
    pub tool: &'static str,
    pub arguments: &'static str,
    /// Names for parts of the answer, for later calls: the name, and where it is (a JSON pointer).
    pub keeps: &'static [(&'static str, &'static str)],
}

const fn call(by: &'static str, tool: &'static str, arguments: &'static str) -> Example {
    Example { by, tool, arguments, keeps: &[] }
}

impl Example {
    const fn keeping(self, keeps: &'static [(&'static str, &'static str)]) -> Example {
        Example { keeps, ..self }
    }
}

pub const STORY: &[Example] = &[
    call("ada", "agent_register", r#"{"name": "Ada", "runtime": "claude_code", "capabilities": ["rust"]}"#),
    call("ben", "agent_register", r#"{"name": "Ben", "runtime": "codex"}"#),
    call("ada", "agent_list", r#"{"status": ["online"]}"#),
    call("ada", "agent_get", r#"{"id": "ben"}"#),
    call("ada", "agent_update", r#"{"workspace_path": "/projects/shop"}"#),
    call(
        "ada",
        "workflow_create",
        r#"{"name": "Sign-in", "source_type": "prompt", "source_content": "Let people sign in with Google", "max_parallel_tasks": 2}"#,
    )
    .keeping(&[("workflow", "/id")]),
    call(
        "ada",
        "workflow_set_plan",
        r#"{"id": "$workflow", "plan": {"summary": "Callback first, then the button", "tasks": [
            {"name": "callback", "description": "Answer Google's redirect", "estimated_complexity": "medium"},
            {"name": "button", "description": "Show it on the start page", "depends_on": ["callback"]}]}}"#,
    ),
    call("ada", "workflow_next_tasks", r#"{"workflow_id": "$workflow"}"#).keeping(&[("task", "/tasks/0/id")]),
    call("ada", "task_claim", r#"{"task_id": "$task"}"#),
    call(
        "ada",
        "task_load_context",
        r#"{"task_id": "$task", "include": {"recent_checkpoints": 5}, "max_tokens": 8000}"#,
    ),
    call(
        "ada",
        "task_set_plan",
        r#"{"id": "$task", "plan": {"approach": "A handler beside the others", "steps": ["route", "exchange the code", "test"], "files_to_create": ["src/auth.rs"]}}"#,
    ),
    call("ada", "task_update_status", r#"{"id": "$task", "status": "in_progress"}"#),
    call("ada", "resource_claim", r#"{"path": "src/auth.rs", "task_id": "$task"}"#),
    call("ada", "resource_list", r#"{}"#),
    call(
        "ada",
        "checkpoint_add",
        r#"{"task_id": "$task", "type": "decision", "summary": "Cookies instead of tokens in the browser", "detail": {"reason": "nothing to steal by script"}, "files_changed": ["src/auth.rs"]}"#,
    ),
    call("ada", "checkpoint_list", r#"{"task_id": "$task", "type": ["decision"]}"#),
    call("ada", "agent_heartbeat", r#"{"current_task_id": "$task", "status": "busy"}"#),
];

/// What stands for an id in the reference.
fn sample(name: &str) -> String {
    match name {
        "workflow" | "copy" => "wf_a1b2c3d4e5f6",
        "task" | "button" | "extra" => "tk_g7h8i9j0k1l2",
        "workspace" => "ws_m3n4o5p6q7r8",
        "template" => "tmpl_s9t0u1v2w3x4",
        "handoff" => "hoff_y5z6a7b8c9d0",
        "message" | "coord" => "msg_e1f2g3h4i5j6",
        other => other,
    }
    .to_owned()
}

/// The first example of a tool, with ids as they look.
pub fn shown(tool: &str) -> Option<String> {
    let example = STORY.iter().find(|example| example.tool == tool)?;
    let arguments = filled(example.arguments, &|name| Some(Value::String(sample(name))))?;
    serde_json::to_string_pretty(&arguments).ok()
}

/// The arguments with every name replaced by what it stands for; `None` if one stands for nothing.
pub fn filled(arguments: &str, meaning: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    fn fill(value: &mut Value, meaning: &dyn Fn(&str) -> Option<Value>) -> Option<()> {
        match value {
            Value::String(text) if text.starts_with('$') => *value = meaning(&text[1..])?,
            Value::Array(entries) => entries.iter_mut().try_for_each(|entry| fill(entry, meaning))?,
            Value::Object(fields) => fields.values_mut().try_for_each(|field| fill(field, meaning))?,
            _ => {}
        }
        Some(())
    }
    let mut value = serde_json::from_str(arguments).ok()?;
    fill(&mut value, meaning)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tools;

    #[test]
    fn every_tool_has_an_example() {
        for tool in tools::all() {
            assert!(shown(tool.name).is_some(), "{} has none, or one that is not JSON", tool.name);
        }
    }
}
