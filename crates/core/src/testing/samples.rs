//! One fact of every kind, with every field filled.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{path, profile};
use crate::agents::{
    AgentLeft, AgentPaused, AgentRegistered, AgentResumed, AgentReturned, AgentStatusSet, AgentUpdated,
    AgentWentOffline, LeadChosen, LeadReason,
};
use crate::clutch::{EnvelopeReceived, EnvelopeRejected, ToolDenied};
use crate::contexts::ContextConfigured;
use crate::contracts::{SchemaRegistered, StepContractsDefined};
use crate::documents::{DocumentDeleted, DocumentWritten};
use crate::effects::IntentClosed;
use crate::files::{
    ChangeSource, ClaimForced, ConflictDetected, ConflictEscalated, ConflictResolved, FileClaimed, FileLocked,
    FileModified, FileReleased, FileUnlocked, Report, UntrackedFilesChanged,
};
use crate::groups::{GroupRemoved, GroupSet};
use crate::handoffs::{HandoffAccepted, HandoffInitiated, HandoffRejected};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, TaskId, Timestamp};
use crate::messages::{
    ChannelArchived, DeliveryAbandoned, DeliveryRetried, DroppedLetter, LettersDropped, MessageDiscarded, MessageHeld,
    MessageReleased, MessageSent, MessagesAcked, MessagesRead, MessagesSuperseded, Receipt,
};
use crate::model::addressee::Address;
use crate::model::agent::{AgentRole, AgentStatus, ClaimsWhenOffline, Evidence, LostFile, Profile};
use crate::model::capabilities::Card;
use crate::model::context_settings::{ContextSettings, Provider, Scope};
use crate::model::contract::{ContractBinding, ExpectedPayload, StepContract};
use crate::model::document::{Change, DocumentId};
use crate::model::document_path::DocumentPath;
use crate::model::file::ReleaseReason;
use crate::model::handoff::HandoffNote;
use crate::model::message::{Form, Header, Hold, Letter, Priority, Recipients, UNKNOWN_RECIPIENT_TTL_MILLIS};
use crate::model::message_type::MessageType;
use crate::model::payload_type::PayloadType;
use crate::model::policy::{Network, Policy, TrustLevel};
use crate::model::requested_in::RequestedIn;
use crate::model::requirement::Requirement;
use crate::model::routing::{Rejected, RejectionFilter, RoutingDecision, Scored};
use crate::model::run::{RunSpec, SourceType};
use crate::model::task::{
    AlarmKind, CheckpointKind, Complexity, Details, Outcome, ReleaseCause, RequestTerms, TaskOrigin, TaskPlan,
    TaskState, WaitingFor,
};
use crate::model::team::{Conclusion, Mode, Runner, StartTime, TeamRef, TeamStartSpec};
use crate::model::template::Step;
use crate::model::timer::conflict_timer_id;
use crate::model::tool_call::{Denial, Restriction, ToolErrorCode};
use crate::model::trace::Trace;
use crate::model::turn::{Failure, TurnConclusion, Unsaid, Usage, WakeReason};
use crate::model::workspace::{Uncommitted, WorkspaceEffect};
use crate::model::{Key, LifeSource};
use crate::plans::{
    DependencyChange, RunPlanned, RunReordered, RunReplanned, SequenceChange, TaskRemoved, TemplateCreated,
};
use crate::redaction::{Cleared, Erase, LogRedacted};
use crate::routing::{RoutingDecided, RoutingFailed, TaskForwarded};
use crate::runs::{RunCreated, RunStatusCause, RunStatusSet};
use crate::tasks::{
    CheckpointAdded, DependentsUnblocked, RoutingResumed, TaskAttemptsExhausted, TaskCancelled, TaskClaimed,
    TaskCompleted, TaskCreated, TaskFailed, TaskPlanned, TaskReassigned, TaskReleased, TaskReopened, TaskReserved,
    TaskRetried, TaskSkipped, TaskStarted, TaskStepSet, TaskTimedOut, TimeLimit,
};
use crate::teams::{
    NewMember, TeamEnded, TeamKickedOff, TeamResumed, TeamSpawned, TeamStartFailed, TeamStartRequested, TeamStarted,
    TeamStopRequested, TurnEnded, TurnStarted,
};
use crate::traits::AnyEvent;
use crate::workspaces::{
    BranchFate, BranchOrigin, WorkspaceCreated, WorkspaceFailed, WorkspaceMerged, WorkspaceMerging, WorkspaceReady,
    WorkspaceRemoved, WorkspaceUpdated,
};

pub(crate) fn samples() -> Vec<AnyEvent> {
    let mut all = agents();
    all.extend(tasks());
    all.extend(files());
    all.extend(others());
    all.extend(workflows());
    all.extend(messages());
    all.extend(documents());
    all.push(context());
    all.extend(workspaces());
    all.extend(registry());
    all.push(envelope());
    all.extend(refused_envelopes());
    all.extend(routing());
    all.extend(teams());
    all
}

/// Every text of the samples that a redaction must take out.
pub(crate) fn blank_texts() -> [&'static str; 3] {
    ["secret", "s3cret", "hush"]
}

fn metadata() -> Map<String, Value> {
    Map::from_iter([("note".to_owned(), json!({ "deep": "secret" }))])
}

fn full() -> Profile {
    Profile {
        name: Some("Ada".to_owned()),
        workspace_path: Some("worktrees/ada".to_owned()),
        metadata: metadata(),
        card: Some(Arc::new(card())),
        role_name: Some("reviewer".to_owned()),
        session_id: Some("session-1738756800-12345".to_owned()),
        ..profile(AgentRole::Specialist)
    }
}

fn card() -> Card {
    let said = json!({
        "v": "clutch/0.1",
        "agent_id": "agent:ada",
        "display": { "name": "Ada", "desc": "secret", "avatar": "ada.png" },
        "endpoints": { "a2a": { "url": "http://ada/a2a" }, "clutch": { "url": "http://ada/clutch" } },
        "capabilities": [
            { "id": "skill:code", "version": "^1.2", "tags": ["rust"], "tools": ["mcp:files"], "trust_level": "prod",
              "cost_hint": "low" },
            { "id": "tool:mcp", "servers": ["mcp:files"] },
        ],
        "limits": { "max_concurrency": 2, "max_runtime_sec": 600 },
        "security": {
            "sandbox": true,
            "network": "egress-restricted",
            "tool_allowlist": ["mcp:files"],
            "keys": [{ "kid": "key_1", "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" }],
        },
        "meta": { "framework": "claude-code" },
    });
    Card::read(&said).unwrap()
}

fn agents() -> Vec<AnyEvent> {
    vec![
        AnyEvent::new(AgentRegistered {
            id: "ada".into(),
            profile: full(),
            sealed: true,
            sealed_by_team: false,
            allowed_endpoint: None,
        }),
        AnyEvent::new(AgentUpdated {
            id: "ada".into(),
            profile: full(),
            sealed: false,
            sealed_by_team: false,
            allowed_endpoint: None,
        }),
        AnyEvent::new(AgentReturned { agent: "ada".into() }),
        AnyEvent::new(AgentStatusSet {
            agent: "ada".into(),
            from: AgentStatus::Idle,
            status: AgentStatus::WaitingReview,
            current_task: Some("task_1".into()),
            clears_task: true,
        }),
        AnyEvent::new(AgentPaused {
            agent: "ada".into(),
            paused_by: "person:anna".to_owned(),
            reason: Some("secret".to_owned()),
        }),
        AnyEvent::new(AgentResumed { agent: "ada".into() }),
        AnyEvent::new(AgentLeft { agent: "ada".into() }),
        AnyEvent::new(AgentWentOffline {
            agent: "ada".into(),
            evidence: Evidence {
                last_seen: Timestamp(1_700_000_000_000),
                source: Some(LifeSource::Heartbeat),
                limit_millis: 60_000,
            },
            lost: ClaimsWhenOffline {
                tasks: vec!["task_1".into()],
                files: vec![LostFile { path: path("src/main.rs"), task: Some("task_1".into()) }],
            },
        }),
        AnyEvent::new(LeadChosen {
            holder: Some("ada".into()),
            asked: true,
            previous: Some("bob".into()),
            because: LeadReason::Succession,
        }),
    ]
}

fn terms() -> RequestTerms {
    let need = |text: &str| Requirement::parse(text).unwrap();
    RequestTerms {
        request: "msg_1".into(),
        to: vec![Address::Orchestrator, Address::Agent("ada".into()), Address::Group("workers".to_owned())],
        requires: vec![need("skill:research@^1.0")],
        prefers: vec![need("domain:fintech")],
        domain: Some("research".to_owned()),
        policy: Policy {
            sandbox: Some(true),
            tool_allowlist: Some(vec!["mcp:browser".to_owned()]),
            network: Some(Network::EgressRestricted),
            trust_level: Some(TrustLevel::Sandbox),
        },
        members: vec!["bob".into()],
        bound: Some(ContractBinding { workflow: "product-research".to_owned(), step: "research".to_owned() }),
        deadline: Some(Timestamp(9_000)),
        max_runtime_sec: Some(60),
        max_attempts: Some(2),
        trace: trace(),
    }
}

fn routing() -> Vec<AnyEvent> {
    let choice = |selected: Option<&str>| RoutingDecision {
        selected: selected.map(AgentId::from),
        candidates: vec![Scored { agent: "ada".into(), score: 0.5, load: 1 }],
        eligible: 1,
        reason: "secret".to_owned(),
        rejected: vec![Rejected {
            agent: "bob".into(),
            filter: RejectionFilter::Requires,
            reason: "secret".to_owned(),
        }],
        counts: [(RejectionFilter::Requires, 1)].into_iter().collect(),
    };
    let (task, run) = (TaskId::from("task_1"), Some("run_1".into()));
    vec![
        AnyEvent::new(RoutingDecided {
            task: task.clone(),
            run: run.clone(),
            choice: choice(Some("ada")),
            trace: trace(),
        }),
        AnyEvent::new(RoutingFailed {
            task: task.clone(),
            run: run.clone(),
            choice: choice(None),
            again_at: Some(Timestamp(30_000)),
            trace: trace(),
        }),
        AnyEvent::new(TaskForwarded {
            task: task.clone(),
            run: run.clone(),
            to: "ada".into(),
            message: "msg_2".into(),
            request: "msg_1".into(),
            attempt: 1,
            accept_by: Some(Timestamp(30_000)),
            artifacts: vec!["aa".repeat(32)],
        }),
        AnyEvent::new(RoutingResumed { task, run, clock: AlarmKind::Reroute }),
    ]
}

fn envelope() -> AnyEvent {
    AnyEvent::new(EnvelopeReceived {
        message: "msg_1".into(),
        message_type: MessageType::TaskRequest,
        run: "run_1".into(),
        thread: "thr_1".into(),
        task: "task_1".into(),
        parent: Some("task_0".into()),
        ts: Timestamp(5),
        role: Some("worker".to_owned()),
        to: vec![Address::Orchestrator, Address::Server("browser".to_owned())],
        domain: Some("research".to_owned()),
        payload_type: PayloadType::parse("research.query.v1"),
        hash: "e3b0c4".to_owned(),
        delivered: vec!["ada".into()],
        signed_by: Some("key_01".to_owned()),
        denied: Some(denial(None)),
        artifacts: vec!["aa".repeat(32)],
        ui_channel: Some("chat:research".to_owned()),
    })
}

fn denial(by: Option<Restriction>) -> Denial {
    let code = if by.is_some() { ToolErrorCode::ToolNotAllowed } else { ToolErrorCode::ToolUnavailable };
    Denial { code, tool: "mcp:browser".to_owned(), by }
}

fn refused_envelopes() -> Vec<AnyEvent> {
    vec![
        AnyEvent::new(LettersDropped {
            adapter: "http:ci".to_owned(),
            letters: vec![DroppedLetter { seq: Seq(3), attempts: 12, error: "secret".to_owned() }],
        }),
        AnyEvent::new(EnvelopeRejected {
            message: "msg_1".into(),
            message_type: MessageType::TaskCancel,
            from: "ada".to_owned(),
            kid: Some("key_01".to_owned()),
            code: Code::BadSignature,
            pointer: "/security/auth/sig".to_owned(),
            others: 2,
        }),
        AnyEvent::new(ToolDenied {
            call: "msg_1".into(),
            message: "msg_2".into(),
            to: "ada".to_owned(),
            run: "run_1".into(),
            thread: "thr_1".into(),
            task: "task_1".into(),
            trace: Trace { trace_id: Some("tr_1".to_owned()), span_id: None },
            denial: denial(Some(Restriction::Card)),
            delivered: Some("ada".into()),
        }),
    ]
}

fn tasks() -> Vec<AnyEvent> {
    vec![
        AnyEvent::new(TaskCreated {
            task: "task_1".into(),
            run: "run_default".into(),
            title: "secret".to_owned(),
            description: "s3cret".to_owned(),
            assigned_by: "ada".to_owned(),
            resources: vec!["src/main.rs".to_owned()],
            depends_on: vec!["task_2".into(), "task_3".into()],
            waiting_on: vec!["task_3".into()],
            sequence: 3,
            context_from: vec!["task_2".into()],
            details: details(),
            origin: TaskOrigin {
                thread: Some("thr_1".into()),
                parent: Some("task_0".into()),
                level: 1,
                terms: Some(Box::new(terms())),
            },
        }),
        AnyEvent::new(TaskReserved { task: "task_1".into(), agent: "ada".into() }),
        AnyEvent::new(TaskReassigned { task: "task_1".into(), from: "ada".into(), to: "bob".into() }),
        AnyEvent::new(TaskClaimed {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            agent: "ada".into(),
            from: Some("bob".into()),
            blocked: true,
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskStarted {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: "ada".into(),
            from: TaskState::Pending,
            end_by: Some(Timestamp(60_000)),
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskStepSet {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            from: TaskState::InProgress,
            to: TaskState::Paused,
            reason: Some("secret".to_owned()),
            waiting_for: Some(WaitingFor::Input),
        }),
        AnyEvent::new(TaskReleased {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            reserved_for: Some("bob".into()),
            from: TaskState::InProgress,
            because: ReleaseCause::NotAccepted,
            reason: Some("secret".to_owned()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskRetried {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            attempt: 2,
            not_before: Some(Timestamp(1_000)),
        }),
        AnyEvent::new(TaskCompleted {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            from: TaskState::Review,
            outcome: Outcome { text: Some("secret".to_owned()), detail: Some(json!({ "s3cret": ["hush", 1] })) },
            unblocks: vec!["task_4".into()],
            unblocked_to: None,
            artifacts: vec!["ab".repeat(32)],
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskFailed {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            from: TaskState::InProgress,
            error: Some("secret".to_owned()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskCancelled {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            reserved_for: Some("bob".into()),
            from: TaskState::Planning,
            reason: Some("secret".to_owned()),
            unblocks: vec!["task_4".into()],
            unblocked_to: None,
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskSkipped {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            reserved_for: Some("bob".into()),
            from: TaskState::Failed,
            reason: Some("secret".to_owned()),
            unblocks: vec!["task_4".into()],
            unblocked_to: None,
            requested_in: requested_in(),
        }),
        AnyEvent::new(DependentsUnblocked {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            unblocks: vec!["task_5".into(), "task_6".into()],
            unblocked_to: Some("task_6".into()),
        }),
        AnyEvent::new(TaskTimedOut {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            reserved_for: Some("bob".into()),
            from: TaskState::InProgress,
            attempt: 2,
            limit: TimeLimit::Runtime,
            due: Timestamp(60_000),
            reason: "secret".to_owned(),
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskAttemptsExhausted {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            attempts: 3,
            holder: Some("ada".into()),
            error: Some("secret".to_owned()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(TaskReopened {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            reserved_for: Some("bob".into()),
            from: TaskState::Completed,
            attempt: 2,
            because_of: Some("task_2".into()),
            blocks: vec!["task_4".into()],
            requested_in: requested_in(),
        }),
        AnyEvent::new(CheckpointAdded {
            id: "cp_task_1_1".to_owned(),
            task: "task_1".into(),
            run: Some("wf_1".into()),
            kind: CheckpointKind::Recovery,
            summary: "secret".to_owned(),
            sequence: 1,
            detail: Some(json!({ "s3cret": ["hush", 1] })),
            files_changed: vec!["src/main.rs".to_owned()],
            artifacts: vec!["cd".repeat(32)],
        }),
    ]
}

fn requested_in() -> RequestedIn {
    RequestedIn { thread: Some("thr_1".into()), trace: trace() }
}

fn trace() -> Trace {
    Trace { trace_id: Some("tr_1".to_owned()), span_id: Some("sp_1".to_owned()) }
}

fn files() -> Vec<AnyEvent> {
    let at = || path("src/main.rs");
    vec![
        AnyEvent::new(FileClaimed {
            path: at(),
            agent: "ada".into(),
            task: Some("task_1".into()),
            unknown_task: Some("task_2".into()),
            hash: "aa".to_owned(),
            site: None,
            from: Some("bob".into()),
        }),
        AnyEvent::new(FileReleased { path: at(), holder: "ada".into(), because: ReleaseReason::TaskEnded }),
        AnyEvent::new(ClaimForced { path: at(), loser: "ada".into(), winner: "bob".into() }),
        AnyEvent::new(FileLocked { path: at(), by: "person:anna".to_owned() }),
        AnyEvent::new(FileUnlocked { path: at(), by: "person:anna".to_owned() }),
        AnyEvent::new(FileModified {
            path: at(),
            by: Some("bob".into()),
            before: "aa".to_owned(),
            after: "bb".to_owned(),
            source: ChangeSource::Report,
            task: Some("task_1".into()),
            warning: Some("secret".to_owned()),
            metadata: metadata(),
            site: None,
        }),
        AnyEvent::new(UntrackedFilesChanged { changed: 12, sample: vec!["docs/a.md".to_owned()], site: None }),
        AnyEvent::new(ConflictDetected {
            path: at(),
            holder: "ada".into(),
            intruder: "bob".into(),
            before: "aa".to_owned(),
            after: "bb".to_owned(),
            timer: conflict_timer_id(&at()),
            escalate_at: Timestamp(1_700_000_600_000),
        }),
        AnyEvent::new(ConflictResolved {
            path: at(),
            winner: Some("bob".into()),
            holder: "ada".into(),
            intruder: "bob".into(),
        }),
        AnyEvent::new(ConflictEscalated {
            path: at(),
            holder: "ada".into(),
            intruder: "bob".into(),
            timer: conflict_timer_id(&at()),
            timer_version: Seq(7),
        }),
    ]
}

fn others() -> Vec<AnyEvent> {
    vec![
        AnyEvent::new(HandoffInitiated {
            handoff: "hoff_1".into(),
            from: "ada".into(),
            to: Some("bob".into()),
            task: "task_1".into(),
            note: HandoffNote {
                summary: "secret".to_owned(),
                files_modified: vec!["src/main.rs".to_owned()],
                files_created: vec!["src/new.rs".to_owned()],
                context: "s3cret".to_owned(),
                blockers: vec!["hush".to_owned()],
            },
            run: Some("run_1".into()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(HandoffAccepted {
            handoff: "hoff_1".into(),
            task: "task_1".into(),
            from: "ada".into(),
            by: "bob".into(),
            run: Some("run_1".into()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(HandoffRejected {
            handoff: "hoff_1".into(),
            task: "task_1".into(),
            from: "ada".into(),
            by: "bob".into(),
            reason: "secret".to_owned(),
            run: Some("run_1".into()),
            requested_in: requested_in(),
        }),
        AnyEvent::new(Report {
            agent: "ada".into(),
            action: "x.deploy.done".to_owned(),
            resource: Some(path("src/main.rs")),
            task: Some("task_1".into()),
            before_hash: Some("aa".to_owned()),
            after_hash: Some("bb".to_owned()),
            metadata: metadata(),
        }),
        AnyEvent::new(LogRedacted {
            seq: Seq(3),
            kind: "task.created".to_owned(),
            cleared: vec![Cleared { key: Key::Task("task_1".into()), fields: vec!["title".to_owned()] }],
            erases: vec![Erase { intent: "int_1".into(), sha256: "ab".repeat(32) }],
        }),
        AnyEvent::new(IntentClosed { intent: "int_1".into(), failed: Some("disk is full".to_owned()) }),
    ]
}

fn details() -> Details {
    Details {
        parallel_group: Some("first".to_owned()),
        estimated_complexity: Some(Complexity::High),
        repository_path: Some("app".to_owned()),
    }
}

fn workflows() -> Vec<AnyEvent> {
    let step = |depends_on: Vec<usize>| Step {
        title: "secret {{what}}".to_owned(),
        description: "s3cret".to_owned(),
        resources: vec!["src/main.rs".to_owned()],
        context_from: depends_on.clone(),
        depends_on,
        details: details(),
    };
    vec![
        AnyEvent::new(RunCreated {
            run: "wf_1".into(),
            brief: RunSpec {
                title: "secret".to_owned(),
                source_type: SourceType::GithubIssue,
                source_ref: Some("#7".to_owned()),
                source_content: "s3cret".to_owned(),
                repository_paths: vec!["app".to_owned()],
                max_parallel_tasks: 3,
                auto_create_workspaces: true,
                config: metadata(),
            },
            created_by: "ada".to_owned(),
        }),
        AnyEvent::new(RunPlanned {
            run: "wf_1".into(),
            summary: "secret".to_owned(),
            planned: vec!["task_1".into(), "task_2".into()],
        }),
        AnyEvent::new(RunReplanned {
            run: "wf_1".into(),
            summary: "secret".to_owned(),
            reason: "hush".to_owned(),
            config: metadata(),
            added: vec!["task_3".into()],
            removed: vec!["task_2".into()],
            preserved: vec!["task_1".into()],
        }),
        AnyEvent::new(RunReordered {
            run: "wf_1".into(),
            places: vec![SequenceChange { task: "task_1".into(), sequence: 2 }],
        }),
        AnyEvent::new(RunStatusSet {
            run: "wf_1".into(),
            from: crate::model::run::RunStatus::InProgress,
            to: crate::model::run::RunStatus::Paused,
            reason: Some("secret".to_owned()),
            because: RunStatusCause::Asked,
        }),
        AnyEvent::new(TaskPlanned {
            task: "task_1".into(),
            run: Some("wf_1".into()),
            holder: Some("ada".into()),
            from: TaskState::Pending,
            to: TaskState::Planning,
            plan: TaskPlan {
                approach: "secret".to_owned(),
                steps: vec!["s3cret".to_owned(), "hush".to_owned()],
                files_to_modify: vec!["src/main.rs".to_owned()],
                files_to_create: vec!["src/new.rs".to_owned()],
                context_needed: vec!["hush".to_owned()],
            },
            context: metadata(),
        }),
        AnyEvent::new(TaskRemoved {
            task: "task_1".into(),
            run: "wf_1".into(),
            depends_on: vec!["task_2".into()],
            rewired: vec![DependencyChange {
                task: "task_4".into(),
                gains: vec!["task_2".into()],
                waits: vec!["task_2".into()],
            }],
            checkpoints: vec!["cp_task_1_1".to_owned()],
        }),
        AnyEvent::new(TemplateCreated {
            template: "tmpl_1".into(),
            title: "secret".to_owned(),
            description: "hush".to_owned(),
            tasks: vec![step(vec![]), step(vec![0])],
            variables: vec!["what".to_owned()],
            created_by: "ada".to_owned(),
        }),
    ]
}

fn header() -> Header {
    Header {
        message: "msg-1700000000-1".into(),
        run: "run_pr-1".into(),
        thread: "thr_pr-1".into(),
        task: None,
        form: Form::Coord,
        from: "ada@pr-1".into(),
        name: "ada".to_owned(),
        topic: Some("BLOCKING_ISSUE".to_owned()),
        announces: None,
        mentions: vec!["ada@pr-1".into(), "bob@pr-1".into()],
        to: Recipients::Agents(vec!["bob@pr-1".into()]),
        unknown: vec!["eve".into()],
        people: vec![],
        awaits_millis: Some(UNKNOWN_RECIPIENT_TTL_MILLIS),
        requires_ack: true,
        priority: Priority::High,
        wakes: true,
        lasts_millis: Some(UNKNOWN_RECIPIENT_TTL_MILLIS),
        cause: Some("msg_0".into()),
        reply_to: None,
        root: None,
        hops: 3,
    }
}

/// The notification of a completed task.
fn notification() -> Letter {
    let header = Header {
        message: "ntf_0123456789abc_18bcfe56800".into(),
        task: Some("task_1".into()),
        form: Form::Envelope,
        topic: None,
        announces: Some("task.completed".to_owned()),
        mentions: vec![],
        unknown: vec![],
        awaits_millis: None,
        lasts_millis: None,
        cause: None,
        hops: 0,
        ..header()
    };
    Letter { header, subject: None, text: String::new() }
}

fn messages() -> Vec<AnyEvent> {
    let letter = || Letter { header: header(), subject: Some("hush".to_owned()), text: "a secret".to_owned() };
    let everyone = Letter {
        header: Header { to: Recipients::Everyone, ..header() },
        subject: Some("hush".to_owned()),
        text: "s3cret".to_owned(),
    };
    let receipt = || Receipt {
        agent: "bob@pr-1".into(),
        messages: vec!["msg-1700000000-1".into()],
        broadcasts: vec!["msg-1700000000-2".into()],
    };
    vec![
        AnyEvent::new(MessageSent {
            letter: letter(),
            at: Timestamp(1_700_000_000_000),
            due: Some(Timestamp(1_700_000_000_100)),
        }),
        AnyEvent::new(MessageSent { letter: notification(), at: Timestamp(1_700_000_000_000), due: None }),
        AnyEvent::new(MessageHeld { letter: everyone, because: Hold::Hops { most: 20 } }),
        AnyEvent::new(MessageReleased { header: header(), at: Timestamp(1_700_000_000_001) }),
        AnyEvent::new(MessageDiscarded {
            message: "msg-1700000000-1".into(),
            from: "ada@pr-1".into(),
            reason: Some("secret".to_owned()),
        }),
        AnyEvent::new(MessagesRead(receipt())),
        AnyEvent::new(MessagesAcked(receipt())),
        AnyEvent::new(MessagesSuperseded(receipt())),
        AnyEvent::new(ChannelArchived {
            thread: "thr_default".into(),
            archive: "thr_default.2".into(),
            after: Some(Timestamp(1_700_000_000_000)),
            until: Timestamp(1_700_000_000_001),
            messages: 1,
        }),
        AnyEvent::new(DeliveryAbandoned {
            message: "msg-1700000000-2".into(),
            agent: "bob@pr-1".into(),
            attempts: 8,
            error: "a secret refused".to_owned(),
            broadcast: true,
        }),
        AnyEvent::new(DeliveryRetried { message: "msg-1700000000-2".into(), agent: "bob@pr-1".into() }),
    ]
}

fn context() -> AnyEvent {
    AnyEvent::new(ContextConfigured {
        scope: Scope::Instance("run_pr-1".into()),
        settings: ContextSettings {
            provider: Some(Provider::File),
            dir: Some("team/${{ instance }}".to_owned()),
            channel: Some("discussion.md".to_owned()),
            document: Some("workspace.md".to_owned()),
            documents: Some(vec!["goals.md".to_owned()]),
        },
        site: Some("site_1".into()),
    })
}

fn documents() -> Vec<AnyEvent> {
    let id = || DocumentId::new("run_pr-1".into(), DocumentPath::parse("findings/auth.md").unwrap());
    vec![
        AnyEvent::new(DocumentWritten {
            id: id(),
            version: 3,
            base: 2,
            change: Change::Appended,
            author: "ada@pr-1".to_owned(),
            before: Some("aa".to_owned()),
            hash: "bb".to_owned(),
            bytes: 12,
            text: "a secret".to_owned(),
        }),
        AnyEvent::new(DocumentDeleted { id: id(), version: 4, author: "external".to_owned(), before: "bb".to_owned() }),
    ]
}

fn workspaces() -> Vec<AnyEvent> {
    let (id, run, intent) = (|| "ws_1".into(), || Some("wf_1".into()), || "int_1".into());
    vec![
        AnyEvent::new(WorkspaceCreated {
            workspace: id(),
            run: run(),
            path: "/projects/app-worktrees/feature-x".to_owned(),
            branch: "feature/x".to_owned(),
            base_branch: Some("main".to_owned()),
            repo_path: Some("/projects/app".to_owned()),
            tasks: vec!["task_1".into()],
            config: metadata(),
            site: "site_1".into(),
            created_by: "ada".to_owned(),
            making: Some(intent()),
        }),
        AnyEvent::new(WorkspaceReady {
            workspace: id(),
            run: run(),
            intent: intent(),
            base_branch: "main".to_owned(),
            branch: BranchOrigin::Created,
        }),
        AnyEvent::new(WorkspaceUpdated {
            workspace: id(),
            run: run(),
            from: crate::model::workspace::WorkspaceStatus::Active,
            status: crate::model::workspace::WorkspaceStatus::Merged,
            merge_commit: Some("0a1b2c".to_owned()),
            pr_url: Some("https://example.com/pull/7".to_owned()),
            config: metadata(),
            site: "site_1".into(),
            removing: Some(intent()),
        }),
        AnyEvent::new(WorkspaceMerging {
            workspace: id(),
            run: run(),
            uncommitted: Uncommitted::Commit,
            site: "site_1".into(),
            intent: intent(),
        }),
        AnyEvent::new(WorkspaceMerged {
            workspace: id(),
            run: run(),
            intent: intent(),
            merge_commit: "0a1b2c".to_owned(),
        }),
        AnyEvent::new(WorkspaceRemoved {
            workspace: id(),
            run: run(),
            intent: intent(),
            backup_ref: Some("refs/rookery/backup/ws_1".to_owned()),
            branch: BranchFate::Kept,
        }),
        AnyEvent::new(WorkspaceFailed {
            workspace: id(),
            run: run(),
            intent: intent(),
            work: WorkspaceEffect::Merging,
            code: crate::kernel::code::Code::MergeConflict,
            reason: "secret".to_owned(),
        }),
    ]
}

fn registry() -> Vec<AnyEvent> {
    let payload_type = || PayloadType::parse("research.summary.v2").unwrap();
    vec![
        AnyEvent::new(SchemaRegistered {
            payload_type: payload_type(),
            text: r#"{"type":"object","title":"secret"}"#.to_owned(),
            registered_by: "ada".to_owned(),
        }),
        AnyEvent::new(StepContractsDefined {
            workflow: "product-research".to_owned(),
            rules: vec![StepContract {
                id: "research".to_owned(),
                expects: ExpectedPayload {
                    message_type: MessageType::TaskResult,
                    payload_type: payload_type(),
                    required: vec!["findings".to_owned()],
                },
            }],
            defined_by: "person:anna".to_owned(),
        }),
        AnyEvent::new(GroupSet {
            group: "reviewers".to_owned(),
            members: vec!["ada".into(), "bob@pr-1".into()],
            set_by: "nobody".to_owned(),
        }),
        AnyEvent::new(GroupRemoved { group: "reviewers".to_owned() }),
    ]
}

fn teams() -> Vec<AnyEvent> {
    let of = || TeamRef { team: "@pr-1".into(), generation: 2, run: "run_pr-1".into(), thread: "thr_pr-1".into() };
    let agents = || {
        vec![NewMember {
            agent: "ada@pr-1".into(),
            backend: "claude".to_owned(),
            model: Some("anthropic/claude-sonnet-4-5".to_owned()),
        }]
    };
    let runner = |started_at| Runner {
        host: "laptop".to_owned(),
        boot_id: "6ab2cf6e".to_owned(),
        pid: 4_711,
        started_at,
        site: Some("site_1".into()),
    };
    vec![
        AnyEvent::new(TeamStarted {
            of: of(),
            workflow: "review".to_owned(),
            file: Some("review.yaml".to_owned()),
            mode: Mode::Start,
            agents: agents(),
            runner: runner(StartTime::Ticks(1_234)),
        }),
        AnyEvent::new(TeamResumed {
            of: of(),
            workflow: "review".to_owned(),
            file: Some("review.yaml".to_owned()),
            mode: Mode::Run,
            agents: agents(),
            runner: runner(StartTime::Text("1234".to_owned())),
            interrupted: vec!["turn_1".into()],
        }),
        AnyEvent::new(TeamStartRequested {
            of: of(),
            intent: "int_1".into(),
            launch: TeamStartSpec {
                file: "review.yaml".to_owned(),
                params: vec!["--depth".to_owned(), "2".to_owned()],
            },
            site: "site_1".into(),
        }),
        AnyEvent::new(TeamSpawned { of: of(), intent: "int_1".into(), file: "review.yaml".to_owned() }),
        AnyEvent::new(TeamStartFailed {
            of: of(),
            intent: "int_1".into(),
            file: "review.yaml".to_owned(),
            reason: "secret".to_owned(),
        }),
        AnyEvent::new(TeamKickedOff { of: of(), messages: vec!["msg_1".into(), "msg_2".into()] }),
        AnyEvent::new(TeamStopRequested {
            of: of(),
            member: Some("ada@pr-1".into()),
            reason: Some("secret".to_owned()),
            asked_by: "person:anna".to_owned(),
        }),
        AnyEvent::new(TeamEnded { of: of(), how: Conclusion::Failed, reason: Some("secret".to_owned()) }),
        AnyEvent::new(TurnStarted {
            turn: "turn_1".into(),
            of: of(),
            agent: "ada@pr-1".into(),
            attempt: 2,
            woken: WakeReason::Messages,
            messages: vec!["msg_1".into()],
        }),
        AnyEvent::new(TurnEnded {
            turn: "turn_1".into(),
            of: of(),
            agent: "ada@pr-1".into(),
            how: TurnConclusion::Failed,
            gave_up: true,
            failure: Some(Failure {
                kind: "not_signed_in".to_owned(),
                reason: "a secret is missing".to_owned(),
                detail: Some("give it the secret".to_owned()),
            }),
            usage: Usage { input_tokens: 1_200, output_tokens: 300, cost_micros: Some(12_500) },
            conversation: Some("5f0c".to_owned()),
            transcript: Some("ab".repeat(32)),
            posted: Some("msg_3".into()),
            unsaid: Some(Unsaid { text: "hush".to_owned(), reason: "a secret".to_owned() }),
        }),
    ]
}
