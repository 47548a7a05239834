//! `[adapters.http.NAME]`: a webhook that comes in, and what becomes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rookery_core::instance::{check_name, plain};
use rookery_core::{Actor, AgentId};
use rookery_engine::hooks::{Hook, Mapping, Scheme, Secret, Source};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many hooks there can be, and how long their names.
const MOST: usize = 100;
const NAME_CHARS: usize = 40;

/// A hook as the file has it; its secret is read when the daemon starts.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSettings {
    name: String,
    table: Table,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    secret_env: Option<String>,
    secret_file: Option<PathBuf>,
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
    delivery: Option<String>,
    #[serde(default)]
    when: BTreeMap<String, Several>,
    payload: Option<BTreeMap<String, toml::Value>>,
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
pub(super) fn read(adapters: toml::Value) -> Result<Vec<HookSettings>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Adapters {
        #[serde(default)]
        http: BTreeMap<String, toml::Value>,
    }
    let adapters: Adapters = adapters.try_into().map_err(|error| format!("`adapters`: {}", told(&error)))?;
    if adapters.http.len() > MOST {
        return Err(format!("`adapters.http` has more than {MOST} hooks"));
    }
    adapters.http.into_iter().map(|(name, table)| one(name, table)).collect()
}

fn told(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

fn one(name: String, table: toml::Value) -> Result<HookSettings, String> {
    let wrong = |what: &str| format!("`adapters.http.{name}`: {what}");
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(fits) {
        return Err(wrong("a hook's name has up to 40 letters, digits, '-' and '_'"));
    }
    let table: Table = table.try_into().map_err(|error| wrong(&told(&error)))?;
    if table.secret_env.is_some() == table.secret_file.is_some() {
        return Err(wrong("give either secret_env or secret_file: whoever knows the secret may send"));
    }
    let settings = HookSettings { name: name.clone(), table };
    settings.from().map_err(|what| wrong(&what))?;
    Ok(settings)
}

impl HookSettings {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hook with its secret, from the environment or from a file that is named relative to the project.
    pub fn with_secret(&self, root: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Hook, String> {
        let wrong = |what: String| format!("`adapters.http.{}`: {what}", self.name);
        let (secret, whence) = match (&self.table.secret_env, &self.table.secret_file) {
            (Some(variable), _) => (environment(variable), format!("the environment's {variable}")),
            (None, file) => {
                let path = root.join(file.clone().unwrap_or_default());
                let read = std::fs::read_to_string(&path);
                let text = read.map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
                (Some(text), path.display().to_string())
            }
        };
        let secret = secret.as_deref().and_then(Secret::new);
        let secret = secret.ok_or_else(|| wrong(format!("there is no secret in {whence}")))?;
        Ok(Hook {
            name: self.name.clone(),
            secret,
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
        Ok(plain(&AgentId::from(name)))
    }

    fn mapping(&self) -> Mapping {
        let table = &self.table;
        let sources = |several: &Option<Several>| {
            several.iter().flat_map(Several::texts).map(|text| Source::read(&text)).collect()
        };
        let texts = [
            ("type", &table.message_type),
            ("run_id", &table.run_id),
            ("thread_id", &table.thread_id),
            ("task_id", &table.task_id),
            ("parent_task_id", &table.parent_task_id),
            ("domain", &table.domain),
            ("payload_type", &table.payload_type),
        ];
        let texts = texts.into_iter().filter_map(|(field, said)| Some((field, Source::read(said.as_deref()?))));
        let payload = table
            .payload
            .as_ref()
            .map(|fields| fields.iter().map(|(name, value)| (name.clone(), source(value))).collect());
        Mapping {
            when: table.when.iter().map(|(at, values)| (Source::read(at), values.texts())).collect(),
            texts: texts.collect(),
            to: sources(&table.to),
            requires: sources(&table.requires),
            prefers: sources(&table.prefers),
            payload,
        }
    }
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
    let text = |what: &str| json!({ "type": "string", "minLength": 1, "description": what });
    let several = |what: &str| {
        json!({ "description": what,
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    };
    let hook = json!({
        "type": "object",
        "description": "A webhook, POST /hooks/NAME. Values are JSON pointers into the body (`/issue/title`), headers (`header:X-Event`) or texts as they are (also behind `text:`).",
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
            "delivery": text("What tells one delivery from another. Default: the header X-Rookery-Delivery or X-GitHub-Delivery."),
            "when": { "type": "object", "additionalProperties": several("The values that are meant."),
                      "description": "Where to look, and what has to stand there; other requests are answered and ignored." },
            "payload": { "type": "object", "description": "The payload's fields. Default: the whole body." },
        },
    });
    json!({
        "type": "object",
        "description": "Connections to other programs.",
        "additionalProperties": false,
        "properties": { "http": { "type": "object", "description": "Webhooks by their names.", "additionalProperties": hook } },
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
    fn what_is_wrong_is_told_with_the_hooks_name() {
        for (text, told) in [
            ("[http.ci]\n", "give either secret_env or secret_file"),
            ("[http.ci]\nsecret_env = \"A\"\nsecret_file = \"b\"\n", "give either secret_env or secret_file"),
            ("[http.\"a b\"]\nsecret_env = \"A\"\n", "a hook's name has"),
            ("[http.ci]\nsecret_env = \"A\"\nsceme = \"github\"\n", "unknown field `sceme`"),
            ("[http.ci]\nsecret_env = \"A\"\nscheme = \"gitlab\"\n", "unknown variant `gitlab`"),
            ("[http.ci]\nsecret_env = \"A\"\nfrom = \"person:anna\"\n", "is not the name of an agent"),
            ("[http.system]\nsecret_env = \"A\"\n", "is not the name of an agent"),
            ("[smtp.x]\n", "unknown field `smtp`"),
        ] {
            let error = hooks(text).unwrap_err();
            assert!(error.contains(told) && error.starts_with("`adapters"), "{text}: {error}");
        }
    }
}
