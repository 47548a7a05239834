//! Replaces everything in an outcome that differs from run to run: minted ids, times, positions, hashes, scene marks.

use regex::Regex;
use serde_json::Value;

use crate::drivers::clutch;
use crate::scene::Scene;

/// Fields that hold a position of the log.
const POSITIONS: [&str; 4] = ["fence", "seq", "position", "grant"];

/// The machine and folder of a daemon. Only stores that several daemons share record it.
const SITE: &str = "site";

/// Milliseconds since 1970 that are certainly a time.
const EARLIEST_TIME: i64 = 1_600_000_000_000;

pub struct Normaliser<'a> {
    scene: &'a Scene,
    /// The id of the envelope that performs the act: another surface mints it.
    envelope: String,
    minted: Regex,
    /// Ids in the order of their appearance; the second of a kind gets a number.
    seen: Vec<(String, String)>,
}

impl Normaliser<'_> {
    pub fn new(scene: &Scene) -> Normaliser<'_> {
        let minted = Regex::new(r"\b([a-z]{2,6})(?:_[0-9a-z]{10,}(?:_[0-9a-f]+)?|-[0-9]{9,}-[0-9]+)\b").unwrap();
        Normaliser { scene, envelope: clutch::message_id(scene), minted, seen: vec![] }
    }

    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Number(number) if number.as_i64().is_some_and(|number| number >= EARLIEST_TIME) => {
                *value = "<time>".into();
            }
            Value::Array(entries) => entries.iter_mut().for_each(|entry| self.value(entry)),
            Value::Object(fields) => {
                fields.remove(SITE);
                for (name, field) in fields {
                    if POSITIONS.contains(&name.as_str()) && field.is_number() {
                        *field = "<position>".into();
                    }
                    self.value(field);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub fn text(&mut self, text: &str) -> String {
        let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash {
            return "<hash>".into();
        }
        if text == self.envelope {
            return "<new msg>".into();
        }
        let labels = self.scene.labels.iter();
        let labelled = labels.fold(text.to_owned(), |text, (id, label)| text.replace(id.as_str(), label));
        let own = labelled.replace(self.scene.mark(), "");
        let minted = self.minted.clone();
        minted.replace_all(&own, |found: &regex::Captures<'_>| self.placeholder(&found[0], &found[1])).into_owned()
    }

    fn placeholder(&mut self, id: &str, prefix: &str) -> String {
        if let Some((_, placeholder)) = self.seen.iter().find(|(seen, _)| seen == id) {
            return placeholder.clone();
        }
        // REST and MCP begin the ids of their tasks differently.
        let kind = if prefix == "tk" { "task" } else { prefix };
        let name = format!("<new {kind}");
        let same_kind = self.seen.iter().filter(|(_, placeholder)| placeholder.starts_with(&name)).count();
        let placeholder = if same_kind == 0 { format!("{name}>") } else { format!("{name} {}>", same_kind + 1) };
        self.seen.push((id.to_owned(), placeholder.clone()));
        placeholder
    }
}
