//! Reads the values of a tree with their expected types. A mismatch is reported as a fault, and reading continues.

use std::sync::Arc;

use serde_json::Number;

use super::duration;
use super::fault::{FileFault, FileFaults, InFile, SourceLocation};
use super::near::nearest;
use super::shape::{Need, Record};
use super::size;
use super::template::{self, TextTemplate};
use super::yaml::{Value, YamlNode};

/// The text being read, and the faults found so far.
#[derive(Debug)]
pub(super) struct FileReader<'a> {
    pub file: Arc<str>,
    pub text: &'a str,
    pub faults: FileFaults,
}

/// One value of the file.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    node: &'a YamlNode,
    pub place: SourceLocation,
}

/// The values of a mapping with known keys.
#[derive(Debug)]
pub(super) struct RecordKeys<'a> {
    pub place: SourceLocation,
    fields: Vec<(&'static str, SourceLocation, Field<'a>)>,
    /// RecordKeys that seem misspelt, and so are not reported as missing.
    meant: Vec<&'static str>,
}

impl<'a> RecordKeys<'a> {
    /// The value of a key; a null value counts as absent.
    pub fn get(&self, name: &str) -> Option<&Field<'a>> {
        self.fields.iter().find(|(key, ..)| *key == name).map(|(.., field)| field)
    }

    /// The place of a key itself.
    pub fn key(&self, name: &str) -> Option<&SourceLocation> {
        self.fields.iter().find(|(key, ..)| *key == name).map(|(_, place, _)| place)
    }

    /// Whether a key is neither present nor misspelt.
    pub fn lacks(&self, name: &str) -> bool {
        self.get(name).is_none() && !self.meant.contains(&name)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(key, ..)| *key)
    }
}

impl<'a> FileReader<'a> {
    pub fn root(&self, node: &'a YamlNode) -> Field<'a> {
        Field { node, place: self.place(node, String::new()) }
    }

    pub fn fault(&mut self, fault: FileFault) {
        self.faults.add(fault);
    }

    fn place(&self, node: &YamlNode, path: String) -> SourceLocation {
        SourceLocation { file: self.file.clone(), line: node.line, column: node.column, path }
    }

    /// The source text of a value, if known.
    fn source_text(&self, node: &YamlNode) -> Option<&'a str> {
        self.text.get(node.span.clone()).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The places of all `${{` in a text, if they can be determined.
    fn openings(&self, node: &YamlNode, text: &str, path: &str) -> Vec<SourceLocation> {
        let Some(source) = self.text.get(node.span.clone()) else { return Vec::new() };
        let found: Vec<usize> = template::openings(source).collect();
        if found.len() != template::openings(text).count() {
            return Vec::new();
        }
        let offsets = found.into_iter().map(|at| node.span.start + at);
        places(self.text, offsets, &self.file, path)
    }
}

/// Converts ascending byte offsets of a text into places, in one pass.
pub(super) fn places(
    text: &str,
    offsets: impl Iterator<Item = usize>,
    file: &Arc<str>,
    path: &str,
) -> Vec<SourceLocation> {
    let (mut line, mut column, mut done) = (1, 1, 0);
    let place = |offset: usize| {
        for c in text.get(done..offset).unwrap_or_default().chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        done = done.max(offset);
        SourceLocation { file: file.clone(), line, column, path: path.to_owned() }
    };
    offsets.map(place).collect()
}

impl<'a> Field<'a> {
    pub fn is_text(&self) -> bool {
        matches!(self.node.value, Value::Text(_))
    }

    pub fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    pub fn is_map(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    pub fn flag_value(&self) -> Option<bool> {
        match self.node.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<&'a Number> {
        match &self.node.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text, if it is one. Reports no fault.
    pub fn as_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the value for a fault.
    pub fn describe(&self, reader: &FileReader<'_>) -> String {
        match &self.node.value {
            Value::Text(text) => format!("`{}`", text.trim_end()),
            Value::Null => "nothing".to_owned(),
            value @ (Value::List(_) | Value::Map(_)) => value.kind().to_owned(),
            value => match reader.source_text(self.node) {
                Some(written) => format!("`{written}`"),
                None => value.kind().to_owned(),
            },
        }
    }

    pub fn wrong(&self, reader: &mut FileReader<'_>, message: impl Into<String>) {
        let fault = FileFault::new(&self.place, message).found(self.describe(reader));
        reader.fault(fault);
    }

    pub fn text(&self, reader: &mut FileReader<'_>) -> Option<InFile<String>> {
        match &self.node.value {
            Value::Text(text) => Some(InFile { value: text.clone(), place: self.place.clone() }),
            Value::Number(_) | Value::Flag(_) => {
                let fault = FileFault::new(&self.place, "must be text").found(self.describe(reader));
                reader.fault(fault.hint("put it in quotes"));
                None
            }
            _ => {
                self.wrong(reader, "must be text");
                None
            }
        }
    }

    pub fn template(&self, reader: &mut FileReader<'_>) -> Option<TextTemplate> {
        let text = self.text(reader)?;
        let places = reader.openings(self.node, &text.value, &text.place.path);
        Some(TextTemplate::read(&text.value, text.place, &places, &mut reader.faults))
    }

    /// Text, a number, true or false, as written.
    pub fn scalar(&self, reader: &mut FileReader<'_>) -> Option<InFile<String>> {
        let value = match &self.node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => reader.source_text(self.node).map_or_else(|| number.to_string(), str::to_owned),
            Value::Flag(flag) => flag.to_string(),
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong(reader, "must be text, a number, true or false");
                return None;
            }
        };
        Some(InFile { value, place: self.place.clone() })
    }

    pub fn flag(&self, reader: &mut FileReader<'_>) -> Option<bool> {
        let flag = self.flag_value();
        if flag.is_none() {
            self.wrong(reader, "must be true or false");
        }
        flag
    }

    pub fn count(&self, reader: &mut FileReader<'_>, least: u64, most: u64) -> Option<u64> {
        let count = self.number().and_then(Number::as_u64).filter(|count| (least..=most).contains(count));
        if count.is_none() {
            self.wrong(reader, format!("must be a whole number from {least} to {most}"));
        }
        count
    }

    /// A positive number.
    pub fn amount(&self, reader: &mut FileReader<'_>) -> Option<f64> {
        let amount = self.number().and_then(Number::as_f64).filter(|amount| *amount > 0.0);
        if amount.is_none() {
            self.wrong(reader, "must be a number above 0");
        }
        amount
    }

    pub fn duration(&self, reader: &mut FileReader<'_>) -> Option<std::time::Duration> {
        let length = self.as_text().and_then(duration::parse);
        if length.is_none() {
            self.wrong(reader, duration::EXPECTED);
        }
        length
    }

    /// A number of bytes.
    pub fn size(&self, reader: &mut FileReader<'_>) -> Option<u64> {
        let bytes = self.as_text().and_then(size::parse);
        if bytes.is_none() {
            self.wrong(reader, size::EXPECTED);
        }
        bytes
    }

    /// One of a few names.
    pub fn choice<T: Copy>(&self, reader: &mut FileReader<'_>, choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.as_text();
        let found = text.and_then(|text| choices.iter().find(|(name, _)| *name == text));
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            let fault = FileFault::new(&self.place, format!("must be one of {}", names.join(", ")))
                .found(self.describe(reader));
            reader.fault(fault.meant(text.and_then(|text| nearest(text, names))));
        }
        found.map(|(_, value)| *value)
    }

    pub fn list(&self, reader: &mut FileReader<'_>) -> Vec<Field<'a>> {
        let Value::List(items) = &self.node.value else {
            self.wrong(reader, "must be a list");
            return Vec::new();
        };
        let item = |(at, node): (usize, &'a YamlNode)| Field {
            node,
            place: reader.place(node, format!("{}[{at}]", self.place.path)),
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a mapping with arbitrary names as keys.
    pub fn entries(&self, reader: &mut FileReader<'_>) -> Vec<(InFile<String>, Field<'a>)> {
        let Value::Map(entries) = &self.node.value else {
            self.wrong(reader, "must be a mapping");
            return Vec::new();
        };
        let mut named = Vec::new();
        for (key, value) in entries {
            let key = Field { node: key, place: reader.place(key, self.place.path.clone()) };
            let Some(mut name) = key.scalar(reader) else { continue };
            let path = below(&self.place.path, &name.value);
            name.place.path.clone_from(&path);
            named.push((name, Field { node: value, place: reader.place(value, path) }));
        }
        named
    }

    /// The keys of a mapping that can be names. Reports no fault about others.
    pub fn names(&self) -> Vec<String> {
        let Value::Map(entries) = &self.node.value else { return Vec::new() };
        let name = |(key, _): &(YamlNode, YamlNode)| match &key.value {
            Value::Text(name) => Some(name.clone()),
            Value::Flag(flag) => Some(flag.to_string()),
            _ => None,
        };
        entries.iter().filter_map(name).collect()
    }

    /// The values of a mapping with known keys. Reports unknown and missing keys.
    pub fn record(&self, reader: &mut FileReader<'_>, record: &'static Record) -> Option<RecordKeys<'a>> {
        if !self.is_map() {
            self.wrong(reader, format!("must be a mapping with {}", list_of(record)));
            return None;
        }
        let (mut fields, mut meant) = (Vec::new(), Vec::new());
        for (key, field) in self.entries(reader) {
            match record.names().find(|name| *name == key.value) {
                Some(_) if field.node.value == Value::Null => {}
                Some(name) => fields.push((name, key.place, field)),
                None => meant.extend(report_unknown_key(reader, &key, record)),
            }
        }
        let keys = RecordKeys { place: self.place.clone(), fields, meant };
        for key in record.keys.iter().filter(|key| key.need == Need::Required && keys.lacks(key.name)) {
            reader.fault(FileFault::new(&self.place, format!("`{}` is missing", key.name)));
        }
        Some(keys)
    }

    /// Any value, with its texts parsed as templates.
    pub fn argument(&self, reader: &mut FileReader<'_>) -> Option<Argument> {
        Some(match &self.node.value {
            Value::Null => Argument::Plain(serde_json::Value::Null),
            Value::Flag(flag) => Argument::Plain((*flag).into()),
            Value::Number(number) => Argument::Plain(number.clone().into()),
            Value::Text(_) => Argument::Text(self.template(reader)?),
            Value::List(_) => {
                Argument::List(self.list(reader).iter().filter_map(|item| item.argument(reader)).collect())
            }
            Value::Map(_) => {
                let entries = self.entries(reader);
                Argument::Map(
                    entries
                        .into_iter()
                        .filter_map(|(name, value)| Some((name.value, value.argument(reader)?)))
                        .collect(),
                )
            }
        })
    }
}

/// A value for a tool, whose texts may have variables.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    Plain(serde_json::Value),
    Text(TextTemplate),
    List(Vec<Argument>),
    Map(Vec<(String, Argument)>),
}

impl Argument {
    /// Every text in it.
    pub fn templates(&self) -> Vec<&TextTemplate> {
        match self {
            Argument::Plain(_) => Vec::new(),
            Argument::Text(template) => vec![template],
            Argument::List(items) => items.iter().flat_map(Argument::templates).collect(),
            Argument::Map(entries) => entries.iter().flat_map(|(_, value)| value.templates()).collect(),
        }
    }
}

/// Reports an unknown key. Returns the key that was probably meant.
fn report_unknown_key(
    reader: &mut FileReader<'_>,
    key: &InFile<String>,
    record: &'static Record,
) -> Option<&'static str> {
    let mut meant = None;
    reader.faults.add_with(|| {
        let fault = FileFault::new(&key.place, format!("unknown key `{}`", key.value));
        meant = nearest(&key.value, record.names());
        match meant {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint(format!("the keys are {}", list_of(record))),
        }
    });
    meant
}

fn list_of(record: &Record) -> String {
    record.names().collect::<Vec<_>>().join(", ")
}

/// The path of an entry. A name with special characters is put in brackets.
fn below(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (path, plain) {
        ("", true) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{:?}]", name.chars().take(60).collect::<String>()),
    }
}
