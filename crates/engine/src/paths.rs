//! From a path as somebody names it to the path that claims know: links resolved, worktrees mapped, never outside.

use std::path::{Component, Path, PathBuf};

use rookery_core::file::{Case, FilePath, PathProblem};
use rookery_core::{Code, Refusal};

#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
    case: Case,
}

impl Paths {
    pub fn new(root: &Path) -> Paths {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let case = if folds_case(&root) { Case::Folded } else { Case::Kept };
        Paths { root, case }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The claim's path for what a caller wrote. Looks at the file system, so it runs where blocking is allowed.
    pub async fn resolve(&self, raw: &str) -> Result<FilePath, Refusal> {
        let (paths, raw) = (self.clone(), raw.to_owned());
        match tokio::task::spawn_blocking(move || paths.resolve_now(&raw)).await {
            Ok(result) => result,
            Err(error) => Err(Refusal::new(Code::Invalid, format!("path cannot be looked at: {error}"))),
        }
    }

    /// The form that needs no look at the file system: for reading back what is tracked.
    pub fn parse(&self, raw: &str) -> Result<FilePath, Refusal> {
        let relative = self.relative(raw)?;
        FilePath::parse(&relative, self.case).map_err(refusal)
    }

    fn resolve_now(&self, raw: &str) -> Result<FilePath, Refusal> {
        let relative = self.relative(raw)?;
        // Checks the text before the file system is asked anything.
        let plain = FilePath::parse(&relative, self.case).map_err(refusal)?;
        let resolved = self.follow_links(&plain)?;
        FilePath::parse(&resolved, self.case).map_err(refusal)
    }

    /// Relative to the root of the project, or of one of its worktrees.
    fn relative(&self, raw: &str) -> Result<String, Refusal> {
        if !raw.starts_with('/') {
            return Ok(raw.to_owned());
        }
        let path = lexical(Path::new(raw));
        let slash = if raw.ends_with('/') { "/" } else { "" };
        let roots = std::iter::once(self.root.clone()).chain(worktrees(&self.root));
        // The innermost root wins: worktrees often lie below the project.
        let inside = roots
            .filter_map(|root| path.strip_prefix(&root).ok().map(|rest| (root.components().count(), rest.to_owned())));
        match inside.max_by_key(|(depth, _)| *depth) {
            Some((_, rest)) if rest.as_os_str().is_empty() => Err(refusal(PathProblem::Root)),
            Some((_, rest)) => match rest.to_str() {
                Some(text) => Ok(format!("{text}{slash}")),
                None => Err(Refusal::new(Code::Invalid, "path is not valid UTF-8")),
            },
            None => Err(refusal(PathProblem::Absolute)),
        }
    }

    /// Resolves links in the part of the path that exists.
    fn follow_links(&self, path: &FilePath) -> Result<String, Refusal> {
        let text = path.to_string();
        let bare = text.trim_end_matches('/');
        let mut existing = self.root.join(bare);
        let mut missing: Vec<String> = Vec::new();
        let canonical = loop {
            match existing.canonicalize() {
                Ok(canonical) => break canonical,
                Err(_) => {
                    match (existing.file_name().map(|name| name.to_string_lossy().into_owned()), existing.parent()) {
                        (Some(name), Some(parent)) => {
                            missing.push(name);
                            existing = parent.to_owned();
                        }
                        _ => return Ok(text),
                    }
                }
            }
        };
        let Ok(inside) = canonical.strip_prefix(&self.root) else {
            return Err(
                refusal(PathProblem::Outside).hint("the path goes through a link that leads out of the project")
            );
        };
        let mut parts: Vec<String> =
            inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        parts.extend(missing.into_iter().rev());
        let slash = if path.is_subtree() { "/" } else { "" };
        Ok(format!("{}{slash}", parts.join("/")))
    }
}

pub fn refusal(problem: PathProblem) -> Refusal {
    let hint = match problem {
        PathProblem::Absolute | PathProblem::Outside => "name a path inside of the project, relative to its root",
        PathProblem::Root => "claim the folders you need, each ending in '/'",
        PathProblem::Empty | PathProblem::Nul | PathProblem::TooLong => {
            "name a file, or a folder with a '/' at its end"
        }
    };
    Refusal::new(Code::Invalid, problem.to_string()).hint(hint)
}

/// The path without `.` and `..`, as text says it.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// The folders of the repository's other worktrees, as git keeps them.
fn worktrees(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join(".git/worktrees")) else { return vec![] };
    entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("gitdir")).ok())
        .filter_map(|gitdir| Path::new(gitdir.trim()).parent().map(Path::to_owned))
        .map(|worktree| worktree.canonicalize().unwrap_or(worktree))
        .collect()
}

/// Whether a name in another case finds the same folder.
fn folds_case(root: &Path) -> bool {
    let Some(name) = root.file_name().and_then(|name| name.to_str()) else { return false };
    let (upper, lower) = (name.to_uppercase(), name.to_lowercase());
    upper != lower
        && [upper, lower].iter().filter(|other| *other != name).all(|other| {
            let other = root.with_file_name(other);
            matches!((other.canonicalize(), root.canonicalize()), (Ok(one), Ok(two)) if one == two)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &Paths, raw: &str) -> Result<String, String> {
        paths.resolve_now(raw).map(|path| path.to_string()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn every_spelling_of_a_file_is_one_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        std::fs::write(root.join("src/a.rs"), "").unwrap();
        std::os::unix::fs::symlink("src", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
        let paths = Paths::new(&root);
        let absolute = root.join("src/a.rs").to_str().unwrap().to_owned();
        for raw in ["src/a.rs", "./src//a.rs", "link/a.rs", &absolute] {
            assert_eq!(check(&paths, raw).as_deref(), Ok("src/a.rs"), "{raw}");
        }
        assert_eq!(check(&paths, "link/").as_deref(), Ok("src/"));
        assert_eq!(check(&paths, "src/deep/new/file").as_deref(), Ok("src/deep/new/file"));
        for raw in ["/etc/passwd", "../x", "out/passwd", "", "a\0b", "."] {
            assert!(check(&paths, raw).is_err(), "{raw:?}");
        }
    }

    #[test]
    fn paths_in_worktrees_are_paths_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (main, other) = (root.join("main"), root.join("elsewhere/wt"));
        std::fs::create_dir_all(main.join(".git/worktrees/wt")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(main.join(".git/worktrees/wt/gitdir"), format!("{}/.git\n", other.display())).unwrap();
        let paths = Paths::new(&main);
        assert_eq!(check(&paths, other.join("src/a.rs").to_str().unwrap()).as_deref(), Ok("src/a.rs"));
    }
}
