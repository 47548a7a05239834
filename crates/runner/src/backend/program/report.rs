//! What a program has reported of its turn so far, in the words that all of them share, and what is made of it when the
//! program is gone.

use serde_json::Value;

use crate::backend::{BackendEvent, Failure, Usage};

/// How much of a tool's input people are shown.
const SHOWN: usize = 200;

/// What was heard of a turn.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Heard {
    /// The program's own name for its conversation.
    pub conversation: Option<String>,
    /// What it said last.
    pub said: Option<String>,
    /// It has called a tool.
    pub worked: bool,
    pub usage: Usage,
    /// How it says that its turn ended.
    pub end: Option<ReportedEnd>,
    /// Nothing good can come of it any more: it is ended at once.
    pub hopeless: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ReportedEnd {
    Done,
    Failed(Failure),
}

/// Takes in one line after the other.
pub(crate) trait Reader: Send {
    /// What one event of the stream means. One that it does not know means nothing: programs add new ones.
    fn hear(&mut self, event: &Value, heard: &mut Heard) -> Vec<BackendEvent>;

    /// What a line on stderr means, for what a program tells nowhere else.
    fn overhear(&mut self, _line: &str, _heard: &mut Heard) {}
}

impl Heard {
    pub(crate) fn say(&mut self, text: &str) -> Option<BackendEvent> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        self.said = Some(text.to_owned());
        Some(BackendEvent::Said(text.to_owned()))
    }

    pub(crate) fn call(&mut self, name: &str, input: &Value) -> BackendEvent {
        self.worked = true;
        BackendEvent::Tool { name: plain(name), input: shortened(input) }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.end = Some(ReportedEnd::Failed(failure));
    }

    /// It fails, and whatever else it does only costs.
    pub(crate) fn give_up(&mut self, failure: Failure) {
        self.fail(failure);
        self.hopeless = true;
    }
}

/// A tool as people know it: ours by our names.
pub(crate) fn plain(name: &str) -> String {
    super::bridge::own_name(name).unwrap_or(name).to_owned()
}

/// An input in one line that is not long.
pub(crate) fn shortened(input: &Value) -> String {
    let text = match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    one_line(&text, SHOWN)
}

/// A text in one line of at most so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A number of an event, 0 if it is not there.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// The text of a result: one text, or a list of texts or of pieces with texts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(pieces) => {
            let text = |piece: &'_ Value| piece.as_str().or_else(|| piece["text"].as_str()).map(str::to_owned);
            pieces.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_inputs_are_one_short_line() {
        let line = shortened(&json!({"message": "ä\n".repeat(400)}));
        assert_eq!(line.chars().count(), SHOWN + 1);
        assert!(line.ends_with('…') && !line.contains('\n'));
        assert_eq!(shortened(&Value::Null), "");
    }

    #[test]
    fn silence_is_not_something_said() {
        let mut heard = Heard::default();
        assert_eq!(heard.say(" \n"), None);
        assert_eq!(heard.said, None);
        heard.say(" done \n");
        assert_eq!(heard.said.as_deref(), Some("done"));
    }
}
