//! The table at the bottom of a terminal, with one line for each agent.

use std::time::Duration;

use tokio::time::Instant;

use super::format::{LineStyle, cost, count, flat, time, turns};
use crate::backend::{BackendEvent, Usage};
use crate::team::report::{AgentState, MemberStatus, Report, UsageTotals};

/// Maximum length of an agent's current activity.
const ACTIVITY_CHARS: usize = 200;

/// Pieces of a line with their styles.
pub(super) type Pieces = Vec<(String, LineStyle)>;

#[derive(Default)]
pub(super) struct AgentTable {
    agents: Vec<BoardRow>,
}

struct BoardRow {
    name: String,
    state: AgentState,
    tally: UsageTotals,
    /// The time of the last change of its state.
    since: Instant,
    /// The usage of the current turn so far.
    turn_usage: Usage,
    activity: String,
}

impl AgentTable {
    pub(super) fn take(&mut self, report: &Report, now: Instant) {
        match report {
            Report::Began(began) => {
                self.agents = began.agents.iter().map(|member| BoardRow::new(&member.name, now)).collect();
            }
            Report::TurnBegan { agent, .. } | Report::TurnEnded { agent, .. } | Report::Changed(agent) => {
                self.update_agent(agent, now);
            }
            Report::During { agent, event } => {
                if let Some(shown) = self.agents.iter_mut().find(|shown| shown.name == *agent) {
                    shown.record_event(event);
                }
            }
            Report::Ended { .. } => self.agents.clear(),
            Report::SetUp { .. } | Report::KickedOff { .. } | Report::Note { .. } => {}
        }
    }

    fn update_agent(&mut self, status: &MemberStatus, now: Instant) {
        let Some(shown) = self.agents.iter_mut().find(|shown| shown.name == status.name) else { return };
        shown.state = status.state.clone();
        shown.tally = status.tally;
        shown.since = now;
        shown.turn_usage = Usage::default();
        shown.activity.clear();
    }

    /// Returns at most as many lines as fit, with working agents first.
    pub(super) fn lines(&self, now: Instant, (columns, rows): (usize, usize)) -> Vec<Pieces> {
        let mut order: Vec<&BoardRow> = self.agents.iter().collect();
        let hidden = order.len().saturating_sub(rows);
        if hidden > 0 {
            order.sort_by_key(|shown| shown.rank());
            order.truncate(rows.saturating_sub(1));
        }
        let width = order.iter().map(|shown| shown.name.chars().count()).max().unwrap_or(0);
        let mut lines: Vec<Pieces> = order.iter().map(|shown| fit(shown.line(width, now), columns)).collect();
        if hidden > 0 {
            let more = format!("and {} more", self.agents.len() - lines.len());
            lines.push(fit(vec![(more, LineStyle::Dim)], columns));
        }
        lines
    }
}

impl BoardRow {
    fn new(name: &str, now: Instant) -> BoardRow {
        let (state, tally) = (AgentState::Idle, UsageTotals::default());
        BoardRow {
            name: name.to_owned(),
            state,
            tally,
            since: now,
            turn_usage: Usage::default(),
            activity: String::new(),
        }
    }

    fn record_event(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Used(usage) => self.turn_usage = *usage,
            BackendEvent::Tool { name, input } => self.activity = flat(&format!("{name} {input}"), ACTIVITY_CHARS),
            BackendEvent::ToolFailed { name, reason } => {
                self.activity = flat(&format!("{name} failed: {reason}"), ACTIVITY_CHARS);
            }
            BackendEvent::Said(text) if !text.trim().is_empty() => self.activity = flat(text, ACTIVITY_CHARS),
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
        let style = match self.state {
            AgentState::Working => LineStyle::Good,
            AgentState::Waiting { .. } | AgentState::Held { .. } => LineStyle::Warning,
            AgentState::Failed => LineStyle::Bad,
            AgentState::Idle | AgentState::Stopped => LineStyle::Dim,
        };
        let clock = match &self.state {
            AgentState::Working => time(Duration::from_secs(elapsed.as_secs())),
            AgentState::Waiting { time: left, .. } => format!("in {}", time(round_up(left.saturating_sub(elapsed)))),
            AgentState::Idle | AgentState::Held { .. } | AgentState::Stopped | AgentState::Failed => String::new(),
        };
        let activity = match &self.state {
            AgentState::Waiting { why, .. } | AgentState::Held { why } => flat(why, ACTIVITY_CHARS),
            _ => self.activity.clone(),
        };
        let state = self.state.as_str();
        let mut line = vec![
            (format!("{:width$}  ", self.name), LineStyle::Plain),
            (format!("{state:8}"), style),
            (format!("{clock:>8}  {:>9}{}", turns(&self.tally), self.usage()), LineStyle::Plain),
        ];
        if !activity.is_empty() {
            line.push((format!("  {activity}"), LineStyle::Dim));
        }
        line
    }

    /// Tokens and cost, including the current turn.
    fn usage(&self) -> String {
        let mut all = self.tally;
        all.add(self.turn_usage);
        let Usage { input_tokens, output_tokens, cost_usd } = all.usage;
        let tokens = match input_tokens.saturating_add(output_tokens) {
            0 => String::new(),
            tokens => format!("  {:>6} tokens", count(tokens)),
        };
        let cost = cost_usd.map(|usd| format!("  {}", cost(usd))).unwrap_or_default();
        format!("{tokens}{cost}")
    }
}

/// Rounds up to whole seconds.
fn round_up(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// Cuts a line so that it does not wrap.
fn fit(line: Pieces, columns: usize) -> Pieces {
    let mut remaining = columns;
    let mut fitted = Vec::new();
    for (text, style) in line {
        let width = text.chars().count();
        if width <= remaining {
            remaining -= width;
            fitted.push((text, style));
            continue;
        }
        fitted.push((text.chars().take(remaining.saturating_sub(1)).chain(['…']).collect(), style));
        break;
    }
    fitted
}
