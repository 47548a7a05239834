//! The claims as the watcher needs them: paths, and the content known for each.
//!
//! Pure lookups. The holder of a claim, and the effect of a change, are decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Folders that are never watched, even if claimed: their content is bookkeeping, not work.
pub(super) const UNSEEN: [&str; 3] = [".git", ".rookery", ".workflow"];

/// The current claims; replaced as a whole when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedClaims {
    /// Claimed files by path, relative to the root and separated by `/`.
    pub files: BTreeMap<String, KnownContent>,
    /// Claimed subtrees; each ends in `/`. `./` is the whole project.
    pub trees: BTreeSet<String>,
}

/// The content of a file that a claim knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownContent {
    /// The SHA-256 in hex, or `""` where no file existed. Other content is reported, also if it changed before the start.
    Hash(String),
    /// No content: the first one found becomes the base, and is not reported.
    Unlearned,
}

impl WatchedClaims {
    pub(super) fn covers(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.tree_over(path).is_some()
    }

    /// The outermost claimed subtree that holds `path`.
    pub(super) fn tree_over(&self, path: &str) -> Option<&str> {
        if self.trees.is_empty() {
            return None;
        }
        let whole = ["./", "/", ""].iter().find_map(|whole| self.trees.get(*whole));
        let mut above = path.match_indices('/').map(|(at, _)| &path[..=at]);
        whole.or_else(|| above.find_map(|prefix| self.trees.get(prefix))).map(String::as_str)
    }

    /// Whether a claimed path lies below the folder `dir`, so that the folder must be watched even if git ignores it.
    pub(super) fn leads_to(&self, dir: &str) -> bool {
        let prefix = subtree_prefix(dir);
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let file = self.files.range::<str, _>(from).next().map(|(path, _)| path);
        let tree = self.trees.range::<str, _>(from).next();
        file.into_iter().chain(tree).any(|path| path.starts_with(&prefix))
    }

    /// The folders that lead to every claim, outer ones first, without the root.
    pub(super) fn folders(&self) -> BTreeSet<&str> {
        let paths = self.files.keys().chain(&self.trees);
        paths.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])).filter(|dir| is_inside(dir)).collect()
    }
}

/// `""` for the root, so that every path starts with it; otherwise the folder with its `/`.
pub(super) fn subtree_prefix(dir: &str) -> String {
    if dir.is_empty() { String::new() } else { format!("{dir}/") }
}

/// Whether a relative path stays in the root and out of folders that are never watched.
pub(super) fn is_visible(path: &str) -> bool {
    path.split('/').all(|part| part != ".." && !UNSEEN.contains(&part))
}

fn is_inside(dir: &str) -> bool {
    !dir.is_empty() && dir != "." && !dir.starts_with('/') && is_visible(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(files: &[&str], trees: &[&str]) -> WatchedClaims {
        WatchedClaims {
            files: files.iter().map(|path| ((*path).to_owned(), KnownContent::Unlearned)).collect(),
            trees: trees.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn covers_claimed_files_and_files_below_subtrees() {
        let claims = watched(&["a.txt", "src/b.rs"], &["docs/", "out/x/"]);
        for (path, expected) in [
            ("a.txt", true),
            ("src/b.rs", true),
            ("src/b.rs.bak", false),
            ("docs/deep/page.md", true),
            ("docs", false),
            ("docs2/page.md", false),
            ("out/y", false),
            ("out/x/y", true),
        ] {
            assert_eq!(claims.covers(path), expected, "{path}");
        }
        assert!(watched(&[], &["./"]).covers("anything/at/all"));
    }

    #[test]
    fn leads_to_claims_below_a_folder() {
        let claims = watched(&["a/b/c.txt", "a.txt"], &["out/x/"]);
        for (dir, expected) in
            [("", true), ("a", true), ("a/b", true), ("a/b/c.txt", false), ("out", true), ("out/x", true), ("b", false)]
        {
            assert_eq!(claims.leads_to(dir), expected, "{dir}");
        }
    }

    #[test]
    fn folders_of_claims_are_ordered_and_inside_the_root() {
        let claims = watched(&["a/b/c.txt", "/etc/passwd", "../up/x", ".git/hooks/x"], &["out/x/", "./"]);
        assert_eq!(claims.folders().into_iter().collect::<Vec<_>>(), ["a", "a/b", "out", "out/x"]);
    }
}
