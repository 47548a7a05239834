//! Tokens, browser sessions and sign-in links, as surfaces create and revoke them.

mod names;
mod people;
mod sign_in;

use std::ops::Deref;

use rookery_store::{Operation, Token};

use crate::credentials::Access;
use crate::engine::Engine;
use crate::error::EngineError;

pub use names::NewToken;
pub use sign_in::{NewSession, keep_sessions};

/// Credentials: tokens, browser sessions and sign-in links.
#[derive(Clone, Copy, Debug)]
pub struct AccessHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`AccessHandle`].
    pub fn access(&self) -> AccessHandle<'_> {
        AccessHandle { engine: self }
    }
}

impl AccessHandle<'_> {
    /// The tokens that people created; browser sessions are not among them.
    pub async fn tokens(&self) -> Result<Vec<Token>, EngineError> {
        let mut tokens = self.engine.store().tokens().await?;
        tokens.retain(|token| token.browser.is_none());
        Ok(tokens)
    }

    pub async fn create_token(&self, token: Token) -> Result<(), EngineError> {
        self.engine.store().operate(Operation::PutToken(token)).await?;
        self.reload_later_if_unreadable().await;
        Ok(())
    }

    /// Revokes a token on all nodes. Returns whether there was one.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, EngineError> {
        if !self.tokens().await?.iter().any(|token| token.id == id) {
            return Ok(false);
        }
        self.engine.store().operate(Operation::RevokeToken { id: id.to_owned() }).await?;
        self.reload_later_if_unreadable().await;
        Ok(true)
    }

    /// Reloads the tokens after a change. The change is committed: if the tokens cannot be read now, every node reloads them
    /// as soon as it can.
    async fn reload_later_if_unreadable(&self) {
        if let Err(error) = self.reload(self.engine.store().as_ref()).await {
            tracing::warn!(%error, "changed tokens are not reloaded yet");
        }
    }
}

impl Deref for AccessHandle<'_> {
    type Target = Access;

    fn deref(&self) -> &Access {
        self.engine.credentials()
    }
}
