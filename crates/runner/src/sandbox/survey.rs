//! Looks up on the disk what a sandbox is made of.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::spec::{FOLDER, Home, Plan};

/// Where tools live in a home, besides those on the `PATH`: toolchains that others lead to, and how git is set up.
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

/// What is in the folder of an agent's program that a person's own use of it would run or go by.
const OF_PROGRAMS: &[&str] = &[
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

/// What of that a program makes by itself when it is started for the first time, so that it says nothing about an agent.
const MADE_BY_ITSELF: &[&str] = &["extensions", "plugins"];

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct SurveyRequest<'a> {
    pub project: &'a Path,
    pub folder: &'a Path,
    pub state: &'a Path,
    pub served: &'a Path,
    /// As the file says them: from the project, or from `~`, or absolute.
    pub write: &'a [String],
    /// What the agent's program keeps its own things in: in its state, or in the person's home, if it is there.
    pub own: &'a [PathBuf],
    /// Our own program.
    pub rookery: &'a Path,
    /// Of the runner.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// How much fits into each of its temporary folders.
    pub temporary_bytes: u64,
}

/// Why there can be no such sandbox.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Impossible {
    #[error("there is no folder `{0}` to write to; make it, or take it out of `sandbox: write`")]
    NoFolder(String),
    #[error("`{0}` is Rookery's own; take it out of `sandbox: write`")]
    Own(String),
    #[error("a link leads from {0} to {1}; agents write there and could change it, so name the folder itself")]
    Link(String, String),
    #[error("cannot look at {0}: {1}")]
    Disk(String, String),
}

pub(super) fn survey(wanted: &SurveyRequest<'_>) -> Result<Plan, Impossible> {
    let project = real(wanted.project)?;
    let folder = real(wanted.folder)?;
    follows_no_link(&project, wanted.folder, &folder)?;
    let variable = |name: &str| wanted.env.get(OsStr::new(name));
    let home = variable("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    let mut write = Vec::new();
    for text in wanted.write {
        write.push(named(text, &project, home.as_deref())?);
    }
    let state = real(wanted.state)?;
    let shown = state.join("home");
    fs::create_dir_all(&shown).map_err(|error| Impossible::Disk(shown_as(&shown), error.to_string()))?;
    let (mut private, mut guarded, mut absent) = (vec![shown.clone()], Vec::new(), Vec::new());
    for path in wanted.own {
        // What of the home is not there yet comes to be in the agent's own.
        let Ok(path) = path.canonicalize() else { continue };
        if !path.starts_with(&state) {
            let (there, not): (Vec<PathBuf>, Vec<PathBuf>) =
                OF_PROGRAMS.iter().map(|name| path.join(name)).partition(|path| path.exists());
            // The agent may have made a link, and showing its target would show any file of the person's.
            guarded.extend(there.into_iter().filter(|path| !path.is_symlink()));
            absent.extend(not.into_iter().filter(|path| !MADE_BY_ITSELF.iter().any(|name| path.ends_with(name))));
        }
        private.push(path);
    }
    // One who works in the home itself, or above it, is shown it.
    let home = home.filter(|home| !home.starts_with(&folder) && home.parent().is_some());
    let path = variable("PATH").cloned().unwrap_or_default();
    let given: Vec<&Path> = write.iter().chain([&project, &folder]).map(PathBuf::as_path).collect();
    let tools = tools(home.as_deref(), &path, wanted.rookery, &given);
    let home = home.map(|at| Home { at, shown });
    let temporary_bytes = wanted.temporary_bytes;
    Ok(Plan {
        project,
        folder,
        write,
        guarded,
        absent,
        state,
        private,
        home,
        tools,
        served: real(wanted.served)?,
        temporary_bytes,
    })
}

fn real(path: &Path) -> Result<PathBuf, Impossible> {
    path.canonicalize().map_err(|error: io::Error| Impossible::Disk(shown_as(path), error.to_string()))
}

fn shown_as(path: &Path) -> String {
    path.display().to_string()
}

/// A folder that the file names.
fn named(text: &str, project: &Path, home: Option<&Path>) -> Result<PathBuf, Impossible> {
    let path = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => project.join(text),
    };
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    let found = found.ok_or_else(|| Impossible::NoFolder(text.to_owned()))?;
    follows_no_link(project, &path, &found)?;
    let path = found;
    if path.starts_with(project.join(FOLDER)) {
        return Err(Impossible::Own(text.to_owned()));
    }
    Ok(path)
}

/// Refuses a path inside the project that a link leads out of: an agent that writes to the project may have made that link.
fn follows_no_link(project: &Path, named: &Path, found: &Path) -> Result<(), Impossible> {
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
            return Err(Impossible::Link(shown_as(&walked), shown_as(found)));
        }
    }
    Ok(())
}

/// Programs and what belongs to them in places that are not shown. Folders of the `PATH` that agents can write (`given`) are
/// left out: they are shown anyway, and a link there could lead to anything.
fn tools(home: Option<&Path>, path: &OsStr, rookery: &Path, given: &[&Path]) -> Vec<PathBuf> {
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

/// A program that would be hidden, with what is beside it; it may be a link to where it is installed.
pub(super) fn hidden_program(home: Option<&Path>, program: &Path) -> Vec<PathBuf> {
    let named = program.parent().and_then(|folder| folder.canonicalize().ok());
    let real = program.canonicalize().ok().and_then(|program| program.parent().map(Path::to_path_buf));
    named.into_iter().chain(real).filter_map(|folder| hidden_tool(home, &folder)).collect()
}

/// The folder of programs, with what is installed beside it, if it would be hidden.
fn hidden_tool(home: Option<&Path>, folder: &Path) -> Option<PathBuf> {
    if !is_hidden(home, folder) {
        return None;
    }
    let prefix = folder.parent().filter(|_| folder.file_name() == Some(OsStr::new("bin")));
    let below_home = |path: &Path| home.map_or(usize::MAX, |home| depth_below(home, path));
    // What is beside `~/bin` and `~/.local/bin` is none of a program's business.
    let whole =
        prefix.filter(|prefix| below_home(prefix) > 0 && !prefix.ends_with(".local") && !prefix.ends_with(".cargo"));
    let shown = whole.unwrap_or(folder);
    // A program that lies in the home itself is no reason to show all of it.
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

        fn survey(&self, folder: &str, write: &[&str]) -> Result<Plan, Impossible> {
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
    fn of_a_home_only_tools_are_shown() {
        let disk = Disk::new();
        let plan = disk.survey("home/shop", &[]).unwrap();
        assert_eq!(plan.tools, [disk.at("home/.local/bin"), disk.at("home/.nvm")]);
        let shown = disk.at("home/shop/.rookery/run/t/a/home");
        assert_eq!(plan.home, Some(Home { at: disk.at("home"), shown: shown.clone() }));
        assert_eq!(plan.private, [shown], "what is not there is not shown");
    }

    #[test]
    fn one_who_works_in_the_home_is_shown_it() {
        let disk = Disk::new();
        assert_eq!(disk.survey("home", &[]).unwrap().home, None);
    }

    #[test]
    fn folders_to_write_are_named_from_the_project() {
        let disk = Disk::new();
        let absolute = disk.at("other");
        let plan = disk.survey("home/shop", &["../../other", "~/.nvm", absolute.to_str().unwrap()]).unwrap();
        assert_eq!(plan.write, [disk.at("other"), disk.at("home/.nvm"), disk.at("other")]);
        assert_eq!(disk.survey("home/shop", &["build"]), Err(Impossible::NoFolder("build".into())));
        for own in [".rookery", ".rookery/run", "../shop/.rookery"] {
            assert_eq!(disk.survey("home/shop", &[own]), Err(Impossible::Own(own.into())));
        }
    }

    #[test]
    fn a_program_keeps_its_own_things_and_its_settings_stay_as_they_are() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("home/shop/.rookery/run/t/a/config")).unwrap();
        fs::create_dir_all(disk.at("home/.codex")).unwrap();
        fs::write(disk.at("home/.codex/config.toml"), "").unwrap();
        let plan = disk.survey("home/shop", &[]).unwrap();
        assert_eq!(plan.private[1..], [disk.at("home/shop/.rookery/run/t/a/config"), disk.at("home/.codex")]);
        assert_eq!(plan.guarded, [disk.at("home/.codex/config.toml")]);
        assert!(plan.absent.contains(&disk.at("home/.codex/hooks.json")), "{:?}", plan.absent);
        assert!(!plan.absent.contains(&disk.at("home/.codex/config.toml")), "{:?}", plan.absent);
    }

    #[test]
    fn linked_write_folder_in_the_project_is_refused() {
        let disk = Disk::new();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/target")).unwrap();
        fs::create_dir(disk.at("home/shop/deep")).unwrap();
        std::os::unix::fs::symlink(disk.at("home"), disk.at("home/shop/deep/up")).unwrap();
        for named in ["target", "./target", "deep/up/.ssh", "../shop/target"] {
            let refused = disk.survey("home/shop", &[named]);
            assert!(matches!(refused, Err(Impossible::Link(..))), "{named}: {refused:?}");
        }
        std::os::unix::fs::symlink(disk.at("other"), disk.at("home/.nvm/cache")).unwrap();
        assert_eq!(
            disk.survey("home/shop", &["~/.nvm/cache"]).unwrap().write,
            [disk.at("other")],
            "a person's own link"
        );
    }

    #[test]
    fn linked_path_folder_in_the_project_does_not_show_its_target() {
        let disk = Disk::new();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/bin")).unwrap();
        let given = disk.at("home/shop");
        let path = std::env::join_paths([disk.at("home/shop/bin"), disk.at("home/shop/bin/deeper")]).unwrap();
        let tools = tools(Some(&disk.at("home")), &path, Path::new("/usr/bin/env"), &[&given]);
        assert_eq!(tools, [disk.at("home/.local/bin"), disk.at("home/.nvm")]);
    }

    #[test]
    fn linked_agent_folder_in_the_project_is_refused() {
        let disk = Disk::new();
        fs::create_dir(disk.at("home/shop/.worktrees")).unwrap();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/shop/.worktrees/fix")).unwrap();
        assert!(matches!(disk.survey("home/shop/.worktrees/fix", &[]), Err(Impossible::Link(..))));
    }

    #[test]
    fn linked_settings_of_a_program_do_not_show_their_target() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("home/.claude")).unwrap();
        std::os::unix::fs::symlink(disk.at("home/.ssh"), disk.at("home/.claude/agents")).unwrap();
        assert_eq!(disk.survey("home/shop", &[]).unwrap().guarded, Vec::<PathBuf>::new());
    }
}
