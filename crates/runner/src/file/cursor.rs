//! Reading the parts of a tree as what they should be. What is something else becomes a fault, and the reading goes on.

use std::sync::Arc;

use serde_json::Number;

use super::duration;
use super::fault::{At, Fault, Faults, SourceLocation};
use super::near::nearest;
use super::shape::{Need, Record};
use super::size;
use super::template::{self, Template};
use super::yaml::{Node, Value};

/// The text that is read, and what was found to be wrong with it.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub file: Arc<str>,
    pub text: &'a str,
    pub faults: Faults,
}

/// One value of the file.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    node: &'a Node,
    pub place: SourceLocation,
}

/// The values of a mapping with known keys.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    pub place: SourceLocation,
    fields: Vec<(&'static str, SourceLocation, Field<'a>)>,
    /// Keys that unknown ones were taken for: they are not missing, they are misspelt.
    meant: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// The value of a key; a key with nothing behind it counts as absent.
    pub fn get(&self, name: &str) -> Option<&Field<'a>> {
        self.fields.iter().find(|(key, ..)| *key == name).map(|(.., field)| field)
    }

    /// Where a key itself stands.
    pub fn key(&self, name: &str) -> Option<&SourceLocation> {
        self.fields.iter().find(|(key, ..)| *key == name).map(|(_, place, _)| place)
    }

    /// Whether a key is neither there nor misspelt.
    pub fn lacks(&self, name: &str) -> bool {
        self.get(name).is_none() && !self.meant.contains(&name)
    }

    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(key, ..)| *key)
    }
}

impl<'a> Reader<'a> {
    pub fn root(&self, node: &'a Node) -> Field<'a> {
        Field { node, place: self.place(node, String::new()) }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    fn place(&self, node: &Node, path: String) -> SourceLocation {
        SourceLocation { file: self.file.clone(), line: node.line, column: node.column, path }
    }

    /// What was written, if it is known.
    fn written(&self, node: &Node) -> Option<&'a str> {
        self.text.get(node.span.clone()).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The places of all openings of a text, if they can be told.
    fn openings(&self, node: &Node, text: &str, path: &str) -> Vec<SourceLocation> {
        let Some(source) = self.text.get(node.span.clone()) else { return Vec::new() };
        let found: Vec<usize> = template::openings(source).collect();
        if found.len() != template::openings(text).count() {
            return Vec::new();
        }
        let offsets = found.into_iter().map(|at| node.span.start + at);
        places(self.text, offsets, &self.file, path)
    }
}

/// The places of some bytes of a text, which are in order, in one pass over it.
pub(super) fn places(
    text: &str,
    offsets: impl Iterator<Item = usize>,
    file: &Arc<str>,
    path: &str,
) -> Vec<SourceLocation> {
    let (mut line, mut column, mut done) = (1, 1, 0);
    let place = |offset: usize| {
        for letter in text.get(done..offset).unwrap_or_default().chars() {
            (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
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

    /// The text, if it is one; says nothing if it is not.
    pub fn as_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What stands here, for a fault.
    pub fn shown(&self, reader: &Reader<'_>) -> String {
        match &self.node.value {
            Value::Text(text) => format!("`{}`", text.trim_end()),
            Value::Null => "nothing".to_owned(),
            value @ (Value::List(_) | Value::Map(_)) => value.kind().to_owned(),
            value => match reader.written(self.node) {
                Some(written) => format!("`{written}`"),
                None => value.kind().to_owned(),
            },
        }
    }

    pub fn wrong(&self, reader: &mut Reader<'_>, message: impl Into<String>) {
        let fault = Fault::new(&self.place, message).found(self.shown(reader));
        reader.fault(fault);
    }

    pub fn text(&self, reader: &mut Reader<'_>) -> Option<At<String>> {
        match &self.node.value {
            Value::Text(text) => Some(At { value: text.clone(), place: self.place.clone() }),
            Value::Number(_) | Value::Flag(_) => {
                let fault = Fault::new(&self.place, "must be text").found(self.shown(reader));
                reader.fault(fault.hint("put it in quotes"));
                None
            }
            _ => {
                self.wrong(reader, "must be text");
                None
            }
        }
    }

    pub fn template(&self, reader: &mut Reader<'_>) -> Option<Template> {
        let text = self.text(reader)?;
        let places = reader.openings(self.node, &text.value, &text.place.path);
        Some(Template::read(&text.value, text.place, &places, &mut reader.faults))
    }

    /// Text, a number, true or false, as it is written.
    pub fn scalar(&self, reader: &mut Reader<'_>) -> Option<At<String>> {
        let value = match &self.node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => reader.written(self.node).map_or_else(|| number.to_string(), str::to_owned),
            Value::Flag(flag) => flag.to_string(),
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong(reader, "must be text, a number, true or false");
                return None;
            }
        };
        Some(At { value, place: self.place.clone() })
    }

    pub fn flag(&self, reader: &mut Reader<'_>) -> Option<bool> {
        let flag = self.flag_value();
        if flag.is_none() {
            self.wrong(reader, "must be true or false");
        }
        flag
    }

    pub fn count(&self, reader: &mut Reader<'_>, least: u64, most: u64) -> Option<u64> {
        let count = self.number().and_then(Number::as_u64).filter(|count| (least..=most).contains(count));
        if count.is_none() {
            self.wrong(reader, format!("must be a whole number from {least} to {most}"));
        }
        count
    }

    /// A number above nothing.
    pub fn amount(&self, reader: &mut Reader<'_>) -> Option<f64> {
        let amount = self.number().and_then(Number::as_f64).filter(|amount| *amount > 0.0);
        if amount.is_none() {
            self.wrong(reader, "must be a number above 0");
        }
        amount
    }

    pub fn duration(&self, reader: &mut Reader<'_>) -> Option<std::time::Duration> {
        let length = self.as_text().and_then(duration::parse);
        if length.is_none() {
            self.wrong(reader, duration::EXPECTED);
        }
        length
    }

    /// A number of bytes.
    pub fn size(&self, reader: &mut Reader<'_>) -> Option<u64> {
        let bytes = self.as_text().and_then(size::parse);
        if bytes.is_none() {
            self.wrong(reader, size::EXPECTED);
        }
        bytes
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, reader: &mut Reader<'_>, words: &[(&'static str, T)]) -> Option<T> {
        let said = self.as_text();
        let found = said.and_then(|said| words.iter().find(|(word, _)| *word == said));
        if found.is_none() {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let fault =
                Fault::new(&self.place, format!("must be one of {}", names.join(", "))).found(self.shown(reader));
            reader.fault(fault.meant(said.and_then(|said| nearest(said, names))));
        }
        found.map(|(_, value)| *value)
    }

    pub fn list(&self, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
        let Value::List(items) = &self.node.value else {
            self.wrong(reader, "must be a list");
            return Vec::new();
        };
        let item = |(at, node): (usize, &'a Node)| Field {
            node,
            place: reader.place(node, format!("{}[{at}]", self.place.path)),
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a mapping whose keys are names that the file gives.
    pub fn entries(&self, reader: &mut Reader<'_>) -> Vec<(At<String>, Field<'a>)> {
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

    /// The keys of a mapping, as far as they can be names; says nothing about others.
    pub fn names(&self) -> Vec<String> {
        let Value::Map(entries) = &self.node.value else { return Vec::new() };
        let name = |(key, _): &(Node, Node)| match &key.value {
            Value::Text(name) => Some(name.clone()),
            Value::Flag(flag) => Some(flag.to_string()),
            _ => None,
        };
        entries.iter().filter_map(name).collect()
    }

    /// The values of a mapping whose keys are known. Unknown and missing ones are told.
    pub fn record(&self, reader: &mut Reader<'_>, record: &'static Record) -> Option<Keys<'a>> {
        if !self.is_map() {
            self.wrong(reader, format!("must be a mapping with {}", list_of(record)));
            return None;
        }
        let (mut fields, mut meant) = (Vec::new(), Vec::new());
        for (key, field) in self.entries(reader) {
            match record.names().find(|name| *name == key.value) {
                Some(_) if field.node.value == Value::Null => {}
                Some(name) => fields.push((name, key.place, field)),
                None => meant.extend(unknown_key(reader, &key, record)),
            }
        }
        let keys = Keys { place: self.place.clone(), fields, meant };
        for key in record.keys.iter().filter(|key| key.need == Need::Required && keys.lacks(key.name)) {
            reader.fault(Fault::new(&self.place, format!("`{}` is missing", key.name)));
        }
        Some(keys)
    }

    /// Whatever stands here, with its texts taken apart.
    pub fn argument(&self, reader: &mut Reader<'_>) -> Option<Argument> {
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
    Text(Template),
    List(Vec<Argument>),
    Map(Vec<(String, Argument)>),
}

impl Argument {
    /// Every text in it.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Argument::Plain(_) => Vec::new(),
            Argument::Text(template) => vec![template],
            Argument::List(items) => items.iter().flat_map(Argument::templates).collect(),
            Argument::Map(entries) => entries.iter().flat_map(|(_, value)| value.templates()).collect(),
        }
    }
}

/// Tells a key that is not known, and which one was probably meant.
fn unknown_key(reader: &mut Reader<'_>, key: &At<String>, record: &'static Record) -> Option<&'static str> {
    let mut meant = None;
    reader.faults.add_with(|| {
        let fault = Fault::new(&key.place, format!("there is no key `{}` here", key.value));
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

/// The path of an entry; a name that would not be told from the path is put in brackets.
fn below(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (path, plain) {
        ("", true) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{:?}]", name.chars().take(60).collect::<String>()),
    }
}
