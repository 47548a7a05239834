//! A model behind an HTTP API: one request, one answer, which is streamed piece by piece.
//!
//! [`messages`] has the types that all APIs share. Each API is one [`ModelApi`](api::ModelApi): it encodes requests and
//! decodes the pieces of answers. [`target`] resolves address and key, [`exchange`] sends one request, and [`Model::ask`]
//! retries until there is an answer or no point in retrying.
//!
//! The APIs are implemented here rather than with a crate such as genai, which turns on serde_json's `preserve_order` for the
//! whole program, accepts a truncated stream of Gemini as a complete answer, and reads without bounds.

mod anthropic;
mod api;
mod chat;
mod error;
mod exchange;
mod gemini;
mod messages;
mod ollama;
mod retry_policy;
mod target;

use std::time::Duration;

pub(super) use error::ModelError;
use exchange::Exchange;
pub(super) use messages::{
    ModelAnswer, ModelCall, ModelCallResult, ModelMessage, ModelRequest, ModelTool, StopReason, tokens,
};
pub(super) use retry_policy::ModelRetryPolicy;
pub(super) use target::{ModelSettings, ModelTarget};

/// Observes a request to a model.
pub(super) trait ModelObserver: Send {
    /// Receives a piece of the answer.
    fn on_text(&mut self, text: &str);
    /// Called before the pause of a retry.
    fn on_retry(&mut self, error: &ModelError, pause: Duration);
}

#[derive(Debug)]
pub(super) struct Model {
    exchange: Exchange,
    retry_policy: ModelRetryPolicy,
}

impl Model {
    pub(super) fn new(target: ModelTarget, retry_policy: ModelRetryPolicy) -> Result<Model, ModelError> {
        Ok(Model { exchange: Exchange::new(target, retry_policy.silence)?, retry_policy })
    }

    pub(super) fn target(&self) -> &ModelTarget {
        self.exchange.target()
    }

    /// Sends a request, and retries it if that can help. An answer counts only when it is complete.
    pub(super) async fn ask(
        &self,
        ask: &ModelRequest<'_>,
        observer: &mut dyn ModelObserver,
    ) -> Result<ModelAnswer, ModelError> {
        let mut attempt = 0;
        loop {
            let error = match self.exchange.ask(ask, &mut |piece| observer.on_text(piece)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempt += 1;
            let Some(pause) = self.retry_policy.pause(attempt, &error, rand::random()) else { return Err(error) };
            observer.on_retry(&error, pause);
            tokio::time::sleep(pause).await;
        }
    }
}
