//! Control groups (cgroup v2): the kernel's bounds on all processes of a sandbox together.
//!
//! Groups are created only inside one that systemd has delegated (`Delegate=` of a service or scope) and marked with an
//! attribute; groups of other owners are left alone. Without a delegated group, the [watchdog](super::watchdog) alone bounds
//! processes and memory, a moment later than the kernel would.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::process_tree::ProcessId;
use super::resources::{Excess, ResourceLimits};

/// The attribute by which systemd marks a delegated group.
const DELEGATED: &str = "user.delegate";
/// The inner group for the processes that were in the delegated one: a group that has processes cannot bound other groups.
const SUPERVISORS: &str = "rookery-supervisors";
const SANDBOX_PREFIX: &str = "rookery-sandbox-";
const PROCESSES: &str = "cgroup.procs";
/// Maximum passes over a group that is being emptied, since its processes may start others meanwhile.
const MAX_MOVE_PASSES: usize = 10;

/// A group that systemd delegated, with the kinds of limits that groups inside of it can have.
#[derive(Clone, PartialEq, Eq, Debug)]
struct DelegatedGroup {
    folder: PathBuf,
    memory: bool,
    processes: bool,
}

impl DelegatedGroup {
    /// The delegated group of this process. Computed once, because it may move processes inside of the group.
    fn here() -> Option<&'static DelegatedGroup> {
        static HERE: OnceLock<Option<DelegatedGroup>> = OnceLock::new();
        HERE.get_or_init(|| DelegatedGroup::around(&own_group()?)).as_ref()
    }

    fn around(own: &Path) -> Option<DelegatedGroup> {
        let delegated = delegated_around(own)?;
        if delegated == own {
            vacate(delegated).ok()?;
        }
        let [memory, processes] = ["memory", "pids"].map(|controller| enable(delegated, controller));
        Some(DelegatedGroup { folder: delegated.to_path_buf(), memory, processes })
    }
}

/// Lists the resources that the kernel can bound for a whole sandbox. Empty without a delegated group.
pub fn kernel_bounds() -> Vec<&'static str> {
    let delegated = own_group().and_then(|own| delegated_around(&own).map(Path::to_path_buf));
    let available =
        |(controller, _): &(&str, &str)| delegated.as_ref().is_some_and(|group| has_controller(group, controller));
    [("memory", "memory"), ("pids", "processes")].into_iter().filter(available).map(|(_, resource)| resource).collect()
}

/// Returns the group itself or its parent, whichever is delegated.
fn delegated_around(own: &Path) -> Option<&Path> {
    own.ancestors().take(2).find(|folder| is_delegated(folder))
}

/// The folder of the group of this process.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    group_folder(&groups, &mounts)
}

fn group_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        // `join` with an empty path would append a slash.
        kind.starts_with("cgroup2 ").then(|| Path::new(mount).components().chain(below.components()).collect())
    })
}

fn is_delegated(folder: &Path) -> bool {
    let mut value = [0; 1];
    rustix::fs::getxattr(folder, DELEGATED, &mut value).is_ok_and(|length| value[..length] == *b"1")
}

/// Moves all processes of a group into a group inside of it.
fn vacate(group: &Path) -> io::Result<()> {
    let inner = group.join(SUPERVISORS);
    create_folder(&inner)?;
    for _ in 0..MAX_MOVE_PASSES {
        let processes = fs::read_to_string(group.join(PROCESSES))?;
        if processes.is_empty() {
            return Ok(());
        }
        for process in processes.lines() {
            // A process that has ended meanwhile cannot be moved and need not be.
            drop(fs::write(inner.join(PROCESSES), process));
        }
    }
    Err(io::Error::other("the group still has processes"))
}

fn create_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn has_controller(group: &Path, controller: &str) -> bool {
    let available = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    available.split_ascii_whitespace().any(|word| word == controller)
}

/// Enables a controller for the groups inside of a group. Returns whether that worked.
fn enable(group: &Path, controller: &str) -> bool {
    has_controller(group, controller)
        && fs::write(group.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
}

/// The group of one sandbox. Dropping it kills everything in it.
#[derive(Debug)]
pub(super) struct ControlGroup {
    folder: PathBuf,
    limits: ResourceLimits,
}

impl ControlGroup {
    /// Creates a group, if there is a delegated one to create it in.
    pub(super) fn create(limits: ResourceLimits) -> Option<ControlGroup> {
        let delegated = DelegatedGroup::here()?;
        remove_left_over(&delegated.folder);
        ControlGroup::create_in(delegated, limits).ok()
    }

    fn create_in(delegated: &DelegatedGroup, limits: ResourceLimits) -> io::Result<ControlGroup> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = delegated.folder.join(format!("{SANDBOX_PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = ControlGroup { folder, limits };
        if delegated.memory {
            group.set("memory.max", limits.memory)?;
            group.set("memory.oom.group", 1)?;
            // The file is missing on a kernel without swap.
            drop(group.set("memory.swap.max", 0));
        }
        if delegated.processes {
            // The kernel counts threads, not processes.
            group.set("pids.max", limits.threads())?;
        }
        Ok(group)
    }

    fn set(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.folder.join(file), value.to_string())
    }

    /// The file that a process writes to in order to enter the group.
    pub(super) fn entrance(&self) -> PathBuf {
        self.folder.join(PROCESSES)
    }

    /// The limit that the kernel has enforced, if any.
    pub(super) fn excess(&self) -> Option<Excess> {
        if self.count("memory.events", "oom_kill") > 0 {
            Some(Excess::Memory(self.limits.memory))
        } else if self.count("pids.events", "max") > 0 {
            Some(Excess::Threads(self.limits.threads()))
        } else {
            None
        }
    }

    fn count(&self, file: &str, event: &str) -> u64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let counted = text.lines().find_map(|line| line.strip_prefix(event)?.strip_prefix(' ')?.parse().ok());
        counted.unwrap_or(0)
    }

    /// Kills every process of the group at once, including those that are being started.
    pub(super) fn kill(&self) {
        drop(self.set("cgroup.kill", 1));
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.kill();
        // A group remains while its processes end; a later team removes it.
        drop(fs::remove_dir(&self.folder));
    }
}

/// Removes the groups of runners that have ended.
fn remove_left_over(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let runner = name.to_str().and_then(|name| name.strip_prefix(SANDBOX_PREFIX)?.split('-').next()?.parse().ok());
        if runner.is_some_and(|runner| ProcessId::of(runner).is_none()) {
            drop(fs::remove_dir(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::SandboxLimits;

    #[test]
    fn own_group_is_found_below_its_mount() {
        let mounts = "25 1 0:23 / /sys rw - sysfs sysfs rw\n\
                      30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "1:cpu:/old\n0::/user.slice/run-7.scope\n";
        assert_eq!(group_folder(groups, mounts), Some("/sys/fs/cgroup/user.slice/run-7.scope".into()));
        assert_eq!(group_folder("0::/\n", mounts), Some("/sys/fs/cgroup".into()));
        let inner = mounts.replace("0:26 / ", "0:26 /user.slice ");
        assert_eq!(group_folder(groups, &inner), Some("/sys/fs/cgroup/run-7.scope".into()));
        assert_eq!(group_folder("0::/system.slice\n", &inner), None, "it cannot be seen from here");
        assert_eq!(group_folder("4:memory:/x\n", mounts), None);
    }

    #[test]
    fn group_that_is_not_delegated_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(DelegatedGroup::around(folder.path()), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A plain folder stands for the group; files have the names and forms of the kernel's.
    #[test]
    fn group_has_its_limits_and_names_the_one_that_was_exceeded() {
        let folder = tempfile::tempdir().unwrap();
        let delegated = DelegatedGroup { folder: folder.path().into(), memory: true, processes: true };
        let limits = SandboxLimits { processes: Some(20), memory: Some(1 << 20), ..SandboxLimits::default() };
        let limits = ResourceLimits::new(&limits);
        let group = ControlGroup::create_in(&delegated, limits).unwrap();
        let read = |file: &str| fs::read_to_string(group.folder.join(file)).unwrap();
        assert_eq!(
            (read("memory.max"), read("pids.max"), read("memory.swap.max")),
            ("1048576".into(), "320".into(), "0".into())
        );
        assert_eq!(group.excess(), None);
        fs::write(group.folder.join("pids.events"), "max 3\n").unwrap();
        assert_eq!(group.excess(), Some(Excess::Threads(320)));
        fs::write(group.folder.join("memory.events"), "low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\n").unwrap();
        assert_eq!(group.excess(), Some(Excess::Threads(320)), "memory was reclaimed in time");
        fs::write(group.folder.join("memory.events"), "oom 1\noom_kill 2\noom_group_kill 1\n").unwrap();
        assert_eq!(group.excess(), Some(Excess::Memory(1 << 20)));
    }

    #[test]
    fn groups_of_live_runners_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let living = folder.path().join(format!("{SANDBOX_PREFIX}{}-0", std::process::id()));
        let ended = folder.path().join(format!("{SANDBOX_PREFIX}{}-0", u32::MAX));
        let other = folder.path().join("other");
        for group in [&living, &ended, &other] {
            fs::create_dir(group).unwrap();
        }
        remove_left_over(folder.path());
        assert!(living.exists() && other.exists() && !ended.exists());
    }
}
