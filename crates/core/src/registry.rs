//! Every command and every event, one line each. Nothing in this crate imports it.

use crate::command::{AnyCommand, Command, Decision, DecisionContext, Undecided, ensure_may_write};
use crate::event::{AnyEvent, Event, EventError};
use crate::told;

macro_rules! commands {
    ($($command:path),+ $(,)?) => {
        /// The names of all commands.
        pub const COMMANDS: &[&str] = &[$(<$command as Command>::NAME),+];
    };
}

commands! {
    crate::agent::RegisterAgent,
    crate::agent::Join,
    crate::agent::UpdateProfile,
    crate::agent::RegisterCard,
    crate::agent::UpdateCard,
    crate::agent::SetAgentStatus,
    crate::agent::PauseAgent,
    crate::agent::ResumeAgent,
    crate::agent::LeaveTeam,
    crate::agent::DeclareOffline,
    crate::agent::ReturnAgent,
    crate::task::CreateTask,
    crate::task::ClaimTask,
    crate::task::StartTask,
    crate::task::SetTaskStep,
    crate::task::ReleaseTask,
    crate::task::RetryTask,
    crate::task::AssignTask,
    crate::task::CompleteTask,
    crate::task::FailTask,
    crate::task::CancelTask,
    crate::task::ReopenTask,
    crate::task::FireAlarm,
    crate::file::ClaimFile,
    crate::file::ReleaseFile,
    crate::file::LockFile,
    crate::file::UnlockFile,
    crate::file::ResolveConflict,
    crate::file::RecordChange,
    crate::file::RecordUntracked,
    crate::handoff::OfferHandoff,
    crate::handoff::AcceptHandoff,
    crate::handoff::RejectHandoff,
    crate::report::Report,
    crate::timer::FireTimer,
    crate::intent::CloseIntent,
    crate::redact::Redact,
    crate::run::CreateRun,
    crate::run::SetRunPlan,
    crate::run::AddRunTask,
    crate::run::RemoveRunTask,
    crate::run::ReplanRun,
    crate::run::SetRunStatus,
    crate::template::CreateTemplate,
    crate::template::ApplyTemplate,
    crate::task::SetTaskPlan,
    crate::task::ReplanTask,
    crate::task::AddCheckpoint,
    crate::message::SendMessage,
    crate::clutch::Ingest,
    crate::clutch::AnswerCall,
    crate::clutch::NoteRejected,
    crate::adapter::NoteDropped,
    crate::routing::RouteTask,
    crate::routing::OfferTask,
    crate::message::ReadMessages,
    crate::message::AckMessages,
    crate::message::ReleaseHeld,
    crate::message::GiveUpDelivery,
    crate::message::RetryDelivery,
    crate::document::WriteDocument,
    crate::document::AppendDocument,
    crate::document::CreateDocument,
    crate::document::DeleteDocument,
    crate::instance::ConfigureContext,
    crate::workspace::CreateWorkspace,
    crate::workspace::UpdateWorkspace,
    crate::workspace::MergeWorkspace,
    crate::workspace::ConcludeWorkspace,
    crate::contract::RegisterSchema,
    crate::contract::DefineStepContracts,
    crate::group::SetGroup,
    crate::group::RemoveGroup,
    crate::team::RequestTeamStart,
    crate::team::ConcludeTeamStart,
    crate::team::StartTeam,
    crate::team::KickOff,
    crate::team::AnnounceToTeam,
    crate::team::RequestTeamStop,
    crate::team::EndTeam,
    crate::turn::StartTurn,
    crate::turn::EndTurn,
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
    agent::AgentRegistered,
    agent::AgentUpdated,
    agent::AgentReturned,
    agent::AgentStatusSet,
    agent::AgentPaused,
    agent::AgentResumed,
    agent::AgentLeft,
    agent::AgentWentOffline,
    agent::LeadChosen,
    task::TaskCreated,
    task::TaskReserved,
    task::TaskReassigned,
    task::TaskClaimed,
    task::TaskStarted,
    task::TaskStepSet,
    task::TaskReleased,
    task::TaskRetried,
    task::TaskCompleted,
    task::TaskFailed,
    task::TaskCancelled,
    task::TaskSkipped,
    task::CheckpointAdded,
    file::FileClaimed,
    file::FileReleased,
    file::ClaimForced,
    file::FileLocked,
    file::FileUnlocked,
    file::FileModified,
    file::UntrackedFilesChanged,
    file::ConflictDetected,
    file::ConflictResolved,
    file::ConflictEscalated,
    handoff::HandoffInitiated,
    handoff::HandoffAccepted,
    handoff::HandoffRejected,
    report::Report,
    redact::LogRedacted,
    intent::IntentClosed,
    run::RunCreated,
    run::RunPlanned,
    run::RunReplanned,
    run::RunReordered,
    run::RunStatusSet,
    task::TaskPlanned,
    run::TaskRemoved,
    template::TemplateCreated,
    message::MessageSent,
    message::MessageHeld,
    message::MessageReleased,
    message::MessageDiscarded,
    message::MessagesRead,
    message::MessagesAcked,
    message::DeliveryAbandoned,
    message::DeliveryRetried,
    document::DocumentWritten,
    document::DocumentDeleted,
    instance::ContextConfigured,
    workspace::WorkspaceCreated,
    workspace::WorkspaceReady,
    workspace::WorkspaceUpdated,
    workspace::WorkspaceMerging,
    workspace::WorkspaceMerged,
    workspace::WorkspaceRemoved,
    workspace::WorkspaceFailed,
    contract::SchemaRegistered,
    contract::StepContractsDefined,
    group::GroupSet,
    group::GroupRemoved,
    clutch::EnvelopeReceived,
    clutch::EnvelopeRejected,
    adapter::LettersDropped,
    clutch::ToolDenied,
    routing::RoutingDecided,
    routing::RoutingFailed,
    routing::TaskForwarded,
    routing::RoutingResumed,
    task::TaskTimedOut,
    task::TaskAttemptsExhausted,
    task::TaskReopened,
    team::TeamStartRequested,
    team::TeamSpawned,
    team::TeamStartFailed,
    team::TeamStarted,
    team::TeamResumed,
    team::TeamKickedOff,
    team::TeamStopRequested,
    team::TeamEnded,
    turn::TurnStarted,
    turn::TurnEnded,
}

/// Decides a command over the rows in view. Nothing happens except what the returned events say.
pub fn decide(cx: &DecisionContext<'_>, command: &AnyCommand) -> Result<Decision, Undecided> {
    ensure_may_write(cx.view, cx.caller)?;
    let mut decision = command.decide(cx)?;
    told::address(cx.view, cx.caller, cx.now, &mut decision.events)?;
    Ok(decision)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::event::{EventStamp, apply_row};
    use crate::id::{Seq, Timestamp};
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
            assert_eq!(blanked.write_set(Seq(9)), sample.write_set(Seq(9)), "the rows it changes stay the same");
            assert_eq!(blanked.blanked(), bytes, "blanking twice is blanking once");
        }
    }

    #[test]
    fn event_without_its_rows_applies() {
        for sample in samples() {
            for key in sample.write_set(Seq(9)) {
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
