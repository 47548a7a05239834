//! Every table, one line each: the macro generates [`Table`], [`Key`] and [`Row`] from the entities.

use serde::{Deserialize, Serialize};

use super::agent::{Agent, Lead};
use super::artifact::ArtifactRef;
use super::context_settings::Configured;
use super::contract::{Schema, StepContracts};
use super::document::{Document, Version};
use super::envelope::Filed;
use super::file::File;
use super::file_path::FilePath;
use super::group::Group;
use super::handoff::Handoff;
use super::intent::Intent;
use super::message::{Delivery, Message, Sender, Thread};
use super::run::Run;
use super::task::{Checkpoint, Dependency, Task};
use super::team::Team;
use super::template::Template;
use super::timer::Timer;
use super::turn::Turn;
use super::workspace::Workspace;
use super::{Column, ColumnValue, Entity, LeadId, RowId, Stored};

macro_rules! tables {
    ($($row:ident: $entity:ident => $table:ident),+ $(,)?) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Table { $($table),+ }

        impl Table {
            pub const ALL: [Table; [$(Table::$table),+].len()] = [$(Table::$table),+];

            pub fn name(self) -> &'static str {
                match self { $(Table::$table => $entity::TABLE),+ }
            }

            /// The columns besides the key and the document, in the order of [`Row::columns`].
            pub fn columns(self) -> &'static [Column] {
                match self { $(Table::$table => $entity::COLUMNS),+ }
            }
        }

        /// The table and the id of one row.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Key { $($row(<$entity as Entity>::Id)),+ }

        impl Key {
            pub fn table(&self) -> Table {
                match self { $(Key::$row(_) => Table::$table),+ }
            }

            /// The primary key within its table.
            pub fn id(&self) -> String {
                match self { $(Key::$row(id) => id.to_text()),+ }
            }

            /// The key of a row as it was stored; `None` if the text cannot be one.
            pub fn parse(table: Table, id: &str) -> Option<Key> {
                Some(match table { $(Table::$table => Key::$row(RowId::from_text(id)?)),+ })
            }
        }

        /// One row of a table: the document of one thing.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(untagged)]
        #[expect(clippy::large_enum_variant, reason = "most rows are tasks, which are the largest: a box would help few")]
        pub enum Row { $($row($entity)),+ }

        impl Row {
            pub fn table(&self) -> Table {
                match self { $(Row::$row(_) => Table::$table),+ }
            }

            /// The values of [`Table::columns`], in their order.
            pub fn columns(&self) -> Vec<ColumnValue> {
                match self { $(Row::$row(entity) => entity.columns()),+ }
            }

            /// The totals that this row counts in.
            pub fn tallies(&self) -> Vec<&'static str> {
                match self { $(Row::$row(entity) => entity.tallies()),+ }
            }

            pub fn decode(table: Table, document: &[u8]) -> Result<Row, serde_json::Error> {
                Ok(match table { $(Table::$table => Row::$row(serde_json::from_slice(document)?)),+ })
            }
        }

        $(impl Stored for $entity {
            fn table() -> Table {
                Table::$table
            }

            fn key(id: Self::Id) -> Key {
                Key::$row(id)
            }

            fn from_row(row: &Row) -> Option<&Self> {
                if let Row::$row(entity) = row { Some(entity) } else { None }
            }

            fn take_row(row: Row) -> Option<Self> {
                if let Row::$row(entity) = row { Some(entity) } else { None }
            }

            fn into_row(self) -> Row {
                Row::$row(self)
            }
        })+
    };
}

tables! {
    Agent: Agent => Agents,
    Task: Task => Tasks,
    Dependency: Dependency => Dependencies,
    File: File => Files,
    Handoff: Handoff => Handoffs,
    Lead: Lead => Leadership,
    Checkpoint: Checkpoint => Checkpoints,
    Timer: Timer => Timers,
    Intent: Intent => Intents,
    Run: Run => Runs,
    Template: Template => Templates,
    Message: Message => Messages,
    Delivery: Delivery => Deliveries,
    Thread: Thread => Threads,
    Sender: Sender => Senders,
    Document: Document => Documents,
    Version: Version => Versions,
    Context: Configured => Contexts,
    Workspace: Workspace => Workspaces,
    ArtifactRef: ArtifactRef => ArtifactRefs,
    Schema: Schema => Schemas,
    StepContracts: StepContracts => StepContracts,
    Group: Group => Groups,
    Envelope: Filed => Envelopes,
    Team: Team => Teams,
    Turn: Turn => Turns,
}

impl Key {
    pub fn file(path: &FilePath) -> Key {
        Key::File(path.key().to_owned())
    }

    pub fn lead() -> Key {
        Key::Lead(LeadId)
    }
}

impl Row {
    pub fn encode(&self) -> Vec<u8> {
        // Rows are plain data with string keys: writing them to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context_settings::Scope;
    use crate::model::document::DocumentId;
    use crate::model::payload_type::PayloadType;
    use crate::model::{ArtifactRefId, DeliveryId, DependencyId, VersionId};

    #[test]
    fn keys_read_back_as_stored() {
        let keys = [
            Key::Agent("a".into()),
            Key::Task("t".into()),
            Key::Dependency(DependencyId { task: "t".into(), dep: "u".into() }),
            Key::File("src/".into()),
            Key::Handoff("h".into()),
            Key::lead(),
            Key::Checkpoint("c".into()),
            Key::Timer("x".into()),
            Key::Intent("i".into()),
            Key::Run("r".into()),
            Key::Template("p".into()),
            Key::Message("m".into()),
            Key::Delivery(DeliveryId { message: "m".into(), agent: "a@b".into() }),
            Key::Thread("thr_x".into()),
            Key::Sender("person:Anna Bo".into()),
            Key::Document(DocumentId::parse("run_a/b my notes.md").unwrap()),
            Key::Version(VersionId { document: DocumentId::parse("run_x my notes.md").unwrap(), version: 7 }),
            Key::Context(Scope::Project),
            Key::Context(Scope::Instance("run_x".into())),
            Key::Workspace("ws_1".into()),
            Key::ArtifactRef(ArtifactRefId { sha256: "ab".to_owned(), by: "task:t 1".to_owned() }),
            Key::Schema(PayloadType::parse("a.b.v1").unwrap()),
            Key::StepContracts("w".to_owned()),
            Key::Group("g".to_owned()),
            Key::Envelope("msg_1".into()),
            Key::Team("@pr-1".into()),
            Key::Turn("turn_1".into()),
        ];
        for key in keys {
            assert_eq!(Key::parse(key.table(), &key.id()), Some(key));
        }
    }
}
