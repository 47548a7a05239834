//! An agent leaves on its own account or is removed: it frees what it holds and stays readable by id.

use serde::{Deserialize, Serialize};

use super::offline::{freeing_asks, frees};
use super::successor;
use crate::kernel::id::AgentId;
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaveTeam {
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentLeft {
    pub agent: AgentId,
}

impl Event for AgentLeft {
    const KIND: &'static str = "agent.left";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.leave(stamp.at));
    }
}

impl Command for LeaveTeam {
    const NAME: &'static str = "LeaveTeam";
    const SETTLES_MEMBERSHIP: bool = true;

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        freeing_asks(&self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let agent = cx.view.agent_row(&self.agent)?;
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        if agent.has_left() {
            return Ok(Decision::unchanged(ReplySource::done()));
        }
        let mut facts = vec![AnyEvent::new(AgentLeft { agent: self.agent.clone() })];
        facts.extend(frees(cx.view, &self.agent, ReleaseReason::HolderLeft)?.0);
        facts.extend(successor(cx.view, &self.agent)?);
        Ok(Decision::new(facts, ReplySource::done()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ResolveConflict;
    use crate::kernel::caller::Caller;
    use crate::kernel::code::Code;
    use crate::model::agent::AgentStatus;
    use crate::model::task::TaskState;
    use crate::testing::{World, anna, assign, by, claim, claim_file, create, hand_over, path, start};

    fn leave(agent: &str) -> LeaveTeam {
        LeaveTeam { agent: agent.into() }
    }

    #[test]
    fn it_frees_what_it_holds_and_stays_readable() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.claims_file("a", "x").unwrap();
        let facts = w.does(&by("a"), leave("a"));
        assert_eq!(
            facts,
            ["agent.left", "checkpoint.added", "task.released", "file.released", "lead.chosen"],
            "one command ends it all"
        );
        assert_eq!((w.holder("t"), w.task("t").state, w.file_holder("x")), (None, TaskState::Pending, None));
        let a = w.agent("a");
        assert!(a.has_left() && a.status == AgentStatus::Offline && a.holding == 0 && a.current_task.is_none());
        assert!(a.claims_when_offline.tasks.is_empty(), "it went for good");
        assert_eq!(w.lead(), Some("b"));
        assert_eq!(w.does(&by("a"), leave("a")), [""; 0]);
    }

    #[test]
    fn the_lead_and_people_may_send_an_agent_away_and_others_may_not() {
        let mut w = World::of(&["lead", "a", "b", "c", "d"]);
        assert_eq!(w.refuses(&by("a"), leave("b")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), leave("x")), Code::AgentNotFound);
        for (caller, agent) in [(by("lead"), "a"), (anna(), "b"), (Caller::anonymous(), "c"), (by("d"), "d")] {
            assert_eq!(w.does(&caller, leave(agent)), ["agent.left"]);
        }
    }

    #[test]
    fn one_that_left_is_given_nothing() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.does(&by("a"), leave("a"));
        assert_eq!(w.refuses(&by("a"), claim("a", "t")), Code::AgentNotFound);
        assert_eq!(w.refuses(&by("a"), start(Some("a"), "t")), Code::AgentNotFound);
        assert_eq!(w.refuses(&anna(), assign("t", "a")), Code::AgentNotFound);
        assert_eq!(w.refuses(&by("a"), hand_over("h", "a", None, "t")), Code::AgentNotFound);
        assert_eq!(w.refuses(&by("lead"), hand_over("h", "lead", Some("a"), "t")), Code::UnknownReference);
        let reserved = crate::tasks::CreateTask { assigned_to: Some("a".into()), ..create("u", &[]) };
        assert_eq!(w.refuses(&anna(), reserved), Code::UnknownReference);
        assert_eq!(w.claims_file("a", "x"), Err(None));
    }

    #[test]
    fn one_that_is_offline_is_given_nothing_it_could_keep_for_ever() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.claims_file("lead", "x").unwrap();
        w.goes_offline("a");
        assert_eq!(w.refuses(&anna(), claim("a", "t")), Code::AgentOffline);
        assert_eq!(w.refuses(&anna(), start(Some("a"), "t")), Code::AgentOffline);
        assert_eq!(w.asks_file(&anna(), claim_file("a", "y")), Err(None));
        let note = crate::files::RecordChange {
            path: path("x"),
            by: Some("b".into()),
            before: None,
            after: None,
            source: crate::files::ChangeSource::Report,
            task: None,
            metadata: serde_json::Map::new(),
            site: None,
            escalate_after_millis: 1,
        };
        w.does(&Caller::watcher(), note);
        assert_eq!(w.refuses(&anna(), ResolveConflict { path: path("x"), winner: "a".into() }), Code::AgentOffline);
        w.does(&anna(), hand_over("h", "lead", Some("a"), "t"));
        let accept = crate::handoffs::AcceptHandoff { handoff: "h".into(), agent: "a".into() };
        assert_eq!(w.refuses(&anna(), accept), Code::AgentOffline);
        assert_eq!(w.refuses(&anna(), assign("t", "a")), Code::AgentOffline);
    }
}
