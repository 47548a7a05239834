//! The inbox: mentions and direct messages that an agent has not acknowledged.

use std::time::Duration;

use rookery_core::{Caller, MessageId};
use rookery_engine::messages::{Pending, Until};
use rookery_engine::moment::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WAITS;
use super::messages::{Answer, InboxMessage, Member};
use crate::mcp::{Call, Effect, Reply, Tool, ToolError, Toolset};

/// The longest that a call waits for a message.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
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
            "Messages for you that you have not acknowledged. Handle high priority first; then inbox_ack.",
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
            "Wait until a message for you is there, and return it like inbox_check; at once if one is. For when you \
             have nothing else to do.",
            wait,
        )
        .lasting(LONGEST_WAIT + SLACK),
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
pub struct Checking {
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Messages {
    messages: Vec<InboxMessage>,
}

async fn check(call: Call, asked: Checking) -> Answer<Messages> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let pending = call.engine().check_inbox(&member.caller, &member.id, None).await?;
    shown(&pending, &member)
}

async fn peek(call: Call, asked: Checking) -> Answer<Messages> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let pending = call.engine().peek_inbox(&member.id, None).await?;
    shown(&pending, &member)
}

fn shown(pending: &[Pending], member: &Member) -> Answer<Messages> {
    let messages: Vec<_> = pending.iter().map(|pending| InboxMessage::of(pending, &member.instance)).collect();
    let text = serde_json::to_string(&messages).map_err(|_| ToolError::unexpected())?;
    Ok(Reply::said(text, Messages { messages }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Acking {
    /// Up to this timestamp or message id, inclusive.
    until: String,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Acked {
    /// The messages that this covered.
    acknowledged: Vec<String>,
    /// How many are left.
    remaining: usize,
}

async fn ack(call: Call, asked: Acking) -> Answer<Acked> {
    let until = match Moment::parse(&asked.until) {
        Some(moment) => Until::Time(moment.last),
        None => Until::Message(MessageId::new(asked.until.trim())),
    };
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let covered = call.engine().ack_until(&member.caller, &member.id, until).await?;
    let remaining = call.engine().inbox(&member.id, None).await?.len();
    let acknowledged: Vec<String> = covered.iter().map(ToString::to_string).collect();
    let nothing = (acknowledged.is_empty() && remaining > 0).then(|| {
        "Nothing was covered: up to there you were shown no message that is still open. inbox_check shows what is."
            .to_owned()
    });
    Ok(Reply::said("acknowledged", Acked { acknowledged, remaining }).noting(nothing))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Waiting {
    /// At most so long; 600 at most.
    timeout_seconds: Option<f64>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

/// Waits by listening, so that nothing is asked again and again. What is new is shown by the same call.
async fn wait(call: Call, asked: Waiting) -> Answer<Messages> {
    let most = match asked.timeout_seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or_default().min(LONGEST_WAIT),
        None => USUAL_WAIT,
    };
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let Ok(_place) = call.app().subscriptions().clone().try_acquire_owned() else {
        return Err(ToolError::recoverable("TOO_MANY_SUBSCRIBERS", "too many callers wait already")
            .suggest("call inbox_check from time to time instead"));
    };
    match tokio::time::timeout(most, arrival(&call, &asked, &member)).await {
        Ok(arrived) => shown(&arrived?, &member),
        // One may have come with the last moment.
        Err(_) => shown(&call.engine().check_inbox(&member.caller, &member.id, None).await?, &member),
    }
}

/// What is in the inbox as soon as something is. A coordination message that comes meanwhile ends the waiting too, and
/// is told of with the result.
async fn arrival(call: &Call, asked: &Waiting, member: &Member) -> Result<Vec<Pending>, ToolError> {
    let engine = call.engine();
    // Listening begins before the first look, so that nothing falls in between.
    let mut listener = engine.notices().listen(&member.id);
    let before = engine.unread(&member.id).await?.coord;
    loop {
        // Asked anew each time: a token may have ended meanwhile.
        let caller = call.caller(asked.agent_id.as_deref())?;
        let pending = engine.check_inbox(&caller, &member.id, None).await?;
        let coord = engine.unread(&member.id).await?.coord > before;
        if !pending.is_empty() || coord || call.app().stopping().is_cancelled() {
            return Ok(pending);
        }
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
    let pause = engine.settings().connection_after / 4;
    loop {
        tokio::time::sleep(pause).await;
        if let Some(agent) = caller.itself()
            && engine.sign_of_life(caller, agent, rookery_core::view::LifeSource::Call).is_err()
        {
            return;
        }
    }
}
