//! Channels: what is said in each instance, for people and for programs that do not speak MCP.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::messages::{ArchiveChannel, What};
use rookery_core::model::message::{Fate, Message, Priority, Recipients, Thread};
use rookery_core::{Actor, AgentId, Code, Instance, MessageId, Timestamp};
use rookery_engine::At;
use rookery_engine::messages::{Post, Span};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, JsonBody, Query, Segment};

/// A channel and how much was said in it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChannelInfo {
    /// The instance whose channel it is; `default` is the project's own.
    pub name: String,
    pub messages: u64,
    /// Unix epoch milliseconds of the newest entry; null if nothing was said yet.
    pub last_at: Option<i64>,
    /// The channel that this one is an archive of, if it is one.
    pub archive_of: Option<String>,
}

/// An entry of a channel.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChannelEntry {
    pub id: String,
    /// The place in the log of the fact that it was sent by.
    pub seq: u64,
    /// Unix epoch milliseconds. No two entries of a channel have the same.
    pub at: i64,
    /// The author by full id: an agent, `person:NAME` or `system`.
    pub from: String,
    /// What the author is called in this channel.
    pub name: String,
    pub text: String,
    /// Agents that it mentions.
    pub mentions: Vec<String>,
    /// People that it mentions or answers, by name; `person` stands for all of them. They see it in the web UI.
    pub people: Vec<String>,
    /// Names that it mentions and that neither an agent nor a person has.
    pub unknown: Vec<String>,
    /// Agents that are notified: those that it mentions and, for a reply, those that wrote in its thread.
    pub to: Vec<String>,
    /// `normal` or `high`.
    pub priority: String,
    /// The entry that this one answers, if its author said so.
    pub reply_to: Option<String>,
    /// Whether it waits for a person's decision before anybody gets it.
    pub held: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EntryQuery {
    /// Unix epoch milliseconds: entries before this time.
    pub before: Option<i64>,
    /// 100 if left out, at most 1000.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewEntry {
    /// What to say, with @mentions.
    #[schema(required = true)]
    pub text: Option<String>,
    /// The entry that this one answers. Those who wrote in its thread are notified.
    pub reply_to: Option<String>,
    /// The agent that speaks, where no header says so.
    pub agent_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchiveRequest {
    /// The name of the archive, which no channel has yet.
    #[schema(example = "default.1")]
    archive: String,
    /// Agents of the instance, by id, that are not to get what they have not acknowledged.
    #[serde(default)]
    agents: Vec<String>,
}

/// The channels, that of the project first, then those where something was said last.
#[utoipa::path(get, path = "/channels", tag = "channels", responses((status = 200, body = Vec<ChannelInfo>)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let At { value: threads, head } = app.engine().inbox().threads().await?;
    let mut shown: Vec<ChannelInfo> = threads.into_iter().map(info).collect();
    for instance in app.engine().contexts().list_instances().await?.into_iter().chain([Instance::default()]) {
        if !shown.iter().any(|channel| channel.name == instance.name()) {
            shown.push(ChannelInfo { name: instance.to_string(), messages: 0, last_at: None, archive_of: None });
        }
    }
    let own = Instance::default().to_string();
    shown.sort_by_key(|channel| (channel.name != own, std::cmp::Reverse(channel.last_at)));
    Ok(answer::at(At { value: shown, head }))
}

/// The newest entries of a channel, oldest first. Nobody's inbox changes by it.
#[utoipa::path(get, path = "/channels/{name}/messages", tag = "channels", params(("name" = String, Path), EntryQuery),
    responses((status = 200, body = Vec<ChannelEntry>)))]
pub async fn entries(
    State(app): State<App>,
    call: Call,
    Segment(name): Segment,
    Query(query): Query<EntryQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    if query.limit == Some(0) {
        return Err(HttpError::invalid("limit must be at least 1"));
    }
    let span = Span { since: None, before: query.before.map(Timestamp), limit: query.limit };
    let At { value, head } = app.engine().inbox().channel(&Instance::new(name), span).await?;
    Ok(answer::at(At { value: value.into_iter().map(shown).collect::<Vec<_>>(), head }))
}

/// Say something in a channel. Whoever is mentioned finds it in the inbox; two mentions or an urgent word make it urgent.
#[utoipa::path(post, path = "/channels/{name}/messages", tag = "channels", params(("name" = String, Path)),
    request_body = NewEntry, responses((status = 201, body = ChannelEntry)))]
pub async fn say(call: Call, Segment(name): Segment, body: JsonBody<NewEntry>) -> Result<Response, HttpError> {
    let [text] = extract::need("text is required", [&body.value.text])?;
    let caller = call.caller(body.value.agent_id.as_deref())?;
    let from = match &caller.actor {
        Actor::Agent(agent) => agent.clone(),
        Actor::Person(_) => AgentId::new(caller.actor.to_string()),
        _ => {
            return Err(HttpError::new(Code::Forbidden, "nobody in particular cannot say anything")
                .hint("name the agent (agent_id, X-Agent-Id), or sign in: 'rookery open' prints how"));
        }
    };
    let post = Post {
        from,
        instance: Instance::new(name),
        what: What::Entry,
        text,
        reply_to: body.value.reply_to.as_deref().map(MessageId::new),
    };
    let command = call.app().engine().inbox().compose(post);
    let committed = call.submit(caller, command, &body.bytes).await?;
    let (message, committed) = committed.into_parts();
    Ok(answer::written(StatusCode::CREATED, &committed, shown(message)))
}

/// Put a channel away under another name, and begin an empty one. Its entries stay readable there. For people.
#[utoipa::path(post, path = "/channels/{name}/archive", tag = "channels", params(("name" = String, Path)),
    request_body = ArchiveRequest, responses((status = 200, body = ChannelInfo)))]
pub(super) async fn archive(
    call: Call,
    Segment(name): Segment,
    body: JsonBody<ArchiveRequest>,
) -> Result<Response, HttpError> {
    let command = ArchiveChannel {
        instance: Instance::new(name),
        archive: Instance::new(body.value.archive),
        agents: body.value.agents.into_iter().map(AgentId::new).collect(),
    };
    let committed = call.submit(call.person()?, command, &body.bytes).await?;
    let (thread, committed) = committed.into_parts();
    Ok(answer::written(StatusCode::OK, &committed, info(thread)))
}

fn info(thread: Thread) -> ChannelInfo {
    ChannelInfo {
        name: Instance::of_thread(&thread.id).to_string(),
        messages: thread.messages,
        last_at: Some(thread.last_at.0),
        archive_of: thread.archive_of().map(|of| Instance::of_thread(of).to_string()),
    }
}

fn shown(message: Message) -> ChannelEntry {
    let held = matches!(message.fate, Fate::Held(_));
    let header = message.letter.header;
    let ids = |ids: Vec<AgentId>| ids.iter().map(ToString::to_string).collect();
    ChannelEntry {
        id: header.message.to_string(),
        seq: message.sent.0,
        at: message.at.0,
        from: header.from.to_string(),
        name: header.name,
        text: message.letter.text,
        mentions: ids(header.mentions),
        people: header.people,
        unknown: ids(header.unknown),
        to: match header.to {
            Recipients::Agents(agents) => ids(agents),
            Recipients::Everyone => vec![],
        },
        priority: match header.priority {
            Priority::Normal => "normal".to_owned(),
            Priority::High => "high".to_owned(),
        },
        reply_to: header.reply_to.map(|id| id.to_string()),
        held,
    }
}
