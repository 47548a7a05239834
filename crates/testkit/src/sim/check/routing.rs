//! What must hold of the router. Who fits is worked out here once more, from the words of cards and requests alone.

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

use super::{Checked, violated};
use crate::sim::model::Model;

/// Nobody is given a task whom a hard filter excludes at that moment. Told before the row is taken in.
pub(in crate::sim) fn hard_filters_hold(model: &Model, row: &LogRow) -> Checked {
    let EventRef::RoutingDecided(fact) = row.event.typed() else { return Ok(()) };
    let wrong = |why: &str| {
        violated("hard_filters_hold", format!("{} gives {} to {:?}: {why}", row.seq, fact.task, fact.choice.selected))
    };
    let Some(Row::Task(task)) = model.row(&Key::Task(fact.task.clone())) else { return wrong("there is no such task") };
    let Some(terms) = task.to_be_routed() else { return wrong("it is not to be routed") };
    let agent = fact.choice.selected.as_ref().and_then(|agent| model.row(&Key::Agent(agent.clone())));
    let Some(Row::Agent(agent)) = agent else { return wrong("there is no such agent") };
    match excluded(model, terms, agent) {
        None => Ok(()),
        Some(filter) => wrong(filter),
    }
}

/// Nobody takes by itself what the router would not have given it. Told before the row is taken in.
pub(in crate::sim) fn hard_filters_hold_for_claims(model: &Model, row: &LogRow) -> Checked {
    let EventRef::TaskClaimed(fact) = row.event.typed() else { return Ok(()) };
    let Some(Row::Task(task)) = model.row(&Key::Task(fact.task.clone())) else { return Ok(()) };
    let Some(terms) = task.origin.terms.as_deref() else { return Ok(()) };
    if task.reserved_for.as_ref() == Some(&fact.agent) || has_authority(model, &row.actor) {
        return Ok(());
    }
    let Some(Row::Agent(agent)) = model.row(&Key::Agent(fact.agent.clone())) else { return Ok(()) };
    match excluded(model, terms, agent) {
        None => Ok(()),
        Some(why) => {
            violated("hard_filters_hold_for_claims", format!("{}: {} takes {}: {why}", row.seq, agent.id, task.id))
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

/// Whoever is chosen gets the task and the request with it, all in one commit.
pub(in crate::sim) fn decisions_are_passed_on(row: &LogRow, rest: &[LogRow]) -> Checked {
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
        other => violated("decisions_are_passed_on", format!("{} is followed by {other:?}", row.seq)),
    }
}

/// At rest no task waits that somebody here could be given. Whoever was asked in vain is asked anew when the time for that
/// has come, which some clock must tell.
pub(in crate::sim) fn nobody_waits_in_vain(model: &Model) -> Checked {
    for (_, row) in model.rows() {
        let Row::Task(task) = row else { continue };
        let Some(terms) = task.to_be_routed().filter(|_| gives_work(model, task)) else { continue };
        let asked_later = task.clocks.get(AlarmKind::Reroute).is_some();
        let rests = |agent: &Agent| asked_later && task.routing.declined_by.contains(&agent.id);
        let fits = |agent: &Agent| !rests(agent) && excluded(model, terms, agent).is_none();
        let fits = |row: &Row| matches!(row, Row::Agent(agent) if fits(agent));
        if let Some((key, _)) = model.rows().find(|(_, row)| fits(row)) {
            return violated("nobody_waits_in_vain", format!("{} waits, and {key:?} fits", task.id));
        }
    }
    Ok(())
}

/// No request waits in an inbox but that of the agent whom its task is kept for. Told after each command's last fact.
pub(in crate::sim) fn no_request_is_void(model: &Model) -> Checked {
    for (key, row) in model.rows() {
        let Row::Delivery(delivery) = row else { continue };
        let filed = model.row(&Key::Envelope(delivery.message.clone()));
        let is_request = matches!(filed, Some(Row::Envelope(filed)) if filed.message_type == MessageType::TaskRequest);
        if !is_request || delivery.is_settled() {
            continue;
        }
        let task = delivery.task.as_ref().and_then(|task| model.row(&Key::Task(task.clone())));
        if !matches!(task, Some(Row::Task(task)) if task.reserved_for.as_ref() == Some(&delivery.agent)) {
            return violated("no_request_is_void", format!("at {}: {key:?} asks for {task:?}", model.head()));
        }
    }
    Ok(())
}

/// At rest everybody who has a card has the request for what is kept for it.
pub(in crate::sim) fn what_is_given_is_passed_on(model: &Model) -> Checked {
    for (_, row) in model.rows() {
        let Row::Task(task) = row else { continue };
        let Some(to) = task.to_be_passed_on() else { continue };
        let agent = model.row(&Key::Agent(to.clone()));
        if matches!(agent, Some(Row::Agent(agent)) if agent.profile.card.is_some() && agent.is_online()) {
            return violated("what_is_given_is_passed_on", format!("{} is kept for {to}, who was not told", task.id));
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

/// The filter that keeps a task from an agent, if one does.
fn excluded(model: &Model, terms: &RequestTerms, agent: &Agent) -> Option<&'static str> {
    let (card, policy) = (Card::of(agent), &terms.policy);
    let trust = policy.trust_level.unwrap_or(TrustLevel::Sandbox);
    let full = card.limits.max_concurrency.is_some_and(|most| load(model, &agent.id) >= most as usize);
    let allowed = |need: &&Requirement| match &policy.tool_allowlist {
        Some(list) if is_tool(need) => list.iter().any(|tool| tool.ends_with(&format!(":{}", need.name()))),
        _ => true,
    };
    let filters = [
        ("it is not here", !agent.is_online()),
        ("it is paused", agent.paused.is_some()),
        ("it was not asked", !is_asked(terms, agent)),
        ("no sandbox", policy.sandbox == Some(true) && card.security.sandbox != Some(true)),
        ("not trusted", !card.capabilities.iter().any(|one| one.trust() >= trust) && trust > TrustLevel::Sandbox),
        ("a tool that is not allowed", !terms.requires.iter().all(|need| allowed(&need))),
        ("it has enough to do", full),
        ("no network", policy.network.is_some_and(|needed| card.network() < needed)),
        ("something that is required", !terms.requires.iter().all(|need| meets(&card, need, policy, trust))),
    ];
    filters.into_iter().find(|(_, excludes)| *excludes).map(|(why, _)| why)
}

fn load(model: &Model, agent: &AgentId) -> usize {
    let held = |row: &Row| matches!(row, Row::Task(task) if task.held_by() == Some(agent));
    model.rows().filter(|(_, row)| held(row)).count()
}

/// Names count before groups, and groups before whoever the router chooses.
fn is_asked(terms: &RequestTerms, agent: &Agent) -> bool {
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
            // Whoever was in it when the request came.
            None => terms.members.contains(&agent.id),
        })
}

fn is_tool(need: &Requirement) -> bool {
    need.kind() == "tool"
}

/// The words of the script: skills with and without versions, and one tool.
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
