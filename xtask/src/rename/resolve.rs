//! Resolves paths to definitions by modules, imports and re-exports, without types.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::source::{Import, SourceFile, SourceTree, module_folder};

/// How many imports a name may pass through.
const MAX_HOPS: usize = 24;

/// A module as `crate::folder::file`; the first segment is the crate.
pub(crate) type ModulePath = String;

/// The result of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolved {
    Module(ModulePath),
    /// An item of a module.
    Item(ModulePath, String),
    /// A member of an item: a variant, a method, a constant.
    Member(ModulePath, String, String),
}

/// Types and modules share names; functions and constants have their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Namespace {
    Types,
    Values,
}

#[derive(Debug, Default)]
struct Module<'a> {
    types: Vec<&'a str>,
    values: Vec<&'a str>,
    imports: Vec<&'a Import>,
}

/// Every module of the workspace.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    modules: HashMap<ModulePath, Module<'a>>,
    known: RefCell<HashMap<(ModulePath, String, Namespace), Option<Resolved>>>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(tree: &'a SourceTree) -> Self {
        let mut modules: HashMap<ModulePath, Module<'a>> = HashMap::new();
        for file in &tree.files {
            let root = module_of(file);
            for inline in &file.items.modules {
                modules.entry(join(&root, &inline.path)).or_default();
            }
            let path = |module: usize| join(&root, &file.items.modules[module].path);
            for item in file.items.items.iter().filter(|item| item.owner.is_none() && !item.is_local) {
                let module = modules.entry(path(item.module)).or_default();
                use crate::source::ItemKind as K;
                match item.kind {
                    K::Fn | K::Const => module.values.push(&item.name),
                    K::Struct => {
                        module.types.push(&item.name);
                        module.values.push(&item.name);
                    }
                    K::Module | K::Macro => {}
                    _ => module.types.push(&item.name),
                }
            }
            for import in &file.items.imports {
                modules.entry(path(import.module)).or_default().imports.push(import);
            }
        }
        Self { modules, known: RefCell::default() }
    }

    /// Resolves a path as it is written in a module.
    pub(crate) fn resolve(&self, module: &str, path: &[&str], namespace: Namespace) -> Option<Resolved> {
        self.resolve_within(module, path, namespace, 0)
    }

    fn resolve_within(&self, module: &str, path: &[&str], namespace: Namespace, hops: usize) -> Option<Resolved> {
        let (first, mut rest) = path.split_first()?;
        let space = |rest: &[&str]| if rest.is_empty() { namespace } else { Namespace::Types };
        let mut at = match *first {
            "crate" | "$crate" => Resolved::Module(root_of(module).to_owned()),
            "self" => Resolved::Module(module.to_owned()),
            "super" => Resolved::Module(parent_of(module)?.to_owned()),
            name => match self.lookup(module, name, space(rest), hops) {
                Some(found) => found,
                None if self.modules.contains_key(name) => Resolved::Module(name.to_owned()),
                None => return None,
            },
        };
        while let Some((segment, further)) = rest.split_first() {
            at = match at {
                Resolved::Module(inner) if *segment == "super" => Resolved::Module(parent_of(&inner)?.to_owned()),
                Resolved::Module(inner) => self.lookup(&inner, segment, space(further), hops)?,
                Resolved::Item(inner, item) if further.is_empty() => {
                    return Some(Resolved::Member(inner, item, (*segment).to_owned()));
                }
                _ => return None,
            };
            rest = further;
        }
        Some(at)
    }

    /// The meaning of a name in a module.
    fn lookup(&self, module: &str, name: &str, namespace: Namespace, hops: usize) -> Option<Resolved> {
        if hops > MAX_HOPS {
            return None;
        }
        let key = (module.to_owned(), name.to_owned(), namespace);
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let found = self.look(module, name, namespace, hops);
        if hops == 0 || found.is_some() {
            self.known.borrow_mut().insert(key, found.clone());
        }
        found
    }

    fn look(&self, module: &str, name: &str, namespace: Namespace, hops: usize) -> Option<Resolved> {
        let here = self.modules.get(module)?;
        let defined = match namespace {
            Namespace::Types => &here.types,
            Namespace::Values => &here.values,
        };
        if defined.contains(&name) {
            return Some(Resolved::Item(module.to_owned(), name.to_owned()));
        }
        let child = format!("{module}::{name}");
        if namespace == Namespace::Types && self.modules.contains_key(&child) {
            return Some(Resolved::Module(child));
        }
        let named = here.imports.iter().filter(|import| import.binds.as_deref() == Some(name));
        // `use name;` of a crate would find itself again.
        let other = named.filter(|import| import.segments.len() > 1 || import.segments[0].0 != name);
        for import in other {
            if let Some(found) = self.resolve_within(module, &segments(import), namespace, hops + 1) {
                return Some(found);
            }
        }
        here.imports.iter().filter(|import| import.is_glob).find_map(|import| {
            match self.resolve_within(module, &segments(import), Namespace::Types, hops + 1)? {
                Resolved::Module(inner) if inner != module => self.lookup(&inner, name, namespace, hops + 1),
                _ => None,
            }
        })
    }

    /// Whether a module defines or imports the name itself, not by a glob.
    pub(crate) fn binds(&self, module: &str, name: &str, namespace: Namespace) -> bool {
        let Some(here) = self.modules.get(module) else { return false };
        let defined = match namespace {
            Namespace::Types => &here.types,
            Namespace::Values => &here.values,
        };
        let imported = || here.imports.iter().any(|import| import.binds.as_deref() == Some(name));
        defined.contains(&name) || imported()
    }
}

fn segments(import: &Import) -> Vec<&str> {
    import.segments.iter().map(|(segment, _)| segment.as_str()).collect()
}

fn join(root: &str, path: &[String]) -> ModulePath {
    path.iter().fold(root.to_owned(), |joined, segment| joined + "::" + segment)
}

fn root_of(module: &str) -> &str {
    module.split_once("::").map_or(module, |(root, _)| root)
}

fn parent_of(module: &str) -> Option<&str> {
    module.rsplit_once("::").map(|(parent, _)| parent)
}

/// The module that a file is. The crate of a library is its name in code; that of a test, an example or a program is
/// its path.
pub(crate) fn module_of(file: &SourceFile) -> ModulePath {
    let stem = module_folder(&file.path);
    let base = match file.package.as_str() {
        package @ ("xtask" | "bench" | "fuzz") => package.to_owned(),
        package => format!("crates/{package}"),
    };
    let rest = stem.strip_prefix(&base).unwrap_or(stem).trim_start_matches('/');
    let mut parts = rest.split('/').filter(|part| !part.is_empty());
    let folder = parts.next().unwrap_or_default();
    let is_main = file.path.ends_with("/src/main.rs");
    let root = match folder {
        "src" if is_main && file.package != "xtask" && file.package != "bench" => format!("{base}/main"),
        "src" if rest.starts_with("src/bin/") => {
            let mut below = rest.split('/').skip(2);
            let program = below.next().unwrap_or_default();
            return below.fold(format!("{base}/bin/{program}"), |path, part| path + "::" + part);
        }
        "src" => library_name(&file.package),
        other => {
            let root = format!("{base}/{other}/{}", parts.next().unwrap_or_default());
            return parts.fold(root, |path, part| path + "::" + part);
        }
    };
    parts.fold(root, |path, part| path + "::" + part)
}

fn library_name(package: &str) -> String {
    match package {
        "rookery" | "xtask" | "bench" => package.to_owned(),
        _ => format!("rookery_{}", package.replace('-', "_")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> SourceTree {
        SourceTree::of(&[
            ("crates/core/src/lib.rs", "pub mod agent; pub mod run; pub use run::Status as RunState;"),
            ("crates/core/src/agent/mod.rs", "mod join; pub use join::Join; pub enum Status { Idle } pub fn load() {}"),
            (
                "crates/core/src/agent/join.rs",
                "use super::{Status, load}; pub struct Join; mod tests { use super::*; }",
            ),
            ("crates/core/src/run/mod.rs", "use crate::agent; pub enum Status { Open }"),
            ("crates/store/src/a/b.rs", "use rookery_core::{agent::*, RunState};"),
            ("crates/store/tests/batch/main.rs", "use rookery_store::a;"),
        ])
    }

    fn item(module: &str, name: &str) -> Option<Resolved> {
        Some(Resolved::Item(module.to_owned(), name.to_owned()))
    }

    #[test]
    fn files_are_modules() {
        let tree = tree();
        let modules: Vec<ModulePath> = tree.files.iter().map(module_of).collect();
        assert_eq!(
            modules,
            [
                "rookery_core",
                "rookery_core::agent",
                "rookery_core::agent::join",
                "rookery_core::run",
                "rookery_store::a::b",
                "crates/store/tests/batch"
            ]
        );
    }

    #[test]
    fn same_name_resolves_to_the_module_it_comes_from() {
        let tree = tree();
        let resolver = Resolver::new(&tree);
        let types = |module: &str, path: &[&str]| resolver.resolve(module, path, Namespace::Types);
        let agent = item("rookery_core::agent", "Status");
        let run = item("rookery_core::run", "Status");
        assert_eq!(types("rookery_core::agent", &["Status"]), agent);
        assert_eq!(types("rookery_core::agent::join", &["Status"]), agent);
        assert_eq!(types("rookery_core::agent::join::tests", &["Status"]), agent);
        assert_eq!(types("rookery_core::run", &["Status"]), run);
        assert_eq!(types("rookery_core::run", &["agent", "Status"]), agent);
        assert_eq!(types("rookery_store::a::b", &["Status"]), agent);
        assert_eq!(types("rookery_store::a::b", &["RunState"]), run);
        assert_eq!(
            types("rookery_store::a::b", &["rookery_core", "agent", "Join"]),
            item("rookery_core::agent::join", "Join")
        );
        assert_eq!(types("rookery_store::a::b", &["Missing"]), None);
    }

    #[test]
    fn members_and_functions_resolve() {
        let tree = tree();
        let resolver = Resolver::new(&tree);
        let member = resolver.resolve("rookery_core::run", &["agent", "Status", "Idle"], Namespace::Values);
        assert_eq!(
            member,
            Some(Resolved::Member("rookery_core::agent".to_owned(), "Status".to_owned(), "Idle".to_owned()))
        );
        let function = resolver.resolve("rookery_core::agent::join", &["load"], Namespace::Values);
        assert_eq!(function, item("rookery_core::agent", "load"));
        assert!(resolver.binds("rookery_core::agent::join", "load", Namespace::Values));
        assert!(!resolver.binds("rookery_store::a::b", "Status", Namespace::Types));
    }
}
