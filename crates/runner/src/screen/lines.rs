//! What happened, as lines that stay.

use super::words::{LineStyle, flat, time, turns, used};
use crate::backend::BackendEvent;
use crate::team::report::{AgentState, Began, Level, Report, ReportedCause, RunOutcome, TurnResult};

/// How much of what an agent says or gives to a tool is shown.
const SHOWN_LETTERS: usize = 160;
/// How long a reason may be.
const REASON_LETTERS: usize = 500;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub text: String,
    pub tone: LineStyle,
}

fn line(text: impl Into<String>, tone: LineStyle) -> Line {
    Line { text: text.into(), tone }
}

/// What of a report is worth a line on a terminal, where the board shows how everybody stands.
pub(super) fn to_keep(report: &Report, verbose: bool) -> Vec<Line> {
    match report {
        Report::TurnBegan { .. } => Vec::new(),
        Report::TurnEnded { outcome: TurnResult::Done | TurnResult::Interrupted, .. } => Vec::new(),
        other => of(other, verbose),
    }
}

/// Everything that a report says.
pub(super) fn of(report: &Report, verbose: bool) -> Vec<Line> {
    match report {
        Report::Began(began) => vec![line(beginning(began), LineStyle::Plain)],
        Report::SetUp { nth, of, shell } => {
            vec![line(format!("setup {nth}/{of}: {}", flat(shell, SHOWN_LETTERS)), LineStyle::Dim)]
        }
        Report::KickedOff { woken } if woken.is_empty() => vec![line("kickoff: nobody is woken", LineStyle::Dim)],
        Report::KickedOff { woken } => vec![line(format!("kickoff: wakes {}", woken.join(", ")), LineStyle::Dim)],
        Report::TurnBegan { agent, attempt, cause, messages } => {
            let why = match (cause, messages) {
                (ReportedCause::Wakeup, 0) => "it is time".to_owned(),
                (_, 1) => "1 message".to_owned(),
                (_, messages) => format!("{messages} messages"),
            };
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            vec![line(format!("{}: begins a turn, {why}{again}", agent.name), LineStyle::Dim)]
        }
        Report::During { agent, event } => during(agent, event, verbose).into_iter().collect(),
        Report::TurnEnded { agent, outcome, usage, took, .. } => {
            let used = used(usage).map(|used| format!(", {used}")).unwrap_or_default();
            ended(&agent.name, outcome, &time(*took), &used)
        }
        // What else there is to know about it was told by the turn before, or is by the end of the team.
        Report::Changed(standing) => match &standing.state {
            AgentState::Held { why } => {
                vec![line(format!("{}: is held: {}", standing.name, flat(why, REASON_LETTERS)), LineStyle::Warning)]
            }
            AgentState::Idle
            | AgentState::Working
            | AgentState::Waiting { .. }
            | AgentState::Stopped
            | AgentState::Failed => Vec::new(),
        },
        Report::Note { agent, level, text } => {
            let of = agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
            let tone = match level {
                Level::Info => LineStyle::Dim,
                Level::Warning => LineStyle::Warning,
                Level::Error => LineStyle::Bad,
            };
            vec![line(format!("{of}{}", flat(text, REASON_LETTERS)), tone)]
        }
        Report::Ended { outcome, reason, took, total } => {
            let reason =
                reason.as_ref().map(|reason| format!(": {}", flat(reason, REASON_LETTERS))).unwrap_or_default();
            let used = used(&total.usage).map(|used| format!(", {used}")).unwrap_or_default();
            let tone = match outcome {
                RunOutcome::Completed => LineStyle::Good,
                RunOutcome::Failed => LineStyle::Bad,
                RunOutcome::Stopped | RunOutcome::Interrupted | RunOutcome::Suspended => LineStyle::Warning,
            };
            vec![line(format!("{}{reason} ({}, {}{used})", outcome.as_str(), time(*took), turns(total)), tone)]
        }
    }
}

fn beginning(began: &Began) -> String {
    let agents = began.agents.iter().map(|agent| match &agent.model {
        Some(model) => format!("{} ({} {model})", agent.name, agent.backend),
        None => format!("{} ({})", agent.name, agent.backend),
    });
    let verb = if began.resumed { "goes on with" } else { "begins with" };
    format!("{} {}: {verb} {}", began.workflow, began.team, agents.collect::<Vec<_>>().join(", "))
}

fn during(agent: &str, event: &BackendEvent, verbose: bool) -> Option<Line> {
    let shown = |text: &str| flat(text, SHOWN_LETTERS);
    match event {
        BackendEvent::Note(text) => Some(line(format!("{agent}: {}", flat(text, REASON_LETTERS)), LineStyle::Warning)),
        BackendEvent::Said(text) if verbose && !text.trim().is_empty() => {
            Some(line(format!("{agent}: says {}", shown(text)), LineStyle::Dim))
        }
        BackendEvent::Tool { name, input } if verbose => {
            Some(line(format!("{agent}: calls {} {}", shown(name), shown(input)), LineStyle::Dim))
        }
        BackendEvent::ToolFailed { name, reason } if verbose => {
            Some(line(format!("{agent}: {} failed: {}", shown(name), shown(reason)), LineStyle::Warning))
        }
        BackendEvent::Said(_) | BackendEvent::Tool { .. } | BackendEvent::ToolFailed { .. } | BackendEvent::Used(_) => {
            None
        }
    }
}

fn ended(name: &str, outcome: &TurnResult, took: &str, used: &str) -> Vec<Line> {
    let told = |what: String, hint: &Option<String>, tone: LineStyle| {
        let hint = hint.as_ref().map(|hint| line(format!("  hint: {}", flat(hint, REASON_LETTERS)), LineStyle::Dim));
        std::iter::once(line(what, tone)).chain(hint).collect()
    };
    match outcome {
        TurnResult::Done => vec![line(format!("{name}: done after {took}{used}"), LineStyle::Plain)],
        TurnResult::Interrupted => vec![line(format!("{name}: interrupted after {took}{used}"), LineStyle::Warning)],
        TurnResult::Retry { reason, hint, after } => {
            let reason = flat(reason, REASON_LETTERS);
            let what = format!("{name}: failed after {took}{used}: {reason}; again in {}", time(*after));
            told(what, hint, LineStyle::Warning)
        }
        TurnResult::GivenUp { reason, hint } => {
            let reason = flat(reason, REASON_LETTERS);
            told(format!("{name}: failed after {took}{used}: {reason}; given up"), hint, LineStyle::Bad)
        }
    }
}
