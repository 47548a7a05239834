//! What this machine can tell of the processes that run teams.

use rookery_client::teams::Team;
use rookery_core::SiteId;
use rookery_runner::process;

use crate::project::{Project, host_name};

/// Knows the processes of one folder of the project. Of those elsewhere it can tell nothing.
#[derive(Debug, Default)]
pub struct Runners {
    site: Option<String>,
}

impl Runners {
    pub fn of(project: &Project) -> Runners {
        let site = project.site(|| SiteId::from(host_name().as_str()));
        Runners { site: site.ok().map(|site| site.to_string()) }
    }

    /// Whether a team is run as far as the log knows, and the process that did so is gone.
    pub fn is_lost(&self, team: &Team) -> bool {
        let Some(runner) = team.runner.as_ref().filter(|_| team.live) else { return false };
        let is_here = runner.site.is_some() && runner.site == self.site;
        is_here && !process::is_alive(&runner.boot_id, runner.pid, runner.started_at)
    }
}
