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
    call(
        "ada",
        "workspace_create",
        r#"{"workflow_id": "$workflow", "branch": "feature/google-oauth", "base_branch": "main", "create_worktree": true, "repo_path": "$repository", "task_ids": ["$task"]}"#,
    )
    .keeping(&[("workspace", "/id")]),
    call("ada", "workspace_list", r#"{"workflow_id": "$workflow"}"#),
    call("ada", "resource_claim", r#"{"path": "src/auth.rs", "task_id": "$task"}"#),
    call("ada", "resource_list", r#"{}"#),
    call(
        "ada",
        "checkpoint_add",
        r#"{"task_id": "$task", "type": "decision", "summary": "Cookies instead of tokens in the browser", "detail": {"reason": "nothing to steal by script"}, "files_changed": ["src/auth.rs"]}"#,
    ),
    call("ada", "checkpoint_list", r#"{"task_id": "$task", "type": ["decision"]}"#),
    call("ada", "agent_heartbeat", r#"{"current_task_id": "$task", "status": "busy"}"#),
    call("ada", "channel_send", r#"{"message": "@ben the callback is nearly done, please take the button"}"#)
        .keeping(&[("message", "/id")]),
    call("ada", "message_status", r#"{"id": "$message"}"#),
    call("ben", "inbox_peek", "{}"),
    call("ben", "inbox_wait", r#"{"timeout_seconds": 60}"#),
    call("ben", "inbox_check", "{}"),
    call("ben", "channel_mentions", "{}"),
    call("ben", "inbox_ack", r#"{"until": "$message"}"#),
    call("ben", "channel_read", r#"{"limit": 20}"#),
    call("ben", "channel_peek", r#"{"limit": 5}"#),
    call("ben", "document_read", "{}"),
    call("ben", "document_write", r##"{"content": "# Sign-in\n\n- cookies, no tokens in the browser\n", "base_version": 0}"##),
    call("ada", "document_append", r#"{"content": "- the button waits for the callback\n"}"#),
    call("ada", "document_create", r##"{"file": "findings/redirects.md", "content": "# Redirects\n"}"##),
    call("ada", "document_list", "{}"),
    call("ada", "document_history", r#"{"file": "notes.md", "version": 1}"#),
    call("ada", "document_delete", r#"{"file": "findings/redirects.md", "base_version": 1}"#),
    call(
        "ben",
        "coord_publish_message",
        r#"{"type": "BLOCKING_ISSUE", "to": ["ada"], "subject": "No test account", "body": "Google wants a verified one"}"#,
    )
    .keeping(&[("coord", "/message_id")]),
    call("ada", "coord_check_messages", "{}"),
    call("ada", "coord_ack_message", r#"{"message_id": "$coord"}"#),
    call("ada", "coord_get_presence", "{}"),
    call("ada", "coord_send_heartbeat", "{}"),
    call(
        "ada",
        "workflow_add_task",
        r#"{"workflow_id": "$workflow", "name": "test account", "description": "Ask for a verified one", "after_task": "callback"}"#,
    )
    .keeping(&[("extra", "/task_id")]),
    call("ada", "workflow_remove_task", r#"{"workflow_id": "$workflow", "task_id": "$extra"}"#),
    call(
        "ada",
        "workflow_replan",
        r#"{"workflow_id": "$workflow", "plan": {"summary": "The button goes to the header", "reason": "it is on every page", "tasks": [{"name": "header button", "depends_on": ["callback"]}]}}"#,
    ),
    call("ada", "workflow_get", r#"{"id": "$workflow", "include_tasks": true}"#).keeping(&[("button", "/tasks/1/id")]),
    call("ada", "task_check_dependencies", r#"{"task_id": "$button"}"#),
    call(
        "ada",
        "task_replan",
        r#"{"id": "$task", "reason": "the exchange needs a secret", "new_plan": {"approach": "Read it from the settings", "steps": ["setting", "exchange the code", "test"]}}"#,
    ),
    call("ada", "resource_release", r#"{"path": "src/auth.rs"}"#),
    call("ada", "handoff_create", r#"{"task_id": "$task", "to_agent": "ben", "summary": "The route is there, the exchange is not"}"#)
        .keeping(&[("handoff", "/id")]),
    call("ben", "handoff_reject", r#"{"handoff_id": "$handoff", "reason": "I am on the header"}"#),
    call("ada", "handoff_create", r#"{"task_id": "$task", "to_agent": "ben", "summary": "Only the test is left"}"#)
        .keeping(&[("second", "/id")]),
    call("ben", "handoff_accept", r#"{"handoff_id": "$second"}"#),
    call("ben", "task_get", r#"{"id": "$task", "include_checkpoints": true}"#),
    call("ben", "task_update_status", r#"{"id": "$task", "status": "completed", "outcome": "Google's redirect is answered"}"#),
    call("ben", "task_claim", r#"{"task_id": "$button"}"#),
    call("ben", "task_release", r#"{"task_id": "$button", "reason": "the design is not decided"}"#),
    call("ada", "workspace_merge", r#"{"id": "$workspace"}"#),
    call("ada", "workspace_update", r#"{"id": "$workspace", "status": "merged", "cleanup_worktree": true}"#),
    call("ada", "workflow_list", r#"{"status": ["in_progress"]}"#),
    call("ada", "workflow_progress", r#"{"workflow_id": "$workflow"}"#),
    call("ada", "workflow_summary", r#"{"id": "$workflow", "format": "markdown"}"#),
    call(
        "ada",
        "template_create",
        r#"{"name": "sign-in", "description": "A way to sign in", "template": {"tasks": [{"name": "callback of {{provider}}"}, {"name": "button", "depends_on": ["callback of {{provider}}"]}]}}"#,
    )
    .keeping(&[("template", "/id")]),
    call("ada", "template_list", "{}"),
    call(
        "ada",
        "template_apply",
        r#"{"template_id": "$template", "workflow_name": "GitHub sign-in", "variables": {"provider": "GitHub"}}"#,
    ),
    call("ada", "workflow_update_status", r#"{"id": "$workflow", "status": "paused", "reason": "until the design is decided"}"#),
    call("ben", "agent_unregister", "{}"),
];

/// What stands for the folder of a git repository.
pub const REPOSITORY: &str = "repository";

/// What stands for an id in the reference.
fn sample(name: &str) -> &str {
    match name {
        "workflow" => "\"wf_a1b2c3d4e5f6\"",
        "task" | "button" | "extra" => "\"tk_g7h8i9j0k1l2\"",
        "workspace" => "\"ws_m3n4o5p6q7r8\"",
        REPOSITORY => "\"/projects/shop\"",
        "template" => "\"tmpl_s9t0u1v2w3x4\"",
        "handoff" | "second" => "\"hoff_y5z6a7b8c9d0\"",
        "message" => "\"msg_e1f2g3h4i5j6\"",
        "coord" => "\"msg-1738756800-12345\"",
        other => other,
    }
}

/// The first example of a tool, with ids as they look.
pub fn shown(tool: &str) -> Option<String> {
    let example = STORY.iter().find(|example| example.tool == tool)?;
    let kept = STORY.iter().flat_map(|example| example.keeps).map(|(name, _)| *name).chain([REPOSITORY]);
    Some(kept.fold(example.arguments.to_owned(), |text, name| text.replace(&format!("\"${name}\""), sample(name))))
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
    fn every_tool_has_an_example_with_nothing_left_open() {
        for tool in tools::all() {
            let example = shown(tool.name).unwrap_or_else(|| panic!("{} has no example", tool.name));
            assert!(serde_json::from_str::<Value>(&example).is_ok(), "{example}");
            assert!(!example.contains('$'), "{example}");
        }
    }
}
