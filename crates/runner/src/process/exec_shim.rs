//! What `rookery exec` does: it makes itself a process that dies with whoever started it, and then becomes the program.
//!
//! It stands between the runner and every program because what it does can be done neither by the runner, which would have
//! to do it in a copy of itself, nor by the program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, getppid, setsid};

/// The exit code of a launcher that could not start the program; a shell has the same.
pub const NOT_STARTED: i32 = 127;
/// How it begins to say why.
pub(super) const REASON: &str = "cannot start ";
/// The variable that marks what a program starts, wherever that goes.
pub const MARK: &str = "ROOKERY_LAUNCH";

/// Becomes the program, in a control group if one is given by the file that lets processes in. Returns only if that cannot
/// be.
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

/// Why a program could not be started, in words that [`super::run()`] knows.
pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{REASON}{}: {error}", program.to_string_lossy()))
}

/// From now on this process is ended when the thread that started it is gone.
fn die_with(parent: u32) -> io::Result<()> {
    // A session of its own has no terminal: nothing asks a person for a password, and a signal reaches all of it.
    setsid()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // If it died before that, nobody will tell.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|pid| pid.get().unsigned_abs() != parent) {
        return Err(io::Error::other("whoever started this is gone"));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this is where this crate starts processes")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
