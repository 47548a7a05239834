//! Events: the log as this face shows it, and reports by agents.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::files::Report;
use rookery_core::files::{ChangeSource, RecordChange};
use rookery_core::kernel::event_id;
use rookery_core::traits::LogRow;
use rookery_core::{AgentId, Code, FirstSeq, Position, Seq};
use rookery_engine::{At, EngineError, LogQuery, Order, subscribe, watcher};

use super::event_names::{self, EventFilter};
use super::{translate, wire};
use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, JsonBody, Query, Segment};

const DEFAULT_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// Query what happened: newest first, or oldest first after a position.
#[utoipa::path(get, path = "/events", tag = "events", params(wire::EventQuery),
    responses((status = 200, body = Vec<wire::ProtocolEvent>), (status = 410, body = crate::http::error::ErrorBody)))]
pub async fn list(State(app): State<App>, call: Call, query: Query<wire::EventQuery>) -> Result<Response, HttpError> {
    call.reader().await?;
    let query = query.0;
    let limit = match query.limit {
        Some(0) => return Err(HttpError::invalid("limit must be at least 1")),
        limit => limit.unwrap_or(DEFAULT_PAGE).min(LARGEST_PAGE),
    };
    let mut wanted = LogQuery::newest(limit);
    wanted.concerns = query.agent_id;
    let named = query.action.as_deref().map(event_filter).transpose()?;
    wanted.kinds = named.as_ref().map(EventFilter::kinds);
    wanted.path = match &query.resource {
        Some(raw) => Some(app.engine().paths().parse(raw)?.key().to_owned()),
        None => None,
    };
    wanted.run = query.run;
    wanted.task = query.task_id;
    wanted.since = query.since;
    if let Some(text) = &query.after {
        wanted.after = Some(position(&app, text).await?);
        wanted.order = Order::Ascending;
    }
    let found = pages(&app, wanted, named.as_ref()).await?;
    Ok(answer::at(found.map(|rows| rows.iter().map(translate::event).collect::<Vec<_>>())))
}

/// The events that `action` of a query stands for.
pub(super) fn event_filter(name: &str) -> Result<EventFilter, HttpError> {
    EventFilter::parse(name).map_err(|unknown| HttpError::invalid(unknown.to_string()).hint(unknown.hint()))
}

/// A position in this log, or the answer that it is gone.
async fn position(app: &App, text: &str) -> Result<Seq, HttpError> {
    let position = place(text).ok_or_else(|| HttpError::invalid("after must be a position or an event's id"))?;
    let head = app.engine().query().tallies().await?.head;
    Ok(subscribe::check(&position, &head)?)
}

/// Where an event stands, told by its position or its id.
pub(super) fn place(text: &str) -> Option<Position> {
    event_id::parse(text).map(|seq| Position { log: None, seq }).or_else(|| Position::parse(text))
}

/// Reads on until the page is full: an action may stand for some of the facts of a kind only. What is committed meanwhile
/// is left out, so that all of it is true at the head of the first read and following from there misses nothing.
async fn pages(app: &App, mut wanted: LogQuery, named: Option<&EventFilter>) -> Result<At<Vec<LogRow>>, HttpError> {
    let limit = wanted.limit as usize;
    let mut page = app.engine().query().log(wanted.clone()).await?;
    let head = page.head.clone();
    wanted.upto = Some(head.head);
    let mut rows: Vec<LogRow> = Vec::new();
    loop {
        let (count, last) = (page.value.len(), page.value.last().map(|row| row.seq));
        rows.extend(page.value.into_iter().filter(|row| named.is_none_or(|named| named.passes(&row.event))));
        let ended = count < wanted.limit as usize;
        if rows.len() >= limit || ended {
            rows.truncate(limit);
            return Ok(At { value: rows, head });
        }
        wanted.limit = LARGEST_PAGE;
        match (wanted.order, last) {
            (Order::Ascending, last) => wanted.after = last,
            (Order::Descending, Some(last)) => wanted.upto = Some(Seq(last.0.saturating_sub(1))),
            (Order::Descending, None) => return Ok(At { value: rows, head }),
        }
        page = app.engine().query().log(wanted.clone()).await?;
    }
}

/// One event, by the id it is listed with.
#[utoipa::path(get, path = "/events/{id}", tag = "events", params(("id" = String, Path)),
    responses((status = 200, body = wire::ProtocolEvent)))]
pub async fn get(State(app): State<App>, call: Call, Segment(id): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let found = match event_id::parse(&id) {
        Some(seq) => one(&app, seq).await?,
        None => None,
    };
    let head = app.engine().query().tallies().await?.head;
    let shown = At { value: found.as_ref().map(translate::event), head };
    Ok(answer::at_or(shown, Code::EventNotFound, "Event not found"))
}

async fn one(app: &App, seq: Seq) -> Result<Option<LogRow>, HttpError> {
    // A seq beyond what a store can count is in no log.
    if i64::try_from(seq.0).is_err() || seq == Seq::ZERO {
        return Ok(None);
    }
    Ok(app.engine().query().log(LogQuery::one(seq)).await?.value.pop().filter(|row| row.seq == seq))
}

/// Tell the team something. Only a report of `resource.modified` has an effect: it is evidence of a change.
#[utoipa::path(post, path = "/events", tag = "events", request_body = wire::NewEvent,
    responses((status = 201, body = wire::ProtocolEvent)))]
pub async fn report(call: Call, body: JsonBody<wire::NewEvent>) -> Result<Response, HttpError> {
    let request = body.value;
    let [agent, action] = extract::need("agent_id and action are required", [&request.agent_id, &request.action])?;
    let own = action.strip_prefix("x.").is_some_and(|name| !name.is_empty());
    if !own && !event_names::ACTIONS.contains(&action.as_str()) {
        return Err(HttpError::invalid(format!("action '{action}' is not known"))
            .hint("use one of the contract's actions, or one of your own that begins with 'x.'"));
    }
    let engine = call.app().engine();
    let resource = match request.resource.as_deref().filter(|path| !path.is_empty()) {
        Some(raw) => Some(engine.paths().resolve(raw).await?),
        None => None,
    };
    let caller = call.caller(Some(&agent))?;
    let task = request.task_id.as_deref().map(Into::into);
    let metadata = request.metadata.unwrap_or_default();
    let (FirstSeq(seq), committed) = match (action.as_str(), resource) {
        ("resource.modified", Some(path)) => {
            let command = RecordChange {
                path,
                by: Some(AgentId::from(agent.as_str())),
                before: request.before_hash,
                after: request.after_hash,
                source: ChangeSource::Report,
                task,
                metadata,
                site: engine.cluster().site(),
                escalate_after_millis: watcher::escalate_after(engine),
            };
            let (seq, committed) = call.submit(caller, command, &body.bytes).await?.into_parts();
            (seq.ok_or_else(missing_event)?, committed)
        }
        (_, resource) => {
            let command = Report {
                agent: AgentId::from(agent.as_str()),
                action,
                resource,
                task,
                before_hash: request.before_hash,
                after_hash: request.after_hash,
                metadata,
            };
            call.submit(caller, command, &body.bytes).await?.into_parts()
        }
    };
    let read = call.app().engine().query().log(LogQuery::one(seq)).await;
    let row = read.map_err(|error| unseen(seq, &error))?.value.pop().ok_or_else(missing_event)?;
    Ok(answer::written(StatusCode::CREATED, &committed, translate::event(&row)))
}

fn missing_event() -> HttpError {
    HttpError::new(Code::Internal, "the report was accepted, and the log has no event of it")
}

/// The event is in the log. That it cannot be read right now must not be taken for a refusal.
fn unseen(seq: Seq, error: &EngineError) -> HttpError {
    let message = format!("it was recorded as event {seq} and cannot be shown: {error}");
    HttpError::new(Code::OutcomeUnknown, message)
        .hint("look for it before you repeat it, or repeat it with the same Idempotency-Key")
}
