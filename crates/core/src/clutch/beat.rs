//! What a heartbeat says beside that its agent lives. Payloads are anybody's own: what cannot be understood says nothing.

use serde_json::{Map, Value};

use crate::agents::{CurrentTask, SetAgentStatus};
use crate::kernel::id::AgentId;
use crate::model::agent::{Agent, AgentStatus};

/// A sign of life, which the log does not keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    pub agent: AgentId,
    doing: Option<Doing>,
    current_task: CurrentTask,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Is(AgentStatus),
    /// Something, whatever it is.
    Busy,
}

impl Doing {
    /// In the words of any face. Who goes offline says so otherwise, and not by being alive.
    fn read(word: &str) -> Option<Doing> {
        match word {
            "idle" | "active" | "online" => Some(Doing::Is(AgentStatus::Idle)),
            "working" => Some(Doing::Is(AgentStatus::Working)),
            "blocked" => Some(Doing::Is(AgentStatus::Blocked)),
            "waiting_review" => Some(Doing::Is(AgentStatus::WaitingReview)),
            "busy" => Some(Doing::Busy),
            _ => None,
        }
    }
}

impl Heartbeat {
    /// What its payload says.
    pub fn read(agent: AgentId, payload: &Map<String, Value>) -> Heartbeat {
        let text = |field: &str| payload.get(field).and_then(Value::as_str);
        let task = text("current_task_id").or_else(|| text("current_task")).filter(|task| !task.is_empty());
        let current_task = CurrentTask::named(task.map(|task| task.strip_prefix("task:").unwrap_or(task)));
        Heartbeat { agent, doing: text("status").and_then(Doing::read), current_task }
    }

    /// What it changes about an agent that is as this, if anything.
    pub fn changes(&self, known: &Agent) -> Option<SetAgentStatus> {
        let status = match self.doing {
            Some(Doing::Is(status)) => status,
            Some(Doing::Busy) if known.status == AgentStatus::Idle => AgentStatus::Working,
            Some(Doing::Busy) | None => known.status,
        };
        let change = SetAgentStatus { agent: self.agent.clone(), status, current_task: self.current_task.clone() };
        change.differs_from(known).then_some(change)
    }

    /// Whether it says anything but that its agent lives.
    pub fn says_something(&self) -> bool {
        self.doing.is_some() || self.current_task != CurrentTask::AsBefore
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::World;

    fn beat(payload: &Value) -> Heartbeat {
        Heartbeat::read("ken".into(), payload.as_object().unwrap())
    }

    #[test]
    fn it_changes_what_it_says_and_nothing_else() {
        let w = World::of(&["ken"]);
        let ken = w.agent("ken");
        for silent in
            [json!({}), json!({ "status": "offline" }), json!({ "status": 7, "load": 0.5 }), json!({ "status": "x" })]
        {
            assert!(!beat(&silent).says_something(), "{silent}");
            assert_eq!(beat(&silent).changes(ken), None, "{silent}");
        }
        for same in ["idle", "active", "online"] {
            assert_eq!(beat(&json!({ "status": same })).changes(ken), None, "{same}");
        }
        for (word, status) in
            [("working", AgentStatus::Working), ("busy", AgentStatus::Working), ("blocked", AgentStatus::Blocked)]
        {
            assert_eq!(beat(&json!({ "status": word })).changes(ken).unwrap().status, status);
        }
        let blocked = Agent { status: AgentStatus::Blocked, ..ken.clone() };
        assert_eq!(beat(&json!({ "status": "busy" })).changes(&blocked), None, "it is busy with that");
        for task in [json!({ "current_task_id": "task:t" }), json!({ "current_task": "t" })] {
            let change = beat(&task).changes(ken).unwrap();
            assert_eq!((change.status, change.current_task), (AgentStatus::Idle, CurrentTask::Is("t".into())));
            let on_it = Agent { current_task: Some("t".into()), ..ken.clone() };
            assert_eq!(beat(&task).changes(&on_it), None);
        }
    }
}
