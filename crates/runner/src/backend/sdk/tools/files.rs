//! `read` and `edit`: the files of the agent's folder.

use serde::Deserialize;
use serde_json::{Value, json};

use super::agent_folder::Workspace;
use crate::backend::sdk::model::Tool;

const LINES: usize = 2000;

pub(super) fn read_tool() -> Tool {
    Tool {
        name: super::READ.to_owned(),
        description: "Reads a text file of your folder. A long one comes in parts: say `offset` for the next one."
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

pub(super) fn edit_tool() -> Tool {
    Tool {
        name: super::EDIT.to_owned(),
        description:
            "Changes a text file of your folder: replaces the text `old` by `new`. `old` must be there exactly as \
                      you say it, and once, unless `all` is true. Without `old`, a new file is made of `new`."
                .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your folder"},
                "old": {"type": "string", "description": "The text to replace, with enough around it to be there once"},
                "new": {"type": "string", "description": "What comes in its place"},
                "all": {"type": "boolean", "description": "Whether to replace it wherever it is"},
            },
            "required": ["path", "new"],
        }),
    }
}

#[derive(Deserialize)]
struct Read {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct Edit {
    path: String,
    #[serde(default)]
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

pub(super) fn read(workspace: &Workspace, input: Value) -> Result<String, String> {
    let asked: Read = serde_json::from_value(input).map_err(|error| error.to_string())?;
    let text = workspace.read(&asked.path)?;
    Ok(lines(&text, asked.offset.unwrap_or(1).max(1), asked.limit.unwrap_or(LINES).clamp(1, LINES)))
}

pub(super) fn edit(workspace: &Workspace, input: Value) -> Result<String, String> {
    let Edit { path, old, new, all } = serde_json::from_value(input).map_err(|error| error.to_string())?;
    if old.is_empty() {
        workspace.create(&path, &new)?;
        return Ok(format!("made {path}"));
    }
    match workspace.replace(&path, &old, &new, all)? {
        1 => Ok(format!("changed {path}")),
        count => Ok(format!("changed {path} in {count} places")),
    }
}

/// Some lines, and how to get the next ones. What is too long for one answer ends at a line as well.
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
        if count > 0 && shown.len() + line.len() > super::RESULT_BYTES / 2 {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    let next = from + count;
    if next <= total {
        let end = if shown.ends_with('\n') { "" } else { "\n" };
        shown.push_str(&format!("{end}({} more lines; go on with offset {next})", total - next + 1));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_come_in_parts() {
        assert_eq!(lines("a\nb\nc", 1, 10), "a\nb\nc");
        assert_eq!(lines("a\nb\nc", 1, 2), "a\nb\n(1 more lines; go on with offset 3)");
        assert_eq!(lines("a\nb\nc", 3, 2), "c");
        assert_eq!(lines("a\nb\nc", 4, 2), "(it has 3 lines)");
        assert_eq!(lines("", 1, 2), "(it is empty)");
        let long = format!("{}\n", "x".repeat(super::super::RESULT_BYTES / 3)).repeat(4);
        assert!(lines(&long, 1, 10).ends_with("(3 more lines; go on with offset 2)"));
    }
}
