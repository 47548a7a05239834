//! What runs an agent, with the fields that only it has.

use super::cursor::{Keys, Reader};
use super::fault::{At, Fault};
use super::limits::MAX_COUNT;
use super::script::{Script, Then};
use super::shape::{Record, Shape, optional};
use super::template::Template;

pub(super) const WORDS: &[&str] = &["sdk", "claude", "codex", "cursor", "opencode", "gemini", "command", "mock"];

pub(super) const PROVIDER: Record = Record {
    name: "provider",
    about: "Where the model is asked, and with which key.",
    keys: &[
        optional("base_url", Shape::Text, "The address of an interface like OpenAI's"),
        optional(
            "api_key",
            Shape::Form("^\\$[A-Za-z_][A-Za-z0-9_]*$"),
            "$NAME: the variable of the environment that holds the key",
        ),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub enum Backend {
    /// Our own loop, against the interface of a model.
    Sdk { provider: Provider, max_tokens: Option<u64> },
    /// A program that is an agent itself.
    Program(AgentProgram),
    /// Any program: prompt in, answer out.
    Command { argv: Vec<Template> },
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
    pub base_url: Option<Template>,
    /// The name of the variable, without its `$`.
    pub api_key: Option<At<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Sdk,
    Program(AgentProgram),
    Command,
    Mock,
}

const KINDS: [(&str, Word); 8] = [
    ("sdk", Word::Sdk),
    ("claude", Word::Program(AgentProgram::Claude)),
    ("codex", Word::Program(AgentProgram::Codex)),
    ("cursor", Word::Program(AgentProgram::Cursor)),
    ("opencode", Word::Program(AgentProgram::Opencode)),
    ("gemini", Word::Program(AgentProgram::Gemini)),
    ("command", Word::Command),
    ("mock", Word::Mock),
];

/// Keys that belong to one backend.
const OWN: [(&str, Word); 4] =
    [("command", Word::Command), ("script", Word::Mock), ("provider", Word::Sdk), ("max_tokens", Word::Sdk)];

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

    /// What the program may be called, the usual name first.
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

    pub(super) fn read(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Option<Backend> {
        let word = match keys.get("backend") {
            Some(field) => field.choice(reader, &KINDS)?,
            None => Word::Sdk,
        };
        not_of_others(keys, word, reader);
        match word {
            Word::Sdk => {
                if keys.lacks("model") {
                    let fault = Fault::new(&keys.place, "`model` is missing");
                    reader.fault(fault.hint(
                        "such as `model: anthropic/claude-sonnet-4-5`; with another `backend`, such as claude, none is needed",
                    ));
                }
                let provider = keys.get("provider").and_then(|field| field.record(reader, &PROVIDER));
                let provider = provider.map(|keys| Provider::read(&keys, reader)).unwrap_or_default();
                let max_tokens = keys.get("max_tokens").and_then(|field| field.count(reader, 1, MAX_COUNT));
                Some(Backend::Sdk { provider, max_tokens })
            }
            Word::Program(program) => Some(Backend::Program(program)),
            Word::Command => Some(Backend::Command { argv: argv(keys, reader) }),
            Word::Mock => Some(Backend::Mock { script: script(keys, reader) }),
        }
    }
}

impl Provider {
    fn read(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Provider {
        let base_url = keys.get("base_url").and_then(|field| field.template(reader));
        let api_key = keys.get("api_key").and_then(|field| {
            let text = field.as_text().unwrap_or_default();
            if let Some(name) = inherited(text) {
                return Some(At { value: name.to_owned(), place: field.place.clone() });
            }
            // What stands there may be a key, so it is not repeated.
            let fault = Fault::new(&field.place, "must name a variable of the environment, as `$NAME`");
            reader.fault(fault.hint("a key has no place in the file: put it into the environment"));
            None
        });
        Provider { base_url, api_key }
    }
}

/// The name in `$NAME`.
pub(super) fn inherited(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| super::setup::is_name(name))
}

/// Tells the keys that mean nothing to the backend that was chosen.
fn not_of_others(keys: &Keys<'_>, chosen: Word, reader: &mut Reader<'_>) {
    for (name, owner) in OWN.into_iter().filter(|(_, owner)| *owner != chosen) {
        let Some(key) = keys.key(name) else { continue };
        let word = |wanted: Word| KINDS.iter().find(|(_, word)| *word == wanted).map_or("", |(word, _)| word);
        let fault =
            Fault::new(key, format!("belongs to the backend `{}`, and this is `{}`", word(owner), word(chosen)));
        reader.fault(fault.hint(format!("say `backend: {}` or take it away", word(owner))));
    }
}

/// What could be read of the command. If that is nothing, the rest of the agent is still worth a look.
fn argv(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Vec<Template> {
    if keys.lacks("command") {
        let fault = Fault::new(&keys.place, "`command` is missing");
        reader.fault(fault.hint("the program and its arguments, such as `command: [python3, agent.py]`"));
    }
    let Some(field) = keys.get("command") else { return Vec::new() };
    if field.is_text() {
        let fault =
            Fault::new(&field.place, "must be a list of the program and its arguments").found(field.shown(reader));
        reader.fault(fault.hint("such as [python3, agent.py]; for a line of shell, [sh, -c, \"…\"]"));
        return Vec::new();
    }
    let argv: Vec<Template> = field.list(reader).iter().filter_map(|item| item.template(reader)).collect();
    if field.is_list() && argv.first().is_none_or(Template::is_blank) {
        reader.fault(Fault::new(&field.place, "names no program"));
    }
    argv
}

/// What could be read of the script, as with [`argv`].
fn script(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Script {
    if keys.lacks("script") {
        let fault = Fault::new(&keys.place, "`script` is missing");
        reader.fault(fault.hint("a mock agent does what its script says, such as `script: [{say: done}]`"));
    }
    let read = keys.get("script").and_then(|field| Script::read(field, reader));
    read.unwrap_or(Script { turns: Vec::new(), then: Then::Pass })
}
