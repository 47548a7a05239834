//! A model at the other end of an HTTP interface: one question, one answer, which comes piece by piece.
//!
//! [`messages`] has the words that all interfaces share. Each interface is one [`Wire`](api::Wire): how a question is written and
//! how the pieces of an answer read. [`target`] is where to ask and with which key, [`exchange`] asks once, and
//! [`Model::ask`] asks until there is an answer or no sense in asking on.
//!
//! The interfaces are spoken here and not by a crate such as genai: that one turns on serde_json's `preserve_order` for the whole
//! program, takes a stream of Gemini that was cut for a whole answer, and reads without bounds.

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

pub(super) use error::Trouble;
use exchange::Exchange;
pub(super) use messages::{Answer, Ask, Call, CallResult, Message, Stop, Tool, tokens};
pub(super) use retry_policy::ModelRetryPolicy;
pub(super) use target::{Said, Target};

/// Whoever wants to know what happens while a model is asked.
pub(super) trait ModelObserver: Send {
    /// A piece of the answer.
    fn said(&mut self, piece: &str);
    /// It is asked again after a while.
    fn waits(&mut self, trouble: &Trouble, pause: Duration);
}

#[derive(Debug)]
pub(super) struct Model {
    exchange: Exchange,
    retry_policy: ModelRetryPolicy,
}

impl Model {
    pub(super) fn new(target: Target, retry_policy: ModelRetryPolicy) -> Result<Model, Trouble> {
        Ok(Model { exchange: Exchange::new(target, retry_policy.silence)?, retry_policy })
    }

    pub(super) fn target(&self) -> &Target {
        self.exchange.target()
    }

    /// Asks, and asks again if that can help. Nothing of an answer counts before it is whole.
    pub(super) async fn ask(&self, ask: &Ask<'_>, listener: &mut dyn ModelObserver) -> Result<Answer, Trouble> {
        let mut attempt = 0;
        loop {
            let trouble = match self.exchange.ask(ask, &mut |piece| listener.said(piece)).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            attempt += 1;
            let Some(pause) = self.retry_policy.pause(attempt, &trouble, rand::random()) else { return Err(trouble) };
            listener.waits(&trouble, pause);
            tokio::time::sleep(pause).await;
        }
    }
}
