//! Starts team files on this machine. It is given from outside: the engine knows neither the files nor the program that runs
//! them.

use std::fmt::Debug;

use rookery_core::TeamId;
use rookery_core::kernel::instance::Instance;
use rookery_core::model::team::{Team, TeamStartSpec};
use rookery_store::Pending;
use serde_json::Value;

/// Starts workflow files on this machine.
pub trait TeamStarter: Debug + Send + Sync {
    /// The workflow files of the project.
    fn files(&self) -> Pending<'_, Vec<WorkflowFile>>;

    /// What a file would do, or what is wrong with it.
    fn check(&self, instance: Instance, launch: TeamStartSpec) -> Pending<'_, Result<Value, Refusing>>;

    /// Starts a runner that outlives this process, and returns when its team is there or cannot be.
    fn start(&self, instance: Instance, launch: TeamStartSpec) -> Pending<'_, Result<(), Refusing>>;

    /// Whether the log says that a team is run, and its runner was one of this machine that is gone.
    fn is_lost(&self, team: &Team) -> bool;

    /// Ends a team whose runner is gone, and puts in order what that one left behind.
    fn force_end(&self, team: TeamId) -> Pending<'_, Result<(), Refusing>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkflowFile {
    /// Relative to the project.
    pub path: String,
    /// What it calls itself.
    pub name: Option<String>,
}

/// Why a file is not started.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusing {
    pub reason: String,
    /// Everything that is wrong with the file, if that is why.
    pub faults: Option<Value>,
}
