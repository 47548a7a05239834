//! What happened: the kinds of facts, their names and versions, the rows each touches, and what becomes of those.
//!
//! A shipped version of a fact is never edited. A changed form gets a new version, an upcaster in `upcast.rs` and golden
//! files in `tests/golden/`.

use crate::model::{ArtifactRefId, DeliveryId, DependencyId, Key, Row, VersionId};
use serde::{Deserialize, Serialize};

use crate::adapter::LettersDropped;
use crate::agent::{
    self, AgentLeft, AgentPaused, AgentRegistered, AgentResumed, AgentReturned, AgentStatusSet, AgentUpdated,
    AgentWentOffline, Lead, LeadChosen,
};
use crate::clutch::{self, EnvelopeReceived, EnvelopeRejected, ToolDenied};
use crate::contract::{self, SchemaRegistered, StepContractsDefined};
use crate::document::{self, DocumentDeleted, DocumentWritten};
use crate::file::{
    self, ClaimForced, ConflictDetected, ConflictEscalated, ConflictResolved, FileClaimed, FileLocked, FileModified,
    FileReleased, FileUnlocked, UntrackedFilesChanged,
};
use crate::group::{self, GroupRemoved, GroupSet};
use crate::handoff::{self, HandoffAccepted, HandoffInitiated, HandoffRejected};
use crate::id::{AgentId, IntentId, RunId, Seq, TaskId, ThreadId, Timestamp, WorkspaceId};
use crate::instance::{self, ContextConfigured};
use crate::intent::{self, IntentClosed};
use crate::message::{
    self, DeliveryAbandoned, DeliveryRetried, MessageDiscarded, MessageHeld, MessageReleased, MessageSent, Receipt,
};
use crate::redact::{self, LogRedacted};
use crate::report::Report;
use crate::routing::{RoutingDecided, RoutingFailed, RoutingResumed, TaskForwarded};
use crate::run::{self, RunCreated, RunPlanned, RunReordered, RunReplanned, RunStatusSet, TaskRemoved};
use crate::task::{
    self, CheckpointAdded, Dependency, TaskAttemptsExhausted, TaskClaimed, TaskCompleted, TaskCreated, TaskDropped,
    TaskFailed, TaskPlanned, TaskReassigned, TaskReleased, TaskReopened, TaskReserved, TaskRetried, TaskStarted,
    TaskStepSet, TaskTimedOut,
};
use crate::team::{
    self, TeamEnded, TeamKickedOff, TeamResumed, TeamSpawned, TeamStartFailed, TeamStartRequested, TeamStarted,
    TeamStopRequested,
};
use crate::template::{self, TemplateCreated};
use crate::timer::{self, conflict_timer_id};
use crate::turn::{self, TurnEnded, TurnStarted};
use crate::upcast::{UPCASTERS, Upcaster, upcast};
use crate::workspace::{
    self, WorkspaceCreated, WorkspaceFailed, WorkspaceMerged, WorkspaceMerging, WorkspaceReady, WorkspaceRemoved,
    WorkspaceUpdated,
};
use crate::{artifact, told};

macro_rules! facts {
    ($($name:ident($body:ty) = $kind:literal v $version:literal),+ $(,)?) => {
        /// One thing that happened.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(untagged)]
        pub enum AnyEvent { $($name($body)),+ }

        impl AnyEvent {
            /// Every kind with its newest version.
            pub const KINDS: &'static [(&'static str, u32)] = &[$(($kind, $version)),+];

            pub fn kind(&self) -> &'static str {
                match self { $(AnyEvent::$name(_) => $kind),+ }
            }

            pub fn version(&self) -> u32 {
                match self { $(AnyEvent::$name(_) => $version),+ }
            }

            /// Reads a fact of any version that was ever shipped.
            pub fn decode(kind: &str, version: u32, bytes: &[u8]) -> Result<AnyEvent, EventError> {
                AnyEvent::decode_with(UPCASTERS, kind, version, bytes)
            }

            fn decode_with(
                upcasters: &[Upcaster],
                kind: &str,
                version: u32,
                bytes: &[u8],
            ) -> Result<AnyEvent, EventError> {
                match (kind, version) {
                    $(($kind, $version) => serde_json::from_slice(bytes)
                        .map(AnyEvent::$name)
                        .map_err(|source| EventError::Unreadable { kind: kind.to_owned(), version, source }),)+
                    _ => AnyEvent::decode_older(upcasters, kind, version, bytes),
                }
            }
        }
    };
}

facts! {
    AgentRegistered(AgentRegistered) = "agent.registered" v 1,
    AgentUpdated(AgentUpdated) = "agent.updated" v 1,
    AgentReturned(AgentReturned) = "agent.returned" v 1,
    AgentStatusSet(AgentStatusSet) = "agent.status_set" v 1,
    AgentPaused(AgentPaused) = "agent.paused" v 1,
    AgentResumed(AgentResumed) = "agent.unpaused" v 1,
    AgentLeft(AgentLeft) = "agent.left" v 1,
    AgentWentOffline(AgentWentOffline) = "agent.went_offline" v 1,
    LeadChosen(LeadChosen) = "lead.chosen" v 1,
    TaskCreated(TaskCreated) = "task.created" v 1,
    TaskReserved(TaskReserved) = "task.reserved" v 1,
    TaskReassigned(TaskReassigned) = "task.reassigned" v 1,
    TaskClaimed(TaskClaimed) = "task.claimed" v 1,
    TaskStarted(TaskStarted) = "task.started" v 1,
    TaskStepSet(TaskStepSet) = "task.moved" v 1,
    TaskReleased(TaskReleased) = "task.released" v 1,
    TaskRetried(TaskRetried) = "task.retried" v 1,
    TaskCompleted(TaskCompleted) = "task.completed" v 1,
    TaskFailed(TaskFailed) = "task.failed" v 1,
    TaskDropped(TaskDropped) = "task.dropped" v 1,
    CheckpointAdded(CheckpointAdded) = "checkpoint.added" v 1,
    FileClaimed(FileClaimed) = "resource.claimed" v 1,
    FileReleased(FileReleased) = "resource.released" v 1,
    ClaimForced(ClaimForced) = "resource.forced" v 1,
    FileLocked(FileLocked) = "resource.locked" v 1,
    FileUnlocked(FileUnlocked) = "resource.unlocked" v 1,
    FileModified(FileModified) = "resource.modified" v 1,
    UntrackedFilesChanged(UntrackedFilesChanged) = "resource.others_changed" v 1,
    ConflictDetected(ConflictDetected) = "resource.conflict_detected" v 1,
    ConflictResolved(ConflictResolved) = "resource.conflict_resolved" v 1,
    ConflictEscalated(ConflictEscalated) = "resource.conflict_escalated" v 1,
    HandoffInitiated(HandoffInitiated) = "handoff.initiated" v 1,
    HandoffAccepted(HandoffAccepted) = "handoff.accepted" v 1,
    HandoffRejected(HandoffRejected) = "handoff.rejected" v 1,
    ReportAdded(Report) = "report.added" v 1,
    LogRedacted(LogRedacted) = "log.redacted" v 1,
    IntentClosed(IntentClosed) = "intent.closed" v 1,
    RunCreated(RunCreated) = "run.created" v 1,
    RunPlanned(RunPlanned) = "run.planned" v 1,
    RunReplanned(RunReplanned) = "run.replanned" v 1,
    RunReordered(RunReordered) = "run.reordered" v 1,
    RunStatusSet(RunStatusSet) = "run.status_set" v 1,
    TaskPlanned(TaskPlanned) = "task.planned" v 1,
    TaskRemoved(TaskRemoved) = "task.removed" v 1,
    TemplateCreated(TemplateCreated) = "template.created" v 1,
    MessageSent(MessageSent) = "message.sent" v 1,
    MessageHeld(MessageHeld) = "message.held" v 1,
    MessageReleased(MessageReleased) = "message.released" v 1,
    MessageDiscarded(MessageDiscarded) = "message.discarded" v 1,
    MessagesRead(Receipt) = "message.read" v 1,
    MessagesAcked(Receipt) = "message.acked" v 1,
    DeliveryAbandoned(DeliveryAbandoned) = "delivery.abandoned" v 1,
    DeliveryRetried(DeliveryRetried) = "delivery.retried" v 1,
    DocumentWritten(DocumentWritten) = "document.written" v 1,
    DocumentDeleted(DocumentDeleted) = "document.deleted" v 1,
    ContextConfigured(ContextConfigured) = "context.configured" v 1,
    WorkspaceCreated(WorkspaceCreated) = "workspace.created" v 1,
    WorkspaceReady(WorkspaceReady) = "workspace.made" v 1,
    WorkspaceUpdated(WorkspaceUpdated) = "workspace.updated" v 1,
    WorkspaceMerging(WorkspaceMerging) = "workspace.merging" v 1,
    WorkspaceMerged(WorkspaceMerged) = "workspace.merged" v 1,
    WorkspaceRemoved(WorkspaceRemoved) = "workspace.removed" v 1,
    WorkspaceFailed(WorkspaceFailed) = "workspace.failed" v 1,
    SchemaRegistered(SchemaRegistered) = "schema.registered" v 1,
    StepContractsDefined(StepContractsDefined) = "workflow.defined" v 1,
    GroupSet(GroupSet) = "group.set" v 1,
    GroupRemoved(GroupRemoved) = "group.removed" v 1,
    EnvelopeReceived(EnvelopeReceived) = "envelope.received" v 1,
    EnvelopeRejected(EnvelopeRejected) = "envelope.rejected" v 1,
    LettersDropped(LettersDropped) = "adapter.dropped" v 1,
    ToolDenied(ToolDenied) = "tool.denied" v 1,
    RoutingDecided(RoutingDecided) = "routing.decided" v 1,
    RoutingFailed(RoutingFailed) = "routing.failed" v 1,
    TaskForwarded(TaskForwarded) = "task.forwarded" v 1,
    RoutingResumed(RoutingResumed) = "routing.resumed" v 1,
    TaskTimedOut(TaskTimedOut) = "task.timed_out" v 1,
    TaskAttemptsExhausted(TaskAttemptsExhausted) = "task.exhausted" v 1,
    TaskReopened(TaskReopened) = "task.reopened" v 1,
    TeamStartRequested(TeamStartRequested) = "team.launch_asked" v 1,
    TeamSpawned(TeamSpawned) = "team.launched" v 1,
    TeamStartFailed(TeamStartFailed) = "team.launch_failed" v 1,
    TeamStarted(TeamStarted) = "team.started" v 1,
    TeamResumed(TeamResumed) = "team.resumed" v 1,
    TeamKickedOff(TeamKickedOff) = "team.kicked_off" v 1,
    TeamStopRequested(TeamStopRequested) = "team.stop_asked" v 1,
    TeamEnded(TeamEnded) = "team.ended" v 1,
    TurnStarted(TurnStarted) = "turn.started" v 1,
    TurnEnded(TurnEnded) = "turn.ended" v 1,
}

#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("fact {kind} version {version} is not known to this program; a newer one wrote it")]
    Unknown { kind: String, version: u32 },
    #[error("fact {kind} version {version} cannot be read")]
    Unreadable { kind: String, version: u32, source: serde_json::Error },
}

impl AnyEvent {
    /// Reads a fact of an older version by upcasting it to the newest one.
    fn decode_older(upcasters: &[Upcaster], kind: &str, version: u32, bytes: &[u8]) -> Result<AnyEvent, EventError> {
        let unknown = || EventError::Unknown { kind: kind.to_owned(), version };
        let unreadable = |source| EventError::Unreadable { kind: kind.to_owned(), version, source };
        let newest = AnyEvent::KINDS.iter().find(|(known, _)| *known == kind).map(|(_, newest)| *newest);
        let newest = newest.filter(|newest| version < *newest).ok_or_else(unknown)?;
        let event = serde_json::from_slice(bytes).map_err(unreadable)?;
        let event = upcast(upcasters, kind, version..newest, event).ok_or_else(unknown)?;
        AnyEvent::decode_with(upcasters, kind, newest, event.to_string().as_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        // Facts are plain data with string keys: writing them to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The same fact without its free texts.
    pub fn blanked(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or_default();
        serde_json::to_vec(&redact::blanked(value)).unwrap_or_default()
    }

    /// The free texts that [`AnyEvent::blanked`] takes out, each as JSON.
    pub fn texts(&self) -> Vec<String> {
        redact::texts(&serde_json::to_value(self).unwrap_or_default())
            .into_iter()
            .map(|(_, text)| text.to_string())
            .collect()
    }

    /// The team that a fact is about, and which generation of it.
    pub fn of_team(&self) -> Option<&team::TeamRef> {
        match self {
            AnyEvent::TeamStartRequested(fact) => Some(&fact.of),
            AnyEvent::TeamSpawned(fact) => Some(&fact.of),
            AnyEvent::TeamStartFailed(fact) => Some(&fact.of),
            AnyEvent::TeamStarted(fact) => Some(&fact.of),
            AnyEvent::TeamResumed(fact) => Some(&fact.of),
            AnyEvent::TeamKickedOff(fact) => Some(&fact.of),
            AnyEvent::TeamStopRequested(fact) => Some(&fact.of),
            AnyEvent::TeamEnded(fact) => Some(&fact.of),
            AnyEvent::TurnStarted(fact) => Some(&fact.of),
            AnyEvent::TurnEnded(fact) => Some(&fact.of),
            _ => None,
        }
    }

    /// The run a fact belongs to, if it says so.
    pub fn run(&self) -> Option<&RunId> {
        match self {
            AnyEvent::TaskCreated(fact) => Some(&fact.run),
            AnyEvent::TaskClaimed(fact) => fact.run.as_ref(),
            AnyEvent::TaskStarted(fact) => fact.run.as_ref(),
            AnyEvent::TaskStepSet(fact) => fact.run.as_ref(),
            AnyEvent::TaskReleased(fact) => fact.run.as_ref(),
            AnyEvent::TaskRetried(fact) => fact.run.as_ref(),
            AnyEvent::TaskCompleted(fact) => fact.run.as_ref(),
            AnyEvent::TaskFailed(fact) => fact.run.as_ref(),
            AnyEvent::TaskDropped(fact) => fact.run.as_ref(),
            AnyEvent::TaskPlanned(fact) => fact.run.as_ref(),
            AnyEvent::CheckpointAdded(fact) => fact.run.as_ref(),
            AnyEvent::TaskRemoved(fact) => Some(&fact.run),
            AnyEvent::RunCreated(fact) => Some(&fact.run),
            AnyEvent::RunPlanned(fact) => Some(&fact.run),
            AnyEvent::RunReplanned(fact) => Some(&fact.run),
            AnyEvent::RunReordered(fact) => Some(&fact.run),
            AnyEvent::RunStatusSet(fact) => Some(&fact.run),
            AnyEvent::MessageSent(fact) => Some(&fact.letter.header.run),
            AnyEvent::MessageHeld(fact) => Some(&fact.letter.header.run),
            AnyEvent::MessageReleased(fact) => Some(&fact.header.run),
            AnyEvent::DocumentWritten(fact) => Some(&fact.id.run),
            AnyEvent::DocumentDeleted(fact) => Some(&fact.id.run),
            AnyEvent::ContextConfigured(fact) => fact.scope.run(),
            AnyEvent::WorkspaceCreated(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceReady(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceUpdated(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceMerging(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceMerged(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceRemoved(fact) => fact.run.as_ref(),
            AnyEvent::WorkspaceFailed(fact) => fact.run.as_ref(),
            AnyEvent::EnvelopeReceived(fact) => Some(&fact.run),
            AnyEvent::ToolDenied(fact) => Some(&fact.run),
            AnyEvent::RoutingDecided(fact) => fact.run.as_ref(),
            AnyEvent::RoutingFailed(fact) => fact.run.as_ref(),
            AnyEvent::TaskForwarded(fact) => fact.run.as_ref(),
            AnyEvent::RoutingResumed(fact) => fact.run.as_ref(),
            AnyEvent::TaskTimedOut(fact) => fact.run.as_ref(),
            AnyEvent::TaskAttemptsExhausted(fact) => fact.run.as_ref(),
            AnyEvent::TaskReopened(fact) => fact.run.as_ref(),
            AnyEvent::HandoffInitiated(fact) => fact.run.as_ref(),
            AnyEvent::HandoffAccepted(fact) => fact.run.as_ref(),
            AnyEvent::HandoffRejected(fact) => fact.run.as_ref(),
            other => other.of_team().map(|of| &of.run),
        }
    }

    /// The thread a fact belongs to, if it says so.
    pub fn thread(&self) -> Option<&ThreadId> {
        match self {
            AnyEvent::MessageSent(fact) => Some(&fact.letter.header.thread),
            AnyEvent::MessageHeld(fact) => Some(&fact.letter.header.thread),
            AnyEvent::MessageReleased(fact) => Some(&fact.header.thread),
            AnyEvent::EnvelopeReceived(fact) => Some(&fact.thread),
            AnyEvent::ToolDenied(fact) => Some(&fact.thread),
            AnyEvent::TaskCreated(fact) => fact.origin.thread.as_ref(),
            other => other.of_team().map(|of| &of.thread).or_else(|| other.told_in()),
        }
    }

    /// The task a fact is about.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            AnyEvent::EnvelopeReceived(fact) => Some(&fact.task),
            AnyEvent::ToolDenied(fact) => Some(&fact.task),
            AnyEvent::RoutingDecided(fact) => Some(&fact.task),
            AnyEvent::RoutingFailed(fact) => Some(&fact.task),
            AnyEvent::TaskForwarded(fact) => Some(&fact.task),
            AnyEvent::RoutingResumed(fact) => Some(&fact.task),
            AnyEvent::TaskTimedOut(fact) => Some(&fact.task),
            AnyEvent::TaskAttemptsExhausted(fact) => Some(&fact.task),
            AnyEvent::TaskReopened(fact) => Some(&fact.task),
            AnyEvent::TaskCreated(fact) => Some(&fact.task),
            AnyEvent::TaskReserved(fact) => Some(&fact.task),
            AnyEvent::TaskReassigned(fact) => Some(&fact.task),
            AnyEvent::TaskClaimed(fact) => Some(&fact.task),
            AnyEvent::TaskStarted(fact) => Some(&fact.task),
            AnyEvent::TaskStepSet(fact) => Some(&fact.task),
            AnyEvent::TaskReleased(fact) => Some(&fact.task),
            AnyEvent::TaskRetried(fact) => Some(&fact.task),
            AnyEvent::TaskCompleted(fact) => Some(&fact.task),
            AnyEvent::TaskFailed(fact) => Some(&fact.task),
            AnyEvent::TaskDropped(fact) => Some(&fact.task),
            AnyEvent::TaskPlanned(fact) => Some(&fact.task),
            AnyEvent::TaskRemoved(fact) => Some(&fact.task),
            AnyEvent::CheckpointAdded(fact) => Some(&fact.task),
            AnyEvent::HandoffInitiated(fact) => Some(&fact.task),
            AnyEvent::HandoffAccepted(fact) => Some(&fact.task),
            AnyEvent::HandoffRejected(fact) => Some(&fact.task),
            AnyEvent::FileClaimed(fact) => fact.task.as_ref(),
            AnyEvent::FileModified(fact) => fact.task.as_ref(),
            AnyEvent::ReportAdded(fact) => fact.task.as_ref(),
            _ => None,
        }
    }

    /// The agent a fact is about: who joined, works, holds or answers. Decisions of authority are about nobody.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            AnyEvent::AgentRegistered(fact) => Some(&fact.id),
            AnyEvent::AgentUpdated(fact) => Some(&fact.id),
            AnyEvent::AgentReturned(fact) => Some(&fact.agent),
            AnyEvent::AgentStatusSet(fact) => Some(&fact.agent),
            AnyEvent::AgentPaused(fact) => Some(&fact.agent),
            AnyEvent::AgentResumed(fact) => Some(&fact.agent),
            AnyEvent::AgentLeft(fact) => Some(&fact.agent),
            AnyEvent::AgentWentOffline(fact) => Some(&fact.agent),
            AnyEvent::TaskReserved(fact) => Some(&fact.agent),
            AnyEvent::TaskForwarded(fact) => Some(&fact.to),
            AnyEvent::TaskClaimed(fact) => Some(&fact.agent),
            AnyEvent::FileClaimed(fact) => Some(&fact.agent),
            AnyEvent::FileModified(fact) => fact.by.as_ref(),
            AnyEvent::ConflictDetected(fact) => Some(&fact.intruder),
            AnyEvent::HandoffInitiated(fact) => Some(&fact.from),
            AnyEvent::HandoffAccepted(fact) => Some(&fact.by),
            AnyEvent::HandoffRejected(fact) => Some(&fact.by),
            AnyEvent::ReportAdded(fact) => Some(&fact.agent),
            AnyEvent::MessagesRead(fact) | AnyEvent::MessagesAcked(fact) => Some(&fact.agent),
            AnyEvent::DeliveryAbandoned(fact) => Some(&fact.agent),
            AnyEvent::DeliveryRetried(fact) => Some(&fact.agent),
            AnyEvent::TeamStopRequested(fact) => fact.member.as_ref(),
            AnyEvent::TurnStarted(fact) => Some(&fact.agent),
            AnyEvent::TurnEnded(fact) => Some(&fact.agent),
            other => other.holder(),
        }
    }

    /// The holder of what the fact changes, before it does.
    pub fn holder(&self) -> Option<&AgentId> {
        match self {
            AnyEvent::TaskStarted(fact) => Some(&fact.holder),
            AnyEvent::TaskStepSet(fact) => fact.holder.as_ref(),
            AnyEvent::TaskReleased(fact) => fact.holder.as_ref().or(fact.reserved_for.as_ref()),
            AnyEvent::TaskCompleted(fact) => fact.holder.as_ref(),
            AnyEvent::TaskFailed(fact) => fact.holder.as_ref(),
            AnyEvent::TaskDropped(fact) => fact.holder.as_ref().or(fact.reserved_for.as_ref()),
            AnyEvent::TaskTimedOut(fact) => fact.holder.as_ref().or(fact.reserved_for.as_ref()),
            AnyEvent::TaskAttemptsExhausted(fact) => fact.holder.as_ref(),
            AnyEvent::TaskReopened(fact) => fact.holder.as_ref().or(fact.reserved_for.as_ref()),
            AnyEvent::TaskPlanned(fact) => fact.holder.as_ref(),
            AnyEvent::FileReleased(fact) => Some(&fact.holder),
            _ => None,
        }
    }

    /// The path a fact is about, as claims know it.
    pub fn path(&self) -> Option<&file::FilePath> {
        match self {
            AnyEvent::FileClaimed(fact) => Some(&fact.path),
            AnyEvent::FileReleased(fact) => Some(&fact.path),
            AnyEvent::ClaimForced(fact) => Some(&fact.path),
            AnyEvent::FileLocked(fact) => Some(&fact.path),
            AnyEvent::FileUnlocked(fact) => Some(&fact.path),
            AnyEvent::FileModified(fact) => Some(&fact.path),
            AnyEvent::ConflictDetected(fact) => Some(&fact.path),
            AnyEvent::ConflictResolved(fact) => Some(&fact.path),
            AnyEvent::ConflictEscalated(fact) => Some(&fact.path),
            AnyEvent::ReportAdded(fact) => fact.resource.as_ref(),
            _ => None,
        }
    }
}

/// Every row that a fact at this place changes.
pub fn write_set(fact: &AnyEvent, seq: Seq) -> Vec<Key> {
    let mut keys = rows_of(fact);
    keys.extend(told::keys(fact, seq));
    keys
}

/// The rows that it changes wherever it stands.
fn rows_of(fact: &AnyEvent) -> Vec<Key> {
    let named = fact.artifact_keys();
    let agent = |id: &AgentId| Key::Agent(id.clone());
    let task = |id: &TaskId| Key::Task(id.clone());
    let with = |first: Key, holder: &Option<AgentId>| -> Vec<Key> {
        std::iter::once(first).chain(holder.iter().map(agent)).collect()
    };
    match fact {
        AnyEvent::AgentRegistered(fact) => vec![agent(&fact.id)],
        AnyEvent::AgentUpdated(fact) => vec![agent(&fact.id)],
        AnyEvent::AgentReturned(fact) => vec![agent(&fact.agent)],
        AnyEvent::AgentStatusSet(fact) => vec![agent(&fact.agent)],
        AnyEvent::AgentPaused(fact) => vec![agent(&fact.agent)],
        AnyEvent::AgentResumed(fact) => vec![agent(&fact.agent)],
        AnyEvent::AgentLeft(fact) => vec![agent(&fact.agent)],
        AnyEvent::AgentWentOffline(fact) => vec![agent(&fact.agent)],
        AnyEvent::LeadChosen(_) => vec![Key::lead()],
        AnyEvent::TaskCreated(fact) => {
            let edge = |dep: &TaskId| Key::Dependency(DependencyId { task: fact.task.clone(), dep: dep.clone() });
            let run = of_run(Some(&fact.run));
            let parent = fact.origin.parent.iter().map(task);
            let own = std::iter::once(task(&fact.task)).chain(fact.depends_on.iter().map(edge));
            own.chain(run).chain(parent).collect()
        }
        AnyEvent::TaskReserved(fact) => vec![task(&fact.task), agent(&fact.agent)],
        AnyEvent::TaskReassigned(fact) => vec![task(&fact.task), agent(&fact.to)],
        AnyEvent::TaskClaimed(fact) => {
            let mut keys = with(task(&fact.task), &fact.from);
            keys.push(agent(&fact.agent));
            keys
        }
        AnyEvent::TaskStarted(fact) => vec![task(&fact.task), agent(&fact.holder)],
        AnyEvent::TaskStepSet(fact) => with(task(&fact.task), &fact.holder),
        AnyEvent::TaskReleased(fact) => with(task(&fact.task), &fact.holder),
        AnyEvent::TaskRetried(fact) => std::iter::once(task(&fact.task)).chain(of_run(fact.run.as_ref())).collect(),
        AnyEvent::TaskCompleted(fact) => {
            let rest = fact.unblocks.iter().map(task).chain(of_run(fact.run.as_ref()));
            with(task(&fact.task), &fact.holder).into_iter().chain(rest).chain(named).collect()
        }
        AnyEvent::TaskFailed(fact) => {
            with(task(&fact.task), &fact.holder).into_iter().chain(of_run(fact.run.as_ref())).collect()
        }
        AnyEvent::TaskDropped(fact) => {
            let rest = fact.unblocks.iter().map(task).chain(of_run(fact.run.as_ref()));
            with(task(&fact.task), &fact.holder).into_iter().chain(rest).collect()
        }
        AnyEvent::CheckpointAdded(fact) => {
            [Key::Checkpoint(fact.id.clone()), task(&fact.task)].into_iter().chain(named).collect()
        }
        AnyEvent::FileClaimed(fact) => vec![Key::file(&fact.path)],
        AnyEvent::FileReleased(fact) => vec![Key::file(&fact.path)],
        AnyEvent::ClaimForced(fact) => vec![Key::file(&fact.path)],
        AnyEvent::FileLocked(fact) => vec![Key::file(&fact.path)],
        AnyEvent::FileUnlocked(fact) => vec![Key::file(&fact.path)],
        AnyEvent::FileModified(fact) => vec![Key::file(&fact.path)],
        AnyEvent::ConflictDetected(fact) => vec![Key::file(&fact.path), Key::Timer(fact.timer.clone())],
        AnyEvent::ConflictResolved(fact) => vec![Key::file(&fact.path), Key::Timer(conflict_timer_id(&fact.path))],
        AnyEvent::ConflictEscalated(fact) => vec![Key::Timer(fact.timer.clone())],
        AnyEvent::HandoffInitiated(fact) => vec![Key::Handoff(fact.handoff.clone())],
        AnyEvent::HandoffAccepted(fact) => vec![Key::Handoff(fact.handoff.clone())],
        AnyEvent::HandoffRejected(fact) => vec![Key::Handoff(fact.handoff.clone())],
        AnyEvent::UntrackedFilesChanged(_)
        | AnyEvent::ReportAdded(_)
        | AnyEvent::EnvelopeRejected(_)
        | AnyEvent::LettersDropped(_) => {
            vec![]
        }
        AnyEvent::LogRedacted(fact) => {
            let cleared = fact.cleared.iter().map(|cleared| cleared.key.clone());
            cleared.chain(fact.erases.iter().map(|erase| Key::Intent(erase.intent.clone()))).collect()
        }
        AnyEvent::IntentClosed(fact) => vec![Key::Intent(fact.intent.clone())],
        AnyEvent::RunCreated(_) | AnyEvent::RunPlanned(_) | AnyEvent::RunReplanned(_) | AnyEvent::RunStatusSet(_) => {
            of_run(fact.run()).into_iter().collect()
        }
        AnyEvent::RunReordered(fact) => fact.places.iter().map(|place| task(&place.task)).collect(),
        AnyEvent::TaskPlanned(fact) => vec![task(&fact.task)],
        AnyEvent::TaskRemoved(fact) => fact.touches(),
        AnyEvent::TemplateCreated(fact) => vec![Key::Template(fact.template.clone())],
        AnyEvent::MessageSent(fact) => fact.letter.header.keys(),
        AnyEvent::MessageHeld(fact) => {
            let header = &fact.letter.header;
            vec![Key::Message(header.message.clone()), Key::Sender(header.from.clone())]
        }
        AnyEvent::MessageReleased(fact) => fact.header.keys(),
        AnyEvent::MessageDiscarded(fact) => vec![Key::Message(fact.message.clone()), Key::Sender(fact.from.clone())],
        AnyEvent::MessagesRead(fact) | AnyEvent::MessagesAcked(fact) => fact.keys(),
        AnyEvent::DeliveryAbandoned(fact) => vec![fact.key()],
        AnyEvent::DeliveryRetried(fact) => vec![fact.key()],
        AnyEvent::DocumentWritten(fact) => document_keys(&fact.id, fact.version),
        AnyEvent::DocumentDeleted(fact) => document_keys(&fact.id, fact.version),
        AnyEvent::ContextConfigured(fact) => vec![Key::Context(fact.scope.clone())],
        AnyEvent::WorkspaceCreated(fact) => workspace_keys(&fact.workspace, fact.making.as_ref()),
        AnyEvent::WorkspaceUpdated(fact) => workspace_keys(&fact.workspace, fact.removing.as_ref()),
        AnyEvent::WorkspaceReady(fact) => workspace_keys(&fact.workspace, Some(&fact.intent)),
        AnyEvent::WorkspaceMerging(fact) => workspace_keys(&fact.workspace, Some(&fact.intent)),
        AnyEvent::WorkspaceMerged(fact) => workspace_keys(&fact.workspace, Some(&fact.intent)),
        AnyEvent::WorkspaceRemoved(fact) => workspace_keys(&fact.workspace, Some(&fact.intent)),
        AnyEvent::WorkspaceFailed(fact) => workspace_keys(&fact.workspace, Some(&fact.intent)),
        AnyEvent::SchemaRegistered(fact) => vec![Key::Schema(fact.payload_type.clone())],
        AnyEvent::StepContractsDefined(fact) => vec![Key::StepContracts(fact.workflow.clone())],
        AnyEvent::GroupSet(fact) => vec![Key::Group(fact.group.clone())],
        AnyEvent::GroupRemoved(fact) => vec![Key::Group(fact.group.clone())],
        AnyEvent::EnvelopeReceived(fact) => fact.keys().into_iter().chain(named).collect(),
        AnyEvent::ToolDenied(fact) => fact.keys(),
        AnyEvent::RoutingDecided(_) => vec![],
        AnyEvent::RoutingFailed(fact) => vec![task(&fact.task)],
        AnyEvent::TaskForwarded(fact) => fact.keys().into_iter().chain(named).collect(),
        AnyEvent::RoutingResumed(fact) => vec![task(&fact.task)],
        AnyEvent::TaskTimedOut(fact) => {
            with(task(&fact.task), &fact.holder).into_iter().chain(of_run(fact.run.as_ref())).collect()
        }
        AnyEvent::TaskAttemptsExhausted(_) => vec![],
        AnyEvent::TeamStartRequested(fact) => vec![Key::Intent(fact.intent.clone())],
        AnyEvent::TeamSpawned(fact) => vec![Key::Intent(fact.intent.clone())],
        AnyEvent::TeamStartFailed(fact) => vec![Key::Intent(fact.intent.clone())],
        AnyEvent::TeamStarted(_)
        | AnyEvent::TeamResumed(_)
        | AnyEvent::TeamKickedOff(_)
        | AnyEvent::TeamStopRequested(_)
        | AnyEvent::TeamEnded(_) => fact.of_team().map(team::TeamRef::key).into_iter().collect(),
        AnyEvent::TurnStarted(fact) => vec![Key::Turn(fact.turn.clone()), fact.of.key()],
        AnyEvent::TurnEnded(fact) => [Key::Turn(fact.turn.clone()), fact.of.key()].into_iter().chain(named).collect(),
        AnyEvent::TaskReopened(fact) => {
            let rest = fact.blocks.iter().map(task).chain(of_run(fact.run.as_ref()));
            with(task(&fact.task), &fact.holder).into_iter().chain(rest).collect()
        }
    }
}

/// The row of a run. The project's default one has none.
fn of_run(run: Option<&RunId>) -> Option<Key> {
    run.filter(|run| **run != RunId::project_default()).map(|run| Key::Run(run.clone()))
}

fn document_keys(id: &document::DocumentId, version: u64) -> Vec<Key> {
    vec![Key::Document(id.clone()), Key::Version(VersionId { document: id.clone(), version })]
}

fn workspace_keys(id: &WorkspaceId, intent: Option<&IntentId>) -> Vec<Key> {
    std::iter::once(Key::Workspace(id.clone())).chain(intent.cloned().map(Key::Intent)).collect()
}

/// What becomes of a row that a fact touches. Total: no lookup, no clock, no configuration. A row that it does not touch
/// stays as it is.
pub fn apply(old: Option<Row>, key: &Key, fact: &AnyEvent, seq: Seq, at: Timestamp) -> Option<Row> {
    if let AnyEvent::LogRedacted(redacted) = fact
        && !matches!(key, Key::Intent(_) | Key::ArtifactRef(ArtifactRefId { .. }))
    {
        return old.map(|row| redact::apply(row, key, redacted));
    }
    match key {
        Key::Agent(id) => agent::apply(row!(old, Agent), id, fact, seq, at).map(Row::Agent),
        Key::Task(id) => task::apply(row!(old, Task), id, fact, seq, at).map(Row::Task),
        Key::Dependency(DependencyId { task, dep }) => match fact {
            AnyEvent::TaskCreated(fact) if fact.task == *task && fact.depends_on.contains(dep) => {
                Some(Row::Dependency(Dependency { task: task.clone(), dep: dep.clone() }))
            }
            AnyEvent::TaskRemoved(fact) => match fact.keeps_edge(task, dep) {
                Some(true) => Some(Row::Dependency(Dependency { task: task.clone(), dep: dep.clone() })),
                Some(false) => None,
                None => old,
            },
            _ => old,
        },
        Key::File(key) => file::apply(row!(old, File), key, fact, seq, at).map(Row::File),
        Key::Handoff(id) => handoff::apply(row!(old, Handoff), id, fact, seq, at).map(Row::Handoff),
        Key::Lead(_) => match fact {
            AnyEvent::LeadChosen(fact) => Some(Row::Lead(Lead { holder: fact.holder.clone(), asked: fact.asked })),
            _ => old,
        },
        Key::Checkpoint(id) => match fact {
            AnyEvent::CheckpointAdded(fact) if fact.id == *id => Some(Row::Checkpoint(fact.checkpoint(seq, at))),
            AnyEvent::TaskRemoved(fact) if fact.checkpoints.contains(id) => None,
            _ => old,
        },
        Key::Timer(id) => timer::apply(row!(old, Timer), id, fact, seq).map(Row::Timer),
        Key::Intent(id) => intent::apply(row!(old, Intent), id, fact, seq).map(Row::Intent),
        Key::Run(id) => run::apply(row!(old, Run), id, fact, seq, at).map(Row::Run),
        Key::Template(id) => template::apply(row!(old, Template), id, fact, seq, at).map(Row::Template),
        Key::Message(id) => message::apply(row!(old, Message), id, fact, seq, at).map(Row::Message),
        Key::Delivery(DeliveryId { message, agent }) => {
            message::apply_delivery(row!(old, Delivery), (message, agent), fact, seq, at).map(Row::Delivery)
        }
        Key::Thread(id) => message::apply_thread(row!(old, Thread), id, fact).map(Row::Thread),
        Key::Sender(id) => message::apply_sender(row!(old, Sender), id, fact).map(Row::Sender),
        Key::Document(id) => document::apply(row!(old, Document), id, fact, at).map(Row::Document),
        Key::Version(VersionId { document, version }) => {
            document::apply_version(row!(old, Version), (document, *version), fact, seq, at).map(Row::Version)
        }
        Key::Context(scope) => instance::apply(row!(old, Context), scope, fact).map(Row::Context),
        Key::Workspace(id) => workspace::apply(row!(old, Workspace), id, fact, seq, at).map(Row::Workspace),
        Key::ArtifactRef(ArtifactRefId { sha256, by }) => {
            artifact::apply(row!(old, ArtifactRef), (sha256, by), fact, seq).map(Row::ArtifactRef)
        }
        Key::Schema(id) => contract::apply_schema(row!(old, Schema), id, fact, seq, at).map(Row::Schema),
        Key::StepContracts(name) => {
            contract::apply_workflow(row!(old, StepContracts), name, fact, seq, at).map(Row::StepContracts)
        }
        Key::Group(name) => group::apply(row!(old, Group), name, fact, seq, at).map(Row::Group),
        Key::Envelope(id) => clutch::apply(row!(old, Envelope), id, fact, seq).map(Row::Envelope),
        Key::Team(id) => team::apply(row!(old, Team), id, fact, seq, at).map(Row::Team),
        Key::Turn(id) => turn::apply(row!(old, Turn), id, fact, seq, at).map(Row::Turn),
    }
}

/// The row of a kind, if that is what it is. A key only ever names rows of its own table.
macro_rules! row {
    ($row:expr, $kind:ident) => {
        match $row {
            Some(Row::$kind(row)) => Some(row),
            _ => None,
        }
    };
}
use row;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::testing::{blank_texts, samples};

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

    /// All samples with their golden files: `<kind>.v<version>.<n>.json`, where `n` counts the samples of a kind from 1.
    fn samples_with_files() -> Vec<(AnyEvent, PathBuf)> {
        let mut counts = BTreeMap::new();
        let with_file = |sample: AnyEvent| {
            let count = counts.entry(sample.kind()).or_insert(0);
            *count += 1;
            let name = format!("{}.v{}.{count}.json", sample.kind(), sample.version());
            (sample, Path::new(GOLDEN).join(name))
        };
        samples().into_iter().map(with_file).collect()
    }

    #[test]
    fn there_is_a_sample_of_every_kind() {
        let known: BTreeSet<_> = AnyEvent::KINDS.iter().copied().collect();
        let sampled: BTreeSet<_> = samples().iter().map(|fact| (fact.kind(), fact.version())).collect();
        assert_eq!(known, sampled);
    }

    /// A shipped version stays readable. `UPDATE_GOLDEN=1` writes missing files and never changes existing ones.
    #[test]
    fn samples_are_written_and_read_as_their_golden_files() {
        for (sample, file) in samples_with_files() {
            let written = serde_json::to_string_pretty(&sample).unwrap() + "\n";
            if !file.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::create_dir_all(GOLDEN).unwrap();
                std::fs::write(&file, &written).unwrap();
            }
            let kept = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}; write it with UPDATE_GOLDEN=1", file.display()));
            assert_eq!(written, kept, "{} is written differently now: that is a new version", sample.kind());
            assert_eq!(AnyEvent::decode(sample.kind(), sample.version(), kept.as_bytes()).unwrap(), sample);
        }
    }

    #[test]
    fn golden_file_of_any_version_decodes() {
        for entry in std::fs::read_dir(GOLDEN).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let (kind, version) = name.rsplit_once('.').and_then(|(name, _)| name.rsplit_once(".v")).unwrap();
            let fact = AnyEvent::decode(kind, version.parse().unwrap(), &std::fs::read(&file).unwrap());
            assert_eq!(fact.map(|fact| fact.kind()).unwrap(), kind);
        }
    }

    /// Version 0 exists only in this test: it had another name for `agent`.
    #[test]
    fn event_of_an_older_version_is_upcast() {
        const UPCASTERS: [Upcaster; 1] = [Upcaster {
            kind: "agent.returned",
            from: 0,
            rewrite: |event| serde_json::json!({ "agent": event["who"] }),
        }];
        let decode = |kind, version, text: &str| AnyEvent::decode_with(&UPCASTERS, kind, version, text.as_bytes());
        let newest = AnyEvent::AgentReturned(AgentReturned { agent: "a".into() });
        assert_eq!(decode("agent.returned", 0, r#"{"who":"a"}"#).unwrap(), newest);
        assert_eq!(decode("agent.returned", 1, r#"{"agent":"a"}"#).unwrap(), newest);
        let cut = decode("agent.returned", 0, "{");
        assert!(matches!(cut, Err(EventError::Unreadable { version: 0, .. })));
        let newer = decode("agent.returned", 2, r#"{"agent":"a"}"#);
        assert!(matches!(newer, Err(EventError::Unknown { version: 2, .. })));
        let without_upcaster = decode("agent.unpaused", 0, "{}");
        assert!(matches!(without_upcaster, Err(EventError::Unknown { version: 0, .. })));
    }

    #[test]
    fn what_is_not_known_or_not_readable_is_said_so() {
        assert!(matches!(AnyEvent::decode("task.danced", 1, b"{}"), Err(EventError::Unknown { .. })));
        assert!(matches!(AnyEvent::decode("task.claimed", 99, b"{}"), Err(EventError::Unknown { .. })));
        assert!(matches!(AnyEvent::decode("task.claimed", 1, b"{}"), Err(EventError::Unreadable { .. })));
    }

    #[test]
    fn a_blanked_fact_can_still_be_read_and_tells_no_text() {
        for sample in samples() {
            let bytes = sample.blanked();
            let text = String::from_utf8(bytes.clone()).unwrap();
            for secret in blank_texts() {
                assert!(!text.contains(secret), "{text}");
            }
            let blanked =
                AnyEvent::decode(sample.kind(), sample.version(), &bytes).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(write_set(&blanked, Seq(9)), write_set(&sample, Seq(9)), "the rows it changes stay the same");
            assert_eq!(blanked.blanked(), bytes, "blanking twice is blanking once");
        }
    }

    #[test]
    fn a_fact_about_nothing_that_is_there_changes_what_it_must_and_never_fails() {
        for sample in samples() {
            for key in write_set(&sample, Seq(9)) {
                let row = apply(None, &key, &sample, Seq(9), Timestamp(9));
                assert!(row.is_none_or(|row| row.table() == key.table()), "{} {key:?}", sample.kind());
            }
        }
    }
}
