//! Deleting a document. Its versions stay readable.

use serde::{Deserialize, Serialize};

use super::write::stale;
use super::{Base, Writer, author, writer_agent};
use crate::kernel::code::Code;
use crate::kernel::instance::Instance;
use crate::kernel::rejection::Rejection;
use crate::model::context_settings::keys as context_keys;
use crate::model::document::{Change, Document, DocumentId, DocumentStatus, Version};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteDocument {
    pub id: DocumentId,
    pub writer: Writer,
    pub base: Base,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DocumentDeleted {
    #[serde(flatten)]
    pub id: DocumentId,
    pub version: u64,
    pub author: String,
    pub before: String,
}

impl Event for DocumentDeleted {
    const KIND: &'static str = "document.deleted";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.id.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        self.id.keys_at(self.version)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.id.clone(), |document: &mut Document| {
            document.version = self.version;
            document.status = DocumentStatus::Deleted;
            document.author = self.author.clone();
            document.changed_at = stamp.at;
        });
        let version = Version {
            id: self.id.clone(),
            version: self.version,
            base: self.version,
            change: Change::Deleted,
            author: self.author.clone(),
            at: stamp.at,
            seq: stamp.seq,
            before: Some(self.before.clone()),
            hash: None,
            text: String::new(),
        };
        rows.put(self.id.version_id(self.version), version);
    }
}

impl Command for DeleteDocument {
    const NAME: &'static str = "DeleteDocument";

    type Reply = Document;

    fn read_set(&self) -> ReadSet {
        let agent = writer_agent(&self.writer).map(|agent| Key::Agent(agent.clone()));
        let context = context_keys(&Instance::of_run(&self.id.run));
        [Key::Document(self.id.clone()), Key::lead()]
            .into_iter()
            .chain(context)
            .chain(agent)
            .map(ReadItem::from)
            .collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Document>, Undecided> {
        let author = author(cx.view, cx.caller, &self.writer)?;
        cx.view.needs_context(&Instance::of_run(&self.id.run))?;
        let known = cx.view.document(&self.id)?.filter(|known| known.is_here());
        let Some(known) = known else {
            return Err(Rejection::new(Code::DocumentNotFound, format!("there is no document '{}'", self.id.path))
                .hint("list the documents to see their names")
                .into());
        };
        if let Base::Version(base) = self.base
            && base != known.version
        {
            return Err(stale(&self.id, base, known.version).into());
        }
        let fact = DocumentDeleted {
            id: self.id.clone(),
            version: known.version.saturating_add(1),
            author,
            before: known.hash.clone(),
        };
        Ok(Decision::new(vec![AnyEvent::new(fact)], ReplySource::row(self.id.clone())))
    }
}
