//! Finds what a row edits: definitions, uses that resolve to them, and intra-doc links. Uses that cannot be decided
//! without types are listed, not edited.

use std::collections::BTreeSet;

use super::links::{attribute_paths, doc_links};
use super::resolve::{Namespace, Resolved, Resolver, module_of};
use super::table::{Row, RowKind, glob_matches};
use crate::source::{Item, ItemKind, Kind, SourceFile, SourceTree};

/// One replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edit {
    pub(crate) file: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: String,
}

/// The outcome of planning one row.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) edits: BTreeSet<Edit>,
    /// The number of edits in files that are not Rust.
    pub(crate) other_edits: usize,
    /// Places as `file:line` that name `old` and may or may not be meant.
    pub(crate) undecided: Vec<String>,
    /// Reasons why the row must not be applied.
    pub(crate) clashes: Vec<String>,
    pub(crate) is_found: bool,
    /// The row changes how a value is written to JSON.
    pub(crate) changes_json: bool,
}

/// Plans a row of the kinds type, fn, field, variant and const.
pub(crate) fn plan(tree: &SourceTree, resolver: &Resolver<'_>, row: &Row) -> Plan {
    Planner { tree, resolver, row, targets: Vec::new(), plan: Plan::default() }.run()
}

/// A definition that the row renames.
#[derive(Debug)]
struct Target<'a> {
    file: usize,
    item: &'a Item,
    module: String,
    /// The item that it is a member of, or the trait that it implements.
    owner: Option<(String, String)>,
}

struct Planner<'a> {
    tree: &'a SourceTree,
    resolver: &'a Resolver<'a>,
    row: &'a Row,
    targets: Vec<Target<'a>>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn run(mut self) -> Plan {
        self.find_targets();
        if self.targets.is_empty() {
            return self.plan;
        }
        self.find_implementations();
        self.plan.is_found = true;
        let homes: BTreeSet<&str> = self.targets.iter().map(|target| target.module.as_str()).collect();
        if self.row.kind == RowKind::Type && homes.len() > 1 {
            let homes: Vec<&str> = homes.into_iter().collect();
            self.plan.clashes.push(format!("defined in several modules ({}); limit the scope", homes.join(", ")));
            return self.plan;
        }
        self.find_clashes();
        for (index, file) in self.tree.files.iter().enumerate() {
            if file.text.contains(&self.row.old) {
                self.visit(index, file);
            }
        }
        self.plan
    }

    fn find_targets(&mut self) {
        let (tree, row) = (self.tree, self.row);
        for (index, file) in tree.files.iter().enumerate().filter(|(_, file)| row.covers(&file.path)) {
            let root = module_of(file);
            for item in file.items.items.iter().filter(|item| item.name == row.old && is_kind(row.kind, item)) {
                let module = module_path(&root, file, item.module);
                let owner = self.owner_of(&module, item);
                let is_meant = match (&self.row.owner, &owner) {
                    (None, None) => item.owner.is_none(),
                    (Some(wanted), Some((_, name))) => {
                        wanted == "*" || wanted == name || Some(wanted) == item.owner.as_ref()
                    }
                    _ => false,
                };
                if is_meant {
                    self.plan.changes_json |= changes_json(file, item);
                    self.targets.push(Target { file: index, item, module, owner });
                }
            }
        }
    }

    /// Methods of a trait that the row means change in every implementation, also outside of the scope.
    fn find_implementations(&mut self) {
        let (tree, row) = (self.tree, self.row);
        let mut found = Vec::new();
        for (index, file) in tree.files.iter().enumerate().filter(|(_, file)| !row.covers(&file.path)) {
            let methods = file.items.items.iter().filter(|item| item.name == row.old && is_kind(row.kind, item));
            for item in methods.filter(|item| item.implements.is_some() && item.implements == row.owner) {
                let module = module_path(&module_of(file), file, item.module);
                let owner = self.owner_of(&module, item);
                if self.targets.iter().any(|target| target.owner == owner) {
                    found.push(Target { file: index, item, module, owner });
                }
            }
        }
        self.targets.extend(found);
    }

    /// The module and name of the item that owns a member. A method of an implementation belongs to the trait if the
    /// row names the trait.
    fn owner_of(&self, module: &str, item: &Item) -> Option<(String, String)> {
        let wanted = self.row.owner.as_deref();
        let name = match (&item.owner, &item.implements) {
            (_, Some(implements)) if Some(implements.as_str()) == wanted => implements,
            (Some(owner), _) => owner,
            (None, _) => return None,
        };
        // Fields of a variant are found by the enum.
        let first = name.split("::").next().unwrap_or(name);
        match self.resolver.resolve(module, &[first], Namespace::Types) {
            Some(Resolved::Item(home, found)) if first == name => Some((home, found)),
            Some(Resolved::Item(home, _)) => Some((home, name.clone())),
            _ => Some((module.to_owned(), name.clone())),
        }
    }

    fn find_clashes(&mut self) {
        if self.row.may_merge {
            return;
        }
        let (tree, row) = (self.tree, self.row);
        for file in tree.files.iter().filter(|file| file.path.starts_with(&row.base())) {
            let root = module_of(file);
            for item in file.items.items.iter().filter(|item| item.name == row.new && is_kind(row.kind, item)) {
                let module = module_path(&root, file, item.module);
                let clashes = match (self.row.kind, &item.owner) {
                    (RowKind::Type, _) => !file.is_test,
                    (_, None) => self.targets.iter().any(|target| target.owner.is_none() && target.module == module),
                    (_, Some(owner)) => self.targets.iter().any(|target| {
                        target.item.owner.as_ref() == Some(owner) && self.owner_of(&module, item) == target.owner
                    }),
                };
                if clashes {
                    let place = format!("{}:{}", file.path, file.line_of(item.token));
                    self.plan.clashes.push(format!("`{}` exists: {place}", self.row.new));
                }
            }
        }
    }

    fn visit(&mut self, index: usize, file: &SourceFile) {
        let root = module_of(file);
        let imports = file.items.imports.iter().flat_map(|import| {
            import.segments.iter().enumerate().map(move |(depth, (_, token))| (*token, import, depth))
        });
        let imports: Vec<_> = imports.filter(|(token, ..)| file.word(*token) == self.row.old).collect();
        for (at, token) in file.tokens.code.iter().enumerate() {
            if token.kind != Kind::Ident || file.text_of(token) != self.row.old {
                continue;
            }
            let module = module_path(&root, file, file.items.module_at(at));
            if let Some(item) = file.items.items.iter().find(|item| item.token == at) {
                if self.targets.iter().any(|target| target.file == index && target.item.token == item.token) {
                    self.edit(index, token.start, token.end, &self.row.new);
                }
                continue;
            }
            let imported = imports.iter().find(|(token, ..)| *token == at);
            let path: Vec<&str> = match imported {
                Some((_, import, depth)) => import.segments[..=*depth].iter().map(|(name, _)| name.as_str()).collect(),
                None => path_before(file, at),
            };
            if imported.is_none() && file.word(at.wrapping_sub(1)) == "as" && in_import(file, at) {
                continue;
            }
            self.judge(index, file, at, &module, &path);
        }
        for link in doc_links(file, &self.row.old).into_iter().chain(attribute_paths(file, &self.row.old)) {
            let module = module_path(&root, file, file.items.module_at(link.token));
            let path: Vec<&str> = link.path.iter().map(String::as_str).collect();
            if self.resolves(file, link.token, &module, &path) {
                self.edit(index, link.start, link.end, &self.row.new);
            }
        }
        if self.row.also_text {
            self.edit_quoted(index, file);
        }
    }

    /// Decides about one identifier that is no definition.
    fn judge(&mut self, index: usize, file: &SourceFile, at: usize, module: &str, path: &[&str]) {
        let token = file.tokens.code[at];
        let is_access = path.len() == 1 && file.word(at.wrapping_sub(1)) == "." && file.word(at.wrapping_sub(2)) != ".";
        match self.row.kind {
            RowKind::Field | RowKind::Fn if is_access => self.judge_access(index, file, at, module),
            RowKind::Field => self.judge_literal(index, file, at, module),
            _ if is_access => {}
            RowKind::Fn if path.len() == 1 && self.row.owner.is_none() => {
                let is_called = matches!(file.word(at + 1), "(" | "::");
                let resolves = self.resolves(file, at, module, path);
                if resolves && (is_called || in_import(file, at) || !may_be_variable(file, &self.row.old)) {
                    self.edit_bare(index, file, at, module);
                } else if resolves && !is_field_name(file, at) && !is_binding(file, at) {
                    self.undecided(file, at);
                }
            }
            _ if self.resolves(file, at, module, path) => {
                let is_bound = file.items.imports.iter().any(|import| {
                    import.segments.last().is_some_and(|(_, last)| *last == at)
                        && import.binds.as_ref() == Some(&self.row.old)
                });
                if path.len() == 1 || is_bound {
                    self.edit_bare(index, file, at, module);
                } else {
                    self.edit(index, token.start, token.end, &self.row.new);
                }
            }
            RowKind::Fn if path.len() > 1 && self.row.owner.is_some() && path[0].is_empty() => self.undecided(file, at),
            _ => {}
        }
    }

    /// Whether the path means one of the targets.
    fn resolves(&self, file: &SourceFile, at: usize, module: &str, path: &[&str]) -> bool {
        let namespace = match self.row.kind {
            RowKind::Type => Namespace::Types,
            _ => Namespace::Values,
        };
        let resolved = match path {
            ["Self", member] => {
                self.own_type(file, at, module).map(|(home, name)| Resolved::Member(home, name, (*member).to_owned()))
            }
            _ => self.resolver.resolve(module, path, namespace),
        };
        match resolved {
            Some(Resolved::Item(home, name)) => self
                .targets
                .iter()
                .any(|target| target.owner.is_none() && target.module == home && target.item.name == name),
            Some(Resolved::Member(home, item, member)) => self.targets.iter().any(|target| {
                target.item.name == member && self.owns(target, file, at, module, &(home.clone(), item.clone()))
            }),
            _ => false,
        }
    }

    /// Whether a target is a member of the item, directly or through the `impl` block that defines it.
    fn owns(&self, target: &Target<'_>, file: &SourceFile, at: usize, module: &str, item: &(String, String)) -> bool {
        let Some((home, owner)) = &target.owner else { return false };
        if (home, owner) == (&item.0, &item.1) {
            return true;
        }
        let by_trait = target.item.implements.is_some() && target.item.owner.as_deref() == Some(item.1.as_str());
        let implements = || {
            let block = file.items.impl_at(at).and_then(|block| block.implements.as_deref());
            block.is_some_and(|name| {
                let found = self.resolver.resolve(module, &[name], Namespace::Types);
                found == Some(Resolved::Item(home.clone(), owner.clone()))
            })
        };
        by_trait || implements()
    }

    /// The type that `Self` means at a token.
    fn own_type(&self, file: &SourceFile, at: usize, module: &str) -> Option<(String, String)> {
        let name = match file.items.impl_at(at) {
            Some(block) => block.of.as_str(),
            None => return self.own_trait(file, at, module),
        };
        match self.resolver.resolve(module, &[name], Namespace::Types)? {
            Resolved::Item(home, name) => Some((home, name)),
            _ => None,
        }
    }

    /// The trait whose body a token is in, as far as one of its functions contains it.
    fn own_trait(&self, file: &SourceFile, at: usize, module: &str) -> Option<(String, String)> {
        let inside = |item: &&Item| item.body.is_some_and(|(start, end)| (start..=end).contains(&at));
        let owner = file.items.items.iter().rev().filter(inside).find_map(|item| item.owner.clone())?;
        Some((module.to_owned(), owner))
    }

    /// `value.old`: meant if no other type has such a member, or if `value` is `self` of the owner.
    fn judge_access(&mut self, index: usize, file: &SourceFile, at: usize, module: &str) {
        if self.row.owner.is_none() {
            return;
        }
        let is_call = matches!(file.word(at + 1), "(" | "::");
        if is_call != (self.row.kind == RowKind::Fn) {
            return;
        }
        let is_self = file.word(at - 2) == "self" && file.word(at.wrapping_sub(3)) != ".";
        let is_owned = || {
            let own = self.own_type(file, at, module);
            self.targets.iter().any(|target| own.is_some() && target.owner == own)
        };
        let is_listed = self.row.sites.iter().any(|glob| glob_matches(glob, &file.path));
        let token = file.tokens.code[at];
        if is_listed || self.is_unique() || (is_self && is_owned()) {
            self.edit(index, token.start, token.end, &self.row.new);
        } else if !is_self || self.own_type(file, at, module).is_none() {
            self.undecided(file, at);
        }
    }

    /// Whether the targets are the only members of that name and class in the workspace.
    fn is_unique(&self) -> bool {
        let is_rival = |file: usize, item: &Item| {
            item.name == self.row.old
                && item.owner.is_some()
                && is_kind(self.row.kind, item)
                && !self.targets.iter().any(|target| target.file == file && target.item.token == item.token)
        };
        let files = self.tree.files.iter().enumerate();
        !files.into_iter().any(|(index, file)| file.items.items.iter().any(|item| is_rival(index, item)))
    }

    /// `Owner { old: value }` and `Owner { old }`, in expressions and patterns.
    fn judge_literal(&mut self, index: usize, file: &SourceFile, at: usize, module: &str) {
        let next = file.word(at + 1);
        let previous = file.word(at.wrapping_sub(1));
        let is_named = next == ":" && matches!(previous, "{" | "," | "]");
        let is_short = matches!(next, "," | "}") && matches!(previous, "{" | "," | "ref" | "mut" | "]");
        if !is_named && !is_short {
            return;
        }
        let Some(open) = enclosing_brace(file, at) else { return };
        let mut end = open.wrapping_sub(1);
        if file.word(end) == ">" {
            while end > 0 && file.word(end) != "<" {
                end -= 1;
            }
            end = if file.word(end.wrapping_sub(1)) == "::" { end - 2 } else { end.wrapping_sub(1) };
        }
        if file.tokens.code.get(end).is_none_or(|token| token.kind != Kind::Ident) {
            return;
        }
        if !self.names_owner(file, end, module) {
            return;
        }
        let token = file.tokens.code[at];
        let text = if is_short { format!("{}: {}", self.row.new, self.row.old) } else { self.row.new.clone() };
        self.edit(index, token.start, token.end, &text);
    }

    /// Whether the path that ends at a token is the struct or variant that has the field.
    fn names_owner(&self, file: &SourceFile, end: usize, module: &str) -> bool {
        let path = path_before(file, end);
        let resolved = match path.as_slice() {
            ["Self"] => self.own_type(file, end, module).map(|(home, name)| Resolved::Item(home, name)),
            ["Self", variant] => {
                self.own_type(file, end, module).map(|(home, name)| Resolved::Member(home, name, (*variant).to_owned()))
            }
            path => self.resolver.resolve(module, path, Namespace::Types),
        };
        let owner = match resolved {
            Some(Resolved::Item(home, name)) => (home, name),
            Some(Resolved::Member(home, item, variant)) => (home, format!("{item}::{variant}")),
            _ => return false,
        };
        self.targets.iter().any(|target| target.owner.as_ref() == Some(&owner))
    }

    fn edit_bare(&mut self, index: usize, file: &SourceFile, at: usize, module: &str) {
        let namespace = if self.row.kind == RowKind::Type { Namespace::Types } else { Namespace::Values };
        if !self.row.may_merge && self.resolver.binds(module, &self.row.new, namespace) {
            let clash = format!("`{}` is bound to something else in {}", self.row.new, file.path);
            if !self.plan.clashes.contains(&clash) {
                self.plan.clashes.push(clash);
            }
        }
        let token = file.tokens.code[at];
        self.edit(index, token.start, token.end, &self.row.new);
    }

    /// Names in backticks, in comments and string literals.
    fn edit_quoted(&mut self, index: usize, file: &SourceFile) {
        let strings = file.tokens.code.iter().filter(|token| token.kind == Kind::Str);
        let quoted = format!("`{}`", self.row.old);
        for token in file.tokens.comments.iter().chain(strings) {
            for (offset, _) in file.text_of(token).match_indices(&quoted) {
                let start = token.start + offset + 1;
                self.edit(index, start, start + self.row.old.len(), &self.row.new);
            }
        }
    }

    fn edit(&mut self, file: usize, start: usize, end: usize, text: &str) {
        self.plan.edits.insert(Edit { file, start, end, text: text.to_owned() });
    }

    fn undecided(&mut self, file: &SourceFile, at: usize) {
        self.plan.undecided.push(format!("{}:{}", file.path, file.line_of(at)));
    }
}

/// Whether a row of this kind can mean the item.
fn is_kind(kind: RowKind, item: &Item) -> bool {
    match kind {
        RowKind::Type => item.kind.is_type(),
        RowKind::Fn => item.kind == ItemKind::Fn,
        RowKind::Field => item.kind == ItemKind::Field,
        RowKind::Variant => item.kind == ItemKind::Variant,
        RowKind::Const => item.kind == ItemKind::Const,
        _ => false,
    }
}

pub(super) fn module_path(root: &str, file: &SourceFile, module: usize) -> String {
    file.items.modules[module].path.iter().fold(root.to_owned(), |path, segment| path + "::" + segment)
}

/// The path that ends at a token. A prefix with generics is the empty segment, which resolves to nothing.
pub(super) fn path_before(file: &SourceFile, at: usize) -> Vec<&str> {
    let mut path = vec![file.word(at)];
    let mut index = at;
    while index >= 2 && file.word(index - 1) == "::" {
        index -= 2;
        if file.tokens.code[index].kind != Kind::Ident {
            path.push("");
            break;
        }
        path.push(file.word(index));
        if index >= 1 && file.word(index - 1) == "$" {
            path.pop();
            path.push("$crate");
        }
    }
    path.reverse();
    path
}

/// Whether a token is inside of a `use` declaration.
pub(super) fn in_import(file: &SourceFile, at: usize) -> bool {
    let mut index = at;
    while index > 0 && !matches!(file.word(index), ";" | "(" | ")" | "=" | "#") {
        if file.word(index) == "use" {
            return true;
        }
        index -= 1;
    }
    file.word(index) == "use"
}

/// Whether a file binds the name as a variable or a parameter somewhere.
fn may_be_variable(file: &SourceFile, name: &str) -> bool {
    (0..file.tokens.code.len()).any(|at| file.word(at) == name && is_binding(file, at))
}

fn is_binding(file: &SourceFile, at: usize) -> bool {
    let previous = file.word(at.wrapping_sub(1));
    matches!(previous, "let" | "mut" | "ref" | "for" | "|")
        || (matches!(previous, "(" | ",") && matches!(file.word(at + 1), ":" | "|"))
}

/// Whether a token is the name in `name: value`.
fn is_field_name(file: &SourceFile, at: usize) -> bool {
    file.word(at + 1) == ":"
}

/// The brace that a token is directly inside of.
fn enclosing_brace(file: &SourceFile, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for index in (0..at).rev() {
        match file.word(index) {
            ")" | "]" | "}" => depth += 1,
            "{" if depth == 0 => return Some(index),
            "(" | "[" | "{" if depth == 0 => return None,
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether renaming a field or a variant changes what serde writes: its type derives a serde trait.
fn changes_json(file: &SourceFile, item: &Item) -> bool {
    let owner = item.owner.as_deref().map(|owner| owner.split("::").next().unwrap_or(owner));
    let is_owner = |candidate: &&Item| candidate.kind.is_type() && Some(candidate.name.as_str()) == owner;
    matches!(item.kind, ItemKind::Field | ItemKind::Variant)
        && file.items.items.iter().find(is_owner).is_some_and(|owner| owner.is_serialized)
}
