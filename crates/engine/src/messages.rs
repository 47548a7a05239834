//! Sending and receiving: what surfaces ask about channels, inboxes and coordination messages.
//!
//! The inbox is the truth; what is remembered besides (see [`crate::shown`]) only spares work or links a message to the
//! one that led to it.

use std::collections::BTreeMap;

use rookery_core::agent::{Agent, Membership};
use rookery_core::key::Table;
use rookery_core::message::{
    Ack, AckMessages, AddressedAs, Addressees, Cause, DAY_MILLIS, Delivery, Form, Message, Priority, ReadMessages,
    Recipients, SendMessage, Shown, Standing, What,
};
use rookery_core::{AgentId, Caller, Code, Instance, Key, MessageId, Refusal, Row, Seq, Timestamp};
use rookery_store::query::{Order, Test};
use rookery_store::{Answer, ListQuery};
use sha2::{Digest, Sha256};

use crate::engine::{Engine, EngineError, Request};
use crate::queries::At;

/// Entries, inbox and pending messages come in pages of so many unless asked otherwise.
pub const PAGE: u32 = 100;
pub const LARGEST_PAGE: u32 = 1_000;
/// How many messages from before it joined an agent gets, and from how long before.
const LATE_JOINER_MESSAGES: usize = 100;
const LATE_JOINER_MILLIS: u64 = DAY_MILLIS;
/// How long an agent that is offline counts as stale.
const STALE_MILLIS: u64 = 15 * 60 * 1_000;
/// How many rows one read takes in.
const READ: u32 = 500;

/// A message as a surface hands it over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The author.
    pub from: AgentId,
    /// Where it is said.
    pub instance: Instance,
    pub what: What,
    pub text: String,
    pub reply_to: Option<MessageId>,
}

impl Post {
    /// An entry in the channel of the author's own instance.
    pub fn entry(from: &AgentId, text: impl Into<String>) -> Post {
        let instance = Instance::of(from);
        Post { from: from.clone(), instance, what: What::Entry, text: text.into(), reply_to: None }
    }

    pub fn direct(from: &AgentId, to: Vec<AgentId>, text: impl Into<String>) -> Post {
        Post { what: What::Direct { to }, ..Post::entry(from, text) }
    }

    pub fn coord(from: &AgentId, topic: &str, subject: &str, to: Addressees, text: impl Into<String>) -> Post {
        let what = What::Coord { topic: topic.to_owned(), subject: subject.to_owned(), to, ack: Ack::ByTopic };
        Post { what, ..Post::entry(from, text) }
    }
}

/// Which entries of a channel: those after a time, and of these the last ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Exclusive.
    pub since: Option<Timestamp>,
    pub limit: Option<u32>,
}

/// A message that waits for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    pub message: Message,
    pub standing: Standing,
}

impl Pending {
    pub fn priority(&self) -> Priority {
        self.message.letter.header.priority
    }
}

/// How much waits for an agent, counted up to [`LARGEST_PAGE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Not acknowledged yet.
    pub pending: usize,
    /// Of these, not even shown to it.
    pub unseen: usize,
}

/// Up to where an agent acknowledges its inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// Inclusive.
    Time(Timestamp),
    Message(MessageId),
}

/// Where everybody stands with a message.
#[derive(Clone, PartialEq, Debug)]
pub struct MessageStatus {
    pub message: Message,
    pub recipients: Vec<RecipientStatus>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipientStatus {
    pub agent: AgentId,
    pub reached: Reached,
    /// How often this node has notified it. Operational: other nodes count for themselves, and a restart begins anew.
    pub notified: u32,
    pub read_at: Option<Timestamp>,
    pub acked_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    Queued,
    Read,
    Acked,
    /// Nobody with this id has joined yet; it gets the message if it does until then.
    Awaited {
        until: Timestamp,
    },
    /// Nobody with this id joined in time, or the message matters no more.
    Expired,
    /// A person has to release it first.
    Held,
    /// A person decided against it.
    Discarded,
}

impl Reached {
    pub fn as_str(self) -> &'static str {
        match self {
            Reached::Queued => "queued",
            Reached::Read => "read",
            Reached::Acked => "acked",
            Reached::Awaited { .. } => "awaited",
            Reached::Expired => "expired",
            Reached::Held => "held",
            Reached::Discarded => "discarded",
        }
    }
}

/// The words for presence that coordination uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PresenceWord {
    Active,
    /// Offline, but not for long.
    Stale,
    Offline,
}

impl PresenceWord {
    pub fn of(agent: &Agent, now: Timestamp) -> PresenceWord {
        match agent.membership {
            Membership::Here => PresenceWord::Active,
            Membership::Offline(since) if now < since.plus_millis(STALE_MILLIS) => PresenceWord::Stale,
            Membership::Offline(_) | Membership::Left(_) => PresenceWord::Offline,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            PresenceWord::Active => "active",
            PresenceWord::Stale => "stale",
            PresenceWord::Offline => "offline",
        }
    }
}

/// An agent as coordination shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct InstancePresence {
    pub agent: AgentId,
    pub status: PresenceWord,
    pub last_seen: Timestamp,
}

fn page(limit: Option<u32>) -> u32 {
    limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)
}

impl Engine {
    /// Sends a message and tells what became of it: a held one is answered like a sent one, and says so.
    pub async fn send(&self, caller: &Caller, post: Post) -> Result<Message, EngineError> {
        self.sent(self.send_request(caller, post)).await
    }

    /// The request that sends a message, for surfaces that add a key or the body as received.
    pub fn send_request(&self, caller: &Caller, post: Post) -> Request {
        let thread = post.instance.thread();
        let id = match &post.what {
            What::Coord { .. } => self.mint_coord_message(),
            What::Entry | What::Direct { .. } => self.mint_message(),
        };
        let cause = match (post.reply_to, self.shown().newest(&post.from, &thread)) {
            (Some(message), _) => Cause::ReplyTo(message),
            (None, Some(message)) => Cause::Shown(message),
            (None, None) => Cause::Nothing,
        };
        let command = SendMessage {
            id,
            run: post.instance.run(),
            thread,
            from: post.from,
            what: post.what,
            text: post.text,
            cause,
            guard: self.settings().storm_guard,
        };
        Request::new(caller.clone(), command)
    }

    /// Submits a request of [`Engine::send_request`].
    pub async fn sent(&self, request: Request) -> Result<Message, EngineError> {
        match self.submit(request).await?.answer {
            Answer::Row(_, row) => match row.0 {
                Row::Message(message) => Ok(message),
                _ => Err(no_message().into()),
            },
            _ => Err(no_message().into()),
        }
    }

    pub fn mint_message(&self) -> MessageId {
        MessageId::new(self.mint("msg_"))
    }

    /// `msg-<epoch seconds>-<number>`, the form that coordination uses.
    pub fn mint_coord_message(&self) -> MessageId {
        let digest = Sha256::digest(self.mint("n"));
        let number = digest.iter().take(4).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        MessageId::new(format!("msg-{}-{number}", self.clock().now().0.div_euclid(1_000)))
    }

    pub async fn message(&self, id: &MessageId) -> Result<At<Option<Message>>, EngineError> {
        let (mut rows, head) = self.store().rows(vec![Key::Message(id.clone())]).await?;
        Ok(At { value: rows.pop().flatten().and_then(message_of), head })
    }

    /// Entries of a channel in order. Nothing is marked.
    pub async fn channel(&self, instance: &Instance, span: Span) -> Result<At<Vec<Message>>, EngineError> {
        let mut query = ListQuery::all(Table::Messages)
            .with("channel", Test::Is(instance.thread().as_str().into()))
            .ordered_by("at")
            .at_most(Some(page(span.limit)));
        if let Some(since) = span.since {
            query = query.with("at", Test::Above(since.0));
        }
        query.order = Order::Descending;
        let (rows, head) = self.store().list(query).await?;
        let mut entries: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
        entries.reverse();
        Ok(At { value: entries, head })
    }

    /// Entries that an agent reads, which acknowledges exactly those of them that are for it.
    pub async fn read_channel(
        &self,
        caller: &Caller,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.channel(instance, span).await?;
        let own: Vec<MessageId> =
            entries.value.iter().filter(|entry| is_to(entry, agent)).map(|entry| entry.id().clone()).collect();
        let standings = self.standings(agent, &own).await?;
        let open: Vec<MessageId> = own
            .into_iter()
            .filter(|id| standings.get(id).is_some_and(|standing| *standing != Standing::Acked))
            .collect();
        self.acknowledge(caller, agent, open, Shown::Now).await?;
        self.shown().saw(agent, &entries.value);
        Ok(entries)
    }

    /// Entries that an agent looks at without acknowledging them.
    pub async fn peek_channel(
        &self,
        agent: &AgentId,
        instance: &Instance,
        span: Span,
    ) -> Result<At<Vec<Message>>, EngineError> {
        let entries = self.channel(instance, span).await?;
        let own = entries.value.iter().filter(|entry| is_to(entry, agent)).map(|entry| entry.id().clone());
        self.shown().peeked(agent, own);
        self.shown().saw(agent, &entries.value);
        Ok(entries)
    }

    /// Mentions and direct messages that an agent has not acknowledged, and which it is shown by this.
    pub async fn check_inbox(
        &self,
        caller: &Caller,
        agent: &AgentId,
        limit: Option<u32>,
    ) -> Result<Vec<Pending>, EngineError> {
        let pending = self.inbox(agent, limit).await?;
        self.show(caller, agent, &pending).await?;
        Ok(pending)
    }

    /// The same without marking anything.
    pub async fn peek_inbox(&self, agent: &AgentId, limit: Option<u32>) -> Result<Vec<Pending>, EngineError> {
        let pending = self.inbox(agent, limit).await?;
        self.shown().peeked(agent, pending.iter().map(|pending| pending.message.id().clone()));
        self.shown().saw(agent, pending.iter().map(|pending| &pending.message));
        Ok(pending)
    }

    /// What waits in an inbox, in order; nobody is shown it by this.
    pub async fn inbox(&self, agent: &AgentId, limit: Option<u32>) -> Result<Vec<Pending>, EngineError> {
        let known = self.agent(agent).await?.value;
        self.addressed(agent, known.as_ref(), page(limit), |form| form != Form::Coord).await
    }

    /// Coordination messages that an agent has not acknowledged, and which it is shown by this.
    pub async fn check_coord(
        &self,
        caller: &Caller,
        agent: &AgentId,
        limit: Option<u32>,
    ) -> Result<Vec<Pending>, EngineError> {
        let pending = self.coord_pending(agent, limit).await?;
        self.show(caller, agent, &pending).await?;
        Ok(pending)
    }

    /// Coordination messages to an agent or to everybody that it has not acknowledged, in order.
    pub async fn coord_pending(&self, agent: &AgentId, limit: Option<u32>) -> Result<Vec<Pending>, EngineError> {
        let known = self.agent(agent).await?.value;
        self.pending(agent, known.as_ref(), page(limit), |form| form == Form::Coord).await
    }

    /// Everything that an agent has not acknowledged, of whatever form, in order.
    pub async fn all_pending(&self, agent: &AgentId, limit: Option<u32>) -> Result<Vec<Pending>, EngineError> {
        let known = self.agent(agent).await?.value;
        self.pending(agent, known.as_ref(), page(limit), |_| true).await
    }

    /// How much waits for an agent, as far as this node has heard: cheap enough to be told with every answer.
    pub async fn unread(&self, agent: &AgentId) -> Result<Unread, EngineError> {
        let now = self.clock().monotonic();
        if let Some(unread) = self.counts().get(agent, now) {
            return Ok(unread);
        }
        let before = self.counts().before();
        let unread = self.count_unread(agent).await?;
        self.counts().counted(agent, unread, before, now);
        Ok(unread)
    }

    async fn count_unread(&self, agent: &AgentId) -> Result<Unread, EngineError> {
        let known = self.agent(agent).await?.value;
        let deliveries = self.deliveries(agent, known.as_ref(), LARGEST_PAGE, |_| true).await?;
        let broadcasts = self.broadcasts(known.as_ref(), LARGEST_PAGE).await?;
        let standings = deliveries.iter().map(|delivery| delivery.standing);
        let standings = standings.chain(broadcasts.iter().map(|pending| pending.standing));
        let mut unread = Unread::default();
        for standing in standings.take(LARGEST_PAGE as usize) {
            unread.pending += 1;
            unread.unseen += usize::from(standing == Standing::Queued);
        }
        Ok(unread)
    }

    /// Acknowledges messages by their ids.
    pub async fn ack(&self, caller: &Caller, agent: &AgentId, messages: Vec<MessageId>) -> Result<(), EngineError> {
        let standings = self.standings(agent, &messages).await?;
        let queued = |id: &MessageId| standings.get(id).is_none_or(|standing| *standing == Standing::Queued);
        let peeked: Vec<MessageId> =
            messages.iter().filter(|id| queued(id) && self.shown().has_peeked(agent, id)).cloned().collect();
        self.read(caller, agent, peeked).await?;
        self.acknowledge(caller, agent, messages, Shown::Before).await
    }

    /// Acknowledges what an agent was shown of its inbox, up to a time or a message; which those were.
    pub async fn ack_until(
        &self,
        caller: &Caller,
        agent: &AgentId,
        until: Until,
    ) -> Result<Vec<MessageId>, EngineError> {
        let mut covered = Vec::new();
        let inbox = self.inbox(agent, Some(LARGEST_PAGE)).await?;
        let last = match &until {
            Until::Time(_) => None,
            Until::Message(id) => Some(self.place_of(agent, id).await?),
        };
        for pending in inbox {
            let message = &pending.message;
            let within = match (&until, last) {
                (Until::Time(until), _) => message.at <= *until,
                (Until::Message(_), last) => last.is_some_and(|last| message.sent <= last),
            };
            let seen = pending.standing != Standing::Queued || self.shown().has_peeked(agent, message.id());
            if within && seen {
                covered.push(message.id().clone());
            }
        }
        self.ack(caller, agent, covered.clone()).await?;
        Ok(covered)
    }

    /// The place of a message that is for the agent, acknowledged or not.
    async fn place_of(&self, agent: &AgentId, id: &MessageId) -> Result<Seq, EngineError> {
        let delivery = Key::Delivery { message: id.clone(), agent: agent.clone() };
        let (rows, _) = self.store().rows(vec![Key::Message(id.clone()), delivery]).await?;
        let mut rows = rows.into_iter();
        match (rows.next().flatten(), rows.next().flatten()) {
            (Some(Row::Message(message)), Some(_)) => Ok(message.sent),
            _ => Err(Refusal::new(Code::MessageNotFound, format!("Message not found: '{id}' is not in your inbox"))
                .hint("give a time, or the id of a message as the inbox shows it")
                .into()),
        }
    }

    /// Where each recipient of a message stands.
    pub async fn message_status(&self, id: &MessageId) -> Result<Option<MessageStatus>, EngineError> {
        let of_message = ListQuery::all(Table::Deliveries).with("message", Test::Is(id.as_str().into()));
        let agents = ListQuery::all(Table::Agents).ordered_by("joined");
        let Some(message) = self.message(id).await?.value else { return Ok(None) };
        let (lists, _) = self.store().lists(vec![of_message, agents]).await?;
        let mut lists = lists.into_iter();
        let mut next = || lists.next().unwrap_or_default();
        let deliveries: Vec<Delivery> = next().into_iter().filter_map(delivery_of).collect();
        let agents: BTreeMap<AgentId, Agent> =
            next().into_iter().filter_map(agent_of).map(|agent| (agent.id.clone(), agent)).collect();
        let now = self.clock().now();
        let recipients = recipients_of(&message, &deliveries, &agents, now);
        let notified = |status: RecipientStatus| RecipientStatus {
            notified: self.notices().attempts(&status.agent, id),
            ..status
        };
        Ok(Some(MessageStatus { message, recipients: recipients.into_iter().map(notified).collect() }))
    }

    /// Messages that wait for a person to decide, oldest first.
    pub async fn held_messages(&self, limit: Option<u32>) -> Result<At<Vec<Message>>, EngineError> {
        let query =
            ListQuery::all(Table::Messages).with("held", Test::Present).ordered_by("sent").at_most(Some(page(limit)));
        let (rows, head) = self.store().list(query).await?;
        Ok(At { value: rows.into_iter().filter_map(message_of).collect(), head })
    }

    /// Who is here, in the words of coordination, in the order they joined.
    pub async fn instance_presence(&self) -> Result<Vec<InstancePresence>, EngineError> {
        let now = self.clock().now();
        let presence = |agent: Agent| InstancePresence {
            status: PresenceWord::of(&agent, now),
            last_seen: self.board().get(&agent.id).map_or(agent.seen_at, |seen| seen.last_seen.max(agent.seen_at)),
            agent: agent.id,
        };
        Ok(self.agents().await?.value.into_iter().map(presence).collect())
    }

    /// Marks what an agent is shown, in one fact.
    async fn show(&self, caller: &Caller, agent: &AgentId, pending: &[Pending]) -> Result<(), EngineError> {
        let unseen = pending.iter().filter(|pending| pending.standing == Standing::Queued);
        let unseen = unseen.map(|pending| pending.message.id().clone()).collect();
        self.read(caller, agent, unseen).await?;
        self.shown().saw(agent, pending.iter().map(|pending| &pending.message));
        Ok(())
    }

    async fn read(&self, caller: &Caller, agent: &AgentId, messages: Vec<MessageId>) -> Result<(), EngineError> {
        if !messages.is_empty() {
            self.submit(Request::new(caller.clone(), ReadMessages { agent: agent.clone(), messages })).await?;
        }
        Ok(())
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        agent: &AgentId,
        messages: Vec<MessageId>,
        shown: Shown,
    ) -> Result<(), EngineError> {
        if messages.is_empty() {
            return Ok(());
        }
        let command = AckMessages { agent: agent.clone(), messages: messages.clone(), shown };
        self.submit(Request::new(caller.clone(), command)).await?;
        self.shown().done(agent, &messages);
        Ok(())
    }

    async fn standings(
        &self,
        agent: &AgentId,
        messages: &[MessageId],
    ) -> Result<BTreeMap<MessageId, Standing>, EngineError> {
        let key = |message: &MessageId| Key::Delivery { message: message.clone(), agent: agent.clone() };
        let (rows, _) = self.store().rows(messages.iter().map(key).collect()).await?;
        let deliveries = rows.into_iter().flatten().filter_map(delivery_of);
        Ok(deliveries.map(|delivery| (delivery.message, delivery.standing)).collect())
    }

    /// What is addressed to an agent and what is to everybody, in order.
    async fn pending(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Pending>, EngineError> {
        let mut pending = self.addressed(agent, known, limit, &forms).await?;
        if forms(Form::Coord) {
            pending.extend(self.broadcasts(known, limit).await?);
        }
        pending.sort_by_key(|pending| pending.message.sent);
        pending.truncate(limit as usize);
        Ok(pending)
    }

    async fn addressed(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Pending>, EngineError> {
        let deliveries = self.deliveries(agent, known, limit, forms).await?;
        let keys = deliveries.iter().map(|delivery| Key::Message(delivery.message.clone())).collect();
        let (rows, _) = self.store().rows(keys).await?;
        let now = self.clock().now();
        let pending = deliveries.into_iter().zip(rows).filter_map(|(delivery, row)| {
            Some(Pending { message: row.and_then(message_of)?, standing: delivery.standing })
        });
        Ok(pending.filter(|pending| !has_expired(&pending.message, now)).collect())
    }

    /// The deliveries that an agent has not acknowledged: one range of an index, read until there are enough.
    async fn deliveries(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Delivery>, EngineError> {
        let now = self.clock().now();
        let mut found: Vec<Delivery> = Vec::new();
        let mut after = Seq::ZERO;
        loop {
            let query = ListQuery::all(Table::Deliveries)
                .with("pending", Test::Is(agent.as_str().into()))
                .with("sent", Test::Above(stored(after)))
                .ordered_by("sent")
                .at_most(Some(READ));
            let (rows, _) = self.store().list(query).await?;
            let (full, last) = (rows.len() >= READ as usize, rows.last().cloned().and_then(delivery_of));
            let fits = |delivery: &Delivery| form_of(delivery, known, now).is_some_and(&forms);
            found.extend(rows.into_iter().filter_map(delivery_of).filter(fits));
            match last {
                Some(last) if full && found.len() < limit as usize => after = last.sent,
                _ => break,
            }
        }
        found.truncate(limit as usize);
        Ok(found)
    }

    /// Messages to everybody that an agent has not acknowledged: those since it joined, and a few from before.
    async fn broadcasts(&self, known: Option<&Agent>, limit: u32) -> Result<Vec<Pending>, EngineError> {
        let Some(agent) = known.filter(|agent| !agent.has_left()) else { return Ok(vec![]) };
        let settled = self.shown().settled(&agent.id, agent.joined);
        let mut found = Vec::new();
        if settled < agent.joined {
            let earlier = self.before_it_joined(agent).await?;
            found.extend(self.unsettled(agent, earlier).await?);
        }
        let mut after = settled.max(agent.joined);
        let upto = loop {
            let query = to_everyone().with("sent", Test::Above(stored(after))).at_most(Some(READ));
            let (rows, head) = self.store().list(query).await?;
            let full = rows.len() >= READ as usize;
            let messages: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
            let last = messages.last().map(|message| message.sent);
            found.extend(self.unsettled(agent, messages).await?);
            match last {
                Some(last) if full && found.len() < limit as usize => after = last,
                Some(last) if full => break last,
                _ => break head.head,
            }
        };
        let upto = found.first().map_or(upto, |first| Seq(first.message.sent.0.saturating_sub(1)));
        self.shown().settle(&agent.id, agent.joined, upto);
        found.truncate(limit as usize);
        Ok(found)
    }

    /// Of the messages to everybody before the agent joined, the newest that want to be acknowledged.
    async fn before_it_joined(&self, agent: &Agent) -> Result<Vec<Message>, EngineError> {
        let oldest = Timestamp(agent.joined_at.0.saturating_sub_unsigned(LATE_JOINER_MILLIS));
        let mut found: Vec<Message> = Vec::new();
        let mut upto = stored(agent.joined);
        loop {
            let mut query = to_everyone().with("sent", Test::AtMost(upto)).at_most(Some(READ));
            query.order = Order::Descending;
            let (rows, _) = self.store().list(query).await?;
            let full = rows.len() >= READ as usize;
            let messages: Vec<Message> = rows.into_iter().filter_map(message_of).collect();
            let last = messages.last().map(|message| (message.sent, message.at));
            let wanted =
                messages.into_iter().filter(|message| message.at >= oldest && message.letter.header.requires_ack);
            found.extend(wanted);
            match last {
                Some((sent, at)) if full && at >= oldest && found.len() < LATE_JOINER_MESSAGES => {
                    upto = stored(sent).saturating_sub(1);
                }
                _ => break,
            }
        }
        found.truncate(LATE_JOINER_MESSAGES);
        found.reverse();
        Ok(found)
    }

    /// Those that the agent is not done with.
    async fn unsettled(&self, agent: &Agent, messages: Vec<Message>) -> Result<Vec<Pending>, EngineError> {
        let now = self.clock().now();
        let own = |message: &Message| message.is_broadcast_for(&agent.id) && !has_expired(message, now);
        let messages: Vec<Message> = messages.into_iter().filter(own).collect();
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id().clone()).collect();
        let standings = self.standings(&agent.id, &ids).await?;
        let standing = |message: &Message| standings.get(message.id()).copied().unwrap_or(Standing::Queued);
        let pending = messages.into_iter().map(|message| Pending { standing: standing(&message), message });
        Ok(pending.filter(|pending| pending.standing != Standing::Acked).collect())
    }
}

fn to_everyone() -> ListQuery {
    ListQuery::all(Table::Messages).with("audience", Test::Is("everyone".into())).ordered_by("sent")
}

fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn no_message() -> Refusal {
    Refusal::new(Code::MessageNotFound, "the message was sent, and is not there any more")
}

pub(crate) fn message_of(row: Row) -> Option<Message> {
    if let Row::Message(message) = row { Some(message) } else { None }
}

fn delivery_of(row: Row) -> Option<Delivery> {
    if let Row::Delivery(delivery) = row { Some(delivery) } else { None }
}

fn agent_of(row: Row) -> Option<Agent> {
    if let Row::Agent(agent) = row { Some(agent) } else { None }
}

fn is_to(message: &Message, agent: &AgentId) -> bool {
    matches!(&message.letter.header.to, Recipients::Agents(agents) if agents.contains(agent))
}

fn has_expired(message: &Message, now: Timestamp) -> bool {
    message.expires_at().is_some_and(|expires| expires < now)
}

/// The form of a delivery that still counts. One that waited for its agent counts if the agent joined in time.
fn form_of(delivery: &Delivery, known: Option<&Agent>, now: Timestamp) -> Option<Form> {
    match delivery.to {
        AddressedAs::Recipient { form, .. } => Some(form),
        AddressedAs::Awaited { form, until, .. } => {
            let in_time = known.map_or(now, |agent| agent.joined_at) <= until;
            (in_time || delivery.standing != Standing::Queued).then_some(form)
        }
        AddressedAs::Everyone => None,
    }
}

fn recipients_of(
    message: &Message,
    deliveries: &[Delivery],
    agents: &BTreeMap<AgentId, Agent>,
    now: Timestamp,
) -> Vec<RecipientStatus> {
    use rookery_core::message::Fate;
    let header = &message.letter.header;
    let unreached = match message.fate {
        Fate::Sent => None,
        Fate::Held(_) => Some(Reached::Held),
        Fate::Discarded { .. } => Some(Reached::Discarded),
    };
    let named: Vec<AgentId> = match &header.to {
        Recipients::Agents(named) => {
            let awaited = header.unknown.iter().filter(|_| header.awaits_millis.is_some());
            named.iter().chain(awaited).cloned().collect()
        }
        Recipients::Everyone => {
            let here = agents.values().filter(|agent| !agent.has_left()).map(|agent| agent.id.clone());
            let answered = deliveries.iter().map(|delivery| delivery.agent.clone());
            let mut all: Vec<AgentId> = here.chain(answered).filter(|agent| *agent != header.from).collect();
            all.sort();
            all.dedup();
            all
        }
    };
    let status = |agent: AgentId| {
        let delivery = deliveries.iter().find(|delivery| delivery.agent == agent);
        let reached = unreached.unwrap_or_else(|| reached(message, delivery, agents.get(&agent), now));
        RecipientStatus {
            agent,
            reached,
            notified: 0,
            read_at: delivery.and_then(|delivery| delivery.read_at),
            acked_at: delivery.and_then(|delivery| delivery.acked_at),
        }
    };
    named.into_iter().map(status).collect()
}

fn reached(message: &Message, delivery: Option<&Delivery>, agent: Option<&Agent>, now: Timestamp) -> Reached {
    let standing = delivery.map_or(Standing::Queued, |delivery| delivery.standing);
    match (standing, delivery.map(|delivery| delivery.to)) {
        (Standing::Acked, _) => Reached::Acked,
        (Standing::Read, _) => Reached::Read,
        (Standing::Queued, Some(AddressedAs::Awaited { until, .. })) => match agent.filter(|agent| !agent.has_left()) {
            Some(agent) if agent.joined_at <= until => Reached::Queued,
            None if now <= until => Reached::Awaited { until },
            _ => Reached::Expired,
        },
        (Standing::Queued, _) if has_expired(message, now) => Reached::Expired,
        (Standing::Queued, _) => Reached::Queued,
    }
}
