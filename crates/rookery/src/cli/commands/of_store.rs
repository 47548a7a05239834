//! Which store a command works on, without the daemon's help.

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::config::{Flags, Origin, ProjectSettings};
use crate::project::{DaemonFile, Project};

#[derive(Debug, clap::Args)]
pub(super) struct OfStore {
    /// The store, as it was named to `rookery up`; that of the settings if none is named here
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl OfStore {
    /// The project and its settings, with the store that is meant.
    pub(super) fn settled(&self, context: &Context) -> anyhow::Result<(Project, ProjectSettings)> {
        let project = context.project()?;
        let settings = ProjectSettings::load(&project, &self.flags())?;
        self.refuse_another(&project, &settings)?;
        Ok((project, settings))
    }

    pub(super) fn flags(&self) -> Flags {
        let mut flags = Flags::default();
        if let Some(store) = &self.store {
            flags.set("store", store.clone());
        }
        flags
    }

    /// A daemon that was started with a store of its own knows it; its address without secrets is all that is written
    /// down, so that it has to be named again.
    fn refuse_another(&self, project: &Project, settings: &ProjectSettings) -> anyhow::Result<()> {
        let Ok(Some(DaemonFile { store: Some(used), .. })) = DaemonFile::load(project) else { return Ok(()) };
        if *settings.origin("store") != Origin::Default || used == settings.store.to_string() {
            return Ok(());
        }
        Err(Failure::new(format!("the daemon of this project uses the store {used}, which is not in its settings"))
            .hint("name it with --store, or once and for all as `store` in rookery.toml")
            .into())
    }
}
