//! Health and state: totals, and everything at one position.

use axum::extract::State;
use axum::response::Response;
use rookery_core::model::{agent, file, task};
use rookery_engine::At;

use super::{agents, translate, wire};
use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::Call;

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

/// Everything at one position.
#[utoipa::path(get, path = "/state", tag = "state", responses((status = 200, body = wire::StateSnapshot)))]
pub async fn state(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let found = app.engine().query().snapshot().await?;
    let snapshot = found.value;
    let body = wire::StateSnapshot {
        agents: snapshot.agents.into_iter().map(|agent| agents::shown(&app, agent)).collect(),
        resources: snapshot.files.into_iter().map(translate::resource).collect(),
        tasks: snapshot.tasks.into_iter().map(translate::task).collect(),
        handoffs: snapshot.handoffs.into_iter().map(translate::handoff).collect(),
        lead: snapshot.lead.map(|agent| agent.to_string()),
        event_count: event_count(&found.head),
    };
    Ok(answer::at(At { value: body, head: found.head }))
}

fn nodes(app: &App) -> Vec<wire::NodeInfo> {
    let attending = app.engine().cluster();
    attending.nodes().into_iter().map(|seen| translate::node(seen, &attending.node().id)).collect()
}

/// Every fact is an event.
fn event_count(head: &rookery_engine::LogHead) -> u64 {
    (head.head.0 + 1).saturating_sub(head.floor.0)
}
