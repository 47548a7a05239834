//! What a program can do wrong, done by a real one: the hidden command `rookery mock-agent`, which is told on its input what to
//! do. It prints, and then ends as it was told, or does not.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// What the program does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Misbehaviour {
    /// A line, and how often it is printed.
    pub print: Option<(String, u64)>,
    pub end: ExitMode,
}

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitMode {
    Exit(u8),
    /// As by a fault of its own: nothing is said and nothing is tidied up.
    Crash,
    Hang,
    /// Not even if it is asked to.
    Stubborn,
}

/// Does it. Returns with which code the program is to end, if it is to end by itself.
pub async fn misbehave(told: &Misbehaviour) -> io::Result<i32> {
    if let Some((line, times)) = &told.print {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for _ in 0..*times {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    match told.end {
        ExitMode::Exit(code) => Ok(code.into()),
        ExitMode::Crash => std::process::abort(),
        ExitMode::Hang => std::future::pending().await,
        ExitMode::Stubborn => {
            let mut asked = signal(SignalKind::terminate())?;
            loop {
                asked.recv().await;
            }
        }
    }
}
