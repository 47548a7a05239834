//! Documents of an instance: Markdown and text that agents and people write together, with every version kept.
//!
//! A version holds the words that its fact brought: the whole text, or the piece that was appended. The text of a document
//! is its last whole text and what was appended since, so that appending is cheap and a redaction clears exactly the words
//! of one fact.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::document_path::DocumentPath;
use super::{Column, ColumnValue, Entity, Key, VersionId};
use crate::kernel::id::{RunId, Seq, Timestamp};

/// The author of what was found changed in a file.
pub const EXTERNAL: &str = "external";

/// Where a document is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DocumentId {
    pub run: RunId,
    pub path: DocumentPath,
}

impl DocumentId {
    pub fn new(run: RunId, path: DocumentPath) -> DocumentId {
        DocumentId { run, path }
    }

    /// As a key: runs have no spaces in their names.
    pub fn text(&self) -> String {
        format!("{} {}", self.run, self.path)
    }

    /// The rows that a change changes: the document and the version that it adds.
    pub(crate) fn keys_at(&self, version: u64) -> Vec<Key> {
        vec![Key::Document(self.clone()), Key::Version(self.version_id(version))]
    }

    pub(crate) fn version_id(&self, version: u64) -> VersionId {
        VersionId { document: self.clone(), version }
    }

    pub(crate) fn parse(text: &str) -> Option<DocumentId> {
        let (run, path) = text.split_once(' ')?;
        Some(DocumentId { run: run.into(), path: DocumentPath::stored(path) })
    }
}

/// What is known of a document without its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Document {
    #[serde(flatten)]
    pub id: DocumentId,
    /// Counted up by every change, also by deleting it and writing it anew.
    pub version: u64,
    /// The version that holds a whole text; the later ones are appended to it.
    pub base: u64,
    pub status: DocumentStatus,
    pub bytes: u64,
    /// SHA-256 of the text as it was written, in hex.
    pub hash: String,
    pub author: String,
    pub changed_at: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    Here,
    Deleted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Created,
    Written,
    Appended,
    Deleted,
}

/// One change of a document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Version {
    #[serde(flatten)]
    pub id: DocumentId,
    pub version: u64,
    pub base: u64,
    pub change: Change,
    pub author: String,
    pub at: Timestamp,
    pub seq: Seq,
    /// The hash of the text before; none if there was none.
    pub before: Option<String>,
    /// The hash of the text after; none if there is none.
    pub hash: Option<String>,
    /// The whole text if this is a base, else what was appended.
    pub text: String,
}

impl Entity for Document {
    type Id = DocumentId;

    const TABLE: &'static str = "documents";
    const COLUMNS: &'static [Column] = &[Column::text("live_in")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.is_here().then(|| self.id.run.to_string()).into()]
    }
}

impl Document {
    pub fn is_here(&self) -> bool {
        self.status == DocumentStatus::Here
    }
}

impl Entity for Version {
    type Id = VersionId;

    const TABLE: &'static str = "document_versions";
    const COLUMNS: &'static [Column] =
        &[Column::text("document"), Column::integer("version").unindexed(), Column::text("base")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![
            self.id.text().as_str().into(),
            self.version.into(),
            Version::base_text(&self.id, self.base).as_str().into(),
        ]
    }
}

impl Version {
    /// What leads from a document's base to its pieces.
    pub fn base_text(id: &DocumentId, base: u64) -> String {
        format!("{base} {}", id.text())
    }
}

/// The text that versions with one base make, up to one of them.
pub fn text_of<'a>(versions: impl IntoIterator<Item = &'a Version>) -> String {
    let mut pieces: Vec<&Version> = versions.into_iter().collect();
    pieces.sort_by_key(|piece| piece.version);
    pieces.into_iter().map(|piece| piece.text.as_str()).collect()
}

pub fn hash_of(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
