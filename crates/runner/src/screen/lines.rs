//! Converts reports to lasting lines.

use super::format::{LineStyle, flat, time, turns, usage as format_usage};
use crate::backend::BackendEvent;
use crate::team::report::{AgentState, Began, Level, Report, ReportedCause, RunOutcome, TurnResult};

/// Maximum length of an agent's text or tool input.
const SHOWN_CHARS: usize = 160;
/// Maximum length of a reason.
const REASON_CHARS: usize = 500;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ScreenLine {
    pub text: String,
    pub style: LineStyle,
}

fn line(text: impl Into<String>, style: LineStyle) -> ScreenLine {
    ScreenLine { text: text.into(), style }
}

/// The lasting lines of a report on a terminal, where the table shows the agents.
pub(super) fn lasting(report: &Report, verbose: bool) -> Vec<ScreenLine> {
    match report {
        Report::TurnBegan { .. } => Vec::new(),
        Report::TurnEnded { outcome: TurnResult::Done | TurnResult::Interrupted, .. } => Vec::new(),
        other => of(other, verbose),
    }
}

/// All lines of a report.
pub(super) fn of(report: &Report, verbose: bool) -> Vec<ScreenLine> {
    match report {
        Report::Began(began) => vec![line(beginning(began), LineStyle::Plain)],
        Report::SetUp { nth, of, shell } => {
            vec![line(format!("setup {nth}/{of}: {}", flat(shell, SHOWN_CHARS)), LineStyle::Dim)]
        }
        Report::KickedOff { woken } if woken.is_empty() => vec![line("kickoff: wakes no agent", LineStyle::Dim)],
        Report::KickedOff { woken } => vec![line(format!("kickoff: wakes {}", woken.join(", ")), LineStyle::Dim)],
        Report::TurnBegan { agent, attempt, cause, messages } => {
            let why = match (cause, messages) {
                (ReportedCause::Wakeup, 0) => "scheduled wakeup".to_owned(),
                (_, 1) => "1 message".to_owned(),
                (_, messages) => format!("{messages} messages"),
            };
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            vec![line(format!("{}: begins a turn, {why}{again}", agent.name), LineStyle::Dim)]
        }
        Report::During { agent, event } => during(agent, event, verbose).into_iter().collect(),
        Report::TurnEnded { agent, outcome, usage, took, .. } => {
            let used = format_usage(usage).map(|used| format!(", {used}")).unwrap_or_default();
            turn_end(&agent.name, outcome, &time(*took), &used)
        }
        // The other states are covered by the reports of turns and of the team's end.
        Report::Changed(status) => match &status.state {
            AgentState::Held { why } => {
                vec![line(format!("{}: is held: {}", status.name, flat(why, REASON_CHARS)), LineStyle::Warning)]
            }
            AgentState::Idle
            | AgentState::Working
            | AgentState::Waiting { .. }
            | AgentState::Stopped
            | AgentState::Failed => Vec::new(),
        },
        Report::Note { agent, level, text } => {
            let of = agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
            let style = match level {
                Level::Info => LineStyle::Dim,
                Level::Warning => LineStyle::Warning,
                Level::Error => LineStyle::Bad,
            };
            vec![line(format!("{of}{}", flat(text, REASON_CHARS)), style)]
        }
        Report::Ended { outcome, reason, took, total } => {
            let reason = reason.as_ref().map(|reason| format!(": {}", flat(reason, REASON_CHARS))).unwrap_or_default();
            let used = format_usage(&total.usage).map(|used| format!(", {used}")).unwrap_or_default();
            let style = match outcome {
                RunOutcome::Completed => LineStyle::Good,
                RunOutcome::Failed => LineStyle::Bad,
                RunOutcome::Stopped | RunOutcome::Interrupted | RunOutcome::Suspended => LineStyle::Warning,
            };
            vec![line(format!("{}{reason} ({}, {}{used})", outcome.as_str(), time(*took), turns(total)), style)]
        }
    }
}

fn beginning(began: &Began) -> String {
    let agents = began.agents.iter().map(|agent| match &agent.model {
        Some(model) => format!("{} ({} {model})", agent.name, agent.backend),
        None => format!("{} ({})", agent.name, agent.backend),
    });
    let verb = if began.resumed { "resumes with" } else { "begins with" };
    format!("{} {}: {verb} {}", began.workflow, began.team, agents.collect::<Vec<_>>().join(", "))
}

fn during(agent: &str, event: &BackendEvent, verbose: bool) -> Option<ScreenLine> {
    let shown = |text: &str| flat(text, SHOWN_CHARS);
    match event {
        BackendEvent::Note(text) => Some(line(format!("{agent}: {}", flat(text, REASON_CHARS)), LineStyle::Warning)),
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

fn turn_end(name: &str, outcome: &TurnResult, took: &str, used: &str) -> Vec<ScreenLine> {
    let with_hint = |text: String, hint: &Option<String>, style: LineStyle| {
        let hint = hint.as_ref().map(|hint| line(format!("  hint: {}", flat(hint, REASON_CHARS)), LineStyle::Dim));
        std::iter::once(line(text, style)).chain(hint).collect()
    };
    match outcome {
        TurnResult::Done => vec![line(format!("{name}: done after {took}{used}"), LineStyle::Plain)],
        TurnResult::Interrupted => vec![line(format!("{name}: interrupted after {took}{used}"), LineStyle::Warning)],
        TurnResult::Retry { reason, hint, after } => {
            let reason = flat(reason, REASON_CHARS);
            let text = format!("{name}: failed after {took}{used}: {reason}; retry in {}", time(*after));
            with_hint(text, hint, LineStyle::Warning)
        }
        TurnResult::GivenUp { reason, hint } => {
            let reason = flat(reason, REASON_CHARS);
            with_hint(format!("{name}: failed after {took}{used}: {reason}; given up"), hint, LineStyle::Bad)
        }
    }
}
