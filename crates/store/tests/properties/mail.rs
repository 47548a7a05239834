//! Random requests about messages and documents, and the invariants of both.

use rookery_core::messages::{
    Ack, AckMessages, Addressees, ArchiveChannel, Cause, GiveUpDelivery, MessagesAcked, MessagesRead,
    MessagesSuperseded, ReadMessages, Receipt, ReleaseHeld, RetryDelivery, SendMessage, Shown, StormGuard, Verdict,
    What,
};
use rookery_core::model::message::{AddressedAs, Fate, Header, Recipients, Standing};
use rookery_core::model::{ColumnValue, DeliveryId, VersionId};
use rookery_core::{AgentId, AnyCommand, EventRef, Instance, Key, MessageId, Row, Seq, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use rookery_core::contexts::ConfigureContext;
use rookery_core::documents::{AppendDocument, Base, CreateDocument, DeleteDocument, WriteDocument, Writer};
use rookery_core::kernel::caller::Caller;
use rookery_core::messages::{DroppedLetter, LettersDropped, NoteDropped};
use rookery_core::model::context_settings::{ContextSettings, Scope};
use rookery_core::model::document::{DocumentId, Version, text_of};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::traits::LogRow;

use crate::envelopes::ENVELOPES;
use crate::steps::{AGENTS, Step, steps};
use crate::team::Team;

const MESSAGES: [&str; 5] = ["m0", "m1", "m2", "m3", "m4"];
const TEXTS_WITH_MENTIONS: [&str; 4] = ["@a look", "@b and @c: urgent", "@d @ghost", "nobody in particular"];

type Request = (Caller, AnyCommand);

fn agent() -> impl Strategy<Value = AgentId> {
    select(&AGENTS[..]).prop_map(AgentId::from)
}

pub(crate) fn message() -> impl Strategy<Value = MessageId> {
    prop_oneof![4 => select(&MESSAGES[..]), 1 => select(&ENVELOPES[..])].prop_map(MessageId::from)
}

fn document() -> impl Strategy<Value = DocumentId> {
    select(vec!["notes.md", "todo.txt"]).prop_filter_map("a path", |path| {
        Some(DocumentId::new(Instance::default().run(), DocumentPath::parse(path).ok()?))
    })
}

pub(crate) fn random_request() -> BoxedStrategy<Request> {
    prop_oneof![20 => about_messages(), 4 => about_documents(), 1 => about_contexts()].boxed()
}

/// Changes the entry document of all instances, or archives the channel.
fn about_contexts() -> BoxedStrategy<Request> {
    let document = select(vec!["notes.md", "plan.md"]).prop_map(|document| Some(document.to_owned()));
    let configure = document.prop_map(|document| {
        let settings = ContextSettings { document, ..ContextSettings::default() };
        ConfigureContext { scope: Scope::Project, settings, site: None }
    });
    let archive = (1..4).prop_map(|number| ArchiveChannel {
        instance: Instance::default(),
        archive: Instance::new(format!("default.{number}")),
        agents: vec![],
    });
    prop_oneof![
        2 => configure.prop_map(|configure| (Caller::person("anna"), configure.into())),
        1 => archive.prop_map(|archive| (Caller::person("anna"), archive.into())),
    ]
    .boxed()
}

fn about_messages() -> BoxedStrategy<Request> {
    let to = prop_oneof![
        1 => Just(Addressees::Everyone),
        1 => prop::collection::vec(prop_oneof![3 => agent(), 1 => Just("ghost".into())], 1..4)
            .prop_map(Addressees::Agents),
    ];
    let topic = select(vec!["GENERAL", "SESSION_START"]).prop_map(str::to_owned);
    let what = prop_oneof![
        2 => Just(What::Entry),
        1 => prop::collection::vec(agent(), 1..3).prop_map(|to| What::Direct { to }),
        2 => (topic, to).prop_map(|(topic, to)| {
            What::Coord { topic, subject: "news".to_owned(), to, ack: Ack::ByTopic }
        }),
    ];
    let cause = prop_oneof![
        2 => Just(Cause::Nothing),
        2 => message().prop_map(Cause::Shown),
        1 => message().prop_map(Cause::ReplyTo),
    ];
    // A strict guard, so that holds are common.
    let guard = StormGuard { per_minute: 2, hops: 0 };
    let sends = (agent(), message(), what, select(&TEXTS_WITH_MENTIONS[..]), cause).prop_map(
        move |(from, id, what, text, cause)| {
            let instance = Instance::default();
            let (run, thread) = (instance.run(), instance.thread());
            let text = text.to_owned();
            (
                Caller::asserted(from.clone()),
                SendMessage { id, run, thread, from, what, text, cause, people: vec![], guard }.into(),
            )
        },
    );
    let some = || prop_oneof![3 => message().prop_map(|one| vec![one]), 1 => prop::collection::vec(message(), 1..3)];
    let shown = select(vec![Shown::Before, Shown::Now]);
    let verdict = prop_oneof![Just(Verdict::Deliver), Just(Verdict::Discard { reason: Some("one".to_owned()) })];
    prop_oneof![
        6 => sends,
        6 => (agent(), some()).prop_map(|(agent, messages)| {
            (Caller::asserted(agent.clone()), ReadMessages { agent, messages }.into())
        }),
        5 => (agent(), some(), shown).prop_map(|(agent, messages, shown)| {
            (Caller::asserted(agent.clone()), AckMessages { agent, messages, shown }.into())
        }),
        2 => (message(), verdict).prop_map(|(message, verdict)| {
            (Caller::person("anna"), ReleaseHeld { message, verdict }.into())
        }),
        3 => (agent(), message()).prop_map(|(agent, message)| {
            let error = "one".to_owned();
            (Caller::system(), GiveUpDelivery { message, agent, attempts: 2, error }.into())
        }),
        5 => (agent(), message()).prop_map(|(agent, message)| {
            (Caller::person("anna"), RetryDelivery { message, agent }.into())
        }),
        1 => (1..9_u64).prop_map(|seq| {
            let letters = vec![DroppedLetter { seq: Seq(seq), attempts: 2, error: "one".to_owned() }];
            let dropped = LettersDropped { adapter: "http:out".to_owned(), letters };
            (Caller::person("anna"), NoteDropped { dropped }.into())
        }),
    ]
    .boxed()
}

fn about_documents() -> BoxedStrategy<Request> {
    let base = prop_oneof![1 => Just(Base::Unsaid), 1 => (0_u64..4).prop_map(Base::Version)];
    let text = || select(vec!["one", "two", "and\n"]).prop_map(str::to_owned);
    let by = |agent: AgentId| (Caller::asserted(agent.clone()), Writer::Named(agent));
    prop_oneof![
        2 => (agent(), document(), text(), base.clone()).prop_map(move |(agent, id, text, base)| {
            let (caller, writer) = by(agent);
            (caller, WriteDocument { id, text, writer, base }.into())
        }),
        4 => (agent(), document(), text()).prop_map(move |(agent, id, text)| {
            let (caller, writer) = by(agent);
            (caller, AppendDocument { id, text, writer }.into())
        }),
        1 => (agent(), document(), text()).prop_map(move |(agent, id, text)| {
            let (caller, writer) = by(agent);
            (caller, CreateDocument { id, text, writer }.into())
        }),
        1 => (agent(), document(), base).prop_map(move |(agent, id, base)| {
            let (caller, writer) = by(agent);
            (caller, DeleteDocument { id, writer, base }.into())
        }),
    ]
    .boxed()
}

/// The history of messages according to the log, kept independently of the rules.
#[derive(Default)]
struct Ledger {
    /// Every message with each recipient that was ever named.
    deliveries: BTreeMap<(MessageId, AgentId), Standing>,
    /// Forwarded requests with their tasks.
    requests: BTreeMap<MessageId, TaskId>,
    /// Those that ask for nothing any more.
    superseded: BTreeSet<(MessageId, AgentId)>,
    held: BTreeMap<MessageId, AgentId>,
    last: Option<Timestamp>,
}

impl Ledger {
    fn of(log: &[LogRow]) -> Ledger {
        let mut ledger = Ledger::default();
        for row in log {
            match row.event.typed() {
                EventRef::MessageSent(event) => ledger.queue(&event.letter.header, event.at),
                EventRef::MessageHeld(event) => {
                    let header = &event.letter.header;
                    assert_eq!(ledger.held.insert(header.message.clone(), header.from.clone()), None);
                }
                EventRef::MessageReleased(event) => {
                    assert!(ledger.held.remove(&event.header.message).is_some());
                    ledger.queue(&event.header, event.at);
                }
                EventRef::MessageDiscarded(event) => assert!(ledger.held.remove(&event.message).is_some()),
                EventRef::EnvelopeReceived(event) => {
                    for agent in &event.delivered {
                        let key = (event.message.clone(), agent.clone());
                        assert_eq!(ledger.deliveries.insert(key, Standing::Queued), None);
                    }
                }
                EventRef::ToolDenied(event) => {
                    if let Some(agent) = &event.delivered {
                        let key = (event.message.clone(), agent.clone());
                        assert_eq!(ledger.deliveries.insert(key, Standing::Queued), None);
                    }
                }
                EventRef::TaskForwarded(event) => {
                    let key = (event.message.clone(), event.to.clone());
                    assert_eq!(ledger.deliveries.insert(key, Standing::Queued), None);
                    ledger.requests.insert(event.message.clone(), event.task.clone());
                }
                EventRef::DeliveryAbandoned(event) if event.broadcast => {
                    let key = (event.message.clone(), event.agent.clone());
                    assert_eq!(ledger.deliveries.insert(key, Standing::Queued), None);
                }
                EventRef::MessagesSuperseded(MessagesSuperseded(receipt)) => {
                    for message in &receipt.messages {
                        let key = (message.clone(), receipt.agent.clone());
                        assert!(ledger.deliveries.contains_key(&key), "{receipt:?} was never sent");
                        assert!(ledger.superseded.insert(key), "{receipt:?} is superseded already");
                    }
                }
                EventRef::MessagesRead(MessagesRead(receipt)) => ledger.note(receipt, Standing::Read),
                EventRef::MessagesAcked(MessagesAcked(receipt)) => ledger.note(receipt, Standing::Acked),
                _ => {}
            }
        }
        ledger
    }

    fn queue(&mut self, header: &Header, at: Timestamp) {
        if !header.is_notification() {
            assert!(self.last.is_none_or(|last| at > last), "the times of a thread strictly increase");
            self.last = Some(at);
        }
        let named = match &header.to {
            Recipients::Agents(agents) => agents.clone(),
            Recipients::Everyone => vec![],
        };
        assert!(!named.contains(&header.from), "no message is delivered to its sender");
        let awaited = header.unknown.iter().filter(|_| header.awaits_millis.is_some()).cloned();
        for agent in named.into_iter().chain(awaited) {
            assert_eq!(self.deliveries.insert((header.message.clone(), agent), Standing::Queued), None);
        }
    }

    fn note(&mut self, receipt: &Receipt, to: Standing) {
        for message in &receipt.broadcasts {
            let new = self.deliveries.insert((message.clone(), receipt.agent.clone()), Standing::Queued);
            assert_eq!(new, None, "a broadcast reaches an agent once");
        }
        for message in receipt.messages.iter().chain(&receipt.broadcasts) {
            let standing = self.deliveries.get_mut(&(message.clone(), receipt.agent.clone()));
            let standing = standing.unwrap_or_else(|| panic!("{message} was not for {}", receipt.agent));
            assert!(*standing < to, "delivery states only advance");
            *standing = to;
        }
    }
}

/// Every message is acked, pending, withdrawn or held for each recipient, and never lost.
pub(crate) fn check(log: &[LogRow], rows: &BTreeMap<Key, Row>) {
    let ledger = Ledger::of(log);
    let mut found = 0;
    for row in rows.values() {
        match row {
            Row::Delivery(delivery) => {
                found += 1;
                let key = (delivery.message.clone(), delivery.agent.clone());
                assert_eq!(ledger.deliveries.get(&key), Some(&delivery.standing), "{delivery:?}");
                let open = delivery.standing != Standing::Acked && !ledger.superseded.contains(&key);
                let open = open && delivery.to != AddressedAs::Everyone;
                let pending = open.then(|| delivery.agent.to_string());
                assert_eq!(row.columns()[0], ColumnValue::from(pending), "{delivery:?}");
                if let Some(task) = ledger.requests.get(&delivery.message).filter(|_| open) {
                    let task = rows.get(&Key::Task(task.clone()));
                    let waits =
                        matches!(task, Some(Row::Task(task)) if task.reserved_for.as_ref() == Some(&delivery.agent));
                    assert!(waits, "{delivery:?} asks for {task:?}");
                }
            }
            Row::Message(message) => {
                let held = matches!(message.fate, Fate::Held(_));
                assert_eq!(held, ledger.held.contains_key(message.id()), "{message:?}");
                assert_eq!(held, row.columns()[4] != ColumnValue::Null);
            }
            Row::Sender(sender) => {
                let held = ledger.held.values().filter(|from| **from == sender.id).count();
                assert_eq!(sender.held as usize, held, "{sender:?}");
            }
            _ => {}
        }
    }
    assert_eq!(found, ledger.deliveries.len(), "no delivery is lost");
    check_documents(log, rows);
}

fn check_documents(log: &[LogRow], rows: &BTreeMap<Key, Row>) {
    let mut texts: BTreeMap<DocumentId, (u64, Option<String>)> = BTreeMap::new();
    for row in log {
        match row.event.typed() {
            EventRef::DocumentWritten(event) => {
                let (version, text) = texts.entry(event.id.clone()).or_default();
                *version += 1;
                assert_eq!(*version, event.version);
                let before = text.take().filter(|_| event.base < event.version).unwrap_or_default();
                *text = Some(before + &event.text);
            }
            EventRef::DocumentDeleted(event) => {
                let (version, text) = texts.entry(event.id.clone()).or_default();
                *version += 1;
                assert_eq!((*version, text.take().is_some()), (event.version, true));
            }
            _ => {}
        }
    }
    for (id, (version, text)) in texts {
        let Some(Row::Document(document)) = rows.get(&Key::Document(id.clone())) else { panic!("{id:?} is gone") };
        assert_eq!((document.version, document.is_here()), (version, text.is_some()));
        let piece = |version: u64| match rows.get(&Key::Version(VersionId { document: id.clone(), version })) {
            Some(Row::Version(piece)) => piece,
            other => panic!("version {version} of {id:?}: {other:?}"),
        };
        assert!((1..=version).all(|version| piece(version).version == version));
        if let Some(text) = text {
            let pieces: Vec<&Version> = (document.base..=version).map(piece).collect();
            assert_eq!(text_of(pieces), text);
        }
    }
}

fn delivery_state(rows: &BTreeMap<Key, Row>, message: &MessageId, agent: &AgentId) -> Standing {
    match rows.get(&Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() })) {
        Some(Row::Delivery(delivery)) => delivery.standing,
        _ => Standing::Queued,
    }
}

proptest! {
    #![proptest_config(crate::config(64))]

    /// A granted acknowledgement covers only messages that the agent was shown before or with it.
    #[test]
    fn acknowledgement_never_covers_unshown_messages(steps in steps(120)) {
        let mut team = Team::new();
        for step in &steps {
            let before = team.rows();
            let submission = team.submission(step);
            let done = team.submit(vec![submission]).iter().all(Result::is_ok);
            if let Step::Ask { command, key: None, .. } = step && let Some(ack) = command.get::<AckMessages>() && done {
                let after = team.rows();
                for message in &ack.messages {
                    let seen = delivery_state(&before, message, &ack.agent) != Standing::Queued;
                    prop_assert!(seen || ack.shown == Shown::Now, "{message} was never shown to {}", ack.agent);
                }
                for (key, row) in &after {
                    let named = matches!(key, Key::Delivery(DeliveryId { message, agent })
                        if *agent == ack.agent && ack.messages.contains(message));
                    prop_assert!(named || before.get(key) == Some(row), "{key:?} was not named");
                }
            }
        }
    }
}
