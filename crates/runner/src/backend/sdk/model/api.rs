//! The common shape of model APIs: how a request is encoded, and how the pieces of an answer are assembled.

use serde_json::Value;

use super::error::ModelError;
use super::messages::{ModelAnswer, ModelCall, ModelRequest, StopReason};
use super::target::ModelTarget;
use crate::backend::Usage;

/// One API, as a table of functions.
#[derive(Clone, Copy)]
pub(super) struct ModelApi {
    /// The path below the base address.
    pub path: fn(&ModelTarget) -> String,
    pub headers: fn(key: &str) -> Vec<(&'static str, String)>,
    pub body: fn(&ModelTarget, &ModelRequest<'_>) -> Value,
    /// Decodes the next piece of an answer, or a whole answer that was not streamed, and returns its text.
    pub take: fn(&mut AnswerDraft, &Value) -> Result<Option<String>, ModelError>,
}

impl std::fmt::Debug for ModelApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModelApi")
    }
}

/// Maximum number of calls in an answer.
const MAX_CALLS: usize = 128;

/// An answer that is being received.
#[derive(Debug, Default)]
pub(super) struct AnswerDraft {
    text: String,
    pub calls: Vec<ModelCall>,
    pub usage: Usage,
    /// Set by the end of an answer; without it, the answer was truncated.
    pub stop: Option<StopReason>,
}

impl AnswerDraft {
    /// Appends a text and returns it, to be passed on.
    pub(super) fn say(&mut self, text: &str) -> Option<String> {
        self.text.push_str(text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The call at an index, created if it is the next one.
    pub(super) fn call(&mut self, index: usize) -> Result<&mut ModelCall, ModelError> {
        if index == self.calls.len() && index < MAX_CALLS {
            self.calls.push(ModelCall::default());
        }
        self.calls
            .get_mut(index)
            .ok_or_else(|| ModelError::new_malformed(format!("there cannot be a call number {index}")))
    }

    pub(super) fn add(&mut self, call: ModelCall) -> Result<(), ModelError> {
        *self.call(self.calls.len())? = call;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ModelAnswer, ModelError> {
        let stop = self.stop.ok_or(ModelError::Cut)?;
        Ok(ModelAnswer { text: self.text, calls: self.calls, usage: self.usage, stop })
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
