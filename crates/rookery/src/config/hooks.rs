//! `[adapters.http.NAME]`: a webhook that comes in, and what becomes of it; or, with a `url`, one that goes out.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rookery_core::envelope::shown_type;
use rookery_core::kernel::instance::check_name;
use rookery_core::{Actor, AgentId, RunId, TaskId, ThreadId};
use rookery_engine::adapters::{Begins, Hook, Mapping, Outgoing, Outlet, Scheme, Secret, Source};
use rookery_engine::endpoints::Http;
use rookery_engine::message_view::{MessageFilter, Sender};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many hooks there can be, and how long their names.
const MAX_HOOKS: usize = 100;
const NAME_CHARS: usize = 40;

/// The hooks of a project.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hooks {
    pub incoming: Vec<HookSettings>,
    pub outgoing: Vec<OutgoingSettings>,
}

/// A hook as the file has it; its secret is read when the daemon starts.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSettings {
    name: String,
    secret: SecretPlace,
    table: Table,
}

/// The same of one that goes out.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingSettings {
    name: String,
    secret: SecretPlace,
    table: OutgoingTable,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SecretPlace {
    Environment(String),
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutgoingTable {
    url: String,
    #[serde(default)]
    from: FromWord,
    attempts: Option<NonZeroU32>,
    types: Option<Several>,
    run_id: Option<String>,
    thread_id: Option<String>,
    task_id: Option<String>,
    agent_id: Option<String>,
    body: Option<BTreeMap<String, toml::Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FromWord {
    #[default]
    Now,
    Start,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    scheme: SchemeWord,
    from: Option<String>,
    #[serde(rename = "type")]
    message_type: Option<String>,
    to: Option<Several>,
    run_id: Option<String>,
    thread_id: Option<String>,
    task_id: Option<String>,
    parent_task_id: Option<String>,
    domain: Option<String>,
    payload_type: Option<String>,
    requires: Option<Several>,
    prefers: Option<Several>,
    deadline: Option<String>,
    limits: Option<LimitsTable>,
    policy: Option<PolicyTable>,
    attachments: Option<Several>,
    trace: Option<TraceTable>,
    workflow: Option<String>,
    step: Option<String>,
    delivery: Option<String>,
    #[serde(default)]
    when: BTreeMap<String, Several>,
    payload: Option<BTreeMap<String, toml::Value>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    max_runtime_sec: Option<toml::Value>,
    max_attempts: Option<toml::Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    sandbox: Option<toml::Value>,
    tool_allowlist: Option<toml::Value>,
    network: Option<toml::Value>,
    trust_level: Option<toml::Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceTable {
    trace_id: Option<toml::Value>,
    span_id: Option<toml::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SchemeWord {
    #[default]
    Rookery,
    Github,
}

/// One text, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Several {
    One(String),
    Many(Vec<String>),
}

impl Several {
    fn texts(&self) -> Vec<String> {
        match self {
            Several::One(text) => vec![text.clone()],
            Several::Many(texts) => texts.clone(),
        }
    }
}

/// The hooks that `adapters` has; what is wrong with it, if something is.
pub(super) fn read(adapters: toml::Value) -> Result<Hooks, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Adapters {
        #[serde(default)]
        http: BTreeMap<String, toml::Value>,
    }
    let adapters: Adapters = adapters.try_into().map_err(|error| format!("`adapters`: {}", told(&error)))?;
    if adapters.http.len() > MAX_HOOKS {
        return Err(format!("`adapters.http` has more than {MAX_HOOKS} hooks"));
    }
    let mut hooks = Hooks::default();
    for (name, table) in adapters.http {
        let at = format!("`adapters.http.{name}`");
        add(&mut hooks, name, table).map_err(|what| format!("{at}: {what}"))?;
    }
    Ok(hooks)
}

fn told(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

/// A table with a `url` is a hook that goes out; every other one comes in.
fn add(hooks: &mut Hooks, name: String, mut table: toml::Value) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(fits) {
        return Err("a hook's name has up to 40 letters, digits, '-' and '_'".to_owned());
    }
    let secret = secret_place(&mut table);
    if table.get("url").is_some() {
        let table: OutgoingTable = table.try_into().map_err(|error| told(&error))?;
        let secret = secret.ok_or("give either secret_env or secret_file: its receiver knows by it who sends")?;
        let settings = OutgoingSettings { name, secret, table };
        settings.check()?;
        hooks.outgoing.push(settings);
    } else {
        let table: Table = table.try_into().map_err(|error| told(&error))?;
        let secret = secret.ok_or("give either secret_env or secret_file: whoever knows the secret may send")?;
        let settings = HookSettings { name, secret, table };
        settings.from()?;
        hooks.incoming.push(settings);
    }
    Ok(())
}

impl Hooks {
    /// The secrets that cannot be read, each with what to do.
    pub fn missing_secrets(
        &self,
        root: &Path,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, &'static str)> {
        let incoming = self.incoming.iter().map(|hook| (&hook.name, &hook.secret));
        let outgoing = self.outgoing.iter().map(|hook| (&hook.name, &hook.secret));
        let missing = |(name, place): (&String, &SecretPlace)| {
            let problem = place.read(root, &environment).err()?;
            Some((format!("`adapters.http.{name}`: {problem}"), place.remedy()))
        };
        incoming.chain(outgoing).filter_map(missing).collect()
    }
}

/// Takes out of a table where its secret is, if it says so once.
fn secret_place(table: &mut toml::Value) -> Option<SecretPlace> {
    let table = table.as_table_mut()?;
    match (table.remove("secret_env"), table.remove("secret_file")) {
        (Some(toml::Value::String(variable)), None) => Some(SecretPlace::Environment(variable)),
        (None, Some(toml::Value::String(file))) => Some(SecretPlace::File(file.into())),
        _ => None,
    }
}

impl SecretPlace {
    fn remedy(&self) -> &'static str {
        match self {
            SecretPlace::Environment(_) => {
                "set it where `rookery up` is run, or write the secret into a file and name that as `secret_file`"
            }
            SecretPlace::File(_) => "write the secret into that file, readable only by you",
        }
    }

    /// The secret, from the environment or from a file that is named relative to the project.
    fn read(&self, root: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Secret, String> {
        let (text, whence) = match self {
            SecretPlace::Environment(variable) => (environment(variable), format!("the environment's {variable}")),
            SecretPlace::File(file) => {
                let path = root.join(file);
                let read = std::fs::read_to_string(&path);
                let text = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                (Some(text), path.display().to_string())
            }
        };
        text.as_deref().and_then(Secret::new).ok_or_else(|| format!("there is no secret in {whence}"))
    }
}

impl OutgoingSettings {
    /// The hook with its secret, and how the log is passed on to it.
    pub fn outlet(
        &self,
        root: &Path,
        environment: impl Fn(&str) -> Option<String>,
        http: &Arc<Http>,
        attempts: u32,
    ) -> Result<Outlet, String> {
        let wrong = |what: String| format!("`adapters.http.{}`: {what}", self.name);
        let table = &self.table;
        let hook = Outgoing {
            name: self.name.clone(),
            url: table.url.clone(),
            secret: self.secret.read(root, environment).map_err(wrong)?,
            types: table.types.iter().flat_map(Several::texts).filter_map(|name| shown_type(&name)).collect(),
            filter: self.filter().map_err(wrong)?,
            body: table.body.as_ref().map(sources),
            http: http.clone(),
        };
        let begins = match table.from {
            FromWord::Now => Begins::Now,
            FromWord::Start => Begins::Start,
        };
        let attempts = table.attempts.map_or(attempts, NonZeroU32::get);
        Ok(Outlet { adapter: Arc::new(hook), begins, attempts })
    }

    fn check(&self) -> Result<(), String> {
        let table = &self.table;
        match table.url.parse::<reqwest::Url>() {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
            _ => return Err(format!("url '{}' is not an http or https address", table.url)),
        }
        let types = table.types.iter().flat_map(Several::texts);
        if let Some(unknown) = types.into_iter().find(|name| shown_type(name).is_none()) {
            return Err(format!("types: no message has the type '{unknown}'"));
        }
        let shaped = table.body.as_ref().map(sources).unwrap_or_default();
        if let Some((field, _)) = shaped.iter().find(|(_, source)| matches!(source, Source::Header(_))) {
            return Err(format!("body.{field}: a message has no headers; use a pointer like /payload/text"));
        }
        self.filter().map(drop)
    }

    /// The same conditions as those of the stream.
    fn filter(&self) -> Result<MessageFilter, String> {
        let table = &self.table;
        let bare = |text: &Option<String>, prefix: &str| {
            text.as_ref().map(|text| text.strip_prefix(prefix).unwrap_or(text).to_owned())
        };
        let from = table.agent_id.as_deref().map(|text| {
            Sender::parse(text).ok_or_else(|| format!("agent_id '{text}' is not an agent, 'person:NAME' or 'system'"))
        });
        Ok(MessageFilter {
            run: bare(&table.run_id, "run:").map(RunId::new),
            thread: bare(&table.thread_id, "thread:").map(ThreadId::new),
            task: bare(&table.task_id, "task:").map(TaskId::new),
            from: from.transpose()?,
            message_type: None,
        })
    }
}

impl HookSettings {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hook with its secret.
    pub fn with_secret(&self, root: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Hook, String> {
        let wrong = |what: String| format!("`adapters.http.{}`: {what}", self.name);
        Ok(Hook {
            name: self.name.clone(),
            secret: self.secret.read(root, environment).map_err(wrong)?,
            scheme: match self.table.scheme {
                SchemeWord::Rookery => Scheme::Rookery,
                SchemeWord::Github => Scheme::Github,
            },
            from: self.from().map_err(wrong)?,
            delivery: self.table.delivery.as_deref().map(Source::read),
            mapping: self.mapping(),
        })
    }

    /// The agent that it sends as: of its own name, unless another is given.
    fn from(&self) -> Result<AgentId, String> {
        let said = self.table.from.as_deref().unwrap_or(&self.name);
        let name = said.strip_prefix("agent:").unwrap_or(said);
        if Actor::is_reserved(name) || check_name("from", name).is_err() {
            return Err(format!("from '{said}' is not the name of an agent"));
        }
        Ok(AgentId::from(name))
    }

    fn mapping(&self) -> Mapping {
        let table = &self.table;
        let several =
            |said: &Option<Several>| said.iter().flat_map(Several::texts).map(|text| Source::read(&text)).collect();
        let texts = [
            ("type", &table.message_type),
            ("run_id", &table.run_id),
            ("thread_id", &table.thread_id),
            ("task_id", &table.task_id),
            ("parent_task_id", &table.parent_task_id),
            ("domain", &table.domain),
            ("payload_type", &table.payload_type),
        ];
        Mapping {
            when: table.when.iter().map(|(at, values)| (Source::read(at), values.texts())).collect(),
            texts: said(&texts),
            to: several(&table.to),
            requires: several(&table.requires),
            prefers: several(&table.prefers),
            payload: table.payload.as_ref().map(sources),
            deadline: table.deadline.as_deref().map(Source::read),
            limits: table.limits.as_ref().map(LimitsTable::sources).unwrap_or_default(),
            trace: table.trace.as_ref().map(TraceTable::sources).unwrap_or_default(),
            attachments: several(&table.attachments),
            policy: table.policy.as_ref().map(PolicyTable::sources).unwrap_or_default(),
            meta: said(&[("workflow", &table.workflow), ("step", &table.step)]),
        }
    }
}

impl LimitsTable {
    fn sources(&self) -> BTreeMap<String, Source> {
        given([("max_runtime_sec", &self.max_runtime_sec), ("max_attempts", &self.max_attempts)])
    }
}

impl PolicyTable {
    fn sources(&self) -> BTreeMap<String, Source> {
        given([
            ("sandbox", &self.sandbox),
            ("tool_allowlist", &self.tool_allowlist),
            ("network", &self.network),
            ("trust_level", &self.trust_level),
        ])
    }
}

impl TraceTable {
    fn sources(&self) -> BTreeMap<String, Source> {
        given([("trace_id", &self.trace_id), ("span_id", &self.span_id)])
    }
}

fn said(fields: &[(&'static str, &Option<String>)]) -> BTreeMap<&'static str, Source> {
    fields.iter().filter_map(|(field, said)| Some((*field, Source::read(said.as_deref()?)))).collect()
}

fn given<const N: usize>(fields: [(&str, &Option<toml::Value>); N]) -> BTreeMap<String, Source> {
    fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), source(value.as_ref()?)))).collect()
}

fn sources(fields: &BTreeMap<String, toml::Value>) -> BTreeMap<String, Source> {
    fields.iter().map(|(name, value)| (name.clone(), source(value))).collect()
}

/// A text says where the value is; everything else is the value.
fn source(value: &toml::Value) -> Source {
    match value {
        toml::Value::String(text) => Source::read(text),
        other => Source::Constant(serde_json::to_value(other).unwrap_or_default()),
    }
}

/// The JSON Schema of `adapters`.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Connections to other programs.",
        "additionalProperties": false,
        "properties": { "http": {
            "type": "object",
            "description": "Webhooks by their names. With a `url` messages are sent to it; without one it is a place that others send to, POST /hooks/NAME.",
            "additionalProperties": { "anyOf": [incoming_schema(), outgoing_schema()] },
        } },
    })
}

fn text(what: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": what })
}

fn several(what: &str) -> Value {
    json!({ "description": what,
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
}

fn table(what: &str, fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
    json!({ "type": "object", "description": what, "additionalProperties": false, "properties": fields })
}

fn incoming_schema() -> Value {
    json!({
        "type": "object",
        "title": "A webhook that comes in",
        "description": "POST /hooks/NAME. Values are JSON pointers into the body (`/issue/title`), headers (`header:X-Event`) or texts as they are (also behind `text:`).",
        "additionalProperties": false,
        "oneOf": [{ "required": ["secret_env"] }, { "required": ["secret_file"] }],
        "properties": {
            "secret_env": text("Environment variable with the secret."),
            "secret_file": text("File with the secret, relative to the project."),
            "scheme": { "type": "string", "enum": ["rookery", "github"], "default": "rookery",
                        "description": "How requests are signed: `rookery` (X-Rookery-Signature, with a time) or `github` (X-Hub-Signature-256)." },
            "from": text("The agent that the envelopes are from. Default: the hook's name."),
            "type": text("The envelope's type. Default: task.request."),
            "to": several("Recipients. Default: agent:orchestrator."),
            "run_id": text("Default: a run for each delivery."),
            "thread_id": text("Default: a thread for the hook."),
            "task_id": text("Default: a task for each delivery."),
            "parent_task_id": text("The task that it is part of."),
            "domain": text("The envelope's domain."),
            "payload_type": text("The envelope's payload_type."),
            "requires": several("Capabilities that are required."),
            "prefers": several("Capabilities that are preferred."),
            "deadline": text("When the task must be done, an ISO 8601 time. Left out where the request has none."),
            "limits": table("The task's limits. Left out where the request has none.", &["max_runtime_sec", "max_attempts"]),
            "policy": table("The envelope's security.policy. What is named here must be in the request.",
                            &["sandbox", "tool_allowlist", "network", "trust_level"]),
            "attachments": several("References to artifacts, or lists of them. Left out where the request has none."),
            "trace": table("The envelope's trace. Left out where the request has none.", &["trace_id", "span_id"]),
            "workflow": text("The envelope's meta.workflow."),
            "step": text("The envelope's meta.step."),
            "delivery": text("What tells one delivery from another. Default: the header X-Rookery-Delivery or X-GitHub-Delivery."),
            "when": { "type": "object", "additionalProperties": several("The values that are meant."),
                      "description": "Where to look, and what has to stand there; other requests are answered and ignored." },
            "payload": { "type": "object", "description": "The payload's fields. Default: the whole body." },
        },
    })
}

fn outgoing_schema() -> Value {
    json!({
        "type": "object",
        "title": "A webhook that goes out",
        "description": "Every message that passes the filter is POSTed to the url, signed, in the order of the log, again until it is taken.",
        "additionalProperties": false,
        "required": ["url"],
        "oneOf": [{ "required": ["secret_env"] }, { "required": ["secret_file"] }],
        "properties": {
            "url": text("Where messages are sent."),
            "secret_env": text("Environment variable with the secret."),
            "secret_file": text("File with the secret, relative to the project."),
            "from": { "type": "string", "enum": ["now", "start"], "default": "now",
                      "description": "Where in the log a hook begins that is new: with what comes from now on, or at the start. Later it goes on where it was." },
            "attempts": { "type": "integer", "minimum": 1,
                          "description": "Tries after which a message is put aside, to be seen and retried by `rookery endpoints`. Default: delivery_attempts." },
            "types": several("Only messages that are shown with one of these types. Default: all."),
            "run_id": text("Only those of this run."),
            "thread_id": text("Only those of this thread."),
            "task_id": text("Only those of this task."),
            "agent_id": text("Only those from this sender."),
            "body": { "type": "object", "description": "What is sent, by its names: JSON pointers into the message (`/payload/title`), or texts as they are. Default: the message as it is." },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GITHUB: &str = r#"
        [http.github]
        scheme = "github"
        secret_env = "HOOK_SECRET"
        to = ["agent:orchestrator"]
        requires = "skill:triage"
        when = { "header:X-GitHub-Event" = "issues", "/action" = ["opened", "reopened"] }
        payload = { title = "/issue/title", kind = "text:/issue", tries = 3 }
    "#;

    fn hooks(text: &str) -> Result<Vec<HookSettings>, String> {
        all(text).map(|hooks| hooks.incoming)
    }

    fn all(text: &str) -> Result<Hooks, String> {
        read(toml::Value::Table(toml::from_str(text).unwrap()))
    }

    #[test]
    fn a_hook_is_read_and_its_secret_is_found() {
        let hooks = hooks(GITHUB).unwrap();
        let environment = |name: &str| (name == "HOOK_SECRET").then(|| "s3cret".to_owned());
        let hook = hooks[0].with_secret(Path::new("/nowhere"), environment).unwrap();
        assert_eq!((hook.name.as_str(), hook.from.as_str(), hook.scheme), ("github", "github", Scheme::Github));
        assert!(!format!("{hook:?}").contains("s3cret"), "it is never shown");
        assert_eq!(hook.mapping.requires, [Source::read("skill:triage")]);
        let payload = hook.mapping.payload.unwrap();
        assert_eq!(payload["kind"], Source::Constant(json!("/issue")));
        assert_eq!(
            (&payload["title"], &payload["tries"]),
            (&Source::read("/issue/title"), &Source::Constant(json!(3)))
        );
        let missing = hooks[0].with_secret(Path::new("/nowhere"), |_| None).unwrap_err();
        assert_eq!(missing, "`adapters.http.github`: there is no secret in the environment's HOOK_SECRET");
        let all = Hooks { incoming: hooks.clone(), outgoing: vec![] };
        let named = all.missing_secrets(Path::new("/nowhere"), |_| None);
        assert_eq!(named[0].0, missing);
        assert!(named[0].1.contains("`secret_file`"), "{named:?}");
        assert!(all.missing_secrets(Path::new("/nowhere"), environment).is_empty());
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks("[http.ci]\nsecret_file = \"ci.secret\"\n").unwrap();
        let told = hooks[0].with_secret(folder.path(), |_| None).unwrap_err();
        assert!(told.contains("cannot read") && told.contains("ci.secret"), "{told}");
        std::fs::write(folder.path().join("ci.secret"), " \n").unwrap();
        assert!(hooks[0].with_secret(folder.path(), |_| None).unwrap_err().contains("there is no secret in"));
        std::fs::write(folder.path().join("ci.secret"), "x\n").unwrap();
        assert!(hooks[0].with_secret(folder.path(), |_| None).is_ok());
    }

    #[test]
    fn a_table_with_a_url_goes_out() {
        let hooks = all(
            "[http.in]\nsecret_env = \"A\"\n[http.out]\nurl = \"https://ci.example/x\"\nsecret_env = \"A\"\nfrom = \"start\"\n\
             types = [\"task.result\", \"x.mine\"]\nrun_id = \"run:r1\"\nagent_id = \"agent:orchestrator\"\n",
        )
        .unwrap();
        assert_eq!((hooks.incoming.len(), hooks.outgoing.len()), (1, 1));
        let out = &hooks.outgoing[0];
        let filter = out.filter().unwrap();
        assert_eq!((filter.run, filter.from), (Some("r1".into()), Some(Sender::Orchestrator)));
        let reach = rookery_engine::endpoints::EgressPolicy::anywhere();
        let http = Arc::new(Http::new(reach, std::time::Duration::from_secs(1)).unwrap());
        let outlet = out.outlet(Path::new("/nowhere"), |_| Some("s".to_owned()), &http, 12).unwrap();
        assert_eq!((outlet.adapter.name().as_str(), outlet.begins, outlet.attempts), ("http:out", Begins::Start, 12));
        let missing = out.outlet(Path::new("/nowhere"), |_| None, &http, 12).unwrap_err();
        assert_eq!(missing, "`adapters.http.out`: there is no secret in the environment's A");
    }

    #[test]
    fn the_terms_of_the_work_are_values_or_where_they_are() {
        let hooks = hooks(
            "[http.ci]\nsecret_env = \"A\"\ndeadline = \"/due\"\nlimits = { max_runtime_sec = 60 }\n\
             policy = { sandbox = true, tool_allowlist = [\"mcp:a\"], network = \"/net\" }\nattachments = \"/log\"\n\
             trace = { trace_id = \"header:X-Trace\" }\nworkflow = \"release\"\nstep = \"/stage\"\n",
        );
        let mapping = hooks.unwrap()[0].mapping();
        assert_eq!(mapping.deadline, Some(Source::read("/due")));
        assert_eq!(mapping.limits["max_runtime_sec"], Source::Constant(json!(60)));
        assert_eq!(mapping.policy["tool_allowlist"], Source::Constant(json!(["mcp:a"])));
        assert_eq!((&mapping.policy["network"], mapping.policy.len()), (&Source::read("/net"), 3));
        assert_eq!(mapping.attachments, [Source::read("/log")]);
        assert_eq!(mapping.trace["trace_id"], Source::Header("x-trace".to_owned()));
        assert_eq!(
            mapping.meta,
            BTreeMap::from([("workflow", Source::read("release")), ("step", Source::read("/stage"))])
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_the_hooks_name() {
        for (text, told) in [
            ("[http.ci]\n", "give either secret_env or secret_file"),
            ("[http.ci]\nsecret_env = \"A\"\nsecret_file = \"b\"\n", "give either secret_env or secret_file"),
            ("[http.\"a b\"]\nsecret_env = \"A\"\n", "a hook's name has"),
            ("[http.ci]\nsecret_env = \"A\"\nsceme = \"github\"\n", "unknown field `sceme`"),
            ("[http.ci]\nsecret_env = \"A\"\nscheme = \"gitlab\"\n", "unknown variant `gitlab`"),
            ("[http.ci]\nsecret_env = \"A\"\nfrom = \"person:anna\"\n", "is not the name of an agent"),
            ("[http.system]\nsecret_env = \"A\"\n", "is not the name of an agent"),
            ("[http.ci]\nsecret_env = \"A\"\nlimits = { max_time = 1 }\n", "unknown field `max_time`"),
            ("[http.ci]\nsecret_env = \"A\"\npolicy = { sandbax = true }\n", "unknown field `sandbax`"),
            ("[http.ci]\nurl = \"http://a/\"\n", "give either secret_env or secret_file"),
            ("[http.ci]\nsecret_env = \"A\"\nurl = \"ftp://a/\"\n", "is not an http or https address"),
            ("[http.ci]\nsecret_env = \"A\"\nurl = \"http://a/\"\ntypes = \"task.resul\"\n", "no message has the type"),
            ("[http.ci]\nsecret_env = \"A\"\nurl = \"http://a/\"\nagent_id = \"group:x\"\n", "agent_id 'group:x'"),
            ("[http.ci]\nsecret_env = \"A\"\nurl = \"http://a/\"\nfrom = \"end\"\n", "unknown variant `end`"),
            ("[http.ci]\nsecret_env = \"A\"\nurl = \"http://a/\"\nattempts = 0\n", "nonzero"),
            (
                "[http.ci]\nsecret_env = \"A\"\nurl = \"http://a/\"\nbody = { a = \"header:x\" }\n",
                "body.a: a message has no",
            ),
            ("[smtp.x]\n", "unknown field `smtp`"),
        ] {
            let error = hooks(text).unwrap_err();
            assert!(error.contains(told) && error.starts_with("`adapters"), "{text}: {error}");
        }
    }
}
