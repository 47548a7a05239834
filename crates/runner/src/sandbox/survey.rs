//! Examines the disk for the paths that a sandbox consists of.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::spec::{FOLDER, HomeMount, SandboxSpec};

/// Places of tools in a home, besides the `PATH`: toolchains that other programs need, and settings of git.
const TOOLS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".config/git",
    ".config/mise",
    ".deno",
    ".gitconfig",
    ".local/bin",
    ".local/lib",
    ".local/share/claude",
    ".local/share/cursor-agent",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nix-profile",
    ".nvm",
    ".opencode/bin",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
];

/// Files in the folder of an agent's program that the program would run or obey when a person uses it.
const PROGRAM_SETTINGS: &[&str] = &[
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "agents",
    "commands",
    "config.toml",
    "extensions",
    "hooks",
    "hooks.json",
    "mcp.json",
    "opencode.json",
    "plugins",
    "settings.json",
    "skills",
];

/// Those that a program creates by itself on its first start, so that they do not point to an agent.
const CREATED_ON_FIRST_START: &[&str] = &["extensions", "plugins"];

/// Inputs of a survey.
#[derive(Clone, Debug)]
pub(super) struct SurveyRequest<'a> {
    pub project: &'a Path,
    pub folder: &'a Path,
    pub state: &'a Path,
    pub served: &'a Path,
    /// As written in the file: relative to the project or to `~`, or absolute.
    pub write: &'a [String],
    /// Folders for the private data of the agent's program: in its state, or in the user's home if they exist.
    pub own: &'a [PathBuf],
    /// The `rookery` executable.
    pub rookery: &'a Path,
    /// The environment of the runner.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// Size of each temporary folder.
    pub temporary_bytes: u64,
}

/// The reason why the sandbox cannot be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SurveyError {
    #[error("there is no folder `{0}` to write to; create it, or remove it from `sandbox: write`")]
    NoFolder(String),
    #[error("`{0}` belongs to Rookery; remove it from `sandbox: write`")]
    Own(String),
    #[error("a link leads from {0} to {1}; an agent that writes there could change it, so name the folder itself")]
    Link(String, String),
    #[error("cannot look at {0}: {1}")]
    Disk(String, String),
}

pub(super) fn survey(wanted: &SurveyRequest<'_>) -> Result<SandboxSpec, SurveyError> {
    let project = canonical(wanted.project)?;
    let folder = canonical(wanted.folder)?;
    ensure_no_link(&project, wanted.folder, &folder)?;
    let variable = |name: &str| wanted.env.get(OsStr::new(name));
    let home = variable("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    let mut write = Vec::new();
    for text in wanted.write {
        write.push(resolve_named(text, &project, home.as_deref())?);
    }
    let state = canonical(wanted.state)?;
    let shown = state.join("home");
    fs::create_dir_all(&shown).map_err(|error| SurveyError::Disk(display(&shown), error.to_string()))?;
    let (mut private, mut guarded, mut absent) = (vec![shown.clone()], Vec::new(), Vec::new());
    for path in wanted.own {
        // A missing folder of the home will be created in the private home.
        let Ok(path) = path.canonicalize() else { continue };
        if !path.starts_with(&state) {
            let (there, not): (Vec<PathBuf>, Vec<PathBuf>) =
                PROGRAM_SETTINGS.iter().map(|name| path.join(name)).partition(|path| path.exists());
            // The agent may have created a link, and mounting its target would reveal any file of the user.
            guarded.extend(there.into_iter().filter(|path| !path.is_symlink()));
            absent
                .extend(not.into_iter().filter(|path| !CREATED_ON_FIRST_START.iter().any(|name| path.ends_with(name))));
        }
        private.push(path);
    }
    // An agent that works in the home itself, or above it, can see the home.
    let home = home.filter(|home| !home.starts_with(&folder) && home.parent().is_some());
    let path = variable("PATH").cloned().unwrap_or_default();
    let given: Vec<&Path> = write.iter().chain([&project, &folder]).map(PathBuf::as_path).collect();
    let tools = find_tools(home.as_deref(), &path, wanted.rookery, &given);
    let home = home.map(|at| HomeMount { at, shown });
    let temporary_bytes = wanted.temporary_bytes;
    Ok(SandboxSpec {
        project,
        folder,
        write,
        guarded,
        absent,
        state,
        private,
        home,
        tools,
        served: canonical(wanted.served)?,
        temporary_bytes,
    })
}

fn canonical(path: &Path) -> Result<PathBuf, SurveyError> {
    path.canonicalize().map_err(|error: io::Error| SurveyError::Disk(display(path), error.to_string()))
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Resolves a folder that the file names.
fn resolve_named(text: &str, project: &Path, home: Option<&Path>) -> Result<PathBuf, SurveyError> {
    let path = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => project.join(text),
    };
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    let found = found.ok_or_else(|| SurveyError::NoFolder(text.to_owned()))?;
    ensure_no_link(project, &path, &found)?;
    let path = found;
    if path.starts_with(project.join(FOLDER)) {
        return Err(SurveyError::Own(text.to_owned()));
    }
    Ok(path)
}

/// Rejects a path inside the project that leads out through a link: an agent that writes to the project may have created it.
fn ensure_no_link(project: &Path, named: &Path, found: &Path) -> Result<(), SurveyError> {
    let mut walked = PathBuf::new();
    for part in named.components() {
        match part {
            Component::ParentDir => drop(walked.pop()),
            Component::CurDir => {}
            other => walked.push(other),
        }
        let inside = walked.canonicalize().is_ok_and(|real| real != project && real.starts_with(project))
            || walked.parent().is_some_and(|parent| parent.canonicalize().is_ok_and(|real| real.starts_with(project)));
        if inside && walked.is_symlink() {
            return Err(SurveyError::Link(display(&walked), display(found)));
        }
    }
    Ok(())
}

/// Programs and their parts in places that are hidden by default. Folders of the `PATH` that agents can write (`given`) are
/// left out: they are visible anyway, and a link there could lead anywhere.
fn find_tools(home: Option<&Path>, path: &OsStr, rookery: &Path, given: &[&Path]) -> Vec<PathBuf> {
    let is_given = |folder: &Path| {
        let mut real = folder.ancestors().filter_map(|above| above.canonicalize().ok());
        real.any(|above| given.contains(&above.as_path()))
    };
    let on_path = std::env::split_paths(path).filter(|folder| folder.is_absolute() && !is_given(folder));
    let mut all: Vec<PathBuf> = on_path.filter_map(|folder| hidden_tool(home, &folder.canonicalize().ok()?)).collect();
    if let Some(home) = home {
        all.extend(TOOLS.iter().map(|name| home.join(name)).filter(|path| path.exists()));
    }
    all.extend(rookery.canonicalize().ok().filter(|path| is_hidden(home, path)));
    all.sort();
    all.dedup();
    all
}

/// The folders to show for a program in a hidden place; it may be a link to where it is installed.
pub(super) fn hidden_program(home: Option<&Path>, program: &Path) -> Vec<PathBuf> {
    let named = program.parent().and_then(|folder| folder.canonicalize().ok());
    let real = program.canonicalize().ok().and_then(|program| program.parent().map(Path::to_path_buf));
    named.into_iter().chain(real).filter_map(|folder| hidden_tool(home, &folder)).collect()
}

/// The folder to show for a folder of programs: its installation prefix if possible. `None` if it is not hidden.
fn hidden_tool(home: Option<&Path>, folder: &Path) -> Option<PathBuf> {
    if !is_hidden(home, folder) {
        return None;
    }
    let prefix = folder.parent().filter(|_| folder.file_name() == Some(OsStr::new("bin")));
    let below_home = |path: &Path| home.map_or(usize::MAX, |home| depth_below(home, path));
    // Neighbours of `~/bin` and `~/.local/bin` do not belong to the program.
    let whole =
        prefix.filter(|prefix| below_home(prefix) > 0 && !prefix.ends_with(".local") && !prefix.ends_with(".cargo"));
    let shown = whole.unwrap_or(folder);
    // A program directly in the home is no reason to show the whole home.
    (home != Some(shown)).then(|| shown.to_path_buf())
}

fn depth_below(home: &Path, path: &Path) -> usize {
    path.strip_prefix(home)
        .map_or(usize::MAX, |rest| rest.components().filter(|part| matches!(part, Component::Normal(_))).count())
}

fn is_hidden(home: Option<&Path>, path: &Path) -> bool {
    home.is_some_and(|home| path.starts_with(home))
        || ["/tmp", "/var/tmp", "/run"].iter().any(|hidden| path.starts_with(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Disk {
        temp: tempfile::TempDir,
    }

    impl Disk {
        fn new() -> Disk {
            let disk = Disk { temp: tempfile::tempdir().unwrap() };
            for folder in
                ["home/shop/.rookery/run/t/a/served", "home/.nvm/bin", "home/.local/bin", "home/.ssh", "other"]
            {
                fs::create_dir_all(disk.at(folder)).unwrap();
            }
            disk
        }

        fn at(&self, path: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(path)
        }

        fn survey(&self, folder: &str, write: &[&str]) -> Result<SandboxSpec, SurveyError> {
            let paths = [self.at("home/.nvm/bin"), self.at("home/.local/bin"), "/usr/bin".into(), "relative".into()];
            let path = std::env::join_paths(paths).unwrap();
            survey(&SurveyRequest {
                project: &self.at("home/shop"),
                folder: &self.at(folder),
                state: &self.at("home/shop/.rookery/run/t/a"),
                served: &self.at("home/shop/.rookery/run/t/a/served"),
                write: &write.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
                own: &[self.at("home/shop/.rookery/run/t/a/config"), self.at("home/.codex"), self.at("home/.claude")],
                rookery: Path::new("/usr/bin/env"),
                env: &BTreeMap::from([("HOME".into(), self.at("home").into()), ("PATH".into(), path)]),
                temporary_bytes: 1 << 30,
            })
        }
    }

    #[test]
    fn only_tools_of_the_home_are_visible() {
        let disk = Disk::new();
        let spec = disk.survey("home/shop", &[]).unwrap();
        assert_eq!(spec.tools, [disk.at("home/.local/bin"), disk.at("home/.nvm")]);
        let shown = disk.at("home/shop/.rookery/run/t/a/home");
        assert_eq!(spec.home, Some(HomeMount { at: disk.at("home"), shown: shown.clone() }));
        assert_eq!(spec.private, [shown], "missing folders are not listed");
    }

    #[test]
    fn agent_working_in_the_home_can_see_it() {
        let disk = Disk::new();
        assert_eq!(disk.survey("home", &[]).unwrap().home, None);
    }

    #[test]
    fn writable_folders_are_resolved_from_the_project() {
        let disk = Disk::new();
        let absolute = disk.at("other");
        let spec = disk.survey("home/shop", &["../../other", "~/.nvm", absolute.to_str().unwrap()]).unwrap();
        assert_eq!(spec.write, [disk.at("other"), disk.at("home/.nvm"), disk.at("other")]);
        assert_eq!(disk.survey("home/shop", &["build"]), Err(SurveyError::NoFolder("build".into())));
        for own in [".rookery", ".rookery/run", "../shop/.rookery"] {
            assert_eq!(disk.survey("home/shop", &[own]), Err(SurveyError::Own(own.into())));
        }
    }

    #[test]
    fn private_data_is_writable_and_settings_are_guarded() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("home/shop/.rookery/run/t/a/config")).unwrap();
        fs::create_dir_all(disk.at("home/.codex")).unwrap();
        fs::write(disk.at("home/.codex/config.toml"), "").unwrap();
        let spec = disk.survey("home/shop", &[]).unwrap();
        assert_eq!(spec.private[1..], [disk.at("home/shop/.rookery/run/t/a/config"), disk.at("home/.codex")]);
        assert_eq!(spec.guarded, [disk.at("home/.codex/config.toml")]);
        assert!(spec.absent.contains(&disk.at("home/.codex/hooks.json")), "{:?}", spec.absent);
        assert!(!spec.absent.contains(&disk.at("home/.codex/config.toml")), "{:?}", spec.absent);
    }

    #[test]
    fn linked_write_folder_in_the_project_is_rejected() {
        let disk = Disk::new();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/target")).unwrap();
        fs::create_dir(disk.at("home/shop/deep")).unwrap();
        std::os::unix::fs::symlink(disk.at("home"), disk.at("home/shop/deep/up")).unwrap();
        for named in ["target", "./target", "deep/up/.ssh", "../shop/target"] {
            let refused = disk.survey("home/shop", &[named]);
            assert!(matches!(refused, Err(SurveyError::Link(..))), "{named}: {refused:?}");
        }
        std::os::unix::fs::symlink(disk.at("other"), disk.at("home/.nvm/cache")).unwrap();
        assert_eq!(
            disk.survey("home/shop", &["~/.nvm/cache"]).unwrap().write,
            [disk.at("other")],
            "a person's own link"
        );
    }

    #[test]
    fn linked_path_folder_in_the_project_does_not_reveal_its_target() {
        let disk = Disk::new();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/bin")).unwrap();
        let given = disk.at("home/shop");
        let path = std::env::join_paths([disk.at("home/shop/bin"), disk.at("home/shop/bin/deeper")]).unwrap();
        let tools = find_tools(Some(&disk.at("home")), &path, Path::new("/usr/bin/env"), &[&given]);
        assert_eq!(tools, [disk.at("home/.local/bin"), disk.at("home/.nvm")]);
    }

    #[test]
    fn linked_agent_folder_in_the_project_is_rejected() {
        let disk = Disk::new();
        fs::create_dir(disk.at("home/shop/.worktrees")).unwrap();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/.worktrees/fix")).unwrap();
        assert!(matches!(disk.survey("home/shop/.worktrees/fix", &[]), Err(SurveyError::Link(..))));
    }

    #[test]
    fn linked_program_settings_do_not_reveal_their_target() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("home/.claude")).unwrap();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/.claude/agents")).unwrap();
        assert_eq!(disk.survey("home/shop", &[]).unwrap().guarded, Vec::<PathBuf>::new());
    }
}
