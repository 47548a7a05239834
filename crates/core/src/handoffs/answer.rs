//! Answering a handoff, once. Accepting moves the task and its file claims in one step.

use serde::{Deserialize, Serialize};

use crate::files::{ConflictResolved, FileClaimed};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, HandoffId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::file::File;
use crate::model::file_path::{Case, FilePath};
use crate::model::handoff::{Handoff, HandoffStatus};
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::task::{Task, ensure_fence};
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::tasks::{TaskClaimed, ack_request};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};
use crate::{eligibility, files, messages, runs};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptHandoff {
    pub handoff: HandoffId,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RejectHandoff {
    pub handoff: HandoffId,
    pub agent: AgentId,
    pub reason: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffAccepted {
    pub handoff: HandoffId,
    pub task: TaskId,
    pub from: AgentId,
    pub by: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for HandoffAccepted {
    const KIND: &'static str = "handoff.accepted";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.by), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Handoff(self.handoff.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.handoff.clone(), |handoff: &mut Handoff| handoff.answer(HandoffStatus::Accepted, &self.by));
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        // The agent that answers may act for the one that the task is offered to.
        Some(NotificationRule::to(Audience::Agents(vec![self.by.clone(), self.from.clone()])))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffRejected {
    pub handoff: HandoffId,
    pub task: TaskId,
    pub from: AgentId,
    pub by: AgentId,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for HandoffRejected {
    const KIND: &'static str = "handoff.rejected";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.by), ..Subject::task(&self.task, self.run.as_ref()) }
            .requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Handoff(self.handoff.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.handoff.clone(), |handoff: &mut Handoff| {
            handoff.answer(HandoffStatus::Rejected, &self.by);
            handoff.reason = Some(self.reason.clone());
        });
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        Some(NotificationRule::to(Audience::Agents(vec![self.from.clone()])))
    }
}

impl Command for AcceptHandoff {
    const NAME: &'static str = "AcceptHandoff";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        read_set(&self.handoff, &self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let handoff = answerable(cx.view, cx.caller, &self.handoff, &self.agent)?;
        let mut facts = vec![AnyEvent::new(HandoffAccepted {
            handoff: handoff.id.clone(),
            task: handoff.task.clone(),
            from: handoff.from.clone(),
            by: self.agent.clone(),
            run: run_of(cx.view, handoff)?,
            requested_in: requested_in(cx.view, handoff)?,
        })];
        facts.extend(ack_offer(cx.view, cx.caller, handoff, &self.agent)?);
        cx.view.online_agent(&self.agent)?;
        let task = cx.view.task(&handoff.task)?;
        if let Some(claim) = &task.claim {
            ensure_fence(cx.caller, Some(claim.fence))?;
        }
        if task.state.is_open() {
            facts.extend(self.takes(cx.view, cx.caller, handoff, task)?);
        }
        // With the task goes its new fence.
        Ok(Decision::new(facts, ReplySource::row(handoff.task.clone())))
    }
}

impl AcceptHandoff {
    /// The task and the claims that belong to it change hands, if the one who offers still holds them.
    fn takes(&self, view: &View, caller: &Caller, handoff: &Handoff, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
        let mut facts = Vec::new();
        match task.held_by() {
            Some(holder) if *holder == self.agent && task.claim.is_some() => {}
            Some(holder) if *holder != handoff.from && *holder != self.agent => {
                return Err(Rejection::new(Code::AlreadyClaimed, format!("task {} is held by {holder} now", task.id))
                    .hint("the one who offered it no longer holds it; reject the handoff")
                    .into());
            }
            _ => {
                view.agent_row(&self.agent)?.takes_work(caller)?;
                if task.reserved_for.as_ref() != Some(&self.agent) {
                    eligibility::ensure_eligible(view, caller, task, &self.agent)?;
                }
                facts.push(AnyEvent::new(TaskClaimed::new(task, &self.agent)));
                facts.extend(runs::start_run(view, &[task])?);
                facts.extend(ack_request(view, task, &self.agent)?);
            }
        }
        if handoff.from != self.agent {
            facts.extend(self.takes_files(view, handoff, task)?);
        }
        Ok(facts)
    }

    /// With the claims of the task goes what overlaps with them: two agents never hold overlapping paths.
    fn takes_files(&self, view: &View, handoff: &Handoff, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
        let held = view.files_held_by(&handoff.from)?;
        let (mut moving, mut staying): (Vec<&File>, Vec<&File>) =
            held.into_iter().partition(|file| belongs(file, task));
        let of_task = moving.len();
        let mut at = 0;
        while let Some(moved) = moving.get(at).copied() {
            let (with_it, rest) = staying.into_iter().partition(|file| file.path.overlaps(&moved.path));
            staying = rest;
            moving.extend::<Vec<&File>>(with_it);
            at += 1;
        }
        // An intruder that is given the path intrudes no more.
        let ours = |file: &&File| file.conflict.as_ref().is_some_and(|conflict| conflict.intruder == self.agent);
        let conflicts = files::conflicts_about(view, &moving)?.into_iter().filter(ours);
        let mut facts: Vec<AnyEvent> = conflicts.filter_map(ConflictResolved::without_winner).collect();
        facts.extend(moving.into_iter().enumerate().map(|(at, file)| {
            let own = file.claim.as_ref().and_then(|claim| claim.task.clone());
            AnyEvent::new(FileClaimed {
                path: file.path.clone(),
                agent: self.agent.clone(),
                task: if at < of_task { Some(task.id.clone()) } else { own },
                unknown_task: None,
                hash: file.content_hash.clone(),
                site: file.site.clone(),
                from: Some(handoff.from.clone()),
            })
        }));
        Ok(facts)
    }
}

/// Claimed for the task, or on one of its resources, however those are spelt.
fn belongs(file: &File, task: &Task) -> bool {
    let names = |resource: &String| {
        FilePath::parse(resource, Case::Kept).is_ok_and(|resource| {
            let (named, claimed) = (resource.to_string(), file.path.to_string());
            named == claimed || (resource.is_subtree() && claimed.starts_with(&named))
        })
    };
    file.claim.as_ref().and_then(|claim| claim.task.as_ref()) == Some(&task.id) || task.resources.iter().any(names)
}

impl Command for RejectHandoff {
    const NAME: &'static str = "RejectHandoff";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        read_set(&self.handoff, &self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        limit::text("reason", &self.reason, limit::TEXT_BYTES)?;
        let handoff = answerable(cx.view, cx.caller, &self.handoff, &self.agent)?;
        let fact = AnyEvent::new(HandoffRejected {
            handoff: handoff.id.clone(),
            task: handoff.task.clone(),
            from: handoff.from.clone(),
            by: self.agent.clone(),
            reason: self.reason.clone(),
            run: run_of(cx.view, handoff)?,
            requested_in: requested_in(cx.view, handoff)?,
        });
        let facts = std::iter::once(fact).chain(ack_offer(cx.view, cx.caller, handoff, &self.agent)?).collect();
        Ok(Decision::new(facts, ReplySource::done()))
    }
}

fn requested_in(view: &View, handoff: &Handoff) -> Result<RequestedIn, Undecided> {
    Ok(view.find_task(&handoff.task)?.map(RequestedIn::of).unwrap_or_default())
}

/// The run of the task that changes hands.
fn run_of(view: &View, handoff: &Handoff) -> Result<Option<RunId>, Undecided> {
    Ok(view.find_task(&handoff.task)?.and_then(Task::run_if_named))
}

/// Answering a handoff marks the message that notified the agent of it as acknowledged.
fn ack_offer(view: &View, caller: &Caller, handoff: &Handoff, agent: &AgentId) -> Result<Option<AnyEvent>, Undecided> {
    if caller.actor.agent() != Some(agent) {
        return Ok(None);
    }
    messages::noticed(view, &handoff.notification(), agent)
}

fn read_set(handoff: &HandoffId, agent: &AgentId) -> ReadSet {
    vec![Key::Handoff(handoff.clone()).into(), Key::Agent(agent.clone()).into(), Key::lead().into()]
}

/// The handoff, if it waits for an answer that this agent may give.
fn answerable<'v>(view: &'v View, caller: &Caller, id: &HandoffId, agent: &AgentId) -> Result<&'v Handoff, Undecided> {
    let Some(handoff) = view.handoff(id)? else {
        return Err(Rejection::new(Code::HandoffNotFound, "Handoff not found").into());
    };
    view.agent(agent)?;
    view.ensure_may_act_for(caller, agent)?;
    if handoff.status != HandoffStatus::Pending {
        let status = handoff.status.as_str();
        return Err(Rejection::new(Code::AlreadyAnswered, format!("handoff {id} was {status} already"))
            .hint("a handoff is answered once; for another change of hands, the holder offers it again")
            .into());
    }
    match &handoff.to {
        Some(to) if to != agent => Err(Rejection::new(Code::Forbidden, format!("handoff {id} is for {to}"))
            .hint(format!("only {to} can accept or reject it"))
            .into()),
        _ => {
            // Known before the answer, so that accepting needs one round of loading.
            let wanted = [ReadItem::Row(Key::Task(handoff.task.clone())), Lookup::files_held_by(&handoff.from).into()];
            view.ensure_loaded(wanted.into())?;
            Ok(handoff)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ClaimFile;
    use crate::model::agent::AgentStatus;
    use crate::model::task::TaskState;
    use crate::tasks::CreateTask;
    use crate::testing::{World, anna, by, claim_file, complete, create, hand_over};

    fn accept(agent: &str) -> AcceptHandoff {
        AcceptHandoff { handoff: "h".into(), agent: agent.into() }
    }

    fn reject(agent: &str) -> RejectHandoff {
        RejectHandoff { handoff: "h".into(), agent: agent.into(), reason: "no tests".to_owned() }
    }

    /// `a` works on `t` and offers it.
    fn offered(to: Option<&str>) -> World {
        let mut w = World::of(&["lead", "a", "b", "c"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        assert_eq!(w.does(&by("a"), hand_over("h", "a", to, "t")), ["handoff.initiated"]);
        w
    }

    #[test]
    fn only_the_one_it_is_for_answers_and_only_once() {
        let mut w = offered(Some("b"));
        for caller in [by("c"), by("a"), by("lead")] {
            let agent = caller.actor.to_string();
            assert_eq!(w.refuses(&caller, accept(&agent)), Code::Forbidden, "{agent}");
            assert_eq!(w.refuses(&caller, reject(&agent)), Code::Forbidden, "{agent}");
        }
        assert_eq!(w.refuses(&by("c"), accept("b")), Code::Forbidden);
        assert_eq!(w.refuses(&by("x"), accept("x")), Code::AgentNotFound);
        assert_eq!(w.does(&by("b"), accept("b")), ["handoff.accepted", "task.claimed"]);
        assert_eq!(w.refuses(&by("b"), accept("b")), Code::AlreadyAnswered);
        assert_eq!(w.refuses(&by("b"), reject("b")), Code::AlreadyAnswered);
        assert_eq!(w.refuses(&by("b"), AcceptHandoff { handoff: "x".into(), ..accept("b") }), Code::HandoffNotFound);
        assert_eq!(offered(Some("b")).does(&anna(), accept("b")).len(), 2, "a person may speak for it");
    }

    #[test]
    fn an_open_offer_is_for_anybody() {
        for agent in ["a", "b", "c", "lead"] {
            let mut w = offered(None);
            w.does(&by(agent), accept(agent));
            assert_eq!(w.holder("t"), Some(agent));
            assert_eq!(offered(None).does(&by(agent), reject(agent)), ["handoff.rejected"]);
        }
    }

    #[test]
    fn a_rejection_changes_nothing_but_the_handoff() {
        let mut w = offered(Some("b"));
        w.does(&by("b"), reject("b"));
        assert_eq!((w.holder("t"), w.handoff("h").reason.as_deref()), (Some("a"), Some("no tests")));
        assert_eq!(w.handoff("h").answered_by.as_ref().unwrap().as_str(), "b");
    }

    #[test]
    fn task_and_files_move_in_one_step() {
        let mut w = World::of(&["lead", "a", "b"]);
        let resources = vec!["./src//listed".to_owned(), "lib/".to_owned()];
        w.does(&anna(), CreateTask { resources, ..create("t", &[]) });
        w.starts("a", "t");
        w.does(&by("a"), ClaimFile { task: Some("t".into()), ..claim_file("a", "for_task") });
        for at in ["src/listed", "lib/x", "other"] {
            w.claims_file("a", at).unwrap();
        }
        let before = w.task("t").claim.as_ref().unwrap().fence;
        w.does(&by("a"), hand_over("h", "a", Some("b"), "t"));
        let stale = Caller { fence: Some(crate::kernel::id::Seq(1)), ..by("b") };
        assert_eq!(w.refuses(&stale, accept("b")), Code::StaleFence);
        w.does(&by("b"), accept("b"));
        for (at, holder) in [("for_task", "b"), ("src/listed", "b"), ("lib/x", "b"), ("other", "a")] {
            assert_eq!(w.file_holder(at), Some(holder), "{at}");
        }
        assert_eq!(w.file("src/listed").claim.as_ref().unwrap().task, Some("t".into()));
        assert_eq!((w.holder("t"), w.task("t").state), (Some("b"), TaskState::InProgress));
        assert!(w.task("t").claim.as_ref().unwrap().fence > before, "a new grant");
        assert_eq!((w.agent("a").holding, w.agent("a").status), (0, AgentStatus::Idle));
        assert_eq!((w.agent("b").holding, w.agent("b").status), (1, AgentStatus::Working));
    }

    #[test]
    fn what_overlaps_with_a_moving_claim_moves_along() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.does(&by("a"), ClaimFile { task: Some("t".into()), ..claim_file("a", "src/x") });
        for at in ["src/", "src/y", "doc/"] {
            w.claims_file("a", at).unwrap();
        }
        w.does(&by("a"), hand_over("h", "a", Some("b"), "t"));
        w.does(&by("b"), accept("b"));
        for (at, holder) in [("src/x", "b"), ("src/", "b"), ("src/y", "b"), ("doc/", "a")] {
            assert_eq!(w.file_holder(at), Some(holder), "{at}");
        }
        assert_eq!(w.file("src/").claim.as_ref().unwrap().task, None);
    }

    #[test]
    fn a_reservation_becomes_a_claim() {
        for reserved in ["a", "b"] {
            let mut w = World::of(&["lead", "a", "b"]);
            w.reserves("t", reserved);
            w.does(&anna(), hand_over("h", "a", Some("b"), "t"));
            assert_eq!(w.does(&by("b"), accept("b")), ["handoff.accepted", "task.claimed"]);
            assert_eq!((w.holder("t"), w.task("t").reserved_for.as_ref()), (Some("b"), None));
        }
    }

    #[test]
    fn what_the_giver_no_longer_has_is_not_taken_from_others() {
        let mut w = offered(Some("b"));
        w.goes_offline("a");
        w.claims("c", "t");
        assert_eq!(w.refuses(&by("b"), accept("b")), Code::AlreadyClaimed);
        let mut w = offered(Some("b"));
        w.goes_offline("a");
        w.does(&by("b"), accept("b"));
        assert_eq!(w.holder("t"), Some("b"), "nobody else took it");
        let mut w = offered(Some("b"));
        w.does(&by("a"), complete("t"));
        assert_eq!(w.does(&by("b"), accept("b")), ["handoff.accepted"], "a finished task stays as it is");
    }
}
