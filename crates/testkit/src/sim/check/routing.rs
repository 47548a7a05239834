//! Checks of the router. They compute the fitting agents independently, from the texts of cards and requests alone.

use rookery_core::model::addressee::Address;
use rookery_core::model::agent::Agent;
use rookery_core::model::capabilities::Card;
use rookery_core::model::message_type::MessageType;
use rookery_core::model::policy::{Policy, TrustLevel};
use rookery_core::model::requirement::Requirement;
use rookery_core::model::role_group::Group;
use rookery_core::model::run::RunStatus;
use rookery_core::model::task::{AlarmKind, RequestTerms, Task};
use rookery_core::traits::LogRow;
use rookery_core::{Actor, AgentId, EventRef, Key, Row};

use super::{CheckResult, violation};
use crate::sim::model::Model;

/// The router gives no task to an agent that a hard filter excludes at that time. Runs before the row is added to the model.
pub(in crate::sim) fn hard_filters_hold(model: &Model, row: &LogRow) -> CheckResult {
    let EventRef::RoutingDecided(event) = row.event.typed() else { return Ok(()) };
    let wrong = |why: &str| {
        violation(
            "hard_filters_hold",
            format!("{} gives {} to {:?}: {why}", row.seq, event.task, event.choice.selected),
        )
    };
    let Some(Row::Task(task)) = model.row(&Key::Task(event.task.clone())) else {
        return wrong("the task does not exist");
    };
    let Some(terms) = task.to_be_routed() else { return wrong("the task does not wait for routing") };
    let agent = event.choice.selected.as_ref().and_then(|agent| model.row(&Key::Agent(agent.clone())));
    let Some(Row::Agent(agent)) = agent else { return wrong("the agent does not exist") };
    match excluded(model, terms, agent) {
        None => Ok(()),
        Some(filter) => wrong(filter),
    }
}

/// An agent claims no task that a hard filter keeps from it. Runs before the row is added to the model.
pub(in crate::sim) fn hard_filters_hold_for_claims(model: &Model, row: &LogRow) -> CheckResult {
    let EventRef::TaskClaimed(event) = row.event.typed() else { return Ok(()) };
    let Some(Row::Task(task)) = model.row(&Key::Task(event.task.clone())) else { return Ok(()) };
    let Some(terms) = task.origin.terms.as_deref() else { return Ok(()) };
    if task.reserved_for.as_ref() == Some(&event.agent) || has_authority(model, &row.actor) {
        return Ok(());
    }
    let Some(Row::Agent(agent)) = model.row(&Key::Agent(event.agent.clone())) else { return Ok(()) };
    match excluded(model, terms, agent) {
        None => Ok(()),
        Some(why) => {
            violation("hard_filters_hold_for_claims", format!("{}: {} claims {}: {why}", row.seq, agent.id, task.id))
        }
    }
}

fn has_authority(model: &Model, actor: &Actor) -> bool {
    match actor {
        Actor::Person(_) | Actor::System => true,
        Actor::Agent(agent) => {
            matches!(model.row(&Key::lead()), Some(Row::Lead(lead)) if lead.holder.as_ref() == Some(agent))
        }
        _ => false,
    }
}

/// The chosen agent gets the reservation and the request in the same commit as the decision.
pub(in crate::sim) fn decisions_are_forwarded(row: &LogRow, rest: &[LogRow]) -> CheckResult {
    let EventRef::RoutingDecided(decided) = row.event.typed() else { return Ok(()) };
    let chosen = decided.choice.selected.as_ref();
    match (rest.first().map(|row| row.event.typed()), rest.get(1).map(|row| row.event.typed())) {
        (Some(EventRef::TaskReserved(reserved)), Some(EventRef::TaskForwarded(forwarded)))
            if reserved.task == decided.task
                && forwarded.task == decided.task
                && Some(&reserved.agent) == chosen
                && Some(&forwarded.to) == chosen =>
        {
            Ok(())
        }
        other => violation("decisions_are_forwarded", format!("{} is followed by {other:?}", row.seq)),
    }
}

/// After the faults, no task waits that an online agent could get. An agent that declined is asked again at the reroute
/// alarm, which must be set.
pub(in crate::sim) fn routable_tasks_are_routed(model: &Model) -> CheckResult {
    for (_, row) in model.rows() {
        let Row::Task(task) = row else { continue };
        let Some(terms) = task.to_be_routed().filter(|_| gives_work(model, task)) else { continue };
        let has_reroute_alarm = task.clocks.get(AlarmKind::Reroute).is_some();
        let is_asked_later = |agent: &Agent| has_reroute_alarm && task.routing.declined_by.contains(&agent.id);
        let fits = |agent: &Agent| !is_asked_later(agent) && excluded(model, terms, agent).is_none();
        let fits = |row: &Row| matches!(row, Row::Agent(agent) if fits(agent));
        if let Some((key, _)) = model.rows().find(|(_, row)| fits(row)) {
            return violation("routable_tasks_are_routed", format!("{} waits, and {key:?} fits", task.id));
        }
    }
    Ok(())
}

/// A request is open only in the inbox of the agent for which its task is reserved. Runs after the last event of each
/// command.
pub(in crate::sim) fn open_requests_have_reservations(model: &Model) -> CheckResult {
    for (key, row) in model.rows() {
        let Row::Delivery(delivery) = row else { continue };
        let filed = model.row(&Key::Envelope(delivery.message.clone()));
        let is_request = matches!(filed, Some(Row::Envelope(filed)) if filed.message_type == MessageType::TaskRequest);
        if !is_request || delivery.is_settled() {
            continue;
        }
        let task = delivery.task.as_ref().and_then(|task| model.row(&Key::Task(task.clone())));
        if !matches!(task, Some(Row::Task(task)) if task.reserved_for.as_ref() == Some(&delivery.agent)) {
            return violation(
                "open_requests_have_reservations",
                format!("at {}: {key:?} asks for {task:?}", model.head()),
            );
        }
    }
    Ok(())
}

/// After the faults, every agent with a card has the request for each task that is reserved for it.
pub(in crate::sim) fn reserved_tasks_are_forwarded(model: &Model) -> CheckResult {
    for (_, row) in model.rows() {
        let Row::Task(task) = row else { continue };
        let Some(to) = task.to_be_passed_on() else { continue };
        let agent = model.row(&Key::Agent(to.clone()));
        if matches!(agent, Some(Row::Agent(agent)) if agent.profile.card.is_some() && agent.is_online()) {
            return violation(
                "reserved_tasks_are_forwarded",
                format!("{} is reserved for {to}, which has no request", task.id),
            );
        }
    }
    Ok(())
}

fn gives_work(model: &Model, task: &Task) -> bool {
    match model.row(&Key::Run(task.run.clone())) {
        Some(Row::Run(run)) => !matches!(run.status, RunStatus::Paused | RunStatus::Abandoned),
        _ => true,
    }
}

/// The hard filter that excludes an agent from a task, if any.
fn excluded(model: &Model, terms: &RequestTerms, agent: &Agent) -> Option<&'static str> {
    let (card, policy) = (Card::of(agent), &terms.policy);
    let trust = policy.trust_level.unwrap_or(TrustLevel::Sandbox);
    let full = card.limits.max_concurrency.is_some_and(|most| load(model, &agent.id) >= most as usize);
    let allowed = |need: &&Requirement| match &policy.tool_allowlist {
        Some(list) if is_tool(need) => list.iter().any(|tool| tool.ends_with(&format!(":{}", need.name()))),
        _ => true,
    };
    let filters = [
        ("it is offline", !agent.is_online()),
        ("it is paused", agent.paused.is_some()),
        ("it is not addressed", !is_addressed(terms, agent)),
        ("it has no sandbox", policy.sandbox == Some(true) && card.security.sandbox != Some(true)),
        ("it is not trusted", !card.capabilities.iter().any(|one| one.trust() >= trust) && trust > TrustLevel::Sandbox),
        ("a required tool is not allowed", !terms.requires.iter().all(|need| allowed(&need))),
        ("it is at its limit", full),
        ("it has no network", policy.network.is_some_and(|needed| card.network() < needed)),
        ("it lacks a required capability", !terms.requires.iter().all(|need| meets(&card, need, policy, trust))),
    ];
    filters.into_iter().find(|(_, excludes)| *excludes).map(|(why, _)| why)
}

fn load(model: &Model, agent: &AgentId) -> usize {
    let held = |row: &Row| matches!(row, Row::Task(task) if task.held_by() == Some(agent));
    model.rows().filter(|(_, row)| held(row)).count()
}

/// Whether a request addresses an agent: by name, else by group, else to any agent.
fn is_addressed(terms: &RequestTerms, agent: &Agent) -> bool {
    let mut named =
        terms.to.iter().filter_map(|to| if let Address::Agent(id) = to { Some(id) } else { None }).peekable();
    if named.peek().is_some() {
        return named.any(|id| *id == agent.id);
    }
    let mut groups =
        terms.to.iter().filter_map(|to| if let Address::Group(name) = to { Some(name) } else { None }).peekable();
    groups.peek().is_none()
        || groups.any(|name| match Group::named(name) {
            Some(group) => group.has(agent.profile.role),
            // The members at the time of the request.
            None => terms.members.contains(&agent.id),
        })
}

fn is_tool(need: &Requirement) -> bool {
    need.kind() == "tool"
}

/// Whether a card meets a requirement of the script: a skill with or without a version, or a tool.
fn meets(card: &Card, need: &Requirement, policy: &Policy, trust: TrustLevel) -> bool {
    if is_tool(need) {
        return card.tools().any(|tool| tool == need.name());
    }
    card.capabilities.iter().any(|capability| {
        let stated = capability.version.as_deref();
        let fits = need.versions.as_ref().is_none_or(|range| {
            stated.and_then(|version| version.parse().ok()).is_some_and(|version| range.matches(&version))
        });
        let allowed =
            policy.tool_allowlist.as_ref().is_none_or(|list| capability.tools.iter().all(|tool| list.contains(tool)));
        capability.id == need.capability && fits && allowed && capability.trust() >= trust
    })
}
