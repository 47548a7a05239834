//! Every command and every event, one line each. Nothing in this crate imports it.

use crate::clutch::EnvelopeReceived;
use crate::messages;
use crate::model::Undecided;
use crate::traits::{
    AnyCommand, AnyEvent, Command, DecisionContext, Event, EventError, UntypedDecision, ensure_may_write,
};

macro_rules! commands {
    ($($command:path),+ $(,)?) => {
        /// The names of all commands.
        pub const COMMANDS: &[&str] = &[$(<$command as Command>::NAME),+];
    };
}

commands! {
    crate::agents::RegisterAgent,
    crate::agents::SetAgentStatus,
    crate::agents::PauseAgent,
    crate::agents::ResumeAgent,
    crate::agents::LeaveTeam,
    crate::agents::DeclareOffline,
    crate::agents::ReturnAgent,
    crate::tasks::CreateTask,
    crate::tasks::ClaimTask,
    crate::tasks::StartTask,
    crate::tasks::SetTaskStep,
    crate::tasks::ReleaseTask,
    crate::tasks::RetryTask,
    crate::tasks::AssignTask,
    crate::tasks::CompleteTask,
    crate::tasks::FailTask,
    crate::tasks::CancelTask,
    crate::tasks::ReopenTask,
    crate::tasks::FireAlarm,
    crate::files::ClaimFile,
    crate::files::ReleaseFile,
    crate::files::LockFile,
    crate::files::UnlockFile,
    crate::files::ResolveConflict,
    crate::files::RecordChange,
    crate::files::RecordUntracked,
    crate::handoffs::OfferHandoff,
    crate::handoffs::AcceptHandoff,
    crate::handoffs::RejectHandoff,
    crate::files::Report,
    crate::files::FireTimer,
    crate::effects::CloseIntent,
    crate::redaction::Redact,
    crate::runs::CreateRun,
    crate::plans::SetRunPlan,
    crate::plans::AddRunTask,
    crate::plans::RemoveRunTask,
    crate::plans::ReplanRun,
    crate::runs::SetRunStatus,
    crate::plans::CreateTemplate,
    crate::plans::ApplyTemplate,
    crate::tasks::SetTaskPlan,
    crate::tasks::ReplanTask,
    crate::tasks::AddCheckpoint,
    crate::messages::SendMessage,
    crate::clutch::Ingest,
    crate::clutch::AnswerCall,
    crate::clutch::NoteRejected,
    crate::messages::NoteDropped,
    crate::routing::RouteTask,
    crate::routing::OfferTask,
    crate::messages::ReadMessages,
    crate::messages::AckMessages,
    crate::messages::ArchiveChannel,
    crate::messages::ReleaseHeld,
    crate::messages::GiveUpDelivery,
    crate::messages::RetryDelivery,
    crate::documents::WriteDocument,
    crate::documents::AppendDocument,
    crate::documents::CreateDocument,
    crate::documents::DeleteDocument,
    crate::contexts::ConfigureContext,
    crate::workspaces::CreateWorkspace,
    crate::workspaces::UpdateWorkspace,
    crate::workspaces::MergeWorkspace,
    crate::workspaces::ConcludeWorkspace,
    crate::contracts::RegisterSchema,
    crate::contracts::DefineStepContracts,
    crate::groups::SetGroup,
    crate::groups::RemoveGroup,
    crate::teams::RequestTeamStart,
    crate::teams::ConcludeTeamStart,
    crate::teams::StartTeam,
    crate::teams::KickOff,
    crate::teams::AnnounceToTeam,
    crate::teams::RequestTeamStop,
    crate::teams::EndTeam,
    crate::teams::StartTurn,
    crate::teams::EndTurn,
}

macro_rules! events {
    ($($module:ident::$event:ident),+ $(,)?) => {
        /// An event as its own type, to match on exhaustively.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum EventRef<'a> { $($event(&'a crate::$module::$event)),+ }

        impl AnyEvent {
            /// Every kind with its newest version.
            pub const KINDS: &'static [(&'static str, u32)] =
                &[$((<crate::$module::$event as Event>::KIND, <crate::$module::$event as Event>::VERSION)),+];

            /// The event as its own type. Panics if the type has no line in this file, which `cargo xtask tidy` finds.
            pub fn typed(&self) -> EventRef<'_> {
                match self.kind() {
                    $(<crate::$module::$event as Event>::KIND => self.get().map(EventRef::$event),)+
                    _ => None,
                }
                .unwrap_or_else(|| panic!("event {} has no line in the registry", self.kind()))
            }

            /// Reads an event of any version that was ever released.
            pub fn decode(kind: &str, version: u32, bytes: &[u8]) -> Result<AnyEvent, EventError> {
                match kind {
                    $(<crate::$module::$event as Event>::KIND => {
                        AnyEvent::decode_as::<crate::$module::$event>(version, bytes)
                    })+
                    _ => Err(EventError::Unknown { kind: kind.to_owned(), version }),
                }
            }
        }
    };
}

events! {
    agents::AgentRegistered,
    agents::AgentUpdated,
    agents::AgentReturned,
    agents::AgentStatusSet,
    agents::AgentPaused,
    agents::AgentResumed,
    agents::AgentLeft,
    agents::AgentWentOffline,
    agents::LeadChosen,
    tasks::TaskCreated,
    tasks::TaskReserved,
    tasks::TaskReassigned,
    tasks::TaskClaimed,
    tasks::TaskStarted,
    tasks::TaskStepSet,
    tasks::TaskReleased,
    tasks::TaskRetried,
    tasks::TaskCompleted,
    tasks::TaskFailed,
    tasks::TaskCancelled,
    tasks::TaskSkipped,
    tasks::DependentsUnblocked,
    tasks::CheckpointAdded,
    files::FileClaimed,
    files::FileReleased,
    files::ClaimForced,
    files::FileLocked,
    files::FileUnlocked,
    files::FileModified,
    files::UntrackedFilesChanged,
    files::ConflictDetected,
    files::ConflictResolved,
    files::ConflictEscalated,
    handoffs::HandoffInitiated,
    handoffs::HandoffAccepted,
    handoffs::HandoffRejected,
    files::Report,
    redaction::LogRedacted,
    effects::IntentClosed,
    runs::RunCreated,
    plans::RunPlanned,
    plans::RunReplanned,
    plans::RunReordered,
    runs::RunStatusSet,
    tasks::TaskPlanned,
    plans::TaskRemoved,
    plans::TemplateCreated,
    messages::MessageSent,
    messages::MessageHeld,
    messages::MessageReleased,
    messages::MessageDiscarded,
    messages::MessagesRead,
    messages::MessagesAcked,
    messages::MessagesSuperseded,
    messages::ChannelArchived,
    messages::DeliveryAbandoned,
    messages::DeliveryRetried,
    documents::DocumentWritten,
    documents::DocumentDeleted,
    contexts::ContextConfigured,
    workspaces::WorkspaceCreated,
    workspaces::WorkspaceReady,
    workspaces::WorkspaceUpdated,
    workspaces::WorkspaceMerging,
    workspaces::WorkspaceMerged,
    workspaces::WorkspaceRemoved,
    workspaces::WorkspaceFailed,
    contracts::SchemaRegistered,
    contracts::StepContractsDefined,
    groups::GroupSet,
    groups::GroupRemoved,
    clutch::EnvelopeReceived,
    clutch::EnvelopeRejected,
    messages::LettersDropped,
    clutch::ToolDenied,
    routing::RoutingDecided,
    routing::RoutingFailed,
    routing::TaskForwarded,
    tasks::RoutingResumed,
    tasks::TaskTimedOut,
    tasks::TaskAttemptsExhausted,
    tasks::TaskReopened,
    teams::TeamStartRequested,
    teams::TeamSpawned,
    teams::TeamStartFailed,
    teams::TeamStarted,
    teams::TeamResumed,
    teams::TeamKickedOff,
    teams::TeamStopRequested,
    teams::TeamEnded,
    teams::TurnStarted,
    teams::TurnEnded,
}

/// Decides a command over the rows in view. Nothing happens except what the returned events say.
pub fn decide(cx: &DecisionContext<'_>, command: &AnyCommand) -> Result<UntypedDecision, Undecided> {
    ensure_may_write(cx.view, cx.caller)?;
    let mut decision = command.decide(cx)?;
    let received = decision.events.first().and_then(AnyEvent::get::<EnvelopeReceived>);
    let announced = received.map(|received| received.task.clone());
    decision.events = messages::with_notifications(cx, announced.as_ref(), decision.events)?;
    Ok(decision)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::kernel::id::{Seq, Timestamp};
    use crate::model::EventStamp;
    use crate::testing::{blank_texts, samples};
    use crate::traits::apply_row;

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
            let written = sample.pretty() + "\n";
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
    fn event_is_found_as_its_own_type() {
        for sample in samples() {
            assert!(format!("{:?}", sample.typed()).ends_with(&format!("({sample:?})")), "{sample:?}");
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

    #[test]
    fn unknown_and_unreadable_events_are_errors() {
        assert!(matches!(AnyEvent::decode("task.danced", 1, b"{}"), Err(EventError::Unknown { .. })));
        assert!(matches!(AnyEvent::decode("task.claimed", 99, b"{}"), Err(EventError::Unknown { .. })));
        assert!(matches!(AnyEvent::decode("task.claimed", 1, b"{}"), Err(EventError::Unreadable { .. })));
    }

    #[test]
    fn redacted_event_decodes_and_contains_no_text() {
        for sample in samples() {
            let bytes = sample.blanked();
            let text = String::from_utf8(bytes.clone()).unwrap();
            for secret in blank_texts() {
                assert!(!text.contains(secret), "{text}");
            }
            let blanked =
                AnyEvent::decode(sample.kind(), sample.version(), &bytes).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(blanked.write_set(), sample.write_set(), "the rows it changes stay the same");
            assert_eq!(blanked.blanked(), bytes, "blanking twice is blanking once");
        }
    }

    #[test]
    fn event_without_its_rows_applies() {
        for sample in samples() {
            for key in sample.write_set() {
                let row = apply_row(None, &key, &sample, EventStamp { seq: Seq(9), at: Timestamp(9) });
                assert!(row.is_none_or(|row| row.table() == key.table()), "{} {key:?}", sample.kind());
            }
        }
    }

    #[test]
    fn command_names_are_unique() {
        assert_eq!(COMMANDS.iter().collect::<BTreeSet<_>>().len(), COMMANDS.len());
    }
}
