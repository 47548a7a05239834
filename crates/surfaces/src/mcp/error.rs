//! The map from what can go wrong to what a model reads: a code, a sentence, whether calling differently may help, and
//! what to do next.

use rookery_core::{Code, Rejection, RetryAdvice};
use rookery_engine::{EngineError, ReadError, SubmitError};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ToolError {
    pub code: &'static str,
    pub message: String,
    pub recoverable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// What the caller needs to do better, such as a newer text than the one it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

impl ToolError {
    /// It is recoverable if calling differently, or again, can help.
    pub fn new(code: Code, message: impl Into<String>) -> ToolError {
        let recoverable = code.retry() != RetryAdvice::Never;
        let suggestion = usual_suggestion(code).map(str::to_owned);
        ToolError { code: word(code), message: message.into(), recoverable, suggestion, detail: None }
    }

    #[must_use]
    pub fn suggest(self, suggestion: impl Into<String>) -> ToolError {
        ToolError { suggestion: Some(suggestion.into()), ..self }
    }

    #[must_use]
    pub fn detailed(self, detail: Value) -> ToolError {
        ToolError { detail: Some(detail), ..self }
    }

    /// The agent that has the task, where that is why the call was rejected.
    pub fn holder(&self) -> Option<&str> {
        self.detail.as_ref()?.get("holder")?.as_str()
    }

    pub fn invalid(message: impl Into<String>) -> ToolError {
        ToolError::new(Code::Invalid, message)
    }

    /// Nobody can write without saying who it is.
    pub fn anonymous() -> ToolError {
        ToolError::new(Code::NoIdentity, "this tool must know which agent calls it").suggest(
            "pass your id as agent_id; or connect with the header X-Agent-Id, which 'rookery mcp' sends if it is started \
             with --agent ID or with ROOKERY_AGENT_ID",
        )
    }

    /// A command gave another answer than its tool expects.
    pub fn unexpected() -> ToolError {
        ToolError::new(Code::Internal, "the answer was not the expected one")
    }
}

/// Codes that the workflow tools have other words for.
pub(crate) const ALIASES: &[(Code, &str)] = &[
    (Code::Invalid, "INVALID_INPUT"),
    (Code::UnknownReference, "UNKNOWN_DEPENDENCY"),
    (Code::DependenciesUnfinished, "TASK_BLOCKED"),
    (Code::AlreadyExists, "NAME_CONFLICT"),
    (Code::NotHolder, "NOT_ASSIGNED"),
    (Code::Internal, "INTERNAL_ERROR"),
];

fn word(code: Code) -> &'static str {
    ALIASES.iter().find(|(known, _)| *known == code).map_or(code.as_str(), |(_, alias)| alias)
}

/// What to do when the refusal itself does not say.
fn usual_suggestion(code: Code) -> Option<&'static str> {
    match code {
        Code::AgentNotFound => Some("agent_list shows who is here; agent_register adds an agent"),
        Code::TaskNotFound => Some("check the id; a task keeps its id on every face"),
        Code::InvalidTransition => Some("task_get shows the state that the task is in now"),
        Code::NotHolder => Some("task_claim makes you the holder, if nobody else is"),
        Code::WorkflowNotFound => Some("workflow_list shows the workflows and their ids"),
        Code::TemplateNotFound => Some("template_list shows the templates and their ids"),
        Code::AlreadyAnswered => Some("a handoff is answered once; task_get shows who has the task now"),
        Code::DocumentNotFound => Some("document_list shows the documents that there are"),
        Code::Invalid | Code::TooLarge => {
            Some("correct what the message names; the tool's input schema describes every argument")
        }
        // Remedies are written for the page of errors. Those that point elsewhere say nothing here.
        _ => Some(code.info().remedy).filter(|remedy| !remedy.contains("hint") && !remedy.contains("](")),
    }
}

impl From<Rejection> for ToolError {
    fn from(refusal: Rejection) -> ToolError {
        let usual = usual_suggestion(refusal.code).map(str::to_owned);
        // What to do about an agent that nobody knows is in the words of these tools.
        let suggestion = if refusal.code == Code::AgentNotFound { usual } else { refusal.hint.or(usual) };
        let detail = refusal.holder.map(|holder| json!({ "holder": holder.as_str() }));
        ToolError { suggestion, detail, ..ToolError::new(refusal.code, refusal.message) }
    }
}

impl From<SubmitError> for ToolError {
    fn from(error: SubmitError) -> ToolError {
        let message = error.to_string();
        match error {
            SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. } => refusal.into(),
            SubmitError::Busy => ToolError::new(Code::Busy, message).suggest("nothing was done; try again in a moment"),
            SubmitError::Unavailable { .. } => ToolError::new(Code::StoreUnavailable, message)
                .suggest("nothing was done; try again when the cause is gone"),
            SubmitError::OutcomeUnknown { .. } => {
                ToolError::new(Code::OutcomeUnknown, message).suggest("look whether it was done before you repeat it")
            }
            SubmitError::Broken { .. } => {
                tracing::error!(error = %message, "a command broke its batch");
                ToolError::new(Code::Internal, message)
            }
            SubmitError::Stopped => {
                ToolError::new(Code::Stopping, message).suggest("nothing was done; try again in a few seconds")
            }
        }
    }
}

impl From<ReadError> for ToolError {
    fn from(error: ReadError) -> ToolError {
        let message = error.to_string();
        match error {
            ReadError::Unavailable { .. } => {
                ToolError::new(Code::StoreUnavailable, message).suggest("try again in a moment")
            }
            ReadError::Corrupt { .. } => {
                tracing::error!(error = %message, "the store holds something unreadable");
                ToolError::new(Code::StoreCorrupt, message).suggest("ask a person to run 'rookery doctor'")
            }
        }
    }
}

impl From<EngineError> for ToolError {
    fn from(error: EngineError) -> ToolError {
        match error {
            EngineError::Submit(error) => error.into(),
            EngineError::Read(error) => error.into(),
            EngineError::Artifact(error) => {
                ToolError::new(Code::StoreUnavailable, format!("the request could not be kept: {error}"))
                    .suggest("nothing was done; try again in a moment")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let error = ToolError::from(Rejection::new(Code::TaskNotFound, "Task not found"));
        let text = serde_json::to_value(&error).unwrap();
        assert_eq!((&text["code"], &text["recoverable"]), (&"TASK_NOT_FOUND".into(), &false.into()));
        assert!(text["suggestion"].is_string());
        let blocked = ToolError::from(Rejection::new(Code::DependenciesUnfinished, "waits").hint("finish t1"));
        assert_eq!((blocked.code, blocked.recoverable), ("TASK_BLOCKED", true));
        assert_eq!(blocked.suggestion.as_deref(), Some("finish t1"));
    }
}
