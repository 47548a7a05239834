//! The files that the checks read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::source::{SourceTree, tracked_files};

/// Endings of the files besides Rust that are read.
const ENDINGS: [&str; 6] = [".md", ".toml", ".ts", ".tsx", ".json", ".sql"];

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) tree: SourceTree,
    /// Every path that git knows.
    pub(crate) paths: Vec<String>,
    /// Texts besides Rust, by path.
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) witnesses: BTreeMap<String, Vec<String>>,
}

impl Input {
    pub(crate) fn read(root: &Path, witnesses: BTreeMap<String, Vec<String>>) -> Result<Self> {
        let paths = tracked_files(root)?;
        let tree = SourceTree::read(root, &paths)?;
        let is_read = |path: &&String| ENDINGS.iter().any(|ending| path.ends_with(ending));
        // Test data in another encoding is no text.
        let text = |path: &String| Some((path.clone(), fs::read_to_string(root.join(path)).ok()?));
        let texts = paths.iter().filter(is_read).filter_map(text).collect();
        Ok(Self { tree, paths, texts, witnesses })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let rust: Vec<(&str, &str)> = files.iter().copied().filter(|(path, _)| path.ends_with(".rs")).collect();
        Self {
            tree: SourceTree::of(&rust),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            texts: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
            witnesses: BTreeMap::new(),
        }
    }
}
