//! Writing a document: as a whole, by appending, or anew.

use serde::{Deserialize, Serialize};

use super::{Change, Document, DocumentId, Version, author, hash_of, text_of, writer_agent};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::AgentId;
use crate::key::{Ask, Key, Lookup};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::view::View;

/// Puts a text in the place of the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
    pub base: Base,
}

/// Adds to the end; a document that is not there begins with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
}

/// Makes a document that must not be there yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Writer {
    Named(AgentId),
    /// Somebody edited the file.
    External,
}

/// The version that the writer has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// It does not say: its text replaces whatever is there, which stays readable as a version.
    Unsaid,
    /// None newer than this may be there; 0 if there was none.
    Version(u64),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DocumentWritten {
    #[serde(flatten)]
    pub id: DocumentId,
    pub version: u64,
    /// The version with the whole text that this one belongs to: itself, unless it is a piece.
    pub base: u64,
    pub change: Change,
    pub author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    pub hash: String,
    /// How long the whole text is.
    pub bytes: u64,
    pub text: String,
}

impl WriteDocument {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        asks(&self.id, &self.writer)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        check(&self.id, &self.text)?;
        let author = author(view, caller, &self.writer)?;
        let known = view.document(&self.id)?;
        let version = known.map_or(0, |known| known.version);
        if let Base::Version(base) = self.base
            && base != version
        {
            return Err(stale(&self.id, base, version).into());
        }
        let change = if known.is_some_and(Document::is_here) { Change::Written } else { Change::Created };
        Ok(whole(&self.id, known, change, author, self.text.clone()))
    }
}

impl CreateDocument {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        asks(&self.id, &self.writer)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        check(&self.id, &self.text)?;
        let author = author(view, caller, &self.writer)?;
        let known = view.document(&self.id)?;
        if known.is_some_and(Document::is_here) {
            return Err(Refusal::new(Code::Exists, format!("document '{}' exists", self.id.path))
                .hint("write or append to it, or choose another name")
                .into());
        }
        Ok(whole(&self.id, known, Change::Created, author, self.text.clone()))
    }
}

impl AppendDocument {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        asks(&self.id, &self.writer)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        check(&self.id, &self.text)?;
        let author = author(view, caller, &self.writer)?;
        let Some(known) = view.document(&self.id)?.filter(|known| known.is_here()) else {
            return Ok(whole(&self.id, view.document(&self.id)?, Change::Created, author, self.text.clone()));
        };
        if self.text.is_empty() {
            return Ok(Decision::nothing(Reply::Row(Key::Document(self.id.clone()))));
        }
        let text = text_of(view.pieces(&self.id, known.base)?) + &self.text;
        limit::text("the document with it", &text, limit::DOCUMENT_BYTES)?;
        let version = known.version.saturating_add(1);
        if version.saturating_sub(known.base) >= limit::DOCUMENT_PIECES {
            return Ok(whole(&self.id, Some(known), Change::Appended, author, text));
        }
        let fact = DocumentWritten {
            id: self.id.clone(),
            version,
            base: known.base,
            change: Change::Appended,
            author,
            before: Some(known.hash.clone()),
            hash: hash_of(&text),
            bytes: text.len() as u64,
            text: self.text.clone(),
        };
        Ok(decision(fact))
    }
}

fn asks(id: &DocumentId, writer: &Writer) -> Vec<Ask> {
    let agent = writer_agent(writer).map(|agent| Key::Agent(agent.clone()));
    [Key::Document(id.clone()), Key::Lead].into_iter().chain(agent).map(Ask::from).collect()
}

fn check(id: &DocumentId, text: &str) -> Result<(), Refusal> {
    limit::name("run", id.run.as_str(), limit::NAME_BYTES)?;
    limit::text("content", text, limit::DOCUMENT_BYTES)
}

/// A version that holds a whole text.
fn whole(id: &DocumentId, known: Option<&Document>, change: Change, author: String, text: String) -> Decision {
    let version = known.map_or(0, |known| known.version).saturating_add(1);
    decision(DocumentWritten {
        id: id.clone(),
        version,
        base: version,
        change,
        author,
        before: known.filter(|known| known.is_here()).map(|known| known.hash.clone()),
        hash: hash_of(&text),
        bytes: text.len() as u64,
        text,
    })
}

fn decision(fact: DocumentWritten) -> Decision {
    let reply = Reply::Row(Key::Document(fact.id.clone()));
    Decision::new(vec![Fact::DocumentWritten(fact)], reply)
}

pub(super) fn stale(id: &DocumentId, base: u64, version: u64) -> Refusal {
    Refusal::new(
        Code::StaleVersion,
        format!("document '{}' is at version {version}, and you have seen version {base}", id.path),
    )
    .hint("read it again, put your change into the newer text, and write that with its version")
}

impl View {
    fn pieces(&self, id: &DocumentId, base: u64) -> Result<Vec<&Version>, Halt> {
        use crate::row::Row;
        let rows = self.all(&Lookup::DocumentPieces { document: id.clone(), base })?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Version(piece) = row { Some(piece) } else { None }).collect())
    }
}
