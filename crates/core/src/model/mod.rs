//! Rows and how they are found: tables, keys, lookups, and the view that a decision reads.

mod entity;
mod ids;
mod lookup;
mod tables;
mod view;

pub use entity::{Column, ColumnKind, ColumnValue, Entity, RowId, Stored};
pub use ids::{ArtifactRefId, DeliveryId, DependencyId, LeadId, VersionId};
pub use lookup::{Lookup, Match, ReadItem, ReadSet};
pub use tables::{Key, Row, Table};
pub use view::{LifeSource, Presence, View};
