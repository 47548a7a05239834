//! Becoming part of the team by being there: an agent that names itself and takes part, or only listens, can be mentioned
//! and found from then on.

use rookery_core::agents::{Announcement, RegisterAgent};
use rookery_core::{Authority, Caller};
use rookery_engine::{EngineError, Request};

use crate::http::App;

/// Lets the agent that a caller speaks as join, if nobody knows it yet. Whoever only observes, and whoever gave no name,
/// stays unknown.
pub async fn arrive(app: &App, caller: &Caller) -> Result<(), EngineError> {
    let engine = app.engine();
    let Some(agent) = caller.actor.agent().filter(|_| caller.power != Authority::Observer) else { return Ok(()) };
    if engine.liveness().knows(agent) || engine.query().agent(agent).await?.value.is_some_and(|agent| !agent.has_left())
    {
        return Ok(());
    }
    // Without the call's key, which is for what the tool does: a repeated call finds the agent here.
    let join = RegisterAgent { agent: agent.clone(), announcement: Announcement::Presence };
    engine.submit(Request::new(caller.clone(), join)).await?;
    Ok(())
}
