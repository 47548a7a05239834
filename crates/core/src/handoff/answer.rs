//! Answering a handoff, once. Accepting moves the task and its file claims in one step.

use serde::{Deserialize, Serialize};

use super::{Handoff, HandoffStatus};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::{self, Case, ConflictResolved, File, FileClaimed, FilePath};
use crate::id::{AgentId, HandoffId, TaskId};
use crate::key::{Ask, Key, Lookup};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::task::{Task, TaskClaimed};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accept {
    pub handoff: HandoffId,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reject {
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
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffRejected {
    pub handoff: HandoffId,
    pub task: TaskId,
    pub from: AgentId,
    pub by: AgentId,
    pub reason: String,
}

impl Accept {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        asks(&self.handoff, &self.agent)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let handoff = answerable(view, caller, &self.handoff, &self.agent)?;
        let mut facts = vec![Fact::HandoffAccepted(HandoffAccepted {
            handoff: handoff.id.clone(),
            task: handoff.task.clone(),
            from: handoff.from.clone(),
            by: self.agent.clone(),
        })];
        view.agent_live(&self.agent)?;
        let task = view.task_known(&handoff.task)?;
        if task.state.is_open() {
            facts.extend(self.takes(view, handoff, task)?);
        }
        Ok(Decision::new(facts, Reply::Done))
    }

    /// The task and the claims that belong to it change hands, if the one who offers still holds them.
    fn takes(&self, view: &View, handoff: &Handoff, task: &Task) -> Result<Vec<Fact>, Halt> {
        let mut facts = Vec::new();
        match task.held_by() {
            Some(holder) if *holder == self.agent && task.claim.is_some() => {}
            Some(holder) if *holder != handoff.from && *holder != self.agent => {
                return Err(Refusal::new(Code::AlreadyClaimed, format!("task {} is held by {holder} now", task.id))
                    .hint("the one who offered it no longer holds it; reject the handoff")
                    .into());
            }
            _ => facts.push(Fact::TaskClaimed(TaskClaimed::new(task, &self.agent))),
        }
        if handoff.from != self.agent {
            facts.extend(self.takes_files(view, handoff, task)?);
        }
        Ok(facts)
    }

    /// With the claims of the task goes what overlaps with them: two agents never hold overlapping paths.
    fn takes_files(&self, view: &View, handoff: &Handoff, task: &Task) -> Result<Vec<Fact>, Halt> {
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
        let conflicts = file::conflicts_about(view, &moving)?.into_iter().filter(ours);
        let mut facts: Vec<Fact> = conflicts.filter_map(ConflictResolved::without_winner).collect();
        facts.extend(moving.into_iter().enumerate().map(|(at, file)| {
            let own = file.claim.as_ref().and_then(|claim| claim.task.clone());
            Fact::FileClaimed(FileClaimed {
                path: file.path.clone(),
                agent: self.agent.clone(),
                task: if at < of_task { Some(task.id.clone()) } else { own },
                hash: file.content_hash.clone(),
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

impl Reject {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        asks(&self.handoff, &self.agent)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        limit::text("reason", &self.reason, limit::TEXT_BYTES)?;
        let handoff = answerable(view, caller, &self.handoff, &self.agent)?;
        let fact = Fact::HandoffRejected(HandoffRejected {
            handoff: handoff.id.clone(),
            task: handoff.task.clone(),
            from: handoff.from.clone(),
            by: self.agent.clone(),
            reason: self.reason.clone(),
        });
        Ok(Decision::new(vec![fact], Reply::Done))
    }
}

fn asks(handoff: &HandoffId, agent: &AgentId) -> Vec<Ask> {
    vec![Key::Handoff(handoff.clone()).into(), Key::Agent(agent.clone()).into(), Key::Lead.into()]
}

/// The handoff, if it waits for an answer that this agent may give.
fn answerable<'v>(view: &'v View, caller: &Caller, id: &HandoffId, agent: &AgentId) -> Result<&'v Handoff, Halt> {
    let Some(handoff) = view.handoff(id)? else {
        return Err(Refusal::new(Code::HandoffNotFound, "Handoff not found").into());
    };
    view.agent_here(agent)?;
    view.may_speak_for(caller, agent)?;
    if handoff.status != HandoffStatus::Pending {
        let status = handoff.status.as_str();
        return Err(Refusal::new(Code::AlreadyAnswered, format!("handoff {id} was {status} already")).into());
    }
    match &handoff.to {
        Some(to) if to != agent => Err(Refusal::new(Code::Forbidden, format!("handoff {id} is for {to}"))
            .hint(format!("only {to} can accept or reject it"))
            .into()),
        _ => {
            // Known before the answer, so that accepting needs one round of loading.
            let wanted = [Ask::Row(Key::Task(handoff.task.clone())), Lookup::FilesHeldBy(handoff.from.clone()).into()];
            view.needs(wanted.into())?;
            Ok(handoff)
        }
    }
}
