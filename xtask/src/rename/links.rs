//! Paths outside of code: intra-doc links, and strings of serde attributes.

use crate::source::{Kind, SourceFile};

/// Keys of serde attributes whose value is a path.
const PATH_KEYS: [&str; 8] =
    ["default", "deserialize_with", "from", "into", "serialize_with", "skip_serializing_if", "try_from", "with"];

/// A segment of a path that is written outside of code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextPath {
    /// The path up to and including the segment.
    pub(crate) path: Vec<String>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The code token of the string, or the one behind the comment.
    pub(crate) token: usize,
}

/// Every segment `name` of a path that stands between `[` and `]`, or in the target of such a link.
pub(crate) fn doc_links(file: &SourceFile, name: &str) -> Vec<TextPath> {
    let mut found = Vec::new();
    for comment in file.tokens.comments.iter().filter(|token| token.kind == Kind::DocComment) {
        let text = file.text_of(comment);
        if !text.contains(name) {
            continue;
        }
        let token = file.tokens.code.partition_point(|code| code.start < comment.start);
        // A comment at the end of a file or block belongs to what is before it.
        let token = token.min(file.tokens.code.len().saturating_sub(1));
        for (open, _) in text.match_indices(['[', '(']) {
            let is_link = text[open..].starts_with('[') || text[..open].ends_with(']');
            let rest = &text[open + 1..];
            let Some(length) = rest.find([']', ')']) else { continue };
            if is_link {
                found.extend(segments(&rest[..length], name, comment.start + open + 1, token));
            }
        }
    }
    found
}

/// Every segment `name` of a path in a string such as `skip_serializing_if = "Agent::is_empty"`.
pub(crate) fn attribute_paths(file: &SourceFile, name: &str) -> Vec<TextPath> {
    let strings = file.tokens.code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Str);
    let named = strings.filter(|(_, token)| file.text_of(token).contains(name));
    let paths = named
        .filter(|(at, _)| file.word(at.wrapping_sub(1)) == "=" && PATH_KEYS.contains(&file.word(at.wrapping_sub(2))));
    paths.flat_map(|(at, token)| segments(file.text_of(token), name, token.start, at)).collect()
}

fn segments(link: &str, name: &str, offset: usize, token: usize) -> Vec<TextPath> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let start = link.find(is_path).unwrap_or(link.len());
    let path = link[start..].split(|c: char| !is_path(c)).next().unwrap_or_default();
    let mut found = Vec::new();
    let mut at = offset + start;
    let mut so_far = Vec::new();
    for segment in path.split("::") {
        so_far.push(segment.to_owned());
        if segment == name {
            found.push(TextPath { path: so_far.clone(), start: at, end: at + segment.len(), token });
        }
        at += segment.len() + 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_serde_attributes_are_found() {
        let text = "struct A { #[serde(default, skip_serializing_if = \"Recent::is_empty\")] r: Recent, x: &str = \"Recent\" }";
        let file = SourceFile::new("crates/core/src/a.rs", text.to_owned());
        let found = attribute_paths(&file, "Recent");
        assert_eq!(found.len(), 1);
        assert_eq!((&text[found[0].start..found[0].end], &found[0].path), ("Recent", &vec!["Recent".to_owned()]));
    }

    #[test]
    fn links_are_found_and_prose_is_not() {
        let text = "/// Status, `Status`, [`Status`] and [agent](crate::agent::Status).\n// [Status]\nfn a() {}";
        let file = SourceFile::new("crates/core/src/a.rs", text.to_owned());
        let links = doc_links(&file, "Status");
        let paths: Vec<String> = links.iter().map(|link| link.path.join("::")).collect();
        assert_eq!(paths, ["Status", "crate::agent::Status"]);
        assert!(links.iter().all(|link| &text[link.start..link.end] == "Status"));
    }
}
