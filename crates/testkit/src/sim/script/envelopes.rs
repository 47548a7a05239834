//! Requests as envelopes: work that is requested and done, chat, cards, and repetitions of these.

use rand::Rng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rookery_core::clutch::SecretKey;
use rookery_core::kernel::time::iso;
use rookery_core::model::task::Task;
use rookery_core::{AgentId, EventRef, MessageId, RunId, Timestamp};
use serde_json::{Value, json};

use super::Script;
use super::contracts::GROUP;
use crate::sim::model::body_of;

const RUNS: [&str; 4] = ["run_default", "run_1", "run_2", "run_3"];
const SKILLS: [&str; 4] = ["skill:rust", "skill:law", "skill:law@^1.2", "tool:browser"];
const POLICIES: [&str; 4] = [
    r#"{ "sandbox": true }"#,
    r#"{ "network": "egress-allowed" }"#,
    r#"{ "trust_level": "prod" }"#,
    r#"{ "tool_allowlist": ["mcp:browser"] }"#,
];

impl Script<'_> {
    /// The envelopes of one call of an agent.
    pub(super) fn envelopes(&mut self, agent: &AgentId) -> Vec<Value> {
        let from = format!("agent:{agent}");
        if self.rng.random_bool(0.12) {
            return self.task_in_one_call(&from);
        }
        if self.rng.random_bool(0.2) {
            return self.notes(&from);
        }
        let count = if self.rng.random_bool(0.6) { 1 } else { self.rng.random_range(2..5) };
        (0..count).map(|at| self.envelope(agent, &from, at)).collect()
    }

    /// The envelopes of one call of a person.
    pub(super) fn envelopes_of_person(&mut self) -> Vec<Value> {
        let from = "person:anna";
        let count = self.rng.random_range(1..4);
        (0..count)
            .map(|at| match self.rng.random_range(0..4) {
                0..2 => self.request(from, at),
                2 => self.cancel(from, at),
                _ => self.chat(from, at),
            })
            .collect()
    }

    /// A registration by envelope.
    pub(super) fn card(&mut self, agent: &AgentId) -> Value {
        let payload = self.card_of(agent);
        self.envelope_with(&format!("agent:{agent}"), 0, "agent.register", json!({ "payload": payload }))
    }

    fn envelope(&mut self, agent: &AgentId, from: &str, at: u32) -> Value {
        match self.rng.random_range(0..100) {
            0..28 => self.request(from, at),
            28..44 => self.accept(agent, from, at),
            44..49 => self.about_own(agent, from, at, "task.progress", json!({ "percent": 50 })),
            49..60 => self.about_own(agent, from, at, "task.result", json!({ "summary": "done" })),
            60..64 => {
                let retryable = self.rng.random_bool(0.7);
                let payload = json!({ "code": "BROKEN", "message": "no", "retryable": retryable });
                self.about_own(agent, from, at, "task.error", payload)
            }
            64..67 => self.cancel(from, at),
            67..78 => self.chat(from, at),
            78..81 => self.card(agent),
            81..83 => {
                let limits = json!({ "max_concurrency": self.rng.random_range(1..4) });
                self.envelope_with(from, at, "agent.update", json!({ "payload": { "limits": limits } }))
            }
            83..86 => self.envelope_with(from, at, "agent.heartbeat", json!({})),
            86..88 => {
                let to = self.agent_address();
                self.envelope_with(from, at, "x.note", json!({ "to": [to] }))
            }
            88..91 => self.tool_call(agent, from, at),
            91 => self.forged_card(agent, from, at),
            _ => self.repeated_envelope(from, at),
        }
    }

    /// An envelope with the common fields, and `more` fields in addition.
    fn envelope_with(&mut self, from: &str, at: u32, kind: &str, more: Value) -> Value {
        let mut envelope = json!({
            "v": "clutch/0.1", "id": format!("env_{}_{at}", self.serial), "ts": "2026-02-01T13:20:11.123Z",
            "thread_id": format!("thr_{}", self.rng.random_range(0..2)), "run_id": "run_default", "task_id": "task_none",
            "from": { "agent_id": from }, "to": [{ "agent_id": "agent:orchestrator" }], "type": kind, "payload": {},
        });
        if self.rng.random_bool(0.3) {
            envelope["idempotency_key"] = json!(format!("idem_{}_{at}", self.serial));
        }
        if let Value::Object(more) = more {
            more.into_iter().for_each(|(field, value)| envelope[field] = value);
        }
        envelope
    }

    fn agent_address(&mut self) -> Value {
        json!({ "agent_id": format!("agent:{}", self.agent()) })
    }

    fn request(&mut self, from: &str, at: u32) -> Value {
        let to = match self.rng.random_range(0..9) {
            0..4 => json!({ "agent_id": "agent:orchestrator" }),
            4..6 => self.agent_address(),
            6 => json!({ "agent_id": "group:workers" }),
            7 => json!({ "agent_id": format!("group:{GROUP}") }),
            _ => json!({ "agent_id": "group:all" }),
        };
        let count = self.rng.random_range(0..3);
        let requires: Vec<&str> = SKILLS.choose_multiple(self.rng, count).copied().collect();
        let parent = self.rng.random_bool(0.2).then(|| self.find_task(|task| task.state.is_open())).flatten();
        let run = match &parent {
            Some((_, run)) => run.to_string(),
            None => RUNS.choose(self.rng).map_or_else(String::new, ToString::to_string),
        };
        let mut more = json!({
            "task_id": format!("task_e{}_{at}", self.serial), "run_id": run, "to": [to], "requires": requires,
            "parent_task_id": parent.map(|(task, _)| task), "payload": { "title": format!("asked for by {from}") },
        });
        if self.rng.random_bool(0.25)
            && let Some(policy) =
                POLICIES.choose(self.rng).and_then(|policy| serde_json::from_str::<Value>(policy).ok())
        {
            more["security"] = json!({ "policy": policy });
        }
        if self.rng.random_bool(0.5) {
            let (seconds, attempts) = (self.rng.random_range(1..90), self.rng.random_range(1..4));
            more["limits"] = json!({ "max_runtime_sec": seconds, "max_attempts": attempts });
        }
        if self.rng.random_bool(0.15) {
            let now = self.model.log().last().map_or(0, |row| row.at.0);
            more["deadline"] = json!(iso(Timestamp(now + self.rng.random_range(0..120_000))));
        }
        if self.rng.random_bool(0.3) {
            more["prefers"] = json!(["skill:law", "domain:fintech"]);
        }
        self.envelope_with(from, at, "task.request", more)
    }

    /// Requests, accepts and completes a task in one call.
    fn task_in_one_call(&mut self, from: &str) -> Vec<Value> {
        let request = self.request(from, 0);
        let about = |kind: &str, script: &mut Self, at: u32| {
            let more = json!({ "task_id": request["task_id"], "run_id": request["run_id"] });
            script.envelope_with(from, at, kind, more)
        };
        let (accept, result) = (about("task.accept", self, 1), about("task.result", self, 2));
        vec![request, accept, result]
    }

    /// Several messages to one agent about one task, which must arrive in order.
    fn notes(&mut self, from: &str) -> Vec<Value> {
        let to = self.agent_address();
        let task = self.find_task(|task| task.state.is_open()).map_or_else(|| "task_none".to_owned(), |(task, _)| task);
        let more = json!({ "to": [to], "task_id": task });
        (0..self.rng.random_range(2..5)).map(|at| self.envelope_with(from, at, "x.note", more.clone())).collect()
    }

    fn accept(&mut self, agent: &AgentId, from: &str, at: u32) -> Value {
        let task = self.find_task(|task| task.reserved_for.as_ref() == Some(agent));
        self.about(task, from, at, "task.accept", json!({}))
    }

    fn about_own(&mut self, agent: &AgentId, from: &str, at: u32, kind: &str, payload: Value) -> Value {
        let own = self.find_task(|task| task.held_by() == Some(agent));
        self.about(own, from, at, kind, payload)
    }

    fn cancel(&mut self, from: &str, at: u32) -> Value {
        let name = from.strip_prefix("agent:").unwrap_or(from);
        let task = self.find_task(|task| task.assigned_by == name && task.state.is_open());
        self.about(task, from, at, "task.cancel", json!({ "reason": "not needed" }))
    }

    /// A message about the given task, or about any open task.
    fn about(&mut self, task: Option<(String, RunId)>, from: &str, at: u32, kind: &str, payload: Value) -> Value {
        let (task, run) = match task.or_else(|| self.find_task(|task| task.state.is_open())) {
            Some(known) => known,
            None => ("task_none".to_owned(), RunId::project_default()),
        };
        self.envelope_with(from, at, kind, json!({ "task_id": task, "run_id": run, "payload": payload }))
    }

    /// A random task that fits, and its run.
    fn find_task(&mut self, fits: impl Fn(&Task) -> bool) -> Option<(String, RunId)> {
        let found = self.tasks().filter(|task| fits(task)).map(|task| (task.id.to_string(), task.run.clone()));
        found.collect::<Vec<_>>().choose(self.rng).cloned()
    }

    fn chat(&mut self, from: &str, at: u32) -> Value {
        let to = match self.rng.random_range(0..5) {
            0..2 => self.agent_address(),
            2 => json!({ "agent_id": "group:all" }),
            3 => json!({ "agent_id": format!("group:{GROUP}") }),
            _ => json!({ "agent_id": "person:anna" }),
        };
        let mentions: Vec<String> = if self.rng.random_bool(0.3) { vec![self.agent().to_string()] } else { vec![] };
        let kind = if self.rng.random_bool(0.8) { "chat.message" } else { "chat.system" };
        let payload = json!({ "text": format!("text {}", self.rng.random_range(0..20)), "mentions": mentions });
        self.envelope_with(from, at, kind, json!({ "to": [to], "payload": payload }))
    }

    /// A tool call: to a tool that no agent serves, or to another agent.
    fn tool_call(&mut self, agent: &AgentId, from: &str, at: u32) -> Value {
        let to = if self.rng.random_bool(0.6) { json!({ "agent_id": "mcp:browser" }) } else { self.agent_address() };
        let payload = json!({ "tool": "mcp:browser", "args": {} });
        let mut call = self.about_own(agent, from, at, "tool.call", payload);
        call["to"] = json!([to]);
        if self.rng.random_bool(0.3) {
            call["security"] = json!({ "policy": { "tool_allowlist": ["mcp:files"] } });
        }
        call
    }

    /// A card with a signature by another key than the card's.
    fn forged_card(&mut self, agent: &AgentId, from: &str, at: u32) -> Value {
        let (own_key, other_key) = (SecretKey::new("key_01", [1; 32]), SecretKey::new("key_01", [2; 32]));
        let mut payload = self.card_of(agent);
        payload["security"]["keys"] = json!([own_key.public()]);
        let mut forged = self.envelope_with(from, at, "agent.register", json!({ "payload": payload }));
        if let Value::Object(forged) = &mut forged {
            other_key.sign(forged);
        }
        forged
    }

    /// A random card of an agent.
    fn card_of(&mut self, agent: &AgentId) -> Value {
        let version = ["1.0.0", "1.3.0", "2.0.0"].choose(self.rng).copied().unwrap_or("1.0.0");
        let trust = if self.rng.random_bool(0.5) { "prod" } else { "sandbox" };
        let mut capabilities = vec![json!({ "id": "skill:law", "version": version, "trust_level": trust })];
        if self.rng.random_bool(0.5) {
            capabilities.push(json!({ "id": "skill:rust", "tags": ["fintech"], "tools": ["mcp:browser"] }));
        }
        let network = ["none", "egress-restricted", "egress-allowed"].choose(self.rng).copied().unwrap_or("none");
        let mut card = json!({
            "v": "clutch/0.1", "agent_id": format!("agent:{agent}"), "capabilities": capabilities,
            "limits": { "max_concurrency": self.rng.random_range(1..4) },
            "security": { "sandbox": self.rng.random_bool(0.5), "network": network },
        });
        if self.rng.random_bool(0.8) {
            let url = format!("http://{agent}.test/{}", self.rng.random_range(0..2));
            card["endpoints"] = json!({ "clutch": { "url": url } });
        }
        card
    }

    /// Repeats an envelope of the log: unchanged, with the same id and another content, or with the same key.
    fn repeated_envelope(&mut self, from: &str, at: u32) -> Value {
        let is_own = |row: &&rookery_core::traits::LogRow| {
            matches!(row.event.typed(), EventRef::EnvelopeReceived(_))
                && row.actor.to_string() == from.replace("agent:", "")
        };
        let row = self.model.log().iter().filter(is_own).choose(self.rng);
        let Some(mut envelope) = row.and_then(body_of).and_then(|body| serde_json::from_slice::<Value>(body).ok())
        else {
            return self.chat(from, at);
        };
        let another_id = json!(format!("env_{}_{at}", self.serial));
        match self.rng.random_range(0..8) {
            0..3 => envelope["attempt"] = json!(self.rng.random_range(2..4)),
            3..5 => envelope["payload"]["changed"] = json!(true),
            5..7 => envelope["id"] = another_id,
            _ => {
                envelope["id"] = another_id;
                envelope["payload"]["changed"] = json!(true);
            }
        }
        envelope
    }
}

/// An agent's reply to a message at its endpoint, which is always the same for the same message. Replies get no reply.
pub(in crate::sim) fn reply(agent: &AgentId, message: &MessageId, body: &[u8]) -> Option<Value> {
    let received: Value = serde_json::from_slice(body).ok()?;
    let is_unanswered = message.as_str().starts_with("re_") || message.as_str().ends_with(['0', '4', '8']);
    let sender = received["from"]["agent_id"].as_str().filter(|_| !is_unanswered)?;
    let (kind, to) = match received["type"].as_str()? {
        "task.request" => ("task.accept", "agent:orchestrator"),
        _ if sender.starts_with("agent:") => ("x.note", sender),
        _ => return None,
    };
    Some(json!({
        "v": "clutch/0.1", "id": format!("re_{agent}_{message}"), "ts": "2026-02-01T13:20:11.123Z",
        "thread_id": received["thread_id"], "run_id": received["run_id"],
        "task_id": received["task_id"].as_str().unwrap_or("task_none"),
        "from": { "agent_id": format!("agent:{agent}") }, "to": [{ "agent_id": to }], "type": kind, "payload": {},
    }))
}
