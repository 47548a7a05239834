//! Why a command was not done: a stable code, a sentence for a person, and what to do next.
//!
//! Each surface has one exhaustive table from [`Code`] to its own form.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// A field is missing, of the wrong form, or names something that does not fit.
    Invalid,
    /// A named limit was exceeded.
    TooLarge,
    AgentNotFound,
    /// It holds nothing while it is offline; any call of its own brings it back.
    AgentOffline,
    /// A person or the lead paused it: it gets nothing new to do.
    AgentPaused,
    TaskNotFound,
    HandoffNotFound,
    ResourceNotFound,
    EventNotFound,
    TokenNotFound,
    /// `depends_on` or `assigned_to` names what does not exist.
    UnknownReference,
    /// A message is to somebody whom nobody knows.
    UnknownRecipient,
    DependencyCycle,
    /// The id is taken by something else.
    Exists,
    InvalidTransition,
    DependenciesUnfinished,
    AlreadyClaimed,
    Reserved,
    /// The request of the task excludes the agent: by its limits, by what it requires, or by whom it is to.
    NotEligible,
    NotHolder,
    StaleFence,
    Locked,
    NotConflicted,
    AlreadyAnswered,
    /// The caller asserts an id that is bound to a token or session.
    Sealed,
    /// The caller may not do this.
    Forbidden,
    /// A credential is needed and none, or no valid one, was given.
    Unauthenticated,
    /// The same idempotency key with another command.
    IdempotencyMismatch,
    /// The evidence of a sweeper or timer is out of date; nothing was done.
    Stale,
    WorkflowNotFound,
    TemplateNotFound,
    /// The workflow or task is not in a state that allows this.
    InvalidState,
    DuplicateTaskName,
    /// A new plan names a task like one that stays.
    NameConflict,
    SelfDependency,
    /// A plan names a task that is not part of it.
    UnknownDependency,
    TaskNotRemovable,
    NotClaimed,
    MissingOutcome,
    MissingError,
    DuplicateTemplate,
    MissingVariables,
    MessageNotFound,
    /// An agent acknowledges what it was never shown.
    NotShown,
    /// Too much of this sender waits for a person already.
    RateLimited,
    DocumentNotFound,
    /// The document has changed since the version that the caller knows.
    StaleVersion,
    /// The instance has no context: no channel, inbox or documents.
    ContextDisabled,
    WorkspaceNotFound,
    /// A task and a workspace of different workflows.
    WorkflowMismatch,
    MissingMergeCommit,
    MissingRepoPath,
    MissingPath,
    /// What is asked for is on a machine that is away.
    SiteOffline,
    /// Two branches changed the same; nothing was merged.
    MergeConflict,
    /// Git refused or failed; the message is its own.
    GitFailed,
    /// The signature of a message is not of this message, or not by the key that it names.
    BadSignature,
    /// A message is signed by a key that its sender does not have.
    UnknownKey,
    /// What is asked for has to be signed, and is not.
    SignatureRequired,
    SchemaNotFound,
    /// A message is not what its step of a workflow expects.
    SchemaViolation,
    GroupNotFound,
    TeamNotFound,
    TurnNotFound,
    /// Something else runs already, and there can be one only.
    Conflict,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Invalid => "INVALID",
            Code::TooLarge => "TOO_LARGE",
            Code::AgentNotFound => "AGENT_NOT_FOUND",
            Code::AgentOffline => "AGENT_OFFLINE",
            Code::AgentPaused => "AGENT_PAUSED",
            Code::TaskNotFound => "TASK_NOT_FOUND",
            Code::HandoffNotFound => "HANDOFF_NOT_FOUND",
            Code::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Code::EventNotFound => "EVENT_NOT_FOUND",
            Code::TokenNotFound => "TOKEN_NOT_FOUND",
            Code::UnknownReference => "UNKNOWN_REFERENCE",
            Code::UnknownRecipient => "UNKNOWN_RECIPIENT",
            Code::DependencyCycle => "DEPENDENCY_CYCLE",
            Code::Exists => "EXISTS",
            Code::InvalidTransition => "INVALID_TRANSITION",
            Code::DependenciesUnfinished => "DEPENDENCIES_UNFINISHED",
            Code::AlreadyClaimed => "ALREADY_CLAIMED",
            Code::Reserved => "RESERVED",
            Code::NotEligible => "NOT_ELIGIBLE",
            Code::NotHolder => "NOT_HOLDER",
            Code::StaleFence => "STALE_FENCE",
            Code::Locked => "LOCKED",
            Code::NotConflicted => "NOT_CONFLICTED",
            Code::AlreadyAnswered => "ALREADY_ANSWERED",
            Code::Sealed => "SEALED",
            Code::Forbidden => "FORBIDDEN",
            Code::Unauthenticated => "UNAUTHENTICATED",
            Code::IdempotencyMismatch => "IDEMPOTENCY_MISMATCH",
            Code::Stale => "STALE",
            Code::WorkflowNotFound => "WORKFLOW_NOT_FOUND",
            Code::TemplateNotFound => "TEMPLATE_NOT_FOUND",
            Code::InvalidState => "INVALID_STATE",
            Code::DuplicateTaskName => "DUPLICATE_TASK_NAME",
            Code::NameConflict => "NAME_CONFLICT",
            Code::SelfDependency => "SELF_DEPENDENCY",
            Code::UnknownDependency => "UNKNOWN_DEPENDENCY",
            Code::TaskNotRemovable => "TASK_NOT_REMOVABLE",
            Code::NotClaimed => "NOT_CLAIMED",
            Code::MissingOutcome => "MISSING_OUTCOME",
            Code::MissingError => "MISSING_ERROR",
            Code::DuplicateTemplate => "DUPLICATE_TEMPLATE",
            Code::MissingVariables => "MISSING_VARIABLES",
            Code::MessageNotFound => "MESSAGE_NOT_FOUND",
            Code::NotShown => "NOT_SHOWN",
            Code::RateLimited => "RATE_LIMITED",
            Code::DocumentNotFound => "DOCUMENT_NOT_FOUND",
            Code::StaleVersion => "STALE_VERSION",
            Code::ContextDisabled => "CONTEXT_DISABLED",
            Code::WorkspaceNotFound => "WORKSPACE_NOT_FOUND",
            Code::WorkflowMismatch => "WORKFLOW_MISMATCH",
            Code::MissingMergeCommit => "MISSING_MERGE_COMMIT",
            Code::MissingRepoPath => "MISSING_REPO_PATH",
            Code::MissingPath => "MISSING_PATH",
            Code::SiteOffline => "SITE_OFFLINE",
            Code::MergeConflict => "MERGE_CONFLICT",
            Code::GitFailed => "GIT_FAILED",
            Code::BadSignature => "BAD_SIGNATURE",
            Code::UnknownKey => "UNKNOWN_KEY",
            Code::SignatureRequired => "SIGNATURE_REQUIRED",
            Code::SchemaViolation => "SCHEMA_VIOLATION",
            Code::SchemaNotFound => "SCHEMA_NOT_FOUND",
            Code::GroupNotFound => "GROUP_NOT_FOUND",
            Code::TeamNotFound => "TEAM_NOT_FOUND",
            Code::TurnNotFound => "TURN_NOT_FOUND",
            Code::Conflict => "CONFLICT",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    /// The field of the message that it is about, as a JSON pointer, where it came as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), hint: None, pointer: None }
    }

    /// The caller merely says that it is this agent.
    pub fn sealed(agent: &AgentId) -> Refusal {
        Refusal::new(Code::Sealed, format!("agent '{agent}' is bound to a credential"))
            .hint("send its token, or call through 'rookery mcp'; its name alone is not enough")
    }

    pub fn not_tracked() -> Refusal {
        Refusal::new(Code::ResourceNotFound, "Resource not tracked")
            .hint("paths are relative to the project's root; a folder's claim ends in '/'")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// Says which field it is about, unless that is known already.
    #[must_use]
    pub fn about(mut self, pointer: &str) -> Refusal {
        self.pointer.get_or_insert_with(|| pointer.to_owned());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
