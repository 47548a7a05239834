//! Every code that a caller can be answered with: its text, its class, whether to try again, and what it means.
//!
//! Each surface derives its own form from this table, and `docs/errors.md` is printed from it. A new code is one row here.

use serde::{Deserialize, Serialize};

/// The kind of failure, from which a surface derives its own status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CodeClass {
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    Gone,
    Unprocessable,
    RateLimited,
    Unavailable,
    Internal,
}

/// Whether calling again can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RetryAdvice {
    /// Another request can succeed: the caller can correct this one.
    Fix,
    /// The same request can succeed later.
    Later,
    /// Neither, as things stand.
    Never,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CodeInfo {
    pub text: &'static str,
    pub class: CodeClass,
    pub retry: RetryAdvice,
    /// For people, as Markdown.
    pub meaning: &'static str,
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($section:literal { $($name:ident $text:literal $class:ident $retry:ident: $meaning:literal, $remedy:literal;)+ })+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $meaning] #[serde(rename = $text)] $name,)+)+
        }

        /// All codes, in the sections of their page.
        pub const SECTIONS: &[(&str, &[Code])] = &[$(($section, &[$(Code::$name,)+]),)+];

        impl Code {
            pub const fn info(self) -> CodeInfo {
                match self {
                    $($(Code::$name => CodeInfo {
                        text: $text,
                        class: CodeClass::$class,
                        retry: RetryAdvice::$retry,
                        meaning: $meaning,
                        remedy: $remedy,
                    },)+)+
                }
            }
        }
    };
}

impl Code {
    pub const fn as_str(self) -> &'static str {
        self.info().text
    }

    pub const fn class(self) -> CodeClass {
        self.info().class
    }

    pub const fn retry(self) -> RetryAdvice {
        self.info().retry
    }
}

codes! {
    "The request is wrong" {
        Invalid "INVALID" Invalid Fix: "a field, parameter, header or path is missing or malformed; the sentence names it", "correct it";
        TooLarge "TOO_LARGE" Invalid Fix: "a field, the body or the address is over a limit", "shorten it, or put the long part into a file and name that";
        UnknownRecipient "UNKNOWN_RECIPIENT" Invalid Fix: "a message of the Clutch protocol is to an agent or group that does not exist", "list who is here; send to `agent:orchestrator` to let the router choose";
        UnknownReference "UNKNOWN_REFERENCE" Invalid Fix: "the request names an agent or task that does not exist", "list what exists; create it first";
        InvalidSchema "INVALID_SCHEMA" Invalid Fix: "a [schema](clutch.md#schemas-of-payloads) is not one, or exceeds a [limit](clutch.md#schemas-of-payloads); `details.pointer` says where", "correct it there";
        SchemaViolation "SCHEMA_VIOLATION" Unprocessable Fix: "a message is not what its [step of a workflow](clutch.md#what-a-step-of-a-workflow-expects) expects; `details.violations` names every place", "correct them and send it again";
        NotFound "NOT_FOUND" NotFound Never: "there is nothing at this address", "look at `/docs`";
        MethodNotAllowed "METHOD_NOT_ALLOWED" Invalid Never: "the address exists, not with this method", "the header `Allow` lists the methods";
        UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" Invalid Fix: "a body without `Content-Type: application/json` (messages of Clutch: or `application/x-ndjson`)", "send the header";
        RangeNotSatisfiable "RANGE_NOT_SATISFIABLE" Invalid Fix: "the artifact has no such bytes; `Content-Range` tells its size", "ask within it";
        IdempotencyMismatch "IDEMPOTENCY_MISMATCH" Unprocessable Fix: "the same `Idempotency-Key` with another request", "a new key for a new request";
    }
    "You may not" {
        Unauthenticated "UNAUTHENTICATED" Unauthenticated Never: "a token is required, or yours is unknown, expired or revoked", "`rookery token create`; send it as `Authorization: Bearer …`";
        Forbidden "FORBIDDEN" Forbidden Never: "this is for the lead or for people, or you act for somebody else", "ask the lead, use the command line, or give your own name";
        NotHolder "NOT_HOLDER" Forbidden Never: "the task belongs to another agent", "ask it for a handoff";
        CredentialRequired "CREDENTIAL_REQUIRED" Forbidden Never: "this agent's id is bound to a credential", "send its token or its session key (`X-Rookery-Session`), call through `rookery mcp --agent ID`, or choose another id";
        NoIdentity "NO_IDENTITY" Forbidden Fix: "a tool must know which agent calls", "connect as an agent, or give `agent_id`";
        ForeignHost "FOREIGN_HOST" Forbidden Never: "the `Host` header is not a name of this daemon", "call loopback, or add the name to `allowed_hosts`";
        ForeignOrigin "FOREIGN_ORIGIN" Forbidden Never: "a page of another origin called", "call from a program, or from the daemon's own page";
        OtherProject "OTHER_PROJECT" Forbidden Never: "`X-Rookery-Project` names another project", "look up the address in that project's `.rookery/daemon.json`";
    }
    "Signed messages and webhooks" {
        BadSignature "BAD_SIGNATURE" Forbidden Never: "the signature is not of what was sent, or by another key", "sign the message as it is sent: [signatures](signatures.md), [hooks](hooks.md)";
        UnknownKey "UNKNOWN_KEY" Forbidden Never: "the sender's card has no key of that name", "put the key on the card, signed by one that is there";
        SignatureRequired "SIGNATURE_REQUIRED" Forbidden Never: "the request has to be signed", "sign it, or send a token where that will do";
        StaleSignature "STALE_SIGNATURE" Forbidden Never: "a webhook was signed more than five minutes from now", "sign again; set the clocks";
        Replayed "REPLAYED" Conflict Never: "a webhook was delivered before as another delivery", "keep the delivery id when you try again";
        AdapterNotFound "ADAPTER_NOT_FOUND" NotFound Never: "there is no adapter of that name", "`rookery endpoints` lists them";
        HookNotFound "HOOK_NOT_FOUND" NotFound Never: "no webhook of that name is configured", "name it in [rookery.toml](hooks.md) and restart the daemon";
    }
    "It is not there" {
        AgentNotFound "AGENT_NOT_FOUND" NotFound Never: "no such agent, or it has left", "register (announce) it first";
        TaskNotFound "TASK_NOT_FOUND" NotFound Never: "no task with that id", "list what exists";
        HandoffNotFound "HANDOFF_NOT_FOUND" NotFound Never: "no handoff with that id", "list what exists";
        EventNotFound "EVENT_NOT_FOUND" NotFound Never: "no event with that id", "list what exists";
        TokenNotFound "TOKEN_NOT_FOUND" NotFound Never: "no token with that id", "`rookery token list` shows the ids";
        SessionNotFound "SESSION_NOT_FOUND" NotFound Never: "no browser session with that id", "`rookery sessions` lists them";
        SchemaNotFound "SCHEMA_NOT_FOUND" NotFound Never: "no schema of that name", "list what exists";
        GroupNotFound "GROUP_NOT_FOUND" NotFound Never: "no group of that name", "list what exists";
        TeamNotFound "TEAM_NOT_FOUND" NotFound Never: "no [team](teams.md) of that name ever ran", "`GET /teams`";
        TurnNotFound "TURN_NOT_FOUND" NotFound Never: "no turn with that id", "`GET /turns`";
        ArtifactNotFound "ARTIFACT_NOT_FOUND" NotFound Never: "no [artifact](artifacts.md) with that hash is here, or none any more", "upload it";
        ResourceNotFound "RESOURCE_NOT_FOUND" NotFound Never: "this path was never claimed, locked or changed under a claim", "check the spelling; a folder ends in `/`";
        PositionGone "POSITION_GONE" Gone Never: "the position is of another log, or not in this one", "take `/state` and [continue from there](events.md#the-stream)";
    }
    "Messages and documents" {
        MessageNotFound "MESSAGE_NOT_FOUND" NotFound Never: "no message with that id is for this agent", "use the id as it was shown";
        NotDelivered "NOT_DELIVERED" Conflict Never: "an acknowledgement of a message that the agent never received", "read what is pending first";
        RateLimited "RATE_LIMITED" RateLimited Later: "too many messages of this sender wait for a person already; or it sends more than `envelopes_per_minute`", "stop sending until a person has decided; or send it again after `Retry-After`";
        DocumentNotFound "DOCUMENT_NOT_FOUND" NotFound Never: "no document with that name", "list the documents";
        ContextDisabled "CONTEXT_DISABLED" Conflict Never: "the instance has no channel, inbox or documents", "work without them, or let a person turn them on with `rookery context configure`";
        StaleVersion "STALE_VERSION" Conflict Fix: "the document is newer than the version you have seen", "read it again and write on top of that";
    }
    "Workspaces" {
        WorkspaceNotFound "WORKSPACE_NOT_FOUND" NotFound Never: "no workspace with that id", "`workspace_list` shows the ids";
        WorkflowMismatch "WORKFLOW_MISMATCH" Invalid Never: "a task of another workflow than the workspace", "name the task's own workflow";
        MissingPath "MISSING_PATH" Invalid Fix: "neither a folder nor a repository to make one from", "give `path`, or `create_worktree` with `repo_path`";
        MissingRepoPath "MISSING_REPO_PATH" Invalid Fix: "a worktree without a repository to make it from", "give `repo_path`";
        MissingMergeCommit "MISSING_MERGE_COMMIT" Invalid Fix: "merged, without the commit that did it", "give it, or let `workspace_merge` do the merge";
        MergeConflict "MERGE_CONFLICT" Conflict Fix: "both branches changed the files that are named; nothing was merged", "resolve it in the worktree, then merge again";
        GitFailed "GIT_FAILED" Conflict Never: "git refused or failed; the sentence is its own", "do what it says";
        SiteOffline "SITE_OFFLINE" Unavailable Later: "the folder is on a machine where no daemon runs", "start the daemon there, then try again";
        Pending "PENDING" Conflict Fix: "it is still being done", "look again with `workspace_list`";
    }
    "Not now, as things stand" {
        AlreadyClaimed "ALREADY_CLAIMED" Conflict Never: "another agent has the task", "take another one, or ask for a handoff";
        ReservedForOther "RESERVED_FOR_OTHER" Conflict Never: "the task is kept for another agent", "take another one, or have it assigned to you";
        NotEligible "NOT_ELIGIBLE" Conflict Never: "the request of the task excludes the agent: by its policy, by what it requires, by its recipients, or because the agent has enough to do", "see [who gets a task](clutch.md#who-gets-a-task); the lead or a person can assign it all the same";
        DependenciesUnfinished "DEPENDENCIES_UNFINISHED" Conflict Fix: "the task waits for others, which are named", "finish these first";
        InvalidTransition "INVALID_TRANSITION" Conflict Never: "the task is in a state that does not lead there", "see [the states](tasks.md#the-life-of-a-task)";
        StaleFence "STALE_FENCE" Conflict Never: "the claim that you began with has ended", "stop; look at the task, and claim it again if it is free";
        AgentOffline "AGENT_OFFLINE" Conflict Never: "that agent is offline and can be given nothing", "wait for its next sign of life";
        AgentPaused "AGENT_PAUSED" Conflict Never: "the agent is [paused](agents.md#pause-one): it may finish what it has and takes nothing new", "wait until it is resumed, or `rookery resume AGENT`";
        Locked "LOCKED" Conflict Fix: "the path is locked", "wait, or ask for it to be unlocked";
        NotConflicted "NOT_CONFLICTED" Conflict Never: "there is no conflict to resolve", "nothing to do";
        AlreadyAnswered "ALREADY_ANSWERED" Conflict Never: "the handoff was accepted or rejected before, or the [turn or team](teams.md) has ended otherwise", "look at its status";
        Conflict "CONFLICT" Conflict Never: "the [team](teams.md), or an agent of it, is run already; or the agent is at another turn", "the hint says how to stop it";
        AlreadyExists "ALREADY_EXISTS" Conflict Fix: "the id or name is taken", "choose another";
        Stale "STALE" Conflict Never: "the state that the decision was based on has changed; nothing was done", "look again";
    }
    "Workflows" {
        WorkflowNotFound "WORKFLOW_NOT_FOUND" NotFound Never: "no workflow with that id", "list what exists";
        TemplateNotFound "TEMPLATE_NOT_FOUND" NotFound Never: "no template with that id", "list what exists";
        DuplicateTaskName "DUPLICATE_TASK_NAME" Invalid Fix: "two tasks of a workflow have one name", "choose another: dependencies refer to names";
        NameConflict "NAME_CONFLICT" Conflict Fix: "a new plan names a task like one that stays", "choose another name";
        SelfDependency "SELF_DEPENDENCY" Invalid Fix: "a task depends on itself", "leave that dependency out";
        UnknownDependency "UNKNOWN_DEPENDENCY" Invalid Fix: "a task depends on one that is not in the workflow", "name tasks exactly as in the plan";
        DependencyCycle "DEPENDENCY_CYCLE" Invalid Fix: "tasks wait for each other; the cycle is named", "leave one of the dependencies out";
        InvalidState "INVALID_STATE" Conflict Never: "the workflow, task or delivery is not in a state that allows this, for example paused", "see the hint";
        TaskNotRemovable "TASK_NOT_REMOVABLE" Conflict Never: "the task is claimed or was started", "skip or cancel it";
        NotClaimed "NOT_CLAIMED" Conflict Never: "no agent holds the task", "claim it first";
        MissingOutcome "MISSING_OUTCOME" Invalid Fix: "completed without an outcome", "say what came of it";
        MissingError "MISSING_ERROR" Invalid Fix: "failed without an error", "say why";
        DuplicateTemplate "DUPLICATE_TEMPLATE" Conflict Fix: "a template has this name", "choose another";
        MissingVariables "MISSING_VARIABLES" Invalid Fix: "a template has variables without a value; they are named", "give them";
    }
    "The daemon cannot" {
        TooManyConnections "TOO_MANY_CONNECTIONS" Unavailable Later: "all connections are in use", "close those that are not needed, or raise `max_connections`";
        TooManyDownloads "TOO_MANY_DOWNLOADS" RateLimited Later: "too many of your downloads are under way, or of all together", "finish one, or raise `max_downloads_per_caller` or `max_downloads`";
        TooManyRequests "TOO_MANY_REQUESTS" RateLimited Later: "too many of your requests are under way, or of all together", "wait for their answers, or raise `max_requests`";
        TooManySessions "TOO_MANY_SESSIONS" Unavailable Later: "all MCP sessions are in use", "close one, or raise `max_sessions`";
        TooManySubscribers "TOO_MANY_SUBSCRIBERS" RateLimited Later: "you have your share of streams open, or all are in use", "close one, or raise `max_streams_per_caller` or `max_subscriptions`";
        UpgradeRequired "UPGRADE_REQUIRED" Invalid Never: "`/clutch/v0/stream` was asked for without a WebSocket", "open it with a WebSocket client, or read [`/clutch/v0/messages`](clutch.md#messages)";
        Busy "BUSY" Unavailable Later: "the queue before the log is full; nothing was done", "repeat after `Retry-After`";
        StoreUnavailable "STORE_UNAVAILABLE" Unavailable Later: "the log cannot be written or read, for example on a full disk or while the [database is away](scaling.md#when-something-fails); nothing was done", "remove the cause; it resumes by itself";
        Stopping "STOPPING" Unavailable Later: "the daemon is stopping", "repeat when it is back";
        OutcomeUnknown "OUTCOME_UNKNOWN" Unavailable Later: "it may or may not have been done", "look, or repeat with the same `Idempotency-Key`";
        Timeout "TIMEOUT" Unavailable Later: "no answer in time; it may still be done", "look, or repeat with the same `Idempotency-Key`";
        Cancelled "CANCELLED" Unavailable Later: "the client went away before its tool call was done", "look whether it was done";
        ArtifactDamaged "ARTIFACT_DAMAGED" Internal Never: "an artifact's bytes are not those that were uploaded", "upload the same content again, or restore a backup";
        StoreCorrupt "STORE_CORRUPT" Internal Never: "the store holds something unreadable", "`rookery doctor`; restore the last backup";
        Internal "INTERNAL" Internal Never: "a fault in Rookery", "look whether it was done; `.rookery/log/daemon.log` says more; please report it";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all() -> impl Iterator<Item = Code> {
        SECTIONS.iter().flat_map(|(_, codes)| codes.iter().copied())
    }

    #[test]
    fn texts_are_unique_and_written_as_codes() {
        let mut seen = HashSet::new();
        for code in all() {
            let text = code.as_str();
            assert!(text.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{text}");
            assert!(seen.insert(text), "{text} is there twice");
            assert_eq!(serde_json::to_value(code).unwrap(), text);
        }
    }

    #[test]
    fn only_failures_that_pass_are_worth_repeating() {
        for code in all() {
            let passes = matches!(code.class(), CodeClass::RateLimited | CodeClass::Unavailable);
            assert_eq!(code.retry() == RetryAdvice::Later, passes, "{}", code.as_str());
        }
    }
}
