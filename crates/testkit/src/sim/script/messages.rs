//! Commands about messages and documents.

use rand::Rng;
use rand::seq::IndexedRandom;
use rookery_core::contexts::ConfigureContext;
use rookery_core::documents::{AppendDocument, Base, CreateDocument, DeleteDocument, WriteDocument, Writer};
use rookery_core::messages::{
    Ack, AckMessages, Addressees, ArchiveChannel, Cause, ReadMessages, ReleaseHeld, RetryDelivery, SendMessage, Shown,
    StormGuard, Verdict, What,
};
use rookery_core::messages::{DroppedLetter, LettersDropped, NoteDropped};
use rookery_core::model::context_settings::{ContextSettings, Scope};
use rookery_core::model::document::DocumentId;
use rookery_core::model::document_path::DocumentPath;
use rookery_core::model::message::{Fate, Message, Standing};
use rookery_core::{AgentId, AnyCommand, Instance, MessageId, Row};

use super::Script;

/// A storm guard so strict that held messages are common.
pub(in crate::sim) const GUARD: StormGuard = StormGuard { per_minute: 6, hops: 2 };

impl Script<'_> {
    /// A command of an agent about messages or documents.
    pub(super) fn message_command(&mut self, agent: &AgentId) -> AnyCommand {
        match self.rng.random_range(0..100) {
            0..40 => self.send_message(agent),
            40..60 => {
                ReadMessages { agent: agent.clone(), messages: self.own_messages(agent, Standing::Queued) }.into()
            }
            60..75 => self.ack(agent, Standing::Read, Shown::Before),
            75..80 => self.ack(agent, Standing::Queued, Shown::Now),
            80..82 => self.ack(agent, Standing::Acked, Shown::Now),
            _ => self.change_document(agent),
        }
    }

    /// A person's decision about a held message.
    pub(super) fn decision_about_held(&mut self) -> AnyCommand {
        let held: Vec<MessageId> = self
            .messages()
            .filter(|message| matches!(message.fate, Fate::Held(_)))
            .map(|message| message.id().clone())
            .collect();
        let message = held.choose(self.rng).cloned().unwrap_or_else(|| "msg_none".into());
        let discard = Verdict::Discard { reason: self.reason() };
        let verdict = if self.rng.random_bool(0.5) { Verdict::Deliver } else { discard };
        ReleaseHeld { message, verdict }.into()
    }

    /// Retries a dead letter, or discards one of an adapter.
    pub(super) fn dead_letter_command(&mut self) -> AnyCommand {
        let dead: Vec<(MessageId, AgentId)> = self
            .model
            .rows()
            .filter_map(|(_, row)| if let Row::Delivery(delivery) = row { Some(delivery) } else { None })
            .filter(|delivery| delivery.is_dead())
            .map(|delivery| (delivery.message.clone(), delivery.agent.clone()))
            .collect();
        if dead.is_empty() && self.serial.is_multiple_of(2) {
            let seq = self.model.log().last().map(|row| row.seq).unwrap_or_default();
            let letters = vec![DroppedLetter { seq, attempts: 2, error: "text 1".to_owned() }];
            return NoteDropped { dropped: LettersDropped { adapter: "http:out".to_owned(), letters } }.into();
        }
        let unknown = || (MessageId::from("msg_none"), AgentId::from("nobody-yet"));
        let (message, agent) = dead.choose(self.rng).cloned().unwrap_or_else(unknown);
        RetryDelivery { message, agent }.into()
    }

    /// Sets another entry point for the documents of all instances, or archives the channel.
    pub(super) fn configure_context(&mut self) -> AnyCommand {
        let number: u32 = self.rng.random_range(0..3);
        if self.serial.is_multiple_of(3) {
            let archive = Instance::new(format!("default.{}", self.serial));
            return ArchiveChannel { instance: Instance::default(), archive, agents: vec![] }.into();
        }
        let document = Some(format!("notes-{number}.md"));
        let settings = ContextSettings { document, ..ContextSettings::default() };
        ConfigureContext { scope: Scope::Project, settings, site: None }.into()
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.model.rows().filter_map(|(_, row)| if let Row::Message(message) = row { Some(message) } else { None })
    }

    fn send_message(&mut self, from: &AgentId) -> AnyCommand {
        let (instance, to) = (Instance::default(), self.agent());
        let what = match self.rng.random_range(0..4) {
            0 | 1 => What::Entry,
            2 => What::Direct { to: vec![to.clone()] },
            _ => self.coordination(&to),
        };
        let known: Vec<MessageId> = self.messages().map(|message| message.id().clone()).collect();
        let cause = known.last().filter(|_| self.rng.random_bool(0.6)).cloned().map_or(Cause::Nothing, Cause::Shown);
        SendMessage {
            id: MessageId::new(format!("msg_{:08}", self.serial)),
            run: instance.run(),
            thread: instance.thread(),
            from: from.clone(),
            what,
            text: format!("@{to} text {}", self.rng.random_range(0..20)),
            cause,
            people: vec![],
            guard: GUARD,
        }
        .into()
    }

    fn coordination(&mut self, to: &AgentId) -> What {
        let session = self.rng.random_bool(0.3);
        let (to, topic) = match self.rng.random_range(0..3) {
            0 => (Addressees::Agents(vec![to.clone(), "nobody-yet".into()]), "GENERAL"),
            _ if session => (Addressees::Everyone, "SESSION_START"),
            _ => (Addressees::Everyone, "GENERAL"),
        };
        What::Coord { topic: topic.to_owned(), subject: "subject 1".to_owned(), to, ack: Ack::ByTopic }
    }

    fn ack(&mut self, agent: &AgentId, standing: Standing, shown: Shown) -> AnyCommand {
        AckMessages { agent: agent.clone(), messages: self.own_messages(agent, standing), shown }.into()
    }

    /// Some messages with this delivery state of an agent; queued ones include broadcasts.
    pub(super) fn own_messages(&mut self, agent: &AgentId, standing: Standing) -> Vec<MessageId> {
        let own: Vec<MessageId> = self
            .model
            .rows()
            .filter_map(|(_, row)| match row {
                Row::Delivery(delivery) if delivery.agent == *agent && delivery.standing == standing => {
                    Some(delivery.message.clone())
                }
                Row::Message(message) if standing == Standing::Queued && message.is_broadcast_for(agent) => {
                    Some(message.id().clone())
                }
                _ => None,
            })
            .collect();
        let count = self.rng.random_range(1..4);
        own.choose_multiple(self.rng, count).cloned().collect()
    }

    fn change_document(&mut self, agent: &AgentId) -> AnyCommand {
        let Ok(path) = DocumentPath::parse("notes.md") else { return self.report(agent) };
        let id = DocumentId::new(Instance::default().run(), path);
        let (writer, text) = (Writer::Named(agent.clone()), format!("text {}\n", self.rng.random_range(0..20)));
        let version = match self.model.row(&rookery_core::Key::Document(id.clone())) {
            Some(Row::Document(document)) => document.version,
            _ => 0,
        };
        let base = if self.rng.random_bool(0.5) { Base::Version(version) } else { Base::Unsaid };
        match self.rng.random_range(0..8) {
            0..2 => WriteDocument { id, text, writer, base }.into(),
            2 => CreateDocument { id, text, writer }.into(),
            3 => DeleteDocument { id, writer, base }.into(),
            _ => AppendDocument { id, text, writer }.into(),
        }
    }
}
