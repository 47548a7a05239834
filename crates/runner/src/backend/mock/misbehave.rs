//! Misbehaviour of a program, carried out by a real one: the hidden command `rookery mock-agent`, which reads on its input
//! what to do. It prints lines, and then ends or hangs as requested.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// The behaviour of the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Misbehaviour {
    /// A line, and how often to print it.
    pub print: Option<(String, u64)>,
    pub end: ExitMode,
}

/// The way in which the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitMode {
    Exit(u8),
    /// Aborts as after a fault, without output or cleanup.
    Crash,
    Hang,
    /// Hangs, and ignores requests to end.
    Stubborn,
}

/// Misbehaves. Returns the exit code, if the program ends by itself.
pub async fn misbehave(request: &Misbehaviour) -> io::Result<i32> {
    if let Some((line, times)) = &request.print {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for _ in 0..*times {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    match request.end {
        ExitMode::Exit(code) => Ok(code.into()),
        ExitMode::Crash => std::process::abort(),
        ExitMode::Hang => std::future::pending().await,
        ExitMode::Stubborn => {
            let mut requests = signal(SignalKind::terminate())?;
            loop {
                requests.recv().await;
            }
        }
    }
}
