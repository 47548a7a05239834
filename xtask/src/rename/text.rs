//! Rows that edit texts and test names.

use super::sites::{Edit, Plan};
use super::table::{Row, glob_matches};
use crate::source::{Kind, SourceFile, test_binary};

/// A file that is not Rust, relative to the root.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Edits a value in the string literals of Rust files that the scope names. Indexes are those of `files`.
pub(crate) fn plan_strings(files: &[SourceFile], row: &Row) -> Plan {
    let mut plan = Plan::default();
    for (index, file) in files.iter().enumerate().filter(|(_, file)| in_scope(row, &file.path)) {
        for token in file.tokens.code.iter().filter(|token| token.kind == Kind::Str) {
            for start in words(file.text_of(token), &row.old) {
                let start = token.start + start;
                plan.edits.insert(Edit { file: index, start, end: start + row.old.len(), text: row.new.clone() });
            }
        }
    }
    plan.is_found = !plan.edits.is_empty();
    plan
}

/// How often a file that is not Rust has the value.
pub(crate) fn count(file: &TextFile, row: &Row) -> usize {
    words(&file.text, &row.old).len()
}

/// Replaces a value in a file that is not Rust and returns how often.
pub(crate) fn replace(file: &mut TextFile, row: &Row) -> usize {
    let found = words(&file.text, &row.old);
    for start in found.iter().rev() {
        file.text.replace_range(*start..start + row.old.len(), &row.new);
    }
    found.len()
}

/// Whether a `text` row edits the file. A `text` row without a scope edits none.
pub(crate) fn in_scope(row: &Row, path: &str) -> bool {
    path.strip_prefix(&row.base()).is_some_and(|rest| row.scope.iter().any(|glob| glob_matches(glob, rest)))
}

/// Renames test functions in the files of the scope.
pub(crate) fn plan_tests(files: &[SourceFile], row: &Row) -> Plan {
    let mut plan = Plan::default();
    for (index, file) in files.iter().enumerate().filter(|(_, file)| row.covers(&file.path)) {
        for test in file.items.items.iter().filter(|item| item.is_test && item.name == row.old) {
            let token = file.tokens.code[test.token];
            plan.edits.insert(Edit { file: index, start: token.start, end: token.end, text: row.new.clone() });
            let same_binary = files.iter().filter(|other| test_binary(&other.path) == test_binary(&file.path));
            for other in same_binary {
                let taken = other.items.items.iter().any(|item| item.is_test && item.name == row.new);
                if taken && !row.may_merge {
                    plan.clashes.push(format!("a test `{}` exists in {}", row.new, other.path));
                }
            }
        }
    }
    if row.new.len() > 80 {
        plan.clashes.push(format!("`{}` has {} characters; at most 80", row.new, row.new.len()));
    }
    plan.is_found = !plan.edits.is_empty();
    plan
}

/// Where a value stands as a whole word. Letters, digits, `_`, `-` and `.` before a letter continue a word.
fn words(text: &str, value: &str) -> Vec<usize> {
    let continues = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let found = text.match_indices(value).map(|(start, _)| start);
    found
        .filter(|start| {
            let (before, after) = (&text[..*start], &text[start + value.len()..]);
            let mut next = after.chars();
            let dotted = next.next() == Some('.') && continues(next.next());
            let prefixed = before.ends_with('.') && continues(before[..before.len() - 1].chars().next_back());
            !continues(before.chars().next_back()) && !continues(after.chars().next()) && !dotted && !prefixed
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_replaced_as_whole_words() {
        let found = |text| words(text, "task.moved").len();
        assert_eq!(found("\"task.moved\""), 1);
        assert_eq!(found("task.moved, task.moved."), 2);
        assert_eq!(found("task.moved_on subtask.moved task.moved.v1 task.moved-x"), 0);
    }
}
