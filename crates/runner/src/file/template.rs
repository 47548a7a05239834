//! Texts with variables, written `${{ name }}`. A text is parsed once, with its file. Values are data and never parsed, so that
//! the output of a command cannot name a variable.
//!
//! `$${{` stands for `${{` itself. There are no expressions, only names.

use std::borrow::Cow;

use super::fault::{FileFault, FileFaults, SourceLocation};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

#[derive(Clone, PartialEq, Debug)]
pub struct TextTemplate {
    pub place: SourceLocation,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Text(String),
    Variable(Variable),
}

/// A variable in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    pub name: String,
    pub place: SourceLocation,
}

impl TextTemplate {
    /// Parses a text. `places` are the places of its `${{`, in order; without them, faults have the place of the text.
    pub(super) fn read(
        text: &str,
        place: SourceLocation,
        places: &[SourceLocation],
        faults: &mut FileFaults,
    ) -> TextTemplate {
        let mut pieces = Vec::new();
        let (mut rest, mut nth) = (text, 0);
        while let Some(at) = rest.find(OPEN) {
            let here = places.get(nth).unwrap_or(&place);
            nth += 1;
            if rest[..at].ends_with('$') {
                push(&mut pieces, &rest[..at - 1]);
                push(&mut pieces, OPEN);
                rest = &rest[at + OPEN.len()..];
                continue;
            }
            push(&mut pieces, &rest[..at]);
            let inside = &rest[at + OPEN.len()..];
            let Some(end) = closing(inside) else {
                faults.add(
                    FileFault::new(here, format!("`{OPEN}` has no `{CLOSE}`"))
                        .hint(format!("`$${{{{` stands for `{OPEN}` itself")),
                );
                rest = inside;
                continue;
            };
            let name = inside[..end].trim();
            if is_name(name) {
                pieces.push(Piece::Variable(Variable { name: name.to_owned(), place: here.clone() }));
            } else {
                let fault = FileFault::new(here, "is not the name of a variable").found(format!("`{name}`"));
                faults.add(fault.hint(
                    "names such as `params.x` are possible, expressions are not; `$${{` stands for `${{` itself",
                ));
            }
            rest = &inside[end + CLOSE.len()..];
        }
        push(&mut pieces, rest);
        TextTemplate { place, pieces }
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }

    /// Fills in every variable with the result of `value` for its name.
    pub fn fill<'a>(&self, mut value: impl FnMut(&str) -> Cow<'a, str>) -> String {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable(variable) => filled.push_str(&value(&variable.name)),
            }
        }
        filled
    }

    /// The text, if it has no variables.
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The name of the variable, if the text consists only of one.
    pub fn only_variable(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Variable(variable)] => Some(&variable.name),
            _ => None,
        }
    }

    pub fn is_blank(&self) -> bool {
        self.plain().is_some_and(|text| text.trim().is_empty())
    }
}

/// Finds the offsets of all `${{` in a text.
pub(super) fn openings(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices(OPEN).map(|(at, _)| at)
}

/// Finds the names of variables in a text that is not a template.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    openings(text).filter_map(|at| {
        let inside = &text[at + OPEN.len()..];
        closing(inside).map(|end| inside[..end].trim())
    })
}

/// Finds the `}}` of a variable. Searches only up to the next `${{`, so that many of them take linear time.
fn closing(inside: &str) -> Option<usize> {
    let next = inside.find(OPEN).unwrap_or(inside.len());
    inside[..next].find(CLOSE)
}

fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.split('.').all(|part| !part.is_empty() && part.chars().all(is_name_char))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> SourceLocation {
        SourceLocation { file: "a.yaml".into(), line: 1, column: 1, path: "kickoff".to_owned() }
    }

    fn template(text: &str) -> (TextTemplate, FileFaults) {
        let mut faults = FileFaults::default();
        (TextTemplate::read(text, place(), &[], &mut faults), faults)
    }

    #[test]
    fn variables_are_found_and_filled() {
        for (text, filled) in [
            ("", ""),
            ("plain {{ x }} $x ${x}", "plain {{ x }} $x ${x}"),
            ("a ${{ x }} b", "a <x> b"),
            ("${{x}}${{ params.y }}", "<x><params.y>"),
            ("${{\n  x\n}}", "<x>"),
            ("$${{ x }}", "${{ x }}"),
            ("$$${{ x }}", "$${{ x }}"),
            ("cost: $ ${{ x }}", "cost: $ <x>"),
            ("${{ x }}}", "<x>}"),
        ] {
            let (read, faults) = template(text);
            assert_eq!(
                (read.fill(|name| format!("<{name}>").into()), faults.is_empty()),
                (filled.to_owned(), true),
                "{text}"
            );
        }
    }

    #[test]
    fn filled_value_is_not_parsed() {
        let (read, _) = template("${{ x }} and ${{ y }}");
        let filled = read.fill(|name| if name == "x" { "${{ y }}".into() } else { "secret".into() });
        assert_eq!(filled, "${{ y }} and secret");
    }

    #[test]
    fn malformed_variable_is_a_fault() {
        for text in ["${{", "${{ x", "${{ x }", "${{ }}", "${{ a + b }}", "${{ a. }}", "${{ 1 }}", "${{ ${{ x }} }}"] {
            assert!(!template(text).1.is_empty(), "{text}");
        }
    }
}
