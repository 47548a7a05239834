//! Signing a browser in with the code of a sign-in link, and recording the use of browser sessions.

use rookery_store::{Operation, Token};

use super::AccessHandle;
use crate::credentials::browser_sessions::{SessionHalves, new_session};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports;

/// A browser session that was just created, with its secrets, which are not stored.
#[derive(Debug)]
pub struct NewSession {
    pub cookie: String,
    pub stored: String,
    pub session: Token,
}

impl AccessHandle<'_> {
    /// Redeems the code of a sign-in link for a session; `None` if the code was used already or is too old.
    pub async fn sign_in(&self, code: &str, browser: String) -> Result<Option<NewSession>, EngineError> {
        let now = self.engine.clock().now();
        let (cookie, stored) = (ports::secret(), ports::secret());
        let Some(hash) = self.session_hash(SessionHalves { cookie: &cookie, stored: &stored }) else {
            return Ok(None);
        };
        let Some(person) = self.codes().redeem(code, now) else { return Ok(None) };
        let session = new_session(self.engine.mint("ses_"), hash, person, browser, now);
        self.engine.store().operate(Operation::PutToken(session.clone())).await?;
        self.reload(self.engine.store().as_ref()).await?;
        Ok(Some(NewSession { cookie, stored, session }))
    }

    /// Ends a browser session on all nodes. Returns whether there was one.
    pub async fn revoke_session(&self, id: &str) -> Result<bool, EngineError> {
        let is_session = |token: &Token| token.id == id && token.browser.is_some();
        if !self.engine.store().tokens().await?.iter().any(is_session) {
            return Ok(false);
        }
        self.engine.store().operate(Operation::RevokeToken { id: id.to_owned() }).await?;
        if let Err(error) = self.reload(self.engine.store().as_ref()).await {
            tracing::warn!(%error, "a revoked session is still accepted here until tokens can be read again");
        }
        Ok(true)
    }
}

/// Records the last use of sessions, and deletes those that have expired.
pub async fn keep_sessions(engine: &Engine) -> Result<(), EngineError> {
    let now = engine.clock().now();
    for session in engine.access().sessions_to_renew(now) {
        engine.store().operate(Operation::RenewToken(session)).await?;
    }
    for id in engine.access().sessions_to_end(now) {
        engine.store().operate(Operation::RevokeToken { id }).await?;
    }
    Ok(())
}
