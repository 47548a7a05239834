//! Sending a message: its recipients are resolved here and stay in the fact, and a storm is held.

use serde::{Deserialize, Serialize};

use super::mention::{is_urgent, mentions};
use super::{DAY_MILLIS, Form, Header, Hold, Letter, Priority, Recipients};
use crate::actor::{Actor, Caller};
use crate::command::{Decision, Halt, Now, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, MessageId, RunId, ThreadId, Timestamp};
use crate::instance::{Instance, plain};
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendMessage {
    pub id: MessageId,
    pub run: RunId,
    pub thread: ThreadId,
    pub from: AgentId,
    pub what: What,
    pub text: String,
    pub cause: Cause,
    pub guard: StormGuard,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// For everybody to read in the thread's channel. Whoever is mentioned is told.
    Entry,
    /// For these agents only.
    Direct { to: Vec<AgentId> },
    /// A coordination message, pending until each recipient acknowledges it.
    Coord { topic: String, subject: String, to: Addressees, ack: Ack },
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
    /// When all that its author sent would have been due, sent evenly at its rate.
    pub due: Timestamp,
}

/// A message is kept back until a person has looked at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageHeld {
    #[serde(flatten)]
    pub letter: Letter,
    pub because: Hold,
}

/// Whom a message names: those that are agents of the team, and the others.
#[derive(Default)]
struct Named {
    known: Vec<AgentId>,
    unknown: Vec<AgentId>,
}

impl SendMessage {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let own = [
            Key::Message(self.id.clone()),
            Key::Thread(self.thread.clone()),
            Key::Sender(self.from.clone()),
            Key::Agent(self.from.clone()),
            Key::Lead,
        ];
        let cause = self.cause.message().map(|cause| Key::Message(cause.clone()));
        let named = self.names().into_iter().map(Key::Agent);
        own.into_iter().chain(cause).chain(named).map(Ask::from).collect()
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        self.check()?;
        view.may_sign_as(caller, &self.from)?;
        let reply = Reply::Row(Key::Message(self.id.clone()));
        let letter = self.letter(view)?;
        if let Some(known) = view.message(&self.id)? {
            if known.letter.header.from == self.from && known.letter.text == self.text {
                return Ok(Decision::nothing(reply));
            }
            return Err(
                Refusal::new(Code::Exists, format!("message '{}' exists and says something else", self.id)).into()
            );
        }
        let fact = match self.held(view, &letter.header, now)? {
            Some(because) => Fact::MessageHeld(MessageHeld { letter, because }),
            None => Fact::MessageSent(MessageSent {
                at: view.entry_time(&self.thread, now)?,
                due: self.due(view, now)?.plus_millis(self.interval_millis()),
                letter,
            }),
        };
        Ok(Decision::new(vec![fact], reply))
    }

    fn check(&self) -> Result<(), Refusal> {
        limit::name("message id", self.id.as_str(), limit::MESSAGE_ID_BYTES)?;
        limit::name("run", self.run.as_str(), limit::NAME_BYTES)?;
        limit::name("thread", self.thread.as_str(), limit::NAME_BYTES)?;
        limit::name("from", self.from.as_str(), limit::AGENT_ID_BYTES)?;
        limit::text("message", &self.text, limit::TEXT_BYTES)?;
        limit::list("recipients", &self.names())?;
        match &self.what {
            What::Entry | What::Direct { .. } if self.text.trim().is_empty() => {
                Err(Refusal::new(Code::Invalid, "message must not be empty"))
            }
            What::Entry => Ok(()),
            What::Direct { to } => check_ids(to),
            What::Coord { topic, subject, to, .. } => {
                check_topic(topic)?;
                if subject.trim().is_empty() {
                    return Err(Refusal::new(Code::Invalid, "subject must not be empty"));
                }
                limit::text("subject", subject, limit::TITLE_BYTES)?;
                match to {
                    Addressees::Everyone => Ok(()),
                    Addressees::Agents(to) => check_ids(to),
                }
            }
        }
    }

    /// Everybody that the message names, whether they are agents or not.
    fn names(&self) -> Vec<AgentId> {
        let named = match &self.what {
            What::Entry => return mentions(&self.text, &Instance::of_thread(&self.thread)),
            What::Direct { to } | What::Coord { to: Addressees::Agents(to), .. } => to,
            What::Coord { to: Addressees::Everyone, .. } => return vec![],
        };
        let mut names: Vec<AgentId> = Vec::new();
        for name in named.iter().map(plain) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn resolve(&self, view: &View) -> Result<Named, Halt> {
        let mut named = Named::default();
        for name in self.names() {
            let here = view.agent(&name)?.is_some_and(|agent| !agent.has_left());
            if here { named.known.push(name) } else { named.unknown.push(name) }
        }
        Ok(named)
    }

    fn letter(&self, view: &View) -> Result<Letter, Halt> {
        let Named { known, unknown } = self.resolve(view)?;
        let mentions = if self.what == What::Entry { known.clone() } else { vec![] };
        let others: Vec<AgentId> = known.into_iter().filter(|agent| *agent != self.from).collect();
        let (cause, hops) = self.chain(view)?;
        let (form, topic, subject) = match &self.what {
            What::Entry => (Form::Entry, None, None),
            What::Direct { .. } => (Form::Direct, None, None),
            What::Coord { topic, subject, .. } => (Form::Coord, Some(topic.clone()), Some(subject.clone())),
        };
        let session = topic.as_deref().is_some_and(is_about_session);
        let to = match &self.what {
            What::Coord { to: Addressees::Everyone, .. } => Recipients::Everyone,
            _ => Recipients::Agents(others),
        };
        let reaches = to == Recipients::Everyone || to != Recipients::Agents(vec![]);
        let waits = form == Form::Coord && !unknown.is_empty();
        if form != Form::Entry && !reaches && !waits {
            return Err(self.reaches_nobody(&unknown).into());
        }
        let urgent = is_urgent(&self.text) || subject.as_deref().is_some_and(is_urgent);
        let header = Header {
            message: self.id.clone(),
            run: self.run.clone(),
            thread: self.thread.clone(),
            form,
            name: Instance::of_thread(&self.thread).calls(&self.from),
            from: self.from.clone(),
            topic,
            priority: if urgent || mentions.len() > 1 { Priority::High } else { Priority::Normal },
            mentions,
            to,
            awaits_millis: waits.then_some(DAY_MILLIS),
            unknown,
            requires_ack: self.requires_ack(session),
            wakes: (reaches || waits) && !session,
            lasts_millis: session.then_some(DAY_MILLIS),
            cause,
            hops,
        };
        Ok(Letter { header, subject, text: self.text.clone() })
    }

    fn requires_ack(&self, session: bool) -> bool {
        match &self.what {
            What::Entry | What::Direct { .. } => true,
            What::Coord { ack: Ack::NotRequired, .. } => false,
            // Whatever was asked for: nobody waits for these.
            What::Coord { .. } => !session,
        }
    }

    fn reaches_nobody(&self, unknown: &[AgentId]) -> Refusal {
        match unknown.first() {
            Some(first) => Refusal::new(Code::AgentNotFound, format!("no agent '{first}' is on the team"))
                .hint("ask who is here, or write to the channel"),
            None => {
                Refusal::new(Code::Invalid, "the message is to nobody but its author").hint("name other agents in 'to'")
            }
        }
    }

    /// What led to this message, and how long the chain is by now. What people and the system say begins a new one.
    fn chain(&self, view: &View) -> Result<(Option<MessageId>, u32), Halt> {
        let Some(id) = self.cause.message() else { return Ok((None, 0)) };
        let hops = match (view.message(id)?, &self.cause) {
            (Some(cause), _) => cause.letter.header.hops.saturating_add(1),
            (None, Cause::ReplyTo(_)) => {
                return Err(
                    Refusal::new(Code::UnknownReference, format!("there is no message '{id}' to reply to")).into()
                );
            }
            (None, _) => return Ok((None, 0)),
        };
        let by_agent = matches!(Actor::parse(self.from.as_str()), Actor::Agent(_));
        Ok((Some(id.clone()), if by_agent { hops } else { 0 }))
    }

    /// Whether the message goes to a person first. A long chain that wakes nobody is no storm.
    fn held(&self, view: &View, header: &Header, now: &Now) -> Result<Option<Hold>, Halt> {
        if self.from.as_str() == Actor::System.to_string() {
            return Ok(None);
        }
        let ahead = now.at.plus_millis(BURST_MILLIS.saturating_sub(self.interval_millis()));
        let rushed = self.due(view, now)? > ahead;
        let hold = match self.guard {
            guard if header.wakes && header.hops > guard.hops => Hold::Hops { most: guard.hops },
            guard if rushed => Hold::Rate { per_minute: guard.per_minute },
            _ => return Ok(None),
        };
        if view.sender(&self.from)?.is_some_and(|sender| sender.held >= limit::HELD_PER_SENDER) {
            return Err(Refusal::new(
                Code::RateLimited,
                format!("{} messages of '{}' are held for a person already", limit::HELD_PER_SENDER, self.from),
            )
            .hint("stop sending; a person has to release or discard them first")
            .into());
        }
        Ok(Some(hold))
    }

    /// When all that the author sent before would have been due, but never in the past.
    fn due(&self, view: &View, now: &Now) -> Result<Timestamp, Halt> {
        Ok(view.sender(&self.from)?.map_or(now.at, |sender| sender.due.max(now.at)))
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
}

/// Messages that tell of sessions are of interest for a day, and wake nobody.
fn is_about_session(topic: &str) -> bool {
    matches!(topic, "SESSION_START" | "SESSION_END")
}

fn check_topic(topic: &str) -> Result<(), Refusal> {
    limit::text("type", topic, limit::NAME_BYTES)?;
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if topic.starts_with(|c: char| c.is_ascii_uppercase()) && topic.chars().all(fits) {
        return Ok(());
    }
    Err(Refusal::new(Code::Invalid, format!("type '{topic}' is not upper-case words"))
        .hint("for example GENERAL, BLOCKING_ISSUE or STATUS_UPDATE"))
}

fn check_ids(ids: &[AgentId]) -> Result<(), Refusal> {
    if ids.is_empty() {
        return Err(Refusal::new(Code::Invalid, "to must name somebody").hint("agent ids, or 'all'"));
    }
    ids.iter().try_for_each(|id| limit::name("to", id.as_str(), limit::AGENT_ID_BYTES))
}

impl View {
    /// The time of the next entry in a thread: now, or just after the last one.
    pub(super) fn entry_time(&self, thread: &ThreadId, now: &Now) -> Result<Timestamp, Halt> {
        Ok(self.thread(thread)?.map_or(now.at, |thread| now.at.max(thread.last_at.plus_millis(1))))
    }
}
