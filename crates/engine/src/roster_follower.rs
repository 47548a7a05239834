//! Keeps what this node remembers of agents and teams up with the log.

use rookery_core::{Row, Table};
use rookery_store::RowQuery;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::subscribe::{Chunk, SubscribeError, Subscription};

/// Learns who is here, when each was last seen, which teams run, and which tokens are good. The first round of all.
pub async fn take_stock(engine: &Engine) -> Result<(), EngineError> {
    learn_team(engine).await?;
    engine.board().learn(engine.store().presence().await?);
    engine.access().reload(engine.store().as_ref()).await?;
    Ok(())
}

async fn learn_team(engine: &Engine) -> Result<(), EngineError> {
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

/// Keeps the roster up with the log.
#[derive(Debug)]
pub struct Following {
    subscription: Subscription,
}

impl Following {
    pub async fn begin(engine: &Engine) -> Result<Following, EngineError> {
        let subscription = engine.subscribe(None).await?;
        // Whoever joined or left before the subscription; what came after it is told by it.
        learn_team(engine).await?;
        Ok(Following { subscription })
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
