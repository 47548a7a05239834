//! The mounts of a sandbox as data, and the arguments of bubblewrap that create them.
//!
//! Everything here is pure: the disk was examined before ([`super::survey`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder inside a sandbox with the sockets and files that the runner serves.
pub(super) const SERVED: &str = "/run/rookery";
pub(super) const EGRESS: &str = "egress.sock";
pub(super) const DAEMON: &str = "daemon.sock";
pub(super) const DAEMON_FILE: &str = "daemon.json";
/// Makes git inside ignore the project's `.rookery` folder, as the file outside does.
pub(super) const IGNORE_FILE: &str = ".gitignore";

/// The mounts of an agent's sandbox. All paths are absolute, exist, and contain no links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SandboxSpec {
    /// The project's folder, read only.
    pub project: PathBuf,
    /// The agent's working folder, writable.
    pub folder: PathBuf,
    /// Other writable folders: those that the file names, and those that git needs for a worktree.
    pub write: Vec<PathBuf>,
    /// Read-only parts of the writable folders: files that a person's own git or agent would run or obey.
    pub guarded: Vec<PathBuf>,
    /// Paths that would be guarded if they existed. A missing file cannot be mounted read only.
    pub absent: Vec<PathBuf>,
    /// The runner's folder for the agent, read only.
    pub state: PathBuf,
    /// Folders for the private data of the agent's programs, writable.
    pub private: Vec<PathBuf>,
    /// The user's home, which is hidden, and the folder that replaces it.
    pub home: Option<HomeMount>,
    /// Programs and their parts that would otherwise be hidden, read only.
    pub tools: Vec<PathBuf>,
    /// The folder with the sockets and files that the runner serves.
    pub served: PathBuf,
    /// Size of each temporary folder. They are kept in memory.
    pub temporary_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HomeMount {
    pub at: PathBuf,
    /// The agent's private home.
    pub shown: PathBuf,
}

/// The content of a path inside the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PathVisibility {
    Read(PathBuf),
    Write(PathBuf),
    /// An empty writable folder that ends with the sandbox.
    Empty,
    /// An empty read-only folder.
    Hidden,
    /// Harmless devices.
    Devices,
    /// The sandbox's own processes.
    Processes,
}

impl SandboxSpec {
    /// The arguments that create the sandbox, up to those of the program.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = BASE_ARGUMENTS.iter().map(Into::into).collect();
        let mounts = self.mounts();
        // Outer folders come first, so that mounts inside of them stay visible.
        for (at, visibility) in &mounts {
            match visibility {
                PathVisibility::Read(from) => all.extend([OsString::from("--ro-bind"), from.into(), at.into()]),
                PathVisibility::Write(from) => all.extend([OsString::from("--bind"), from.into(), at.into()]),
                PathVisibility::Empty | PathVisibility::Hidden => {
                    let bytes = if *visibility == PathVisibility::Empty { self.temporary_bytes } else { HIDDEN_BYTES };
                    let bytes = bytes.to_string().into();
                    all.extend([OsString::from("--size"), bytes, OsString::from("--tmpfs"), at.into()]);
                }
                PathVisibility::Devices => all.extend([OsString::from("--dev"), at.into()]),
                PathVisibility::Processes => all.extend([OsString::from("--proc"), at.into()]),
            }
        }
        // The folder of devices is kept in memory too, and its size cannot be limited.
        let hidden = mounts
            .iter()
            .filter(|(_, visibility)| matches!(visibility, PathVisibility::Hidden | PathVisibility::Devices));
        hidden.for_each(|(at, _)| all.extend([OsString::from("--remount-ro"), at.into()]));
        all.extend([OsString::from("--chdir"), OsString::from(&self.folder), OsString::from("--")]);
        all
    }

    fn mounts(&self) -> BTreeMap<PathBuf, PathVisibility> {
        let mut mounts = BTreeMap::new();
        let read = |path: &PathBuf| (path.clone(), PathVisibility::Read(path.clone()));
        let write = |path: &PathBuf| (path.clone(), PathVisibility::Write(path.clone()));
        // Later entries win.
        mounts.extend(EMPTY_FOLDERS.iter().map(|path| (PathBuf::from(path), PathVisibility::Empty)));
        mounts.extend(self.home.iter().map(|home| (home.at.clone(), PathVisibility::Write(home.shown.clone()))));
        mounts.extend(self.tools.iter().map(read));
        mounts.extend([read(&self.project)]);
        mounts.extend(self.write.iter().map(write));
        mounts.extend([write(&self.folder)]);
        mounts.extend(self.private.iter().map(write));
        mounts.extend([("/dev".into(), PathVisibility::Devices), ("/proc".into(), PathVisibility::Processes)]);
        mounts.extend(self.guarded.iter().map(read));
        let own = self.project.join(FOLDER);
        mounts.retain(|path, _| !path.starts_with(&own) || self.is_working_folder(path));
        mounts.insert(own.clone(), PathVisibility::Hidden);
        mounts.extend([read(&self.state)]);
        mounts.extend(self.private.iter().map(write));
        mounts.insert(PathBuf::from(SERVED), PathVisibility::Read(self.served.clone()));
        for name in [DAEMON_FILE, IGNORE_FILE] {
            mounts.insert(own.join(name), PathVisibility::Read(self.served.join(name)));
        }
        mounts
    }

    /// Whether a path is inside a folder that the agent may write.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        path.starts_with(&self.folder) || self.write.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether a path inside the hidden folder belongs to the agent's working folder.
    fn is_working_folder(&self, path: &Path) -> bool {
        path.starts_with(&self.folder)
    }
}

/// The project's folder for Rookery, which holds its key and its store.
pub(super) const FOLDER: &str = ".rookery";

/// Separate namespaces for everything but the files, which are those of the machine, read only.
const BASE_ARGUMENTS: &[&str] = &[
    "--die-with-parent",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
];

/// Folders with sockets of other programs, which could be used wherever they are visible.
const EMPTY_FOLDERS: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Enough for the names of mounts inside a hidden folder.
const HIDDEN_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec {
            project: "/home/ann/shop".into(),
            folder: "/home/ann/shop".into(),
            write: vec![],
            guarded: vec!["/home/ann/shop/.git/hooks".into()],
            absent: vec![],
            state: "/home/ann/shop/.rookery/run/t/coder".into(),
            private: vec!["/home/ann/shop/.rookery/run/t/coder/home".into()],
            home: Some(HomeMount { at: "/home/ann".into(), shown: "/home/ann/shop/.rookery/run/t/coder/home".into() }),
            tools: vec!["/home/ann/.nvm".into()],
            served: "/home/ann/shop/.rookery/run/t/coder/served".into(),
            temporary_bytes: 1000,
        }
    }

    /// The mounts in order.
    fn mounts(spec: &SandboxSpec) -> Vec<String> {
        let arguments: Vec<String> = spec
            .arguments()
            .iter()
            .skip(BASE_ARGUMENTS.len())
            .map(|text| text.to_string_lossy().into_owned())
            .collect();
        let text = arguments.join(" ").replace(" --tmpfs", " tmpfs");
        let lines = text.split(" --").map(|line| line.trim_start_matches("--").replace("/home/ann/shop", "P"));
        lines.map(|line| line.replace("/home/ann", "H")).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn agent_in_the_project_writes_there_and_sees_neither_key_nor_home() {
        assert_eq!(
            mounts(&spec()),
            [
                "dev /dev",
                "size 1000 tmpfs /dev/shm",
                "bind P/.rookery/run/t/coder/home H",
                "ro-bind H/.nvm H/.nvm",
                "bind P P",
                "ro-bind P/.git/hooks P/.git/hooks",
                "size 1048576 tmpfs P/.rookery",
                "ro-bind P/.rookery/run/t/coder/served/.gitignore P/.rookery/.gitignore",
                "ro-bind P/.rookery/run/t/coder/served/daemon.json P/.rookery/daemon.json",
                "ro-bind P/.rookery/run/t/coder P/.rookery/run/t/coder",
                "bind P/.rookery/run/t/coder/home P/.rookery/run/t/coder/home",
                "proc /proc",
                "size 1000 tmpfs /run",
                "ro-bind P/.rookery/run/t/coder/served /run/rookery",
                "size 1000 tmpfs /tmp",
                "size 1000 tmpfs /var/tmp",
                "remount-ro /dev",
                "remount-ro P/.rookery",
                "chdir P",
            ]
        );
    }

    #[test]
    fn agent_in_a_worktree_only_reads_the_project() {
        let worktree = PathBuf::from("/home/ann/shop/.worktrees/fix");
        let spec = SandboxSpec { folder: worktree, write: vec!["/home/ann/shop/.git".into()], ..spec() };
        let mounts = mounts(&spec);
        let at = |wanted: &str| {
            mounts.iter().position(|mount| mount == wanted).unwrap_or_else(|| panic!("{wanted}: {mounts:?}"))
        };
        let project = at("ro-bind P P");
        assert!(project < at("bind P/.worktrees/fix P/.worktrees/fix"));
        assert!(
            project < at("bind P/.git P/.git") && at("bind P/.git P/.git") < at("ro-bind P/.git/hooks P/.git/hooks")
        );
        assert_eq!(mounts.last().unwrap(), "chdir P/.worktrees/fix");
    }

    #[test]
    fn writable_folder_never_uncovers_the_key() {
        let whole =
            SandboxSpec { write: vec!["/home/ann".into(), "/home/ann/shop/.rookery".into(), "/".into()], ..spec() };
        let mounts = mounts(&whole);
        let hidden = mounts.iter().position(|mount| mount == "size 1048576 tmpfs P/.rookery").unwrap();
        let above = [" P/.rookery", " P", " H", " /"];
        let uncovering = |mount: &&String| mount.contains("bind ") && above.iter().any(|path| mount.ends_with(path));
        assert_eq!(mounts[hidden + 1..].iter().find(uncovering), None);
        assert_eq!(mounts[0], "bind / /", "the outer mount comes first and does not cover inner ones");
    }

    #[test]
    fn worktree_in_the_hidden_folder_is_writable() {
        let spec = SandboxSpec { folder: "/home/ann/shop/.rookery/trees/fix".into(), ..spec() };
        let mounts = mounts(&spec);
        assert!(mounts.contains(&"bind P/.rookery/trees/fix P/.rookery/trees/fix".to_owned()), "{mounts:?}");
    }

    #[test]
    fn network_and_capabilities_are_dropped() {
        let arguments = spec().arguments();
        for needed in ["--unshare-net", "--unshare-pid", "--unshare-user", "--die-with-parent", "--cap-drop"] {
            assert!(arguments.contains(&needed.into()), "{needed}");
        }
    }
}
