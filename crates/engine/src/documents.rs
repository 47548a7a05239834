//! Reading documents and their history, and writing them with an answer that shows what is newer.

use rookery_core::documents::{AppendDocument, CreateDocument, DeleteDocument, WriteDocument};
use rookery_core::model::document::{Document, DocumentId, Version, text_of};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::model::{Table, VersionId};
use rookery_core::{Caller, Code, Instance, Key, Rejection, Row, RunId};
use rookery_store::query::{ColumnTest, Order};
use rookery_store::{RowQuery, SubmitError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::At;
use crate::submit::Request;

/// Reads and changes the documents of a run.
#[derive(Clone, Copy, Debug)]
pub struct DocumentsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`DocumentsHandle`].
    pub fn documents(&self) -> DocumentsHandle<'_> {
        DocumentsHandle { engine: self }
    }
}

/// How many versions a history tells unless asked otherwise, and at most.
const PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// A document with its text at one of its versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentText {
    pub version: Version,
    pub text: String,
}

/// What became of a change to a document.
#[derive(Clone, PartialEq, Debug)]
pub enum Changed {
    Done(Document),
    /// Nothing was done: this is newer than what the writer has seen. None if it was deleted meanwhile.
    Stale {
        refusal: Rejection,
        newer: Option<DocumentText>,
    },
}

impl DocumentsHandle<'_> {
    /// The document of an instance that is meant where none is named. It reads as empty until somebody writes it.
    pub async fn entry_path(&self, instance: &Instance) -> Result<DocumentPath, EngineError> {
        Ok(self.engine.contexts().get(instance).await?.document)
    }

    pub async fn get(&self, id: &DocumentId) -> Result<At<Option<Document>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![Key::Document(id.clone())]).await?;
        let document = rows.pop().flatten().and_then(|row| if let Row::Document(row) = row { Some(row) } else { None });
        Ok(At { value: document, head })
    }

    /// The text of a document as it is now; `None` if there is none.
    pub async fn text(&self, id: &DocumentId) -> Result<Option<DocumentText>, EngineError> {
        match self.get(id).await?.value.filter(Document::is_here) {
            Some(document) => self.text_at(id, document.version).await,
            None => Ok(None),
        }
    }

    /// The text of a document as it was at a version; `None` if there was none.
    pub async fn text_at(&self, id: &DocumentId, version: u64) -> Result<Option<DocumentText>, EngineError> {
        let key = Key::Version(VersionId { document: id.clone(), version });
        let (mut rows, _) = self.engine.store().rows(vec![key]).await?;
        let Some(version) = rows.pop().flatten().and_then(version_of).filter(|version| version.hash.is_some()) else {
            return Ok(None);
        };
        let base = Version::base_text(id, version.base);
        let pieces = RowQuery::all(Table::Versions).with("base", ColumnTest::Is(base.as_str().into()));
        let (rows, _) = self.engine.store().list(pieces).await?;
        let pieces: Vec<Version> = rows.into_iter().filter_map(version_of).collect();
        let text = text_of(pieces.iter().filter(|piece| piece.version <= version.version));
        Ok(Some(DocumentText { version, text }))
    }

    /// The documents of a run, by path.
    pub async fn list(&self, run: &RunId) -> Result<At<Vec<Document>>, EngineError> {
        let query = RowQuery::all(Table::Documents).with("live_in", ColumnTest::Is(run.as_str().into()));
        let (rows, head) = self.engine.store().list(query).await?;
        let documents = rows.into_iter().filter_map(|row| if let Row::Document(row) = row { Some(row) } else { None });
        Ok(At { value: documents.collect(), head })
    }

    /// The changes of a document, newest first, each with the words that it brought.
    pub async fn history(&self, id: &DocumentId, limit: Option<u32>) -> Result<At<Vec<Version>>, EngineError> {
        let name = id.text();
        let mut query = RowQuery::all(Table::Versions)
            .with("document", ColumnTest::Is(name.as_str().into()))
            .ordered_by("version")
            .at_most(Some(limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE)));
        query.order = Order::Descending;
        let (rows, head) = self.engine.store().list(query).await?;
        Ok(At { value: rows.into_iter().filter_map(version_of).collect(), head })
    }

    pub async fn write(&self, caller: &Caller, command: WriteDocument) -> Result<Changed, EngineError> {
        let id = command.id.clone();
        self.change(&id, Request::new(caller.clone(), command)).await
    }

    pub async fn append(&self, caller: &Caller, command: AppendDocument) -> Result<Changed, EngineError> {
        let id = command.id.clone();
        self.change(&id, Request::new(caller.clone(), command)).await
    }

    pub async fn create(&self, caller: &Caller, command: CreateDocument) -> Result<Changed, EngineError> {
        let id = command.id.clone();
        self.change(&id, Request::new(caller.clone(), command)).await
    }

    pub async fn delete(&self, caller: &Caller, command: DeleteDocument) -> Result<Changed, EngineError> {
        let id = command.id.clone();
        self.change(&id, Request::new(caller.clone(), command)).await
    }

    /// Submits a request that changes a document, for surfaces that add a key or the body as received.
    pub async fn change(&self, id: &DocumentId, request: Request<Document>) -> Result<Changed, EngineError> {
        match self.engine.submit(request).await {
            Ok(committed) => Ok(Changed::Done(committed.reply)),
            Err(EngineError::Submit(SubmitError::Refused(refusal))) if refusal.code == Code::StaleVersion => {
                Ok(Changed::Stale { refusal, newer: self.text(id).await? })
            }
            Err(error) => Err(error),
        }
    }
}

fn version_of(row: Row) -> Option<Version> {
    if let Row::Version(version) = row { Some(version) } else { None }
}
