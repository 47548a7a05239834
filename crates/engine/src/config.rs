//! The settings of an engine, and what depends on the project and the machine.

use std::path::PathBuf;
use std::sync::Arc;

use rookery_core::messages::StormGuard;

use crate::adapters::{Hook, Outlet};
use crate::endpoints::DeliveryPolicy;
use crate::ports::team_starter::TeamStarter;
use crate::settings::Settings;

/// What an engine is set up with: the settings, and what depends on the project and the machine.
#[derive(Clone, Debug)]
pub struct Config {
    pub project: String,
    pub root: PathBuf,
    /// Bubblewrap, where it can make sandboxes: git on agents' files runs in one.
    pub bwrap: Option<PathBuf>,
    pub settings: Settings,
    /// Where others may POST to.
    pub hooks: Vec<Hook>,
    /// Adapters that the log is passed on to.
    pub outlets: Vec<Outlet>,
    /// How often messages to endpoints are retried.
    pub delivery: DeliveryPolicy,
    /// Starts workflow files, where there is something that can.
    pub team_starter: Option<Arc<dyn TeamStarter>>,
    /// The program whose command `check-payloads` runs [`crate::schemas::serve_checks`]. Without one, payloads are checked in
    /// this process and nothing bounds the work.
    pub schema_checker: Option<PathBuf>,
    /// Whether other nodes can share the store, each with the project's files in its own folder.
    pub shared: bool,
}

impl Config {
    /// An engine without webhooks, starters or programs, for these settings.
    pub fn new(project: impl Into<String>, root: impl Into<PathBuf>, settings: Settings) -> Config {
        Config {
            project: project.into(),
            root: root.into(),
            bwrap: None,
            delivery: DeliveryPolicy::new(&settings),
            settings,
            hooks: vec![],
            outlets: vec![],
            team_starter: None,
            schema_checker: None,
            shared: false,
        }
    }

    /// The rate and the number of hops above which messages are held.
    pub fn storm_guard(&self) -> StormGuard {
        StormGuard { per_minute: self.settings.messages_per_minute, hops: self.settings.message_hops }
    }
}
