//! Every command, one line each. Nothing in this crate imports it.

use crate::command::Command;

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
    crate::task::Skip,
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
    crate::task::UpdateStatus,
    crate::task::TakeUp,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn command_names_are_unique() {
        assert_eq!(COMMANDS.iter().collect::<BTreeSet<_>>().len(), COMMANDS.len());
    }
}
