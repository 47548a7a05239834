//! What waits for an agent, whichever face it was sent by: pulled, and acknowledged message by message.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use rookery_core::kernel::time::iso;
use rookery_core::model::LifeSource;
use rookery_core::{AgentId, Caller, Code, MessageId, Seq};
use rookery_engine::messages::{Parcel, Pull, PullError, Pulled};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::call::{self, Call, NamedAgent, Query};
use super::messages::PlacedMessage;
use super::{ClutchError, ClutchErrorBody, filter, stream};
use crate::http::App;

/// The longest that a call waits for a message; longer wishes are cut to it.
const MAX_WAIT: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InboxQuery {
    /// How long to wait if there is nothing: `30s`, `500ms`, `2m`, or seconds. Nothing if left out, at most five minutes.
    pub wait: Option<String>,
    /// How many at most: 100 if left out, at most 1000.
    pub max: Option<String>,
    /// Only what was queued after this place: what an earlier page had as `next`, or `log-id:seq`. 410 if it is in no log of
    /// this daemon.
    pub after: Option<String>,
}

/// What waits for an agent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Inbox {
    /// In the order in which they were queued for the agent. They stay until it acknowledges them.
    messages: Vec<PlacedMessage>,
    /// What to send as `after` to get only what comes later; null if there was nothing.
    next: Option<u64>,
}

impl From<Pulled> for Inbox {
    fn from(pulled: Pulled) -> Inbox {
        let messages = pulled.messages.into_iter().map(PlacedMessage::from).collect();
        Inbox { messages, next: pulled.next.map(|seq| seq.0) }
    }
}

impl From<Parcel> for PlacedMessage {
    fn from(parcel: Parcel) -> PlacedMessage {
        PlacedMessage { seq: parcel.seq.0, received_at: iso(parcel.at), message: parcel.message }
    }
}

/// The messages of an agent that it has not acknowledged, oldest first, as envelopes, whichever face they were sent by.
///
/// They are the same again until they are acknowledged: to be shown them counts as notified and as nothing else.
#[utoipa::path(get, path = "/clutch/v0/agents/{id}/inbox", tag = "clutch", operation_id = "clutch_inbox",
    params(("id" = String, Path), InboxQuery),
    responses((status = 200, body = Inbox), (status = 403, body = ClutchErrorBody), (status = 404, body = ClutchErrorBody),
        (status = 410, body = ClutchErrorBody)))]
pub async fn pull(
    State(app): State<App>,
    call: Call,
    NamedAgent(agent): NamedAgent,
    query: Query<InboxQuery>,
) -> Result<Json<Inbox>, ClutchError> {
    let caller = owner(&app, &call, &agent).await?;
    let (pull, wait) = (wanted(&app, &query.0).await?, wait(query.0.wait.as_deref())?);
    if wait.is_zero() {
        return Ok(Json(app.engine().inbox().pull(&agent, pull).await?.into()));
    }
    let _place = stream::take_place(&app, &caller)?;
    let mut mailbox = app.engine().inbox().stream(&agent).await?;
    let pulled = tokio::select! {
        pulled = mailbox.next(pull) => pulled?,
        () = tokio::time::sleep(wait) => Pulled::default(),
        () = app.stopping().cancelled() => Pulled::default(),
        () = stays_alive(&app, &caller) => Pulled::default(),
    };
    // It may have been long: what came is for whoever may still look into it.
    may_open(&app, &call, &agent).await?;
    Ok(Json(pulled.into()))
}

/// Whose inbox it is, or who may look into it. Pulling is a sign of life.
pub(super) async fn owner(app: &App, call: &Call, agent: &AgentId) -> Result<Caller, ClutchError> {
    app.engine().liveness().touch(&call.caller(agent)?).await?;
    may_open(app, call, agent).await
}

/// Who looks into an inbox, if the credential that it was asked with is valid now and allows it.
pub(super) async fn may_open(app: &App, call: &Call, agent: &AgentId) -> Result<Caller, ClutchError> {
    let caller = call.caller(agent)?;
    app.engine().inbox().ensure_may_open(&caller, agent).await?;
    Ok(caller)
}

async fn wanted(app: &App, query: &InboxQuery) -> Result<Pull, ClutchError> {
    let most = filter::page_of("max", query.max.as_deref())?;
    let after = match &query.after {
        Some(text) => filter::place(app, text).await?,
        None => Seq::ZERO,
    };
    Ok(Pull { after, most: Some(most) })
}

fn wait(text: Option<&str>) -> Result<Duration, ClutchError> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        _ => 0,
    };
    match digits.parse::<u64>() {
        Ok(number) if millis > 0 => Ok(Duration::from_millis(number.saturating_mul(millis)).min(MAX_WAIT)),
        _ => Err(ClutchError::parameter("wait", "must be a time like 30s, 500ms or 2m")),
    }
}

/// Whoever waits is there: shows it again and again; ends if it may not any more.
async fn stays_alive(app: &App, caller: &Caller) {
    let pause = app.engine().settings().connection_offline_after / 4;
    loop {
        tokio::time::sleep(pause).await;
        if let Some(agent) = caller.itself()
            && app.engine().liveness().record_presence(caller, agent, LifeSource::Call).is_err()
        {
            return;
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Acking {
    /// The ids of messages as the inbox shows them.
    ids: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Acked {
    /// The messages that are done with now, also those that were before.
    acked: Vec<String>,
}

/// Acknowledge messages by their ids: they leave the inbox. If one of them is not for the agent, none is acknowledged.
#[utoipa::path(post, path = "/clutch/v0/agents/{id}/inbox/ack", tag = "clutch", operation_id = "clutch_inbox_ack",
    params(("id" = String, Path)), request_body = Acking,
    responses((status = 200, body = Acked), (status = 404, body = ClutchErrorBody)))]
pub async fn ack(
    State(app): State<App>,
    call: Call,
    NamedAgent(agent): NamedAgent,
    body: call::Body<Acking>,
) -> Result<Json<Acked>, ClutchError> {
    let caller = owner(&app, &call, &agent).await?;
    Ok(Json(Acked { acked: acknowledge(&app, &caller, &agent, body.0.ids).await? }))
}

/// Acknowledges messages, or tells which of them are not for the agent.
pub(super) async fn acknowledge(
    app: &App,
    caller: &Caller,
    agent: &AgentId,
    ids: Vec<String>,
) -> Result<Vec<String>, ClutchError> {
    let messages: Vec<MessageId> = ids.iter().map(|id| MessageId::from(id.as_str())).collect();
    match app.engine().inbox().ack_by_id(caller, agent, messages).await? {
        Ok(()) => Ok(ids),
        Err(unknown) => {
            let names: Vec<Value> = unknown.iter().map(|id| json!(id)).collect();
            let first = unknown.first().map(ToString::to_string).unwrap_or_default();
            let message = format!("there is no message '{first}' for '{agent}'");
            Err(ClutchError::new(Code::MessageNotFound, message)
                .hint("nothing was acknowledged: leave out those that are named in 'unknown'")
                .detail("unknown", names))
        }
    }
}

impl From<PullError> for ClutchError {
    fn from(error: PullError) -> ClutchError {
        match error {
            PullError::Engine(error) => error.into(),
            PullError::Subscribe(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_time_and_never_too_long() {
        for (text, millis) in
            [("0s", 0), ("30s", 30_000), ("250ms", 250), ("2m", 120_000), ("5", 5_000), ("1000m", 300_000)]
        {
            assert_eq!(wait(Some(text)).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "1h", "soon", "1 s"] {
            assert!(wait(Some(text)).is_err(), "{text}");
        }
        assert_eq!(wait(None).unwrap(), Duration::ZERO);
    }
}
