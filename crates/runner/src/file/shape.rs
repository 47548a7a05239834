//! Tables of the keys and values of a workflow file, from which both the parser and the schema are derived.

use serde_json::{Map, Value, json};

use super::{duration, size};

/// A mapping with known keys.
#[derive(Debug)]
pub(super) struct Record {
    pub name: &'static str,
    pub about: &'static str,
    pub keys: &'static [ShapeKey],
}

#[derive(Debug)]
pub(super) struct ShapeKey {
    pub name: &'static str,
    pub about: &'static str,
    pub need: Need,
    pub shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Required,
    /// May be absent or null, which is equivalent.
    Optional,
}

#[derive(Debug)]
pub(super) enum Shape {
    Text,
    /// Text that matches this pattern.
    Form(&'static str),
    /// Text, a number, true or false, as written.
    Scalar,
    Flag,
    /// True or false, but only one of them.
    Only(bool),
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A positive number.
    Amount,
    Duration,
    /// An amount of memory or disk.
    Size,
    Choice(&'static [&'static str]),
    List(&'static Shape),
    Map {
        names: &'static str,
        of: &'static Shape,
    },
    Record(&'static Record),
    Any(&'static [Shape]),
    Anything,
}

pub(super) const fn required_key(name: &'static str, shape: Shape, about: &'static str) -> ShapeKey {
    ShapeKey { name, about, need: Need::Required, shape }
}

pub(super) const fn optional_key(name: &'static str, shape: Shape, about: &'static str) -> ShapeKey {
    ShapeKey { name, about, need: Need::Optional, shape }
}

impl Record {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }

    /// Converts to JSON Schema. Nested records are stored in `defs` and referenced.
    pub fn schema(&self, defs: &mut Map<String, Value>) -> Value {
        let mut properties = Map::new();
        for key in self.keys {
            let shape = match (key.need, key.shape.schema(defs)) {
                (Need::Required, shape) => with_description(shape, key.about),
                (Need::Optional, shape) => json!({"anyOf": [shape, {"type": "null"}], "description": key.about}),
            };
            properties.insert(key.name.to_owned(), shape);
        }
        let required: Vec<_> = self.keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name).collect();
        json!({
            "description": self.about,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn reference(&self, defs: &mut Map<String, Value>) -> Value {
        let name = self.name.replace(' ', "_");
        if !defs.contains_key(&name) {
            let schema = self.schema(defs);
            defs.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }
}

impl Shape {
    fn schema(&self, defs: &mut Map<String, Value>) -> Value {
        match self {
            Shape::Text => json!({"type": "string"}),
            Shape::Form(pattern) => json!({"type": "string", "pattern": pattern}),
            Shape::Scalar => json!({"type": ["string", "number", "boolean"]}),
            Shape::Flag => json!({"type": "boolean"}),
            Shape::Only(flag) => json!({"const": flag}),
            Shape::Count(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Shape::Amount => json!({"type": "number", "exclusiveMinimum": 0}),
            Shape::Duration => json!({"type": "string", "pattern": duration::PATTERN}),
            Shape::Size => json!({"type": "string", "pattern": size::PATTERN}),
            Shape::Choice(words) => json!({"type": "string", "enum": words}),
            Shape::List(of) => json!({"type": "array", "items": of.schema(defs)}),
            Shape::Map { names, of } => json!({
                "type": "object",
                "propertyNames": {"pattern": names},
                "additionalProperties": of.schema(defs),
            }),
            Shape::Record(record) => record.reference(defs),
            Shape::Any(shapes) => {
                let shapes: Vec<_> = shapes.iter().map(|shape| shape.schema(defs)).collect();
                json!({"anyOf": shapes})
            }
            Shape::Anything => json!(true),
        }
    }
}

fn with_description(mut schema: Value, about: &str) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), about.into());
    }
    schema
}
