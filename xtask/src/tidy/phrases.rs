//! Words and phrases that texts for people must not use.

use super::input::Input;
use super::{Finding, Found};
use crate::source::{Kind, SourceFile, Token};

/// Phrases, in lower case. A phrase matches whole words on one line.
const PHRASES: [&str; 26] = [
    "what is",
    "what was",
    "what of",
    "whoever",
    "whom",
    "nobody",
    "somebody",
    "deed",
    "deeds",
    "mend",
    "mends",
    "mended",
    "mending",
    "anew",
    "be told",
    "goes on",
    "a while",
    "of its own",
    "face",
    "faces",
    "word",
    "words",
    "is over",
    "are over",
    "comes to nothing",
    "come to nothing",
];

/// Words that a doc comment must not start with.
const OPENERS: [&str; 4] = ["That", "What", "Who", "Whoever"];

/// Doc comments, of product and tests, that start with `What`, `Who`, `Whoever` or `That`. The total is the number of
/// doc comments.
pub(crate) fn doc_openers(input: &Input) -> Found {
    let mut places = Vec::new();
    let mut total = 0;
    for file in &input.tree.files {
        let mut previous = 0;
        for token in file.tokens.comments.iter().filter(|token| token.kind == Kind::DocComment) {
            let is_first = token.line != previous + 1 || previous == 0;
            previous = token.line;
            if !is_first {
                continue;
            }
            total += 1;
            let text = file.text_of(token).trim_start_matches(['/', '*', '!']).trim_start();
            let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if OPENERS.contains(&first) {
                places.push(Finding::new(&file.path, token.line, first));
            }
        }
    }
    Found { places, total: Some(total) }
}

/// Banned phrases in comments of all Rust code. The total is the number of comment lines.
pub(crate) fn in_comments(input: &Input) -> Found {
    let mut places = Vec::new();
    let mut total = 0;
    for file in &input.tree.files {
        total += file.tokens.comments.iter().map(|token| file.text_of(token).lines().count()).sum::<usize>();
        places.extend(in_tokens(file, &file.tokens.comments));
    }
    Found { places, total: Some(total) }
}

/// Banned phrases in string literals of product code: errors, hints, help.
pub(crate) fn in_strings(input: &Input) -> Found {
    let mut places = Vec::new();
    for file in input.tree.product() {
        let code = file.tokens.code.iter().enumerate();
        let strings = code.filter(|(at, token)| token.kind == Kind::Str && !file.is_test_token(*at));
        let strings: Vec<Token> = strings.map(|(_, token)| *token).collect();
        places.extend(in_tokens(file, &strings));
    }
    places.into()
}

/// The banned phrases of some tokens of a file.
fn in_tokens(file: &SourceFile, tokens: &[Token]) -> Vec<Finding> {
    // One search over the joined tokens is much faster than one for each.
    let mut joined = String::new();
    let mut starts = Vec::new();
    for token in tokens {
        starts.push(joined.len());
        joined.push_str(file.text_of(token));
        joined.push('\n');
    }
    let place = |(start, phrase): (usize, &str)| {
        let index = starts.partition_point(|known| *known <= start) - 1;
        let line = tokens[index].line + joined[starts[index]..start].matches('\n').count();
        Finding::new(&file.path, line, phrase)
    };
    phrases(&joined).into_iter().map(place).collect()
}

/// Banned phrases in Markdown files. The reference is generated from the code and does not count.
pub(crate) fn in_docs(input: &Input) -> Found {
    in_texts(input, |path| path.ends_with(".md") && !path.starts_with("docs/reference/"))
}

/// Banned phrases in the source of the web UI.
pub(crate) fn in_ui(input: &Input) -> Found {
    in_texts(input, |path| path.starts_with("ui/src/") && (path.ends_with(".ts") || path.ends_with(".tsx")))
}

fn in_texts(input: &Input, wanted: fn(&str) -> bool) -> Found {
    let mut places = Vec::new();
    for (path, text) in input.texts.iter().filter(|(path, _)| wanted(path)) {
        let found = phrases(text).into_iter();
        places.extend(found.map(|(start, phrase)| Finding::new(path, text[..start].matches('\n').count() + 1, phrase)));
    }
    places.into()
}

/// The banned phrases of a text with their offsets, in order.
fn phrases(text: &str) -> Vec<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for phrase in PHRASES {
        let starts = lower.match_indices(phrase).map(|(start, _)| start);
        found.extend(starts.filter(|start| is_word(&lower, *start, start + phrase.len())).map(|start| (start, phrase)));
    }
    found.sort_unstable();
    found
}

/// Whether neither side of a range continues a word.
fn is_word(text: &str, start: usize, end: usize) -> bool {
    let continues = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !continues(text[..start].chars().next_back()) && !continues(text[end..].chars().next())
}

/// The words of an identifier in snake or camel case, in lower case.
pub(crate) fn split_name(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut word = String::new();
        let mut was_lower = false;
        for c in part.chars() {
            if c.is_uppercase() && was_lower {
                words.push(std::mem::take(&mut word));
            }
            was_lower = c.is_lowercase() || c.is_numeric();
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(split_name("FactError"), ["fact", "error"]);
        assert_eq!(split_name("told_id"), ["told", "id"]);
        assert_eq!(split_name("MAX_HTTP2Frames"), ["max", "http2", "frames"]);
    }

    #[test]
    fn phrases_match_whole_words() {
        let found = |text| phrases(text).into_iter().map(|(_, phrase)| phrase).collect::<Vec<_>>();
        assert_eq!(found("What is told, and whoever mends it anew."), ["what is", "whoever", "mends", "anew"]);
        assert_eq!(found("surface, password, whatever"), Vec::<&str>::new());
        assert_eq!(found("of its own of its own"), ["of its own", "of its own"]);
    }

    #[test]
    fn doc_comments_are_judged_by_their_first_line() {
        let text = "/// What a task is.\n/// Who knows.\nfn a() {}\n//! That\n/// The lease\n// What\nfn b() {}";
        let found = doc_openers(&Input::of(&[("crates/core/src/a.rs", text)]));
        let items: Vec<(usize, &str)> = found.places.iter().map(|place| (place.line, place.item.as_str())).collect();
        assert_eq!(items, [(1, "What"), (4, "That")]);
    }

    #[test]
    fn texts_for_people_are_searched() {
        let input = Input::of(&[
            (
                "crates/core/src/a.rs",
                "fn a() { f(\"nobody\") } #[cfg(test)] mod tests { fn b() { f(\"nobody\") } } // anew",
            ),
            ("docs/a.md", "a\nwhoever\n"),
            ("docs/reference/b.md", "whoever"),
            ("ui/src/a.tsx", "nobody"),
        ]);
        assert_eq!(in_strings(&input).places, [Finding::new("crates/core/src/a.rs", 1, "nobody")]);
        assert_eq!(in_comments(&input).places, [Finding::new("crates/core/src/a.rs", 1, "anew")]);
        assert_eq!(in_docs(&input).places, [Finding::new("docs/a.md", 2, "whoever")]);
        assert_eq!(in_ui(&input).places, [Finding::new("ui/src/a.tsx", 1, "nobody")]);
    }
}
