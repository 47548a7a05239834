//! The items, imports and `impl` blocks of one file.

use super::lexer::Tokens;
use super::scan::Scanner;

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Struct,
    Enum,
    Trait,
    TypeAlias,
    /// A type of a trait or of an implementation.
    AssocType,
    Fn,
    /// A constant or a static.
    Const,
    Variant,
    Field,
    Module,
    Macro,
}

impl ItemKind {
    pub(crate) fn is_type(self) -> bool {
        matches!(self, Self::Struct | Self::Enum | Self::Trait | Self::TypeAlias)
    }
}

/// A definition.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    pub(crate) name: String,
    /// Index of the name among the code tokens.
    pub(crate) token: usize,
    /// Index of the module among [`Items::modules`].
    pub(crate) module: usize,
    /// The type, trait or enum that the item is a member of; `Enum::Variant` for fields of a variant.
    pub(crate) owner: Option<String>,
    /// The trait, if the item is in an implementation of one.
    pub(crate) implements: Option<String>,
    pub(crate) visibility: Visibility,
    /// Code tokens between the braces, both included.
    pub(crate) body: Option<(usize, usize)>,
    /// The item is inside of a function body.
    pub(crate) is_local: bool,
    /// The item belongs to tests.
    pub(crate) in_test: bool,
    /// A function with an attribute such as `#[test]` or `#[tokio::test]`.
    pub(crate) is_test: bool,
    pub(crate) takes_self: bool,
    /// The item has an attribute that derives `Serialize` or `Deserialize`.
    pub(crate) is_serialized: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Public,
    Restricted,
    Private,
}

/// An `impl` block.
#[derive(Debug, Clone)]
pub(crate) struct Impl {
    pub(crate) of: String,
    pub(crate) implements: Option<String>,
    pub(crate) body: (usize, usize),
    pub(crate) in_test: bool,
}

/// One name, or one glob, that a `use` declaration imports.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    /// Segments with their code tokens; without the `*` of a glob.
    pub(crate) segments: Vec<(String, usize)>,
    /// The name that is bound; none for globs and for `as _`.
    pub(crate) binds: Option<String>,
    pub(crate) is_glob: bool,
    pub(crate) module: usize,
    pub(crate) in_test: bool,
}

/// A module inside of the file. The first one is the file itself, with an empty path.
#[derive(Debug, Clone)]
pub(crate) struct InlineModule {
    pub(crate) path: Vec<String>,
    pub(crate) range: (usize, usize),
}

/// The contents of one file.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) items: Vec<Item>,
    pub(crate) imports: Vec<Import>,
    pub(crate) impls: Vec<Impl>,
    pub(crate) modules: Vec<InlineModule>,
    /// Ranges of code tokens that belong to tests.
    pub(crate) tests: Vec<(usize, usize)>,
    /// Names of `mod name;` declarations that belong to tests.
    pub(crate) test_modules: Vec<String>,
}

impl Items {
    pub(crate) fn new(text: &str, tokens: &Tokens) -> Self {
        Scanner::new(text, &tokens.code).run()
    }

    pub(crate) fn is_test_token(&self, token: usize) -> bool {
        self.tests.iter().any(|(start, end)| (*start..=*end).contains(&token))
    }

    /// The innermost module that the token is in.
    pub(crate) fn module_at(&self, token: usize) -> usize {
        let inside = |module: &InlineModule| (module.range.0..=module.range.1).contains(&token);
        self.modules.iter().rposition(inside).unwrap_or(0)
    }

    /// The `impl` block that the token is in.
    pub(crate) fn impl_at(&self, token: usize) -> Option<&Impl> {
        self.impls.iter().rev().find(|block| (block.body.0..=block.body.1).contains(&token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Items {
        Items::new(text, &Tokens::new(text))
    }

    fn names(text: &str, kind: ItemKind) -> Vec<String> {
        items(text).items.into_iter().filter(|item| item.kind == kind).map(|item| item.name).collect()
    }

    #[test]
    fn members_know_their_owner() {
        let found = items(
            "pub struct Agent { pub id: AgentId, #[serde(default)] pub(crate) given: Vec<(A, B)> }
             enum Clock { #[x] Rest, Anew(u8, u8), Held { since: u64 } }
             impl<T> fmt::Display for Agent where T: X { type Out = u8; fn fmt(&self) { let x: u8 = 1; } }
             impl Agent { pub(crate) async fn load(id: [u8; 4]) -> impl Fn(u8) { } const A: u8 = 1; }",
        );
        let owned: Vec<(ItemKind, String, Option<String>)> =
            found.items.iter().map(|item| (item.kind, item.name.clone(), item.owner.clone())).collect();
        let expected = [
            (ItemKind::Struct, "Agent", None),
            (ItemKind::Field, "id", Some("Agent")),
            (ItemKind::Field, "given", Some("Agent")),
            (ItemKind::Enum, "Clock", None),
            (ItemKind::Variant, "Rest", Some("Clock")),
            (ItemKind::Variant, "Anew", Some("Clock")),
            (ItemKind::Variant, "Held", Some("Clock")),
            (ItemKind::Field, "since", Some("Clock::Held")),
            (ItemKind::AssocType, "Out", Some("Agent")),
            (ItemKind::Fn, "fmt", Some("Agent")),
            (ItemKind::Fn, "load", Some("Agent")),
            (ItemKind::Const, "A", Some("Agent")),
        ];
        let expected: Vec<_> =
            expected.map(|(kind, name, owner)| (kind, name.to_owned(), owner.map(str::to_owned))).into();
        assert_eq!(owned, expected);
        assert_eq!(found.impls.len(), 2);
        assert_eq!(found.impls[0].implements.as_deref(), Some("Display"));
        assert!(found.items[9].takes_self && !found.items[10].takes_self);
    }

    #[test]
    fn imports_are_flattened() {
        let found = items("pub use a::{self, b::{C, D as E}, f::*}; use crate::g::H as _;");
        let flat: Vec<(String, Option<&str>, bool)> = found
            .imports
            .iter()
            .map(|import| {
                let path: Vec<&str> = import.segments.iter().map(|(segment, _)| segment.as_str()).collect();
                (path.join("::"), import.binds.as_deref(), import.is_glob)
            })
            .collect();
        let expected = [
            ("a", Some("a"), false),
            ("a::b::C", Some("C"), false),
            ("a::b::D", Some("E"), false),
            ("a::f", None, true),
            ("crate::g::H", None, false),
        ];
        let expected: Vec<_> = expected.map(|(path, binds, glob)| (path.to_owned(), binds, glob)).into();
        assert_eq!(flat, expected);
    }

    #[test]
    fn tests_are_told_from_product_code() {
        let text = "fn a() {} #[cfg(test)] mod tests { use super::*; #[tokio::test] async fn b() {} fn c() {} }
                    #[cfg(test)] mod more; #[cfg(not(test))] fn d() {} fn e() {}";
        let found = items(text);
        let in_test: Vec<(&str, bool, bool)> =
            found.items.iter().map(|item| (item.name.as_str(), item.in_test, item.is_test)).collect();
        assert_eq!(
            in_test,
            [
                ("a", false, false),
                ("tests", true, false),
                ("b", true, true),
                ("c", true, false),
                ("more", true, false),
                ("d", false, false),
                ("e", false, false)
            ]
        );
        assert_eq!(found.test_modules, ["more"]);
        assert_eq!(found.modules[1].path, ["tests"]);
        assert!(found.imports[0].in_test);
    }

    #[test]
    fn entries_of_a_macro_that_defines_an_enum_are_variants() {
        let text = "macro_rules! facts { ($($n:ident($b:ty) = $k:literal),+) => { pub enum Fact { $($n($b)),+ } }; }
                    facts! { A(A) = \"a\", B(x::B<u8, u8>) = \"b\" }";
        let found = items(text);
        let variants: Vec<_> = found.items.iter().filter(|item| item.kind == ItemKind::Variant).collect();
        let names: Vec<&str> = variants.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["A", "B"]);
        assert!(variants.iter().all(|item| item.owner.as_deref() == Some("Fact")));
    }

    #[test]
    fn items_in_function_bodies_are_local() {
        let found = items("fn a() { struct B { c: u8 } let d = E { f: 1 }; } struct G;");
        let local: Vec<(&str, bool)> = found.items.iter().map(|item| (item.name.as_str(), item.is_local)).collect();
        assert_eq!(local, [("a", false), ("B", true), ("c", true), ("G", false)]);
        assert_eq!(names("fn x() -> fn(u8) {} type T = fn(); const fn y() {}", ItemKind::Fn), ["x", "y"]);
    }
}
