//! Surveys a schema before it is compiled: its references, and the work that it can cause.
//!
//! Some keywords apply further schemas to the same value: a reference, `allOf`, `if`. If those formed a cycle, or fanned out
//! again and again, the check of one value would never end; so both are bounded. Keywords that descend to a part of the value,
//! such as `properties`, end with the value.

use std::collections::BTreeMap;

use rookery_core::model::violation::pointer_below as below;
use serde_json::{Map, Value};

use super::SchemaFault;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The longest chain of schemas that apply to one value, each because of the previous one.
const MAX_CHAIN: usize = 32;
/// The most schemas that apply to one value.
const MAX_APPLIED: u64 = 5_000;

/// Rejects a schema with endless or excessive references, or references to other documents.
pub(super) fn survey(schema: &Value) -> Result<(), SchemaFault> {
    let mut survey = Survey::default();
    survey.visit(schema, String::new())?;
    let mut seen = BTreeMap::new();
    for pointer in survey.schemas.keys() {
        survey.count_applied(pointer, 1, &mut seen)?;
    }
    Ok(())
}

#[derive(Default)]
struct Survey {
    /// Every schema in the document by its pointer, with those that it applies to the same value.
    schemas: BTreeMap<String, Vec<Applied>>,
    /// Pointers by anchor.
    anchors: BTreeMap<String, String>,
}

/// A schema that applies because of another.
enum Applied {
    Inside(String),
    /// By a reference, as written, at this pointer.
    Named {
        reference: String,
        at: String,
    },
}

/// The progress of counting the schemas that a schema applies.
#[derive(Clone, Copy)]
enum CountState {
    InProgress,
    Done { chain: usize, applied: u64 },
}

impl Survey {
    fn visit(&mut self, schema: &Value, pointer: String) -> Result<(), SchemaFault> {
        let mut applied = Vec::new();
        if let Value::Object(fields) = schema {
            for (keyword, value) in fields {
                let at = below(&pointer, keyword);
                match keyword.as_str() {
                    "$ref" | "$dynamicRef" => applied.push(reference(value, at)?),
                    "$schema" => check_draft(value, &pointer, at)?,
                    "$id" if !pointer.is_empty() => {
                        return Err(SchemaFault::new(at, "a schema within a schema has no $id; name it by $anchor"));
                    }
                    "$anchor" | "$dynamicAnchor" => {
                        if let Some(name) = value.as_str() {
                            self.anchors.insert(name.to_owned(), pointer.clone());
                        }
                    }
                    "allOf" | "anyOf" | "oneOf" => {
                        for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                            let at = format!("{at}/{index}");
                            applied.push(Applied::Inside(at.clone()));
                            self.visit(entry, at)?;
                        }
                    }
                    "not" | "if" | "then" | "else" => {
                        applied.push(Applied::Inside(at.clone()));
                        self.visit(value, at)?;
                    }
                    "dependentSchemas" | "dependencies" => {
                        for (name, entry) in object(value).filter(|(_, entry)| is_schema(entry)) {
                            let at = below(&at, name);
                            applied.push(Applied::Inside(at.clone()));
                            self.visit(entry, at)?;
                        }
                    }
                    "prefixItems" => {
                        for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
                            self.visit(entry, format!("{at}/{index}"))?;
                        }
                    }
                    "properties" | "patternProperties" | "$defs" | "definitions" => {
                        for (name, entry) in object(value) {
                            self.visit(entry, below(&at, name))?;
                        }
                    }
                    "additionalProperties"
                    | "unevaluatedProperties"
                    | "propertyNames"
                    | "items"
                    | "contains"
                    | "unevaluatedItems"
                    | "contentSchema"
                    | "additionalItems" => self.visit(value, at)?,
                    _ => {}
                }
            }
        }
        self.schemas.insert(pointer, applied);
        Ok(())
    }

    /// Counts the schemas that apply because of a schema: the longest chain, and all of them.
    fn count_applied(
        &self,
        pointer: &str,
        depth: usize,
        seen: &mut BTreeMap<String, CountState>,
    ) -> Result<(usize, u64), SchemaFault> {
        let too_long = || {
            let message = format!("more than {MAX_CHAIN} schemas apply to one value, one after the other");
            SchemaFault::new(pointer, message)
        };
        match seen.get(pointer) {
            Some(CountState::InProgress) => {
                return Err(SchemaFault::new(pointer, "refers to itself without going on to a part of the value"));
            }
            Some(CountState::Done { chain, applied }) if depth + chain <= MAX_CHAIN => return Ok((*chain, *applied)),
            Some(CountState::Done { .. }) => return Err(too_long()),
            None if depth > MAX_CHAIN => return Err(too_long()),
            None => {}
        }
        seen.insert(pointer.to_owned(), CountState::InProgress);
        let (mut chain, mut all) = (0, 1_u64);
        for next in self.schemas.get(pointer).into_iter().flatten() {
            let (longest, applied) = self.count_applied(self.target(next)?, depth + 1, seen)?;
            chain = chain.max(longest);
            all = all.saturating_add(applied);
        }
        if all > MAX_APPLIED {
            return Err(SchemaFault::new(
                pointer,
                format!("too many schemas apply to one value: more than {MAX_APPLIED}"),
            ));
        }
        seen.insert(pointer.to_owned(), CountState::Done { chain: chain + 1, applied: all });
        Ok((chain + 1, all))
    }

    fn target<'a>(&'a self, applied: &'a Applied) -> Result<&'a str, SchemaFault> {
        let (reference, at) = match applied {
            Applied::Inside(pointer) => return Ok(pointer),
            Applied::Named { reference, at } => (reference, at),
        };
        let found = match reference.is_empty() || reference.starts_with('/') {
            true => self.schemas.get_key_value(reference).map(|(pointer, _)| pointer),
            false => self.anchors.get(reference),
        };
        found.map(String::as_str).ok_or_else(|| {
            SchemaFault::new(
                at,
                format!("there is no schema at '#{reference}'; put it under $defs and refer to it there"),
            )
        })
    }
}

fn reference(value: &Value, at: String) -> Result<Applied, SchemaFault> {
    match value.as_str().and_then(|text| text.strip_prefix('#')).and_then(decode_fragment) {
        Some(reference) => Ok(Applied::Named { reference, at }),
        None => Err(SchemaFault::new(
            at,
            "must be a reference within this schema, like '#/$defs/name'; nothing is fetched from elsewhere",
        )),
    }
}

fn check_draft(value: &Value, pointer: &str, at: String) -> Result<(), SchemaFault> {
    if !pointer.is_empty() {
        return Err(SchemaFault::new(at, "stands only at the top of a schema"));
    }
    match value.as_str().map(|text| text.strip_suffix('#').unwrap_or(text)) {
        Some(DRAFT) => Ok(()),
        _ => Err(SchemaFault::new(at, format!("must be '{DRAFT}'; leave it out if the schema keeps to that"))),
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Decodes the percent signs of a fragment; `None` if they are invalid.
fn decode_fragment(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_decoded() {
        for (fragment, expected) in [
            ("/$defs/a", Some("/$defs/a")),
            ("/%24defs/a%20b", Some("/$defs/a b")),
            ("%", None),
            ("%zz", None),
            ("%ff", None),
            ("", Some("")),
        ] {
            assert_eq!(decode_fragment(fragment).as_deref(), expected, "{fragment}");
        }
    }
}
