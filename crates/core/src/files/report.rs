//! What an agent tells the team without asking for anything: recorded, and changing nothing.

use serde::{Deserialize, Serialize};

use crate::kernel::id::{AgentId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::file_path::FilePath;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource, Subject};

/// An event as its reporter tells it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub agent: AgentId,
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<FilePath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_hash: Option<String>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Command for Report {
    const NAME: &'static str = "AddReport";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        limit::name("agent_id", self.agent.as_str(), limit::AGENT_ID_BYTES)?;
        limit::name("action", &self.action, limit::NAME_BYTES)?;
        check_evidence(self.task.as_ref(), &self.before_hash, &self.after_hash, &self.metadata)?;
        cx.view.ensure_may_author_as(cx.caller, &self.agent)?;
        Ok(Decision::new(vec![AnyEvent::new(self.clone())], ReplySource::first_seq()))
    }
}

impl Report {
    /// How many paths a summary of changes names.
    pub const SAMPLE: usize = 10;
}

impl Event for Report {
    const KIND: &'static str = "report.added";

    fn subject(&self) -> Subject<'_> {
        Subject { task: self.task.as_ref(), path: self.resource.as_ref(), ..Subject::agent(&self.agent) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}
}

/// What a report may carry along, whether it has an effect or not.
pub(crate) fn check_evidence(
    task: Option<&TaskId>,
    before: &Option<String>,
    after: &Option<String>,
    metadata: &serde_json::Map<String, serde_json::Value>,
) -> Result<(), Rejection> {
    limit::text("task_id", task.map_or("", TaskId::as_str), limit::TASK_ID_BYTES)?;
    for (field, hash) in [("before_hash", before), ("after_hash", after)] {
        limit::text(field, hash.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    }
    limit::json("metadata", metadata, limit::TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::kernel::code::Code;
    use crate::model::task::TaskState;
    use crate::testing::{World, anna, by};
    use crate::traits::AnyReplySource;

    fn report(agent: &str, action: &str) -> Report {
        Report {
            agent: agent.into(),
            action: action.to_owned(),
            resource: None,
            task: Some("t".into()),
            before_hash: None,
            after_hash: None,
            metadata: serde_json::Map::new(),
        }
    }

    #[test]
    fn a_report_is_recorded_and_changes_nothing() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let rows = w.rows().clone();
        let (facts, reply) = w.run(&by("a"), report("a", "task.completed")).unwrap();
        assert_eq!((facts.len(), reply), (1, AnyReplySource::FirstSeq));
        assert_eq!((w.rows(), w.task("t").state), (&rows, TaskState::InProgress));
    }

    #[test]
    fn nobody_signs_with_the_name_of_another() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("a"), report("b", "x.y")), Code::Forbidden);
        for name in ["system", "person:anna", "router"] {
            assert_eq!(w.refuses(&Caller::anonymous(), report(name, "x.y")), Code::Forbidden);
        }
        for (caller, name) in [(by("lead"), "b"), (anna(), "person:anna"), (Caller::anonymous(), "stranger")] {
            assert_eq!(w.does(&caller, report(name, "x.y")), ["report.added"], "{name}");
        }
    }

    #[test]
    fn it_is_limited() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.refuses(&by("a"), report("a", "")), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), report("", "x.y")), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), report("a", &"x".repeat(limit::NAME_BYTES + 1))), Code::TooLarge);
        let task = Some("x".repeat(limit::TASK_ID_BYTES + 1).as_str().into());
        assert_eq!(w.refuses(&by("a"), Report { task, ..report("a", "x.y") }), Code::TooLarge);
        let long = Some("x".repeat(limit::NAME_BYTES + 1));
        assert_eq!(w.refuses(&by("a"), Report { before_hash: long, ..report("a", "x.y") }), Code::TooLarge);
    }
}
