//! What the context of an instance is kept in, as surfaces ask for it.

use rookery_core::contexts::ConfigureContext;
use rookery_core::kernel::instance::Instance;
use rookery_core::model::Table;
use rookery_core::model::context_settings::{Configured, ContextSettings, Scope, TeamContext, keys as context_keys};
use rookery_core::{Caller, Rejection, Row};
use rookery_store::{RowQuery, Submission, SubmitError};

use crate::engine::Engine;
use crate::error::EngineError;

/// The settings of instances: their shared directories and initial documents.
#[derive(Clone, Copy, Debug)]
pub struct ContextsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`ContextsHandle`].
    pub fn contexts(&self) -> ContextsHandle<'_> {
        ContextsHandle { engine: self }
    }
}

impl ContextsHandle<'_> {
    /// Sets the defaults of the project, which hold for every instance that has no settings.
    pub async fn configure_project(&self, settings: ContextSettings) -> Result<(), SubmitError> {
        let command = ConfigureContext { scope: Scope::Project, settings, site: None };
        self.engine.commit(Submission::internal(Caller::system(), command)).await?;
        Ok(())
    }

    pub async fn get(&self, instance: &Instance) -> Result<TeamContext, EngineError> {
        let (rows, _) = self.engine.store().rows(context_keys(instance).to_vec()).await?;
        let mut rows = rows.into_iter().map(|row| row.and_then(configured));
        let (own, project) = (rows.next().flatten(), rows.next().flatten());
        Ok(TeamContext::of(instance, own.as_ref(), project.as_ref()))
    }

    /// The context of an instance, or the refusal for one that has none.
    pub async fn require(&self, instance: &Instance) -> Result<TeamContext, EngineError> {
        let context = self.get(instance).await?;
        context.check(instance).map_err(|refusal: Rejection| EngineError::from(refusal))?;
        Ok(context)
    }

    /// What was configured, the project's defaults included.
    pub async fn list(&self) -> Result<Vec<Configured>, EngineError> {
        let (rows, _) = self.engine.store().list(RowQuery::all(Table::Contexts)).await?;
        Ok(rows.into_iter().filter_map(configured).collect())
    }

    /// The instances that something was configured for.
    pub async fn list_instances(&self) -> Result<Vec<Instance>, EngineError> {
        let configured = self.list().await?;
        Ok(configured.iter().filter_map(|context| Scope::run(&context.scope)).map(Instance::of_run).collect())
    }
}

fn configured(row: Row) -> Option<Configured> {
    if let Row::Context(configured) = row { Some(configured) } else { None }
}
