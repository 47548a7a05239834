//! Answering a handoff, once. Accepting moves the task and its file claims in one step.

use serde::{Deserialize, Serialize};

use super::{Handoff, HandoffStatus};
use crate::actor::Caller;
use crate::agent::wakes;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::{File, FileClaimed};
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
        let mut facts = wakes(view, &self.agent)?;
        let returned = facts.len();
        facts.push(Fact::HandoffAccepted(HandoffAccepted {
            handoff: handoff.id.clone(),
            task: handoff.task.clone(),
            from: handoff.from.clone(),
            by: self.agent.clone(),
        }));
        let task = view.task_known(&handoff.task)?;
        if task.state.is_open() {
            // It may be among what the agent gets back.
            let takes = self.takes(view, handoff, task)?.into_iter();
            let again = TaskClaimed::is_among(&facts[..returned], &task.id);
            facts.extend(takes.filter(|fact| !(again && matches!(fact, Fact::TaskClaimed(_)))));
        }
        Ok(Decision::new(facts, Reply::Done))
    }

    /// The task and the claims that belong to it change hands, if the one who offers still holds them.
    fn takes(&self, view: &View, handoff: &Handoff, task: &Task) -> Result<Vec<Fact>, Halt> {
        let mut facts = Vec::new();
        match task.held_by() {
            Some(holder) if *holder == self.agent => {}
            Some(holder) if *holder != handoff.from => {
                return Err(Refusal::new(Code::AlreadyClaimed, format!("task {} is held by {holder} now", task.id))
                    .hint("the one who offered it no longer holds it; reject the handoff")
                    .into());
            }
            _ => facts.push(Fact::TaskClaimed(TaskClaimed::new(task, &self.agent))),
        }
        for file in moving(view.files_held_by(&handoff.from)?, task) {
            facts.push(Fact::FileClaimed(FileClaimed {
                path: file.path.clone(),
                agent: self.agent.clone(),
                task: Some(task.id.clone()),
                hash: file.content_hash.clone(),
                from: Some(handoff.from.clone()),
            }));
        }
        Ok(facts)
    }
}

/// The claims that belong to the task, and those that overlap with them: two agents never hold overlapping paths.
fn moving<'v>(held: Vec<&'v File>, task: &Task) -> Vec<&'v File> {
    let (mut moving, mut staying): (Vec<&File>, Vec<&File>) = held.into_iter().partition(|file| belongs(file, task));
    loop {
        let overlaps = |file: &&File| moving.iter().any(|moved| moved.path.overlaps(&file.path));
        let (more, rest): (Vec<&File>, Vec<&File>) = staying.into_iter().partition(overlaps);
        if more.is_empty() {
            return moving;
        }
        moving.extend(more);
        staying = rest;
    }
}

fn belongs(file: &File, task: &Task) -> bool {
    file.claim.as_ref().and_then(|claim| claim.task.as_ref()) == Some(&task.id)
        || task.resources.iter().any(|resource| *resource == file.path.to_string())
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
        None if handoff.from == *agent => {
            Err(Refusal::new(Code::Forbidden, format!("handoff {id} is your own offer")).into())
        }
        _ => {
            // Known before the answer, so that accepting needs one round of loading.
            let wanted = [Ask::Row(Key::Task(handoff.task.clone())), Lookup::FilesHeldBy(handoff.from.clone()).into()];
            let missing: Vec<Ask> = wanted.into_iter().filter(|ask| !view.knows(ask)).collect();
            if missing.is_empty() { Ok(handoff) } else { Err(Halt::Missing(missing)) }
        }
    }
}
