//! The `exec` shim behind `rookery exec`: ties its process to the life of its parent, and then becomes the program.
//!
//! It stands between the runner and every program, because neither can do this work: the runner would have to do it in a
//! copy of itself, and the program is not ours to change.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, getppid, setsid};

/// The exit code when the program could not be started; shells use the same.
pub const NOT_STARTED: i32 = 127;
/// The start of the error line that gives the reason.
pub(super) const REASON: &str = "cannot start ";
/// The environment variable that marks the descendants of a program, wherever they go.
pub const MARK: &str = "ROOKERY_LAUNCH";

/// Becomes the program, after entering the control group whose `cgroup.procs` file is given. Returns only on failure.
pub fn exec(parent: u32, group: Option<&Path>, argv: &[OsString]) -> io::Error {
    if let Some(entrance) = group
        && let Err(error) = fs::write(entrance, "0")
    {
        return io::Error::new(error.kind(), format!("{REASON}in a control group: {error}"));
    }
    if let Err(error) = die_with(parent) {
        return error;
    }
    let Some((program, arguments)) = argv.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start");
    };
    not_started(program, &command(program).args(arguments).exec())
}

/// The error for a program that could not be started, in the form that [`super::run()`] recognises.
pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{REASON}{}: {error}", program.to_string_lossy()))
}

/// Makes the kernel end this process when the thread that started it ends.
fn die_with(parent: u32) -> io::Result<()> {
    // A new session has no terminal: nothing can ask a person for a password, and one signal reaches all of it.
    setsid()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // If the parent died before that, no signal will come.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|pid| pid.get().unsigned_abs() != parent) {
        return Err(io::Error::other("the process that started this one has ended"));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the only place of this crate that creates commands")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
