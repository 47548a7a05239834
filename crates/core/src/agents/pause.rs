//! Pausing an agent: it finishes what it has and gets nothing new until it is let go on. The router passes it over, it takes
//! no task, and its runner does not wake it; what is said to it waits.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::{Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::{Agent, Paused};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseAgent {
    pub agent: AgentId,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumeAgent {
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentPaused {
    pub agent: AgentId,
    pub paused_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentResumed {
    pub agent: AgentId,
}

impl Event for AgentResumed {
    const KIND: &'static str = "agent.resumed";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.paused = None);
    }
}

impl AgentPaused {
    pub(super) fn paused(&self, at: Timestamp) -> Paused {
        Paused { by: self.paused_by.clone(), reason: self.reason.clone(), since: at }
    }
}

impl Event for AgentPaused {
    const KIND: &'static str = "agent.paused";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.paused = Some(self.paused(stamp.at)));
    }
}

impl Command for PauseAgent {
    const NAME: &'static str = "PauseAgent";

    type Reply = Agent;

    fn read_set(&self) -> ReadSet {
        read_set(&self.agent)
    }

    /// Asking again with another reason gives that reason.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Agent>, Undecided> {
        cx.view.ensure_authority(cx.caller, "pause an agent")?;
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let agent = cx.view.agent(&self.agent)?;
        let reply = ReplySource::row(self.agent.clone());
        if agent.paused.as_ref().is_some_and(|paused| paused.reason == self.reason) {
            return Ok(Decision::unchanged(reply));
        }
        let fact = AgentPaused {
            agent: self.agent.clone(),
            paused_by: cx.caller.actor.to_string(),
            reason: self.reason.clone(),
        };
        Ok(Decision::new(vec![AnyEvent::new(fact)], reply))
    }
}

impl Command for ResumeAgent {
    const NAME: &'static str = "ResumeAgent";

    type Reply = Agent;

    fn read_set(&self) -> ReadSet {
        read_set(&self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Agent>, Undecided> {
        cx.view.ensure_authority(cx.caller, "let an agent go on")?;
        if cx.caller.actor.agent() == Some(&self.agent) && cx.caller.power != Authority::Person {
            return Err(Rejection::new(Code::Forbidden, "nobody lets itself go on")
                .hint("ask a person, or another lead")
                .into());
        }
        let agent = cx.view.agent(&self.agent)?;
        let fact = agent.paused.as_ref().map(|_| AnyEvent::new(AgentResumed { agent: self.agent.clone() }));
        Ok(Decision::new(fact.into_iter().collect(), ReplySource::row(self.agent.clone())))
    }
}

fn read_set(agent: &AgentId) -> ReadSet {
    vec![Key::Agent(agent.clone()).into(), Key::lead().into()]
}

impl Agent {
    /// Refuses new work to one that is paused. People may give it to whom they like.
    pub(crate) fn takes_work(&self, caller: &Caller) -> Result<(), Rejection> {
        match &self.paused {
            Some(paused) if caller.power != Authority::Person => Err(self.is_paused(paused)),
            _ => Ok(()),
        }
    }

    /// Refuses to wake one that is paused, whoever wants it.
    pub(crate) fn may_be_woken(&self) -> Result<(), Rejection> {
        self.paused.as_ref().map_or(Ok(()), |paused| Err(self.is_paused(paused)))
    }

    fn is_paused(&self, paused: &Paused) -> Rejection {
        let why = paused.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("agent '{}' is paused by {}{why}", self.id, paused.by);
        let hint = format!("it may finish what it has; a person lets it go on with 'rookery resume {}'", self.id);
        Rejection::new(Code::AgentPaused, message).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::model::agent::AgentRole;
    use crate::testing::{World, anna, assign, by, claim, complete, hand_over, kickoff, runs_in, start, wakes};

    fn pause(agent: &str) -> PauseAgent {
        PauseAgent { agent: agent.into(), reason: Some("the budget".to_owned()) }
    }

    fn unpause(agent: &str) -> ResumeAgent {
        ResumeAgent { agent: agent.into() }
    }

    #[test]
    fn one_that_is_paused_finishes_what_it_has_and_takes_nothing_new() {
        let mut w = World::of(&["lead", "a"]);
        for task in ["t", "u"] {
            w.creates(task, &[]);
        }
        w.starts("a", "t");
        assert_eq!(w.does(&anna(), pause("a")), ["agent.paused"]);
        assert_eq!(w.does(&anna(), pause("a")), [""; 0]);
        let paused = w.agent("a").paused.clone().unwrap();
        assert_eq!((paused.by.as_str(), paused.reason.as_deref()), ("person:anna", Some("the budget")));
        let refusal = w.run(&by("a"), claim("a", "u")).unwrap_err();
        assert_eq!(refusal.code, Code::AgentPaused);
        assert_eq!(refusal.message, "agent 'a' is paused by person:anna: the budget");
        assert_eq!(w.refuses(&by("a"), start(Some("a"), "u")), Code::AgentPaused);
        assert_eq!(w.claims("a", "t"), [""; 0], "it has that");
        w.does(&by("a"), complete("t"));
        assert_eq!(w.does(&anna(), unpause("a")), ["agent.resumed"]);
        assert_eq!(w.does(&anna(), unpause("a")), [""; 0]);
        assert_eq!(w.claims("a", "u"), ["task.claimed"]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_is_kept_or_offered_for_it_waits() {
        let mut w = World::of(&["lead", "a", "b"]);
        for task in ["t", "u"] {
            w.creates(task, &[]);
        }
        w.does(&anna(), pause("a"));
        assert_eq!(w.does(&by("lead"), assign("t", "a")), ["task.reserved"]);
        assert_eq!(w.refuses(&by("a"), claim("a", "t")), Code::AgentPaused);
        w.starts("b", "u");
        w.does(&by("b"), hand_over("h", "b", Some("a"), "u"));
        let accept = || crate::handoffs::AcceptHandoff { handoff: "h".into(), agent: "a".into() };
        assert_eq!(w.refuses(&by("a"), accept()), Code::AgentPaused);
        assert_eq!(w.does(&anna(), accept()), ["handoff.accepted", "task.claimed"], "people decide otherwise");
    }

    #[test]
    fn nobody_pauses_others_but_the_lead_and_people() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), pause("a")), Code::Forbidden);
        assert_eq!(w.refuses(&by("a"), unpause("a")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), pause("x")), Code::AgentNotFound);
        assert_eq!(w.does(&by("lead"), pause("a")), ["agent.paused"]);
        assert_eq!(w.does(&anna(), pause("lead")), ["agent.paused"]);
        w.creates("t", &[]);
        assert_eq!(w.refuses(&by("lead"), claim("lead", "t")), Code::AgentPaused, "the lead no more than others");
    }

    #[test]
    fn a_pause_lasts_until_somebody_else_ends_it_or_the_agent_leaves() {
        let mut w = World::of(&["lead", "a"]);
        w.does(&anna(), pause("a"));
        w.goes_offline("a");
        w.joins("a", AgentRole::Worker);
        assert!(w.agent("a").paused.is_some());
        w.does(&by("a"), LeaveTeam { agent: "a".into() });
        w.joins("a", AgentRole::Worker);
        assert!(w.agent("a").paused.is_none(), "who joins anew begins anew");
        for agent in ["a", "lead"] {
            w.does(&anna(), pause(agent));
        }
        assert_eq!(w.refuses(&by("lead"), unpause("lead")), Code::Forbidden);
        assert_eq!(w.does(&by("lead"), unpause("a")), ["agent.resumed"]);
    }

    #[test]
    fn its_runner_does_not_wake_it() {
        let mut w = runs_in("@pr-1", &["a"]);
        w.joins("a@pr-1", AgentRole::Worker);
        w.does(&anna(), kickoff("@pr-1", 1, Some("@a begin")));
        w.does(&anna(), pause("a@pr-1"));
        assert_eq!(w.refuses(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["kickoff1"])), Code::AgentPaused);
        assert_eq!(w.pending("a@pr-1"), ["kickoff1"]);
        w.does(&anna(), unpause("a@pr-1"));
        w.does(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["kickoff1"]));
    }
}
