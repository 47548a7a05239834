//! What an interface is: how a question is written, and how the pieces of an answer are put together.

use serde_json::Value;

use super::error::Trouble;
use super::messages::{Answer, Ask, Call, Stop};
use super::target::Target;
use crate::backend::Usage;

/// One interface.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    /// Below the base address.
    pub path: fn(&Target) -> String,
    pub headers: fn(key: &str) -> Vec<(&'static str, String)>,
    pub body: fn(&Target, &Ask<'_>) -> Value,
    /// Takes the next piece of an answer, or a whole one from who does not stream, and returns what it says.
    pub take: fn(&mut Draft, &Value) -> Result<Option<String>, Trouble>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

/// Most calls that an answer may have.
const CALLS: usize = 128;

/// An answer of which some has come.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    pub calls: Vec<Call>,
    pub usage: Usage,
    /// Set by what ends an answer: one without it was cut.
    pub stop: Option<Stop>,
}

impl Draft {
    /// Adds words and gives them back, to be passed on.
    pub(super) fn say(&mut self, text: &str) -> Option<String> {
        self.text.push_str(text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The call at a place, made if it is the next one.
    pub(super) fn call(&mut self, index: usize) -> Result<&mut Call, Trouble> {
        if index == self.calls.len() && index < CALLS {
            self.calls.push(Call::default());
        }
        self.calls.get_mut(index).ok_or_else(|| Trouble::garbled(format!("there cannot be a call number {index}")))
    }

    pub(super) fn add(&mut self, call: Call) -> Result<(), Trouble> {
        *self.call(self.calls.len())? = call;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Answer, Trouble> {
        let stop = self.stop.ok_or(Trouble::Cut)?;
        Ok(Answer { text: self.text, calls: self.calls, usage: self.usage, stop })
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
