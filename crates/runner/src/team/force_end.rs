//! Ending a team whose runner is gone, so that nobody takes it for one that runs.

use std::path::Path;

use rookery_client::Client;
use rookery_client::teams::{Outcome, Team};
use rookery_core::{AgentId, TeamId};

use super::lock::{self, NotHeld};
use super::{TeamError, seats};
use crate::{backend, process};

/// Whether a team was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForceEnded {
    Done,
    /// Somebody runs it after all.
    Lives,
}

/// Ends a team that was run in this folder of the project, with whatever is left of its programs, unless somebody runs it. Files of
/// the project that were others for it are put back. The messages of its turns stay unread.
pub async fn force_end(project: &Path, team: &Team, client: &Client) -> Result<ForceEnded, TeamError> {
    let folder = lock::state_folder(project, &TeamId::from(team.id.as_str()));
    let held = match lock::hold(folder.clone()) {
        Ok(held) => held,
        Err(NotHeld::By { .. }) => return Ok(ForceEnded::Lives),
        Err(NotHeld::Io(source)) => return Err(TeamError::State { path: folder, source }),
    };
    let records = held.records();
    process::end_orphans(&records).await.map_err(|source| TeamError::State { path: records, source })?;
    let ledger = project.join(backend::LEDGER);
    backend::restore_all(&ledger).map_err(|source| TeamError::State { path: ledger, source })?;
    client.end_team(&team.id, team.generation, Outcome::Stopped, Some("its runner was gone")).await?;
    for member in &team.agents {
        // One that is not there any more need not leave.
        let _was_gone = seats::leave(client, &AgentId::from(member.id.as_str())).await;
    }
    Ok(ForceEnded::Done)
}
