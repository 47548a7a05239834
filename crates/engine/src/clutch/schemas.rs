//! Schemas as they are registered, looked up and applied. Each is compiled once on a node; it never changes, so whatever another
//! node registered is found when it is first needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rookery_core::clutch::PayloadType;
use rookery_core::contract::{BUILT_IN, Schema, Violation, built_in};
use rookery_core::key::Table;
use rookery_core::{Key, Row, Seq};
use rookery_store::query::Test;
use rookery_store::{ListQuery, SubmitError};
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use super::schema::{Compiled, SchemaFault};
use crate::engine::{Engine, EngineError};
use crate::queries::At;

/// How many are kept ready. One that is not is compiled again.
const COMPILED: usize = 256;
/// How many payloads are checked at once.
const CHECKS: usize = 4;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Values and schemas refer deeper into each other than the stack of a worker reaches. It is only used as far as needed.
const STACK_BYTES: usize = 128 * 1024 * 1024;

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

/// The schemas that are compiled, and the room to apply them in.
#[derive(Debug)]
pub(crate) struct Schemas {
    compiled: Mutex<BTreeMap<PayloadType, Arc<Compiled>>>,
    room: Arc<Semaphore>,
}

impl Default for Schemas {
    fn default() -> Schemas {
        Schemas { compiled: Mutex::default(), room: Arc::new(Semaphore::new(CHECKS)) }
    }
}

impl Schemas {
    fn get(&self, payload_type: &PayloadType) -> Option<Arc<Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(payload_type).cloned()
    }

    fn keep(&self, payload_type: &PayloadType, compiled: Arc<Compiled>) {
        let mut all = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= COMPILED {
            all.pop_first();
        }
        all.insert(payload_type.clone(), compiled);
    }

    /// Works on a stack that is large enough. Work that takes too long keeps its place until it ends, so that there is never
    /// more of it than there are places; `None` then, and if there is no place in time.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, EngineError> {
        let (done, result) = oneshot::channel();
        let in_time = async {
            let Ok(place) = self.room.clone().acquire_owned().await else { return Ok(None) };
            let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
            let started = thread.spawn(move || {
                // Nobody may wait any more.
                done.send(work()).ok();
                drop(place);
            });
            started.map_err(|error| unavailable(&format!("no thread to check a payload in: {error}")))?;
            result.await.map(Some).map_err(|_| unavailable("checking a payload ended early"))
        };
        tokio::time::timeout(PATIENCE, in_time).await.unwrap_or(Ok(None))
    }
}

fn unavailable(reason: &str) -> EngineError {
    SubmitError::Unavailable { reason: reason.to_owned() }.into()
}

impl Engine {
    /// Whether a text is a schema that can be registered.
    pub async fn check_schema(&self, text: &str) -> Result<(), UnfitSchema> {
        let asked = text.to_owned();
        let compiled = self.schemas_here().work(move || Compiled::of(&asked).map(drop)).await?;
        compiled.unwrap_or_else(|| Err(too_slow())).map_err(UnfitSchema::Faulty)
    }

    pub async fn schema(&self, payload_type: &PayloadType) -> Result<Option<KnownSchema>, EngineError> {
        if let Some(text) = built_in(payload_type) {
            return Ok(Some(KnownSchema::BuiltIn { payload_type: payload_type.clone(), text }));
        }
        let (mut rows, _) = self.store().rows(vec![Key::Schema(payload_type.clone())]).await?;
        Ok(rows.pop().flatten().and_then(registered).map(KnownSchema::Registered))
    }

    /// Schemas in the order in which they were registered, after one that was registered then. Those that are there from the
    /// beginning come first.
    pub async fn schemas(&self, after: Option<Seq>, limit: u32) -> Result<At<Vec<KnownSchema>>, EngineError> {
        let beginning = BUILT_IN.iter().filter(|_| after.is_none()).filter_map(|built_in| {
            let payload_type = PayloadType::parse(built_in.payload_type)?;
            Some(KnownSchema::BuiltIn { payload_type, text: built_in.text })
        });
        let query = ListQuery::all(Table::Schemas)
            .with("registered", Test::Above(after.unwrap_or(Seq(0)).0.cast_signed()))
            .ordered_by("registered");
        let (rows, head) = self.store().list(query.at_most(Some(limit))).await?;
        let rows = rows.into_iter().filter_map(registered).map(KnownSchema::Registered);
        Ok(At { value: beginning.chain(rows).collect(), head })
    }

    /// Where a payload is not as the schema of a type says.
    pub(super) async fn held_against(
        &self,
        payload_type: &PayloadType,
        payload: &Value,
    ) -> Result<Vec<Violation>, EngineError> {
        let schemas = self.schemas_here();
        let known = match schemas.get(payload_type) {
            Some(compiled) => Ok(compiled),
            None => self.compiled(payload_type).await?,
        };
        let compiled = match known {
            Ok(compiled) => compiled,
            Err(violation) => return Ok(vec![violation]),
        };
        let (payload, at) = (payload.clone(), payload_type.clone());
        let found = schemas.work(move || compiled.violations(&payload)).await?;
        Ok(found.unwrap_or_else(|| {
            let message = format!("cannot be held against the schema of {at} within {} seconds", PATIENCE.as_secs());
            vec![Violation { pointer: "/payload".to_owned(), message }]
        }))
    }

    async fn compiled(&self, payload_type: &PayloadType) -> Result<Result<Arc<Compiled>, Violation>, EngineError> {
        let unfit = |message: String| Violation { pointer: "/payload_type".to_owned(), message };
        let Some(known) = self.schema(payload_type).await? else {
            return Ok(Err(unfit(format!("no schema is registered for {payload_type}"))));
        };
        let text = known.text().to_owned();
        let compiled = self.schemas_here().work(move || Compiled::of(&text)).await?;
        Ok(match compiled.unwrap_or_else(|| Err(too_slow())) {
            Ok(compiled) => {
                let compiled = Arc::new(compiled);
                self.schemas_here().keep(payload_type, compiled.clone());
                Ok(compiled)
            }
            // It was one when it was registered: its text was taken out of the log since.
            Err(fault) => Err(unfit(format!("the schema of {payload_type} cannot be used any more: {fault}"))),
        })
    }
}

fn too_slow() -> SchemaFault {
    let message = format!("cannot be compiled within {} seconds; make it smaller", PATIENCE.as_secs());
    SchemaFault { pointer: String::new(), message }
}

fn registered(row: Row) -> Option<Schema> {
    if let Row::Schema(schema) = row { Some(schema) } else { None }
}
