//! What the context of an instance is kept in, as surfaces ask for it.

use rookery_core::instance::{Configured, Instance, Scope, TeamContext, context_keys};
use rookery_core::model::Table;
use rookery_core::{Rejection, Row};
use rookery_store::RowQuery;

use crate::engine::{Engine, EngineError};

impl Engine {
    pub async fn team_context(&self, instance: &Instance) -> Result<TeamContext, EngineError> {
        let (rows, _) = self.store().rows(context_keys(instance).to_vec()).await?;
        let mut rows = rows.into_iter().map(|row| row.and_then(configured));
        let (own, project) = (rows.next().flatten(), rows.next().flatten());
        Ok(TeamContext::of(instance, own.as_ref(), project.as_ref()))
    }

    /// The context of an instance, or the refusal for one that has none.
    pub async fn needs_context(&self, instance: &Instance) -> Result<TeamContext, EngineError> {
        let context = self.team_context(instance).await?;
        context.check(instance).map_err(|refusal: Rejection| EngineError::from(refusal))?;
        Ok(context)
    }

    /// What was configured, the project's defaults included.
    pub async fn configured_contexts(&self) -> Result<Vec<Configured>, EngineError> {
        let (rows, _) = self.store().list(RowQuery::all(Table::Contexts)).await?;
        Ok(rows.into_iter().filter_map(configured).collect())
    }

    /// The instances that something was configured for.
    pub async fn configured_instances(&self) -> Result<Vec<Instance>, EngineError> {
        let configured = self.configured_contexts().await?;
        Ok(configured.iter().filter_map(|context| Scope::run(&context.scope)).map(Instance::of_run).collect())
    }
}

fn configured(row: Row) -> Option<Configured> {
    if let Row::Context(configured) = row { Some(configured) } else { None }
}
