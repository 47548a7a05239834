//! Watches the resource use of a sandbox's process tree, and reports the first limit that it exceeds.
//!
//! Processes in a sandbox cannot leave the tree of the process that we started: the first process of their namespace adopts
//! orphans. The kernel reports the use of each process, so nothing inside the sandbox has to cooperate.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::control_group::ControlGroup;
use super::resources::{Excess, ResourceLimits, SandboxBounds};

const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Several sandboxes share one look at the processes of the machine.
const SNAPSHOT_AGE: Duration = Duration::from_millis(200);
/// Pause between measurements of the folders, in time and as a multiple of the duration of a measurement.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);
const MEASURE_REST: u32 = 20;
/// The clock rate of `/proc`.
const TICKS_PER_SECOND: u64 = 100;
const USUAL_PAGE_BYTES: u64 = 4096;
const BLOCK_BYTES: u64 = 512;

/// Returns when the tree of a process exceeds a limit, or the kernel has enforced one on its control group.
pub(super) async fn excess(first: i32, bounds: SandboxBounds, group: Option<&ControlGroup>) -> Excess {
    let SandboxBounds { limits, folders, except } = bounds;
    let folders = Arc::new(Folders { roots: folders, except });
    let mut disk = DiskWatch::begin(folders, limits.disk).await;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if let Some(excess) = group.and_then(ControlGroup::excess) {
            return excess;
        }
        let used = tokio::task::spawn_blocking(move || ResourceUsage::of_tree(first, limits.memory)).await;
        if let Ok(Some(excess)) = used.map(|used| used.excess(&limits)) {
            return excess;
        }
        if disk.exceeds_limit().await {
            return Excess::Disk(limits.disk);
        }
    }
}

/// Resources that a process tree uses at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ResourceUsage {
    processes: u64,
    threads: u64,
    memory: u64,
    cpu: Duration,
}

impl ResourceUsage {
    /// Above `precise_from` bytes, shared memory is counted once, which takes longer.
    fn of_tree(first: i32, precise_from: u64) -> ResourceUsage {
        let all = snapshot();
        let tree = tree(first, &all);
        let mut used = ResourceUsage::of(&tree);
        if used.memory > precise_from {
            used.memory = tree.iter().map(|stat| proportional_bytes(stat.pid).unwrap_or(stat.resident_bytes())).sum();
        }
        used
    }

    fn of(tree: &[&UsageStat]) -> ResourceUsage {
        let sum = |of: fn(&UsageStat) -> u64| tree.iter().map(|stat| of(stat)).fold(0, u64::saturating_add);
        ResourceUsage {
            processes: tree.len() as u64,
            threads: sum(|stat| stat.threads),
            memory: sum(UsageStat::resident_bytes),
            cpu: Duration::from_millis(sum(|stat| stat.ticks).saturating_mul(1000 / TICKS_PER_SECOND)),
        }
    }

    fn excess(&self, limits: &ResourceLimits) -> Option<Excess> {
        if self.processes > limits.processes {
            Some(Excess::Processes(limits.processes))
        } else if self.threads > limits.threads() {
            Some(Excess::Threads(limits.threads()))
        } else if self.memory > limits.memory {
            Some(Excess::Memory(limits.memory))
        } else if self.cpu > limits.cpu_time {
            Some(Excess::CpuTime(limits.cpu_time))
        } else {
            None
        }
    }
}

/// Collects a process and all its descendants.
fn tree(first: i32, all: &[UsageStat]) -> Vec<&UsageStat> {
    let mut children: HashMap<i32, Vec<&UsageStat>> = HashMap::new();
    all.iter().for_each(|stat| children.entry(stat.parent).or_default().push(stat));
    let mut tree: Vec<&UsageStat> = all.iter().filter(|stat| stat.pid == first).collect();
    let (mut at, mut seen) = (0, HashSet::from([first]));
    while let Some(stat) = tree.get(at).copied() {
        let new = children.get(&stat.pid).into_iter().flatten().filter(|child| seen.insert(child.pid));
        tree.extend(new);
        at += 1;
    }
    tree
}

/// The part of `/proc/PID/stat` about resource use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct UsageStat {
    pid: i32,
    parent: i32,
    threads: u64,
    /// CPU time of the process and of the children that it has waited for.
    ticks: u64,
    resident_pages: u64,
}

impl UsageStat {
    fn parse(pid: i32, line: &str) -> Option<UsageStat> {
        // The name of the program comes first, in parentheses, and may contain any character.
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = (11..=14).map(number).sum::<Option<u64>>()?;
        Some(UsageStat {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            threads: number(17)?,
            ticks,
            resident_pages: number(21)?,
        })
    }

    fn resident_bytes(&self) -> u64 {
        self.resident_pages.saturating_mul(page_bytes())
    }
}

fn page_bytes() -> u64 {
    static PAGE_BYTES: OnceLock<u64> = OnceLock::new();
    *PAGE_BYTES.get_or_init(|| {
        let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let kib = text.lines().find_map(|line| kib(line.strip_prefix("KernelPageSize:")?));
        kib.map_or(USUAL_PAGE_BYTES, |kib| kib << 10)
    })
}

/// The memory of a process, with its share of memory that it shares.
fn proportional_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    text.lines().find_map(|line| kib(line.strip_prefix("Pss:")?)).map(|kib| kib << 10)
}

fn kib(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// All processes of the machine, at most [`SNAPSHOT_AGE`] ago.
fn snapshot() -> Arc<Vec<UsageStat>> {
    static LAST: Mutex<Option<(Instant, Arc<Vec<UsageStat>>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, all)) = &*last
        && at.elapsed() < SNAPSHOT_AGE
    {
        return all.clone();
    }
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let stat = |pid: i32| UsageStat::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let all = Arc::new(pids.filter_map(stat).collect::<Vec<UsageStat>>());
    *last = Some((now(), all.clone()));
    all
}

#[expect(clippy::disallowed_methods, reason = "measures real processes and disks against the real clock")]
fn now() -> Instant {
    Instant::now()
}

/// The folders whose growth is watched.
#[derive(Debug)]
struct Folders {
    roots: Vec<PathBuf>,
    except: PathBuf,
}

impl Folders {
    /// Counts the bytes on disk below all folders, without following links.
    fn measure(&self) -> u64 {
        let apart = |root: &&PathBuf| !self.roots.iter().any(|other| other != *root && self.is_counted_in(other, root));
        self.roots.iter().filter(apart).map(|root| self.measure_below(root)).fold(0, u64::saturating_add)
    }

    fn is_counted_in(&self, other: &Path, root: &Path) -> bool {
        root.starts_with(other) && (!root.starts_with(&self.except) || other.starts_with(&self.except))
    }

    fn measure_below(&self, root: &Path) -> u64 {
        let (mut bytes, mut waiting) = (0_u64, vec![root.to_path_buf()]);
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(found) = entry.metadata() else { continue };
                // Each name of a file with several counts for its part.
                bytes = bytes.saturating_add(found.blocks() * BLOCK_BYTES / found.nlink().max(1));
                let path = entry.path();
                if found.is_dir() && path != self.except {
                    waiting.push(path);
                }
            }
        }
        bytes
    }

    /// Counts the free bytes on the disks of the folders.
    fn free_bytes(&self) -> u64 {
        let free =
            |root: &PathBuf| rustix::fs::statvfs(root).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        self.roots.iter().map(free).fold(0, u64::saturating_add)
    }
}

/// Measures folders periodically, sooner if their disks fill up.
struct DiskWatch {
    folders: Arc<Folders>,
    limit: u64,
    began_with: u64,
    free: u64,
    measured: Instant,
    took: Duration,
}

impl DiskWatch {
    async fn begin(folders: Arc<Folders>, limit: u64) -> DiskWatch {
        let began = now();
        let free = folders.free_bytes();
        let began_with = measure(&folders).await;
        DiskWatch { folders, limit, began_with, free, measured: now(), took: began.elapsed() }
    }

    async fn exceeds_limit(&mut self) -> bool {
        let rested = self.measured.elapsed();
        let is_filling = self.free.saturating_sub(self.folders.free_bytes()) > self.limit / 4;
        let is_due =
            rested >= MEASURE_INTERVAL.max(self.took * MEASURE_REST) || (is_filling && rested >= self.took * 2);
        if !is_due {
            return false;
        }
        let began = now();
        let bytes = measure(&self.folders).await;
        (self.took, self.measured, self.free) = (began.elapsed(), now(), self.folders.free_bytes());
        bytes.saturating_sub(self.began_with) > self.limit
    }
}

async fn measure(folders: &Arc<Folders>) -> u64 {
    let folders = folders.clone();
    tokio::task::spawn_blocking(move || folders.measure()).await.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32) -> UsageStat {
        UsageStat { pid, parent, threads: 2, ticks: 150, resident_pages: 1 }
    }

    #[test]
    fn tree_contains_only_descendants() {
        let all = [stat(1, 0), stat(10, 1), stat(11, 10), stat(12, 11), stat(20, 1), stat(21, 20)];
        let pids: Vec<i32> = tree(10, &all).iter().map(|stat| stat.pid).collect();
        assert_eq!(pids, [10, 11, 12]);
        assert!(tree(99, &all).is_empty());
        let used = ResourceUsage::of(&tree(10, &all));
        assert_eq!((used.processes, used.threads, used.cpu), (3, 6, Duration::from_millis(4_500)));
        assert_eq!(used.memory, 3 * page_bytes());
    }

    #[test]
    fn stat_is_parsed_with_any_program_name() {
        let line = "12 (a) b) S 7 11 10 0 -1 4194304 93 0 0 0 1 2 3 4 20 0 9 0 777 2592768 212 18446744073709551615";
        let wanted = UsageStat { pid: 12, parent: 7, threads: 9, ticks: 10, resident_pages: 212 };
        assert_eq!(UsageStat::parse(12, line), Some(wanted));
        assert_eq!(UsageStat::parse(12, "12 (a) S 1"), None);
    }

    #[test]
    fn snapshot_contains_own_process() {
        let own = std::process::id().cast_signed();
        let used = ResourceUsage::of_tree(own, 0);
        assert!(used.processes >= 1 && used.memory > 1 << 20, "{used:?}");
    }

    #[test]
    fn folders_are_measured_once_without_the_excluded_one() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().to_path_buf();
        let except = root.join(".rookery");
        fs::create_dir_all(except.join("home")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        let at = |roots: &[&Path]| Folders {
            roots: roots.iter().map(|path| path.to_path_buf()).collect(),
            except: except.clone(),
        };
        let home = except.join("home");
        let folders = at(&[&root, &root.join("sub"), &home]);
        let before = folders.measure();
        for path in [root.join("sub/one"), home.join("two"), except.join("not counted")] {
            fs::write(path, vec![1; 1 << 20]).unwrap();
        }
        std::os::unix::fs::symlink("/usr", root.join("link")).unwrap();
        let grown = folders.measure() - before;
        assert!((2 << 20..(2 << 20) + (64 << 10)).contains(&grown), "{grown}");
    }

    #[test]
    fn excess_is_the_first_exceeded_limit() {
        let limits = ResourceLimits::new(&crate::file::SandboxLimits {
            processes: Some(20),
            memory: Some(1 << 30),
            cpu_time: Some(Duration::from_secs(1)),
            ..Default::default()
        });
        let fine = ResourceUsage { processes: 20, threads: 40, memory: 1 << 30, cpu: Duration::from_secs(1) };
        assert_eq!(fine.excess(&limits), None);
        assert_eq!(ResourceUsage { processes: 21, ..fine }.excess(&limits), Some(Excess::Processes(20)));
        assert_eq!(ResourceUsage { threads: 321, ..fine }.excess(&limits), Some(Excess::Threads(320)));
        assert_eq!(ResourceUsage { memory: (1 << 30) + 1, ..fine }.excess(&limits), Some(Excess::Memory(1 << 30)));
        let long = ResourceUsage { cpu: Duration::from_secs(2), ..fine };
        assert_eq!(long.excess(&limits), Some(Excess::CpuTime(Duration::from_secs(1))));
    }
}
