//! Sending a message: its recipients are resolved here and stay in the fact, and a storm is held.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::mention::is_urgent;
use super::mentions;
use super::recipients::{Named, Replies, is_present};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, RunId, TaskId, ThreadId, Timestamp};
use crate::kernel::instance::{Instance, namesake, standalone_of};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::addressee::Address;
use crate::model::context_settings::keys as context_keys;
use crate::model::message::{
    Fate, Form, Header, Hold, Letter, Message, Priority, Recipients, Sender, UNKNOWN_RECIPIENT_TTL_MILLIS,
};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendMessage {
    pub id: MessageId,
    pub run: RunId,
    pub thread: ThreadId,
    pub from: AgentId,
    pub what: What,
    pub text: String,
    pub cause: Cause,
    /// People that it names, as far as the daemon knows them by their credentials. Those who have written are known by the log.
    pub people: Vec<String>,
    pub guard: StormGuard,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// For everybody to read in the thread's channel. Whoever is mentioned is told.
    Entry,
    /// As an entry that nobody is told of, whomever its text names.
    Notice,
    /// As an entry that these are told of and nobody else, whomever its text names.
    EntryFor { mentions: Vec<AgentId> },
    /// As an entry, and these are told besides those that the text mentions.
    Chat { to: Vec<AgentId>, mentions: Vec<AgentId>, tone: Tone, about: TaskId },
    /// For these agents only.
    Direct { to: Vec<AgentId> },
    /// A coordination message, pending until each recipient acknowledges it.
    Coord { topic: String, subject: String, to: Addressees, ack: Ack },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Wakes whom it is to.
    Speech,
    /// Is there to be read, and wakes nobody.
    Notice,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addressees {
    Everyone,
    Agents(Vec<AgentId>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// Required, unless the message is about a session.
    ByTopic,
    Required,
    NotRequired,
}

/// The message that led to this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    Nothing,
    /// The author says what it answers.
    ReplyTo(MessageId),
    /// The newest message that its author was shown in the thread.
    Shown(MessageId),
}

/// What one author may send, and how long a chain of messages may get without a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StormGuard {
    /// As many may come at once.
    pub per_minute: u32,
    pub hops: u32,
}

impl Default for StormGuard {
    fn default() -> StormGuard {
        StormGuard { per_minute: limit::MESSAGES_PER_MINUTE, hops: limit::MESSAGE_HOPS }
    }
}

/// A message is queued for its recipients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageSent {
    #[serde(flatten)]
    pub letter: Letter,
    /// Its time in the thread.
    pub at: Timestamp,
    /// When all that its author sent would have been due, sent evenly at its rate. Notifications do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

impl Event for MessageSent {
    const KIND: &'static str = "message.sent";

    fn subject(&self) -> Subject<'_> {
        let header = &self.letter.header;
        // Other messages name a task without being about its state: a notification belongs to the task like its event.
        let task = header.task.as_ref().filter(|_| header.is_notification());
        Subject { run: Some(&header.run), thread: Some(&header.thread), task, ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        self.letter.header.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let header = &self.letter.header;
        let message =
            Message { letter: self.letter.clone(), fate: Fate::Sent, sent: stamp.seq, at: self.at, repliers: vec![] };
        rows.put(header.message.clone(), message);
        if let Some(due) = self.due {
            Sender::change(rows, &header.from, |sender| sender.due = due);
        }
        header.queue(rows, self.at, stamp);
    }
}

/// A message is kept back until a person has looked at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageHeld {
    #[serde(flatten)]
    pub letter: Letter,
    pub because: Hold,
}

impl Event for MessageHeld {
    const KIND: &'static str = "message.held";

    fn subject(&self) -> Subject<'_> {
        let header = &self.letter.header;
        Subject { run: Some(&header.run), thread: Some(&header.thread), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        let header = &self.letter.header;
        vec![Key::Message(header.message.clone()), Key::Sender(header.from.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let header = &self.letter.header;
        let fate = Fate::Held(self.because);
        let message = Message { letter: self.letter.clone(), fate, sent: stamp.seq, at: stamp.at, repliers: vec![] };
        rows.put(header.message.clone(), message);
        Sender::change(rows, &header.from, Sender::hold_one);
    }
}

impl Command for SendMessage {
    const NAME: &'static str = "SendMessage";

    type Reply = Message;

    fn read_set(&self) -> ReadSet {
        let own = [
            Key::Message(self.id.clone()),
            Key::Envelope(self.id.clone()),
            Key::Thread(self.thread.clone()),
            Key::Sender(self.from.clone()),
            Key::Agent(self.from.clone()),
            Key::lead(),
        ];
        let cause = self.cause.message().map(|cause| Key::Message(cause.clone()));
        let names = self.names();
        let standalone: Vec<AgentId> = names.iter().filter_map(standalone_of).chain(namesake(&self.from)).collect();
        let named = names.into_iter().chain(standalone).map(Key::Agent);
        let context = context_keys(&self.instance());
        own.into_iter().chain(cause).chain(named).chain(context).map(ReadItem::from).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Message>, Undecided> {
        self.check()?;
        cx.view.ensure_may_author_as(cx.caller, &self.from)?;
        if self.is_of_context(cx.caller) {
            cx.view.needs_context(&self.instance())?;
        }
        let reply = ReplySource::row(self.id.clone());
        if let Some(known) = cx.view.find_message(&self.id)? {
            if known.letter.header.from == self.from && known.letter.text == self.text {
                return Ok(Decision::unchanged(reply));
            }
            return Err(self.is_another().into());
        }
        if cx.view.envelope(&self.id)?.is_some() {
            return Err(self.is_another().into());
        }
        if cx.view.thread(&self.thread)?.is_some_and(|thread| thread.archive_of().is_some()) {
            return Err(self.is_to_archive().into());
        }
        let letter = self.letter(cx.view)?;
        let fact = match self.held(cx.view, &letter.header, cx.now)? {
            Some(because) => AnyEvent::new(MessageHeld { letter, because }),
            None => AnyEvent::new(MessageSent {
                at: cx.view.entry_time(&self.thread, cx.now)?,
                due: Some(self.due(cx.view, cx.now)?.plus_millis(self.interval_millis())),
                letter,
            }),
        };
        Ok(Decision::new(vec![fact], reply))
    }

    fn queued_bytes(&self) -> usize {
        self.text.len()
    }
}

impl SendMessage {
    fn instance(&self) -> Instance {
        Instance::of_thread(&self.thread)
    }

    /// Where names in the text are understood. Threads of the Clutch protocol are nobody's: there it is where the author is.
    fn here(&self) -> Instance {
        match &self.what {
            What::Chat { .. } => Instance::of(&self.from),
            What::Entry | What::Notice | What::EntryFor { .. } | What::Direct { .. } | What::Coord { .. } => {
                self.instance()
            }
        }
    }

    /// The name of the author for those who read it: in the instance whose channel it is, if it is one's. `@` and this name reach it,
    /// also where a member of the instance has the name of a standalone agent.
    fn name(&self, view: &View) -> Result<String, Undecided> {
        let own = matches!(self.what, What::Chat { .. }) && self.instance().run() != self.run;
        let reader = if own { self.here() } else { self.instance() };
        if let Some(member) = namesake(&self.from).filter(|_| reader == Instance::default())
            && is_present(view, &member)?
        {
            return Ok(Address::Agent(self.from.clone()).to_string());
        }
        Ok(reader.calls(&self.from))
    }

    /// Whether it needs a context. A person can write to an agent alone wherever that is: it is how one reaches an agent that has
    /// nobody to talk to.
    fn is_of_context(&self, caller: &Caller) -> bool {
        let by_person = matches!(&caller.actor, Actor::Person(_)) && caller.actor.to_string() == self.from.as_str();
        match self.what {
            What::Entry | What::Notice | What::EntryFor { .. } => true,
            What::Direct { .. } => !by_person,
            What::Chat { .. } | What::Coord { .. } => false,
        }
    }

    fn is_another(&self) -> Rejection {
        Rejection::new(Code::AlreadyExists, format!("message '{}' exists and is another one", self.id))
    }

    fn is_to_archive(&self) -> Rejection {
        Rejection::new(Code::InvalidState, format!("'{}' is the archive of an earlier run", self.instance()))
            .hint("write to the channel of the instance that was archived")
    }

    fn check(&self) -> Result<(), Rejection> {
        limit::name("message id", self.id.as_str(), limit::MESSAGE_ID_BYTES)?;
        limit::name("run", self.run.as_str(), limit::NAME_BYTES)?;
        limit::name("thread", self.thread.as_str(), limit::NAME_BYTES)?;
        limit::name("from", self.from.as_str(), limit::AGENT_ID_BYTES)?;
        limit::text("message", &self.text, limit::TEXT_BYTES)?;
        limit::list("recipients", &self.names())?;
        match &self.what {
            What::Entry | What::Notice | What::EntryFor { .. } | What::Chat { .. } | What::Direct { .. }
                if self.text.trim().is_empty() =>
            {
                Err(Rejection::new(Code::Invalid, "message must not be empty"))
            }
            What::Entry | What::Notice | What::Chat { .. } => Ok(()),
            What::EntryFor { mentions } => mentions.iter().try_for_each(check_id),
            What::Direct { to } => check_ids(to),
            What::Coord { topic, subject, to, .. } => {
                check_topic(topic)?;
                if subject.trim().is_empty() {
                    return Err(Rejection::new(Code::Invalid, "subject must not be empty"));
                }
                limit::text("subject", subject, limit::TITLE_BYTES)?;
                match to {
                    Addressees::Everyone => Ok(()),
                    Addressees::Agents(_) if is_about_session(topic) => {
                        Err(Rejection::new(Code::Invalid, format!("{topic} is a message to all")).hint("give 'all'"))
                    }
                    Addressees::Agents(to) => check_ids(to),
                }
            }
        }
    }

    /// Everybody that the message names, whether they are agents or not.
    pub fn names(&self) -> Vec<AgentId> {
        let named = match &self.what {
            What::Entry => return self.mentioned(),
            What::Chat { to, .. } => &[to.clone(), self.mentioned()].concat(),
            What::EntryFor { mentions: to } | What::Direct { to } | What::Coord { to: Addressees::Agents(to), .. } => {
                to
            }
            What::Notice | What::Coord { to: Addressees::Everyone, .. } => return vec![],
        };
        let mut seen = BTreeSet::new();
        let new = named.iter().filter(|name| seen.insert((*name).clone())).cloned();
        // One too many is enough to be refused.
        new.take(limit::LIST_ENTRIES + 1).collect()
    }

    /// Everybody that it mentions, in its text or otherwise.
    fn mentioned(&self) -> Vec<AgentId> {
        let mut mentioned = mentions(&self.text, &self.here());
        if let What::Chat { mentions, .. } = &self.what {
            let others = mentions.iter().filter(|agent| !mentioned.contains(agent)).cloned().collect::<Vec<_>>();
            mentioned.extend(others);
        }
        mentioned
    }

    fn letter(&self, view: &View) -> Result<Letter, Undecided> {
        let mut named = self.resolve(view)?;
        let mentioned = named.known.clone();
        let Replies { root, authors } = self.replies(view)?;
        self.add_repliers(view, &mut named, &authors)?;
        let Named { known, people, unknown } = named;
        let mentions: Vec<AgentId> = match &self.what {
            What::Entry | What::EntryFor { .. } => mentioned,
            What::Chat { .. } => {
                let mut found = Vec::new();
                for name in self.mentioned() {
                    found.extend(
                        self.present(view, &name)?.filter(|agent| known.contains(agent) && !found.contains(agent)),
                    );
                }
                found
            }
            What::Notice | What::Direct { .. } | What::Coord { .. } => vec![],
        };
        let notice = matches!(self.what, What::Chat { tone: Tone::Notice, .. });
        let others: Vec<AgentId> = known.into_iter().filter(|agent| *agent != self.from).collect();
        let (cause, hops) = self.chain(view)?;
        let (form, topic, subject) = match &self.what {
            What::Entry | What::Notice | What::EntryFor { .. } | What::Chat { .. } => (Form::Entry, None, None),
            What::Direct { .. } => (Form::Direct, None, None),
            What::Coord { topic, subject, .. } => (Form::Coord, Some(topic.clone()), Some(subject.clone())),
        };
        let session = topic.as_deref().is_some_and(is_about_session);
        let to = match &self.what {
            What::Coord { to: Addressees::Everyone, .. } => Recipients::Everyone,
            _ => Recipients::Agents(others),
        };
        let reaches = to != Recipients::Agents(vec![]);
        let waits = form == Form::Coord && !unknown.is_empty();
        if form != Form::Entry && !reaches && !waits {
            return Err(self.reaches_nobody(&unknown).into());
        }
        let urgent = is_urgent(&self.text) || subject.as_deref().is_some_and(is_urgent);
        let header = Header {
            message: self.id.clone(),
            run: self.run.clone(),
            thread: self.thread.clone(),
            task: self.about().cloned(),
            form,
            name: self.name(view)?,
            from: self.from.clone(),
            topic,
            announces: None,
            priority: if urgent || mentions.len() > 1 { Priority::High } else { Priority::Normal },
            mentions,
            to,
            awaits_millis: waits.then_some(UNKNOWN_RECIPIENT_TTL_MILLIS),
            unknown,
            people,
            requires_ack: self.requires_ack(session),
            wakes: (reaches || waits) && !session && !notice,
            lasts_millis: session.then_some(UNKNOWN_RECIPIENT_TTL_MILLIS),
            cause,
            reply_to: self.cause.answered().cloned(),
            root,
            hops,
        };
        Ok(Letter { header, subject, text: self.text.clone() })
    }

    fn about(&self) -> Option<&TaskId> {
        if let What::Chat { about, .. } = &self.what { Some(about) } else { None }
    }

    fn requires_ack(&self, session: bool) -> bool {
        match &self.what {
            What::Entry | What::Notice | What::EntryFor { .. } | What::Chat { .. } | What::Direct { .. } => true,
            What::Coord { ack: Ack::NotRequired, .. } => false,
            // Whatever was asked for: nobody waits for these.
            What::Coord { .. } => !session,
        }
    }

    fn reaches_nobody(&self, unknown: &[AgentId]) -> Rejection {
        match unknown.first() {
            Some(first) => Rejection::new(Code::AgentNotFound, format!("no agent '{first}' is on the team"))
                .hint("ask who is here, or write to the channel"),
            None => Rejection::new(Code::Invalid, "the message is to nobody but its author")
                .hint("name other agents in 'to'"),
        }
    }

    /// What led to this message, and how long the chain is by now. What people and the system say begins a new one.
    fn chain(&self, view: &View) -> Result<(Option<MessageId>, u32), Undecided> {
        let Some(id) = self.cause.message() else { return Ok((None, 0)) };
        let hops = match (view.find_message(id)?, &self.cause) {
            (Some(cause), _) => cause.header().hops.saturating_add(1),
            (None, Cause::ReplyTo(_)) => {
                return Err(
                    Rejection::new(Code::UnknownReference, format!("there is no message '{id}' to reply to")).into()
                );
            }
            (None, _) => return Ok((None, 0)),
        };
        let by_agent = matches!(Actor::parse(self.from.as_str()), Actor::Agent(_));
        Ok((Some(id.clone()), if by_agent { hops } else { 0 }))
    }

    /// Whether the message goes to a person first. A long chain that wakes nobody is no storm.
    fn held(&self, view: &View, header: &Header, now: Timestamp) -> Result<Option<Hold>, Undecided> {
        if self.from.as_str() == Actor::System.to_string() {
            return Ok(None);
        }
        let ahead = now.plus_millis(BURST_MILLIS.saturating_sub(self.interval_millis()));
        let rushed = self.due(view, now)? > ahead;
        let hold = match self.guard {
            guard if header.wakes && header.hops > guard.hops => Hold::Hops { most: guard.hops },
            guard if rushed => Hold::Rate { per_minute: guard.per_minute },
            _ => return Ok(None),
        };
        if view.sender(&self.from)?.is_some_and(|sender| sender.held >= limit::HELD_PER_SENDER) {
            return Err(Rejection::new(
                Code::RateLimited,
                format!("{} messages of '{}' are held for a person already", limit::HELD_PER_SENDER, self.from),
            )
            .hint("stop sending; a person has to release or discard them first")
            .into());
        }
        Ok(Some(hold))
    }

    /// When all that the author sent before would have been due, but never in the past. Nobody gets further ahead than a
    /// burst: if it seems to be far more, the clock went back, which is not its fault.
    fn due(&self, view: &View, now: Timestamp) -> Result<Timestamp, Undecided> {
        let due = view.sender(&self.from)?.map(|sender| sender.due);
        let sound = due.filter(|due| *due <= now.plus_millis(2 * BURST_MILLIS));
        Ok(sound.map_or(now, |due| due.max(now)))
    }

    fn interval_millis(&self) -> u64 {
        (BURST_MILLIS / u64::from(self.guard.per_minute.max(1))).max(1)
    }
}

/// The time that a rate and its burst are counted over.
const BURST_MILLIS: u64 = 60_000;

impl Cause {
    fn message(&self) -> Option<&MessageId> {
        match self {
            Cause::Nothing => None,
            Cause::ReplyTo(message) | Cause::Shown(message) => Some(message),
        }
    }

    /// What the author says it answers; what it was merely shown before is no answer to that.
    pub(super) fn answered(&self) -> Option<&MessageId> {
        match self {
            Cause::ReplyTo(message) => Some(message),
            Cause::Nothing | Cause::Shown(_) => None,
        }
    }
}

/// Messages that tell of sessions are of interest for a day, and wake nobody.
fn is_about_session(topic: &str) -> bool {
    matches!(topic, "SESSION_START" | "SESSION_END")
}

fn check_topic(topic: &str) -> Result<(), Rejection> {
    limit::text("type", topic, limit::NAME_BYTES)?;
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if topic.starts_with(|c: char| c.is_ascii_uppercase()) && topic.chars().all(fits) {
        return Ok(());
    }
    Err(Rejection::new(Code::Invalid, format!("type '{topic}' is not upper-case words"))
        .hint("for example GENERAL, BLOCKING_ISSUE or STATUS_UPDATE"))
}

fn check_ids(ids: &[AgentId]) -> Result<(), Rejection> {
    if ids.is_empty() {
        return Err(Rejection::new(Code::Invalid, "to must name somebody").hint("agent ids, or 'all'"));
    }
    ids.iter().try_for_each(check_id)
}

fn check_id(id: &AgentId) -> Result<(), Rejection> {
    limit::name("to", id.as_str(), limit::AGENT_ID_BYTES)
}

/// What several new posts to one thread come to, in order: each is later than the one before.
pub(crate) fn posted(cx: &DecisionContext<'_>, posts: &[SendMessage]) -> Result<Vec<AnyEvent>, Undecided> {
    let mut facts = Vec::new();
    let mut before: Option<(Timestamp, Option<Timestamp>)> = None;
    for (place, post) in posts.iter().enumerate() {
        let decided = post.decide(cx)?.events;
        if decided.is_empty() || posts[..place].iter().any(|other| other.id == post.id) {
            return Err(post.is_another().into());
        }
        for event in decided {
            let Some(mut sent) = event.get::<MessageSent>().cloned() else {
                facts.push(event);
                continue;
            };
            if let Some((at, due)) = before {
                sent.at = sent.at.max(at.plus_millis(1));
                sent.due = sent.due.max(due.map(|due| due.plus_millis(post.interval_millis())));
            }
            before = Some((sent.at, sent.due));
            facts.push(AnyEvent::new(sent));
        }
    }
    Ok(facts)
}

impl View {
    /// The time of the next entry in a thread: now, or just after the last one.
    pub(super) fn entry_time(&self, thread: &ThreadId, now: Timestamp) -> Result<Timestamp, Undecided> {
        Ok(self.thread(thread)?.map_or(now, |thread| now.max(thread.last_at.plus_millis(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::model::Entity;
    use crate::model::agent::AgentRole;
    use crate::model::message::{Fate, Standing};
    use crate::testing::{World, acks, anna, by, coord, direct, entry, with_token};

    fn header<'a>(w: &'a World, id: &str) -> &'a Header {
        &w.message(id).letter.header
    }

    fn names(ids: &[AgentId]) -> Vec<&str> {
        ids.iter().map(AgentId::as_str).collect()
    }

    #[test]
    fn whoever_is_mentioned_gets_the_entry_and_nobody_else() {
        let mut w = World::of(&["reviewer", "coder", "tester"]);
        assert_eq!(w.does(&by("reviewer"), entry("m", "reviewer", "@coder fix it, @ghost too")), ["message.sent"]);
        assert_eq!(w.standing("m", "coder"), Some(Standing::Queued));
        assert_eq!((w.standing("m", "tester"), w.standing("m", "ghost")), (None, None));
        assert_eq!((w.pending("coder"), w.pending("tester")), (vec!["m"], vec![]));
        let header = header(&w, "m");
        assert_eq!((names(&header.mentions), names(&header.unknown)), (vec!["coder"], vec!["ghost"]));
        assert!(header.wakes && header.requires_ack && header.awaits_millis.is_none());
    }

    #[test]
    fn mention_of_person_is_kept_apart_from_unknown_names() {
        let mut w = World::of(&["coder@pr-1", "reviewer"]);
        let text = "@Anna, @local, @person: look. @ghost too";
        let known = SendMessage { people: vec!["anna".to_owned()], ..entry("m", "coder@pr-1", text) };
        assert_eq!(w.does(&by("coder@pr-1"), known), ["message.sent"]);
        let header = header(&w, "m");
        assert_eq!(
            (&header.people[..], names(&header.unknown)),
            (&["anna", "local", "person"].map(String::from)[..], vec!["ghost@pr-1"])
        );
        assert!(!header.wakes && header.mentions.is_empty(), "no agent is notified");
    }

    #[test]
    fn person_who_has_written_is_known_without_a_credential() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), entry("m", "a", "@anna?"));
        assert_eq!((header(&w, "m").people.len(), names(&header(&w, "m").unknown)), (0, vec!["anna"]));
        w.does(&anna(), entry("n", "person:anna", "here"));
        w.does(&by("a"), entry("o", "a", "@anna?"));
        assert_eq!((&header(&w, "o").people[..], header(&w, "o").unknown.len()), (&["anna".to_owned()][..], 0));
    }

    fn reply(id: &str, from: &str, to: &str, text: &str) -> SendMessage {
        SendMessage { cause: Cause::ReplyTo(to.into()), ..entry(id, from, text) }
    }

    #[test]
    fn reply_notifies_everyone_who_wrote_in_the_thread_but_its_author() {
        let mut w = World::of(&["a", "b", "c", "d"]);
        w.does(&by("a"), entry("m", "a", "which database?"));
        w.does(&by("b"), reply("r1", "b", "m", "PostgreSQL"));
        assert_eq!((w.pending("a"), w.pending("b")), (vec!["r1"], vec![]));
        w.does(&anna(), reply("r2", "person:anna", "r1", "agreed"));
        w.does(&by("c"), reply("r3", "c", "m", "@d can you set it up?"));
        let last = header(&w, "r3");
        assert_eq!(last.to, Recipients::Agents(vec!["d".into(), "a".into(), "b".into()]));
        assert_eq!(
            (names(&last.mentions), &last.people[..], last.priority),
            (vec!["d"], &["anna".to_owned()][..], Priority::Normal)
        );
        assert_eq!((last.root.clone(), w.message("m").repliers.len()), (Some("m".into()), 3));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn reply_notifies_no_agent_that_has_left_and_none_for_a_notice() {
        let mut w = World::of(&["a", "b", "c"]);
        w.does(&by("a"), entry("m", "a", "which database?"));
        w.does(&by("b"), reply("r1", "b", "m", "PostgreSQL"));
        w.does(&by("b"), LeaveTeam { agent: "b".into() });
        w.does(&by("c"), SendMessage { what: What::Notice, ..reply("r2", "c", "m", "noted") });
        assert_eq!(header(&w, "r2").to, Recipients::Agents(vec![]));
        w.does(&by("c"), reply("r3", "c", "r1", "and the version?"));
        assert_eq!(header(&w, "r3").to, Recipients::Agents(vec!["a".into()]));
    }

    #[test]
    fn names_belong_to_an_instance() {
        let mut w = World::of(&["coder", "coder@pr-1", "reviewer@pr-1", "boss@pr-2"]);
        let text = "@coder and @coder@default and @boss@pr-2 and @boss";
        w.does(&by("reviewer@pr-1"), entry("m", "reviewer@pr-1", text));
        let header = header(&w, "m");
        assert_eq!(names(&header.mentions), ["coder@pr-1", "coder", "boss@pr-2"]);
        assert_eq!(names(&header.unknown), ["boss@pr-1"]);
        assert_eq!(
            (header.name.as_str(), header.thread.as_str(), header.run.as_str()),
            ("reviewer", "thr_pr-1", "run_pr-1")
        );
        w.does(&by("boss@pr-2"), SendMessage { thread: "thr_pr-1".into(), ..entry("n", "boss@pr-2", "hello") });
        assert_eq!(w.message("n").letter.header.name, "boss@pr-2");
    }

    #[test]
    fn mention_in_default_reaches_member_before_standalone_agent() {
        let mut w = World::of(&["coder", "reviewer@default"]);
        w.does(&by("reviewer@default"), entry("m1", "reviewer@default", "@coder"));
        assert_eq!((w.pending("coder"), header(&w, "m1").name.as_str()), (vec!["m1"], "reviewer"));
        w.does(&by("coder"), entry("m2", "coder", "@reviewer"));
        assert_eq!((w.pending("reviewer@default"), header(&w, "m2").name.as_str()), (vec!["m2"], "coder"));
        w.joins("coder@default", AgentRole::Worker);
        w.does(&by("reviewer@default"), entry("m3", "reviewer@default", "@coder, @coder@default"));
        w.does(&by("reviewer@default"), direct("m4", "reviewer@default", &["coder@default"]));
        assert_eq!((w.pending("coder"), w.pending("coder@default")), (vec!["m1"], vec!["m3", "m4"]));
        w.does(&by("coder"), entry("m5", "coder", "both of us"));
        w.does(&by("coder@default"), entry("m6", "coder@default", "are here"));
        let name = |id| header(&w, id).name.clone();
        assert_eq!((name("m5"), name("m6")), ("agent:coder".to_owned(), "coder".to_owned()));
        w.does(&by("reviewer@default"), entry("m7", "reviewer@default", "@agent:coder too"));
        w.does(&by("reviewer@default"), coord("m8", "reviewer@default", "GENERAL", &["coder"]));
        assert_eq!((w.pending("coder"), w.pending("coder@default").len()), (vec!["m1", "m7", "m8"], 2));
        w.does(&by("coder@default"), LeaveTeam { agent: "coder@default".into() });
        w.does(&by("reviewer@default"), entry("m9", "reviewer@default", "@coder"));
        assert_eq!(w.pending("coder"), ["m1", "m7", "m8", "m9"]);
    }

    #[test]
    fn mentioning_oneself_notifies_nobody() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), entry("m", "a", "as I, @a, said"));
        assert_eq!((names(&header(&w, "m").mentions), w.pending("a")), (vec!["a"], vec![]));
        assert!(!header(&w, "m").wakes);
        assert_eq!(w.refuses(&by("a"), direct("n", "a", &["a", "a@default"])), Code::Invalid);
    }

    #[test]
    fn more_than_one_mention_or_an_urgent_word_is_high_priority() {
        let mut w = World::of(&["a", "b", "c"]);
        for (at, (text, priority)) in [
            ("@b please", Priority::Normal),
            ("@b @b please", Priority::Normal),
            ("@b @ghost", Priority::Normal),
            ("@b and @c", Priority::High),
            ("I am BLOCKED", Priority::High),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("m{at}");
            w.does(&by("a"), entry(&id, "a", text));
            assert_eq!(header(&w, &id).priority, priority, "{text}");
        }
        let mut urgent = coord("u", "a", "GENERAL", &["b"]);
        if let What::Coord { subject, .. } = &mut urgent.what {
            *subject = "urgent: the build".to_owned();
        }
        w.does(&by("a"), urgent);
        assert_eq!(header(&w, "u").priority, Priority::High);
    }

    #[test]
    fn a_direct_message_is_for_its_recipients_and_must_reach_one() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), direct("m", "a", &["b", "ghost", "b@default"]));
        assert_eq!((w.pending("b"), names(&header(&w, "m").unknown)), (vec!["m"], vec!["ghost"]));
        assert_eq!(w.message("m").columns()[0], crate::model::ColumnValue::Null, "no channel shows it");
        assert_eq!(w.refuses(&by("a"), direct("n", "a", &["ghost"])), Code::AgentNotFound);
        assert_eq!(w.refuses(&by("a"), direct("n", "a", &[])), Code::Invalid);
    }

    #[test]
    fn a_coordination_message_waits_a_day_for_whom_nobody_knows() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("b"), LeaveTeam { agent: "b".into() });
        w.does(&by("a"), coord("m", "a", "BLOCKING_ISSUE", &["b", "ghost"]));
        assert_eq!(names(&header(&w, "m").unknown), ["b", "ghost"]);
        w.joins("ghost", AgentRole::Worker);
        assert_eq!((w.pending("ghost"), w.pending("b")), (vec!["m"], vec!["m"]));
        w.reads("ghost", &["m"]);
        w.acks("ghost", &["m"]);
        assert_eq!(w.pending("ghost"), [""; 0]);
    }

    #[test]
    fn a_message_to_everybody_is_not_expanded() {
        let mut w = World::of(&["a", "b", "c"]);
        w.does(&by("a"), coord("m", "a", "STATUS_UPDATE", &[]));
        assert!(header(&w, "m").is_to_everyone() && header(&w, "m").requires_ack);
        assert_eq!((w.standing("m", "b"), w.pending("b")), (None, vec![]));
        assert!(w.message("m").is_broadcast_for(&"b".into()) && !w.message("m").is_broadcast_for(&"a".into()));
        w.reads("b", &["m"]);
        w.acks("b", &["m"]);
        assert_eq!((w.standing("m", "b"), w.standing("m", "c")), (Some(Standing::Acked), None));
        assert_eq!(w.refuses(&by("a"), acks("a", &["m"])), Code::MessageNotFound, "it is no news to its author");
    }

    #[test]
    fn sessions_that_begin_and_end_wake_nobody_and_pass() {
        let mut w = World::of(&["a", "b"]);
        for topic in ["SESSION_START", "SESSION_END"] {
            let mut session = coord(topic, "a", topic, &[]);
            if let What::Coord { ack, .. } = &mut session.what {
                *ack = Ack::Required;
            }
            w.does(&by("a"), session);
            let message = w.message(topic);
            assert!(!message.letter.header.requires_ack && !message.letter.header.wakes);
            assert_eq!(message.expires_at(), Some(message.at.plus_millis(UNKNOWN_RECIPIENT_TTL_MILLIS)));
        }
        let mut quiet = coord("q", "a", "GENERAL", &[]);
        if let What::Coord { ack, .. } = &mut quiet.what {
            *ack = Ack::NotRequired;
        }
        w.does(&by("a"), quiet);
        assert!(!header(&w, "q").requires_ack && header(&w, "q").wakes && w.message("q").expires_at().is_none());
    }

    #[test]
    fn times_of_entries_strictly_increase_also_when_the_clock_goes_back() {
        let mut w = World::of(&["a"]);
        w.now = 5_000;
        w.does(&by("a"), entry("m1", "a", "one"));
        w.now = 1_000;
        w.does(&by("a"), entry("m2", "a", "two"));
        w.does(&by("a"), SendMessage { thread: "thr_x".into(), ..entry("m3", "a", "elsewhere") });
        w.does(&by("a"), coord("m4", "a", "GENERAL", &[]));
        let at = |id| w.message(id).at.0;
        assert_eq!((at("m1"), at("m2"), at("m3"), at("m4")), (5_001, 5_002, 1_002, 5_003));
    }

    /// Two agents answer each other; how many messages pass.
    fn ping_pong(w: &mut World, first: Cause, text: &str, prefix: &str) -> usize {
        let mut cause = first;
        for at in 0..100 {
            let (from, to) = if at % 2 == 0 { ("a", "b") } else { ("b", "a") };
            let id = format!("{prefix}{at}");
            let facts = w.does(&by(from), SendMessage { cause, ..entry(&id, from, &format!("@{to} {text}")) });
            if facts == ["message.held"] {
                return at;
            }
            cause = Cause::Shown(id.as_str().into());
        }
        panic!("nobody stopped it");
    }

    #[test]
    fn a_chain_of_agents_is_held_and_a_person_begins_a_new_one() {
        let mut w = World::of(&["a", "b"]);
        assert_eq!(ping_pong(&mut w, Cause::Nothing, "again", "m"), 21, "the first has no hop behind it");
        assert_eq!(w.message("m21").fate, Fate::Held(Hold::Hops { most: 20 }));
        assert_eq!((w.standing("m21", "a"), w.message("m21").letter.header.hops), (None, 21));
        let cause = Cause::Shown("m20".into());
        w.does(&by("b"), SendMessage { cause: cause.clone(), ..entry("n", "b", "I tell nobody in particular") });
        assert_eq!(w.message("n").fate, Fate::Sent, "what wakes nobody is no storm");
        w.does(&anna(), SendMessage { cause, ..entry("p", "person:anna", "@a @b go on") });
        assert_eq!((header(&w, "p").hops, header(&w, "p").cause.as_ref().unwrap().as_str()), (0, "m20"));
        assert_eq!(ping_pong(&mut w, Cause::ReplyTo("p".into()), "again", "o"), 20);
    }

    #[test]
    fn what_it_answers_must_be_there_and_what_was_shown_may_be_gone() {
        let mut w = World::of(&["a"]);
        let cause = Cause::ReplyTo("nothing".into());
        assert_eq!(w.refuses(&by("a"), SendMessage { cause, ..entry("m", "a", "hm") }), Code::UnknownReference);
        w.does(&by("a"), SendMessage { cause: Cause::Shown("nothing".into()), ..entry("m", "a", "hm") });
        assert_eq!((header(&w, "m").cause.as_ref(), header(&w, "m").hops), (None, 0));
    }

    #[test]
    fn a_sender_beyond_its_rate_is_held_and_then_refused() {
        let mut w = World::of(&["a", "b"]);
        let guard = StormGuard { per_minute: 60, hops: 20 };
        let sends = |w: &mut World, at: usize| {
            let message = SendMessage { guard, ..entry(&format!("m{at}"), "a", "x") };
            w.run(&by("a"), message).map(|(facts, _)| facts[0].kind())
        };
        let sent = (0..60).filter(|at| sends(&mut w, *at) == Ok("message.sent")).count();
        assert_eq!(sent, 60, "a whole minute's worth may come at once");
        assert_eq!(sends(&mut w, 60), Ok("message.held"));
        assert_eq!(w.message("m60").fate, Fate::Held(Hold::Rate { per_minute: 60 }));
        w.now += 1_000;
        assert_eq!(sends(&mut w, 61), Ok("message.sent"), "one more each second");
        assert_eq!(sends(&mut w, 62), Ok("message.held"));
        assert_eq!(w.does(&by("b"), SendMessage { guard, ..entry("other", "b", "x") }), ["message.sent"]);
        let held = (63..1_000).take_while(|at| sends(&mut w, *at) == Ok("message.held")).count();
        assert_eq!(held as u32 + 2, limit::HELD_PER_SENDER);
        assert_eq!(sends(&mut w, 5_000).map_err(|refusal| refusal.code), Err(Code::RateLimited));
        w.now += 120_000;
        assert_eq!(sends(&mut w, 5_001), Ok("message.sent"), "what it says calmly goes through");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn a_clock_that_goes_back_holds_nobody() {
        let mut w = World::of(&["a"]);
        let guard = StormGuard { per_minute: 2, hops: 20 };
        w.now = 10_000_000;
        w.does(&by("a"), SendMessage { guard, ..entry("m1", "a", "x") });
        w.now = 1_000;
        assert_eq!(w.does(&by("a"), SendMessage { guard, ..entry("m2", "a", "x") }), ["message.sent"]);
    }

    #[test]
    fn the_system_is_never_held() {
        let mut w = World::of(&["a"]);
        let guard = StormGuard { per_minute: 1, hops: 0 };
        for at in 0..10 {
            let message = SendMessage { guard, ..entry(&format!("m{at}"), "system", "@a go") };
            assert_eq!(w.does(&Caller::system(), message), ["message.sent"]);
        }
    }

    #[test]
    fn the_same_message_again_is_no_second_one() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), entry("m", "a", "@b hi"));
        assert_eq!(w.does(&by("a"), entry("m", "a", "@b hi")), [""; 0]);
        assert_eq!(w.refuses(&by("a"), entry("m", "a", "@b ho")), Code::AlreadyExists);
        assert_eq!(w.refuses(&by("b"), entry("m", "b", "@b hi")), Code::AlreadyExists);
    }

    #[test]
    fn nobody_signs_with_the_name_of_another() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.does(&with_token("sealed"), crate::testing::register("sealed", AgentRole::Worker));
        assert_eq!(w.refuses(&by("a"), entry("m", "b", "hi")), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), entry("m", "sealed", "hi")), Code::CredentialRequired);
        for name in ["system", "person:anna", "external"] {
            assert_eq!(w.refuses(&Caller::anonymous(), entry("m", name, "hi")), Code::Forbidden, "{name}");
        }
        w.does(&anna(), entry("m", "person:anna", "hi"));
        w.does(&by("stranger"), entry("n", "stranger", "hi"));
    }

    #[test]
    fn it_is_limited() {
        let mut w = World::of(&["a"]);
        let a = by("a");
        for (bad, code) in [
            (entry("", "a", "x"), Code::Invalid),
            (entry("m 1", "a", "x"), Code::Invalid),
            (entry("m", "a", " "), Code::Invalid),
            (entry("m", "a", &"x".repeat(limit::TEXT_BYTES + 1)), Code::TooLarge),
            (SendMessage { thread: "thr a".into(), ..entry("m", "a", "x") }, Code::Invalid),
            (coord("m", "a", "blocking", &[]), Code::Invalid),
            (coord("m", "a", "", &[]), Code::Invalid),
            (coord("m", "a", "TWO WORDS", &[]), Code::Invalid),
            (coord("m", "a", "GENERAL", &["a b"]), Code::Invalid),
        ] {
            assert_eq!(w.refuses(&a, bad.clone()), code, "{bad:?}");
        }
        let many: String = (0..=limit::LIST_ENTRIES).map(|at| format!("@x{at} ")).collect();
        assert_eq!(w.refuses(&a, entry("m", "a", &many)), Code::TooLarge);
        let mut nameless = coord("m", "a", "GENERAL", &[]);
        if let What::Coord { subject, .. } = &mut nameless.what {
            subject.clear();
        }
        assert_eq!(w.refuses(&a, nameless), Code::Invalid);
    }
}
