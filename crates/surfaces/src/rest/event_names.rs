//! The names of events: the one table of actions and kinds, for REST and for the command line.
//!
//! An event has a kind in the log. REST shows it with one of the contract's actions, or with `x.` and its kind; people read the
//! same name without `x.`. A filter takes an action, a kind or the `x.` form.

use rookery_core::model::task::TaskState;
use rookery_core::{AnyEvent, EventRef};

/// The contract's actions.
pub const ACTIONS: [&str; 19] = [
    "agent.joined",
    "agent.left",
    "agent.heartbeat",
    "agent.status_changed",
    "resource.claimed",
    "resource.released",
    "resource.modified",
    "resource.conflict_detected",
    "resource.conflict_resolved",
    "task.created",
    "task.assigned",
    "task.started",
    "task.completed",
    "task.blocked",
    "handoff.initiated",
    "handoff.accepted",
    "handoff.rejected",
    "authority.decision",
    "authority.escalation",
];

/// The action that an event is shown with. Events without an action of the contract are `x.` and their kind.
pub fn action(event: &AnyEvent) -> String {
    let action = match event.typed() {
        EventRef::AgentRegistered(_) => "agent.joined",
        EventRef::AgentLeft(_) => "agent.left",
        EventRef::AgentReturned(_) => "agent.heartbeat",
        EventRef::AgentStatusSet(_) | EventRef::AgentWentOffline(_) => "agent.status_changed",
        EventRef::FileClaimed(_) => "resource.claimed",
        EventRef::FileReleased(_) => "resource.released",
        EventRef::FileModified(_) => "resource.modified",
        EventRef::ConflictDetected(_) => "resource.conflict_detected",
        EventRef::ConflictResolved(_) => "resource.conflict_resolved",
        EventRef::TaskCreated(_) => "task.created",
        EventRef::TaskReserved(_) | EventRef::TaskClaimed(_) => "task.assigned",
        EventRef::TaskStarted(_) => "task.started",
        EventRef::TaskCompleted(_) => "task.completed",
        EventRef::TaskFailed(_) | EventRef::TaskTimedOut(_) => "task.blocked",
        EventRef::TaskStepSet(step) if step.to == TaskState::Paused => "task.blocked",
        EventRef::HandoffInitiated(_) => "handoff.initiated",
        EventRef::HandoffAccepted(_) => "handoff.accepted",
        EventRef::HandoffRejected(_) => "handoff.rejected",
        EventRef::LeadChosen(_) | EventRef::ClaimForced(_) | EventRef::TaskReassigned(_) => "authority.decision",
        EventRef::ConflictEscalated(_)
        | EventRef::MessageHeld(_)
        | EventRef::TaskAttemptsExhausted(_)
        | EventRef::DeliveryAbandoned(_) => "authority.escalation",
        EventRef::Report(report) => return report.action.clone(),
        _ => return format!("x.{}", event.kind()),
    };
    action.to_owned()
}

/// The kinds of events that an action can stand for. Reports carry any action.
fn kinds(action: &str) -> Vec<String> {
    let kinds: &[&str] = match action {
        "agent.joined" => &["agent.registered"],
        "agent.left" => &["agent.left"],
        "agent.heartbeat" => &["agent.returned"],
        "agent.status_changed" => &["agent.status_set", "agent.went_offline"],
        "resource.claimed" => &["file.claimed"],
        "resource.released" => &["file.released"],
        "resource.modified" => &["file.modified"],
        "resource.conflict_detected" => &["file.conflict_detected"],
        "resource.conflict_resolved" => &["file.conflict_resolved"],
        "task.created" => &["task.created"],
        "task.assigned" => &["task.reserved", "task.claimed"],
        "task.started" => &["task.started"],
        "task.completed" => &["task.completed"],
        "task.blocked" => &["task.failed", "task.timed_out", "task.step_set"],
        "authority.decision" => &["lead.chosen", "file.forced", "task.reassigned"],
        "authority.escalation" => {
            &["file.conflict_escalated", "message.held", "task.attempts_exhausted", "delivery.abandoned"]
        }
        other => &[other],
    };
    kinds.iter().map(|kind| (*kind).to_owned()).chain(std::iter::once("report.added".to_owned())).collect()
}

/// The name that people read: the action without `x.`.
pub fn shown(action: &str) -> &str {
    action.strip_prefix("x.").unwrap_or(action)
}

/// The events that a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventFilter {
    /// An action of the contract, or one that a program made up for its own reports.
    Action(String),
    /// Every event of a kind, whatever action it is shown with.
    Kind(&'static str),
}

impl EventFilter {
    /// Reads an action, a kind or the `x.` form of either. A name that begins with `x.` and is no kind is a report's own.
    pub fn parse(name: &str) -> Result<EventFilter, UnknownName> {
        if ACTIONS.contains(&name) {
            return Ok(EventFilter::Action(name.to_owned()));
        }
        if let Some(kind) = kind(shown(name)) {
            return Ok(EventFilter::Kind(kind));
        }
        match name.strip_prefix("x.") {
            Some(own) if ACTIONS.contains(&own) => Ok(EventFilter::Action(own.to_owned())),
            Some(own) if !own.is_empty() => Ok(EventFilter::Action(name.to_owned())),
            _ => Err(UnknownName { name: name.to_owned(), nearest: nearest(name) }),
        }
    }

    /// The kinds of the events that may pass.
    pub fn kinds(&self) -> Vec<String> {
        match self {
            EventFilter::Action(action) => kinds(action),
            EventFilter::Kind(kind) => vec![(*kind).to_owned(), REPORT.to_owned()],
        }
    }

    pub fn passes(&self, event: &AnyEvent) -> bool {
        match self {
            EventFilter::Action(wanted) => action(event) == *wanted,
            // A report may carry the name of a kind.
            EventFilter::Kind(kind) => event.kind() == *kind || action(event).strip_prefix("x.") == Some(kind),
        }
    }
}

/// A name that no event has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no event is called '{name}'")]
pub struct UnknownName {
    name: String,
    nearest: Option<&'static str>,
}

impl UnknownName {
    /// The way out of it.
    pub fn hint(&self) -> String {
        let own = "one that a program reported itself begins with 'x.'";
        match self.nearest {
            Some(nearest) => format!("did you mean '{nearest}'? {own}"),
            None => format!("names are such as task.completed or message.sent; {own}"),
        }
    }
}

const REPORT: &str = "report.added";
/// How many letters may differ in a name that is offered instead of another.
const NEAREST_EDITS: usize = 4;

fn kind(name: &str) -> Option<&'static str> {
    AnyEvent::KINDS.iter().map(|(kind, _)| *kind).find(|kind| *kind == name)
}

/// The name that was probably meant: the one with the fewest letters to change, or one that ends like it or names the same thing.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.chars().take(64).collect::<String>().to_ascii_lowercase();
    let known = || ACTIONS.into_iter().chain(AnyEvent::KINDS.iter().map(|(kind, _)| *kind));
    let close = known().map(|known| (strsim::damerau_levenshtein(&name, known), known)).min();
    let close = close.filter(|(edits, _)| *edits <= NEAREST_EDITS.min(name.len() / 2)).map(|(_, known)| known);
    close.or_else(|| known().find(|known| name.len() > 3 && known.split('.').any(|part| part == name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_found_by_its_action_and_by_its_own_name() {
        for (kind, _) in AnyEvent::KINDS.iter().filter(|(kind, _)| *kind != REPORT) {
            let found =
                ACTIONS.iter().map(|action| (*action).to_owned()).chain([format!("x.{kind}"), (*kind).to_owned()]);
            let found: Vec<String> = found
                .filter(|name| EventFilter::parse(name).unwrap().kinds().iter().any(|known| known == kind))
                .collect();
            assert!(found.len() >= 2, "{kind}: {found:?}");
        }
    }

    #[test]
    fn filter_takes_action_kind_or_x_form() {
        let action = |name: &str| EventFilter::Action(name.to_owned());
        for (name, filter) in [
            ("task.assigned", action("task.assigned")),
            ("x.task.assigned", action("task.assigned")),
            ("task.claimed", EventFilter::Kind("task.claimed")),
            ("x.message.sent", EventFilter::Kind("message.sent")),
            ("message.sent", EventFilter::Kind("message.sent")),
            ("lead.chosen", EventFilter::Kind("lead.chosen")),
            ("x.deploy.started", action("x.deploy.started")),
        ] {
            assert_eq!(EventFilter::parse(name).unwrap(), filter, "{name}");
        }
    }

    #[test]
    fn unknown_name_is_an_error_that_offers_the_nearest() {
        for (name, nearest) in [
            ("task.complete", Some("task.completed")),
            ("mesage.sent", Some("message.sent")),
            ("heartbeat", Some("agent.heartbeat")),
            ("frobnicate", None),
            ("x.", None),
        ] {
            assert_eq!(EventFilter::parse(name).unwrap_err().nearest, nearest, "{name}");
        }
        let unknown = EventFilter::parse("task.complete").unwrap_err();
        assert_eq!(unknown.to_string(), "no event is called 'task.complete'");
        assert!(unknown.hint().starts_with("did you mean 'task.completed'?"), "{}", unknown.hint());
    }
}
