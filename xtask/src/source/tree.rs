//! The tracked files of the workspace, and the Rust files among them with their tokens and items.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};

use super::items::Items;
use super::lexer::{Kind, Token, Tokens};
use crate::process::Program;

/// Crates whose code is never part of the product.
const TEST_CRATES: [&str; 2] = ["testkit", "testdb"];

/// A Rust file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root of the workspace, with `/`.
    pub(crate) path: String,
    /// The folder below `crates/`, or `xtask`, `bench`, `fuzz`.
    pub(crate) package: String,
    pub(crate) text: String,
    pub(crate) tokens: Tokens,
    pub(crate) items: Items,
    /// The whole file belongs to tests: it is in `tests/`, in a crate for tests, or declared under `#[cfg(test)]`.
    pub(crate) is_test: bool,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: String) -> Self {
        let tokens = Tokens::new(&text);
        let items = Items::new(&text, &tokens);
        let mut parts = path.split('/');
        let first = parts.next().unwrap_or_default();
        let package = if first == "crates" { parts.next().unwrap_or_default() } else { first };
        let in_product = first == "crates" && !TEST_CRATES.contains(&package) && path.contains("/src/");
        Self { path: path.to_owned(), package: package.to_owned(), text, tokens, items, is_test: !in_product }
    }

    pub(crate) fn text_of(&self, token: &Token) -> &str {
        &self.text[token.start..token.end]
    }

    /// The text of the code token at an index; empty past the end.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.code.get(index).map_or("", |token| self.text_of(token))
    }

    pub(crate) fn line_of(&self, index: usize) -> usize {
        self.tokens.code.get(index).map_or(0, |token| token.line)
    }

    pub(crate) fn is_test_token(&self, index: usize) -> bool {
        self.is_test || self.items.is_test_token(index)
    }

    /// The path below `src/` of the file's crate.
    pub(crate) fn below_src(&self) -> Option<&str> {
        self.path.split_once("/src/").map(|(_, rest)| rest)
    }

    /// Indexes of the identifiers of product code.
    pub(crate) fn product_idents(&self) -> impl Iterator<Item = usize> {
        let code = self.tokens.code.iter().enumerate();
        code.filter(|(index, token)| token.kind == Kind::Ident && !self.is_test_token(*index)).map(|(index, _)| index)
    }
}

fn read_file(root: &Path, path: &str) -> Result<SourceFile> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(SourceFile::new(path, text))
}

/// Every Rust file of the workspace.
#[derive(Debug)]
pub(crate) struct SourceTree {
    pub(crate) files: Vec<SourceFile>,
}

impl SourceTree {
    /// Reads the Rust files among some paths, on all cores: an unoptimised build takes a second of processor time for
    /// it.
    pub(crate) fn read(root: &Path, tracked: &[String]) -> Result<Self> {
        let paths: Vec<&String> = tracked.iter().filter(|path| path.ends_with(".rs")).collect();
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let chunks = paths.chunks(paths.len().div_ceil(threads).max(1));
        let read = |paths: &[&String]| paths.iter().map(|path| read_file(root, path)).collect::<Result<Vec<_>>>();
        let files: Result<Vec<Vec<SourceFile>>> = thread::scope(|scope| {
            let running: Vec<_> = chunks.map(|chunk| scope.spawn(move || read(chunk))).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        Ok(Self::new(files?.into_iter().flatten().collect()))
    }

    /// Marks the files that are modules of tests: `#[cfg(test)] mod name;` makes `name.rs` and `name/` such.
    pub(crate) fn new(mut files: Vec<SourceFile>) -> Self {
        let mut prefixes = BTreeSet::new();
        for file in &files {
            let folder = module_folder(&file.path);
            prefixes.extend(file.items.test_modules.iter().map(|name| format!("{folder}/{name}")));
        }
        for file in &mut files {
            let path = file.path.trim_end_matches(".rs");
            let is_below = |prefix: &String| path == prefix || path.starts_with(&format!("{prefix}/"));
            file.is_test |= prefixes.iter().any(is_below);
        }
        Self { files }
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| SourceFile::new(path, (*text).to_owned())).collect())
    }

    /// Files with product code.
    pub(crate) fn product(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| !file.is_test)
    }
}

/// The folder that the child modules of a file are in.
pub(crate) fn module_folder(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder,
        _ => stem,
    }
}

/// The test binary that a file is compiled into: the library of its crate, or a folder or file below `tests/`.
pub(crate) fn test_binary(path: &str) -> String {
    let Some((package, rest)) = path.split_once("/tests/").filter(|(package, _)| !package.contains("/src")) else {
        return path.split("/src/").next().unwrap_or(path).to_owned();
    };
    let name = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
    format!("{package}/tests/{name}")
}

/// The files that git tracks or would add, sorted, without those that are deleted in the work tree.
pub(crate) fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let listed = Program::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .dir(root)
        .capture()
        .context("cannot list the files of the workspace")?;
    let paths: BTreeSet<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    Ok(paths.into_iter().filter(|path| root.join(path).is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_declared_as_test_modules_are_tests() {
        let tree = SourceTree::of(&[
            ("crates/core/src/lib.rs", "#[cfg(test)] mod testing; mod task;"),
            ("crates/core/src/testing/mod.rs", ""),
            ("crates/core/src/testing/world.rs", ""),
            ("crates/core/src/task.rs", "#[cfg(test)] mod tests;"),
            ("crates/core/src/task/tests.rs", ""),
            ("crates/testkit/src/lib.rs", ""),
            ("crates/core/tests/a.rs", ""),
        ]);
        let tests: Vec<bool> = tree.files.iter().map(|file| file.is_test).collect();
        assert_eq!(tests, [false, true, true, false, true, true, true]);
    }

    #[test]
    fn test_binaries_are_crates_and_folders_below_tests() {
        assert_eq!(test_binary("crates/core/src/task/claim.rs"), "crates/core");
        assert_eq!(test_binary("crates/core/src/task/tests/claim.rs"), "crates/core");
        assert_eq!(test_binary("crates/core/tests/golden.rs"), "crates/core/tests/golden");
        assert_eq!(test_binary("crates/rookery/tests/rest/tasks.rs"), "crates/rookery/tests/rest");
    }
}
