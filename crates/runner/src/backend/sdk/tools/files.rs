//! `read` and `edit`: access to the files of the agent's folder.

use serde::Deserialize;
use serde_json::{Value, json};

use super::agent_folder::AgentFolder;
use crate::backend::sdk::model::ModelTool;

const MAX_LINES: usize = 2000;

pub(super) fn read_tool() -> ModelTool {
    ModelTool {
        name: super::READ.to_owned(),
        description: "Reads a text file of your folder. A long file comes in parts: set `offset` for the next one."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your folder"},
                "offset": {"type": "integer", "minimum": 1, "description": "The line to begin with; 1 if absent"},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines; 2000 if absent"},
            },
            "required": ["path"],
        }),
    }
}

pub(super) fn edit_tool() -> ModelTool {
    ModelTool {
        name: super::EDIT.to_owned(),
        description:
            "Changes a text file of your folder: replaces the text `old` by `new`. The file must contain `old` exactly as \
                      given, and once, unless `all` is true. Without `old`, a new file with the text `new` is created."
                .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your folder"},
                "old": {"type": "string", "description": "The text to replace, with enough context to occur only once"},
                "new": {"type": "string", "description": "The replacement"},
                "all": {"type": "boolean", "description": "Whether to replace all occurrences"},
            },
            "required": ["path", "new"],
        }),
    }
}

#[derive(Deserialize)]
struct ReadInput {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct EditInput {
    path: String,
    #[serde(default)]
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

pub(super) fn read(folder: &AgentFolder, input: Value) -> Result<String, String> {
    let input: ReadInput = serde_json::from_value(input).map_err(|error| error.to_string())?;
    let text = folder.read(&input.path)?;
    Ok(lines(&text, input.offset.unwrap_or(1).max(1), input.limit.unwrap_or(MAX_LINES).clamp(1, MAX_LINES)))
}

pub(super) fn edit(folder: &AgentFolder, input: Value) -> Result<String, String> {
    let EditInput { path, old, new, all } = serde_json::from_value(input).map_err(|error| error.to_string())?;
    if old.is_empty() {
        folder.create(&path, &new)?;
        return Ok(format!("created {path}"));
    }
    match folder.replace(&path, &old, &new, all)? {
        1 => Ok(format!("changed {path}")),
        count => Ok(format!("changed {path} in {count} places")),
    }
}

/// Some lines, with a note about the next ones. A part that is too long also ends after a whole line.
fn lines(text: &str, from: usize, most: usize) -> String {
    let all = text.split_inclusive('\n');
    let total = all.clone().count();
    if text.is_empty() {
        return "(it is empty)".to_owned();
    }
    if from > total {
        return format!("(it has {total} lines)");
    }
    let (mut shown, mut count) = (String::new(), 0);
    for line in all.skip(from - 1).take(most) {
        if count > 0 && shown.len() + line.len() > super::MAX_RESULT_BYTES / 2 {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    let next = from + count;
    if next <= total {
        let end = if shown.ends_with('\n') { "" } else { "\n" };
        shown.push_str(&format!("{end}({} more lines; continue with offset {next})", total - next + 1));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_file_is_read_in_parts() {
        assert_eq!(lines("a\nb\nc", 1, 10), "a\nb\nc");
        assert_eq!(lines("a\nb\nc", 1, 2), "a\nb\n(1 more lines; continue with offset 3)");
        assert_eq!(lines("a\nb\nc", 3, 2), "c");
        assert_eq!(lines("a\nb\nc", 4, 2), "(it has 3 lines)");
        assert_eq!(lines("", 1, 2), "(it is empty)");
        let long = format!("{}\n", "x".repeat(super::super::MAX_RESULT_BYTES / 3)).repeat(4);
        assert!(lines(&long, 1, 10).ends_with("(3 more lines; continue with offset 2)"));
    }
}
