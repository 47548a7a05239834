//! What a person sees of a running team. On a terminal one line for each agent is kept up to date, with what is worth keeping
//! above them ([`Board`]); elsewhere there is a line for everything that happens ([`lines`]). Nothing is decided here, and
//! a terminal that is gone holds up nobody.

mod board;
mod lines;
mod words;

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::board::{Board, Pieces};
use self::lines::Line;
use crate::team::report::Report;

/// How often times on the screen go on.
const TICK: Duration = Duration::from_millis(200);

/// How a team is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub manner: Manner,
    /// Whether tool calls and what agents say meanwhile are shown.
    pub verbose: bool,
    pub colour: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// On a terminal, which has so many columns and rows by the time this is asked.
    Live { size: fn() -> Option<(u16, u16)> },
    /// A line for everything that happens.
    Plain,
    /// Nothing: somebody reads the result, and nothing else.
    Quiet,
}

/// Shows reports until there are no more.
pub async fn show(mut reports: mpsc::Receiver<Report>, look: Look, out: &mut (dyn Write + Send)) {
    let mut screen = Screen { look, out, board: Board::default(), drawn: 0, board_drawn: Vec::new(), is_gone: false };
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
        // What came at once is drawn at once.
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
    board: Board,
    /// How many lines of the board are on the screen.
    drawn: usize,
    /// What they say.
    board_drawn: Vec<Pieces>,
    /// Nobody can be told anything any more.
    is_gone: bool,
}

impl Screen<'_> {
    fn take(&mut self, report: &Report, now: Instant) {
        self.board.take(report, now);
        let lines = match self.look.manner {
            Manner::Quiet => return,
            Manner::Plain => lines::of(report, self.look.verbose),
            // The board says the rest.
            Manner::Live { .. } => lines::to_keep(report, self.look.verbose),
        };
        if lines.is_empty() {
            return;
        }
        let mut text = self.erased();
        for Line { text: line, tone } in lines {
            text.push_str(&words::painted(&line, tone, self.look.colour));
            text.push('\n');
        }
        self.write(&text);
    }

    fn draw(&mut self, now: Instant) {
        let Manner::Live { size } = self.look.manner else { return };
        // Some say that they have no columns at all, and mean that they do not know.
        let (columns, rows) = size().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24));
        // A line that wrapped could not be erased.
        let room = (usize::from(columns).saturating_sub(1).max(10), usize::from(rows).saturating_sub(2).max(1));
        let lines = self.board.lines(now, room);
        if lines == self.board_drawn && self.drawn == lines.len() {
            return;
        }
        let mut text = self.erased();
        for line in &lines {
            let pieces = line.iter().map(|(piece, tone)| words::painted(piece, *tone, self.look.colour));
            text.extend(pieces);
            text.push('\n');
        }
        self.drawn = lines.len();
        self.board_drawn = lines;
        self.write(&text);
    }

    /// What takes the board off the screen.
    fn erased(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        }
    }

    /// Leaves the screen to whatever comes after it.
    fn end(&mut self) {
        let text = self.erased();
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
