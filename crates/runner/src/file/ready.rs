//! A workflow for one instance: parameters said, variables known, everything checked that can be before something runs.

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
use super::fault::{Fault, Faults};
use super::params::{self, ArgumentError, Param};
use super::source::Source;
use super::variables::{Scope, Variables};
use super::workflow::Workflow;
use crate::sandbox::SandboxSupport;

/// What is around the file: nothing here is read from the process itself, so that a test can say what it is.
pub struct Surroundings<'a> {
    pub env: BTreeMap<String, String>,
    /// The names of the tools that agents can be given.
    pub tools: Vec<String>,
    pub now: Zoned,
    /// Where a program is, if it can be started.
    pub find_program: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// The means to make sandboxes.
    pub sandbox: SandboxSupport,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment holds secrets.
        f.debug_struct("Surroundings").field("now", &self.now).finish_non_exhaustive()
    }
}

/// A workflow that can be run as far as its file tells.
#[derive(Clone, PartialEq, Debug)]
pub struct Ready {
    pub file: String,
    pub name: String,
    pub workflow: Workflow,
    pub variables: Variables,
    /// What the daemon is told about the context.
    pub context: ContextSettings,
    /// The folder of the context, relative to the project, if it has files.
    pub folder: Option<String>,
}

/// Why a file cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    File(Faults),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("{0}")]
    Instance(String),
}

/// What keeps a sound file from being run to its end as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Blocker {
    /// A parameter must be said and was not.
    MissingParam {
        name: String,
    },
    NoKickoff,
    /// The kickoff is for nobody, so that nobody begins.
    NobodyMentioned,
    /// A program that an agent is, or runs, is not on this machine.
    MissingProgram {
        agent: String,
        program: String,
    },
    /// The backend of an agent lacks something here, such as the key of its model.
    Backend {
        agent: String,
        reason: String,
    },
}

impl Blocker {
    /// Whether a team that stays, and so can be written to later, is hindered too.
    pub fn also_hinders_start(&self) -> bool {
        !matches!(self, Blocker::NoKickoff | Blocker::NobodyMentioned)
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::MissingParam { name } => write!(f, "missing required parameter `{name}`: -- --{name} VALUE"),
            Blocker::NoKickoff => f.write_str("there is no kickoff, so nobody begins"),
            Blocker::NobodyMentioned => f.write_str("the kickoff mentions no agent of the team, so nobody begins"),
            Blocker::MissingProgram { agent, program } if program.contains('/') => {
                write!(f, "{agent}: the program `{program}` is not there, or cannot be started")
            }
            Blocker::MissingProgram { agent, program } => {
                write!(f, "{agent}: the program `{program}` is not on the PATH")
            }
            Blocker::Backend { agent, reason } => write!(f, "{agent}: {reason}"),
        }
    }
}

impl Ready {
    /// Reads and checks a file for an instance, with what was said after `--`.
    pub fn check(
        source: &Source,
        instance: &str,
        said: &[String],
        surroundings: &Surroundings<'_>,
    ) -> Result<Ready, Refused> {
        instance::check_name("instance", &format!("a@{instance}"))
            .map_err(|refusal| Refused::Instance(refusal.message))?;
        let (workflow, mut faults) = source.parse();
        let Some(workflow) = workflow else {
            if faults.is_empty() {
                faults.add(Fault::new(&source.beginning(), "there is nothing in it"));
            }
            return Err(Refused::File(faults));
        };
        let values = match params::given(&workflow.params, said) {
            Ok(values) => values,
            // What is wrong with the file may be why an argument does not fit.
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
        ready.settle_context(&mut faults);
        check::check(&ready, &surroundings.tools, &mut faults);
        if faults.is_empty() { Ok(ready) } else { Err(Refused::File(faults.in_order())) }
    }

    /// Where the context is, which other texts can then say.
    fn settle_context(&mut self, faults: &mut Faults) {
        let config = self.workflow.context.clone();
        if config.provider == Provider::File {
            // Until it is settled, so that nobody is told of a context without files because of a fault in where they are.
            self.variables.context = Some((CHANNEL.to_owned(), ENTRY_POINT.to_owned()));
        }
        let before = faults.count();
        config.templates().for_each(|template| self.variables.check(template, Scope::Context, faults));
        if faults.count() > before {
            return;
        }
        self.context = config.settings(|template| self.variables.fill(template));
        if let Some(dir) = &config.dir {
            self.context.dir = Some(self.variables.fill_folder(dir));
        }
        for (place, one) in config.one_by_one(&self.context) {
            if let Err(refusal) = one.check() {
                faults.add(Fault::new(&place, refusal.message));
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
            (Err(refusal), Some(dir)) => faults.add(Fault::new(&dir.place, refusal.message)),
            // The folder that is built in is right for every instance that can be.
            (Err(_), None) => {}
        }
    }

    /// The first message, with what is not known yet by name.
    pub fn kickoff(&self) -> Option<String> {
        self.workflow.kickoff.as_ref().filter(|kickoff| !kickoff.is_blank()).map(|kickoff| self.variables.fill(kickoff))
    }

    /// The agents that a text wakes, in its order.
    pub fn mentioned(&self, text: &str) -> Vec<&str> {
        let here = &self.variables.instance;
        let members = |name: &String| self.workflow.agent(name).map(|agent| agent.name.value.as_str());
        let names = mentions(text, here).into_iter().filter(|agent| Instance::of(agent) == *here);
        names.map(|agent| instance::bare(&agent).to_owned()).filter_map(|name| members(&name)).collect()
    }

    /// What keeps it from being run.
    pub fn hindrances(&self) -> Vec<Blocker> {
        let missing = self.variables.params.iter().filter(|(_, value)| value.is_none());
        let mut all: Vec<_> = missing.map(|(name, _)| Blocker::MissingParam { name: name.clone() }).collect();
        match self.kickoff() {
            None => all.push(Blocker::NoKickoff),
            Some(kickoff) if self.mentioned(&kickoff).is_empty() => all.push(Blocker::NobodyMentioned),
            Some(_) => {}
        }
        all
    }
}

fn variables(
    workflow: &Workflow,
    name: &str,
    instance: &str,
    mut said: BTreeMap<String, String>,
    surroundings: &Surroundings<'_>,
) -> Variables {
    let value = |param: &Param| (param.name.value.clone(), said.remove(&param.name.value).or_else(|| param.unsaid()));
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
