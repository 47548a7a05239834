//! Row ids that are made of several parts, and those that are parsed.

use serde::{Deserialize, Serialize};

use super::RowId;
use super::context_settings::Scope;
use super::document::DocumentId;
use super::payload_type::PayloadType;
use crate::kernel::id::{AgentId, MessageId, TaskId};

/// There is one position of lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LeadId;

impl RowId for LeadId {
    fn to_text(&self) -> String {
        "lead".to_owned()
    }

    fn from_text(_: &str) -> Option<LeadId> {
        Some(LeadId)
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DependencyId {
    pub task: TaskId,
    pub dep: TaskId,
}

impl RowId for DependencyId {
    fn to_text(&self) -> String {
        format!("{}>{}", self.task, self.dep)
    }

    fn from_text(text: &str) -> Option<DependencyId> {
        let (task, dep) = text.split_once('>')?;
        Some(DependencyId { task: task.into(), dep: dep.into() })
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DeliveryId {
    pub message: MessageId,
    pub agent: AgentId,
}

impl RowId for DeliveryId {
    // Ids have no spaces.
    fn to_text(&self) -> String {
        format!("{} {}", self.message, self.agent)
    }

    fn from_text(text: &str) -> Option<DeliveryId> {
        let (message, agent) = text.split_once(' ')?;
        Some(DeliveryId { message: message.into(), agent: agent.into() })
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VersionId {
    pub document: DocumentId,
    pub version: u64,
}

impl RowId for VersionId {
    fn to_text(&self) -> String {
        format!("{} {}", self.version, self.document.text())
    }

    fn from_text(text: &str) -> Option<VersionId> {
        let (version, document) = text.split_once(' ')?;
        Some(VersionId { document: DocumentId::parse(document)?, version: version.parse().ok()? })
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ArtifactRefId {
    pub sha256: String,
    pub by: String,
}

impl RowId for ArtifactRefId {
    fn to_text(&self) -> String {
        format!("{} {}", self.sha256, self.by)
    }

    fn from_text(text: &str) -> Option<ArtifactRefId> {
        let (sha256, by) = text.split_once(' ')?;
        Some(ArtifactRefId { sha256: sha256.to_owned(), by: by.to_owned() })
    }
}

impl RowId for DocumentId {
    fn to_text(&self) -> String {
        self.text()
    }

    fn from_text(text: &str) -> Option<DocumentId> {
        DocumentId::parse(text)
    }
}

impl RowId for Scope {
    fn to_text(&self) -> String {
        self.text()
    }

    fn from_text(text: &str) -> Option<Scope> {
        Scope::parse(text)
    }
}

impl RowId for PayloadType {
    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<PayloadType> {
        PayloadType::parse(text)
    }
}
