//! Loads the roster and the sessions of teams at the start, and then applies the log to them.

use rookery_core::{Row, Table};
use rookery_store::RowQuery;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::subscribe::{Chunk, SubscribeError, Subscription};

/// Loads the agents, when each was last seen, the teams and the tokens. Runs before any other service.
pub async fn load_state(engine: &Engine) -> Result<(), EngineError> {
    load_agents_and_teams(engine).await?;
    engine.board().learn(engine.store().presence().await?);
    engine.access().reload(engine.store().as_ref()).await?;
    Ok(())
}

async fn load_agents_and_teams(engine: &Engine) -> Result<(), EngineError> {
    let agents = engine.query().agents().await?;
    engine.roster().learn_all(&agents.value, agents.head.head);
    let (rows, head) = engine.store().list(RowQuery::all(Table::Teams)).await?;
    for row in &rows {
        if let Row::Team(team) = row {
            engine.access().team_sessions().learn(team, head.head);
        }
    }
    Ok(())
}

/// Applies the log to the roster and to the sessions of teams.
#[derive(Debug)]
pub struct RosterFollower {
    subscription: Subscription,
}

impl RosterFollower {
    pub async fn begin(engine: &Engine) -> Result<RosterFollower, EngineError> {
        let subscription = engine.subscribe(None).await?;
        // The subscription reports changes from now on; this loads those before it.
        load_agents_and_teams(engine).await?;
        Ok(RosterFollower { subscription })
    }

    /// Takes the next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn next(&mut self, engine: &Engine) -> Result<Chunk, SubscribeError> {
        let chunk = self.subscription.next().await?;
        for row in chunk.rows() {
            engine.follow(row.seq, &row.event);
        }
        Ok(chunk)
    }
}
