//! Removes what is no longer needed: artifacts that nothing names, and old replies.

use rookery_store::Operation;
use rookery_store::node::LeaderRole;

use crate::artifacts::{Collected, Trial};
use crate::engine::Engine;
use crate::error::EngineError;

/// Removes what is left of artifacts that never came whole, and those that nothing names for long enough, if that is for
/// this node to do.
pub async fn collect_artifacts(engine: &Engine) -> Result<(), EngineError> {
    if engine.cluster().leader_epoch(LeaderRole::Upkeep).is_none() {
        return Ok(());
    }
    while engine.store().tidy_artifacts().await? > 0 {}
    loop {
        let Collected { artifacts, bytes, more, .. } =
            engine.artifacts().collect(engine.settings().keep_artifacts, Trial::Real).await?;
        if artifacts > 0 {
            tracing::info!(artifacts, bytes, "removed artifacts that nothing names");
        }
        if !more {
            return Ok(());
        }
    }
}

/// Forgets the remembered replies whose time is over, if that is for this node to do.
pub async fn forget_replies(engine: &Engine) -> Result<(), EngineError> {
    if engine.cluster().leader_epoch(LeaderRole::Upkeep).is_none() {
        return Ok(());
    }
    let before = engine.cluster().store_now();
    while engine.store().operate(Operation::ForgetReplies { before }).await? > 0 {}
    Ok(())
}
