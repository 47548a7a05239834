//! `rookery new`

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::teams::Mode;
use rookery_core::Instance;
use rookery_runner::file::{FileFault, Ready, Refused, Surroundings, WorkflowSource};
use rookery_runner::team::Leftovers;
use serde_json::{Map, Value, json};

use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::team::{self, TeamRunOptions};
use crate::cli::workflow_file::{surroundings, tools_without_context};

/// Programs that are agents, with the backend that runs them, in the order in which one is chosen.
const PROGRAMS: [(&str, &str); 5] = [
    ("claude", "claude"),
    ("codex", "codex"),
    ("cursor-agent", "cursor"),
    ("opencode", "opencode"),
    ("gemini", "gemini"),
];

/// Models that our own loop can run, with the variables of the environment that their keys are in, in the order in which one is
/// chosen.
const MODELS: [(&str, &[&str]); 3] = [
    ("anthropic/claude-sonnet-4-5", &["ANTHROPIC_API_KEY"]),
    ("openai/gpt-5", &["OPENAI_API_KEY"]),
    ("google/gemini-2.5-pro", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
];

/// Start one agent that stands alone, in the background
///
/// It waits for messages (`rookery send`), answers in the channel of its instance (`rookery peek`), and runs until it is stopped
/// (`rookery stop NAME`). After a crash or a reboot, the same command goes on where it was.
///
/// Without --backend it is run by our own loop against the model that --model names. Without either, a model of Anthropic, OpenAI or
/// Google is chosen if the environment has its key (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY), else the first agent program
/// that is installed: claude, codex, cursor-agent, opencode, gemini.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What it is called
    name: String,

    /// The instance that it is in
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Let it use the channel, the inbox and the documents of the instance by itself
    #[arg(long)]
    context: bool,

    /// The model; for sdk as provider/model
    #[arg(long)]
    model: Option<String>,

    /// What runs it: sdk, claude, codex, cursor, opencode, gemini, command
    #[arg(long)]
    backend: Option<String>,

    /// What it is told about itself: the text, or a .md or .txt file
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// The address of an interface like OpenAI's (sdk)
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// The variable of the environment that holds the key of the model, as $NAME (sdk)
    #[arg(long, value_name = "$NAME")]
    api_key: Option<String>,

    /// When it is woken by itself: an interval (30s, 5m, 2h, 1d) or a cron line
    #[arg(long, value_name = "WHEN")]
    wakeup: Option<String>,

    /// What it is told then
    #[arg(long, value_name = "TEXT", requires = "wakeup")]
    wakeup_prompt: Option<String>,

    /// How long a turn may take
    #[arg(long, value_name = "TIME", value_parser = team::duration)]
    timeout: Option<Duration>,

    /// Give it a worktree of its own instead of the project's folder
    #[arg(long)]
    worktree: bool,

    /// Run it without a sandbox
    #[arg(long)]
    no_sandbox: bool,

    /// This process is the one in the background
    #[arg(long, hide = true)]
    detached: bool,

    /// The program and its arguments (command)
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

pub(super) async fn run(context: &Context, mut args: Args) -> anyhow::Result<()> {
    if args.detached {
        crate::process::detach()?;
    }
    let (name, instance) = args.place()?;
    let surroundings = surroundings(context);
    let backend = match args.backend() {
        Some(backend) => backend.to_owned(),
        None => {
            let available = args.available(&surroundings)?;
            context.out.note(&format!("{name} is run by {available}; --model and --backend choose another"));
            args.model = available.model.map(str::to_owned);
            available.backend.to_owned()
        }
    };
    if backend == "cursor" && !args.context {
        let failure = Failure::usage("Cursor cannot be kept from the channel, the inbox and the documents");
        return Err(failure.hint("say --context, so that it may use them").into());
    }
    let ready = ready(&args, &name, &instance, &backend, &surroundings)?;
    let wanted =
        TeamRunOptions { ready, mode: Mode::Standalone, verbose: false, timeout: None, leftovers: Leftovers::Keep };
    if args.detached {
        return team::drive(context, wanted).await;
    }
    team::background(context, &wanted, args.again(&name, &instance, &backend)).await
}

/// The model or program that an agent is run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ChosenBackend {
    backend: &'static str,
    model: Option<&'static str>,
    /// The variable that the key of the model is in.
    key: Option<&'static str>,
}

impl fmt::Display for ChosenBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.model, self.key) {
            (Some(model), Some(key)) => write!(f, "{model}, because {key} is set"),
            _ => write!(f, "{}, which is installed", self.backend),
        }
    }
}

impl Args {
    /// The name and the instance, which can be said as `name@instance` too.
    fn place(&self) -> Result<(String, String), Failure> {
        match (self.name.split_once('@'), &self.instance) {
            (Some((_, own)), Some(instance)) if own != instance => {
                Err(Failure::usage(format!("{} is not in the instance {instance}", self.name))
                    .hint("say one of the two"))
            }
            (Some((name, instance)), _) if *Instance::default().name() == *instance => {
                let failure = Failure::usage(format!("{name}@{instance} is the id of a team's agent"));
                Err(failure.hint(format!("a standalone agent of {instance} is called {name}: rookery new {name}")))
            }
            (Some((name, instance)), _) => Ok((name.to_owned(), instance.to_owned())),
            (None, instance) => Ok((self.name.clone(), instance.clone().unwrap_or_else(|| "default".to_owned()))),
        }
    }

    /// What runs it, as far as the arguments tell.
    fn backend(&self) -> Option<&str> {
        match &self.backend {
            Some(backend) => Some(backend),
            None if !self.command.is_empty() => Some("command"),
            None if self.model.is_some() || self.base_url.is_some() => Some("sdk"),
            None => None,
        }
    }

    /// The first model whose key is in the environment, else the first agent program that is installed.
    fn available(&self, surroundings: &Surroundings<'_>) -> Result<ChosenBackend, Failure> {
        let is_set = |name: &&&str| surroundings.env.get(**name).is_some_and(|key| !key.is_empty());
        let model = MODELS.iter().find_map(|(model, keys)| Some((*model, *keys.iter().find(is_set)?)));
        if let Some((model, key)) = model {
            return Ok(ChosenBackend { backend: "sdk", model: Some(model), key: Some(key) });
        }
        let installed = PROGRAMS.iter().find(|(program, _)| (surroundings.find_program)(program).is_some());
        let installed = installed.map(|(_, backend)| ChosenBackend { backend, model: None, key: None });
        installed.ok_or_else(|| {
            Failure::usage(format!("no model or program to run {} with", self.name)).hint(
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, install claude or codex, or choose with --model or --backend",
            )
        })
    }

    /// The agent, in the words of the workflow file.
    fn agent(&self, backend: &str) -> Value {
        let mut agent = Map::new();
        let mut say = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                agent.insert(key.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        say("backend", Some(json!(backend)));
        say("model", text(&self.model));
        say("system_prompt", text(&self.system_prompt));
        say("wakeup", text(&self.wakeup));
        say("wakeup_prompt", text(&self.wakeup_prompt));
        say("timeout", self.timeout.map(|timeout| json!(format!("{}ms", timeout.as_millis()))));
        say("workspace", self.worktree.then(|| json!("worktree")));
        say("sandbox", self.no_sandbox.then_some(Value::Bool(false)));
        say("command", (!self.command.is_empty()).then(|| json!(self.command)));
        say("tools", (!self.context).then(|| json!(tools_without_context(backend))));
        let provider = [("base_url", &self.base_url), ("api_key", &self.api_key)];
        let provider: Map<String, Value> =
            provider.into_iter().filter_map(|(key, value)| Some((key.to_owned(), text(value)?))).collect();
        say("provider", (!provider.is_empty()).then(|| provider.into()));
        agent.into()
    }

    /// What the process in the background is started with.
    fn again(&self, name: &str, instance: &str, backend: &str) -> Vec<OsString> {
        let mut all: Vec<OsString> =
            ["new", name, "--detached", "--instance", instance, "--backend", backend].map(Into::into).to_vec();
        let texts = [
            ("--model", &self.model),
            ("--system-prompt", &self.system_prompt),
            ("--base-url", &self.base_url),
            ("--api-key", &self.api_key),
            ("--wakeup", &self.wakeup),
            ("--wakeup-prompt", &self.wakeup_prompt),
        ];
        let texts = texts.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value.as_ref()?)));
        all.extend(texts.map(OsString::from));
        all.extend(self.timeout.map(|timeout| OsString::from(format!("--timeout={}ms", timeout.as_millis()))));
        let flags = [("--context", self.context), ("--worktree", self.worktree), ("--no-sandbox", self.no_sandbox)];
        all.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| OsString::from(flag)));
        if !self.command.is_empty() {
            all.push("--".into());
            all.extend(self.command.iter().map(OsString::from));
        }
        all
    }
}

/// The team of one, checked like one of a file.
fn ready(
    args: &Args,
    name: &str,
    instance: &str,
    backend: &str,
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Ready> {
    let workflow = json!({"name": name, "agents": {name: args.agent(backend)}});
    let file: Arc<str> = "(standalone)".into();
    let source = WorkflowSource { file, folder: std::env::current_dir()?, text: workflow.to_string() };
    match Ready::check(&source, instance, &[], surroundings) {
        Ok(ready) => Ok(ready),
        Err(Refused::File(faults)) => {
            let told: Vec<String> = faults.iter().map(|fault| told(fault, name)).collect();
            Err(Failure::usage(told.join("\n")).hint("`rookery new --help` lists the options").into())
        }
        Err(Refused::Argument(error)) => Err(error.into()),
        Err(Refused::Instance(message)) => {
            Err(Failure::usage(message).hint("an instance is one word, such as pr-123").into())
        }
    }
}

/// A fault by the argument that it is about.
fn told(fault: &FileFault, name: &str) -> String {
    let path = fault.place.path.strip_prefix(&format!("agents.{name}")).unwrap_or_default();
    let about = match path.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default() {
        "" => "NAME".to_owned(),
        "command" => "PROGRAM".to_owned(),
        "provider" => format!("--{}", path.rsplit('.').next().unwrap_or_default().replace('_', "-")),
        key => format!("--{}", key.replace('_', "-")),
    };
    let found = fault.found.as_ref().map(|found| format!(", found {found}")).unwrap_or_default();
    let hint = fault.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{about}: {}{found}{hint}", fault.message)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;
    use rookery_runner::sandbox;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn available(env: &[(&str, &str)], installed: &'static str) -> Result<String, String> {
        let Line { args } = Line::parse_from(["new", "helper", "--context"]);
        let surroundings = Surroundings {
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            tools: Vec::new(),
            now: jiff::Zoned::default(),
            find_program: &|name| (name == installed).then(|| PathBuf::from("/bin").join(name)),
            sandbox: sandbox::SandboxSupport::Missing,
        };
        args.available(&surroundings).map(|found| found.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn agent_without_model_gets_one_with_a_key_else_an_installed_program() {
        let key = ("OPENAI_API_KEY", "k");
        assert_eq!(available(&[key], "claude").unwrap(), "openai/gpt-5, because OPENAI_API_KEY is set");
        let both = [key, ("ANTHROPIC_API_KEY", "k")];
        assert_eq!(available(&both, "").unwrap(), "anthropic/claude-sonnet-4-5, because ANTHROPIC_API_KEY is set");
        let google = [("ANTHROPIC_API_KEY", ""), ("GOOGLE_API_KEY", "k")];
        assert_eq!(available(&google, "").unwrap(), "google/gemini-2.5-pro, because GOOGLE_API_KEY is set");
        assert_eq!(available(&[], "codex").unwrap(), "codex, which is installed");
        assert_eq!(available(&[], "").unwrap_err(), "no model or program to run helper with");
    }
}
