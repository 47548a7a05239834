//! Cycles between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use super::input::Input;
use super::{Finding, Found};
use crate::source::SourceFile;

/// The members of the largest cycle of a crate; none if there is no cycle.
///
/// A node is the first path segment below `src/`: a file or a folder. An edge is a path `crate::node` outside of tests,
/// in code or in a `use`, and a path of `super` that reaches the root. The root files `lib.rs` and `main.rs` are no
/// nodes.
pub(crate) fn largest(input: &Input, package: &str) -> Found {
    let graph = Graph::of(input, package);
    let largest = graph.components().into_iter().max_by_key(Vec::len).unwrap_or_default();
    if largest.len() < 2 {
        return Found::default();
    }
    let place = |node: &&str| Finding::new(&format!("crates/{package}/src/{node}"), 0, *node);
    largest.iter().map(place).collect::<Vec<_>>().into()
}

struct Graph<'a> {
    edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Graph<'a> {
    fn of(input: &'a Input, package: &str) -> Self {
        let files: Vec<&SourceFile> = input.tree.product().filter(|file| file.package == package).collect();
        let mut edges: BTreeMap<&str, BTreeSet<&str>> =
            files.iter().filter_map(|file| Some((node(file)?, BTreeSet::new()))).collect();
        let nodes: BTreeSet<&str> = edges.keys().copied().collect();
        for file in files {
            let Some(from) = node(file) else { continue };
            let to = targets(file).into_iter().filter_map(|target| nodes.get(target).copied());
            let to: Vec<&str> = to.filter(|to| *to != from).collect();
            edges.entry(from).or_default().extend(to);
        }
        Self { edges }
    }

    /// Strongly connected components, by which nodes reach each other.
    fn components(&self) -> Vec<Vec<&'a str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self.edges.keys().map(|node| (*node, self.reach(node))).collect();
        let mut left: BTreeSet<&'a str> = self.edges.keys().copied().collect();
        let mut components = Vec::new();
        while let Some(first) = left.pop_first() {
            let mutual: Vec<&'a str> = left
                .iter()
                .copied()
                .filter(|node| reached[first].contains(node) && reached[node].contains(first))
                .collect();
            left.retain(|node| !mutual.contains(node));
            components.push([vec![first], mutual].concat());
        }
        components
    }

    fn reach(&self, from: &str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&'a str> = self.edges[from].iter().copied().collect();
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(&self.edges[node]);
            }
        }
        reached
    }
}

/// The node that a file belongs to.
fn node(file: &SourceFile) -> Option<&str> {
    let below = file.below_src()?;
    let first = below.split('/').next().unwrap_or(below).trim_end_matches(".rs");
    (!matches!(first, "lib" | "main" | "bin")).then_some(first)
}

/// The names at the root of the crate that product code of a file names.
fn targets(file: &SourceFile) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for import in file.items.imports.iter().filter(|import| !import.in_test) {
        let path: Vec<&str> = import.segments.iter().map(|(name, _)| name.as_str()).collect();
        let inline = file.items.modules[import.module].path.len();
        found.extend(at_root(file, inline, &path));
    }
    for at in file.product_idents().filter(|at| matches!(file.word(*at), "crate" | "super")) {
        if file.word(at + 1) != "::" || file.word(at.wrapping_sub(1)) == "::" {
            continue;
        }
        let mut path = Vec::new();
        let mut index = at;
        while file.word(index + 1) == "::" {
            path.push(file.word(index));
            index += 2;
        }
        path.push(file.word(index));
        let inline = file.items.modules[file.items.module_at(at)].path.len();
        found.extend(at_root(file, inline, &path));
    }
    found
}

/// The first segment below the root of a path that starts with `crate`, or with enough `super`s.
fn at_root<'a>(file: &SourceFile, inline: usize, path: &[&'a str]) -> Option<&'a str> {
    if path.first() == Some(&"crate") {
        return path.get(1).copied();
    }
    let ups = path.iter().take_while(|segment| **segment == "super").count();
    let below = file.below_src()?.trim_end_matches(".rs");
    let depth = below.trim_end_matches("/mod").split('/').count() + inline;
    (ups > 0 && ups == depth).then(|| path.get(ups).copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(files: &[(&str, &str)]) -> Vec<String> {
        largest(&Input::of(files), "core").places.into_iter().map(|place| place.item).collect()
    }

    #[test]
    fn largest_cycle_is_found() {
        let found = members(&[
            ("crates/core/src/lib.rs", "pub mod a; pub mod b; pub use a::A;"),
            ("crates/core/src/a/mod.rs", "use crate::{b::B, c};"),
            ("crates/core/src/b.rs", "fn f() -> super::c::C {}"),
            ("crates/core/src/c/deep.rs", "fn f() -> crate::a::A {}"),
            ("crates/core/src/d.rs", "use crate::a; use crate::e;"),
            ("crates/core/src/e.rs", "use crate::d;"),
        ]);
        assert_eq!(found, ["a", "b", "c"]);
    }

    #[test]
    fn tests_and_own_folder_make_no_cycle() {
        let found = members(&[
            ("crates/core/src/a/mod.rs", "use crate::b; use self::x; mod x;"),
            ("crates/core/src/a/x.rs", "use super::y; use crate::a::z;"),
            ("crates/core/src/b.rs", "#[cfg(test)] mod tests { use crate::a; }"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
