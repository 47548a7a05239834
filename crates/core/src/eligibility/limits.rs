//! The limits of a request hold for whoever takes its task, also by a way that the router has no part in.

use super::{TaskDemand, admits};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::routing::{Rejected, RejectionFilter};
use crate::model::task::Task;
use crate::model::{Undecided, View};

/// Why an agent with so many other tasks cannot have a task that was asked for by a request. Who was asked in vain may have
/// changed its mind.
pub(crate) fn blockers(task: &Task, agent: &Agent, load: u32) -> Option<Rejected> {
    let demand = TaskDemand::of(task.origin.terms.as_deref()?, &[]);
    if !demand.among.has(agent) {
        let reason = "is not among those who were asked".to_owned();
        return Some(Rejected { agent: agent.id.clone(), filter: RejectionFilter::Unknown, reason });
    }
    admits(&demand, agent, load).err()
}

/// Refuses a task to an agent whom its request excludes. The lead and people may give it to whom they like.
pub(crate) fn ensure_eligible(view: &View, caller: &Caller, task: &Task, agent: &AgentId) -> Result<(), Undecided> {
    if task.origin.terms.is_none() || view.has_authority(caller)? {
        return Ok(());
    }
    let load = load_beside(view, &task.id, agent)?;
    match blockers(task, view.agent_row(agent)?, load) {
        Some(rejected) => Err(refused(task, &rejected).into()),
        None => Ok(()),
    }
}

/// How many tasks an agent has, this one left out.
pub(crate) fn load_beside(view: &View, task: &TaskId, agent: &AgentId) -> Result<u32, Undecided> {
    let others = view.tasks_held_by(agent)?.into_iter().filter(|held| held.id != *task).count();
    Ok(u32::try_from(others).unwrap_or(u32::MAX))
}

fn refused(task: &Task, rejected: &Rejected) -> Rejection {
    let hint = match rejected.filter {
        RejectionFilter::Concurrency => {
            "finish or give back a task first; the lead or a person can assign this one all the same"
        }
        _ => "take another task, or have the lead or a person assign it; what the agent offers is said by its card",
    };
    let message = format!("task {} is not for {}: it {}", task.id, rejected.agent, rejected.reason);
    Rejection::new(Code::NotEligible, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agents::{EndpointGrant, RegisterAgent};
    use crate::model::agent::AgentRole;
    use crate::model::capabilities::Card;
    use crate::tasks::ClaimTask;
    use crate::testing::{World, anna, assign, by, claim, complete, hand_over, ingest, release, sends, start};

    fn joins(w: &mut World, id: &str, more: &Value) {
        let mut card = json!({ "v": "clutch/0.1", "agent_id": id });
        card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        w.does(&by(id), RegisterAgent::with_card(Card::read(&card).unwrap(), EndpointGrant::Unchanged));
    }

    /// A lead, `ken` with a card, and a task `t` that was asked for on these terms.
    fn asked(card: &Value, terms: &Value) -> World {
        let mut w = World::of(&["lead"]);
        joins(&mut w, "ken", card);
        sends(&mut w, "req", "task.request", "ui", &with(&json!({ "task_id": "t" }), terms));
        w
    }

    fn with(one: &Value, more: &Value) -> Value {
        let mut all = one.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    fn policy(policy: &Value) -> Value {
        json!({ "security": { "policy": policy } })
    }

    /// Every way to take a task that nobody has.
    fn attempts(w: &mut World) -> [Result<(), Rejection>; 4] {
        let told = |w: &mut World, way: usize| match way {
            0 => w.run(&by("ken"), claim("ken", "t")),
            1 => w.run(&by("ken"), start(Some("ken"), "t")),
            2 => w.run(&by("ken"), ClaimTask { task: "t".into(), agent: "ken".into() }),
            _ => w.run(&by("ken"), ingest("acc", "task.accept", "ken", &json!({ "task_id": "t" }))),
        };
        [0, 1, 2, 3].map(|way| told(w, way).map(drop))
    }

    #[test]
    fn whom_a_request_excludes_cannot_take_its_task_and_is_told_why() {
        for (card, terms, why) in [
            (json!({}), policy(&json!({ "sandbox": true })), "is not sandboxed"),
            (json!({}), policy(&json!({ "trust_level": "prod" })), "is not trusted at level prod"),
            (json!({}), policy(&json!({ "network": "egress-allowed" })), "reaches egress-restricted of the network"),
            (json!({}), json!({ "requires": ["tool:browser"] }), "does not offer tool:browser"),
            (
                json!({ "capabilities": [{ "id": "tool:browser" }] }),
                with(&policy(&json!({ "tool_allowlist": ["mcp:files"] })), &json!({ "requires": ["tool:browser"] })),
                "may not use tool:browser",
            ),
            (json!({}), json!({ "requires": ["skill:law"] }), "lacks skill:law"),
            (json!({}), json!({ "to": [{ "agent_id": "agent:lead" }] }), "is not among those who were asked"),
            (json!({}), json!({ "to": [{ "agent_id": "group:specialists" }] }), "is not among those who were asked"),
        ] {
            let mut w = asked(&card, &terms);
            for refusal in attempts(&mut w).map(Result::unwrap_err) {
                assert_eq!(refusal.code, Code::NotEligible, "{why}");
                assert!(
                    refusal.message.starts_with(&format!("task t is not for ken: it {why}")),
                    "{}",
                    refusal.message
                );
                assert!(refusal.hint.is_some_and(|hint| hint.contains("assign it")));
            }
            // Who decides about the work decides about that too.
            w.does(&anna(), claim("ken", "t"));
            assert_eq!(w.holder("t"), Some("ken"), "{why}");
            let mut w = asked(&card, &terms);
            assert_eq!(w.does(&by("lead"), assign("t", "ken")), ["task.reserved"]);
            w.does(&by("ken"), start(None, "t"));
            assert_eq!(w.holder("t"), Some("ken"), "{why}");
        }
    }

    #[test]
    fn whoever_has_enough_takes_nothing_more_that_a_request_asks_for() {
        let mut w = asked(&json!({ "limits": { "max_concurrency": 1 } }), &json!({}));
        w.creates("plain", &[]);
        w.claims("ken", "plain");
        let refusal = w.run(&by("ken"), claim("ken", "t")).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (Code::NotEligible, "task t is not for ken: it has 1 of 1 tasks")
        );
        assert!(refusal.hint.is_some_and(|hint| hint.starts_with("finish or give back")));
        w.creates("more", &[]);
        assert_eq!(w.claims("ken", "more"), ["task.claimed"], "nobody limits what no request asked for");
        for task in ["plain", "more"] {
            w.starts("ken", task);
            w.does(&by("ken"), complete(task));
        }
        w.claims("ken", "t");
        assert_eq!(w.claims("ken", "t"), [""; 0], "it has it already");
    }

    #[test]
    fn one_that_declined_may_change_its_mind() {
        let mut w = asked(&json!({}), &json!({}));
        w.does(&by("lead"), assign("t", "ken"));
        w.does(&by("ken"), release("t"));
        w.claims("ken", "t");
        assert_eq!(w.holder("t"), Some("ken"));
    }

    #[test]
    fn a_handoff_gives_nobody_what_it_may_not_have() {
        let mut w = asked(&json!({ "security": { "sandbox": true } }), &policy(&json!({ "sandbox": true })));
        w.joins("ada", AgentRole::Worker);
        w.starts("ken", "t");
        w.does(&by("ken"), hand_over("h", "ken", Some("ada"), "t"));
        let accept = || crate::handoffs::AcceptHandoff { handoff: "h".into(), agent: "ada".into() };
        let refusal = w.run(&by("ada"), accept()).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (Code::NotEligible, "task t is not for ada: it is not sandboxed")
        );
        assert_eq!(w.does(&anna(), accept()), ["handoff.accepted", "message.sent", "task.claimed"]);
        assert_eq!(w.holder("t"), Some("ada"));
    }

    #[test]
    fn whoever_comes_back_as_another_gets_back_only_what_it_still_may_have() {
        let sandboxed = json!({ "security": { "sandbox": true } });
        for (card, regains) in [(&sandboxed, true), (&json!({}), false)] {
            let mut w = asked(&sandboxed, &policy(&json!({ "sandbox": true })));
            w.creates("plain", &[]);
            for task in ["t", "plain"] {
                w.claims("ken", task);
            }
            w.goes_offline("ken");
            joins(&mut w, "ken", card);
            assert_eq!(w.holder("t"), regains.then_some("ken"));
            assert_eq!(w.holder("plain"), Some("ken"));
        }
    }
}
