//! Deleting a document. Its versions stay readable.

use serde::{Deserialize, Serialize};

use super::write::stale;
use super::{Base, DocumentId, Writer, author, writer_agent};
use crate::code::Code;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::instance::{Instance, context_keys};
use crate::model::{Key, ReadItem, ReadSet};
use crate::refusal::Rejection;

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

impl Command for DeleteDocument {
    const NAME: &'static str = "DeleteDocument";

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

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
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
        Ok(Decision::new(vec![AnyEvent::DocumentDeleted(fact)], Reply::Row(Key::Document(self.id.clone()))))
    }
}
