//! What a run can be told on the command line: `rookery check FILE -- --pr 12`.

use std::collections::BTreeMap;

use super::cursor::{Field, Keys, Reader};
use super::fault::{At, Fault};
use super::near::nearest;
use super::setup;
use super::shape::{Record, Shape, optional, required};

pub(super) const RECORD: Record = Record {
    name: "parameter",
    about: "Something that is said on the command line, after `--`, and stands for ${{ params.NAME }}.",
    keys: &[
        required("name", Shape::Form(setup::NAME), "What it is called: --name on the command line"),
        optional("description", Shape::Text, "What it is for"),
        optional("type", Shape::Choice(&["string", "number", "boolean"]), "What it must be; string if absent"),
        optional("short", Shape::Form("^[A-Za-z0-9]$"), "One letter for -x on the command line"),
        optional("required", Shape::Flag, "Whether it must be said; false if absent"),
        optional("default", Shape::Scalar, "What it is if it is not said; empty if absent"),
    ],
};

const KINDS: [(&str, Kind); 3] = [("string", Kind::Text), ("number", Kind::Number), ("boolean", Kind::Flag)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Number,
    Flag,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    pub name: At<String>,
    pub description: Option<String>,
    pub kind: Kind,
    pub short: Option<At<char>>,
    pub required: bool,
    pub default: Option<String>,
}

impl Kind {
    fn takes(self, value: &str) -> bool {
        match self {
            Kind::Text => true,
            Kind::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            Kind::Flag => matches!(value, "true" | "false"),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number => "a number",
            Kind::Flag => "true or false",
        }
    }
}

impl Param {
    pub(super) fn read_all(field: &Field<'_>, reader: &mut Reader<'_>) -> Vec<Param> {
        let mut all: Vec<Param> = Vec::new();
        for item in field.list(reader) {
            let Some(param) = item.record(reader, &RECORD).and_then(|keys| read(&keys, reader)) else { continue };
            if all.iter().any(|other| other.name.value == param.name.value) {
                let message = format!("another parameter is called `{}` too", param.name.value);
                reader.fault(Fault::new(&param.name.place, message));
            }
            let taken = |short: &&At<char>| all.iter().filter_map(|p| p.short.as_ref()).any(|o| o.value == short.value);
            if let Some(short) = param.short.as_ref().filter(taken) {
                reader.fault(Fault::new(&short.place, format!("another parameter is `-{}` too", short.value)));
            }
            all.push(param);
        }
        all
    }

    /// What it is if nobody says it; none if somebody must.
    pub fn unsaid(&self) -> Option<String> {
        match (&self.default, self.required, self.kind) {
            (Some(default), ..) => Some(default.clone()),
            (None, true, _) => None,
            (None, false, Kind::Flag) => Some("false".to_owned()),
            (None, false, _) => Some(String::new()),
        }
    }
}

fn read(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Option<Param> {
    let kind = keys.get("type").and_then(|field| field.choice(reader, &KINDS)).unwrap_or(Kind::Text);
    let default = keys.get("default").and_then(|field| {
        let default = field.scalar(reader)?;
        if !kind.takes(&default.value) {
            field.wrong(reader, format!("must be {}, as `type` says", kind.expected()));
        }
        Some(default)
    });
    let required = keys.get("required").and_then(|field| field.flag(reader)).unwrap_or(false);
    if let Some(default) = default.as_ref().filter(|_| required) {
        let fault = Fault::new(&default.place, "a required parameter has no default");
        reader.fault(fault.hint("take one of `required` and `default` away"));
    }
    let short = keys.get("short").and_then(|field| short(field, reader));
    let description = keys.get("description").and_then(|field| field.text(reader)).map(|text| text.value);
    let field = keys.get("name")?;
    let name = field.text(reader)?;
    if !setup::is_name(&name.value) {
        field.wrong(reader, "must be a name of letters, digits and `_` that begins with no digit");
        return None;
    }
    Some(Param { name, description, kind, short, required, default: default.map(|default| default.value) })
}

fn short(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<At<char>> {
    // `short: 5` is a digit as good as `short: "5"`, but the schema of an editor would not say so.
    let text = field.text(reader)?;
    let mut letters = text.value.chars();
    match (letters.next().filter(char::is_ascii_alphanumeric), letters.next()) {
        (Some(letter), None) => Some(At { value: letter, place: text.place }),
        _ => {
            field.wrong(reader, "must be one letter or digit");
            None
        }
    }
}

/// Why what was said on the command line does not fit the file's parameters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArgumentError {
    #[error("there is no parameter `{said}`{}", hint(.nearest.as_deref()))]
    Unknown { said: String, nearest: Option<String> },
    #[error("`{said}` is no parameter: write `--NAME VALUE`")]
    Stray { said: String },
    #[error("`--{name}` has no value")]
    NoValue { name: String },
    #[error("`--{name}` must be {expected}, not `{value}`")]
    Unfit { name: String, expected: &'static str, value: String },
    #[error("`--{name}` is said twice")]
    Twice { name: String },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `--{nearest}`?")).unwrap_or_default()
}

/// What was said after `--`, by the names of parameters: `--name value`, `--name=value`, `-x value`; a boolean needs no
/// value. Names may be written with `-` for `_`.
pub fn given(params: &[Param], said: &[String]) -> Result<BTreeMap<String, String>, ArgumentError> {
    let mut values = BTreeMap::new();
    let mut said = said.iter().peekable();
    while let Some(word) = said.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let param = find(params, name)?;
        let value = match (inline, param.kind) {
            (Some(value), _) => value,
            (None, Kind::Flag) => match said.next_if(|next| Kind::Flag.takes(next)) {
                Some(value) => value.clone(),
                None => "true".to_owned(),
            },
            (None, _) => {
                said.next().cloned().ok_or_else(|| ArgumentError::NoValue { name: param.name.value.clone() })?
            }
        };
        let name = param.name.value.clone();
        if !param.kind.takes(&value) {
            return Err(ArgumentError::Unfit { name, expected: param.kind.expected(), value });
        }
        if values.insert(name.clone(), value).is_some() {
            return Err(ArgumentError::Twice { name });
        }
    }
    Ok(values)
}

fn find<'a>(params: &'a [Param], said: &str) -> Result<&'a Param, ArgumentError> {
    let found = if let Some(name) = said.strip_prefix("--") {
        params.iter().find(|param| param.name.value == name.replace('-', "_"))
    } else if let Some(short) = said.strip_prefix('-') {
        params.iter().find(|param| param.short.as_ref().is_some_and(|own| short == own.value.to_string()))
    } else {
        return Err(ArgumentError::Stray { said: said.to_owned() });
    };
    let names = || params.iter().map(|param| param.name.value.as_str());
    found.ok_or_else(|| ArgumentError::Unknown {
        said: said.to_owned(),
        nearest: nearest(said.trim_start_matches('-'), names()).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::fault::SourceLocation;

    fn param(name: &str, kind: Kind, letter: char) -> Param {
        let place = SourceLocation { file: "a".into(), line: 1, column: 1, path: String::new() };
        Param {
            name: At { value: name.to_owned(), place: place.clone() },
            description: None,
            kind,
            short: Some(At { value: letter, place }),
            required: false,
            default: None,
        }
    }

    fn said(words: &str) -> Result<String, String> {
        let params =
            [param("pr", Kind::Number, 'p'), param("dry_run", Kind::Flag, 'd'), param("title", Kind::Text, 't')];
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let values = given(&params, &words).map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_said_is_read() {
        for (words, values) in [
            ("", ""),
            ("--pr 12", "pr=12"),
            ("-p 12 -d", "dry_run=true pr=12"),
            ("--dry-run --title x", "dry_run=true title=x"),
            ("--dry_run=false", "dry_run=false"),
            ("-d false --title=a=b", "dry_run=false title=a=b"),
            ("--title --pr", "title=--pr"),
        ] {
            assert_eq!(said(words).as_deref(), Ok(values), "{words}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (words, told) in [
            ("--rp 1", "there is no parameter `--rp`; did you mean `--pr`?"),
            ("12", "`12` is no parameter: write `--NAME VALUE`"),
            ("--pr", "`--pr` has no value"),
            ("--pr many", "`--pr` must be a number, not `many`"),
            ("--dry-run=maybe", "`--dry_run` must be true or false, not `maybe`"),
            ("-p 1 --pr 2", "`--pr` is said twice"),
        ] {
            assert_eq!(said(words), Err(told.to_owned()), "{words}");
        }
    }
}
