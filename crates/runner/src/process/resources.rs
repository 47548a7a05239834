//! Resource limits of a sandbox's process tree, in the forms that the kernel and people read.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::file::{SandboxLimits, show_duration, show_size};

const PROCESSES: u64 = 1024;
const DISK_BYTES: u64 = 20 << 30;
const CPU_TIME: Duration = Duration::from_hours(24);
const OPEN_FILES: u64 = 16 << 10;
const FILE_BYTES: u64 = 8 << 30;
/// The default memory limit is half of the machine's memory, but at least this.
const LEAST_MEMORY_BYTES: u64 = 4 << 30;
/// Threads allowed for each allowed process. Most programs have a handful, and a few have a hundred.
const THREADS_PER_PROCESS: u64 = 16;
/// Time between the signal that CPU time is used up and the kill.
const CPU_GRACE_SECONDS: u64 = 5;

/// Limits of a process tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimits {
    pub processes: u64,
    pub memory: u64,
    pub disk: u64,
    pub cpu_time: Duration,
    pub open_files: u64,
    pub file_size: u64,
}

impl ResourceLimits {
    /// Takes the limits of a workflow file, with defaults for the rest.
    pub(crate) fn new(given: &SandboxLimits) -> ResourceLimits {
        ResourceLimits {
            processes: given.processes.unwrap_or(PROCESSES),
            memory: given.memory.unwrap_or_else(|| LEAST_MEMORY_BYTES.max(machine_memory() / 2)),
            disk: given.disk.unwrap_or(DISK_BYTES),
            cpu_time: given.cpu_time.unwrap_or(CPU_TIME),
            open_files: given.open_files.unwrap_or(OPEN_FILES),
            file_size: given.file_size.unwrap_or(FILE_BYTES),
        }
    }

    pub(super) fn threads(&self) -> u64 {
        self.processes.saturating_mul(THREADS_PER_PROCESS)
    }

    /// The limits that the kernel enforces for each process.
    pub(crate) fn of_each_process(&self) -> ProcessLimits {
        ProcessLimits {
            cpu_seconds: self.cpu_time.as_secs().max(1),
            open_files: self.open_files,
            file_size: self.file_size,
            threads: self.threads(),
        }
    }

    /// The limit that a program exceeded, if its exit code is that of a signal that the kernel sends for one.
    pub(super) fn excess_of_code(&self, code: i32) -> Option<Excess> {
        match code - SIGNALLED {
            SIGXCPU => Some(Excess::CpuTime(self.cpu_time)),
            SIGXFSZ => Some(Excess::FileSize(self.file_size)),
            _ => None,
        }
    }
}

/// The offset of signal numbers in exit codes.
const SIGNALLED: i32 = 128;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

fn machine_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

/// A limit that was exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    Processes(u64),
    Threads(u64),
    Memory(u64),
    Disk(u64),
    CpuTime(Duration),
    FileSize(u64),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Excess::Processes(most) => {
                write!(f, "started more than {most} processes (limit `sandbox.limits.processes`)")
            }
            Excess::Threads(most) => write!(f, "started more than {most} threads (limit `sandbox.limits.processes`)"),
            Excess::Memory(most) => {
                write!(f, "used more than {} of memory (limit `sandbox.limits.memory`)", show_size(most))
            }
            Excess::Disk(most) => {
                write!(f, "wrote more than {} in one turn (limit `sandbox.limits.disk`)", show_size(most))
            }
            Excess::CpuTime(most) => {
                write!(f, "used more than {} of CPU time (limit `sandbox.limits.cpu_time`)", show_duration(most))
            }
            Excess::FileSize(most) => {
                write!(f, "wrote a file of more than {} (limit `sandbox.limits.file_size`)", show_size(most))
            }
        }
    }
}

impl Excess {
    /// A suggestion for the user.
    pub fn hint(&self) -> String {
        "raise the limit under `sandbox: limits` in the workflow file if the agent needs more".to_owned()
    }
}

/// Limits of each process. The first process of a sandbox sets them for itself, and all others inherit them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessLimits {
    cpu_seconds: u64,
    open_files: u64,
    file_size: u64,
    threads: u64,
}

impl ProcessLimits {
    /// Sets the limits of this process and of those that it starts.
    pub(crate) fn apply(&self) -> io::Result<()> {
        lower(Resource::Cpu, self.cpu_seconds, self.cpu_seconds.saturating_add(CPU_GRACE_SECONDS))?;
        lower(Resource::Nofile, self.open_files, self.open_files)?;
        lower(Resource::Fsize, self.file_size, self.file_size)?;
        // Counts the processes of the user inside the sandbox. It does not bind root, nor work per sandbox before Linux 5.14.
        #[cfg(target_os = "linux")]
        lower(Resource::Nproc, self.threads, self.threads)?;
        lower(Resource::Core, 0, 0)
    }
}

/// Lowers a limit, unless it is lower already.
fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |now: Option<u64>, wanted: u64| Some(now.map_or(wanted, |now| now.min(wanted)));
    let limit = Rlimit { current: least(now.current, soft), maximum: least(now.maximum, hard) };
    Ok(setrlimit(resource, limit)?)
}

impl fmt::Display for ProcessLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.cpu_seconds, self.open_files, self.file_size, self.threads)
    }
}

impl FromStr for ProcessLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<ProcessLimits, String> {
        let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([cpu_seconds, open_files, file_size, threads]) => Ok(ProcessLimits {
                cpu_seconds: *cpu_seconds,
                open_files: *open_files,
                file_size: *file_size,
                threads: *threads,
            }),
            _ => Err("expected CPU_SECONDS,OPEN_FILES,FILE_BYTES,THREADS".to_owned()),
        }
    }
}

/// The limits of a sandbox, and the folders that its programs write to.
#[derive(Clone, Debug)]
pub(crate) struct SandboxBounds {
    pub limits: ResourceLimits,
    pub folders: Vec<PathBuf>,
    /// A folder that is not measured, because other programs write there.
    pub except: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_limits_have_defaults() {
        let given = SandboxLimits { processes: Some(20), ..SandboxLimits::default() };
        let limits = ResourceLimits::new(&given);
        assert_eq!((limits.processes, limits.disk, limits.open_files), (20, DISK_BYTES, OPEN_FILES));
        assert!(limits.memory >= LEAST_MEMORY_BYTES);
    }

    #[test]
    fn process_limits_round_trip_as_text() {
        let limits = ResourceLimits::new(&SandboxLimits::default()).of_each_process();
        assert_eq!(limits.to_string().parse(), Ok(limits));
        for bad in ["", "1,2,3", "1,2,3,x", "1,2,3,4,5"] {
            assert!(bad.parse::<ProcessLimits>().is_err(), "{bad}");
        }
    }

    #[test]
    fn excess_names_the_exceeded_limit() {
        assert_eq!(
            Excess::Memory(8 << 30).to_string(),
            "used more than 8GiB of memory (limit `sandbox.limits.memory`)"
        );
        let limits = ResourceLimits::new(&SandboxLimits::default());
        assert_eq!(limits.excess_of_code(153), Some(Excess::FileSize(FILE_BYTES)));
        assert_eq!(limits.excess_of_code(1), None);
    }
}
