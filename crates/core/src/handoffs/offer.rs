//! Offering a task to another agent, or to whoever takes it.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, HandoffId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::handoff::{Handoff, HandoffNote, HandoffStatus};
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, task};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OfferHandoff {
    pub id: HandoffId,
    pub from: AgentId,
    pub to: Option<AgentId>,
    pub task: TaskId,
    pub note: HandoffNote,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffInitiated {
    pub handoff: HandoffId,
    pub from: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    pub task: TaskId,
    #[serde(flatten)]
    pub note: HandoffNote,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for HandoffInitiated {
    const KIND: &'static str = "handoff.initiated";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.from), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Handoff(self.handoff.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let handoff = Handoff {
            id: self.handoff.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            task: self.task.clone(),
            status: HandoffStatus::Pending,
            note: self.note.clone(),
            answered_by: None,
            reason: None,
            created_at: stamp.at,
            created: stamp.seq,
        };
        rows.put(self.handoff.clone(), handoff);
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        // An offer to the whole team is in no inbox.
        self.to.as_ref().map(|to| NotificationRule::to(Audience::Agents(vec![to.clone()])))
    }
}

impl Command for OfferHandoff {
    const NAME: &'static str = "OfferHandoff";

    type Reply = Handoff;

    fn read_set(&self) -> ReadSet {
        let mut read_set = task::read_set(&self.task, Some(&self.from));
        read_set.push(Key::Handoff(self.id.clone()).into());
        read_set.extend(self.to.iter().map(|to| Key::Agent(to.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Handoff>, Undecided> {
        self.check()?;
        if cx.view.handoff(&self.id)?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("handoff {} exists", self.id)).into());
        }
        cx.view.agent(&self.from)?;
        let task = cx.view.task(&self.task)?;
        if let Some(to) = &self.to
            && cx.view.find_agent(to)?.is_none_or(|agent| agent.has_left())
        {
            return Err(Rejection::new(Code::UnknownReference, format!("to_agent: {to} is not an agent known here"))
                .hint("leave out to_agent to offer it to everybody, or name one of those that GET /agents lists")
                .into());
        }
        cx.view.ensure_may_act_for(cx.caller, &self.from)?;
        task::ensure_may_change(cx.view, cx.caller, task, Some(&self.from))?;
        let fact = AnyEvent::new(HandoffInitiated {
            handoff: self.id.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            task: self.task.clone(),
            note: self.note.clone(),
            run: task.run_if_named(),
            requested_in: RequestedIn::of(task),
        });
        Ok(Decision::new(vec![fact], ReplySource::row(self.id.clone())))
    }
}

impl OfferHandoff {
    fn check(&self) -> Result<(), Rejection> {
        let note = &self.note;
        if note.summary.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "summary must not be empty"));
        }
        limit::text("summary", &note.summary, limit::TEXT_BYTES)?;
        limit::text("context", &note.context, limit::TEXT_BYTES)?;
        for (field, list) in [
            ("files_modified", &note.files_modified),
            ("files_created", &note.files_created),
            ("blockers", &note.blockers),
        ] {
            limit::list(field, list)?;
            for entry in list {
                limit::text(field, entry, limit::PATH_BYTES)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, by, hand_over};

    #[test]
    fn only_the_holder_the_lead_and_people_offer_a_held_task() {
        for (caller, from, code) in [
            (by("a"), "a", None),
            (by("lead"), "lead", None),
            (anna(), "b", None),
            (Caller::anonymous(), "a", None),
            (by("b"), "b", Some(Code::NotHolder)),
            (by("b"), "a", Some(Code::Forbidden)),
            (Caller::anonymous(), "b", Some(Code::NotHolder)),
        ] {
            let mut w = World::of(&["lead", "a", "b"]);
            w.creates("t", &[]);
            w.starts("a", "t");
            match code {
                None => assert_eq!(w.does(&caller, hand_over("h", from, Some("b"), "t")), ["handoff.initiated"]),
                Some(code) => assert_eq!(w.refuses(&caller, hand_over("h", from, Some("b"), "t")), code),
            }
        }
    }

    #[test]
    fn what_it_names_must_be_there_and_fit() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        let note = |change: &dyn Fn(&mut HandoffNote)| {
            let mut offer = hand_over("h", "a", Some("b"), "t");
            change(&mut offer.note);
            offer
        };
        for (offer, code) in [
            (hand_over("h", "x", None, "t"), Code::AgentNotFound),
            (hand_over("h", "a", Some("x"), "t"), Code::UnknownReference),
            (hand_over("h", "a", None, "x"), Code::TaskNotFound),
            (note(&|note| note.summary = " ".to_owned()), Code::Invalid),
            (note(&|note| note.summary = "x".repeat(limit::TEXT_BYTES + 1)), Code::TooLarge),
            (note(&|note| note.blockers = vec![String::new(); limit::LIST_ENTRIES + 1]), Code::TooLarge),
        ] {
            assert_eq!(w.refuses(&anna(), offer), code);
        }
        w.does(&by("a"), hand_over("h", "a", None, "t"));
        assert_eq!(w.refuses(&by("a"), hand_over("h", "a", None, "t")), Code::AlreadyExists);
    }
}
