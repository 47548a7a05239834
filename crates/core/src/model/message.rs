//! Messages: entries of a channel, direct messages and coordination messages, and the state of each delivery.
//!
//! A message is queued by its event, with its recipients resolved; read and acked are events, one per call. A message to everybody
//! is not expanded: it has no delivery of an agent until that agent reads it.

use serde::{Deserialize, Serialize};

use super::{Column, ColumnValue, DeliveryId, Entity, EventStamp, Key, RowWriter};
use crate::kernel::id::{AgentId, MessageId, RunId, Seq, TaskId, ThreadId, Timestamp};
use crate::kernel::instance::Instance;
use crate::kernel::limit;

/// Why a delivery was given up on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dead {
    pub attempts: u32,
    pub error: String,
    pub at: crate::kernel::id::Timestamp,
}

/// How long a message waits for a recipient that nobody knows yet, and how long a message about a session matters.
pub const UNKNOWN_RECIPIENT_TTL_MILLIS: u64 = 24 * 60 * 60 * 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// An entry of the thread's channel, which everybody may read.
    Entry,
    /// For its recipients only.
    Direct,
    /// A coordination message.
    Coord,
    /// A message of the Clutch protocol that says nothing in a channel: it is read in its own words.
    Envelope,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Normal,
    High,
}

/// Whom a message is delivered to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipients {
    Agents(Vec<AgentId>),
    Everyone,
}

/// Everything about a message but its words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    pub message: MessageId,
    pub run: RunId,
    pub thread: ThreadId,
    /// The task that it is about, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub form: Form,
    /// The author by full id.
    pub from: AgentId,
    /// What the author is called inside of the instance.
    pub name: String,
    /// The type of a coordination message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The kind of the event that it announces, which is the one directly before it in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announces: Option<String>,
    /// Agents that the text mentions, the author too if it mentions itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<AgentId>,
    /// Who gets it; the author never does.
    pub to: Recipients,
    /// Whom it names that are no agents of the team.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<AgentId>,
    /// The people that it names or answers, by name. `person` stands for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<String>,
    /// How long it waits for those: delivered if an agent of that id registers until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits_millis: Option<u64>,
    pub requires_ack: bool,
    pub priority: Priority,
    /// Whether recipients are notified of it.
    pub wakes: bool,
    /// After how long it matters to nobody any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_millis: Option<u64>,
    /// The message that led to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<MessageId>,
    /// The message that this one answers, where its author said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// The entry that began the thread of replies which this one is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<MessageId>,
    /// How many messages of agents led to this one without a person in between.
    pub hops: u32,
}

/// A message with its words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Letter {
    #[serde(flatten)]
    pub header: Header,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub text: String,
}

/// Why a message is held for a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Agents have answered each other so often without a person.
    Hops { most: u32 },
    /// The author sends faster than it may.
    Rate { per_minute: u32 },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Sent,
    Held(Hold),
    /// A person decided that nobody gets it.
    Discarded {
        reason: Option<String>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    #[serde(flatten)]
    pub letter: Letter,
    pub fate: Fate,
    /// The fact that queued it for its recipients, or held it.
    pub sent: Seq,
    /// Its time in the thread: later than that of every entry before it.
    pub at: Timestamp,
    /// The authors of replies in its thread, each once: the first [`limit::LIST_ENTRIES`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repliers: Vec<AgentId>,
}

/// Where one recipient stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Queued,
    Read,
    Acked,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Queued => "queued",
            Standing::Read => "read",
            Standing::Acked => "acked",
        }
    }
}

/// The state of a delivery whose message asks for nothing any more.
pub const SUPERSEDED: &str = "superseded";

/// One message and one of its recipients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub message: MessageId,
    pub agent: AgentId,
    pub standing: Standing,
    pub to: AddressedAs,
    /// The place of the message, or where this agent first showed that it knows of one to everybody.
    pub sent: Seq,
    /// When it was queued, or the agent first showed that it knows of it.
    pub queued_at: Timestamp,
    /// The task that the message is about: what is about one task arrives in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub read_at: Option<Timestamp>,
    pub acked_at: Option<Timestamp>,
    /// Given up on, until it is tried again or acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<Dead>,
    /// When what it asks for became somebody else's or nobody's, unless it was acknowledged before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressedAs {
    /// It is one of those named, and was known then.
    Recipient { form: Form, wakes: bool },
    /// It was named and not known: it gets the message if it joins until then.
    Awaited { form: Form, wakes: bool, until: Timestamp },
    /// The message is to everybody.
    Everyone,
}

/// A conversation, for the times of its entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thread {
    pub id: ThreadId,
    pub last_at: Timestamp,
    /// Those since the last archive.
    pub messages: u64,
    /// The time of the newest entry that is shown in an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_until: Option<Timestamp>,
    /// The entries that this conversation shows, if it is the archive of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archives: Option<ArchivedEntries>,
}

/// Entries of a conversation between two times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ArchivedEntries {
    of: ThreadId,
    /// Exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Timestamp>,
    until: Timestamp,
}

impl Thread {
    pub(crate) fn archive(
        id: ThreadId,
        of: ThreadId,
        after: Option<Timestamp>,
        until: Timestamp,
        messages: u64,
    ) -> Thread {
        let archives = Some(ArchivedEntries { of, after, until });
        Thread { id, last_at: until, messages, archived_until: None, archives }
    }

    /// Leaves the entries until now to an archive.
    pub(crate) fn begin_after(&mut self, until: Timestamp) {
        self.messages = 0;
        self.archived_until = Some(until);
    }

    /// The conversation that it is an archive of, if it is one.
    pub fn archive_of(&self) -> Option<&ThreadId> {
        self.archives.as_ref().map(|archived| &archived.of)
    }

    /// The conversation whose entries it shows: those after a time, and until another.
    pub fn entries(&self) -> (ThreadId, Option<Timestamp>, Option<Timestamp>) {
        match &self.archives {
            Some(ArchivedEntries { of, after, until }) => (of.clone(), *after, Some(*until)),
            None => (self.id.clone(), self.archived_until, None),
        }
    }
}

impl Entity for Thread {
    type Id = ThreadId;

    const TABLE: &'static str = "threads";
    const COLUMNS: &'static [Column] = &[];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![]
    }
}

/// What an author may still send.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sender {
    pub id: AgentId,
    /// When all that it sent would have been due, sent evenly at its rate.
    pub due: Timestamp,
    /// Its messages that are held.
    pub held: u32,
}

impl Entity for Sender {
    type Id = AgentId;

    const TABLE: &'static str = "senders";
    const COLUMNS: &'static [Column] = &[];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![]
    }
}

impl Sender {
    /// Changes the row of an author; it begins with the author's first message.
    pub(crate) fn change(rows: &mut RowWriter<'_>, id: &AgentId, change: impl FnOnce(&mut Sender)) {
        rows.replace(id.clone(), |old: Option<Sender>| {
            let mut sender = old.unwrap_or_else(|| Sender { id: id.clone(), due: Timestamp(0), held: 0 });
            change(&mut sender);
            Some(sender)
        });
    }

    pub(crate) fn hold_one(&mut self) {
        self.held = self.held.saturating_add(1);
    }

    pub(crate) fn hold_one_less(&mut self) {
        self.held = self.held.saturating_sub(1);
    }
}

impl Header {
    /// Those that a delivery is opened for.
    fn delivered(&self) -> impl Iterator<Item = &AgentId> {
        let named: &[AgentId] = match &self.to {
            Recipients::Agents(agents) => agents,
            Recipients::Everyone => &[],
        };
        let awaited: &[AgentId] = if self.awaits_millis.is_some() { &self.unknown } else { &[] };
        named.iter().chain(awaited)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let delivery =
            |agent: &AgentId| Key::Delivery(DeliveryId { message: self.message.clone(), agent: agent.clone() });
        let conversation = (!self.is_notification())
            .then(|| [Key::Thread(self.thread.clone()), Key::Sender(self.from.clone())].into_iter());
        let root = self.root.clone().map(Key::Message);
        let own = [Key::Message(self.message.clone())].into_iter().chain(conversation.into_iter().flatten());
        own.chain(root).chain(self.delivered().map(delivery)).collect()
    }

    fn addresses(&self, agent: &AgentId, at: Timestamp) -> Option<AddressedAs> {
        let (form, wakes) = (self.form, self.wakes);
        let named = matches!(&self.to, Recipients::Agents(agents) if agents.contains(agent));
        let awaited = self.awaits_millis.filter(|_| self.unknown.contains(agent));
        match awaited {
            _ if named => Some(AddressedAs::Recipient { form, wakes }),
            Some(millis) => Some(AddressedAs::Awaited { form, wakes, until: at.plus_millis(millis) }),
            None => None,
        }
    }

    /// Enters it into its thread at that time, notes its author in the thread of replies, and opens a delivery for each recipient.
    pub(crate) fn queue(&self, rows: &mut RowWriter<'_>, at: Timestamp, stamp: EventStamp) {
        if !self.is_notification() {
            rows.replace(self.thread.clone(), |old: Option<Thread>| {
                let new =
                    Thread { id: self.thread.clone(), last_at: at, messages: 0, archived_until: None, archives: None };
                let thread = old.unwrap_or(new);
                Some(Thread { last_at: at, messages: thread.messages.saturating_add(1), ..thread })
            });
        }
        if let Some(root) = &self.root {
            rows.update(root.clone(), |message: &mut Message| message.note_replier(&self.from));
        }
        for agent in self.delivered() {
            if let Some(to) = self.addresses(agent, at) {
                let id = DeliveryId { message: self.message.clone(), agent: agent.clone() };
                rows.put(id.clone(), Delivery::open(id, to, self.task.as_ref(), stamp));
            }
        }
    }

    /// The instance whose channel it stands in, if it stands in one's: its run and thread are those of one.
    pub fn instance(&self) -> Option<Instance> {
        Some(Instance::of_thread(&self.thread)).filter(|instance| instance.run() == self.run)
    }

    /// The name of the author for a reader in an instance: `@` and this name reach it.
    pub fn author_for(&self, reader: &Instance) -> String {
        if self.instance().as_ref() == Some(reader) { self.name.clone() } else { reader.calls(&self.from) }
    }

    /// Whether it announces an event and says nothing itself. Such a message counts neither for its thread nor for its author.
    pub fn is_notification(&self) -> bool {
        self.announces.is_some()
    }

    pub fn is_to_everyone(&self) -> bool {
        self.to == Recipients::Everyone
    }
}

impl Entity for Message {
    type Id = MessageId;

    const TABLE: &'static str = "messages";
    const COLUMNS: &'static [Column] = &[
        Column::text("channel"),
        Column::integer("at").unindexed(),
        Column::text("audience"),
        Column::integer("sent").unindexed(),
        Column::text("held"),
    ];

    fn columns(&self) -> Vec<ColumnValue> {
        let header = &self.letter.header;
        let sent = self.fate == Fate::Sent;
        let channel = (sent && header.form == Form::Entry).then(|| header.thread.to_string());
        let audience = (sent && header.is_to_everyone()).then(|| "everyone".to_owned());
        let held = matches!(self.fate, Fate::Held(_)).then(|| header.from.to_string());
        vec![channel.into(), ColumnValue::Integer(self.at.0), audience.into(), self.sent.0.into(), held.into()]
    }

    fn tallies(&self) -> Vec<&'static str> {
        match self.fate {
            _ if self.header().is_notification() => vec![],
            Fate::Held(_) => vec!["messages", "messages.held"],
            Fate::Sent | Fate::Discarded { .. } => vec!["messages"],
        }
    }
}

impl Message {
    pub fn header(&self) -> &Header {
        &self.letter.header
    }

    pub fn id(&self) -> &MessageId {
        &self.header().message
    }

    /// The position of the event that it announces.
    pub fn source(&self) -> Option<Seq> {
        self.header().is_notification().then(|| Seq(self.sent.0.saturating_sub(1)))
    }

    fn note_replier(&mut self, author: &AgentId) {
        if self.repliers.len() < limit::LIST_ENTRIES && !self.repliers.contains(author) {
            self.repliers.push(author.clone());
        }
    }

    /// Whether an agent gets it as one of everybody.
    pub fn is_broadcast_for(&self, agent: &AgentId) -> bool {
        let header = &self.letter.header;
        self.fate == Fate::Sent && header.is_to_everyone() && header.from != *agent
    }

    pub fn expires_at(&self) -> Option<Timestamp> {
        self.letter.header.lasts_millis.map(|millis| self.at.plus_millis(millis))
    }
}

impl Entity for Delivery {
    type Id = DeliveryId;

    const TABLE: &'static str = "deliveries";
    const COLUMNS: &'static [Column] =
        &[Column::text("pending"), Column::integer("sent").unindexed(), Column::text("message"), Column::text("state")];

    fn columns(&self) -> Vec<ColumnValue> {
        let counts = self.to != AddressedAs::Everyone && !self.is_settled();
        let pending = counts.then(|| self.agent.to_string());
        vec![pending.into(), self.sent.0.into(), self.message.as_str().into(), self.state().into()]
    }
}

impl Delivery {
    /// A delivery that begins with an event.
    pub(crate) fn open(id: DeliveryId, to: AddressedAs, task: Option<&TaskId>, stamp: EventStamp) -> Delivery {
        Delivery {
            message: id.message,
            agent: id.agent,
            standing: Standing::Queued,
            to,
            sent: stamp.seq,
            queued_at: stamp.at,
            task: task.cloned(),
            read_at: None,
            acked_at: None,
            dead: None,
            superseded_at: None,
        }
    }

    /// Opens the delivery of an envelope to one of its recipients.
    pub(crate) fn open_envelope(rows: &mut RowWriter<'_>, id: DeliveryId, task: Option<&TaskId>, stamp: EventStamp) {
        let to = AddressedAs::Recipient { form: Form::Envelope, wakes: true };
        rows.put(id.clone(), Delivery::open(id, to, task, stamp));
    }

    /// The delivery of a message to everybody, to an agent of which nothing was known.
    pub(crate) fn open_broadcast(id: DeliveryId, stamp: EventStamp) -> Delivery {
        Delivery::open(id, AddressedAs::Everyone, None, stamp)
    }

    pub fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// Whether nobody waits for it to be acknowledged any more.
    pub fn is_settled(&self) -> bool {
        self.standing == Standing::Acked || self.is_superseded()
    }

    /// Whether what it asks for is somebody else's by now, or nobody's.
    pub fn is_superseded(&self) -> bool {
        self.standing != Standing::Acked && self.superseded_at.is_some()
    }

    /// Where it stands, in one word.
    pub fn state(&self) -> &'static str {
        match self {
            _ if self.is_superseded() => SUPERSEDED,
            _ if self.is_dead() => "dead",
            _ => self.standing.as_str(),
        }
    }

    pub(crate) fn supersede(self, at: Timestamp) -> Delivery {
        if self.is_settled() { self } else { Delivery { dead: None, superseded_at: Some(at), ..self } }
    }

    pub(crate) fn moved(&mut self, to: Standing, at: Timestamp) {
        self.read_at = self.read_at.or(Some(at));
        if to == Standing::Acked {
            self.acked_at = self.acked_at.or(Some(at));
            self.dead = None;
        }
        self.standing = self.standing.max(to);
    }
}
