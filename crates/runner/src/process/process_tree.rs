//! The process tree of a program: finding and ending everything that the program started.
//!
//! A process is a member if it is in the session of the process that we started, or carries our mark in its environment. The
//! kernel does not reuse the number of a session while the session has members, so a session is ours as long as its first
//! process lives or one of its members carries the mark. Otherwise it is left alone. Before a signal is sent, the process is
//! held by a file descriptor and checked, so that the signal cannot reach another process that got the same number.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::exec_shim::MARK;

/// Time that a program has to end after it was asked to.
pub const GRACE: Duration = Duration::from_secs(5);
/// Time to wait for killed processes: one that hangs in the kernel must not block a team.
const KILL_WAIT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Identifies a process tree on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProcessTree {
    /// The mark in the environment of all members, unless they removed it.
    pub mark: String,
    /// The process that we started, the first of its session; `None` before that.
    pub first: Option<ProcessId>,
}

/// A process, distinct from earlier and later processes with the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProcessId {
    pub pid: i32,
    /// Ticks since the machine was started.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this number at present.
    pub(super) fn of(pid: u32) -> Option<ProcessId> {
        ProcessId::of_number(i32::try_from(pid).ok()?)
    }

    fn of_number(pid: i32) -> Option<ProcessId> {
        Some(ProcessId { pid, started: ProcessStat::read(pid)?.started })
    }
}

/// Selects the processes that get the request to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TerminationScope {
    All,
    /// Leaves out the first process, if it is a sandbox: when it ends, the kernel kills the others at once.
    AllButFirst,
}

impl ProcessTree {
    /// Creates an empty tree with a new mark.
    pub(super) fn new() -> ProcessTree {
        ProcessTree { mark: format!("{:032x}", rand::random::<u128>()), first: None }
    }

    /// Lists the members that are alive.
    pub(super) fn members(&self) -> Vec<ProcessId> {
        let (mut ours, mut of_session) = (Vec::new(), Vec::new());
        // Also true for a zombie, which still keeps the number of the session.
        let mut session_is_ours = self.first.is_some_and(|first| ProcessId::of_number(first.pid) == Some(first));
        let own = std::process::id().cast_signed();
        for pid in process_numbers().filter(|pid| *pid != own) {
            let Some(stat) = ProcessStat::read(pid).filter(|stat| stat.is_alive) else { continue };
            let process = ProcessId { pid, started: stat.started };
            let in_session = self.first.is_some_and(|first| first.pid == stat.session);
            if self.first == Some(process) || has_mark(pid, &self.mark) {
                session_is_ours |= in_session;
                ours.push(process);
            } else if in_session {
                of_session.push(process);
            }
        }
        if session_is_ours {
            ours.append(&mut of_session);
        }
        ours
    }

    /// Ends all members: asks them, waits for [`GRACE`], then kills them. Returns how many there were.
    pub(super) async fn end(&self, scope: TerminationScope) -> usize {
        let members = self.members();
        if members.is_empty() {
            return 0;
        }
        let asked = members.iter().filter(|process| scope == TerminationScope::All || Some(**process) != self.first);
        // A stopped process handles the request only after it is continued.
        asked.for_each(|process| {
            [Signal::TERM, Signal::CONT].into_iter().for_each(|signal| signal_process(*process, signal))
        });
        if !self.gone_within(GRACE).await {
            self.kill();
            // Repeated, for processes that were being started meanwhile.
            let killing = async {
                while !self.members().is_empty() {
                    self.kill();
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            };
            drop(tokio::time::timeout(KILL_WAIT, killing).await);
        }
        members.len()
    }

    /// Kills the first process. If it is a sandbox, everything in it ends too.
    pub(super) fn kill_first(&self) {
        self.first.into_iter().for_each(|first| signal_process(first, Signal::KILL));
    }

    /// Kills all members at once.
    pub(super) fn kill(&self) {
        self.members().into_iter().for_each(|process| signal_process(process, Signal::KILL));
    }

    async fn gone_within(&self, time: Duration) -> bool {
        let gone = async {
            while !self.members().is_empty() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(time, gone).await.is_ok()
    }
}

/// Identifies the boot of the machine: process numbers mean nothing in another one.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Whether the process with this start time is alive on this boot of the machine. True if the boot cannot be determined.
pub fn is_alive(boot: &str, pid: u32, started: u64) -> bool {
    let Ok(current) = boot_id() else { return true };
    let stat = || i32::try_from(pid).ok().and_then(ProcessStat::read);
    current == boot && stat().is_some_and(|stat| stat.is_alive && stat.started == started)
}

fn process_numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_mark(pid: i32, mark: &str) -> bool {
    // The environment of another user's process is unreadable, and such a process is not ours.
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{MARK}={mark}");
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Signals exactly this process.
#[cfg(target_os = "linux")]
fn signal_process(process: ProcessId, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(held) = Pid::from_raw(process.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    if ProcessStat::read(process.pid).is_some_and(|stat| stat.started == process.started) {
        // The process may have ended meanwhile.
        pidfd_send_signal(held, signal).ok();
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_process(process: ProcessId, signal: Signal) {
    if ProcessStat::read(process.pid).is_some_and(|stat| stat.started == process.started) {
        // The process may have ended meanwhile.
        Pid::from_raw(process.pid).and_then(|pid| rustix::process::kill_process(pid, signal).ok());
    }
}

/// The part of `/proc/PID/stat` that identifies a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    is_alive: bool,
    session: i32,
    started: u64,
}

impl ProcessStat {
    fn read(pid: i32) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<ProcessStat> {
        // The name of the program comes first, in parentheses, and may contain any character.
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(ProcessStat { is_alive: !matches!(state, "Z" | "X" | "x"), session, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_whatever_the_program_is_called() {
        let line = "12 (a) b) S 1 11 10 0 -1 4194304 93 0 0 0 0 0 0 0 20 0 1 0 777 2592768 212 18446744073709551615";
        assert_eq!(ProcessStat::parse(line), Some(ProcessStat { is_alive: true, session: 10, started: 777 }));
        let zombie = line.replace(" S ", " Z ");
        assert!(!ProcessStat::parse(&zombie).unwrap().is_alive);
        for bad in ["", "12 (a", "12 (a) S 1", "12 (a) S x y z"] {
            assert_eq!(ProcessStat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn own_process_is_found_and_never_a_member() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert_eq!(ProcessId::of(std::process::id()), Some(own), "it is the same as before");
        let process_tree = ProcessTree { mark: ProcessTree::new().mark, first: Some(own) };
        assert!(!process_tree.members().contains(&own));
        assert_ne!(ProcessTree::new(), ProcessTree::new());
    }

    #[test]
    fn process_is_alive_only_with_its_boot_and_start_time() {
        let (own, boot) = (ProcessId::of(std::process::id()).unwrap(), boot_id().unwrap());
        assert!(is_alive(&boot, std::process::id(), own.started));
        assert!(!is_alive(&boot, std::process::id(), own.started + 1));
        assert!(!is_alive("another", std::process::id(), own.started));
        assert!(!is_alive(&boot, u32::MAX, own.started));
    }

    #[test]
    fn reused_process_number_is_not_a_member() {
        // Process 1 is alive, but did not start at that time.
        let other = ProcessId { pid: 1, started: u64::MAX };
        let process_tree = ProcessTree { mark: ProcessTree::new().mark, first: Some(other) };
        assert_eq!(process_tree.members(), []);
        signal_process(other, Signal::KILL);
        assert!(ProcessId::of(1).is_some());
    }
}
