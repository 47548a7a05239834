//! Health and state: totals, and everything at one position.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use rookery_core::model::agent::Agent;
use rookery_core::model::{agent, file, task};
use rookery_core::{AgentId, Row};
use rookery_engine::{At, RowVisitor};

use super::{agents, translate, wire};
use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::answer_writer::{AnswerWriter, JsonArray};
use crate::http::extract::Call;
use crate::http::shared_answers::{self, lock};
use crate::http::shared_body::{self, AnswerVersion};

/// The version of the contract, not of the program.
const CONTRACT: &str = "0.1";

/// Totals.
#[utoipa::path(get, path = "/status", tag = "state", responses((status = 200, body = wire::StatusReport)))]
pub async fn status(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let At { value: (tallies, lead), head } = app.engine().query().totals().await?;
    let count = |name: &str| tallies.get(name).copied().unwrap_or(0);
    let report = wire::StatusReport {
        version: CONTRACT.to_owned(),
        project: app.engine().config().project.clone(),
        port: app.about().port,
        agents: wire::AgentTotals {
            total: count(agent::tally::AGENTS),
            active: count(agent::tally::AGENTS_ACTIVE),
            lead: lead.map(|agent| agent.to_string()),
        },
        resources: wire::ResourceTotals {
            total: count(file::tally::FILES),
            claimed: count(file::tally::FILES_CLAIMED),
            conflicted: count(file::tally::FILES_CONFLICTED),
        },
        tasks: wire::TaskTotals {
            total: count(task::tally::TASKS),
            in_progress: count(task::tally::TASKS_IN_PROGRESS),
            done: count(task::tally::TASKS_DONE),
        },
        event_count: event_count(&head),
        nodes: nodes(&app),
    };
    Ok(answer::at(At { value: report, head }))
}

/// Everything at one position. With `If-None-Match`, 304 while nothing was appended to the log; heartbeats are not in it.
#[utoipa::path(get, path = "/state", tag = "state", responses(
    (status = 200, body = wire::StateSnapshot), (status = 304, description = "Nothing has changed.")))]
pub async fn state(State(app): State<App>, call: Call, headers: HeaderMap) -> Result<Response, HttpError> {
    call.reader().await?;
    let head = app.engine().query().head().await?;
    if let Some(response) = shared_body::not_modified(&headers, &head) {
        return Ok(response);
    }
    let version = shared_answers::version_for(&app, "/state", &head, || render_state(&app)).await?;
    let agents = agents::render(&app, version.part.clone(), "{\"agents\":[", "],");
    Ok(version.respond(&headers, Some(agents)))
}

/// Renders a [`wire::StateSnapshot`] without its agents.
async fn render_state(app: &App) -> Result<AnswerVersion, HttpError> {
    let rendering = Arc::new(Mutex::new(StateRendering::default()));
    let head = app.engine().query().visit_state(rendering.clone()).await?;
    let StateRendering { agents, resources, tasks, handoffs, lead } = std::mem::take(&mut *lock(&rendering));
    let mut writer = AnswerWriter::default();
    writer.text("\"resources\":").array(resources)?;
    writer.text(",\"tasks\":").array(tasks)?;
    writer.text(",\"handoffs\":").array(handoffs)?;
    writer.text(",\"lead\":").value(&lead)?;
    writer.text(",\"event_count\":").value(&event_count(&head))?.text("}");
    Ok(AnswerVersion::new(head, agents, writer))
}

/// Renders rows as they are read. Agents are kept: each reader is sent them with their newest heartbeats.
#[derive(Debug, Default)]
struct StateRendering {
    agents: Vec<Agent>,
    resources: JsonArray,
    tasks: JsonArray,
    handoffs: JsonArray,
    lead: Option<AgentId>,
}

impl RowVisitor for StateRendering {
    fn begin(&mut self) {
        *self = StateRendering::default();
    }

    fn visit(&mut self, row: Row) {
        match row {
            Row::Agent(agent) if !agent.has_left() => self.agents.push(agent),
            Row::File(file) => self.resources.push(&translate::resource(file)),
            Row::Task(task) => self.tasks.push(&translate::task(task)),
            Row::Handoff(handoff) => self.handoffs.push(&translate::handoff(handoff)),
            Row::Lead(lead) => self.lead = lead.holder,
            _ => {}
        }
    }
}

fn nodes(app: &App) -> Vec<wire::NodeInfo> {
    let attending = app.engine().cluster();
    attending.nodes().into_iter().map(|seen| translate::node(seen, &attending.node().id)).collect()
}

/// Every fact is an event.
fn event_count(head: &rookery_engine::LogHead) -> u64 {
    (head.head.0 + 1).saturating_sub(head.floor.0)
}
