//! Messages that are almost right: others of the corpus, changed where it may hurt. The same seed makes the same message.

use serde_json::{Map, Value, json};

/// Numbers that look like chance (SplitMix64).
pub struct Chance(pub u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is above zero.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn text(&mut self) -> &'static str {
        TEXTS[self.below(TEXTS.len())]
    }

    fn name(&mut self) -> String {
        NAMES[self.below(NAMES.len())].to_owned()
    }
}

/// One message, of the good ones rather than of all: changed as a value if it is one, then perhaps as bytes, then perhaps
/// sent with others.
pub fn mutated(good: &[Vec<u8>], samples: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = if chance.below(4) > 0 { chance.pick(good).clone() } else { chance.pick(samples).clone() };
    if let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) {
        for _ in 0..chance.below(4) {
            match value.as_object_mut() {
                Some(fields) => change_fields(fields, chance),
                None => change(&mut value, chance),
            }
        }
        bytes = value.to_string().into_bytes();
    }
    for _ in 0..[0, 0, 0, 1, 3][chance.below(5)] {
        damage(&mut bytes, samples, chance);
    }
    match chance.below(8) {
        0 => [b"[", bytes.as_slice(), b",", chance.pick(samples).as_slice(), b"]"].concat(),
        1 => [bytes.as_slice(), b"\n", chance.pick(samples).as_slice(), b"\n"].concat(),
        _ => bytes,
    }
}

/// Some place in the value becomes something else, goes away, or gets company.
fn change(value: &mut Value, chance: &mut Chance) {
    let inside = chance.below(4) > 0;
    match value {
        Value::Object(fields) if inside => change_fields(fields, chance),
        Value::Array(entries) if inside && !entries.is_empty() => {
            let index = chance.below(entries.len());
            match chance.below(6) {
                0 => drop(entries.remove(index)),
                1 => entries.push(entries[index].clone()),
                _ => change(&mut entries[index], chance),
            }
        }
        Value::String(text) if inside => text.insert_str(0, chance.text()),
        other => *other = anything(chance),
    }
}

fn change_fields(fields: &mut Map<String, Value>, chance: &mut Chance) {
    let names: Vec<_> = fields.keys().cloned().chain([chance.name()]).collect();
    let name = chance.pick(&names);
    match (chance.below(6), fields.get_mut(name)) {
        (0, Some(_)) => drop(fields.remove(name)),
        (1, _) | (_, None) => drop(fields.insert(chance.name(), anything(chance))),
        (_, Some(field)) => change(field, chance),
    }
}

const NAMES: &[&str] = &[
    "v",
    "id",
    "ts",
    "to",
    "from",
    "type",
    "payload",
    "payload_type",
    "schema_ref",
    "requires",
    "prefers",
    "security",
    "auth",
    "policy",
    "attachments",
    "attempt",
    "meta",
    "trace",
    "parent_task_id",
    "domain",
    "agent_id",
    "code",
    "a/b~c",
    "",
    "\u{0}",
    "é",
    "😀",
];

const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "x.",
    "agent:",
    "group:",
    "person:",
    "task:",
    "run:",
    "thread:",
    "artifact:",
    "schema://clutch/",
    "agent:orchestrator",
    "system",
    "@default",
    "PLAN",
    "BLOCKER",
    "task.timeout",
    "clutch/0.1",
    "clutch/0.2",
    "2026-02-01T13:20:11Z",
    "9999-99-99T99:99:99Z",
    "skill:a@^1.0",
    "skill:a@",
    ".v1",
    "\u{0}",
    "\u{7f}",
    "\u{a0}",
    "\u{feff}",
    "\u{202e}",
    "😀",
    "\u{10ffff}",
    "\u{e000}",
];

fn anything(chance: &mut Chance) -> Value {
    match chance.below(12) {
        0 => Value::Null,
        1 => Value::Bool(true),
        2 => json!(u64::MAX),
        3 => json!(9_007_199_254_740_993_u64),
        4 => json!(f64::from_bits(chance.next())),
        5 => json!(1),
        6 => json!([]),
        7 => json!([{ "agent_id": chance.text() }, chance.text()]),
        8 => Value::Object(Map::from_iter([(chance.name(), json!(chance.text()))])),
        9 => json!(chance.text().repeat(300)),
        10 => (0..chance.below(120)).fold(Value::Null, |inner, _| json!([inner])),
        _ => json!(chance.text()),
    }
}

fn damage(bytes: &mut Vec<u8>, samples: &[Vec<u8>], chance: &mut Chance) {
    if bytes.is_empty() {
        return;
    }
    let at = chance.below(bytes.len());
    let end = at + chance.below((bytes.len() - at).min(16) + 1);
    match chance.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => bytes[at] ^= 1 << chance.below(8),
        3 => bytes.insert(at, *chance.pick(b"{}[]\",:\\/ \n\x00\xff-0eE.u")),
        // Fields that are there twice come about so, too.
        4 => {
            let again = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, again));
        }
        _ => {
            let other = chance.pick(samples);
            let from = chance.below(other.len().max(1)).min(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}
