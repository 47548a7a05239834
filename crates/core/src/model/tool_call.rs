//! The reason why a tool call was denied.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::id::MessageId;

/// Why a call comes to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    ToolNotAllowed,
    ToolUnavailable,
}

impl ToolErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            ToolErrorCode::ToolNotAllowed => "TOOL_NOT_ALLOWED",
            ToolErrorCode::ToolUnavailable => "TOOL_UNAVAILABLE",
        }
    }

    /// A server may come; what an allowlist leaves out stays out.
    fn is_retryable(self) -> bool {
        self == ToolErrorCode::ToolUnavailable
    }
}

/// That a call comes to nothing, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Denial {
    pub code: ToolErrorCode,
    pub tool: String,
    /// Whose allowlist leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Restriction>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restriction {
    Card,
    Message,
    Task,
    /// A task that the caller has, where the call names none of those.
    HeldTask,
}

impl Denial {
    /// In the protocol's form of an error.
    pub fn payload(&self, call: &MessageId) -> Value {
        let mut details = json!({ "tool": self.tool, "call_id": call });
        let message = match self.by {
            None => format!("nothing here serves {}", self.tool),
            Some(by) => {
                details["allowlist"] = json!(by);
                let whose = match by {
                    Restriction::Card => "the caller's card",
                    Restriction::Message => "the call's own policy",
                    Restriction::Task => "the policy of the task",
                    Restriction::HeldTask => {
                        "a task that the caller has; a call for another of its tasks names that one as its task_id"
                    }
                };
                format!("{} is not in the tool_allowlist of {whose}", self.tool)
            }
        };
        json!({ "code": self.code, "message": message, "retryable": self.code.is_retryable(), "details": details })
    }
}
