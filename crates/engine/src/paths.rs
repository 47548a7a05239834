//! From a path as somebody names it to the path that claims know: links resolved, worktrees mapped, never outside.

use std::path::{Component, Path, PathBuf};

use rookery_core::model::file_path::{Case, FilePath, PathProblem};
use rookery_core::{Code, Rejection};

use crate::held::HeldFolder;

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
    pub async fn resolve(&self, raw: &str) -> Result<FilePath, Rejection> {
        let (paths, raw) = (self.clone(), raw.to_owned());
        match tokio::task::spawn_blocking(move || paths.resolve_now(&raw)).await {
            Ok(result) => result,
            Err(error) => Err(Rejection::new(Code::Invalid, format!("path cannot be looked at: {error}"))),
        }
    }

    /// The form that needs no look at the file system: for finding what is tracked. Links are not followed.
    pub fn parse(&self, raw: &str) -> Result<FilePath, Rejection> {
        if !raw.starts_with('/') {
            return FilePath::parse(raw, self.case).map_err(refusal);
        }
        self.below(lexical(Path::new(raw)), std::iter::once(self.root.clone()), raw.ends_with('/'))
    }

    fn resolve_now(&self, raw: &str) -> Result<FilePath, Rejection> {
        let named = if raw.starts_with('/') {
            lexical(Path::new(raw))
        } else {
            // Checks the text before the file system is asked anything.
            let plain = FilePath::parse(raw, self.case).map_err(refusal)?;
            self.root.join(plain.to_string().trim_end_matches('/'))
        };
        let subtree = raw.ends_with('/') || raw.ends_with("/.");
        let roots = std::iter::once(self.root.clone()).chain(worktrees(&self.root));
        self.below(follow_links(&named), roots, subtree)
    }

    /// The path below the innermost of the roots: worktrees often lie below the project.
    fn below(&self, path: PathBuf, roots: impl Iterator<Item = PathBuf>, subtree: bool) -> Result<FilePath, Rejection> {
        let inside = roots.filter_map(|root| {
            let rest = path.strip_prefix(&root).ok()?.to_owned();
            Some((root.components().count(), rest))
        });
        let Some((_, rest)) = inside.max_by_key(|(depth, _)| *depth) else {
            return Err(refusal(PathProblem::Outside));
        };
        let Some(text) = rest.to_str() else { return Err(Rejection::new(Code::Invalid, "path is not valid UTF-8")) };
        if text.is_empty() {
            return Err(refusal(PathProblem::Root));
        }
        FilePath::parse(&format!("{text}{}", if subtree { "/" } else { "" }), self.case).map_err(refusal)
    }
}

/// Resolves links in the part of the path that exists; what does not exist yet is taken as it is named.
pub(crate) fn follow_links(path: &Path) -> PathBuf {
    let mut existing = path.to_owned();
    let mut missing = Vec::new();
    loop {
        if let Ok(mut canonical) = existing.canonicalize() {
            canonical.extend(missing.iter().rev());
            return canonical;
        }
        // A link that leads nowhere yet is still the place it names.
        if let Ok(target) = std::fs::read_link(&existing) {
            let target = existing.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
            if missing.len() > PATH_PARTS {
                return path.to_owned();
            }
            let followed = lexical(&target);
            if followed != existing && !followed.is_symlink() {
                existing = followed;
                continue;
            }
        }
        let (Some(name), Some(parent)) = (existing.file_name().map(ToOwned::to_owned), existing.parent()) else {
            return path.to_owned();
        };
        missing.push(name);
        existing = parent.to_owned();
    }
}

/// The largest file that says where a worktree is.
const POINTER_BYTES: u64 = 8 << 10;
/// No path has more parts than this.
const PATH_PARTS: usize = rookery_core::kernel::limit::PATH_DEPTH;

pub fn refusal(problem: PathProblem) -> Rejection {
    let hint = match problem {
        PathProblem::Absolute | PathProblem::Outside => "name a path inside of the project, relative to its root",
        PathProblem::Root => "claim the folders you need, each ending in '/'",
        PathProblem::Empty | PathProblem::Nul | PathProblem::TooLong => {
            "name a file, or a folder with a '/' at its end"
        }
    };
    Rejection::new(Code::Invalid, problem.to_string()).hint(hint)
}

/// The path without `.` and `..`, as text says it.
pub(crate) fn lexical(path: &Path) -> PathBuf {
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

/// The project's place in each of the repository's other worktrees, as git keeps them.
fn worktrees(root: &Path) -> Vec<PathBuf> {
    let Some((top, common)) = repository(root) else { return vec![] };
    // A project may be a folder of its repository; it is the same folder in every worktree.
    let within = root.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
    // Agents write there too: neither links nor pipes are opened.
    let all = common.canonicalize().and_then(|common| HeldFolder::open(&common.join("worktrees")));
    let Ok(all) = all else { return vec![] };
    let names = all.names().unwrap_or_default();
    let gitdirs =
        names.into_iter().filter_map(|name| all.child(name).ok()?.read("gitdir", POINTER_BYTES).ok().flatten());
    gitdirs
        .filter_map(|gitdir| Path::new(String::from_utf8(gitdir).ok()?.trim()).parent().map(Path::to_owned))
        .map(|worktree| worktree.canonicalize().unwrap_or(worktree).join(&within))
        .collect()
}

/// The top of the working tree that the folder is in, and the git folder that all worktrees share.
fn repository(root: &Path) -> Option<(PathBuf, PathBuf)> {
    for folder in root.ancestors() {
        let git = folder.join(".git");
        if git.is_dir() {
            return Some((folder.to_owned(), git));
        }
        if let Ok(text) = std::fs::read_to_string(&git) {
            let own = folder.join(text.trim().strip_prefix("gitdir: ")?);
            let common =
                std::fs::read_to_string(own.join("commondir")).map_or(own.clone(), |common| own.join(common.trim()));
            return Some((folder.to_owned(), common));
        }
        // A bare repository is its own git folder.
        if folder == root && folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
            return Some((folder.to_owned(), folder.to_owned()));
        }
    }
    None
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
        std::os::unix::fs::symlink("src/later.rs", root.join("dangling")).unwrap();
        let paths = Paths::new(&root);
        let absolute = root.join("src/a.rs").to_str().unwrap().to_owned();
        for raw in ["src/a.rs", "./src//a.rs", "link/a.rs", &absolute] {
            assert_eq!(check(&paths, raw).as_deref(), Ok("src/a.rs"), "{raw}");
        }
        assert_eq!(check(&paths, "link/").as_deref(), Ok("src/"));
        assert_eq!(check(&paths, "dangling").as_deref(), Ok("src/later.rs"));
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
        // One that lies below the project is its own place, however it is named.
        let below = main.join("trees/two");
        std::fs::create_dir_all(main.join(".git/worktrees/two")).unwrap();
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(main.join(".git/worktrees/two/gitdir"), format!("{}/.git\n", below.display())).unwrap();
        assert_eq!(check(&paths, "trees/two/src/a.rs").as_deref(), Ok("src/a.rs"));
        // A project that is a folder of its repository is that folder in every worktree.
        std::fs::create_dir_all(main.join("app")).unwrap();
        let app = Paths::new(&main.join("app"));
        assert_eq!(check(&app, other.join("app/x").to_str().unwrap()).as_deref(), Ok("x"));
        assert!(check(&app, other.join("src/x").to_str().unwrap()).is_err());
    }
}
