//! What the steps of workflows expect of messages.

mod read;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use rookery_core::contracts::DefineStepContracts;
use rookery_core::kernel::limit;
use rookery_core::model::contract::{ExpectedPayload, StepContract, StepContracts};
use rookery_core::{Code, Rejection, Seq};
use rookery_engine::At;
use serde::Serialize;
use utoipa::ToSchema;

use self::read::Format;
pub use self::read::{Format as StepContractFormat, rules as read_step_contracts};
use super::call::{Call, Query, Segment};
use super::{ClutchError, ClutchErrorBody};
use crate::http::App;
use crate::http::answer;
use crate::http::extract;
use crate::http::paging::PageQuery;

/// What each step of a workflow expects; in YAML or as JSON.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowRules {
    workflow: String,
    steps: Vec<WorkflowStep>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowStep {
    id: String,
    expects: StepExpects,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StepExpects {
    /// The type of the messages that are held against this, such as `task.result`.
    #[serde(rename = "type")]
    message_type: String,
    payload_type: String,
    /// Fields of the payload, beside those that its schema requires.
    required: Vec<String>,
}

/// A workflow as it is listed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedWorkflow {
    workflow: String,
    /// Their ids.
    steps: Vec<String>,
    defined_by: String,
    /// In epoch milliseconds.
    defined_at: i64,
    /// The definition that holds.
    seq: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowList {
    workflows: Vec<ListedWorkflow>,
    /// What to ask for next with `after`, if there may be more.
    next: Option<u64>,
}

/// A body of rules, and how it is written.
#[derive(Debug)]
pub struct Rules {
    format: Format,
    bytes: Bytes,
}

impl FromRequest<App> for Rules {
    type Rejection = ClutchError;

    async fn from_request(request: Request, _: &App) -> Result<Rules, ClutchError> {
        let told = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let format = Format::of(told.unwrap_or_default());
        let bytes = extract::read(request.into_body(), limit::WORKFLOW_BYTES).await?;
        let format = format.ok_or_else(|| {
            let message = "the body must be sent as Content-Type: application/yaml or application/json";
            ClutchError::new(Code::UnsupportedMediaType, message)
        })?;
        Ok(Rules { format, bytes })
    }
}

/// Define what the steps of a workflow expect. The new definition takes the place of the one before.
#[utoipa::path(put, path = "/clutch/v0/step-contracts/{name}", tag = "clutch", operation_id = "clutch_define_step_contracts",
    params(("name" = String, Path)),
    request_body(content((WorkflowRules = "application/yaml"), (WorkflowRules = "application/json"))),
    responses((status = 200, body = WorkflowRules), (status = 400, body = ClutchErrorBody)))]
pub async fn define(call: Call, Segment(name): Segment, rules: Rules) -> Result<Response, ClutchError> {
    let DefineStepContracts { workflow, rules: steps } = read::rules(&rules.bytes, rules.format)?;
    if workflow != name {
        let message = format!("workflow: names '{workflow}', and the address '{name}'");
        return Err(ClutchError::invalid("/workflow", message));
    }
    let command = DefineStepContracts { workflow, rules: steps };
    let committed = call.submit(call.anybody()?, command, &rules.bytes).await?;
    let (contracts, committed) = committed.into_parts();
    Ok(answer::written(StatusCode::OK, &committed, shown(contracts)))
}

/// What the steps of a workflow expect.
#[utoipa::path(get, path = "/clutch/v0/step-contracts/{name}", tag = "clutch", operation_id = "clutch_step_contracts",
    params(("name" = String, Path)),
    responses((status = 200, body = WorkflowRules), (status = 404, body = ClutchErrorBody)))]
pub async fn get(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
) -> Result<axum::Json<WorkflowRules>, ClutchError> {
    call.reader().await?;
    let missing = || {
        Rejection::new(Code::WorkflowNotFound, format!("nothing is defined for workflow '{name}'"))
            .hint("list the workflows to see which are defined")
    };
    Ok(axum::Json(shown(app.engine().contracts().step_contracts(&name).await?.ok_or_else(missing)?)))
}

/// The workflows in the order in which they were defined last.
#[utoipa::path(get, path = "/clutch/v0/step-contracts", tag = "clutch", operation_id = "clutch_step_contract_list",
    params(PageQuery), responses((status = 200, body = WorkflowList)))]
pub async fn list(State(app): State<App>, call: Call, Query(page): Query<PageQuery>) -> Result<Response, ClutchError> {
    call.reader().await?;
    let At { value: found, head } = app.engine().contracts().list_step_contracts(page.after(), page.limit()).await?;
    let defined: Vec<Seq> = found.iter().map(|workflow| workflow.defined).collect();
    let workflows = found.into_iter().map(listed).collect();
    Ok(answer::at(At { value: WorkflowList { workflows, next: page.next(&defined) }, head }))
}

fn listed(workflow: StepContracts) -> ListedWorkflow {
    ListedWorkflow {
        workflow: workflow.name,
        steps: workflow.rules.into_iter().map(|rule| rule.id).collect(),
        defined_by: workflow.defined_by,
        defined_at: workflow.defined_at.0,
        seq: workflow.defined.0,
    }
}

fn shown(workflow: StepContracts) -> WorkflowRules {
    let step = |StepContract { id, expects: ExpectedPayload { message_type, payload_type, required } }| WorkflowStep {
        id,
        expects: StepExpects {
            message_type: message_type.to_string(),
            payload_type: payload_type.to_string(),
            required,
        },
    };
    WorkflowRules { workflow: workflow.name, steps: workflow.rules.into_iter().map(step).collect() }
}
