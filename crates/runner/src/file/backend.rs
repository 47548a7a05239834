//! The backend of an agent, with the keys that belong to it.

use super::cursor::{FileReader, RecordKeys};
use super::fault::{FileFault, InFile};
use super::limits::MAX_COUNT;
use super::script::{Script, Then};
use super::shape::{Record, Shape, optional_key};
use super::template::TextTemplate;

pub(super) const NAMES: &[&str] = &["sdk", "claude", "codex", "cursor", "opencode", "gemini", "command", "mock"];

pub(super) const PROVIDER: Record = Record {
    name: "provider",
    about: "The address of the model, and its API key.",
    keys: &[
        optional_key("base_url", Shape::Text, "The address of an API compatible with OpenAI's"),
        optional_key(
            "api_key",
            Shape::Form("^\\$[A-Za-z_][A-Za-z0-9_]*$"),
            "$NAME: the environment variable that holds the key",
        ),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub enum Backend {
    /// Rookery's own loop, which calls the API of a model.
    Sdk { provider: Provider, max_tokens: Option<u64> },
    /// A program that is an agent itself.
    Program(AgentProgram),
    /// Any program: prompt in, answer out.
    Command { argv: Vec<TextTemplate> },
    /// Scripted turns.
    Mock { script: Script },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentProgram {
    Claude,
    Codex,
    Cursor,
    Opencode,
    Gemini,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Provider {
    pub base_url: Option<TextTemplate>,
    /// The name of the variable, without its `$`.
    pub api_key: Option<InFile<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BackendKind {
    Sdk,
    Program(AgentProgram),
    Command,
    Mock,
}

const KINDS: [(&str, BackendKind); 8] = [
    ("sdk", BackendKind::Sdk),
    ("claude", BackendKind::Program(AgentProgram::Claude)),
    ("codex", BackendKind::Program(AgentProgram::Codex)),
    ("cursor", BackendKind::Program(AgentProgram::Cursor)),
    ("opencode", BackendKind::Program(AgentProgram::Opencode)),
    ("gemini", BackendKind::Program(AgentProgram::Gemini)),
    ("command", BackendKind::Command),
    ("mock", BackendKind::Mock),
];

/// RecordKeys that belong to one backend.
const OWN: [(&str, BackendKind); 4] = [
    ("command", BackendKind::Command),
    ("script", BackendKind::Mock),
    ("provider", BackendKind::Sdk),
    ("max_tokens", BackendKind::Sdk),
];

impl AgentProgram {
    pub fn as_str(self) -> &'static str {
        match self {
            AgentProgram::Claude => "claude",
            AgentProgram::Codex => "codex",
            AgentProgram::Cursor => "cursor",
            AgentProgram::Opencode => "opencode",
            AgentProgram::Gemini => "gemini",
        }
    }

    /// The possible names of the executable, the usual one first.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            AgentProgram::Cursor => &["cursor-agent", "agent"],
            AgentProgram::Claude => &["claude"],
            AgentProgram::Codex => &["codex"],
            AgentProgram::Opencode => &["opencode"],
            AgentProgram::Gemini => &["gemini"],
        }
    }
}

impl Backend {
    pub fn as_str(&self) -> &'static str {
        match self {
            Backend::Sdk { .. } => "sdk",
            Backend::Program(program) => program.as_str(),
            Backend::Command { .. } => "command",
            Backend::Mock { .. } => "mock",
        }
    }

    pub(super) fn read(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Option<Backend> {
        let word = match keys.get("backend") {
            Some(field) => field.choice(reader, &KINDS)?,
            None => BackendKind::Sdk,
        };
        check_foreign_keys(keys, word, reader);
        match word {
            BackendKind::Sdk => {
                if keys.lacks("model") {
                    let fault = FileFault::new(&keys.place, "`model` is missing");
                    reader.fault(fault.hint(
                        "such as `model: anthropic/claude-sonnet-4-5`; with another `backend`, such as claude, none is needed",
                    ));
                }
                let provider = keys.get("provider").and_then(|field| field.record(reader, &PROVIDER));
                let provider = provider.map(|keys| Provider::read(&keys, reader)).unwrap_or_default();
                let max_tokens = keys.get("max_tokens").and_then(|field| field.count(reader, 1, MAX_COUNT));
                Some(Backend::Sdk { provider, max_tokens })
            }
            BackendKind::Program(program) => Some(Backend::Program(program)),
            BackendKind::Command => Some(Backend::Command { argv: argv(keys, reader) }),
            BackendKind::Mock => Some(Backend::Mock { script: script(keys, reader) }),
        }
    }
}

impl Provider {
    fn read(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Provider {
        let base_url = keys.get("base_url").and_then(|field| field.template(reader));
        let api_key = keys.get("api_key").and_then(|field| {
            let text = field.as_text().unwrap_or_default();
            if let Some(name) = parse_variable_reference(text) {
                return Some(InFile { value: name.to_owned(), place: field.place.clone() });
            }
            // The value may be a key, so it is not shown.
            let fault = FileFault::new(&field.place, "must name an environment variable, as `$NAME`");
            reader.fault(fault.hint("do not write a key into the file; put it into the environment"));
            None
        });
        Provider { base_url, api_key }
    }
}

/// Parses `$NAME` into its name.
pub(super) fn parse_variable_reference(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| super::setup::is_name(name))
}

/// Reports keys of other backends.
fn check_foreign_keys(keys: &RecordKeys<'_>, chosen: BackendKind, reader: &mut FileReader<'_>) {
    for (name, owner) in OWN.into_iter().filter(|(_, owner)| *owner != chosen) {
        let Some(key) = keys.key(name) else { continue };
        let name = |wanted: BackendKind| KINDS.iter().find(|(_, kind)| *kind == wanted).map_or("", |(name, _)| name);
        let fault =
            FileFault::new(key, format!("belongs to the backend `{}`, but this is `{}`", name(owner), name(chosen)));
        reader.fault(fault.hint(format!("write `backend: {}` or remove the key", name(owner))));
    }
}

/// Reads the command as far as possible, so that the rest of the agent can be checked too.
fn argv(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Vec<TextTemplate> {
    if keys.lacks("command") {
        let fault = FileFault::new(&keys.place, "`command` is missing");
        reader.fault(fault.hint("the program and its arguments, such as `command: [python3, agent.py]`"));
    }
    let Some(field) = keys.get("command") else { return Vec::new() };
    if field.is_text() {
        let fault = FileFault::new(&field.place, "must be a list of the program and its arguments")
            .found(field.describe(reader));
        reader.fault(fault.hint("such as [python3, agent.py]; for a line of shell, [sh, -c, \"…\"]"));
        return Vec::new();
    }
    let argv: Vec<TextTemplate> = field.list(reader).iter().filter_map(|item| item.template(reader)).collect();
    if field.is_list() && argv.first().is_none_or(TextTemplate::is_blank) {
        reader.fault(FileFault::new(&field.place, "has no program"));
    }
    argv
}

/// Reads the script as far as possible, as [`argv`] does.
fn script(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Script {
    if keys.lacks("script") {
        let fault = FileFault::new(&keys.place, "`script` is missing");
        reader.fault(fault.hint("a mock agent follows its script, such as `script: [{say: done}]`"));
    }
    let read = keys.get("script").and_then(|field| Script::read(field, reader));
    read.unwrap_or(Script { turns: Vec::new(), then: Then::Pass })
}
