//! Dependencies and public items without use, and the size of the engine's interface.

use std::collections::HashMap;

use super::imports::dependencies as dependencies_of;
use super::input::Input;
use super::{Finding, Found};
use crate::source::{ItemKind, Kind, SourceFile, Visibility};

/// Dependencies of the workspace that no member has, and dependencies of a crate that its sources do not name. A crate
/// that is needed for a feature alone is an exception.
pub(crate) fn dependencies(input: &Input) -> Found {
    let mut places = Vec::new();
    // The fuzz targets are a workspace of their own.
    let is_member = |path: &str| path.ends_with("/Cargo.toml") && !path.starts_with("fuzz/");
    let manifests = input.texts.iter().filter(|(path, _)| is_member(path));
    let manifests: Vec<(&String, &String)> = manifests.collect();
    if let Some(root) = input.texts.get("Cargo.toml") {
        for (line, name) in workspace_dependencies(root) {
            let is_named = |text: &&String| text.lines().any(|line| line.split(['=', '.', ' ']).next() == Some(&name));
            if !manifests.iter().any(|(_, text)| is_named(text)) {
                places.push(Finding::new("Cargo.toml", line, name));
            }
        }
    }
    for (path, manifest) in manifests {
        let folder = path.trim_end_matches("Cargo.toml");
        let files: Vec<&SourceFile> = input.tree.files.iter().filter(|file| file.path.starts_with(folder)).collect();
        for (line, name) in dependencies_of(manifest) {
            let ident = name.replace('-', "_");
            if !files.iter().any(|file| file.text.contains(&ident) && idents(file).any(|known| known == ident)) {
                places.push(Finding::new(path, line, name));
            }
        }
    }
    places.into()
}

fn workspace_dependencies(manifest: &str) -> Vec<(usize, String)> {
    let lines = manifest.lines().enumerate().skip_while(|(_, line)| line.trim() != "[workspace.dependencies]").skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with('['));
    let named = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    named.map(|(index, line)| (index + 1, line.split(['=', '.', ' ']).next().unwrap_or_default().to_owned())).collect()
}

fn idents(file: &SourceFile) -> impl Iterator<Item = &str> {
    file.tokens.code.iter().filter(|token| token.kind == Kind::Ident).map(|token| file.text_of(token))
}

/// Items of product code at the level of a module that are `pub` and named in no other file of the workspace. Items
/// that a macro or derive uses by another name are exceptions.
pub(crate) fn own_file_only(input: &Input) -> Found {
    let mut public: HashMap<&str, Vec<Finding>> = HashMap::new();
    for file in input.tree.product() {
        for item in &file.items.items {
            let is_item = item.kind.is_type() || matches!(item.kind, ItemKind::Fn | ItemKind::Const);
            let is_public = item.visibility == Visibility::Public && item.owner.is_none();
            // Handles of services are reached through the accessor that returns them.
            let is_handle = item.kind.is_type() && item.name.ends_with("Handle");
            if is_item && is_public && !is_handle && !item.in_test && !item.is_local {
                let place = Finding::new(&file.path, file.line_of(item.token), item.name.clone());
                public.entry(&item.name).or_default().push(place);
            }
        }
    }
    for file in &input.tree.files {
        for name in idents(file) {
            // A name that one other file mentions is used; it need not be looked up again.
            if public.get(name).is_some_and(|places| places.iter().any(|place| place.file != file.path)) {
                public.remove(name);
            }
        }
    }
    let mut places: Vec<Finding> = public.into_values().flatten().collect();
    places.sort();
    places.into()
}

/// Public functions in `impl Engine` blocks of product code.
pub(crate) fn engine_methods(input: &Input) -> Found {
    methods(input, |visibility| visibility == Visibility::Public).into()
}

pub(crate) fn methods(input: &Input, wanted: fn(Visibility) -> bool) -> Vec<Finding> {
    let mut places = Vec::new();
    for file in input.tree.product().filter(|file| file.package == "engine") {
        for item in file.items.items.iter().filter(|item| item.kind == ItemKind::Fn && !item.in_test) {
            let is_own = item.owner.as_deref() == Some("Engine") && item.implements.is_none();
            if is_own && wanted(item.visibility) {
                places.push(Finding::new(&file.path, file.line_of(item.token), item.name.clone()));
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_dependencies_are_found() {
        let input = Input::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nserde = \"1\"\nhttp = \"1\"\ngone = \"1\"\n\n[profile.dev]\nx = 1\n",
            ),
            ("crates/core/Cargo.toml", "[dependencies]\nserde.workspace = true\nhttp = { workspace = true }\n"),
            ("crates/core/src/lib.rs", "use serde::Serialize; // http"),
        ]);
        let items: Vec<String> = dependencies(&input).places.into_iter().map(|place| place.item).collect();
        assert_eq!(items, ["gone", "http"]);
    }

    #[test]
    fn public_items_of_one_file_are_found() {
        let input = Input::of(&[
            ("crates/core/src/a.rs", "pub struct A; pub struct B; pub(crate) struct C; pub fn d() -> B {}"),
            ("crates/core/tests/b.rs", "use x::A;"),
        ]);
        let items: Vec<String> = own_file_only(&input).places.into_iter().map(|place| place.item).collect();
        assert_eq!(items, ["B", "d"]);
    }

    #[test]
    fn methods_of_the_engine_are_counted_in_all_blocks() {
        let text =
            "impl Engine { pub fn a(&self) {} fn b() {} pub(crate) fn c() {} } impl Drop for Engine { fn drop() {} }";
        let input = Input::of(&[
            ("crates/engine/src/a.rs", text),
            ("crates/engine/src/b.rs", "impl Engine { pub async fn d() {} }"),
        ]);
        let items: Vec<String> = engine_methods(&input).places.into_iter().map(|place| place.item).collect();
        assert_eq!(items, ["a", "d"]);
        assert_eq!(methods(&input, |_| true).len(), 4);
    }
}
