//! The blanks in a text: `{{word}}`, where a word is letters, digits and underscores, with or without spaces around it.

use std::collections::BTreeMap;

/// A stretch of text, or a blank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part<'a> {
    Text(&'a str),
    Blank(&'a str),
}

/// The words of a text's blanks, in their order.
pub(super) fn blanks(text: &str) -> Vec<&str> {
    parts(text).into_iter().filter_map(|part| if let Part::Blank(word) = part { Some(word) } else { None }).collect()
}

/// The text with its blanks filled. A blank that nothing is given for stays as it is.
pub(super) fn fill(text: &str, with: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Blank(word) => match with.get(word) {
                Some(value) => filled.push_str(value),
                None => filled.push_str(&format!("{{{{{word}}}}}")),
            },
        }
    }
    filled
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let word = after.split_once("}}").filter(|(word, _)| is_word(word.trim()));
        match word {
            Some((word, behind)) => {
                parts.push(Part::Text(before));
                parts.push(Part::Blank(word.trim()));
                rest = behind;
            }
            None => {
                // One brace is text; the other may begin a blank.
                let at = before.len() + 1;
                parts.push(Part::Text(&rest[..at]));
                rest = &rest[at..];
            }
        }
    }
    parts.push(Part::Text(rest));
    parts
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_and_filled() {
        let with = BTreeMap::from([("name".to_owned(), "login".to_owned()), ("n".to_owned(), "{{name}}".to_owned())]);
        for (text, words, filled) in [
            ("plain", vec![], "plain"),
            ("add {{name}}", vec!["name"], "add login"),
            ("{{ name }}{{name}}", vec!["name", "name"], "loginlogin"),
            ("{{{name}}}", vec!["name"], "{login}"),
            ("{{a b}} {{}} {{name", vec![], "{{a b}} {{}} {{name"),
            ("{{n}}", vec!["n"], "{{name}}"),
            ("{{other}}", vec!["other"], "{{other}}"),
        ] {
            assert_eq!((blanks(text), fill(text, &with).as_str()), (words, filled), "{text}");
        }
    }
}
