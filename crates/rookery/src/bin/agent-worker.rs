//! The `agent-worker` command: the program `rookery` beside it, under this name.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const NAME: &str = "agent-worker";
/// What shells answer if there is no such program.
const NOT_FOUND: u8 = 127;

#[expect(clippy::disallowed_methods, reason = "it becomes this program, and starts none")]
#[expect(clippy::print_stderr, reason = "there is nobody else to say it")]
fn main() -> ExitCode {
    let program = rookery();
    let error = Command::new(&program).arg0(NAME).args(std::env::args_os().skip(1)).exec();
    eprintln!(
        "error: cannot start {}: {error}\nhint: put `rookery` beside `{NAME}`, or on the PATH",
        program.display()
    );
    ExitCode::from(NOT_FOUND)
}

/// The one beside this one belongs to it; else whichever is on the PATH.
fn rookery() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("rookery"));
    beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from("rookery"))
}
