//! What a sandbox shows of the machine, as data, and the arguments of bubblewrap that make it so.
//!
//! Everything here is pure: what is on the disk was looked up before ([`super::survey`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a sandbox finds what the runner serves it.
pub(super) const SERVED: &str = "/run/rookery";
pub(super) const EGRESS: &str = "egress.sock";
pub(super) const DAEMON: &str = "daemon.sock";
pub(super) const DAEMON_FILE: &str = "daemon.json";
/// Tells git inside to ignore the project's own folder, as the one outside does.
pub(super) const IGNORE_FILE: &str = ".gitignore";

/// What of the machine's folders an agent sees. All paths are absolute, exist, and have no links in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// The folder of the project, to read.
    pub project: PathBuf,
    /// The agent's own folder, to write.
    pub folder: PathBuf,
    /// Other folders to write: those that the file names, and what git needs of a worktree.
    pub write: Vec<PathBuf>,
    /// Parts of what can be written that are only to be read: what a person's own git or agent would run or go by.
    pub guarded: Vec<PathBuf>,
    /// What would be such a part, if it were there. Nothing that is not there can be shown to be read.
    pub absent: Vec<PathBuf>,
    /// What the runner keeps for the agent, to read.
    pub state: PathBuf,
    /// What the agent's programs keep their own things in, there and elsewhere, to write.
    pub private: Vec<PathBuf>,
    /// The person's own home, which is not shown, and what stands in its place.
    pub home: Option<Home>,
    /// Programs and their parts that would be hidden otherwise, to read.
    pub tools: Vec<PathBuf>,
    /// What the runner serves.
    pub served: PathBuf,
    /// How much fits into each temporary folder. They are kept in memory.
    pub temporary_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Home {
    pub at: PathBuf,
    /// The agent's own.
    pub shown: PathBuf,
}

/// What is to be seen at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PathVisibility {
    Read(PathBuf),
    Write(PathBuf),
    /// An empty folder, gone with the sandbox.
    Empty,
    /// The same, and it stays empty.
    Hidden,
    /// Devices that do no harm.
    Devices,
    /// The sandbox's own processes.
    Processes,
}

impl Plan {
    /// The arguments that make the sandbox, up to the program's own.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = BEGINNING.iter().map(Into::into).collect();
        let sights = self.sights();
        // Folders come before what is in them, so that what is deeper is seen.
        for (at, sight) in &sights {
            match sight {
                PathVisibility::Read(from) => all.extend([OsString::from("--ro-bind"), from.into(), at.into()]),
                PathVisibility::Write(from) => all.extend([OsString::from("--bind"), from.into(), at.into()]),
                PathVisibility::Empty | PathVisibility::Hidden => {
                    let bytes = if *sight == PathVisibility::Empty { self.temporary_bytes } else { HIDDEN_BYTES };
                    let bytes = bytes.to_string().into();
                    all.extend([OsString::from("--size"), bytes, OsString::from("--tmpfs"), at.into()]);
                }
                PathVisibility::Devices => all.extend([OsString::from("--dev"), at.into()]),
                PathVisibility::Processes => all.extend([OsString::from("--proc"), at.into()]),
            }
        }
        // The folder of devices is kept in memory too, and has no bound.
        let hidden =
            sights.iter().filter(|(_, sight)| matches!(sight, PathVisibility::Hidden | PathVisibility::Devices));
        hidden.for_each(|(at, _)| all.extend([OsString::from("--remount-ro"), at.into()]));
        all.extend([OsString::from("--chdir"), OsString::from(&self.folder), OsString::from("--")]);
        all
    }

    fn sights(&self) -> BTreeMap<PathBuf, PathVisibility> {
        let mut sights = BTreeMap::new();
        let read = |path: &PathBuf| (path.clone(), PathVisibility::Read(path.clone()));
        let write = |path: &PathBuf| (path.clone(), PathVisibility::Write(path.clone()));
        // What comes later wins.
        sights.extend(EMPTY.iter().map(|path| (PathBuf::from(path), PathVisibility::Empty)));
        sights.extend(self.home.iter().map(|home| (home.at.clone(), PathVisibility::Write(home.shown.clone()))));
        sights.extend(self.tools.iter().map(read));
        sights.extend([read(&self.project)]);
        sights.extend(self.write.iter().map(write));
        sights.extend([write(&self.folder)]);
        sights.extend(self.private.iter().map(write));
        sights.extend([("/dev".into(), PathVisibility::Devices), ("/proc".into(), PathVisibility::Processes)]);
        sights.extend(self.guarded.iter().map(read));
        let own = self.project.join(FOLDER);
        sights.retain(|path, _| !path.starts_with(&own) || self.is_given(path));
        sights.insert(own.clone(), PathVisibility::Hidden);
        sights.extend([read(&self.state)]);
        sights.extend(self.private.iter().map(write));
        sights.insert(PathBuf::from(SERVED), PathVisibility::Read(self.served.clone()));
        for name in [DAEMON_FILE, IGNORE_FILE] {
            sights.insert(own.join(name), PathVisibility::Read(self.served.join(name)));
        }
        sights
    }

    /// Whether a path is in what the agent may write.
    pub(super) fn writes(&self, path: &Path) -> bool {
        path.starts_with(&self.folder) || self.write.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether a folder in what is hidden is the agent's all the same.
    fn is_given(&self, path: &Path) -> bool {
        path.starts_with(&self.folder)
    }
}

/// The project's own folder: its key and its store are in it.
pub(super) const FOLDER: &str = ".rookery";

/// A machine of its own in all but its files, which are the machine's, to read.
const BEGINNING: &[&str] = &[
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

/// Where programs leave what others could reach them by: sockets can be used wherever they can be seen.
const EMPTY: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Enough for the names of what is shown in a folder that is hidden otherwise.
const HIDDEN_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            project: "/home/ann/shop".into(),
            folder: "/home/ann/shop".into(),
            write: vec![],
            guarded: vec!["/home/ann/shop/.git/hooks".into()],
            absent: vec![],
            state: "/home/ann/shop/.rookery/run/t/coder".into(),
            private: vec!["/home/ann/shop/.rookery/run/t/coder/home".into()],
            home: Some(Home { at: "/home/ann".into(), shown: "/home/ann/shop/.rookery/run/t/coder/home".into() }),
            tools: vec!["/home/ann/.nvm".into()],
            served: "/home/ann/shop/.rookery/run/t/coder/served".into(),
            temporary_bytes: 1000,
        }
    }

    /// The mounts, in their order.
    fn mounts(plan: &Plan) -> Vec<String> {
        let arguments: Vec<String> =
            plan.arguments().iter().skip(BEGINNING.len()).map(|text| text.to_string_lossy().into_owned()).collect();
        let text = arguments.join(" ").replace(" --tmpfs", " tmpfs");
        let lines = text.split(" --").map(|line| line.trim_start_matches("--").replace("/home/ann/shop", "P"));
        lines.map(|line| line.replace("/home/ann", "H")).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn an_agent_in_the_project_writes_there_and_sees_neither_the_key_nor_the_home() {
        assert_eq!(
            mounts(&plan()),
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
    fn an_agent_in_a_worktree_only_reads_the_project() {
        let worktree = PathBuf::from("/home/ann/shop/.worktrees/fix");
        let plan = Plan { folder: worktree, write: vec!["/home/ann/shop/.git".into()], ..plan() };
        let mounts = mounts(&plan);
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
    fn nothing_that_is_given_uncovers_the_key() {
        let whole = Plan { write: vec!["/home/ann".into(), "/home/ann/shop/.rookery".into(), "/".into()], ..plan() };
        let mounts = mounts(&whole);
        let hidden = mounts.iter().position(|mount| mount == "size 1048576 tmpfs P/.rookery").unwrap();
        let above = [" P/.rookery", " P", " H", " /"];
        let uncovering = |mount: &&String| mount.contains("bind ") && above.iter().any(|path| mount.ends_with(path));
        assert_eq!(mounts[hidden + 1..].iter().find(uncovering), None);
        assert_eq!(mounts[0], "bind / /", "and what is deeper is not undone by it");
    }

    #[test]
    fn a_worktree_in_the_hidden_folder_is_the_agents_all_the_same() {
        let plan = Plan { folder: "/home/ann/shop/.rookery/trees/fix".into(), ..plan() };
        let mounts = mounts(&plan);
        assert!(mounts.contains(&"bind P/.rookery/trees/fix P/.rookery/trees/fix".to_owned()), "{mounts:?}");
    }

    #[test]
    fn there_is_no_network_and_no_power_over_the_machine() {
        let arguments = plan().arguments();
        for needed in ["--unshare-net", "--unshare-pid", "--unshare-user", "--die-with-parent", "--cap-drop"] {
            assert!(arguments.contains(&needed.into()), "{needed}");
        }
    }
}
