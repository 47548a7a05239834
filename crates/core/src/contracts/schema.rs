//! Registering the schema of a payload type. A version stays what it is; a changed schema is the next version.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::built_in;
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::contract::Schema;
use crate::model::payload_type::PayloadType;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

/// The engine has seen that the text is a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterSchema {
    pub payload_type: PayloadType,
    pub text: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaRegistered {
    pub payload_type: PayloadType,
    pub text: String,
    pub registered_by: String,
}

impl Command for RegisterSchema {
    const NAME: &'static str = "RegisterSchema";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Schema(self.payload_type.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        limit::text("schema", &self.text, limit::SCHEMA_BYTES)?;
        if let Some(text) = built_in(&self.payload_type) {
            return self.agrees(text).map(|()| Decision::unchanged(ReplySource::done())).map_err(Undecided::from);
        }
        if let Some(known) = cx.view.schema(&self.payload_type)? {
            return self
                .agrees(&known.text)
                .map(|()| Decision::unchanged(ReplySource::done()))
                .map_err(Undecided::from);
        }
        let fact = AnyEvent::new(SchemaRegistered {
            payload_type: self.payload_type.clone(),
            text: self.text.clone(),
            registered_by: cx.caller.actor.to_string(),
        });
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}

impl RegisterSchema {
    /// Spaces and the order of fields make no other schema.
    fn agrees(&self, known: &str) -> Result<(), Rejection> {
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        if self.text == known || value(&self.text).is_some_and(|asked| value(known) == Some(asked)) {
            return Ok(());
        }
        let message = format!("the schema of {} is another one, and a version never changes", self.payload_type);
        Err(Rejection::new(Code::AlreadyExists, message).hint("register it as the next version"))
    }
}

impl SchemaRegistered {
    pub(super) fn schema(&self, seq: Seq, at: Timestamp) -> Schema {
        Schema {
            payload_type: self.payload_type.clone(),
            text: self.text.clone(),
            registered_by: self.registered_by.clone(),
            registered: seq,
            registered_at: at,
        }
    }
}

impl Event for SchemaRegistered {
    const KIND: &'static str = "schema.registered";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Schema(self.payload_type.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.payload_type.clone(), self.schema(stamp.seq, stamp.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, by};

    fn register(payload_type: &str, text: &str) -> RegisterSchema {
        RegisterSchema { payload_type: PayloadType::parse(payload_type).unwrap(), text: text.to_owned() }
    }

    #[test]
    fn a_version_is_registered_once_and_never_changes() {
        let mut w = World::of(&["a", "b"]);
        let text = r#"{"type": "object", "required": ["x"]}"#;
        assert_eq!(w.does(&by("a"), register("a.b.v1", text)), ["schema.registered"]);
        assert_eq!(w.does(&by("b"), register("a.b.v1", text)), [""; 0]);
        assert_eq!(w.does(&by("b"), register("a.b.v1", r#"{"required":["x"],"type":"object"}"#)), [""; 0]);
        assert_eq!(w.refuses(&by("a"), register("a.b.v1", r#"{"type": "object"}"#)), Code::AlreadyExists);
        assert_eq!(w.does(&by("a"), register("a.b.v2", r#"{"type": "object"}"#)), ["schema.registered"]);
        assert_eq!(w.refuses(&by("a"), register("a.b.v3", &" ".repeat(limit::SCHEMA_BYTES + 1))), Code::TooLarge);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_is_there_from_the_beginning_stays() {
        let mut w = World::of(&["a"]);
        let name = "research.query.v1";
        let text = built_in(&PayloadType::parse(name).unwrap()).unwrap();
        assert_eq!(w.does(&by("a"), register(name, text)), [""; 0]);
        assert_eq!(w.refuses(&by("a"), register(name, "{}")), Code::AlreadyExists);
    }
}
