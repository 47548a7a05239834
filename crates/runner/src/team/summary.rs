//! The summary of a team's run, for people and programs.

use std::time::Duration;

use rookery_core::model::context_settings::Provider;
use serde::Serialize;
use serde_json::json;

use super::crew::Crew;
use super::report::{RunOutcome, UsageTotals};
use super::supervise::RunConclusion;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunSummary {
    pub team: String,
    pub workflow: String,
    pub instance: String,
    /// completed, failed, stopped, interrupted or suspended
    pub outcome: &'static str,
    pub reason: Option<String>,
    pub generation: u64,
    /// Whether it was resumed after a crash or a reboot.
    pub resumed: bool,
    pub duration_ms: u64,
    pub turns: u64,
    /// Messages in the channel.
    pub messages: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
    pub agents: Vec<AgentSummary>,
    /// The result: the entry document. `None` without a context.
    pub document: Option<EntryDocument>,
    #[serde(skip)]
    pub ended: RunOutcome,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AgentSummary {
    pub name: String,
    pub id: String,
    /// Whether its last turn succeeded, if it had one.
    pub ok: bool,
    /// The reason why its last turn failed.
    pub error: Option<String>,
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EntryDocument {
    pub file: String,
    pub text: String,
}

impl RunSummary {
    pub(super) fn of(
        crew: &Crew,
        conclusion: &RunConclusion,
        resumed: bool,
        took: Duration,
        document: Option<EntryDocument>,
    ) -> RunSummary {
        let UsageTotals { turns, usage } = crew.board.total();
        RunSummary {
            team: crew.team.to_string(),
            workflow: crew.ready.name.clone(),
            instance: crew.ready.variables.instance.name().to_owned(),
            outcome: conclusion.outcome.as_str(),
            reason: conclusion.reason.clone(),
            generation: crew.generation,
            resumed,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            turns,
            messages: crew.ledger.messages(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: usage.cost_usd,
            agents: agents(crew),
            document,
            ended: conclusion.outcome,
        }
    }
}

fn agents(crew: &Crew) -> Vec<AgentSummary> {
    let summary = |(standing, error): (super::report::MemberStatus, Option<String>)| AgentSummary {
        id: crew.team.member(&standing.name).to_string(),
        name: standing.name,
        ok: error.is_none(),
        error,
        turns: standing.tally.turns,
        input_tokens: standing.tally.usage.input_tokens,
        output_tokens: standing.tally.usage.output_tokens,
        cost_usd: standing.tally.usage.cost_usd,
    };
    crew.board.statuses().into_iter().map(summary).collect()
}

/// Reads the entry document.
pub(super) async fn entry_document(crew: &Crew) -> Option<EntryDocument> {
    if crew.ready.context.provider == Some(Provider::Off) {
        return None;
    }
    let instance = crew.ready.variables.instance.name().to_owned();
    let tools = rookery_client::Tools::new(crew.client.clone(), None).in_instance(Some(instance));
    let read = tools.call("document_read", json!({})).await.ok()?;
    let field = |name: &str| read.value[name].as_str().unwrap_or_default().to_owned();
    Some(EntryDocument { file: field("file"), text: field("content") })
}
