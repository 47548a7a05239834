//! The channel: what the team of an instance says to each other, with mentions that reach those who are named.

use rookery_core::kernel::time::iso;
use rookery_core::model::message::{Fate, Message};
use rookery_core::{AgentId, Instance, MessageId};
use rookery_engine::messages::{LARGEST_PAGE, Post, Span};
use rookery_engine::moment::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::long;
use super::messages::{ChannelEntryView, Member, called, held, instance_of};
use crate::mcp::arguments::{Limit, name};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "channel_send",
            Adds,
            &[Context, Team],
            "Say something to your team. @name puts it into that agent's inbox; @name@instance reaches another \
             instance. Mention whoever has to act next, nobody out of politeness.",
            send,
        ),
        Tool::new(
            "channel_read",
            Sets,
            &[Context],
            "Read what was said, oldest first. Acknowledges exactly the mentions of you that it returns; channel_peek \
             does not.",
            read,
        ),
        Tool::new(
            "channel_peek",
            Reads,
            &[Context],
            "Look at what was said last, without acknowledging anything.",
            peek,
        )
        .peeking(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ChannelSendArgs {
    /// What to say, with @mentions.
    message: String,
    /// The id of the entry that this one answers: those who wrote in its thread are notified too.
    #[serde(default, deserialize_with = "name")]
    #[schemars(extend("x-rare" = true))]
    reply_to: Option<String>,
    /// Send to this agent alone, not to the channel.
    #[serde(default, deserialize_with = "name")]
    to: Option<String>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChannelSendResult {
    id: String,
    timestamp: String,
    /// Agents that are mentioned and notified.
    mentions: Vec<String>,
    /// People that are mentioned or answered: they see it in the web UI.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    people: Vec<String>,
    /// Mentioned names that neither an agent nor a person has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    /// Why it did not go out yet, if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

async fn send(call: Call, asked: ChannelSendArgs) -> ToolAnswer<ChannelSendResult> {
    let member = Member::of(&call, asked.agent_id.as_deref()).await?;
    let message = long::fitting(&call, &member, asked.message).await?;
    let post = match asked.to.as_deref() {
        Some(to) => Post::direct(&member.id, vec![member.named(to)?], message),
        None => Post::entry(&member.id, message),
    };
    let reply_to = asked.reply_to.as_deref().map(MessageId::new);
    let post = Post { instance: member.instance.clone(), reply_to, ..post };
    let command = call.engine().inbox().compose(post);
    let message = call.submit(member.caller.clone(), command).await?.reply;
    let header = &message.letter.header;
    let sent = ChannelSendResult {
        id: header.message.to_string(),
        timestamp: iso(message.at),
        mentions: called(&header.mentions, &member.instance),
        people: header.people.clone(),
        unknown: called(&header.unknown, &member.instance),
        held: held(&message),
    };
    let word = if message.fate == Fate::Sent { "sent" } else { "held" };
    let missed = missed(&call, &member, &header.unknown).await?;
    let note = sent.held.clone();
    Ok(ToolReply::with_text(word, sent).with_note(note).with_note(missed))
}

/// Tells whose names nobody has, and which names there are.
async fn missed(call: &Call, member: &Member, unknown: &[AgentId]) -> Result<Option<String>, ToolError> {
    if unknown.is_empty() {
        return Ok(None);
    }
    let here = call.engine().query().agents().await?.value;
    let others: Vec<AgentId> = here.into_iter().map(|agent| agent.id).filter(|id| *id != member.id).collect();
    let names = |ids: &[AgentId]| called(ids, &member.instance).iter().map(|name| format!("@{name}")).collect();
    let (unknown, mut others): (Vec<String>, Vec<String>) = (names(unknown), names(&others));
    others.truncate(NAMES_TOLD);
    let others = if others.is_empty() { "nobody else is here yet".to_owned() } else { others.join(", ") };
    Ok(Some(format!("Nobody is called {}, so nobody was told. On the team: {others}.", unknown.join(", "))))
}

/// How many names a caller is offered that missed one.
const NAMES_TOLD: usize = 30;

#[derive(Debug, Deserialize, JsonSchema)]
struct ChannelReadArgs {
    /// Only entries after this time (ISO 8601); a whole minute, hour or day is included.
    since: Option<String>,
    /// Only entries before this time, exclusive: the first timestamp that you were shown goes on to earlier ones.
    before: Option<String>,
    /// At most so many, the newest. 100 unless said, 1000 at most.
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ChannelPeekArgs {
    /// Only entries before this time, exclusive: the first timestamp that you were shown goes on to earlier ones.
    before: Option<String>,
    /// At most so many, the newest. 100 unless said, 1000 at most.
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
    /// As of `inbox_peek`: for whoever decides what the agent is told.
    #[schemars(skip)]
    #[serde(default)]
    on_behalf: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChannelEntries {
    entries: Vec<ChannelEntryView>,
    /// There are earlier ones: this, given as before, returns them.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
}

async fn read(call: Call, asked: ChannelReadArgs) -> ToolAnswer<ChannelEntries> {
    let (since, before) = (time("since", asked.since.as_deref())?, time("before", asked.before.as_deref())?);
    let span = Span {
        since: since.map(Moment::since),
        before: before.map(|moment| moment.first),
        limit: asked.limit.map(Limit::get),
    };
    let member = Member::or_guest(&call, asked.agent_id.as_deref()).await?;
    let instance = instance_of(&call, member.as_ref());
    let entries = match &member {
        Some(member) => call.engine().inbox().read_channel(&member.caller, &member.id, &instance, span).await?,
        None => call.engine().inbox().channel(&instance, span).await?,
    };
    shown(&call, &instance, span, &entries.value).await
}

async fn peek(call: Call, asked: ChannelPeekArgs) -> ToolAnswer<ChannelEntries> {
    let before = time("before", asked.before.as_deref())?.map(|moment| moment.first);
    let span = Span { since: None, before, limit: asked.limit.map(Limit::get) };
    let member = Member::or_guest(&call, asked.agent_id.as_deref()).await?;
    let instance = instance_of(&call, member.as_ref());
    let entries = match &member {
        Some(member) if asked.on_behalf => call.engine().inbox().preview_channel(&member.id, &instance, span).await?,
        Some(member) => call.engine().inbox().peek_channel(&member.id, &instance, span).await?,
        None => call.engine().inbox().channel(&instance, span).await?,
    };
    shown(&call, &instance, span, &entries.value).await
}

/// A time that an argument names, as the whole that it stands for.
fn time(argument: &str, text: Option<&str>) -> Result<Option<Moment>, ToolError> {
    let Some(text) = text else { return Ok(None) };
    match Moment::parse(text) {
        Some(moment) => Ok(Some(moment)),
        None => Err(ToolError::invalid(format!("argument '{argument}': '{text}' is no time"))
            .suggest("give it as entries show it, for example 2026-02-05T10:00:00.000Z")),
    }
}

/// Entries, and whether there are earlier ones. Whoever asked for the last few, and for nothing else, knows.
async fn shown(call: &Call, instance: &Instance, span: Span, found: &[Message]) -> ToolAnswer<ChannelEntries> {
    let only_the_last = span.since.is_none() && span.before.is_none() && span.limit.is_some();
    let left_out =
        if only_the_last { 0 } else { call.engine().inbox().count_omitted(instance, span, found.len()).await? };
    let before = found.first().filter(|_| left_out > 0).map(|first| iso(first.at));
    let note = before.as_ref().map(|before| earlier(span, found.len(), left_out, before));
    let entries: Vec<ChannelEntryView> = found.iter().map(|entry| ChannelEntryView::of(entry, instance)).collect();
    let text = serde_json::to_string(&entries).map_err(|_| ToolError::unexpected())?;
    Ok(ToolReply::with_text(text, ChannelEntries { entries, before }).with_note(note))
}

/// Tells of what was left out, and how to come to it.
fn earlier(span: Span, returned: usize, left_out: usize, before: &str) -> String {
    let all = returned + left_out;
    match span.since {
        None => format!("There are earlier ones than these {returned}: before \"{before}\" returns them."),
        Some(_) if all <= LARGEST_PAGE as usize => {
            format!("{left_out} earlier ones since then were left out. limit {all} returns all.")
        }
        Some(_) => format!(
            "{left_out} or more earlier ones since then were left out. The same with before \"{before}\" returns them, \
             a page at a time."
        ),
    }
}
