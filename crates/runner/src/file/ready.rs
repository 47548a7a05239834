//! A workflow of one instance, with its parameters and variables, checked as far as possible before a run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use jiff::Zoned;
use rookery_core::kernel::instance;
use rookery_core::kernel::instance::Instance;
use rookery_core::messages::mentions;
use rookery_core::model::context_settings::{CHANNEL, ContextSettings, ENTRY_POINT, Provider};
use serde::Serialize;

use super::check;
use super::context;
use super::fault::{FileFault, FileFaults};
use super::params::{self, ArgumentError, WorkflowParam};
use super::source::WorkflowSource;
use super::variables::{TextScope, Variables};
use super::workflow::Workflow;
use crate::sandbox::SandboxSupport;

/// The environment of a check, given explicitly so that tests can set it.
pub struct Surroundings<'a> {
    pub env: BTreeMap<String, String>,
    /// The names of the tools available to agents.
    pub tools: Vec<String>,
    pub now: Zoned,
    /// Finds the path of a program, if it can be started.
    pub find_program: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Whether sandboxes can be created.
    pub sandbox: SandboxSupport,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment holds secrets.
        f.debug_struct("Surroundings").field("now", &self.now).finish_non_exhaustive()
    }
}

/// A workflow without faults in its file.
#[derive(Clone, PartialEq, Debug)]
pub struct Ready {
    pub file: String,
    pub name: String,
    pub workflow: Workflow,
    pub variables: Variables,
    /// The context settings for the daemon.
    pub context: ContextSettings,
    /// The folder of the context, relative to the project, if it has files.
    pub folder: Option<String>,
}

/// The reason why a file cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    File(FileFaults),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("{0}")]
    Instance(String),
}

/// A reason why a valid file cannot be run here or now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Blocker {
    /// A required parameter is missing.
    MissingParam {
        name: String,
    },
    NoKickoff,
    /// The kickoff mentions no agent, so that none begins.
    #[serde(rename = "nobody_mentioned")]
    NoAgentMentioned,
    /// The program of an agent is not on this machine.
    MissingProgram {
        agent: String,
        program: String,
    },
    /// The backend of an agent cannot work here, for example without an API key.
    Backend {
        agent: String,
        reason: String,
    },
}

impl Blocker {
    /// Whether it also blocks `rookery start`, whose team can get messages later.
    pub fn blocks_start(&self) -> bool {
        !matches!(self, Blocker::NoKickoff | Blocker::NoAgentMentioned)
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::MissingParam { name } => write!(f, "missing required parameter `{name}`: -- --{name} VALUE"),
            Blocker::NoKickoff => f.write_str("there is no kickoff, so no agent begins"),
            Blocker::NoAgentMentioned => f.write_str("the kickoff mentions no agent of the team, so none begins"),
            Blocker::MissingProgram { agent, program } if program.contains('/') => {
                write!(f, "{agent}: the program `{program}` does not exist or is not executable")
            }
            Blocker::MissingProgram { agent, program } => {
                write!(f, "{agent}: the program `{program}` is not on the PATH")
            }
            Blocker::Backend { agent, reason } => write!(f, "{agent}: {reason}"),
        }
    }
}

impl Ready {
    /// Parses and checks a file for an instance, with the command-line arguments after `--`.
    pub fn check(
        source: &WorkflowSource,
        instance: &str,
        arguments: &[String],
        surroundings: &Surroundings<'_>,
    ) -> Result<Ready, Refused> {
        instance::check_name("instance", &format!("a@{instance}"))
            .map_err(|refusal| Refused::Instance(refusal.message))?;
        let (workflow, mut faults) = source.parse();
        let Some(workflow) = workflow else {
            if faults.is_empty() {
                faults.add(FileFault::new(&source.beginning(), "the file is empty"));
            }
            return Err(Refused::File(faults));
        };
        let values = match params::parse_arguments(&workflow.params, arguments) {
            Ok(values) => values,
            // FileFaults of the file may be the cause of a wrong argument.
            Err(error) if faults.is_empty() => return Err(error.into()),
            Err(_) => BTreeMap::new(),
        };
        let name = workflow.name.as_ref().map_or_else(|| source.stem(), |name| name.value.clone());
        let mut ready = Ready {
            file: source.file.to_string(),
            variables: variables(&workflow, &name, instance, values, surroundings),
            context: ContextSettings::default(),
            folder: None,
            name,
            workflow,
        };
        ready.resolve_context(&mut faults);
        check::check(&ready, &surroundings.tools, &mut faults);
        if faults.is_empty() { Ok(ready) } else { Err(Refused::File(faults.in_order())) }
    }

    /// Resolves the settings of the context, which become variables for other texts.
    fn resolve_context(&mut self, faults: &mut FileFaults) {
        let config = self.workflow.context.clone();
        if config.provider == Provider::File {
            // Defaults for now, so that a fault in the settings does not cause others about a context without files.
            self.variables.context = Some((CHANNEL.to_owned(), ENTRY_POINT.to_owned()));
        }
        let before = faults.count();
        config.templates().for_each(|template| self.variables.check(template, TextScope::Context, faults));
        if faults.count() > before {
            return;
        }
        self.context = config.settings(|template| self.variables.fill(template));
        if let Some(dir) = &config.dir {
            self.context.dir = Some(self.variables.fill_folder(dir));
        }
        for (place, one) in config.one_by_one(&self.context) {
            if let Err(refusal) = one.check() {
                faults.add(FileFault::new(&place, refusal.message));
            }
        }
        if config.provider != Provider::File {
            return;
        }
        match (self.context.folder(&self.variables.instance), &config.dir) {
            (Ok(folder), _) => {
                let folder = folder.as_str();
                let below = |file: &str| format!("{folder}/{file}");
                self.variables.context =
                    Some((below(context::channel(&self.context)), below(context::document(&self.context))));
                self.folder = Some(folder.to_owned());
            }
            (Err(refusal), Some(dir)) => faults.add(FileFault::new(&dir.place, refusal.message)),
            // The default folder is valid for every instance.
            (Err(_), None) => {}
        }
    }

    /// The kickoff, with unknown variables marked.
    pub fn kickoff(&self) -> Option<String> {
        self.workflow.kickoff.as_ref().filter(|kickoff| !kickoff.is_blank()).map(|kickoff| self.variables.fill(kickoff))
    }

    /// The agents that a text mentions, in its order.
    pub fn mentioned_agents(&self, text: &str) -> Vec<&str> {
        let here = &self.variables.instance;
        let members = |name: &String| self.workflow.agent(name).map(|agent| agent.name.value.as_str());
        let names = mentions(text, here).into_iter().filter(|agent| here.agent(instance::bare(agent)) == *agent);
        names.map(|agent| instance::bare(&agent).to_owned()).filter_map(|name| members(&name)).collect()
    }

    /// Lists blockers that are independent of the machine.
    pub fn blockers(&self) -> Vec<Blocker> {
        let missing = self.variables.params.iter().filter(|(_, value)| value.is_none());
        let mut all: Vec<_> = missing.map(|(name, _)| Blocker::MissingParam { name: name.clone() }).collect();
        match self.kickoff() {
            None => all.push(Blocker::NoKickoff),
            Some(kickoff) if self.mentioned_agents(&kickoff).is_empty() => all.push(Blocker::NoAgentMentioned),
            Some(_) => {}
        }
        all
    }
}

fn variables(
    workflow: &Workflow,
    name: &str,
    instance: &str,
    mut values: BTreeMap<String, String>,
    surroundings: &Surroundings<'_>,
) -> Variables {
    let value = |param: &WorkflowParam| {
        (param.name.value.clone(), values.remove(&param.name.value).or_else(|| param.default_value()))
    };
    let setup = workflow.setup.iter().filter_map(|setup| setup.variable.as_ref());
    Variables {
        env: surroundings.env.clone(),
        workflow: name.to_owned(),
        instance: Instance::new(instance),
        params: workflow.params.iter().map(value).collect(),
        setup: setup.map(|variable| (variable.value.clone(), None)).collect(),
        context: None,
    }
}
