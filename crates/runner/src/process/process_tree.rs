//! A program and everything that it started: finding them, and ending them.
//!
//! A process is of the family if it is in the session of the process that we started, or carries our mark in its
//! environment. The number of a session is not given away while the session has members, so a session belongs to us as long
//! as its first process lives, or one of its members carries the mark; and if neither is so, nothing is touched. Signals go
//! to a process that was looked at while it was held, so that none reaches another one that got its number.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::exec_shim::MARK;

/// How long a program has to end after it was asked to.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for what was ended by force: a process that hangs in the kernel does not hold up a team.
const FORCED: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// Tells a family from all others on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProcessTree {
    /// What all of its members have in their environment, unless they took it out.
    pub mark: String,
    /// The one that we started, which is the first of its session; unknown until it is started.
    pub first: Option<ProcessId>,
}

/// A process, told from others that had or will have its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProcessId {
    pub pid: i32,
    /// In ticks since the machine was started.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this number now.
    pub(super) fn of(pid: u32) -> Option<ProcessId> {
        ProcessId::of_number(i32::try_from(pid).ok()?)
    }

    fn of_number(pid: i32) -> Option<ProcessId> {
        Some(ProcessId { pid, started: Stat::read(pid)?.started })
    }
}

/// Whether the first process, which may be a sandbox around the others, is asked to end too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    Everybody,
    /// Its end would be the end of the others at once.
    AllButFirst,
}

impl ProcessTree {
    /// A family that nobody belongs to yet.
    pub(super) fn new() -> ProcessTree {
        ProcessTree { mark: format!("{:032x}", rand::random::<u128>()), first: None }
    }

    /// Everybody of it who lives.
    pub(super) fn members(&self) -> Vec<ProcessId> {
        let (mut ours, mut of_session) = (Vec::new(), Vec::new());
        // Also if it has ended and nobody took note of it yet.
        let mut session_is_ours = self.first.is_some_and(|first| ProcessId::of_number(first.pid) == Some(first));
        let own = std::process::id().cast_signed();
        for pid in numbers().filter(|pid| *pid != own) {
            let Some(stat) = Stat::read(pid).filter(|stat| stat.lives) else { continue };
            let process = ProcessId { pid, started: stat.started };
            let in_session = self.first.is_some_and(|first| first.pid == stat.session);
            if self.first == Some(process) || carries(pid, &self.mark) {
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

    /// Ends everybody: asks first, waits a while, then by force. How many there were.
    pub(super) async fn end(&self, ask: Ask) -> usize {
        let members = self.members();
        if members.is_empty() {
            return 0;
        }
        let asked = members.iter().filter(|process| ask == Ask::Everybody || Some(**process) != self.first);
        // A stopped process takes the request only when it goes on.
        asked.for_each(|process| [Signal::TERM, Signal::CONT].into_iter().for_each(|signal| send(*process, signal)));
        if !self.gone_within(GRACE).await {
            self.kill();
            // Those that were being started meanwhile.
            let killing = async {
                while !self.members().is_empty() {
                    self.kill();
                    tokio::time::sleep(POLL).await;
                }
            };
            drop(tokio::time::timeout(FORCED, killing).await);
        }
        members.len()
    }

    /// Ends the first process by force. If it is a sandbox, everybody in it ends with it.
    pub(super) fn kill_first(&self) {
        self.first.into_iter().for_each(|first| send(first, Signal::KILL));
    }

    /// Ends everybody by force, at once.
    pub(super) fn kill(&self) {
        self.members().into_iter().for_each(|process| send(process, Signal::KILL));
    }

    async fn gone_within(&self, time: Duration) -> bool {
        let gone = async {
            while !self.members().is_empty() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(time, gone).await.is_ok()
    }
}

/// Which start of the machine this is: numbers of processes mean nothing in another one.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Whether a process of this machine lives, told from others that had or will have its number. Where that cannot be found
/// out, it is taken to.
pub fn lives(boot: &str, pid: u32, started: u64) -> bool {
    let Ok(current) = boot_id() else { return true };
    let stat = || i32::try_from(pid).ok().and_then(Stat::read);
    current == boot && stat().is_some_and(|stat| stat.lives && stat.started == started)
}

fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn carries(pid: i32, mark: &str) -> bool {
    // Those of other users cannot be read, and are not ours.
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{MARK}={mark}");
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Signals exactly this process.
#[cfg(target_os = "linux")]
fn send(process: ProcessId, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(held) = Pid::from_raw(process.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    if Stat::read(process.pid).is_some_and(|stat| stat.started == process.started) {
        let _it_may_have_ended_meanwhile = pidfd_send_signal(held, signal);
    }
}

#[cfg(not(target_os = "linux"))]
fn send(process: ProcessId, signal: Signal) {
    if Stat::read(process.pid).is_some_and(|stat| stat.started == process.started) {
        let _it_may_have_ended_meanwhile =
            Pid::from_raw(process.pid).map(|pid| rustix::process::kill_process(pid, signal));
    }
}

/// What the system tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    lives: bool,
    session: i32,
    started: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Stat> {
        // The name of the program comes before, in brackets, and may have anything in it.
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(Stat { lives: !matches!(state, "Z" | "X" | "x"), session, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_be_called_anything() {
        let line = "12 (a) b) S 1 11 10 0 -1 4194304 93 0 0 0 0 0 0 0 20 0 1 0 777 2592768 212 18446744073709551615";
        assert_eq!(Stat::parse(line), Some(Stat { lives: true, session: 10, started: 777 }));
        let zombie = line.replace(" S ", " Z ");
        assert!(!Stat::parse(&zombie).unwrap().lives);
        for bad in ["", "12 (a", "12 (a) S 1", "12 (a) S x y z"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_found_and_is_never_its_own_family() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert_eq!(ProcessId::of(std::process::id()), Some(own), "it is the same as before");
        let process_tree = ProcessTree { mark: ProcessTree::new().mark, first: Some(own) };
        assert!(!process_tree.members().contains(&own));
        assert_ne!(ProcessTree::new(), ProcessTree::new());
    }

    #[test]
    fn one_lives_in_this_start_of_the_machine_and_with_its_own_beginning() {
        let (own, boot) = (ProcessId::of(std::process::id()).unwrap(), boot_id().unwrap());
        assert!(lives(&boot, std::process::id(), own.started));
        assert!(!lives(&boot, std::process::id(), own.started + 1));
        assert!(!lives("another", std::process::id(), own.started));
        assert!(!lives(&boot, u32::MAX, own.started));
    }

    #[test]
    fn a_number_that_another_process_has_now_is_nobody() {
        // The first process of the machine lives, and did not start then.
        let other = ProcessId { pid: 1, started: u64::MAX };
        let process_tree = ProcessTree { mark: ProcessTree::new().mark, first: Some(other) };
        assert_eq!(process_tree.members(), []);
        send(other, Signal::KILL);
        assert!(ProcessId::of(1).is_some());
    }
}
