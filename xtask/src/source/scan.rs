//! Finds items by one pass over the tokens of a file, with a stack of open brackets.

use super::items::{Impl, Import, InlineModule, Item, ItemKind, Items, Visibility};
use super::lexer::{Kind, Token};

/// The meaning of an open bracket.
#[derive(Debug, Clone)]
enum Scope {
    Module(usize),
    /// An `impl` block or a trait: the owner of members and the trait that is implemented.
    Members(String, Option<String>, Option<usize>),
    Enum(String),
    /// A struct, or a variant with named fields.
    Fields(String),
    Fn(usize),
    Other,
}

#[derive(Debug)]
struct Frame {
    scope: Scope,
    start: usize,
    in_test: bool,
}

/// The attributes before an item that matter here.
#[derive(Debug, Default, Clone, Copy)]
struct Attributes {
    cfg_test: bool,
    is_test: bool,
    is_serialized: bool,
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    code: &'a [Token],
    at: usize,
    found: Items,
    stack: Vec<Frame>,
    /// The scope of the next brace at this depth, and whether it belongs to tests.
    pending: Option<(Scope, usize, bool)>,
    attributes: Attributes,
    /// Macros of the file that define an enum, with its name.
    enum_macros: Vec<(&'a str, &'a str)>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, code: &'a [Token]) -> Self {
        let found =
            Items { modules: vec![InlineModule { path: Vec::new(), range: (0, code.len()) }], ..Items::default() };
        let attributes = Attributes::default();
        Self { text, code, at: 0, found, stack: Vec::new(), pending: None, attributes, enum_macros: Vec::new() }
    }

    pub(super) fn run(mut self) -> Items {
        while self.at < self.code.len() {
            match self.word(self.at) {
                "#" => self.attribute(),
                "{" | "(" | "[" => self.open(),
                "}" | ")" | "]" => self.close(),
                ";" if self.pending.as_ref().is_some_and(|(_, depth, _)| *depth == self.stack.len()) => {
                    self.pending = None;
                }
                _ if self.code[self.at].kind == Kind::Ident => self.ident(),
                _ => {}
            }
            if matches!(self.word(self.at), ";" | "}" | ",") {
                self.attributes = Attributes::default();
            }
            self.at += 1;
        }
        self.found
    }

    fn word(&self, index: usize) -> &'a str {
        self.code.get(index).map_or("", |token| &self.text[token.start..token.end])
    }

    fn is_ident(&self, index: usize) -> bool {
        self.code.get(index).is_some_and(|token| token.kind == Kind::Ident)
    }

    fn in_test(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.in_test)
    }

    fn module(&self) -> usize {
        let modules = self.stack.iter().rev().find_map(|frame| match frame.scope {
            Scope::Module(module) => Some(module),
            _ => None,
        });
        modules.unwrap_or(0)
    }

    fn attribute(&mut self) {
        let open = if self.word(self.at + 1) == "!" { self.at + 2 } else { self.at + 1 };
        if self.word(open) != "[" {
            return;
        }
        let end = self.matching(open);
        let words: Vec<&str> = (open + 1..end).map(|index| self.word(index)).collect();
        let names = |wanted: &str| words.contains(&wanted);
        match words.first() {
            Some(&"cfg") => {
                let features = names("\"testing\"") || names("\"samples\"");
                self.attributes.cfg_test |= (names("test") || features) && !names("not");
            }
            Some(&"derive") => self.attributes.is_serialized |= names("Serialize") || names("Deserialize"),
            Some(_) => {
                let path: Vec<&&str> = words.iter().take_while(|word| **word != "(").collect();
                self.attributes.is_test |= matches!(path.last(), Some(&&"test" | &&"rstest"));
            }
            None => {}
        }
        self.at = end;
    }

    /// The index of the bracket that closes the one at `open`.
    fn matching(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for index in open..self.code.len() {
            match self.word(index) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth -= 1;
                    if depth == 0 {
                        return index;
                    }
                }
                _ => {}
            }
        }
        self.code.len().saturating_sub(1)
    }

    fn open(&mut self) {
        let is_brace = self.word(self.at) == "{";
        let (scope, in_test) = match self.pending.take() {
            Some((scope, depth, in_test)) if is_brace && depth == self.stack.len() => (scope, in_test),
            pending => {
                self.pending = pending;
                (Scope::Other, false)
            }
        };
        let in_test = in_test || self.in_test();
        if in_test && !self.in_test() {
            self.found.tests.push((self.at, self.matching(self.at)));
        }
        self.stack.push(Frame { scope, start: self.at, in_test });
    }

    fn close(&mut self) {
        let Some(frame) = self.stack.pop() else { return };
        let range = (frame.start, self.at);
        match frame.scope {
            Scope::Module(module) => self.found.modules[module].range = range,
            Scope::Fn(item) => self.found.items[item].body = Some(range),
            Scope::Members(_, _, Some(block)) => self.found.impls[block].body = range,
            _ => {}
        }
        if self.pending.as_ref().is_some_and(|(_, depth, _)| *depth > self.stack.len()) {
            self.pending = None;
        }
    }

    fn ident(&mut self) {
        let previous = if self.at == 0 { "" } else { self.word(self.at - 1) };
        match self.word(self.at) {
            "mod" if self.is_ident(self.at + 1) => self.module_item(),
            "struct" | "enum" | "trait" | "type" if self.is_ident(self.at + 1) => self.type_item(),
            "fn" if self.is_ident(self.at + 1) => self.function(),
            "const" | "static" if previous != "*" && previous != "&" => self.constant(),
            "macro_rules" if self.word(self.at + 1) == "!" && self.is_ident(self.at + 2) => self.macro_item(),
            name if self.word(self.at + 1) == "!" && self.word(self.at + 2) == "{" => {
                if let Some((_, of)) = self.enum_macros.iter().find(|(known, _)| *known == name) {
                    self.pending = Some((Scope::Enum((*of).to_owned()), self.stack.len(), false));
                }
            }
            "impl" if matches!(previous, "" | "}" | ";" | "{" | "]" | "unsafe") => self.implementation(),
            "use" if self.word(self.at + 1) != "<" && previous != "." => self.import(),
            _ => self.member(previous),
        }
    }

    /// A variant of an enum or a field, if the identifier stands where one is defined.
    fn member(&mut self, previous: &str) {
        let Some(frame) = self.stack.last() else { return };
        match &frame.scope {
            Scope::Enum(owner) if matches!(previous, "{" | "," | "]") => {
                let scope = Scope::Fields(format!("{owner}::{}", self.word(self.at)));
                self.add(ItemKind::Variant, self.at);
                if self.word(self.at + 1) == "{" {
                    self.pending = Some((scope, self.stack.len(), false));
                }
            }
            Scope::Fields(_) if self.word(self.at + 1) == ":" && matches!(previous, "{" | "," | "]" | "pub" | ")") => {
                self.add(ItemKind::Field, self.at);
            }
            _ => {}
        }
    }

    /// Records an item whose name is the token, and returns its index.
    fn add(&mut self, kind: ItemKind, token: usize) -> usize {
        let top = self.stack.last().map(|frame| &frame.scope);
        let (owner, implements) = match top {
            Some(Scope::Members(owner, implements, _)) => (Some(owner.clone()), implements.clone()),
            Some(Scope::Enum(owner) | Scope::Fields(owner)) => (Some(owner.clone()), None),
            _ => (None, None),
        };
        let is_local = self.stack.iter().any(|frame| matches!(frame.scope, Scope::Fn(_)));
        let attributes = self.attributes;
        self.found.items.push(Item {
            kind,
            name: self.word(token).to_owned(),
            token,
            module: self.module(),
            owner,
            implements,
            visibility: self.visibility(),
            body: None,
            is_local,
            in_test: self.in_test() || attributes.cfg_test || attributes.is_test,
            is_test: attributes.is_test,
            takes_self: false,
            is_serialized: attributes.is_serialized,
        });
        self.found.items.len() - 1
    }

    fn visibility(&self) -> Visibility {
        let mut before = self.at;
        while before > 0 {
            before -= 1;
            match self.word(before) {
                "async" | "const" | "unsafe" | "extern" | "default" => {}
                "pub" => return Visibility::Public,
                ")" if before >= 3 && self.word(before - 3) == "pub" => return Visibility::Restricted,
                _ if self.code[before].kind == Kind::Str => {}
                _ => break,
            }
        }
        Visibility::Private
    }

    fn expect_body(&mut self, scope: Scope) {
        let in_test = self.attributes.cfg_test || self.attributes.is_test;
        self.pending = Some((scope, self.stack.len(), in_test));
        self.attributes = Attributes::default();
    }

    /// A macro whose body is `enum Name { $(...` makes variants of the entries that it is called with.
    fn macro_item(&mut self) {
        self.add(ItemKind::Macro, self.at + 2);
        let end = self.matching(self.at + 3);
        for index in self.at + 3..end {
            if self.word(index) == "enum" && self.word(index + 2) == "{" && self.word(index + 3) == "$" {
                self.enum_macros.push((self.word(self.at + 2), self.word(index + 1)));
            }
        }
        self.at += 2;
    }

    fn module_item(&mut self) {
        let name = self.word(self.at + 1).to_owned();
        self.add(ItemKind::Module, self.at + 1);
        self.at += 1;
        if self.word(self.at + 1) == "{" {
            let mut path = self.found.modules[self.module()].path.clone();
            path.push(name);
            self.found.modules.push(InlineModule { path, range: (self.at, self.at) });
            self.expect_body(Scope::Module(self.found.modules.len() - 1));
        } else if self.attributes.cfg_test {
            self.found.test_modules.push(name);
        }
    }

    fn type_item(&mut self) {
        let name = self.word(self.at + 1).to_owned();
        let is_member = matches!(self.stack.last().map(|frame| &frame.scope), Some(Scope::Members(..)));
        let (kind, scope) = match self.word(self.at) {
            "struct" => (ItemKind::Struct, Some(Scope::Fields(name))),
            "enum" => (ItemKind::Enum, Some(Scope::Enum(name))),
            "trait" => (ItemKind::Trait, Some(Scope::Members(name, None, None))),
            _ if is_member => (ItemKind::AssocType, None),
            _ => (ItemKind::TypeAlias, None),
        };
        self.add(kind, self.at + 1);
        self.at += 1;
        if let Some(scope) = scope {
            self.expect_body(scope);
        }
    }

    fn function(&mut self) {
        let item = self.add(ItemKind::Fn, self.at + 1);
        let mut parameters = self.at + 2;
        while parameters < self.code.len() && !matches!(self.word(parameters), "(" | "{" | ";") {
            parameters += 1;
        }
        let receiver =
            (parameters + 1..parameters + 5).take_while(|index| !matches!(self.word(*index), "," | ")" | ":"));
        self.found.items[item].takes_self = receiver.into_iter().any(|index| self.word(index) == "self");
        self.at += 1;
        self.expect_body(Scope::Fn(item));
    }

    fn constant(&mut self) {
        let name = if self.word(self.at + 1) == "mut" { self.at + 2 } else { self.at + 1 };
        if self.is_ident(name) && self.word(name + 1) == ":" {
            self.add(ItemKind::Const, name);
            self.at = name;
        }
    }

    fn implementation(&mut self) {
        let mut angles = 0_i32;
        let mut before_for = None;
        let mut last: Option<&str> = None;
        let mut index = self.at + 1;
        while index < self.code.len() {
            match self.word(index) {
                "{" | "where" if angles == 0 => break,
                "<" => angles += 1,
                ">" => angles -= 1,
                "for" if angles == 0 && self.word(index + 1) != "<" => before_for = last.take(),
                word if angles == 0 && self.is_ident(index) && !matches!(word, "mut" | "dyn") => last = Some(word),
                _ => {}
            }
            index += 1;
        }
        let of = last.unwrap_or_default().to_owned();
        let implements = before_for.map(str::to_owned);
        let in_test = self.in_test() || self.attributes.cfg_test;
        self.found.impls.push(Impl { of: of.clone(), implements: implements.clone(), body: (index, index), in_test });
        let block = self.found.impls.len() - 1;
        self.expect_body(Scope::Members(of, implements, Some(block)));
    }

    fn import(&mut self) {
        let in_test = self.in_test() || self.attributes.cfg_test;
        self.at += 1;
        let mut tree = ImportTree { prefix: Vec::new(), module: self.module(), in_test };
        self.import_tree(&mut tree);
        while self.at < self.code.len() && self.word(self.at) != ";" {
            self.at += 1;
        }
    }

    /// Reads one tree of a `use` declaration; ends before the `,`, `}` or `;` behind it.
    fn import_tree(&mut self, tree: &mut ImportTree) {
        let depth = tree.prefix.len();
        loop {
            match self.word(self.at) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.word(self.at), "}" | ";" | "") {
                        self.import_tree(tree);
                        if self.word(self.at) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                }
                "*" => {
                    self.add_import(tree, None, true);
                    self.at += 1;
                }
                "," | "}" | ";" | "" => break,
                "::" => self.at += 1,
                _ => self.import_segment(tree),
            }
        }
        tree.prefix.truncate(depth);
    }

    fn import_segment(&mut self, tree: &mut ImportTree) {
        let name = self.word(self.at).to_owned();
        let is_self = name == "self" && !tree.prefix.is_empty();
        if !is_self {
            tree.prefix.push((name, self.at));
        }
        self.at += 1;
        match self.word(self.at) {
            "::" => {}
            "as" => {
                let alias = self.word(self.at + 1);
                self.add_import(tree, (alias != "_").then(|| alias.to_owned()), false);
                self.at += 2;
            }
            _ => {
                let bound = tree.prefix.last().map(|(name, _)| name.clone());
                self.add_import(tree, bound, false);
            }
        }
    }

    fn add_import(&mut self, tree: &ImportTree, binds: Option<String>, is_glob: bool) {
        self.found.imports.push(Import {
            segments: tree.prefix.clone(),
            binds,
            is_glob,
            module: tree.module,
            in_test: tree.in_test,
        });
    }
}

struct ImportTree {
    prefix: Vec<(String, usize)>,
    module: usize,
    in_test: bool,
}
