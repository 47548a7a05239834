//! Central matches over our enums, and the registry of commands, events and tables.

use std::collections::{BTreeMap, BTreeSet};

use super::input::Input;
use super::{Finding, Found};
use crate::source::{ItemKind, Kind, SourceFile};

/// How many arms over one enum a file may have.
const MAX_ARMS: usize = 40;

/// The file that lists every command, event and table.
const REGISTRY: &str = "crates/core/src/registry.rs";
const TABLES: &str = "crates/core/src/model/tables.rs";

/// Files with more than 40 match arms over one enum of the workspace, one place for each file and enum.
pub(crate) fn large_matches(input: &Input) -> Found {
    let place =
        |(file, of, arms): (&SourceFile, &str, usize)| Finding::new(&file.path, 1, format!("{of}: {arms} arms"));
    registries(input).into_iter().map(place).collect::<Vec<_>>().into()
}

/// Product files with more arms over one enum than allowed, with the number of arms.
pub(crate) fn registries(input: &Input) -> Vec<(&SourceFile, &str, usize)> {
    let of_ours: BTreeSet<&str> = input
        .tree
        .product()
        .flat_map(|file| file.items.items.iter())
        .filter(|item| item.kind == ItemKind::Enum)
        .map(|item| item.name.as_str())
        .collect();
    let mut found = Vec::new();
    for file in input.tree.product() {
        let arms = arms(file, &of_ours).into_iter().filter(|(_, arms)| *arms > MAX_ARMS);
        found.extend(arms.map(|(of, arms)| (file, of, arms)));
    }
    found
}

/// The number of match arms of a file for each enum: every `Enum::Variant` in a pattern is one, so that `A::X | A::Y`
/// is two. `Self` is the type of the `impl` block. Tests do not count.
fn arms<'a>(file: &'a SourceFile, enums: &BTreeSet<&str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for at in file.product_idents().filter(|at| file.word(*at) == "match") {
        for (start, end) in patterns(file, at) {
            for index in start..end {
                let is_path = file.word(index + 1) == "::" && file.word(index + 3) != "::";
                let is_variant = file.word(index + 2).starts_with(|c: char| c.is_ascii_uppercase());
                if file.tokens.code[index].kind == Kind::Ident && is_path && is_variant {
                    let name = match file.word(index) {
                        "Self" => file.items.impl_at(index).map_or("Self", |block| &block.of),
                        name => name,
                    };
                    if enums.contains(name) {
                        *counts.entry(name).or_default() += 1;
                    }
                }
            }
        }
    }
    counts
}

/// Ranges of the tokens of the patterns of a `match`, guards included.
fn patterns(file: &SourceFile, at: usize) -> Vec<(usize, usize)> {
    let mut open = at + 1;
    let mut depth = 0_usize;
    while open < file.tokens.code.len() && !(depth == 0 && file.word(open) == "{") {
        match file.word(open) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        open += 1;
    }
    let mut found = Vec::new();
    let mut index = open + 1;
    while index < file.tokens.code.len() && file.word(index) != "}" {
        let start = index;
        index = skip_to(file, index, &["=>"]);
        if file.word(index) != "=>" {
            break;
        }
        found.push((start, index));
        index += 1;
        if file.word(index) == "{" {
            index = skip_to(file, index + 1, &["}"]) + 1;
            // `{ .. }.call()` goes on to the comma; a block without one ends the arm.
            if matches!(file.word(index), "." | "?") {
                index = skip_to(file, index, &[",", "}"]);
            }
        } else {
            index = skip_to(file, index, &[",", "}"]);
        }
        if file.word(index) == "," {
            index += 1;
        }
    }
    found
}

/// The next token of the list at the depth of the start.
fn skip_to(file: &SourceFile, start: usize, wanted: &[&str]) -> usize {
    let mut depth = 0_usize;
    let mut index = start;
    while index < file.tokens.code.len() {
        let word = file.word(index);
        if depth == 0 && wanted.contains(&word) {
            return index;
        }
        match word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        index += 1;
    }
    index
}

/// The identifiers of a file; none if there is no such file.
fn identifiers<'i>(input: &'i Input, path: &str) -> BTreeSet<&'i str> {
    let files = input.tree.files.iter().filter(|file| file.path == path);
    let tokens = files.flat_map(|file| file.tokens.code.iter().map(move |token| (file, token)));
    tokens.filter(|(_, token)| token.kind == Kind::Ident).map(|(file, token)| file.text_of(token)).collect()
}

/// Types that implement `Command` or `Event` in product code of `core` without a line in `registry.rs`, or `Entity` without
/// one in `model/tables.rs`, and values of `NAME`, `KIND` and `TABLE` that two such implementations share.
pub(crate) fn unregistered(input: &Input) -> Found {
    let (registry, tables) = (identifiers(input, REGISTRY), identifiers(input, TABLES));
    let mut places = Vec::new();
    let mut values: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for file in input.tree.product().filter(|file| file.package == "core" && file.path != REGISTRY) {
        for block in file.items.impls.iter().filter(|block| !block.in_test) {
            let (constant, listed) = match block.implements.as_deref() {
                Some("Command") => ("NAME", &registry),
                Some("Event") => ("KIND", &registry),
                Some("Entity") => ("TABLE", &tables),
                _ => continue,
            };
            if !listed.contains(block.of.as_str()) {
                places.push(Finding::new(&file.path, file.line_of(block.body.0), block.of.clone()));
            }
            let (start, end) = block.body;
            let defined = (start..end).find(|at| file.word(*at) == "const" && file.word(at + 1) == constant);
            let value = defined.and_then(|at| (at..end).find(|at| file.tokens.code[*at].kind == Kind::Str));
            if let Some(value) = value {
                let count = values.entry((constant, file.word(value))).or_default();
                *count += 1;
                if *count > 1 {
                    places.push(Finding::new(&file.path, file.line_of(value), file.word(value)));
                }
            }
        }
    }
    places.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_counted_by_enum() {
        let input = Input::of(&[(
            "crates/core/src/a.rs",
            "enum Fact { A, B } enum Code { X }
             impl Fact { fn f(&self) { match self { Self::A if x { true } => {} Fact::B | Fact::A => g(match y { Code::X => 1, _ => 2 }), } } }
             #[cfg(test)] mod tests { fn t() { match x { Fact::A => 1 } } }",
        )]);
        let enums = BTreeSet::from(["Fact", "Code"]);
        assert_eq!(arms(&input.tree.files[0], &enums), BTreeMap::from([("Fact", 3), ("Code", 1)]));
        assert!(large_matches(&input).places.is_empty());
    }

    #[test]
    fn blocks_and_chains_end_an_arm() {
        let input = Input::of(&[(
            "crates/core/src/a.rs",
            "enum E { A, B, C } fn f() { match (a, S { b }) { E::A => { 1 }.into(), E::B { c: [x, y] } => {} E::C => m!{ a, b }, } }",
        )]);
        assert_eq!(arms(&input.tree.files[0], &BTreeSet::from(["E"])), BTreeMap::from([("E", 3)]));
    }

    #[test]
    fn missing_registry_line_and_repeated_kind_are_found() {
        let input = Input::of(&[
            (REGISTRY, "registry! { events { crate::tasks::TaskClaimed } }"),
            (
                "crates/core/src/tasks.rs",
                "impl Event for TaskClaimed { const KIND: &'static str = \"task.claimed\"; }
                 impl Event for TaskStarted { const KIND: &'static str = \"task.claimed\"; }",
            ),
        ]);
        let items: Vec<String> = unregistered(&input).places.into_iter().map(|place| place.item).collect();
        assert_eq!(items, ["TaskStarted", "\"task.claimed\""]);
    }
}
