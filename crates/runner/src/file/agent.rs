//! One agent of the team: its backend, prompts and limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rookery_core::Actor;
use rookery_core::kernel::limit;

use super::backend::{self, Backend};
use super::cursor::{Field, FileReader, RecordKeys};
use super::fault::{FileFault, FileFaults, InFile};
use super::limits::MAX_COUNT;
use super::near::{join_names, nearest};
use super::prompt::Prompt;
use super::sandbox_limits::{self, SandboxLimits};
use super::setup;
use super::shape::{Record, Shape, optional_key};
use super::template::TextTemplate;
use super::variables::Variables;
use super::wakeup::{self, Wakeup};

/// Valid names of agents, which `@name` can mention.
pub(super) const NAME: &str = "^[A-Za-z][A-Za-z0-9_-]*$";

pub(super) const RECORD: Record = Record {
    name: "agent",
    about: "One agent of the team.",
    keys: &[
        optional_key("backend", Shape::Choice(backend::NAMES), "The program or API that runs it; sdk if absent"),
        optional_key("model", Shape::Text, "The model; for sdk required, as provider/model"),
        optional_key(
            "system_prompt",
            Shape::Text,
            "Its role and instructions: the text, or the path of a .md or .txt file, relative to this file",
        ),
        optional_key("tools", Shape::List(&Shape::Text), "The only tools that it may use; all if absent"),
        optional_key("provider", Shape::Record(&backend::PROVIDER), "Another address for the model (sdk)"),
        optional_key("command", Shape::List(&Shape::Text), "The program and its arguments (command)"),
        optional_key("script", super::script::SHAPE, "Its actions, turn by turn (mock)"),
        optional_key("max_turns", Shape::Count(1, MAX_COUNT), "Maximum number of turns in a run"),
        optional_key(
            "max_tokens",
            Shape::Count(1, MAX_COUNT),
            "Maximum length of one answer of the model, in tokens (sdk)",
        ),
        optional_key("timeout", Shape::Duration, "Maximum duration of a turn: 30s, 5m, 2h"),
        optional_key("wakeup", wakeup::SHAPE, "Wakes it on a schedule: an interval (30s, 5m, 2h, 1d) or a cron line"),
        optional_key("wakeup_prompt", Shape::Text, "The prompt of a scheduled wakeup; needs `wakeup`"),
        optional_key("workspace", Shape::Choice(&["shared", "worktree"]), "The project's folder, or its own worktree"),
        optional_key("sandbox", Shape::Any(&[Shape::Flag, Shape::Record(&SANDBOX)]), "false: it runs without one"),
        optional_key(
            "env",
            Shape::Map { names: setup::NAME, of: &Shape::Scalar },
            "Its environment: a text, or $NAME for a variable of the runner's own environment",
        ),
    ],
};

const SANDBOX: Record = Record {
    name: "sandbox",
    about: "Access of the agent beyond its own folder and the model.",
    keys: &[
        optional_key(
            "network",
            Shape::List(&Shape::Text),
            "Hosts that it may reach, such as api.github.com or *.crates.io",
        ),
        optional_key("write", Shape::List(&Shape::Text), "Folders that it may write to"),
        optional_key("limits", Shape::Record(&sandbox_limits::RECORD), "Resources that its programs may use in a turn"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Agent {
    pub name: InFile<String>,
    pub backend: Backend,
    pub model: Option<TextTemplate>,
    pub system_prompt: Option<Prompt>,
    pub tools: Option<Vec<InFile<String>>>,
    pub max_turns: Option<u64>,
    pub timeout: Option<Duration>,
    pub wakeup: Option<Wakeup>,
    pub wakeup_prompt: Option<TextTemplate>,
    pub workspace: WorkspaceKind,
    pub sandbox: Sandbox,
    pub env: Vec<(InFile<String>, EnvValue)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkspaceKind {
    Shared,
    Worktree,
}

impl WorkspaceKind {
    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceKind::Shared => "shared",
            WorkspaceKind::Worktree => "worktree",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Sandbox {
    Off,
    On { network: Vec<InFile<String>>, write: Vec<InFile<String>>, limits: SandboxLimits },
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::On { network: Vec::new(), write: Vec::new(), limits: SandboxLimits::default() }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum EnvValue {
    Text(TextTemplate),
    /// A variable of the runner's own environment. Its value is neither in the file nor shown.
    Inherited(InFile<String>),
}

impl Agent {
    pub(super) fn read_all(field: &Field<'_>, folder: &Path, reader: &mut FileReader<'_>) -> Vec<Agent> {
        let entries = field.entries(reader);
        if entries.is_empty() && field.is_map() {
            reader.fault(FileFault::new(&field.place, "at least one agent is required"));
        }
        entries.into_iter().filter_map(|(name, field)| read(name, &field, folder, reader)).collect()
    }

    /// The environment of its programs, with variables filled in and inherited values.
    pub fn environment(&self, variables: &Variables) -> BTreeMap<String, String> {
        let value = |value: &EnvValue| match value {
            EnvValue::Text(text) => Some(variables.fill(text)),
            // The preview has a note about a missing variable.
            EnvValue::Inherited(of) => variables.env.get(&of.value).cloned(),
        };
        self.env.iter().filter_map(|(name, text)| Some((name.value.clone(), value(text)?))).collect()
    }
}

fn read(name: InFile<String>, field: &Field<'_>, folder: &Path, reader: &mut FileReader<'_>) -> Option<Agent> {
    check_name(&name, reader);
    let keys = field.record(reader, &RECORD)?;
    let mut template = |key: &str| keys.get(key).and_then(|field| field.template(reader));
    let (model, wakeup_prompt) = (template("model"), template("wakeup_prompt"));
    if let Some(key) = keys.key("wakeup_prompt").filter(|_| keys.get("wakeup").is_none()) {
        reader.fault(FileFault::new(key, "needs `wakeup`").hint("add a schedule, such as `wakeup: 5m`"));
    }
    let places = [("shared", WorkspaceKind::Shared), ("worktree", WorkspaceKind::Worktree)];
    let backend = Backend::read(&keys, reader);
    Some(Agent {
        model,
        system_prompt: keys.get("system_prompt").and_then(|field| Prompt::read(field, folder, reader)),
        tools: keys.get("tools").map(|field| texts(field, reader)),
        max_turns: keys.get("max_turns").and_then(|field| field.count(reader, 1, MAX_COUNT)),
        timeout: keys.get("timeout").and_then(|field| field.duration(reader)),
        wakeup: keys.get("wakeup").and_then(|field| Wakeup::read(field, reader)),
        wakeup_prompt,
        workspace: keys
            .get("workspace")
            .and_then(|field| field.choice(reader, &places))
            .unwrap_or(WorkspaceKind::Shared),
        sandbox: keys.get("sandbox").map(|field| sandbox(field, reader)).unwrap_or_default(),
        env: env(&keys, reader),
        name,
        // Last, so that all other faults of the agent are reported too.
        backend: backend?,
    })
}

/// Reports a name that no agent of the team has.
pub(super) fn check_is_member(name: &InFile<String>, team: &[String], faults: &mut FileFaults) {
    if team.contains(&name.value) {
        return;
    }
    faults.add_with(|| {
        let fault = FileFault::new(&name.place, format!("there is no agent `{}`", name.value));
        match nearest(&name.value, team.iter().map(String::as_str)) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint(format!("the agents are {}", join_names(team))),
        }
    });
}

fn check_name(name: &InFile<String>, reader: &mut FileReader<'_>) {
    if !is_name(&name.value) {
        let fault = FileFault::new(&name.place, "is not a valid name of an agent").found(format!("`{}`", name.value));
        reader
            .fault(fault.hint("use a letter, followed by letters, digits, `_` and `-`, so that @name can mention it"));
    } else if Actor::is_reserved(&name.value) {
        let fault = FileFault::new(&name.place, format!("`{}` is a reserved name", name.value));
        reader.fault(fault.hint("choose another name"));
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && name.len() <= limit::AGENT_ID_BYTES
}

fn texts(field: &Field<'_>, reader: &mut FileReader<'_>) -> Vec<InFile<String>> {
    field.list(reader).iter().filter_map(|item| item.text(reader)).collect()
}

fn sandbox(field: &Field<'_>, reader: &mut FileReader<'_>) -> Sandbox {
    match field.flag_value() {
        Some(true) => return Sandbox::default(),
        Some(false) => return Sandbox::Off,
        None if !field.is_map() => {
            field.wrong(reader, "must be true, false, or a mapping with network, write, limits");
            return Sandbox::default();
        }
        None => {}
    }
    let Some(keys) = field.record(reader, &SANDBOX) else { return Sandbox::default() };
    let network = keys.get("network").map(|field| texts(field, reader)).unwrap_or_default();
    for host in network.iter().filter(|host| !is_host(&host.value)) {
        let fault = FileFault::new(&host.place, "must be the name of a host").found(format!("`{}`", host.value));
        reader.fault(fault.hint("such as api.github.com, *.crates.io or localhost:8080, without http://"));
    }
    let write = keys.get("write").map(|field| texts(field, reader)).unwrap_or_default();
    let limits = keys.get("limits").map(|field| SandboxLimits::read(field, reader)).unwrap_or_default();
    Sandbox::On { network, write, limits }
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let name = name.strip_prefix("*.").unwrap_or(name);
    let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    name.split('.').all(fits)
        && name.len() <= 253
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn env(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Vec<(InFile<String>, EnvValue)> {
    let Some(field) = keys.get("env") else { return Vec::new() };
    let mut all = Vec::new();
    for (name, field) in field.entries(reader) {
        if !setup::is_name(&name.value) {
            let fault =
                FileFault::new(&name.place, "is not a valid name of a variable").found(format!("`{}`", name.value));
            reader.fault(fault.hint("use letters, digits and `_`, and do not begin with a digit"));
        } else if name.value.starts_with("ROOKERY_") {
            let fault = FileFault::new(&name.place, format!("`{}` is set by Rookery itself", name.value));
            reader.fault(fault.hint("choose another name"));
        }
        let Some(value) = env_value(&field, reader) else { continue };
        all.push((name, value));
    }
    all
}

fn env_value(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<EnvValue> {
    let text = field.scalar(reader)?;
    if let Some(name) = backend::parse_variable_reference(&text.value) {
        return Some(EnvValue::Inherited(InFile { value: name.to_owned(), place: text.place }));
    }
    if field.is_text() {
        return field.template(reader).map(EnvValue::Text);
    }
    Some(EnvValue::Text(TextTemplate::read(&text.value, text.place, &[], &mut reader.faults)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_name_must_be_mentionable() {
        for good in ["a", "coder", "a_b-C9"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "9lives", "-a", "a b", "a.b", "größe", "a@b", &"a".repeat(200)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn host_with_scheme_is_rejected() {
        for good in ["api.github.com", "*.crates.io", "localhost:8080", "127.0.0.1"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "https://a.b", "a b", "*", "*.", "a..b", "a:0", "a:b", "a/b"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
