//! What an agent says it is doing. It lasts until its work says otherwise.

use serde::{Deserialize, Serialize};

use super::offline::{freeing_asks, goes_offline};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::{Agent, AgentStatus, Evidence};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetAgentStatus {
    pub agent: AgentId,
    pub status: AgentStatus,
    pub current_task: CurrentTask,
}

/// What an agent says of the task that it works on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurrentTask {
    #[default]
    AsBefore,
    Is(TaskId),
    Nothing,
}

impl CurrentTask {
    /// A task that is not named says nothing.
    pub fn named(task: Option<&str>) -> CurrentTask {
        task.map_or(CurrentTask::AsBefore, |task| CurrentTask::Is(TaskId::from(task)))
    }

    fn task(&self) -> Option<&TaskId> {
        match self {
            CurrentTask::Is(task) => Some(task),
            CurrentTask::AsBefore | CurrentTask::Nothing => None,
        }
    }

    fn differs_from(&self, now: Option<&TaskId>) -> bool {
        match self {
            CurrentTask::AsBefore => false,
            CurrentTask::Is(task) => now != Some(task),
            CurrentTask::Nothing => now.is_some(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentStatusSet {
    pub agent: AgentId,
    pub from: AgentStatus,
    pub status: AgentStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<TaskId>,
    /// It works on nothing in particular any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clears_task: bool,
}

impl Event for AgentStatusSet {
    const KIND: &'static str = "agent.status_set";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| {
            agent.status = self.status;
            if self.current_task.is_some() || self.clears_task {
                agent.current_task = self.current_task.clone();
            }
        });
    }
}

impl Command for SetAgentStatus {
    const NAME: &'static str = "SetAgentStatus";
    const SETTLES_MEMBERSHIP: bool = true;

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        let mut read_set = match self.status {
            AgentStatus::Offline => freeing_asks(&self.agent),
            _ => vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()],
        };
        read_set.extend(self.current_task.task().map(|task| Key::Task(task.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let agent = cx.view.agent(&self.agent)?;
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        self.check_task(cx.view, agent)?;
        if self.status == AgentStatus::Offline {
            if !agent.is_online() {
                return Ok(Decision::unchanged(ReplySource::done()));
            }
            let evidence = Evidence { last_seen: agent.seen_at, source: None, limit_millis: 0 };
            return Ok(Decision::new(goes_offline(cx.view, agent, &evidence)?, ReplySource::done()));
        }
        let mut facts = Vec::new();
        if !agent.is_online() {
            facts.extend(crate::agents::returning::comes_back(cx.view, agent)?);
            facts.extend(crate::agents::take_if_vacant(cx.view, agent)?);
        }
        if self.differs_from(agent) || !facts.is_empty() {
            facts.push(AnyEvent::new(AgentStatusSet {
                agent: self.agent.clone(),
                from: agent.status,
                status: self.status,
                current_task: self.current_task.task().cloned(),
                clears_task: self.current_task == CurrentTask::Nothing,
            }));
        }
        Ok(Decision::new(facts, ReplySource::done()))
    }
}

impl SetAgentStatus {
    /// Whether an agent that is as this would be another by it.
    pub(crate) fn differs_from(&self, agent: &Agent) -> bool {
        agent.status != self.status || self.current_task.differs_from(agent.current_task.as_ref())
    }

    /// A task that is newly named must exist. One that was named before may have been removed since: saying the same
    /// again is no mistake.
    fn check_task(&self, view: &View, agent: &Agent) -> Result<(), Undecided> {
        let Some(task) = self.current_task.task() else { return Ok(()) };
        limit::text("current_task", task.as_str(), limit::TASK_ID_BYTES)?;
        if agent.current_task.as_ref() == Some(task) || view.find_task(task)?.is_some() {
            return Ok(());
        }
        Err(Rejection::new(Code::TaskNotFound, format!("Task not found: '{task}'"))
            .hint("the call counts as a sign of life all the same; name a task that exists, or none")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::model::task::TaskState;
    use crate::testing::{World, anna, by, complete, moves};

    fn set(agent: &str, status: AgentStatus) -> SetAgentStatus {
        SetAgentStatus { agent: agent.into(), status, current_task: CurrentTask::AsBefore }
    }

    #[test]
    fn work_sets_the_status() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.creates("u", &[]);
        let now = |w: &World| (w.agent("a").status, w.agent("a").current_task.as_ref().map(|task| task.to_string()));
        assert_eq!(now(&w), (AgentStatus::Idle, None));
        w.claims("a", "t");
        assert_eq!(now(&w), (AgentStatus::Working, Some("t".to_owned())));
        w.starts("a", "u");
        assert_eq!(now(&w), (AgentStatus::Working, Some("u".to_owned())));
        w.starts("a", "t");
        assert_eq!(now(&w), (AgentStatus::Working, Some("t".to_owned())));
        w.does(&by("a"), moves("t", TaskState::Review));
        assert_eq!(now(&w), (AgentStatus::WaitingReview, Some("t".to_owned())));
        w.does(&by("a"), complete("t"));
        assert_eq!(now(&w), (AgentStatus::WaitingReview, None), "it holds another still");
        w.does(&by("a"), complete("u"));
        assert_eq!(now(&w), (AgentStatus::Idle, None));
    }

    #[test]
    fn what_an_agent_says_lasts_until_the_next_change() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        assert_eq!(w.says("a", AgentStatus::Blocked), ["agent.status_set"]);
        assert_eq!(w.says("a", AgentStatus::Blocked), [""; 0]);
        assert_eq!(w.agent("a").status, AgentStatus::Blocked);
        w.starts("a", "t");
        assert_eq!(w.agent("a").status, AgentStatus::Working);
    }

    #[test]
    fn a_heartbeat_may_name_the_current_task() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.claims("a", "t");
        let on = |task: Option<&str>| SetAgentStatus {
            current_task: CurrentTask::named(task),
            ..set("a", AgentStatus::Working)
        };
        assert_eq!(w.does(&by("a"), on(Some("t"))), [""; 0]);
        assert_eq!(w.refuses(&by("a"), on(Some("u"))), Code::TaskNotFound);
        w.plans("wf", &[("u", &[])]);
        w.does(&by("a"), on(Some("tk_u")));
        assert_eq!(w.agent("a").current_task.as_ref().unwrap().as_str(), "tk_u");
        w.does(&anna(), crate::plans::RemoveRunTask { run: "wf".into(), task: "tk_u".into() });
        assert_eq!(w.does(&by("a"), on(Some("tk_u"))), [""; 0], "what went meanwhile fails no heartbeat");
        assert_eq!(w.does(&by("a"), on(None)), [""; 0], "an absent one says nothing");
        let on_nothing = || SetAgentStatus { current_task: CurrentTask::Nothing, ..set("a", AgentStatus::Working) };
        assert_eq!(w.does(&by("a"), on_nothing()), ["agent.status_set"]);
        assert_eq!((w.agent("a").current_task.as_ref(), w.holder("t")), (None, Some("a")));
        assert_eq!(w.does(&by("a"), on_nothing()), [""; 0]);
    }

    #[test]
    fn saying_offline_frees_and_saying_anything_else_comes_back() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let facts = w.says("a", AgentStatus::Offline);
        assert_eq!(facts, ["agent.went_offline", "checkpoint.added", "task.released", "lead.chosen"]);
        assert_eq!((w.holder("t"), w.lead()), (None, Some("b")));
        assert_eq!(w.says("a", AgentStatus::Offline), [""; 0]);
        assert_eq!(w.says("a", AgentStatus::Blocked), ["agent.returned", "task.claimed", "agent.status_set"]);
        assert_eq!((w.holder("t"), w.agent("a").status), (Some("a"), AgentStatus::Blocked));
    }

    #[test]
    fn one_that_left_says_nothing_any_more() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("b"), crate::agents::LeaveTeam { agent: "b".into() });
        for status in [AgentStatus::Idle, AgentStatus::Working, AgentStatus::Offline] {
            assert_eq!(w.refuses(&by("b"), set("b", status)), Code::AgentNotFound, "{status:?}");
        }
        assert!(w.agent("b").has_left());
    }

    #[test]
    fn only_for_oneself_unless_lead_or_person() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), set("a", AgentStatus::Blocked)), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), set("x", AgentStatus::Idle)), Code::AgentNotFound);
        for (caller, status) in [
            (by("lead"), AgentStatus::Blocked),
            (anna(), AgentStatus::Working),
            (Caller::anonymous(), AgentStatus::WaitingReview),
            (by("a"), AgentStatus::Idle),
        ] {
            assert_eq!(w.does(&caller, set("a", status)), ["agent.status_set"]);
        }
    }
}
