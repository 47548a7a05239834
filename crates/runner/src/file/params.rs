//! Parameters of a workflow, given on the command line: `rookery check FILE -- --pr 12`.

use std::collections::BTreeMap;

use super::cursor::{Field, FileReader, RecordKeys};
use super::fault::{FileFault, InFile};
use super::near::nearest;
use super::setup;
use super::shape::{Record, Shape, optional_key, required_key};

pub(super) const RECORD: Record = Record {
    name: "parameter",
    about: "A parameter, given on the command line after `--` and used as ${{ params.NAME }}.",
    keys: &[
        required_key("name", Shape::Form(setup::NAME), "Its name: --name on the command line"),
        optional_key("description", Shape::Text, "Its purpose"),
        optional_key("type", Shape::Choice(&["string", "number", "boolean"]), "Its type; string if absent"),
        optional_key("short", Shape::Form("^[A-Za-z0-9]$"), "One letter for -x on the command line"),
        optional_key("required", Shape::Flag, "Whether it is required; false if absent"),
        optional_key("default", Shape::Scalar, "Its default value; empty if absent"),
    ],
};

const KINDS: [(&str, ParamKind); 3] =
    [("string", ParamKind::Text), ("number", ParamKind::Number), ("boolean", ParamKind::Flag)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    Text,
    Number,
    Flag,
}

#[derive(Clone, PartialEq, Debug)]
pub struct WorkflowParam {
    pub name: InFile<String>,
    pub description: Option<String>,
    pub kind: ParamKind,
    pub short: Option<InFile<char>>,
    pub required: bool,
    pub default: Option<String>,
}

impl ParamKind {
    fn accepts(self, value: &str) -> bool {
        match self {
            ParamKind::Text => true,
            ParamKind::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            ParamKind::Flag => matches!(value, "true" | "false"),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            ParamKind::Text => "text",
            ParamKind::Number => "a number",
            ParamKind::Flag => "true or false",
        }
    }
}

impl WorkflowParam {
    pub(super) fn read_all(field: &Field<'_>, reader: &mut FileReader<'_>) -> Vec<WorkflowParam> {
        let mut all: Vec<WorkflowParam> = Vec::new();
        for item in field.list(reader) {
            let Some(param) = item.record(reader, &RECORD).and_then(|keys| read(&keys, reader)) else { continue };
            if all.iter().any(|other| other.name.value == param.name.value) {
                let message = format!("another parameter has the name `{}` too", param.name.value);
                reader.fault(FileFault::new(&param.name.place, message));
            }
            let taken =
                |short: &&InFile<char>| all.iter().filter_map(|p| p.short.as_ref()).any(|o| o.value == short.value);
            if let Some(short) = param.short.as_ref().filter(taken) {
                reader.fault(FileFault::new(
                    &short.place,
                    format!("another parameter has the short name `-{}` too", short.value),
                ));
            }
            all.push(param);
        }
        all
    }

    /// The value if it is not given; `None` if it is required.
    pub fn default_value(&self) -> Option<String> {
        match (&self.default, self.required, self.kind) {
            (Some(default), ..) => Some(default.clone()),
            (None, true, _) => None,
            (None, false, ParamKind::Flag) => Some("false".to_owned()),
            (None, false, _) => Some(String::new()),
        }
    }
}

fn read(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Option<WorkflowParam> {
    let kind = keys.get("type").and_then(|field| field.choice(reader, &KINDS)).unwrap_or(ParamKind::Text);
    let default = keys.get("default").and_then(|field| {
        let default = field.scalar(reader)?;
        if !kind.accepts(&default.value) {
            field.wrong(reader, format!("must be {}, according to `type`", kind.expected()));
        }
        Some(default)
    });
    let required = keys.get("required").and_then(|field| field.flag(reader)).unwrap_or(false);
    if let Some(default) = default.as_ref().filter(|_| required) {
        let fault = FileFault::new(&default.place, "a required parameter cannot have a default");
        reader.fault(fault.hint("remove `required` or `default`"));
    }
    let short = keys.get("short").and_then(|field| short(field, reader));
    let description = keys.get("description").and_then(|field| field.text(reader)).map(|text| text.value);
    let field = keys.get("name")?;
    let name = field.text(reader)?;
    if !setup::is_name(&name.value) {
        field.wrong(reader, "must consist of letters, digits and `_`, and not begin with a digit");
        return None;
    }
    Some(WorkflowParam { name, description, kind, short, required, default: default.map(|default| default.value) })
}

fn short(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<InFile<char>> {
    // Only text: `short: 5` would be as clear as `short: "5"`, but the schema for editors rejects it.
    let text = field.text(reader)?;
    let mut chars = text.value.chars();
    match (chars.next().filter(char::is_ascii_alphanumeric), chars.next()) {
        (Some(c), None) => Some(InFile { value: c, place: text.place }),
        _ => {
            field.wrong(reader, "must be one letter or digit");
            None
        }
    }
}

/// An error in the command-line arguments for parameters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArgumentError {
    #[error("there is no parameter `{argument}`{}", hint(.nearest.as_deref()))]
    Unknown { argument: String, nearest: Option<String> },
    #[error("`{argument}` is not a parameter: write `--NAME VALUE`")]
    Stray { argument: String },
    #[error("`--{name}` has no value")]
    NoValue { name: String },
    #[error("`--{name}` must be {expected}, not `{value}`")]
    WrongType { name: String, expected: &'static str, value: String },
    #[error("`--{name}` is given twice")]
    Twice { name: String },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `--{nearest}`?")).unwrap_or_default()
}

/// Parses the arguments after `--` into values of parameters: `--name value`, `--name=value`, `-x value`; a boolean needs no
/// value. Names may be written with `-` for `_`.
pub fn parse_arguments(
    params: &[WorkflowParam],
    arguments: &[String],
) -> Result<BTreeMap<String, String>, ArgumentError> {
    let mut values = BTreeMap::new();
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let param = find(params, name)?;
        let value = match (inline, param.kind) {
            (Some(value), _) => value,
            (None, ParamKind::Flag) => match arguments.next_if(|next| ParamKind::Flag.accepts(next)) {
                Some(value) => value.clone(),
                None => "true".to_owned(),
            },
            (None, _) => {
                arguments.next().cloned().ok_or_else(|| ArgumentError::NoValue { name: param.name.value.clone() })?
            }
        };
        let name = param.name.value.clone();
        if !param.kind.accepts(&value) {
            return Err(ArgumentError::WrongType { name, expected: param.kind.expected(), value });
        }
        if values.insert(name.clone(), value).is_some() {
            return Err(ArgumentError::Twice { name });
        }
    }
    Ok(values)
}

fn find<'a>(params: &'a [WorkflowParam], argument: &str) -> Result<&'a WorkflowParam, ArgumentError> {
    let found = if let Some(name) = argument.strip_prefix("--") {
        params.iter().find(|param| param.name.value == name.replace('-', "_"))
    } else if let Some(short) = argument.strip_prefix('-') {
        params.iter().find(|param| param.short.as_ref().is_some_and(|own| short == own.value.to_string()))
    } else {
        return Err(ArgumentError::Stray { argument: argument.to_owned() });
    };
    let names = || params.iter().map(|param| param.name.value.as_str());
    found.ok_or_else(|| ArgumentError::Unknown {
        argument: argument.to_owned(),
        nearest: nearest(argument.trim_start_matches('-'), names()).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::fault::SourceLocation;

    fn param(name: &str, kind: ParamKind, short: char) -> WorkflowParam {
        let place = SourceLocation { file: "a".into(), line: 1, column: 1, path: String::new() };
        WorkflowParam {
            name: InFile { value: name.to_owned(), place: place.clone() },
            description: None,
            kind,
            short: Some(InFile { value: short, place }),
            required: false,
            default: None,
        }
    }

    fn parse(line: &str) -> Result<String, String> {
        let params = [
            param("pr", ParamKind::Number, 'p'),
            param("dry_run", ParamKind::Flag, 'd'),
            param("title", ParamKind::Text, 't'),
        ];
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let values = parse_arguments(&params, &arguments).map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn arguments_are_parsed_by_parameter() {
        for (line, values) in [
            ("", ""),
            ("--pr 12", "pr=12"),
            ("-p 12 -d", "dry_run=true pr=12"),
            ("--dry-run --title x", "dry_run=true title=x"),
            ("--dry_run=false", "dry_run=false"),
            ("-d false --title=a=b", "dry_run=false title=a=b"),
            ("--title --pr", "title=--pr"),
        ] {
            assert_eq!(parse(line).as_deref(), Ok(values), "{line}");
        }
    }

    #[test]
    fn wrong_arguments_are_rejected() {
        for (line, message) in [
            ("--rp 1", "there is no parameter `--rp`; did you mean `--pr`?"),
            ("12", "`12` is not a parameter: write `--NAME VALUE`"),
            ("--pr", "`--pr` has no value"),
            ("--pr many", "`--pr` must be a number, not `many`"),
            ("--dry-run=maybe", "`--dry_run` must be true or false, not `maybe`"),
            ("-p 1 --pr 2", "`--pr` is given twice"),
        ] {
            assert_eq!(parse(line), Err(message.to_owned()), "{line}");
        }
    }
}
