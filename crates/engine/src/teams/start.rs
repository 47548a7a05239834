//! Starting workflow files for people who are not at a terminal. What can start one is given from outside: the engine knows
//! neither the files nor the program that runs them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::kernel::limit;
use rookery_core::model::team::{Team, TeamStartSpec};
use rookery_core::teams::{RequestTeamStart, TeamStartOutcome};
use rookery_core::{Code, Rejection, Seq, TeamId};

use crate::error::EngineError;
use crate::paths::{follow_links, lexical};
use crate::ports::effect_executor::Performed;
use crate::ports::team_starter::TeamStarter;
use crate::teams::TeamsHandle;

/// How long a caller waits until a team is there. Its setup comes later.
pub const TEAM_START_TIMEOUT: Duration = Duration::from_secs(45);

impl TeamsHandle<'_> {
    /// None where nothing can start them.
    pub fn starter(&self) -> Result<Arc<dyn TeamStarter>, Rejection> {
        let missing = || Rejection::new(Code::InvalidState, "this daemon cannot start workflow files");
        self.engine.config().team_starter.clone().ok_or_else(missing)
    }

    /// A file that a caller names, if it is one of the project.
    pub fn start_spec(&self, file: &str, params: Vec<String>) -> Result<TeamStartSpec, Rejection> {
        limit::name("file", file, limit::PATH_BYTES)?;
        let root = self.engine.paths().root();
        let path = follow_links(&lexical(&root.join(file)));
        let inside = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|inside| !inside.is_empty());
        let Some(inside) = inside else {
            return Err(Rejection::new(Code::Invalid, format!("{file} is not in the project"))
                .hint("only workflow files of the project are started from here; others with 'rookery start FILE'"));
        };
        if !path.is_file() {
            return Err(Rejection::new(Code::Invalid, format!("there is no file {inside}"))
                .hint("GET /team-files lists the workflow files of the project"));
        }
        Ok(TeamStartSpec { file: inside.to_owned(), params })
    }

    /// The command that asks for a team, after it was looked whether its file is there.
    pub fn prepare_start(&self, team: TeamId, file: &str, params: Vec<String>) -> Result<RequestTeamStart, Rejection> {
        self.starter()?;
        let launch = self.start_spec(file, params)?;
        Ok(RequestTeamStart {
            intent: self.engine.mint_intent(),
            team,
            launch,
            site: self.engine.cluster().node().site.id.clone(),
        })
    }

    /// Starts the runner, unless the team began with this file after this was decided: then it was started before a crash of
    /// ours, whatever became of it since.
    pub(crate) async fn perform_start(&self, team: &TeamId, launch: TeamStartSpec, decided: Seq) -> Performed {
        match self.has_started_since(team, &launch.file, decided).await {
            Ok(true) => return Performed::TeamStarted(TeamStartOutcome::Running),
            Ok(false) => {}
            Err(error) => return Performed::Failed(error.to_string()),
        }
        let team_starter = match self.starter() {
            Ok(team_starter) => team_starter,
            Err(refusal) => return Performed::TeamStarted(TeamStartOutcome::Failed { reason: refusal.message }),
        };
        let file = launch.file.clone();
        let outcome = match team_starter.start(team.instance(), launch).await {
            Ok(()) => TeamStartOutcome::Running,
            // One that was started before a crash, and was not there yet, may have come meanwhile.
            Err(_) if self.has_started_since(team, &file, decided).await.unwrap_or(false) => TeamStartOutcome::Running,
            Err(refusing) => TeamStartOutcome::Failed { reason: refusing.reason },
        };
        Performed::TeamStarted(outcome)
    }

    async fn has_started_since(&self, team: &TeamId, file: &str, decided: Seq) -> Result<bool, EngineError> {
        let of_file = |team: &Team| team.file.as_ref().is_some_and(|known| Path::new(known).ends_with(file));
        Ok(self.engine.query().team(team).await?.value.is_some_and(|team| team.began_after(decided) && of_file(&team)))
    }
}
