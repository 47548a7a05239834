//! Names that people take for one another, and names that no agent may have.
//!
//! A name is compared by its look: case, compatibility forms, accents, invisible characters and look-alikes of other scripts
//! (Unicode Technical Standard 39) do not tell two names apart.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::confusable_detection::skeleton;

use super::id::AgentId;
use super::instance::bare;

/// Names that address somebody or something else: the daemon and its parts, the people at the computer, and everybody.
const RESERVED: [&str; 26] = [
    "admin",
    "administrator",
    "all",
    "anonymous",
    "channel",
    "daemon",
    "everybody",
    "everyone",
    "external",
    "here",
    "human",
    "local",
    "me",
    "myself",
    "nobody",
    "operator",
    "orchestrator",
    "owner",
    "people",
    "person",
    "root",
    "router",
    "system",
    "user",
    "watcher",
    "you",
];

/// Prefixes that say what kind of author a name is of.
const KINDS: [&str; 4] = ["person:", "agent:", "group:", "mcp:"];

static RESERVED_LOOKS: LazyLock<BTreeSet<String>> = LazyLock::new(|| RESERVED.iter().copied().map(look).collect());

static KIND_LOOKS: LazyLock<[String; 4]> = LazyLock::new(|| KINDS.map(look));

/// Whether no agent may have this name, in whichever instance.
pub fn is_reserved(name: &str) -> bool {
    let id = AgentId::from(name);
    let has_kind = |look: &String| KIND_LOOKS.iter().any(|kind| look.starts_with(kind));
    let is_word = |look: &String| RESERVED_LOOKS.contains(look);
    looks(name).iter().any(has_kind) || (!is_numbered(bare(&id)) && looks(bare(&id)).iter().any(is_word))
}

/// Whether a name is a letter and a number: `a11` is one of many agents, and nobody reads "all".
fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix(|c: char| c.is_ascii_alphabetic());
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a person could take one name for the other.
pub fn look_alike(one: &str, other: &str) -> bool {
    let others = looks(other);
    looks(one).iter().any(|look| others.contains(look))
}

/// A name as it looks in small letters, as it is written, and in capital letters: some letters look like others only in one
/// of them, such as a capital I and a small l.
fn looks(name: &str) -> [String; 3] {
    [look(&name.to_lowercase()), look(name), look(&name.to_uppercase())]
}

fn look(name: &str) -> String {
    let plain: String = name.nfkc().collect();
    let folded: String = skeleton(&plain).filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect();
    skeleton(&folded).filter(|c| !is_combining_mark(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_recognised_in_any_case_and_script() {
        for name in [
            "system", "System", "SYSTEM", "local", "you", "You", "me", "human", "person", "user", "everyone", "here",
            "all", "channel", "watcher",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        // Cyrillic, Greek, full width, mathematical, digits, capital I, accents, zero width.
        for name in [
            "ѕуѕtеm",
            "ЅУЅТЕМ",
            "l\u{43e}cal",
            "ｌｏｃａｌ",
            "𝐥𝐨𝐜𝐚𝐥",
            "l0cal",
            "1ocal",
            "IocaI",
            "lócal",
            "lo\u{200b}cal",
            "уоu",
            "υou",
            "Реrson",
            "a1l",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["local@pr-1", "You@default", "l0cal@x", "Person:anna", "pеrson:anna", "AGENT:x", "group:workers"]
        {
            assert!(is_reserved(name), "{name}");
        }
    }

    #[test]
    fn ordinary_names_are_not_reserved() {
        for name in [
            "reviewer",
            "coder",
            "ui",
            "claude-code-1",
            "codex",
            "cursor-1",
            "gemini",
            "lead",
            "ada",
            "anna",
            "researcher",
            "writer",
            "github",
            "user:ken",
            "localhost",
            "systems",
            "youth",
            "a",
            "m",
            "a11",
            "größe",
            "кодер",
            "开发者",
            "reviewer@pr-123",
            "coder@all",
        ] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn names_that_look_alike_are_told_from_those_that_do_not() {
        for (one, other) in [("coder", "с0der"), ("coder", "Coder"), ("anna", "аnna"), ("bill", "biIl")] {
            assert!(look_alike(one, other) && look_alike(other, one), "{one} {other}");
        }
        for (one, other) in [("coder", "coder2"), ("anna", "ana"), ("w1", "w2"), ("ada", "bob")] {
            assert!(!look_alike(one, other), "{one} {other}");
        }
    }
}
