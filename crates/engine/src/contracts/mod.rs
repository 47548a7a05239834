//! Schemas of payloads and the contracts of steps: how they are registered, looked up and applied.

mod step_contracts;

use rookery_core::contracts::{BUILT_IN, built_in};
use rookery_core::model::Table;
use rookery_core::model::contract::Schema;
use rookery_core::model::payload_type::PayloadType;
use rookery_core::model::violation::Violation;
use rookery_core::{Key, Row, Seq};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;
use serde_json::Value;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::At;
use crate::schemas::limits::{ADDRESS_SPACE_BYTES, VERDICT_TIMEOUT};
use crate::schemas::{Finding, SchemaFault};

pub(crate) use step_contracts::{Validate, Validated};

/// Payload schemas and the contracts of steps, and the checks of payloads against them.
#[derive(Clone, Copy, Debug)]
pub struct ContractsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`ContractsHandle`].
    pub fn contracts(&self) -> ContractsHandle<'_> {
        ContractsHandle { engine: self }
    }
}

/// A schema with what is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnownSchema {
    BuiltIn { payload_type: PayloadType, text: &'static str },
    Registered(Schema),
}

impl KnownSchema {
    pub fn payload_type(&self) -> &PayloadType {
        match self {
            KnownSchema::BuiltIn { payload_type, .. } => payload_type,
            KnownSchema::Registered(schema) => &schema.payload_type,
        }
    }

    pub fn text(&self) -> &str {
        match self {
            KnownSchema::BuiltIn { text, .. } => text,
            KnownSchema::Registered(schema) => &schema.text,
        }
    }
}

/// Why a text cannot be registered as a schema.
#[derive(Debug, thiserror::Error)]
pub enum UnfitSchema {
    #[error("{0}")]
    Faulty(SchemaFault),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ContractsHandle<'_> {
    /// Whether a text is a schema that can be registered.
    pub async fn check_schema(&self, text: &str) -> Result<(), UnfitSchema> {
        match self.engine.schemas_here().checkers.check(text, None).await? {
            Finding::Unusable(fault) => Err(UnfitSchema::Faulty(fault)),
            Finding::TooCostly => Err(UnfitSchema::Faulty(too_costly_schema())),
            Finding::Valid | Finding::Invalid(_) | Finding::InvalidSomewhere => Ok(()),
        }
    }

    pub async fn schema(&self, payload_type: &PayloadType) -> Result<Option<KnownSchema>, EngineError> {
        if let Some(text) = built_in(payload_type) {
            return Ok(Some(KnownSchema::BuiltIn { payload_type: payload_type.clone(), text }));
        }
        let (mut rows, _) = self.engine.store().rows(vec![Key::Schema(payload_type.clone())]).await?;
        Ok(rows.pop().flatten().and_then(registered).map(KnownSchema::Registered))
    }

    /// Schemas in the order in which they were registered, after one that was registered then. Those that are there from the
    /// beginning come first.
    pub async fn schemas(&self, after: Option<Seq>, limit: u32) -> Result<At<Vec<KnownSchema>>, EngineError> {
        let beginning = BUILT_IN.iter().filter(|_| after.is_none()).filter_map(|built_in| {
            let payload_type = PayloadType::parse(built_in.payload_type)?;
            Some(KnownSchema::BuiltIn { payload_type, text: built_in.text })
        });
        let query = RowQuery::all(Table::Schemas)
            .with("registered", ColumnTest::Above(after.unwrap_or(Seq(0)).0.cast_signed()))
            .ordered_by("registered");
        let (rows, head) = self.engine.store().list(query.at_most(Some(limit))).await?;
        let rows = rows.into_iter().filter_map(registered).map(KnownSchema::Registered);
        Ok(At { value: beginning.chain(rows).collect(), head })
    }

    /// Where a payload is not as the schema of a type says.
    pub(super) async fn find_violations(
        &self,
        payload_type: &PayloadType,
        payload: &Value,
    ) -> Result<Vec<Violation>, EngineError> {
        let schemas = self.engine.schemas_here();
        let finding = match self.schema(payload_type).await? {
            None => {
                let message = format!("no schema is registered for {payload_type}");
                return Ok(vec![Violation { pointer: "/payload_type".to_owned(), message }]);
            }
            Some(KnownSchema::BuiltIn { text, .. }) => schemas.check_built_in(text, payload),
            Some(KnownSchema::Registered(schema)) => schemas.checkers.check(&schema.text, Some(payload)).await?,
        };
        Ok(violations_of(finding, payload_type))
    }
}

fn violations_of(finding: Finding, payload_type: &PayloadType) -> Vec<Violation> {
    let at_payload = |message| vec![Violation { pointer: "/payload".to_owned(), message }];
    match finding {
        Finding::Valid => vec![],
        Finding::Invalid(violations) if !violations.is_empty() => violations,
        Finding::Invalid(_) | Finding::InvalidSomewhere => at_payload(format!(
            "does not match the schema of {payload_type}; there are too many ways to fail it for the places to be named"
        )),
        Finding::TooCostly => at_payload(format!(
            "cannot be checked against the schema of {payload_type} within {} seconds and {} MiB; send a smaller payload, or \
             register a version of the schema with fewer alternatives",
            VERDICT_TIMEOUT.as_secs(),
            ADDRESS_SPACE_BYTES >> 20,
        )),
        // It was usable when it was registered: its text was redacted since.
        Finding::Unusable(fault) => {
            let message = format!("the schema of {payload_type} cannot be used any more: {fault}");
            vec![Violation { pointer: "/payload_type".to_owned(), message }]
        }
    }
}

fn too_costly_schema() -> SchemaFault {
    let message = format!(
        "cannot be compiled within {} seconds and {} MiB; make it smaller",
        VERDICT_TIMEOUT.as_secs(),
        ADDRESS_SPACE_BYTES >> 20
    );
    SchemaFault { pointer: String::new(), message }
}

fn registered(row: Row) -> Option<Schema> {
    if let Row::Schema(schema) = row { Some(schema) } else { None }
}
