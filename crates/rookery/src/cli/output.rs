//! What a person or a script sees: the only module that writes to the terminal.
//!
//! Data goes to stdout, talk to stderr. Colour only on a terminal and without `NO_COLOR`. Text that agents wrote is
//! shown with its control characters taken out, so that no agent can repaint a person's terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Color, ContentArrangement, presets};
use rookery_store::offline::Progress;
use serde::Serialize;

use super::clock::Clock;
use super::failure::Report;

/// What stdout carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Human,
    Json,
}

/// Whether notes are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    Normal,
    Quiet,
}

/// What a stream can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Coloured,
}

/// How a piece of text is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    Plain,
    Good,
    Warning,
    Bad,
    Dim,
}

impl TextStyle {
    fn colour(self) -> Option<(Color, u8)> {
        match self {
            Self::Plain => None,
            Self::Good => Some((Color::Green, 32)),
            Self::Warning => Some((Color::Yellow, 33)),
            Self::Bad => Some((Color::Red, 31)),
            Self::Dim => Some((Color::DarkGrey, 90)),
        }
    }
}

/// A text in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: TextStyle,
}

impl Cell {
    pub fn new(text: impl Into<String>, tone: TextStyle) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, TextStyle::Plain)
    }
}

/// Rows under headings, and what to say if there are none.
#[derive(Debug)]
pub struct Table {
    pub headings: &'static [&'static str],
    pub rows: Vec<Vec<Cell>>,
    pub empty: &'static str,
}

/// The terminal, or what stands in for it.
#[derive(Clone, Debug)]
pub struct Output {
    format: Format,
    talk: Talk,
    stdout: Look,
    stderr: Look,
    clock: Clock,
}

impl Output {
    /// Writes to this process's stdout and stderr.
    pub fn new(format: Format, talk: Talk) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let look = |terminal: bool| if terminal && colour { Look::Coloured } else { Look::Plain };
        let (stdout, stderr) = (look(io::stdout().is_terminal()), look(io::stderr().is_terminal()));
        Self { format, talk, stdout, stderr, clock: Clock::system() }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether a person looks at it, who sees more than letters.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether notes are read on a terminal and not kept in a file.
    pub fn notes_are_on_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Whether nothing but data and errors is wanted.
    pub fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// Whether talk may be coloured.
    pub fn has_colour(&self) -> bool {
        self.stderr == Look::Coloured
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Shows the daemon's answer as it is, or as the table made of it.
    pub fn show(
        &self,
        answer: &impl Serialize,
        table: impl FnOnce(&Clock) -> anyhow::Result<Table>,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.json(answer),
            Format::Human => self.table(&table(&self.clock)?),
        }
    }

    /// Shows the answer, or one line that says what was done.
    pub fn done(&self, answer: &impl Serialize, text: &str) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.json(answer),
            Format::Human => self.line(text, TextStyle::Plain),
        }
    }

    /// Shows the answer, or a line for each thing that was done.
    pub fn done_each(&self, answer: &impl Serialize, mut lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
        match self.format {
            Format::Json => self.json(answer),
            Format::Human => lines.try_for_each(|line| self.line(&line, TextStyle::Plain)),
        }
    }

    /// A value for scripts, indented.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.raw(format!("{}\n", serde_json::to_string_pretty(value)?).as_bytes())
    }

    /// A value for scripts, on one line of many.
    pub fn json_line(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.raw(format!("{}\n", serde_json::to_string(value)?).as_bytes())
    }

    /// A line for people.
    pub fn line(&self, text: &str, tone: TextStyle) -> anyhow::Result<()> {
        self.raw(format!("{}\n", paint(&printable(text), tone, self.stdout)).as_bytes())
    }

    /// A text that agents wrote: as it is for programs, and for a terminal without what would steer it.
    pub fn text(&self, text: &str) -> anyhow::Result<()> {
        if !io::stdout().is_terminal() {
            return self.raw(text.as_bytes());
        }
        text.lines().try_for_each(|line| self.line(line, TextStyle::Plain))
    }

    /// Bytes that are data themselves: an export, a completion script.
    pub fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    fn table(&self, table: &Table) -> anyhow::Result<()> {
        if table.rows.is_empty() {
            self.note(table.empty);
            return Ok(());
        }
        self.raw(render(table, self.stdout).as_bytes())
    }

    /// Talk: what is going on. Never data; not shown with `--quiet`.
    pub fn note(&self, text: &str) {
        if self.talk == Talk::Normal {
            self.tell(&paint(&printable(text), TextStyle::Dim, self.stderr));
        }
    }

    /// Asks the person at the terminal; none if nobody is there to answer.
    pub fn ask(&self, question: &str) -> io::Result<Option<String>> {
        if self.format == Format::Json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        write!(io::stderr(), "{} ", printable(question))?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(Some(answer.trim().to_owned()))
    }

    /// Shows how far long work is, on one line of a terminal; elsewhere it says nothing.
    pub fn progress(&self, what: &'static str) -> impl FnMut(Progress) + Send + 'static {
        let shown = self.talk == Talk::Normal && io::stderr().is_terminal();
        let mut last = None;
        move |progress: Progress| {
            let percent = progress.done.saturating_mul(100) / progress.total.max(1);
            if shown && last != Some(percent) {
                last = Some(percent);
                let end = if progress.done >= progress.total { "\r\x1b[K" } else { "" };
                drop(write!(io::stderr(), "\r{what}: {percent} %{end}"));
            }
        }
    }

    /// Warns about artifacts that the log names and that are not there.
    pub fn missing(&self, artifacts: &[String]) {
        if !artifacts.is_empty() {
            self.note(&format!("{} artifacts are missing or damaged: {}", artifacts.len(), artifacts.join(", ")));
        }
    }

    /// Why the command failed and what to do next; shown even with `--quiet`.
    pub fn failure(&self, report: &Report) {
        let text = match (self.format, serde_json::to_string(report)) {
            (Format::Json, Ok(json)) => json,
            _ => {
                let code = report.code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
                let error = paint("error:", TextStyle::Bad, self.stderr);
                let hint = paint("hint:", TextStyle::Good, self.stderr);
                format!("{error} {}{code}\n{hint} {}", printable(&report.error), printable(&report.hint))
            }
        };
        self.tell(&text);
    }

    fn tell(&self, text: &str) {
        // In one piece, because several processes may share the stream. With stderr gone there is nobody left to tell.
        let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
    }
}

/// Text without characters that would steer the terminal.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|letter| if steers(letter) { ' ' } else { letter }).collect())
}

/// Control characters, and those that change the direction of the text after them.
fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn paint(text: &str, tone: TextStyle, look: Look) -> String {
    match tone.colour().filter(|_| look == Look::Coloured) {
        Some((_, code)) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        None => text.to_owned(),
    }
}

/// Columns two spaces apart, without lines; wrapped to the terminal's width if there is one.
fn render(table: &Table, look: Look) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(presets::NOTHING);
    match look {
        Look::Plain => drawn.force_no_tty().set_content_arrangement(ContentArrangement::Disabled),
        Look::Coloured => drawn.enforce_styling().set_content_arrangement(ContentArrangement::Dynamic),
    };
    if !table.headings.is_empty() {
        let heading = |text: &&str| comfy_table::Cell::new(text).add_attribute(Attribute::Bold);
        drawn.set_header(table.headings.iter().map(heading));
    }
    for row in &table.rows {
        drawn.add_row(row.iter().map(|cell| {
            let drawn = comfy_table::Cell::new(printable(&cell.text));
            cell.tone.colour().map_or(drawn.clone(), |(colour, _)| drawn.fg(colour))
        }));
    }
    for column in drawn.column_iter_mut() {
        column.set_padding((0, 2));
    }
    format!("{}\n", drawn.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            headings: &["AGENT", "STATUS"],
            rows: vec![
                vec!["a".into(), Cell::new("working", TextStyle::Good)],
                vec!["\u{1b}[2Jmuch longer\nname".into(), "idle".into()],
            ],
            empty: "no agents",
        }
    }

    #[test]
    fn tables_are_plain_off_a_terminal() {
        insta::assert_snapshot!(render(&table(), Look::Plain), @r"
        AGENT                 STATUS
        a                     working
         [2Jmuch longer name  idle
        ");
    }

    #[test]
    fn colour_is_used_on_a_terminal_only() {
        assert!(render(&table(), Look::Coloured).contains("\u{1b}["));
        assert!(!render(&table(), Look::Plain).contains('\u{1b}'));
        assert_eq!(paint("x", TextStyle::Bad, Look::Coloured), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(paint("x", TextStyle::Bad, Look::Plain), "x");
    }

    #[test]
    fn agents_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}]0;evil\u{7}b\u{202e}c\r\n"), "a ]0;evil b c  ");
        assert_eq!(printable("plain, größer, 日本"), "plain, größer, 日本");
    }
}
