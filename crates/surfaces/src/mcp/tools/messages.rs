//! Messages as the context tools show them, who takes part in them, and where each recipient stands.

use rookery_core::kernel::time::iso;
use rookery_core::model::addressee::Address;
use rookery_core::model::message::{Fate, Form, Hold, Message, Priority, Recipients};
use rookery_core::{Actor, AgentId, Authority, Caller, Code, Instance, MessageId, Rejection, Timestamp};
use rookery_engine::messages::{Mail, MessageStatus, Pending, Reached, RecipientStatus, Waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelopes::{Envelope, PayloadText};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![Tool::new(
        "message_status",
        Reads,
        &[Context, Coord],
        "See where each recipient of a message stands: queued, notified, read, acked, or why not. channel_send and \
         coord_publish_message return the id.",
        status,
    )]
}

/// Who takes part, and in which instance: that of its own id.
#[derive(Debug)]
pub struct Member {
    pub caller: Caller,
    pub id: AgentId,
    pub instance: Instance,
}

impl Member {
    /// The caller as a part of the team. Nobody knew it before: it joins by this.
    pub async fn of(call: &Call, named: Option<&str>) -> Result<Member, ToolError> {
        let (caller, agent) = call.worker(named)?;
        if caller.actor == Actor::Anonymous {
            return Err(ToolError::anonymous());
        }
        let id = agent.unwrap_or_else(|| AgentId::from(caller.actor.to_string().as_str()));
        // What only reads is decided by no command.
        call.engine().inbox().ensure_may_act_for(&caller).await?;
        call.engine().liveness().touch(&caller).await?;
        call.arrive(&caller).await?;
        // A person's name says nothing of where it is.
        let instance = if caller.actor.agent().is_some() { Instance::of(&id) } else { call.sender().instance() };
        Ok(Member { caller, instance, id })
    }

    /// As [`Member::of`]; `None` if the caller gave no name, and may only look.
    pub async fn or_guest(call: &Call, named: Option<&str>) -> Result<Option<Member>, ToolError> {
        match call.caller(named)?.actor {
            Actor::Anonymous => Ok(None),
            _ => Ok(Some(Member::of(call, named).await?)),
        }
    }

    /// The id that a name stands for here; `agent:` in front of it says that it is the id.
    pub fn named(&self, name: &str) -> Result<AgentId, ToolError> {
        let bare = name.trim().trim_start_matches('@');
        if bare.is_empty() {
            return Err(ToolError::invalid(format!("argument 'to': '{name}' names no agent")));
        }
        match Address::parse(bare) {
            Some(Address::Agent(id)) if bare != id.as_str() => Ok(id),
            _ => Ok(self.instance.member(bare)),
        }
    }
}

/// The instance that a member is in, or a guest looks at.
pub fn instance_of(call: &Call, member: Option<&Member>) -> Instance {
    member.map_or_else(|| call.sender().instance(), |member| member.instance.clone())
}

pub fn instance_of_caller(caller: &Caller) -> Instance {
    caller.actor.agent().map_or_else(Instance::default, Instance::of)
}

/// An entry of a channel, or a message to few.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChannelEntryView {
    id: String,
    timestamp: String,
    from: String,
    message: String,
    mentions: Vec<String>,
    /// Whom a message that is not in the channel is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Vec<String>>,
}

impl ChannelEntryView {
    /// A message with the names that everybody has in the reader's instance.
    pub fn of(message: &Message, reader: &Instance) -> ChannelEntryView {
        let header = &message.letter.header;
        let direct = header.form == Form::Direct;
        let to = match &header.to {
            Recipients::Agents(agents) if direct => Some(called(agents, reader)),
            Recipients::Agents(_) | Recipients::Everyone => None,
        };
        ChannelEntryView {
            id: header.message.to_string(),
            timestamp: iso(message.at),
            from: header.author_for(reader),
            message: message.letter.text.clone(),
            mentions: called(&header.mentions, reader),
            to,
        }
    }

    /// A message of the Clutch protocol: what it says is its payload.
    fn of_mail(mail: &Mail, words: PayloadText, reader: &Instance) -> ChannelEntryView {
        ChannelEntryView {
            id: mail.id.to_string(),
            timestamp: iso(mail.at),
            from: reader.calls(&mail.from),
            message: words.text,
            mentions: vec![],
            to: None,
        }
    }
}

pub fn called(agents: &[AgentId], reader: &Instance) -> Vec<String> {
    agents.iter().map(|agent| reader.calls(agent)).collect()
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Urgency {
    Normal,
    High,
}

impl From<Priority> for Urgency {
    fn from(priority: Priority) -> Urgency {
        match priority {
            Priority::Normal => Urgency::Normal,
            Priority::High => Urgency::High,
        }
    }
}

/// A message that waits for the reader.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InboxMessage {
    entry: ChannelEntryView,
    /// True until you acknowledge it.
    unread: bool,
    priority: Urgency,
    /// True if it was given up on, after it failed too often: nobody is woken for it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    given_up: bool,
    /// What a message of the Clutch protocol is about. Such a one says its payload, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<Envelope>,
}

impl InboxMessage {
    /// Everything of an inbox, in the order in which it came.
    pub fn all(waiting: &Waiting, reader: &Instance, now: Timestamp) -> Vec<InboxMessage> {
        let said = waiting.pending.iter().map(|one| (one.message.sent, InboxMessage::of(one, reader)));
        let mail = waiting.mail.iter().map(|one| (one.sent, InboxMessage::of_mail(one, reader, now)));
        let mut all: Vec<_> = said.chain(mail).collect();
        all.sort_by_key(|(sent, _)| *sent);
        all.into_iter().map(|(_, message)| message).collect()
    }

    fn of(pending: &Pending, reader: &Instance) -> InboxMessage {
        let priority = pending.priority().into();
        let (entry, given_up) = (ChannelEntryView::of(&pending.message, reader), pending.dead);
        InboxMessage { entry, unread: true, priority, given_up, envelope: None }
    }

    fn of_mail(mail: &Mail, reader: &Instance, now: Timestamp) -> InboxMessage {
        let words = PayloadText::of(mail);
        let envelope = Some(Envelope::of(mail, &words, now));
        let (entry, given_up) = (ChannelEntryView::of_mail(mail, words, reader), mail.dead);
        InboxMessage { entry, unread: true, priority: Urgency::Normal, given_up, envelope }
    }
}

/// Tells how many messages did not fit, and how to come to them.
pub fn more(waiting: &Waiting, ack: &str) -> Option<String> {
    let (more, wait) = (waiting.more, if waiting.more == 1 { "waits" } else { "wait" });
    (more > 0)
        .then(|| format!("{more} more {wait} for you: {ack} what you are done with, or give a limit (1000 at most)."))
}

/// Why a message did not go out, if it did not.
pub fn held(message: &Message) -> Option<String> {
    match &message.fate {
        Fate::Sent => None,
        Fate::Held(Hold::Hops { most }) => Some(format!(
            "held for a person: agents have answered each other more than {most} times in a row without one. Stop and \
             wait."
        )),
        Fate::Held(Hold::Rate { per_minute }) => {
            Some(format!("held for a person: you send more than {per_minute} messages a minute. Slow down."))
        }
        Fate::Discarded { reason } => {
            Some(format!("a person discarded it{}", reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default()))
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct MessageStatusArgs {
    /// The message's id.
    #[serde(alias = "message_id")]
    id: String,
}

/// A message without its recipients' names inside of an instance: ids are as every other tool shows them.
#[derive(Debug, Serialize, JsonSchema)]
struct MessageStatusResult {
    id: String,
    /// The type of a coordination message, else what it is: entry or direct.
    #[serde(rename = "type")]
    kind: String,
    from: String,
    /// "all", or the ids of its recipients.
    to: MessageTo,
    timestamp: String,
    requires_ack: bool,
    payload: MessagePayload,
    recipients: Vec<RecipientView>,
    /// Why it did not go out, if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum MessageTo {
    Everyone(String),
    Agents(Vec<String>),
}

#[derive(Debug, Serialize, JsonSchema)]
struct MessagePayload {
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    description: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RecipientView {
    agent_id: String,
    /// queued, notified, read, acked; awaited (not on the team yet), expired, held, discarded.
    status: String,
    /// How often it was told since the daemon started and has not read it.
    notified: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked_at: Option<String>,
}

async fn status(call: Call, asked: MessageStatusArgs) -> ToolAnswer<MessageStatusResult> {
    let caller = call.reader().await?;
    let id = MessageId::new(asked.id.as_str());
    let found = call.engine().inbox().message_status(&id).await?.filter(|status| may_see(&caller, &status.message));
    let Some(MessageStatus { message, recipients }) = found else {
        return Err(Rejection::new(Code::MessageNotFound, format!("Message not found: '{id}'"))
            .hint("the id is in the result of the call that sent it, and in what the channel and the inbox show")
            .into());
    };
    let header = &message.letter.header;
    Ok(ToolReply::new(MessageStatusResult {
        id: header.message.to_string(),
        kind: header.topic.clone().unwrap_or_else(|| kind(header.form).to_owned()),
        from: header.from.to_string(),
        to: match &header.to {
            Recipients::Everyone => MessageTo::Everyone("all".to_owned()),
            Recipients::Agents(agents) => MessageTo::Agents(agents.iter().map(ToString::to_string).collect()),
        },
        timestamp: iso(message.at),
        requires_ack: header.requires_ack,
        payload: MessagePayload { subject: message.letter.subject.clone(), description: message.letter.text.clone() },
        recipients: recipients.into_iter().map(recipient).collect(),
        held: held(&message),
    }))
}

/// A message to few is theirs; everything else was said to everybody.
fn may_see(caller: &Caller, message: &Message) -> bool {
    let header = &message.letter.header;
    let named = |agent: &AgentId| matches!(&header.to, Recipients::Agents(agents) if agents.contains(agent));
    let own = |agent: &AgentId| header.from == *agent || named(agent);
    let author = header.from.as_str() == caller.actor.to_string();
    header.form != Form::Direct || author || caller.power >= Authority::Lead || caller.actor.agent().is_some_and(own)
}

fn kind(form: Form) -> &'static str {
    match form {
        Form::Entry => "entry",
        Form::Direct => "direct",
        Form::Coord => "coord",
        Form::Envelope => "envelope",
    }
}

fn recipient(status: RecipientStatus) -> RecipientView {
    let notified = status.reached == Reached::Queued && status.notified > 0;
    RecipientView {
        agent_id: status.agent.to_string(),
        status: if notified { "notified" } else { status.reached.as_str() }.to_owned(),
        notified: status.notified,
        read_at: status.read_at.map(iso),
        acked_at: status.acked_at.map(iso),
    }
}
