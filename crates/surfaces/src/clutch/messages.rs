//! Messages by run, thread, task, sender and type.

use axum::extract::State;
use axum::response::Response;
use rookery_core::Seq;
use rookery_core::kernel::time::iso;
use rookery_engine::history::{MessagePage, Stretch};
use rookery_engine::message_view::PositionedMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::call::{Call, Query};
use super::filter::{self, MessageFilterQuery};
use super::openapi::ShownMessage;
use super::{ClutchError, ClutchErrorBody};
use crate::http::{App, answer};

/// Which page of an ordered list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Only what comes after this place: a seq, or `log-id:seq`.
    pub after: Option<String>,
    /// 100 if left out, at most 1000.
    pub limit: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Messages {
    /// In the order of the log.
    messages: Vec<PlacedMessage>,
    /// What to send as `after` for the next page; null if there is no more.
    next: Option<u64>,
}

/// A message and its place in the log.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlacedMessage {
    pub(super) seq: u64,
    /// When the daemon received it (ISO 8601); `ts` in the envelope is its sender's.
    pub(super) received_at: String,
    #[schema(value_type = ShownMessage)]
    pub(super) message: Value,
}

impl From<PositionedMessage> for PlacedMessage {
    fn from(shown: PositionedMessage) -> PlacedMessage {
        PlacedMessage { seq: shown.seq.0, received_at: iso(shown.at), message: shown.message }
    }
}

impl From<MessagePage> for Messages {
    fn from(page: MessagePage) -> Messages {
        Messages {
            messages: page.messages.into_iter().map(PlacedMessage::from).collect(),
            next: page.next.map(|seq| seq.0),
        }
    }
}

/// Every message, oldest first, or those that fit. Whatever happens by any face is a message here.
#[utoipa::path(get, path = "/clutch/v0/messages", tag = "clutch", operation_id = "clutch_messages",
    params(MessageFilterQuery, PageQuery),
    responses((status = 200, body = Messages), (status = 410, body = ClutchErrorBody)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    wanted: Query<MessageFilterQuery>,
    page: Query<PageQuery>,
) -> Result<Response, ClutchError> {
    call.reader().await?;
    let filter = wanted.0.filter()?;
    let stretch = stretch(&app, &page.0).await?;
    let found = app.engine().history().messages(&filter, stretch).await?;
    Ok(answer::at(found.map(Messages::from)))
}

pub(super) async fn stretch(app: &App, page: &PageQuery) -> Result<Stretch, ClutchError> {
    let limit = filter::page(page.limit.as_deref())?;
    let after = match &page.after {
        Some(text) => filter::place(app, text).await?,
        None => Seq::ZERO,
    };
    Ok(Stretch { after, upto: None, limit })
}
