//! Finds what the rename of a module edits.

use std::collections::BTreeSet;

use super::links::{attribute_paths, doc_links};
use super::resolve::{Namespace, Resolved, Resolver, module_of};
use super::sites::{Edit, in_import, module_path, path_before};
use crate::source::{ItemKind, Kind, SourceTree};

/// The declaration `mod old;` of a module and every path segment that means it.
pub(crate) fn module_edits(
    tree: &SourceTree,
    resolver: &Resolver<'_>,
    module: &str,
    old: &str,
    new: &str,
) -> BTreeSet<Edit> {
    let mut edits = BTreeSet::new();
    for (index, file) in tree.files.iter().enumerate().filter(|(_, file)| file.text.contains(old)) {
        let root = module_of(file);
        let mut edit = |start: usize, end: usize| {
            edits.insert(Edit { file: index, start, end, text: new.to_owned() });
        };
        let is_meant = |token: usize, path: &[&str]| {
            let here = module_path(&root, file, file.items.module_at(token));
            resolver.resolve(&here, path, Namespace::Types) == Some(Resolved::Module(module.to_owned()))
        };
        for item in file.items.items.iter().filter(|item| item.kind == ItemKind::Module && item.name == old) {
            let token = file.tokens.code[item.token];
            if format!("{}::{old}", module_path(&root, file, item.module)) == module {
                edit(token.start, token.end);
            }
        }
        for import in &file.items.imports {
            for (depth, (name, at)) in import.segments.iter().enumerate().filter(|(_, (name, _))| name == old) {
                let path: Vec<&str> = import.segments[..=depth].iter().map(|(name, _)| name.as_str()).collect();
                if is_meant(*at, &path) {
                    let token = file.tokens.code[*at];
                    debug_assert_eq!(file.text_of(&token), name);
                    edit(token.start, token.end);
                }
            }
        }
        for (at, token) in file.tokens.code.iter().enumerate() {
            let is_segment = token.kind == Kind::Ident && file.text_of(token) == old && file.word(at + 1) == "::";
            if is_segment && !in_import(file, at) && is_meant(at, &path_before(file, at)) {
                edit(token.start, token.end);
            }
        }
        for link in doc_links(file, old).into_iter().chain(attribute_paths(file, old)) {
            let path: Vec<&str> = link.path.iter().map(String::as_str).collect();
            if is_meant(link.token, &path) {
                edit(link.start, link.end);
            }
        }
    }
    edits
}
