//! Coordination: messages that each recipient acknowledges, and who is there. An agent that nobody knows joins by
//! calling these.

use std::borrow::Cow;

use rookery_core::kernel::time::iso;
use rookery_core::messages::{Ack, Addressees, What};
use rookery_core::{AgentId, MessageId};
use rookery_engine::messages::{Pending, Post, PresenceWord};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::long;
use super::messages::{Member, held, more};
use crate::mcp::arguments::{Limit, name};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

/// What stands for everybody in `to`.
const ALL: &str = "all";

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "coord_check_messages",
            Sets,
            &[Coord],
            "See the coordination messages to you or to all that you have not acknowledged. Call it when you start and \
             between steps of your work. Next: act on them, then coord_ack_message.",
            check,
        ),
        Tool::new(
            "coord_ack_message",
            Sets,
            &[Coord],
            "Acknowledge a message that you have dealt with; it leaves your pending list and its sender can see that.",
            ack,
        ),
        Tool::new(
            "coord_publish_message",
            Adds,
            &[Coord],
            "Send a message that stays pending for each recipient until it acknowledges it: BLOCKING_ISSUE, \
             READY_FOR_REVIEW, INTERFACE_UPDATE, STATUS_UPDATE, GENERAL, or a type of your own.",
            publish,
        ),
        Tool::new(
            "coord_get_presence",
            Reads,
            &[Coord],
            "See which agents are active, stale (offline for less than 15 minutes) or offline.",
            presence,
        ),
        Tool::new(
            "coord_send_heartbeat",
            Sets,
            &[Coord],
            "Show that you are active. Rarely needed: every call shows it, and 'rookery mcp' does so by itself.",
            heartbeat,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CoordCallerArgs {
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CoordCheckMessagesArgs {
    /// At most so many, those that you have not seen first. 100 unless said, 1000 at most.
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordCheckMessagesResult {
    pending: Vec<CoordMessage>,
    count: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordMessage {
    id: String,
    #[serde(rename = "type")]
    topic: String,
    from: String,
    timestamp: String,
    subject: String,
    body: String,
}

fn shown(Pending { message, .. }: Pending) -> CoordMessage {
    let letter = message.letter;
    CoordMessage {
        id: letter.header.message.to_string(),
        topic: letter.header.topic.unwrap_or_default(),
        from: letter.header.from.to_string(),
        timestamp: iso(message.at),
        subject: letter.subject.unwrap_or_default(),
        body: letter.text,
    }
}

async fn check(call: Call, asked: CoordCheckMessagesArgs) -> ToolAnswer<CoordCheckMessagesResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let waiting = call.engine().inbox().check_coord(&member.caller, &member.id, asked.limit.map(Limit::get)).await?;
    let more = more(&waiting, "coord_ack_message");
    let pending: Vec<CoordMessage> = waiting.pending.into_iter().map(shown).collect();
    Ok(ToolReply::new(CoordCheckMessagesResult { count: pending.len(), pending }).with_note(more))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CoordAckMessageArgs {
    /// The id of the message.
    message_id: String,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordAckMessageResult {
    success: bool,
    acknowledged: String,
}

async fn ack(call: Call, asked: CoordAckMessageArgs) -> ToolAnswer<CoordAckMessageResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let id = MessageId::new(asked.message_id.trim());
    call.engine().inbox().ack(&member.caller, &member.id, vec![id.clone()]).await?;
    Ok(ToolReply::new(CoordAckMessageResult { success: true, acknowledged: id.to_string() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CoordPublishMessageArgs {
    /// What kind of message it is, in upper-case words, for example BLOCKING_ISSUE.
    #[serde(rename = "type")]
    topic: String,
    /// The ids of the agents it is for, or "all".
    to: CoordTo,
    /// What it is about, in a line.
    subject: String,
    /// What the recipients need to know.
    body: Option<String>,
    /// Whether each recipient shall acknowledge it. True unless it tells of a session.
    requires_ack: Option<bool>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

/// One id or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CoordTo {
    One(String),
    Several(Vec<String>),
}

impl JsonSchema for CoordTo {
    fn schema_name() -> Cow<'static, str> {
        "To".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
    }
}

impl CoordTo {
    fn addressees(self) -> Result<Addressees, ToolError> {
        let named = match self {
            CoordTo::One(one) => vec![one],
            CoordTo::Several(several) => several,
        };
        if named.iter().any(|name| name == ALL) {
            return Ok(Addressees::Everyone);
        }
        if named.is_empty() || named.iter().any(|name| name.trim().is_empty()) {
            return Err(ToolError::invalid("argument 'to': must not be empty").suggest("name agents, or give \"all\""));
        }
        Ok(Addressees::Agents(named.iter().map(|name| AgentId::from(name.as_str())).collect()))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordPublishMessageResult {
    success: bool,
    message_id: String,
    /// Recipients that nobody knows. They get it if they join within 24 hours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    /// Why it did not go out yet, if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

async fn publish(call: Call, asked: CoordPublishMessageArgs) -> ToolAnswer<CoordPublishMessageResult> {
    let to = asked.to.addressees()?;
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let what = What::Coord { topic: asked.topic, subject: asked.subject, to, ack: acks(asked.requires_ack) };
    let body = long::fitting(&call, &member, asked.body.unwrap_or_default()).await?;
    let post = Post { what, ..Post::entry(&member.id, body) };
    let command = call.engine().inbox().compose(post);
    let message = call.submit(member.caller.clone(), command).await?.reply;
    let unknown = message.letter.header.unknown.iter().map(ToString::to_string).collect();
    let published = CoordPublishMessageResult {
        success: true,
        message_id: message.id().to_string(),
        unknown,
        held: held(&message),
    };
    Ok(ToolReply::new(published))
}

fn acks(required: Option<bool>) -> Ack {
    match required {
        None => Ack::ByTopic,
        Some(true) => Ack::Required,
        Some(false) => Ack::NotRequired,
    }
}

/// The words for whether somebody is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PresenceView {
    Active,
    Stale,
    Offline,
}

impl From<PresenceWord> for PresenceView {
    fn from(word: PresenceWord) -> PresenceView {
        match word {
            PresenceWord::Active => PresenceView::Active,
            PresenceWord::Stale => PresenceView::Stale,
            PresenceWord::Offline => PresenceView::Offline,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct InstanceView {
    instance_id: String,
    status: PresenceView,
    last_heartbeat: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordGetPresenceResult {
    instances: Vec<InstanceView>,
}

async fn presence(call: Call, asked: CoordCallerArgs) -> ToolAnswer<CoordGetPresenceResult> {
    let caller = call.reader_named(asked.agent_id.as_deref()).await?;
    call.arrive(&caller).await?;
    let instances = call.engine().inbox().instance_presence().await?.into_iter().map(|present| InstanceView {
        instance_id: present.agent.to_string(),
        status: present.status.into(),
        last_heartbeat: iso(present.last_seen),
    });
    Ok(ToolReply::new(CoordGetPresenceResult { instances: instances.collect() }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct CoordSendHeartbeatResult {
    success: bool,
    timestamp: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CoordSendHeartbeatArgs {
    /// The session of your program; it is shown with you.
    #[serde(default, deserialize_with = "name")]
    session_id: Option<String>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

async fn heartbeat(call: Call, asked: CoordSendHeartbeatArgs) -> ToolAnswer<CoordSendHeartbeatResult> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    call.arrive(&caller).await?;
    call.engine().liveness().heartbeat_of_session(&caller, &agent, asked.session_id).await?;
    Ok(ToolReply::new(CoordSendHeartbeatResult { success: true, timestamp: iso(call.engine().clock().now()) }))
}
