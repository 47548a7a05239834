//! The measured envelope: a tool's result that an agent passes on.

use rookery_engine::{Ids, RandomIds};
use serde_json::json;

use crate::work;

/// The placeholder for the id.
const PLACE: &str = "{id}";

/// An envelope with a placeholder for its id.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    before: String,
    after: String,
}

impl Template {
    pub(crate) fn of(at: usize) -> Template {
        let agent = format!("agent:{}", work::agent(at));
        let envelope = json!({
            "v": "clutch/0.1", "id": PLACE, "ts": "2026-11-16T08:00:00.000Z",
            "thread_id": "thr_bench", "run_id": "run_bench", "task_id": "task_bench",
            "trace": { "trace_id": "tr_5f2c8e1a", "span_id": "sp_91d0" },
            "from": { "agent_id": agent, "role": "worker" }, "to": [{ "agent_id": "agent:orchestrator" }],
            "type": "tool.result", "domain": "research",
            "payload": {
                "tool": "mcp:browser", "took_ms": 412,
                "result": {
                    "title": "Which importers can be tried without writing",
                    "text": "Three of the four importers read everything before they write, so that a dry run only \
                        has to stop there. The fourth writes while it reads and has to be split first.",
                    "links": ["https://example.org/importers", "https://example.org/dry-runs"],
                },
            },
            "meta": { "framework": "bench", "ui_channel": "chat:research" },
        })
        .to_string();
        let (before, after) = envelope.split_once(PLACE).unwrap_or((&envelope, ""));
        Template { before: before.to_owned(), after: after.to_owned() }
    }

    pub(crate) fn with(&self, id: &str) -> String {
        format!("{}{id}{}", self.before, self.after)
    }

    /// Renders this many envelopes, one on each line.
    pub(crate) fn lines(&self, count: usize) -> String {
        (0..count).map(|_| self.with(&mint()) + "\n").collect()
    }
}

pub(crate) fn mint() -> String {
    RandomIds.mint("msg_")
}
