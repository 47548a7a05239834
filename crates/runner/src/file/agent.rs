//! One agent of the team: what runs it, what it is told, and within which limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rookery_core::Actor;
use rookery_core::kernel::limit;

use super::backend::{self, Backend};
use super::cursor::{Field, Keys, Reader};
use super::fault::{At, Fault, Faults};
use super::limits::MAX_COUNT;
use super::near::{nearest, some_of};
use super::prompt::Prompt;
use super::sandbox_limits::{self, SandboxLimits};
use super::setup;
use super::shape::{Record, Shape, optional};
use super::template::Template;
use super::variables::Variables;
use super::wakeup::{self, Wakeup};

/// What agents can be called, so that `@name` reaches them.
pub(super) const NAME: &str = "^[A-Za-z][A-Za-z0-9_-]*$";

pub(super) const RECORD: Record = Record {
    name: "agent",
    about: "One agent of the team.",
    keys: &[
        optional("backend", Shape::Choice(backend::WORDS), "What runs it; sdk if absent"),
        optional("model", Shape::Text, "The model; for sdk as provider/model, and needed there"),
        optional(
            "system_prompt",
            Shape::Text,
            "What it is told about itself: the text, or a .md or .txt file beside this one",
        ),
        optional("tools", Shape::List(&Shape::Text), "The only tools that it may use; all if absent"),
        optional("provider", Shape::Record(&backend::PROVIDER), "Another address for the model (sdk)"),
        optional("command", Shape::List(&Shape::Text), "The program and its arguments (command)"),
        optional("script", super::script::SHAPE, "What it does, turn by turn (mock)"),
        optional("max_turns", Shape::Count(1, MAX_COUNT), "How many turns it gets in a run"),
        optional("max_tokens", Shape::Count(1, MAX_COUNT), "How much the model may answer at once, in tokens (sdk)"),
        optional("timeout", Shape::Duration, "How long a turn may take: 30s, 5m, 2h"),
        optional("wakeup", wakeup::SHAPE, "When it is woken by itself: an interval (30s, 5m, 2h, 1d) or a cron line"),
        optional("wakeup_prompt", Shape::Text, "What it is told then; needs `wakeup`"),
        optional("workspace", Shape::Choice(&["shared", "worktree"]), "The project's folder, or a worktree of its own"),
        optional("sandbox", Shape::Any(&[Shape::Flag, Shape::Record(&SANDBOX)]), "false: it runs without one"),
        optional(
            "env",
            Shape::Map { names: setup::NAME, of: &Shape::Scalar },
            "Its environment: a text, or $NAME for a variable of the runner's own environment",
        ),
    ],
};

const SANDBOX: Record = Record {
    name: "sandbox",
    about: "What the agent may reach besides its own folder and the model.",
    keys: &[
        optional(
            "network",
            Shape::List(&Shape::Text),
            "Hosts that it may reach, such as api.github.com or *.crates.io",
        ),
        optional("write", Shape::List(&Shape::Text), "Folders that it may write to"),
        optional("limits", Shape::Record(&sandbox_limits::RECORD), "What its programs may use in a turn"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Agent {
    pub name: At<String>,
    pub backend: Backend,
    pub model: Option<Template>,
    pub system_prompt: Option<Prompt>,
    pub tools: Option<Vec<At<String>>>,
    pub max_turns: Option<u64>,
    pub timeout: Option<Duration>,
    pub wakeup: Option<Wakeup>,
    pub wakeup_prompt: Option<Template>,
    pub workspace: Workspace,
    pub sandbox: Sandbox,
    pub env: Vec<(At<String>, EnvValue)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workspace {
    Shared,
    Worktree,
}

impl Workspace {
    pub fn as_str(self) -> &'static str {
        match self {
            Workspace::Shared => "shared",
            Workspace::Worktree => "worktree",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Sandbox {
    /// Said in the file, because it is not the default.
    Off,
    On {
        network: Vec<At<String>>,
        write: Vec<At<String>>,
        limits: SandboxLimits,
    },
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::On { network: Vec::new(), write: Vec::new(), limits: SandboxLimits::default() }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum EnvValue {
    Text(Template),
    /// A variable of the runner's own environment. Its value is never in the file, nor in what is shown of it.
    Inherited(At<String>),
}

impl Agent {
    pub(super) fn read_all(field: &Field<'_>, folder: &Path, reader: &mut Reader<'_>) -> Vec<Agent> {
        let entries = field.entries(reader);
        if entries.is_empty() && field.is_map() {
            reader.fault(Fault::new(&field.place, "there must be at least one agent"));
        }
        entries.into_iter().filter_map(|(name, field)| read(name, &field, folder, reader)).collect()
    }

    /// What the file sets for its programs, with everything put in and inherited.
    pub fn environment(&self, variables: &Variables) -> BTreeMap<String, String> {
        let value = |value: &EnvValue| match value {
            EnvValue::Text(text) => Some(variables.fill(text)),
            // One that is not there was noted when the file was checked.
            EnvValue::Inherited(of) => variables.env.get(&of.value).cloned(),
        };
        self.env.iter().filter_map(|(name, said)| Some((name.value.clone(), value(said)?))).collect()
    }
}

fn read(name: At<String>, field: &Field<'_>, folder: &Path, reader: &mut Reader<'_>) -> Option<Agent> {
    check_name(&name, reader);
    let keys = field.record(reader, &RECORD)?;
    let mut template = |key: &str| keys.get(key).and_then(|field| field.template(reader));
    let (model, wakeup_prompt) = (template("model"), template("wakeup_prompt"));
    if let Some(key) = keys.key("wakeup_prompt").filter(|_| keys.get("wakeup").is_none()) {
        reader.fault(Fault::new(key, "needs `wakeup`").hint("say when it is woken, such as `wakeup: 5m`"));
    }
    let places = [("shared", Workspace::Shared), ("worktree", Workspace::Worktree)];
    let backend = Backend::read(&keys, reader);
    Some(Agent {
        model,
        system_prompt: keys.get("system_prompt").and_then(|field| Prompt::read(field, folder, reader)),
        tools: keys.get("tools").map(|field| texts(field, reader)),
        max_turns: keys.get("max_turns").and_then(|field| field.count(reader, 1, MAX_COUNT)),
        timeout: keys.get("timeout").and_then(|field| field.duration(reader)),
        wakeup: keys.get("wakeup").and_then(|field| Wakeup::read(field, reader)),
        wakeup_prompt,
        workspace: keys.get("workspace").and_then(|field| field.choice(reader, &places)).unwrap_or(Workspace::Shared),
        sandbox: keys.get("sandbox").map(|field| sandbox(field, reader)).unwrap_or_default(),
        env: env(&keys, reader),
        name,
        // Last, so that everything else that is wrong is told too.
        backend: backend?,
    })
}

/// Tells a name that no agent of the team has.
pub(super) fn is_one_of(name: &At<String>, team: &[String], faults: &mut Faults) {
    if team.contains(&name.value) {
        return;
    }
    faults.add_with(|| {
        let fault = Fault::new(&name.place, format!("no agent is called `{}`", name.value));
        match nearest(&name.value, team.iter().map(String::as_str)) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint(format!("there are {}", some_of(team))),
        }
    });
}

fn check_name(name: &At<String>, reader: &mut Reader<'_>) {
    if !is_name(&name.value) {
        let fault = Fault::new(&name.place, "no agent can be called so").found(format!("`{}`", name.value));
        reader.fault(fault.hint("a name is a letter and then letters, digits, `_` and `-`, so that @name reaches it"));
    } else if Actor::is_reserved(&name.value) {
        let fault = Fault::new(&name.place, format!("`{}` is not the name of an agent", name.value));
        reader.fault(fault.hint("choose another name"));
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && name.len() <= limit::AGENT_ID_BYTES
}

fn texts(field: &Field<'_>, reader: &mut Reader<'_>) -> Vec<At<String>> {
    field.list(reader).iter().filter_map(|item| item.text(reader)).collect()
}

fn sandbox(field: &Field<'_>, reader: &mut Reader<'_>) -> Sandbox {
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
        let fault = Fault::new(&host.place, "must be the name of a host").found(format!("`{}`", host.value));
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

fn env(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Vec<(At<String>, EnvValue)> {
    let Some(field) = keys.get("env") else { return Vec::new() };
    let mut all = Vec::new();
    for (name, field) in field.entries(reader) {
        if !setup::is_name(&name.value) {
            let fault = Fault::new(&name.place, "no variable can be called so").found(format!("`{}`", name.value));
            reader.fault(fault.hint("a name is letters, digits and `_`, and begins with no digit"));
        } else if name.value.starts_with("ROOKERY_") {
            let fault = Fault::new(&name.place, format!("`{}` is set by Rookery itself", name.value));
            reader.fault(fault.hint("choose another name"));
        }
        let Some(value) = env_value(&field, reader) else { continue };
        all.push((name, value));
    }
    all
}

fn env_value(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<EnvValue> {
    let text = field.scalar(reader)?;
    if let Some(name) = backend::inherited(&text.value) {
        return Some(EnvValue::Inherited(At { value: name.to_owned(), place: text.place }));
    }
    if field.is_text() {
        return field.template(reader).map(EnvValue::Text);
    }
    Some(EnvValue::Text(Template::read(&text.value, text.place, &[], &mut reader.faults)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_mention_can_be() {
        for good in ["a", "coder", "a_b-C9"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "9lives", "-a", "a b", "a.b", "größe", "a@b", &"a".repeat(200)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn hosts_have_no_scheme() {
        for good in ["api.github.com", "*.crates.io", "localhost:8080", "127.0.0.1"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "https://a.b", "a b", "*", "*.", "a..b", "a:0", "a:b", "a/b"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
