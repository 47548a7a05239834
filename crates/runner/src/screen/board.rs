//! How every agent stands: one line each, at the bottom of a terminal.

use std::time::Duration;

use tokio::time::Instant;

use super::words::{LineStyle, cost, count, flat, time, turns};
use crate::backend::{BackendEvent, Usage};
use crate::team::report::{AgentState, MemberStatus, Report, UsageTotals};

/// How much of what an agent does right now is kept.
const DOING_LETTERS: usize = 200;

/// Pieces of a line, each in its colour.
pub(super) type Pieces = Vec<(String, LineStyle)>;

#[derive(Default)]
pub(super) struct Board {
    agents: Vec<BoardRow>,
}

struct BoardRow {
    name: String,
    state: AgentState,
    tally: UsageTotals,
    /// When it came to be so.
    since: Instant,
    /// What the turn that is under way used so far.
    meanwhile: Usage,
    doing: String,
}

impl Board {
    pub(super) fn take(&mut self, report: &Report, now: Instant) {
        match report {
            Report::Began(began) => {
                self.agents = began.agents.iter().map(|member| BoardRow::new(&member.name, now)).collect();
            }
            Report::TurnBegan { agent, .. } | Report::TurnEnded { agent, .. } | Report::Changed(agent) => {
                self.stands(agent, now);
            }
            Report::During { agent, event } => {
                if let Some(shown) = self.agents.iter_mut().find(|shown| shown.name == *agent) {
                    shown.does(event);
                }
            }
            Report::Ended { .. } => self.agents.clear(),
            Report::SetUp { .. } | Report::KickedOff { .. } | Report::Note { .. } => {}
        }
    }

    fn stands(&mut self, standing: &MemberStatus, now: Instant) {
        let Some(shown) = self.agents.iter_mut().find(|shown| shown.name == standing.name) else { return };
        shown.state = standing.state.clone();
        shown.tally = standing.tally;
        shown.since = now;
        shown.meanwhile = Usage::default();
        shown.doing.clear();
    }

    /// The lines, as many as there is room for: those at work first.
    pub(super) fn lines(&self, now: Instant, (columns, rows): (usize, usize)) -> Vec<Pieces> {
        let mut order: Vec<&BoardRow> = self.agents.iter().collect();
        let hidden = order.len().saturating_sub(rows);
        if hidden > 0 {
            order.sort_by_key(|shown| shown.rank());
            order.truncate(rows.saturating_sub(1));
        }
        let width = order.iter().map(|shown| shown.name.chars().count()).max().unwrap_or(0);
        let mut lines: Vec<Pieces> = order.iter().map(|shown| fitting(shown.line(width, now), columns)).collect();
        if hidden > 0 {
            let more = format!("and {} more", self.agents.len() - lines.len());
            lines.push(fitting(vec![(more, LineStyle::Dim)], columns));
        }
        lines
    }
}

impl BoardRow {
    fn new(name: &str, now: Instant) -> BoardRow {
        let (state, tally) = (AgentState::Idle, UsageTotals::default());
        BoardRow { name: name.to_owned(), state, tally, since: now, meanwhile: Usage::default(), doing: String::new() }
    }

    fn does(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Used(usage) => self.meanwhile = *usage,
            BackendEvent::Tool { name, input } => self.doing = flat(&format!("{name} {input}"), DOING_LETTERS),
            BackendEvent::ToolFailed { name, reason } => {
                self.doing = flat(&format!("{name} failed: {reason}"), DOING_LETTERS);
            }
            BackendEvent::Said(text) if !text.trim().is_empty() => self.doing = flat(text, DOING_LETTERS),
            BackendEvent::Said(_) | BackendEvent::Note(_) => {}
        }
    }

    fn rank(&self) -> u8 {
        match self.state {
            AgentState::Working => 0,
            AgentState::Waiting { .. } | AgentState::Held { .. } => 1,
            AgentState::Failed => 2,
            AgentState::Idle => 3,
            AgentState::Stopped => 4,
        }
    }

    fn line(&self, width: usize, now: Instant) -> Pieces {
        let elapsed = now.saturating_duration_since(self.since);
        let tone = match self.state {
            AgentState::Working => LineStyle::Good,
            AgentState::Waiting { .. } | AgentState::Held { .. } => LineStyle::Warning,
            AgentState::Failed => LineStyle::Bad,
            AgentState::Idle | AgentState::Stopped => LineStyle::Dim,
        };
        let clock = match &self.state {
            AgentState::Working => time(Duration::from_secs(elapsed.as_secs())),
            AgentState::Waiting { time: left, .. } => format!("in {}", time(whole(left.saturating_sub(elapsed)))),
            AgentState::Idle | AgentState::Held { .. } | AgentState::Stopped | AgentState::Failed => String::new(),
        };
        let doing = match &self.state {
            AgentState::Waiting { why, .. } | AgentState::Held { why } => flat(why, DOING_LETTERS),
            _ => self.doing.clone(),
        };
        let state = self.state.as_str();
        let mut line = vec![
            (format!("{:width$}  ", self.name), LineStyle::Plain),
            (format!("{state:8}"), tone),
            (format!("{clock:>8}  {:>9}{}", turns(&self.tally), self.used()), LineStyle::Plain),
        ];
        if !doing.is_empty() {
            line.push((format!("  {doing}"), LineStyle::Dim));
        }
        line
    }

    /// Tokens and cost, with what the turn under way used so far.
    fn used(&self) -> String {
        let mut all = self.tally;
        all.add(self.meanwhile);
        let Usage { input_tokens, output_tokens, cost_usd } = all.usage;
        let tokens = match input_tokens.saturating_add(output_tokens) {
            0 => String::new(),
            tokens => format!("  {:>6} tokens", count(tokens)),
        };
        let cost = cost_usd.map(|usd| format!("  {}", cost(usd))).unwrap_or_default();
        format!("{tokens}{cost}")
    }
}

/// Seconds, of which one that has begun counts.
fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// A line that does not wrap.
fn fitting(line: Pieces, columns: usize) -> Pieces {
    let mut room = columns;
    let mut fitting = Vec::new();
    for (text, tone) in line {
        let letters = text.chars().count();
        if letters <= room {
            room -= letters;
            fitting.push((text, tone));
            continue;
        }
        fitting.push((text.chars().take(room.saturating_sub(1)).chain(['…']).collect(), tone));
        break;
    }
    fitting
}
