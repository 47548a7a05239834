//! The inbox: mentions, direct messages and messages of the Clutch protocol that an agent has not acknowledged.

use std::time::Duration;

use rookery_core::{Caller, Code, MessageId};
use rookery_engine::messages::{Until, Waiting};
use rookery_engine::moment::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WAITS;
use super::messages::{InboxMessage, Member, more};
use crate::http::limits::Account;
use crate::mcp::arguments::Limit;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

/// The longest that a call waits for a message: some clients end every call after 300 seconds.
const MAX_WAIT: Duration = Duration::from_secs(240);
const USUAL_WAIT: Duration = Duration::from_secs(60);
/// What answering takes when the waiting is over.
const SLACK: Duration = Duration::from_secs(30);

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "inbox_check",
            Sets,
            &[Context, Team],
            "Messages for you that you have not acknowledged, and tasks given to you (task_claim those). Handle high priority \
             first; then inbox_ack.",
            check,
        ),
        Tool::new(
            "inbox_ack",
            Sets,
            &[Context, Team],
            "Mark messages as handled, so that they leave your inbox. Covers only what you were shown.",
            ack,
        ),
        Tool::new("inbox_peek", Reads, &[Context], "Look at your inbox without marking anything as read.", peek)
            .peeking(),
        Tool::new(
            WAITS,
            Sets,
            &[Context, Team],
            "Wait until a message that you have not seen is there, and return like inbox_check; at once if one is. For \
             when you have nothing else to do.",
            wait,
        )
        .lasting(MAX_WAIT + SLACK),
        Tool::new(
            "channel_mentions",
            Sets,
            &[Context],
            "Another name of inbox_check: messages for you that you have not acknowledged.",
            check,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct InboxCheckArgs {
    /// At most so many, those that you have not seen first. 100 unless said, 1000 at most.
    #[schemars(extend("x-rare" = true))]
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InboxMessages {
    messages: Vec<InboxMessage>,
}

async fn check(call: Call, asked: InboxCheckArgs) -> ToolAnswer<InboxMessages> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let waiting = call.engine().inbox().check(&member.caller, &member.id, asked.limit.map(Limit::get)).await?;
    shown(&call, &waiting, &member)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct InboxPeekArgs {
    /// At most so many, those that you have not seen first. 100 unless said, 1000 at most.
    #[schemars(extend("x-rare" = true))]
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
    /// For whoever decides what the agent is told: by this look it was shown nothing yet, so that no acknowledgement of its
    /// own covers what it was not told.
    #[schemars(skip)]
    #[serde(default)]
    on_behalf: bool,
}

async fn peek(call: Call, asked: InboxPeekArgs) -> ToolAnswer<InboxMessages> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let limit = asked.limit.map(Limit::get);
    let waiting = match asked.on_behalf {
        true => call.engine().inbox().preview(&member.id, limit).await?,
        false => call.engine().inbox().peek(&member.id, limit).await?,
    };
    shown(&call, &waiting, &member)
}

fn shown(call: &Call, waiting: &Waiting, member: &Member) -> ToolAnswer<InboxMessages> {
    let messages = InboxMessage::all(waiting, &member.instance, call.engine().clock().now());
    let text = serde_json::to_string(&messages).map_err(|_| ToolError::unexpected())?;
    Ok(ToolReply::with_text(text, InboxMessages { messages }).with_note(more(waiting, "inbox_ack")))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct InboxAckArgs {
    /// Up to this timestamp or message id, inclusive.
    until: String,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InboxAckResult {
    /// The messages that this covered.
    acknowledged: Vec<String>,
    /// How many are left.
    remaining: usize,
}

async fn ack(call: Call, asked: InboxAckArgs) -> ToolAnswer<InboxAckResult> {
    let until = match Moment::parse(&asked.until) {
        Some(moment) => Until::Time(moment.last),
        None => Until::Message(MessageId::new(asked.until.trim())),
    };
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let covered = call.engine().inbox().ack_until(&member.caller, &member.id, until).await?;
    let remaining = call.engine().inbox().list(&member.id, Some(1)).await?.count();
    let acknowledged: Vec<String> = covered.iter().map(ToString::to_string).collect();
    let text = match acknowledged.is_empty() && remaining > 0 {
        true => {
            "Nothing was covered: up to there you were shown no message that is still open. inbox_check shows what is."
        }
        false => "acknowledged",
    };
    Ok(ToolReply::with_text(text, InboxAckResult { acknowledged, remaining }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct InboxWaitArgs {
    /// At most so long; 60 unless said, 240 at most.
    timeout_seconds: Option<f64>,
    /// At most so many messages, those that you have not seen first. 100 unless said, 1000 at most.
    #[schemars(extend("x-rare" = true))]
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

/// How long a call waits at most.
fn wait_bound(asked_seconds: Option<f64>) -> Duration {
    match asked_seconds {
        Some(seconds) if seconds >= MAX_WAIT.as_secs_f64() => MAX_WAIT,
        Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        None => USUAL_WAIT,
    }
}

/// Waits by listening, so that nothing is asked again and again. What is new is shown by the same call.
async fn wait(call: Call, asked: InboxWaitArgs) -> ToolAnswer<InboxMessages> {
    let most = wait_bound(asked.timeout_seconds);
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let account = Account::of(&call.caller(asked.agent_id.as_deref())?);
    let Ok(_place) = call.app().streams().take(account) else {
        return Err(ToolError::new(Code::TooManySubscribers, "too many callers wait already")
            .suggest("call inbox_check from time to time instead"));
    };
    // If the time is over, one may still have come with the last moment.
    if let Ok(arrived) = tokio::time::timeout(most, arrival(&call, &asked, &member)).await {
        arrived?;
    }
    let caller = call.caller(asked.agent_id.as_deref())?;
    let waiting = call.engine().inbox().check(&caller, &member.id, asked.limit.map(Limit::get)).await?;
    shown(&call, &waiting, &member)
}

/// Lasts until something is in the inbox that its owner was not shown: what it has read and works on does not end the
/// waiting. A coordination message that comes meanwhile does, and is told of with the result.
async fn arrival(call: &Call, asked: &InboxWaitArgs, member: &Member) -> Result<(), ToolError> {
    let engine = call.engine();
    // Listening begins before the first look, so that nothing falls in between.
    let mut listener = engine.dispatcher().wakes().listen(&member.id);
    let mut before = engine.inbox().count_unread(&member.id).await?.coord;
    loop {
        // Asked anew each time: a token may have ended meanwhile.
        let caller = call.caller(asked.agent_id.as_deref())?;
        let news = engine.inbox().list(&member.id, Some(1)).await?.has_news();
        let now = engine.inbox().count_unread(&member.id).await?.coord;
        if news || now > before || call.app().stopping().is_cancelled() {
            return Ok(());
        }
        // Some may have been read meanwhile, so that the next one does not make more than there were.
        before = now;
        tokio::select! {
            _ = listener.next() => {}
            () = call.app().stopping().cancelled() => {}
            () = stays_alive(call, &caller) => {}
        }
    }
}

/// Whoever waits is there: shows it again and again.
async fn stays_alive(call: &Call, caller: &Caller) {
    let engine = call.engine();
    let pause = engine.settings().connection_offline_after / 4;
    loop {
        tokio::time::sleep(pause).await;
        if let Some(agent) = caller.itself()
            && engine.liveness().record_presence(caller, agent, rookery_core::model::LifeSource::Call).is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_bounded_whatever_timeout_is_asked_for() {
        for (asked, expected) in [
            (None, USUAL_WAIT),
            (Some(0.5), Duration::from_millis(500)),
            (Some(239.0), Duration::from_secs(239)),
            (Some(241.0), MAX_WAIT),
            (Some(1e300), MAX_WAIT),
            (Some(f64::INFINITY), MAX_WAIT),
            (Some(-1.0), Duration::ZERO),
            (Some(f64::NAN), Duration::ZERO),
        ] {
            assert_eq!(wait_bound(asked), expected, "{asked:?}");
        }
    }
}
