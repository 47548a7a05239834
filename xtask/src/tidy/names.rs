//! Names of types, functions and variables.

use std::collections::{BTreeMap, HashMap};

use super::input::Input;
use super::phrases::split_name;
use super::{Finding, Found};
use crate::source::{ItemKind, Kind, SourceFile};

/// Type names that are an idiom: the module path says which one it is.
const IDIOMS: [&str; 6] = ["Args", "Config", "Error", "Handle", "Result", "Service"];

/// Participles that do not end in `ed`.
const PARTICIPLES: [&str; 10] = ["begun", "given", "held", "kept", "known", "made", "said", "sent", "shown", "told"];

/// Verbs and nouns that end in `ed`.
const NO_PARTICIPLES: [&str; 9] = ["embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"];

/// Words that must not be part of an identifier, with their plurals.
const BANNED: [&str; 21] = [
    "anew",
    "bury",
    "deed",
    "deeds",
    "duties",
    "duty",
    "fact",
    "facts",
    "handing",
    "handings",
    "hindrance",
    "hindrances",
    "kin",
    "lend",
    "lends",
    "lent",
    "letter",
    "letters",
    "parcel",
    "parcels",
    "told",
];

/// Names of types (`struct`, `enum`, `trait`, `type`) that product code defines twice or more. The total is the number
/// of distinct names. Idioms, associated types and types inside of functions do not count.
pub(crate) fn repeated_types(input: &Input) -> Found {
    types_defined(input, 2)
}

/// The same, defined more than twice.
pub(crate) fn often_repeated_types(input: &Input) -> Found {
    Found { total: None, ..types_defined(input, 3) }
}

fn types_defined(input: &Input, at_least: usize) -> Found {
    let mut names: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    for file in input.tree.product() {
        let types = file.items.items.iter().filter(|item| item.kind.is_type() && !item.in_test && !item.is_local);
        for item in types.filter(|item| !IDIOMS.contains(&item.name.as_str())) {
            let place = Finding::new(&file.path, file.line_of(item.token), item.name.clone());
            names.entry(&item.name).or_default().push(place);
        }
    }
    let total = Some(names.len());
    let places = names.into_values().filter(|places| places.len() >= at_least).flatten().collect();
    Found { places, total }
}

/// Functions of product code named by one participle: `^[a-z]+ed$` or one of a list. The total is the number of
/// functions. Methods of foreign traits are counted like others; accessors of a field of the same name in the same file
/// are not.
pub(crate) fn participles(input: &Input) -> Found {
    let mut places = Vec::new();
    let mut total = 0;
    for file in input.tree.product() {
        for item in file.items.items.iter().filter(|item| item.kind == ItemKind::Fn && !item.in_test) {
            total += 1;
            let is_accessor = item.takes_self && has_field(file, &item.name);
            if is_participle(&item.name) && !is_accessor {
                places.push(Finding::new(&file.path, file.line_of(item.token), item.name.clone()));
            }
        }
    }
    Found { places, total: Some(total) }
}

fn is_participle(name: &str) -> bool {
    let is_word = name.chars().all(|c| c.is_ascii_lowercase());
    PARTICIPLES.contains(&name)
        || (is_word && name.len() > 2 && name.ends_with("ed") && !NO_PARTICIPLES.contains(&name))
}

fn has_field(file: &SourceFile, name: &str) -> bool {
    file.items.items.iter().any(|item| item.kind == ItemKind::Field && item.name == name)
}

/// Identifiers in all Rust code that contain a banned word. `dead_letter` and `DeadLetter` are the field's term.
pub(crate) fn banned_names(input: &Input) -> Found {
    let mut places = Vec::new();
    let mut judged: HashMap<&str, bool> = HashMap::new();
    for file in &input.tree.files {
        for token in file.tokens.code.iter().filter(|token| token.kind == Kind::Ident && token.end - token.start > 2) {
            let name = file.text_of(token);
            if *judged.entry(name).or_insert_with(|| has_banned_word(name)) {
                places.push(Finding::new(&file.path, token.line, name));
            }
        }
    }
    places.into()
}

pub(crate) fn has_banned_word(name: &str) -> bool {
    let words = split_name(name);
    let is_dead = |index: usize| index > 0 && words[index - 1] == "dead";
    words.iter().enumerate().any(|(index, word)| {
        BANNED.contains(&word.as_str()) && !(matches!(word.as_str(), "letter" | "letters") && is_dead(index))
    })
}

/// `let _name = ...` with a name of four letters or more, in all Rust code: use `drop`, `.ok()`, or handle the value.
pub(crate) fn underscore_variables(input: &Input) -> Found {
    let mut places = Vec::new();
    for file in input.tree.files.iter().filter(|file| file.text.contains("let _")) {
        for (at, token) in file.tokens.code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Ident) {
            let name = file.text_of(token);
            let is_long = name
                .strip_prefix('_')
                .is_some_and(|rest| rest.len() >= 4 && rest.bytes().take(4).all(|byte| byte.is_ascii_lowercase()));
            if is_long && at > 0 && file.word(at - 1) == "let" {
                places.push(Finding::new(&file.path, token.line, name));
            }
        }
    }
    places.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(places: &[Finding]) -> Vec<&str> {
        places.iter().map(|place| place.item.as_str()).collect()
    }

    #[test]
    fn repeated_types_are_counted_by_name() {
        let input = Input::of(&[
            ("crates/core/src/a.rs", "struct Place; struct Args; enum Only {} impl T for X { type Place = u8; }"),
            ("crates/core/src/b.rs", "enum Place {} struct Args; #[cfg(test)] mod tests { struct Only; }"),
        ]);
        let found = repeated_types(&input);
        assert_eq!((named(&found.places), found.total), (vec!["Place", "Place"], Some(2)));
        assert!(often_repeated_types(&input).places.is_empty());
    }

    #[test]
    fn participles_are_found_and_accessors_are_not() {
        let input = Input::of(&[(
            "crates/core/src/a.rs",
            "struct A { sealed: bool } impl A { fn sealed(&self) {} fn placed(&self) {} fn told() {} fn feed() {} fn is_held() {} }",
        )]);
        let found = participles(&input);
        assert_eq!((named(&found.places), found.total), (vec!["placed", "told"], Some(5)));
    }

    #[test]
    fn banned_words_are_found_inside_of_names() {
        assert!(has_banned_word("told_id") && has_banned_word("FactError") && has_banned_word("anew"));
        assert!(!has_banned_word("factory") && !has_banned_word("dead_letters") && !has_banned_word("DeadLetter"));
        let input =
            Input::of(&[("crates/core/src/a.rs", "fn f() { let _unused = 1; let _ok = 2; let _ = 3; f(_unused) }")]);
        assert_eq!(named(&underscore_variables(&input).places), ["_unused"]);
    }
}
