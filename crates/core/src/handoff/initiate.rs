//! Offering a task to another agent, or to whoever takes it.

use serde::{Deserialize, Serialize};

use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, HandoffId, TaskId};
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::task;
use crate::view::View;

/// What the next agent needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Note {
    pub summary: String,
    #[serde(default)]
    pub files_modified: Vec<String>,
    #[serde(default)]
    pub files_created: Vec<String>,
    #[serde(default)]
    pub context: String,
    #[serde(default)]
    pub blockers: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Initiate {
    pub id: HandoffId,
    pub from: AgentId,
    pub to: Option<AgentId>,
    pub task: TaskId,
    pub note: Note,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffInitiated {
    pub handoff: HandoffId,
    pub from: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    pub task: TaskId,
    #[serde(flatten)]
    pub note: Note,
}

impl Initiate {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks = task::asks(&self.task, Some(&self.from));
        asks.push(Key::Handoff(self.id.clone()).into());
        asks.extend(self.to.iter().map(|to| Key::Agent(to.clone()).into()));
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        self.check()?;
        if view.handoff(&self.id)?.is_some() {
            return Err(Refusal::new(Code::Exists, format!("handoff {} exists", self.id)).into());
        }
        view.agent_here(&self.from)?;
        let task = view.task_known(&self.task)?;
        if let Some(to) = &self.to
            && view.agent(to)?.is_none_or(|agent| agent.has_left())
        {
            return Err(
                Refusal::new(Code::UnknownReference, format!("to_agent: {to} is not an agent known here")).into()
            );
        }
        view.may_speak_for(caller, &self.from)?;
        task::may_change(view, caller, task, Some(&self.from))?;
        let fact = Fact::HandoffInitiated(HandoffInitiated {
            handoff: self.id.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            task: self.task.clone(),
            note: self.note.clone(),
        });
        Ok(Decision::new(vec![fact], Reply::Row(Key::Handoff(self.id.clone()))))
    }

    fn check(&self) -> Result<(), Refusal> {
        let note = &self.note;
        if note.summary.trim().is_empty() {
            return Err(Refusal::new(Code::Invalid, "summary must not be empty"));
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
