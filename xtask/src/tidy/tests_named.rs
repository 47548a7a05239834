//! Names of tests, and the tests that pages name.

use std::collections::{BTreeMap, BTreeSet};

use super::input::Input;
use super::names::has_banned_word;
use super::phrases::split_name;
use super::{Finding, Found};
use crate::source::{Item, ItemKind, SourceFile, test_binary};

const MAX_LENGTH: usize = 80;

/// Words that a test name must not contain, besides those of other names.
const BANNED: [&str; 6] = ["nobody", "somebody", "what", "whichever", "whoever", "whom"];

/// Words that a search for must find at least so many tests.
const SUBJECTS: [&str; 5] = ["concurrent", "duplicate", "migration", "shutdown", "timeout"];
const TESTS_PER_SUBJECT: usize = 3;

/// Pages with tables that name tests.
const PAGES: [&str; 3] = ["ARCHITECTURE.md", "docs/invariants.md", "docs/security.md"];

fn tests(input: &Input) -> impl Iterator<Item = (&SourceFile, &Item)> {
    input.tree.files.iter().flat_map(|file| {
        let tests = file.items.items.iter().filter(|item| item.is_test);
        tests.map(move |item| (file, item))
    })
}

fn place(file: &SourceFile, item: &Item) -> Finding {
    Finding::new(&file.path, file.line_of(item.token), item.name.clone())
}

/// Tests with the name of another test of the same binary: the library of a crate, or a file or folder below `tests/`.
pub(crate) fn repeated(input: &Input) -> Found {
    let mut named: BTreeMap<(String, &str), Vec<Finding>> = BTreeMap::new();
    for (file, item) in tests(input) {
        named.entry((test_binary(&file.path), &item.name)).or_default().push(place(file, item));
    }
    named.into_values().flat_map(|places| places.into_iter().skip(1)).collect::<Vec<_>>().into()
}

/// Tests with names of more than 80 characters.
pub(crate) fn long(input: &Input) -> Found {
    tests(input)
        .filter(|(_, item)| item.name.len() > MAX_LENGTH)
        .map(|(file, item)| place(file, item))
        .collect::<Vec<_>>()
        .into()
}

/// Tests whose names contain a banned word.
pub(crate) fn banned(input: &Input) -> Found {
    let is_banned =
        |name: &str| has_banned_word(name) || split_name(name).iter().any(|word| BANNED.contains(&word.as_str()));
    tests(input)
        .filter(|(_, item)| is_banned(&item.name))
        .map(|(file, item)| place(file, item))
        .collect::<Vec<_>>()
        .into()
}

/// One place for each test that is missing until every subject is named by three.
pub(crate) fn rare_subjects(input: &Input) -> Found {
    let mut places = Vec::new();
    for subject in SUBJECTS {
        let count = tests(input).filter(|(_, item)| item.name.contains(subject)).count();
        let missing = TESTS_PER_SUBJECT.saturating_sub(count);
        places.extend(std::iter::repeat_n(Finding::new("crates", 0, subject), missing));
    }
    places.into()
}

/// Functions that a table of a page names as tests and that do not exist.
pub(crate) fn missing(input: &Input) -> Found {
    let functions = input.tree.files.iter().flat_map(|file| file.items.items.iter());
    let functions: BTreeSet<&str> =
        functions.filter(|item| item.kind == ItemKind::Fn).map(|item| item.name.as_str()).collect();
    let mut places = Vec::new();
    for page in PAGES {
        let Some(text) = input.texts.get(page) else { continue };
        for (line, name) in named_in(text) {
            // Tests inside of macros are no items; the text of the file tells.
            let is_defined = || input.tree.files.iter().any(|file| file.text.contains(&format!("fn {name}(")));
            if !functions.contains(name) && !is_defined() {
                places.push(Finding::new(page, line, name));
            }
        }
    }
    places.into()
}

/// The names in backticks, of tables that have a column for tests, that read like the name of a test; without the
/// module.
fn named_in(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_table = false;
    let mut names_tests = false;
    for (index, line) in page.lines().enumerate() {
        if !line.starts_with('|') {
            is_table = false;
            continue;
        }
        if !is_table {
            is_table = true;
            names_tests = line.contains("test") || line.contains("held by");
        }
        if names_tests {
            let words = line.split('`').skip(1).step_by(2).map(|word| word.rsplit("::").next().unwrap_or(word));
            let tests = words.filter(|word| word.matches('_').count() >= 2);
            let tests = tests.filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
            found.extend(tests.map(|word| (index + 1, word)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(found: Found) -> Vec<String> {
        found.places.into_iter().map(|place| place.item).collect()
    }

    #[test]
    fn repeated_names_are_found_within_a_binary() {
        let input = Input::of(&[
            ("crates/core/src/a.rs", "#[test] fn x() {}"),
            ("crates/core/src/b.rs", "#[tokio::test] async fn x() {} fn y() {}"),
            ("crates/core/tests/c.rs", "#[test] fn x() {} #[test] fn y() {}"),
        ]);
        assert_eq!(items(repeated(&input)), ["x"]);
    }

    #[test]
    fn banned_words_and_rare_subjects_are_found() {
        let input = Input::of(&[(
            "crates/core/tests/c.rs",
            "#[test] fn whoever_asks() {} #[test] fn told_once() {} #[test] fn timeout_a() {} #[test] fn timeout_b() {}",
        )]);
        assert_eq!(items(banned(&input)), ["whoever_asks", "told_once"]);
        let rare = items(rare_subjects(&input));
        assert_eq!(rare.iter().filter(|subject| *subject == "timeout").count(), 1);
        assert_eq!(rare.len(), 13);
    }

    #[test]
    fn tests_that_pages_name_must_exist() {
        let page = "| a | held by |\n|---|---|\n| x | `one_two_three`, `m::four_five_six` |\n\n| b |\n|---|\n| `seven_eight_nine` |\n";
        let input = Input::of(&[("ARCHITECTURE.md", page), ("crates/core/src/a.rs", "fn one_two_three() {}")]);
        assert_eq!(items(missing(&input)), ["four_five_six"]);
    }

    #[test]
    fn pages_of_the_project_name_tests() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let pages = PAGES.iter().filter_map(|page| std::fs::read_to_string(root.join(page)).ok());
        let count: usize = pages.map(|text| named_in(&text).len()).sum();
        assert!(count >= 50, "the tables of {PAGES:?} name {count} tests");
    }
}
