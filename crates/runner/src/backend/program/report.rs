//! The report of a program about its turn so far, in a form that all programs share.

use serde_json::Value;

use crate::backend::{BackendEvent, Failure, Usage};

/// Maximum length of a tool's input for people.
const MAX_SHOWN_CHARS: usize = 200;

/// The report of a turn.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ProgramReport {
    /// The program's id for its conversation.
    pub conversation: Option<String>,
    /// The last text.
    pub last_text: Option<String>,
    /// Whether it called a tool.
    pub worked: bool,
    pub usage: Usage,
    /// The end of the turn, as the program reported it.
    pub end: Option<ReportedEnd>,
    /// Whether the turn can only fail, so that it is ended at once.
    pub hopeless: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ReportedEnd {
    Done,
    Failed(Failure),
}

/// Interprets the output of a program, one event or line at a time.
pub(crate) trait ReportReader: Send {
    /// Interprets one event of the stream. Unknown ones are ignored, because programs add new ones.
    fn read_event(&mut self, event: &Value, report: &mut ProgramReport) -> Vec<BackendEvent>;

    /// Interprets a line of stderr, for facts that a program reports nowhere else.
    fn read_stderr(&mut self, _line: &str, _heard: &mut ProgramReport) {}
}

impl ProgramReport {
    pub(crate) fn say(&mut self, text: &str) -> Option<BackendEvent> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        self.last_text = Some(text.to_owned());
        Some(BackendEvent::Said(text.to_owned()))
    }

    pub(crate) fn call(&mut self, name: &str, input: &Value) -> BackendEvent {
        self.worked = true;
        BackendEvent::Tool { name: display_name(name), input: shorten(input) }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.end = Some(ReportedEnd::Failed(failure));
    }

    /// Fails the turn and has it ended at once, since the rest would only cause cost.
    pub(crate) fn give_up(&mut self, failure: Failure) {
        self.fail(failure);
        self.hopeless = true;
    }
}

/// The name of a tool for people: ours without the program's prefix.
pub(crate) fn display_name(name: &str) -> String {
    super::bridge::own_name(name).unwrap_or(name).to_owned()
}

/// A short line with an input.
pub(crate) fn shorten(input: &Value) -> String {
    let text = match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    one_line(&text, MAX_SHOWN_CHARS)
}

/// The text as one line with at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A number of an event; 0 if it is missing.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// The text of a result: a string, or a list of strings or of objects with a text.
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
    fn long_input_becomes_one_short_line() {
        let line = shorten(&json!({"message": "ä\n".repeat(400)}));
        assert_eq!(line.chars().count(), MAX_SHOWN_CHARS + 1);
        assert!(line.ends_with('…') && !line.contains('\n'));
        assert_eq!(shorten(&Value::Null), "");
    }

    #[test]
    fn blank_text_is_not_reported() {
        let mut report = ProgramReport::default();
        assert_eq!(report.say(" \n"), None);
        assert_eq!(report.last_text, None);
        report.say(" done \n");
        assert_eq!(report.last_text.as_deref(), Some("done"));
    }
}
