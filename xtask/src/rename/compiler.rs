//! Finds the remaining uses of renamed fields and methods by compiler errors.
//!
//! The definition has its new name by now, so a place that still uses the old one does not compile. The compiler marks
//! the old name and knows the types, which the text search does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::table::{Row, RowKind};
use crate::say;
use crate::workspace::Workspace;

/// How often the workspace is checked: errors of one crate hide those of the crates that use it.
const MAX_ROUNDS: usize = 40;

#[derive(Debug, Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    level: String,
    message: String,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// Checks the workspace and edits what the errors mark, until it compiles or an error is none of ours.
pub(crate) fn finish(workspace: &Workspace, rows: &[&Row]) -> Result<()> {
    for _ in 0..MAX_ROUNDS {
        let arguments = ["check", "--workspace", "--all-targets", "--keep-going", "--message-format=json"];
        let (output, success) = workspace.cargo()?.args(arguments).output()?;
        if success {
            return Ok(());
        }
        let edited = edit_marked(workspace.root(), &output, rows)?;
        if edited == 0 {
            break;
        }
        say::note(format_args!("    {edited} places edited by compiler errors"));
    }
    workspace.cargo()?.args(["check", "--workspace", "--all-targets"]).run()?;
    bail!("the workspace does not compile, and no error marks a renamed field or method");
}

/// Edits every place that an error marks with the old name of a row, and returns their number.
fn edit_marked(root: &Path, output: &str, rows: &[&Row]) -> Result<usize> {
    let mut edits: BTreeMap<String, BTreeSet<(usize, usize, String)>> = BTreeMap::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for message in output.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()?.message) {
        for span in message.spans.iter().filter(|span| message.level == "error" && span.is_primary) {
            let text = match texts.get(&span.file_name) {
                Some(text) => text,
                None => {
                    let Ok(text) = fs::read_to_string(root.join(&span.file_name)) else { continue };
                    texts.entry(span.file_name.clone()).or_insert(text)
                }
            };
            let Some(marked) = text.get(span.byte_start..span.byte_end) else { continue };
            let place = (&text[..span.byte_start], marked, &text[span.byte_end..]);
            if let Some(new) = target(rows, place, &message.message) {
                edits.entry(span.file_name.clone()).or_default().insert((span.byte_start, span.byte_end, new));
            }
        }
    }
    let count = edits.values().map(BTreeSet::len).sum();
    for (file, edits) in edits {
        let mut text = texts.remove(&file).unwrap_or_default();
        for (start, end, new) in edits.into_iter().rev() {
            text.replace_range(start..end, &new);
        }
        fs::write(root.join(&file), text).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(count)
}

/// The replacement for a marked name: of the one row that has it, or of the row whose owner the message names.
fn target(rows: &[&Row], (before, marked, after): (&str, &str, &str), message: &str) -> Option<String> {
    let is_member = |row: &&&Row| matches!(row.kind, RowKind::Field | RowKind::Fn | RowKind::Variant | RowKind::Const);
    let meant: Vec<&&Row> = rows.iter().filter(is_member).filter(|row| row.old == marked).collect();
    let types = || message.split('`').skip(1).step_by(2).map(type_name);
    let names = |row: &Row| row.owner.as_deref().is_some_and(|owner| types().any(|name| name == owner));
    let row = match meant.as_slice() {
        [row] => row,
        rows => {
            let mut named = rows.iter().filter(|row| names(row));
            let first = named.next()?;
            if named.next().is_some() {
                return None;
            }
            first
        }
    };
    // The short form of a field in a literal or pattern keeps the variable's name.
    let is_short = row.kind == RowKind::Field && !before.ends_with('.') && !after.trim_start().starts_with(':');
    if is_short {
        return Some(format!("{}: {marked}", row.new));
    }
    Some(row.new.clone())
}

/// The last segment of a type as the compiler prints it: `Agent` of `&mut agent::Agent<T>`.
fn type_name(text: &str) -> &str {
    let path = text.trim_start_matches(['&', ' ']).trim_start_matches("mut ");
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: &str, old: &str, new: &str) -> Row {
        Row {
            line: 1,
            group: String::new(),
            package: "core".to_owned(),
            kind: RowKind::Fn,
            owner: Some(owner.to_owned()),
            old: old.to_owned(),
            new: new.to_owned(),
            scope: Vec::new(),
            may_merge: false,
            also_text: false,
            sites: Vec::new(),
        }
    }

    #[test]
    fn rows_of_one_name_are_told_apart_by_the_type_in_the_message() {
        let (agent, task) = (row("Agent", "given", "assigned"), row("Task", "given", "grant"));
        let message = "no method named `given` found for reference `&mut task::Task` in the current scope";
        let given = ("x.", "given", "()");
        assert_eq!(target(&[&agent, &task], given, message), Some("grant".to_owned()));
        assert_eq!(target(&[&agent, &task], given, "no method named `given` found"), None);
        assert_eq!(target(&[&agent], given, "no method named `given` found"), Some("assigned".to_owned()));
        assert_eq!(target(&[&agent], ("", "other", ""), "no method"), None);
    }

    #[test]
    fn marked_places_are_edited() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), "x.given(); y.given(); z.given();").unwrap();
        let error = |start: usize, level: &str| {
            let span = serde_json::json!({"file_name": "a.rs", "byte_start": start, "byte_end": start + 5, "is_primary": true});
            serde_json::json!({"reason": "compiler-message", "message": {"level": level, "message": "no method", "spans": [span]}})
        };
        let output = format!("{}\n{}\n{}\n", error(2, "error"), error(13, "error"), error(24, "warning"));
        let row = row("Agent", "given", "assigned");
        assert_eq!(edit_marked(folder.path(), &output, &[&row]).unwrap(), 2);
        let text = fs::read_to_string(folder.path().join("a.rs")).unwrap();
        assert_eq!(text, "x.assigned(); y.assigned(); z.given();");
    }
}
