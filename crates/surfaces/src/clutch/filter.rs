//! Which messages, as the parameters of an address or the fields of a frame say it.

use rookery_core::kernel::limit;
use rookery_core::model::addressee::Address;
use rookery_core::{Position, RunId, Seq, TaskId, ThreadId, envelope};
use rookery_engine::message_view::{MessageFilter, Sender};
use rookery_engine::subscribe;
use serde::Deserialize;
use utoipa::IntoParams;

use super::ClutchError;
use crate::http::App;

const DEFAULT_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// Conditions that all hold. Ids may have their prefix in front.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MessageFilterQuery {
    /// `run_default` holds what belongs to no other run.
    pub run_id: Option<String>,
    /// `thr_default` holds what belongs to no other thread.
    pub thread_id: Option<String>,
    pub task_id: Option<String>,
    /// The sender: an agent with or without `agent:`, a person with `person:`, `agent:orchestrator` for the router, or
    /// `system`.
    pub agent_id: Option<String>,
    /// The type that a message is shown with: one of the protocol, one that begins with `x.`, or the kind of an
    /// event, which is shown with `x.` in front.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    pub message_type: Option<String>,
}

impl MessageFilterQuery {
    pub fn filter(&self) -> Result<MessageFilter, ClutchError> {
        Ok(MessageFilter {
            run: id("run_id", "run:", self.run_id.as_deref())?.map(RunId::new),
            thread: id("thread_id", "thread:", self.thread_id.as_deref())?.map(ThreadId::new),
            task: id("task_id", "task:", self.task_id.as_deref())?.map(TaskId::new),
            from: self.agent_id.as_deref().map(sender).transpose()?,
            message_type: self.message_type.as_deref().map(message_type).transpose()?,
        })
    }
}

/// The id of a run in an address.
pub(super) fn run(text: &str) -> Result<RunId, ClutchError> {
    Ok(RunId::new(id("run", "run:", Some(text))?.unwrap_or_default()))
}

/// The id of a task in a body, at this place.
pub(super) fn task(pointer: &str, text: &str) -> Result<TaskId, ClutchError> {
    let task = id("task_id", "task:", Some(text)).map_err(|error| error.detail("pointer", pointer))?;
    Ok(TaskId::new(task.unwrap_or_default()))
}

fn id(name: &str, prefix: &str, text: Option<&str>) -> Result<Option<String>, ClutchError> {
    let Some(text) = text else { return Ok(None) };
    let bare = text.strip_prefix(prefix).unwrap_or(text);
    if bare.is_empty() || bare.len() > limit::NAME_BYTES || bare.chars().any(char::is_control) {
        return Err(ClutchError::parameter(name, format!("must be an id of 1 to {} bytes", limit::NAME_BYTES)));
    }
    Ok(Some(bare.to_owned()))
}

fn sender(text: &str) -> Result<Sender, ClutchError> {
    Sender::parse(text).ok_or_else(|| {
        let told = match Address::parse(text) {
            Some(_) => "must be one sender; groups and servers send nothing",
            None => "must be an agent with or without 'agent:', a person with 'person:', or 'system'",
        };
        ClutchError::parameter("agent_id", told)
    })
}

fn message_type(text: &str) -> Result<String, ClutchError> {
    envelope::shown_type(text).ok_or_else(|| {
        ClutchError::parameter("type", "is not known: no message is shown with it")
            .hint("use a type of the protocol like task.request, or one that begins with 'x.' like x.task.claimed")
    })
}

/// A place in this log, told by `log-id:seq` or a bare seq; 410 if it is in another log, ahead, or no longer kept.
pub(super) async fn place(app: &App, text: &str) -> Result<Seq, ClutchError> {
    lies_here(app, &position(text)?).await
}

/// The same of a position that was read already.
pub(super) async fn lies_here(app: &App, position: &Position) -> Result<Seq, ClutchError> {
    let head = app.engine().query().tallies().await?.head;
    Ok(subscribe::check(position, &head)?)
}

pub(super) fn position(text: &str) -> Result<Position, ClutchError> {
    Position::parse(text)
        .ok_or_else(|| ClutchError::parameter("after", "must be a place in the log: its number, or log-id:number"))
}

/// How many to a page: larger wishes are cut to what is allowed.
pub(super) fn page(text: Option<&str>) -> Result<u32, ClutchError> {
    page_of("limit", text)
}

/// The same by another name.
pub(super) fn page_of(name: &str, text: Option<&str>) -> Result<u32, ClutchError> {
    let Some(text) = text else { return Ok(DEFAULT_PAGE) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(0) => Err(ClutchError::parameter(name, "must be at least 1")),
        Ok(limit) if digits => Ok(limit.min(LARGEST_PAGE)),
        // Only too large for the type.
        Err(_) if digits => Ok(LARGEST_PAGE),
        _ => Err(ClutchError::parameter(name, "must be a number")),
    }
}
