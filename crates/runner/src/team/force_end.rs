//! Ends a team whose runner died, so that it no longer appears to run.

use std::path::Path;

use rookery_client::Client;
use rookery_client::teams::{Team, TeamEndOutcome};
use rookery_core::{AgentId, TeamId};

use super::lock::{self, LockError};
use super::{TeamError, seats};
use crate::{backend, process};

/// The result of [`force_end`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForceEnded {
    Done,
    /// A process of this machine runs the team.
    Lives,
}

/// Ends a team that was run in this checkout, unless a process runs it. Reaps the remaining programs and restores overridden
/// files of the project. The messages of its turns stay unread.
pub async fn force_end(project: &Path, team: &Team, client: &Client) -> Result<ForceEnded, TeamError> {
    let folder = lock::state_folder(project, &TeamId::from(team.id.as_str()));
    let held = match lock::hold(folder.clone()) {
        Ok(held) => held,
        Err(LockError::HeldBy { .. }) => return Ok(ForceEnded::Lives),
        Err(LockError::Io(source)) => return Err(TeamError::State { path: folder, source }),
    };
    let records = held.records();
    process::end_orphans(&records).await.map_err(|source| TeamError::State { path: records, source })?;
    let ledger = project.join(backend::LEDGER);
    backend::restore_all(&ledger).map_err(|source| TeamError::State { path: ledger, source })?;
    client.end_team(&team.id, team.generation, TeamEndOutcome::Stopped, Some("its runner was gone")).await?;
    for member in &team.agents {
        // An agent that is already unregistered is rejected, which does not matter.
        seats::leave(client, &AgentId::from(member.id.as_str())).await.ok();
    }
    Ok(ForceEnded::Done)
}
