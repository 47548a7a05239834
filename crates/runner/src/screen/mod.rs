//! Shows a running team to a person. On a terminal, each agent has a line that is updated in place ([`AgentTable`]), below the
//! lasting lines. Elsewhere, every report becomes a line ([`lines`]). Nothing is decided here, and a closed terminal does not
//! block the team.

mod agent_table;
mod format;
mod lines;

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::agent_table::{AgentTable, Pieces};
use self::lines::ScreenLine;
use crate::team::report::Report;

/// Interval for updating times on the screen.
const TICK: Duration = Duration::from_millis(200);

/// Options for showing a team.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub manner: Manner,
    /// Whether tool calls and texts of agents are shown.
    pub verbose: bool,
    pub colour: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// On a terminal. `size` returns its current columns and rows.
    Live { size: fn() -> Option<(u16, u16)> },
    /// A line for every report.
    Plain,
    /// Nothing, since only the result matters.
    Quiet,
}

/// Shows reports until there are no more.
pub async fn show(mut reports: mpsc::Receiver<Report>, look: Look, out: &mut (dyn Write + Send)) {
    let mut screen =
        Screen { look, out, board: AgentTable::default(), drawn: 0, drawn_lines: Vec::new(), is_gone: false };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut now = ticks.tick().await;
    loop {
        tokio::select! {
            report = reports.recv() => match report {
                Some(report) => screen.take(&report, now),
                None => break,
            },
            time = ticks.tick() => now = time,
        }
        // Reports that arrived together are drawn together.
        while let Ok(report) = reports.try_recv() {
            screen.take(&report, now);
        }
        screen.draw(now);
    }
    screen.end();
}

struct Screen<'a> {
    look: Look,
    out: &'a mut (dyn Write + Send),
    board: AgentTable,
    /// Number of table lines on the screen.
    drawn: usize,
    /// The content of those lines.
    drawn_lines: Vec<Pieces>,
    /// Whether the terminal was closed.
    is_gone: bool,
}

impl Screen<'_> {
    fn take(&mut self, report: &Report, now: Instant) {
        self.board.take(report, now);
        let lines = match self.look.manner {
            Manner::Quiet => return,
            Manner::Plain => lines::of(report, self.look.verbose),
            // The table shows the rest.
            Manner::Live { .. } => lines::lasting(report, self.look.verbose),
        };
        if lines.is_empty() {
            return;
        }
        let mut text = self.erase();
        for ScreenLine { text: line, style } in lines {
            text.push_str(&format::paint(&line, style, self.look.colour));
            text.push('\n');
        }
        self.write(&text);
    }

    fn draw(&mut self, now: Instant) {
        let Manner::Live { size } = self.look.manner else { return };
        // Some terminals report no columns when the size is unknown.
        let (columns, rows) = size().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24));
        // A wrapped line could not be erased.
        let room = (usize::from(columns).saturating_sub(1).max(10), usize::from(rows).saturating_sub(2).max(1));
        let lines = self.board.lines(now, room);
        if lines == self.drawn_lines && self.drawn == lines.len() {
            return;
        }
        let mut text = self.erase();
        for line in &lines {
            let pieces = line.iter().map(|(piece, style)| format::paint(piece, *style, self.look.colour));
            text.extend(pieces);
            text.push('\n');
        }
        self.drawn = lines.len();
        self.drawn_lines = lines;
        self.write(&text);
    }

    /// Returns the control sequence that erases the table.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        }
    }

    /// Clears the table for later output.
    fn end(&mut self) {
        let text = self.erase();
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        let written = |out: &mut (dyn Write + Send)| -> io::Result<()> {
            out.write_all(text.as_bytes())?;
            out.flush()
        };
        if !self.is_gone && !text.is_empty() {
            self.is_gone = written(self.out).is_err();
        }
    }
}

#[cfg(test)]
mod tests;
