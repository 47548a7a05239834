//! Deleting a document. Its versions stay readable.

use serde::{Deserialize, Serialize};

use super::write::stale;
use super::{Base, DocumentId, Writer, author, writer_agent};
use crate::actor::Caller;
use crate::code::Code;
use crate::command::{Decision, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::instance::{Instance, context_keys};
use crate::key::{Ask, Key};
use crate::refusal::Rejection;
use crate::view::View;

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

impl DeleteDocument {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let agent = writer_agent(&self.writer).map(|agent| Key::Agent(agent.clone()));
        let context = context_keys(&Instance::of_run(&self.id.run));
        [Key::Document(self.id.clone()), Key::Lead].into_iter().chain(context).chain(agent).map(Ask::from).collect()
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Undecided> {
        let author = author(view, caller, &self.writer)?;
        view.needs_context(&Instance::of_run(&self.id.run))?;
        let known = view.document(&self.id)?.filter(|known| known.is_here());
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
