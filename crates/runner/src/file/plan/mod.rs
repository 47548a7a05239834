//! The preview of a run, as text for people and as JSON for programs. Creating it has no side effects.

pub(crate) mod notes;
mod show;

use jiff::Zoned;
use rookery_core::model::context_settings::Provider;
use serde::Serialize;

use super::agent::{Agent, EnvValue, Sandbox};
use super::backend::Backend;
use super::check::resolve;
use super::context;
use super::duration;
use super::ready::{Blocker, Ready, Surroundings};
use super::sandbox_limits::SandboxLimits;
use super::script::Then;
use crate::backend::preflight;
use crate::sandbox::warning_for;

/// Number of times of a schedule in the preview.
const SCHEDULE_TIMES: usize = 3;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunPreview {
    pub file: String,
    pub workflow: String,
    pub instance: String,
    agents: Vec<PlannedAgent>,
    params: Vec<PlannedParam>,
    setup: Vec<PlannedSetup>,
    /// With names of unknown variables in `‹ ›`.
    pub kickoff: Option<String>,
    /// The agents that the kickoff wakes, in its order.
    pub woken_first: Vec<String>,
    context: PlannedContext,
    limits: PlannedLimits,
    steps: Vec<PlannedStep>,
    #[serde(rename = "hindrances")]
    pub blockers: Vec<Blocker>,
    /// Remarks that do not block a run.
    pub notes: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedAgent {
    pub name: String,
    pub id: String,
    pub backend: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The program to start, with its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<PlannedProgram>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<PlannedScript>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<PlannedPrompt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    pub workspace: &'static str,
    pub sandbox: PlannedSandbox,
    /// The names of its variables. Their values may be secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeup: Option<PlannedWakeup>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedProgram {
    pub argv: Vec<String>,
    /// The path of the executable; `None` if it is missing.
    pub found: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedScript {
    pub turns: usize,
    pub then: &'static str,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedPrompt {
    /// `None` if the text is in the workflow file.
    pub file: Option<String>,
    pub characters: usize,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedSandbox {
    pub on: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    #[serde(skip_serializing_if = "SandboxLimits::is_empty")]
    pub limits: SandboxLimits,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedWakeup {
    pub when: String,
    /// The next times of a cron line; empty for an interval.
    pub next: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedParam {
    pub name: String,
    /// `None` if it is required and missing.
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedSetup {
    pub shell: String,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedContext {
    pub provider: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    pub channel: String,
    pub document: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct PlannedStep {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(rename = "type")]
    pub message_type: String,
    pub payload_type: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

impl RunPreview {
    /// Whether `rookery start` can start it here. `rookery run` also needs a kickoff that mentions an agent.
    pub fn can_be_started(&self) -> bool {
        !self.blockers.iter().any(Blocker::blocks_start)
    }

    pub fn of(ready: &Ready, surroundings: &Surroundings<'_>) -> RunPreview {
        let workflow = &ready.workflow;
        let kickoff = ready.kickoff();
        let woken = kickoff.as_deref().map(|kickoff| ready.mentioned_agents(kickoff)).unwrap_or_default();
        let setup = |setup: &super::Setup| PlannedSetup {
            shell: setup.shell.value.clone(),
            variable: setup.variable.as_ref().map(|variable| variable.value.clone()),
        };
        let param = |param: &super::WorkflowParam| PlannedParam {
            name: param.name.value.clone(),
            value: ready.variables.params.get(&param.name.value).cloned().flatten(),
            description: param.description.clone(),
        };
        // A team runs without one, with this warning; so a check passes.
        let no_sandbox = warning_for(&surroundings.sandbox, &workflow.agents);
        RunPreview {
            file: ready.file.clone(),
            workflow: ready.name.clone(),
            instance: ready.variables.instance.to_string(),
            agents: workflow.agents.iter().map(|agent| plan_agent(agent, ready, surroundings)).collect(),
            params: workflow.params.iter().map(param).collect(),
            setup: workflow.setup.iter().map(setup).collect(),
            woken_first: woken.into_iter().map(str::to_owned).collect(),
            context: context_of(ready),
            limits: limits_of(ready),
            steps: workflow.steps.iter().map(step).collect(),
            blockers: ready.blockers().into_iter().chain(machine_blockers(ready, surroundings)).collect(),
            notes: notes::of(ready, kickoff.as_deref(), surroundings).into_iter().chain(no_sandbox).collect(),
            kickoff,
        }
    }
}

/// Lists blockers that depend on this machine.
fn machine_blockers(ready: &Ready, surroundings: &Surroundings<'_>) -> Vec<Blocker> {
    let agents = &ready.workflow.agents;
    let named = |agent: &Agent| agent.name.value.clone();
    let program = |agent: &Agent| {
        let program = program(agent, ready, surroundings).filter(|program| program.found.is_none())?;
        Some(Blocker::MissingProgram { agent: named(agent), program: program.argv.first()?.clone() })
    };
    let model = |agent: &Agent| {
        let Backend::Sdk { provider, .. } = &agent.backend else { return None };
        // A missing parameter may be part of the model's name.
        let is_resolved = agent.model.iter().chain(&provider.base_url).all(|text| resolve(text, ready).is_some());
        let failure = is_resolved.then(|| preflight(agent, &ready.variables).err()).flatten()?;
        Some(Blocker::Backend { agent: named(agent), reason: failure.reason })
    };
    agents.iter().filter_map(|agent| program(agent).or_else(|| model(agent))).collect()
}

fn plan_agent(agent: &Agent, ready: &Ready, surroundings: &Surroundings<'_>) -> PlannedAgent {
    let variables = &ready.variables;
    let prompt = |prompt: &super::Prompt| PlannedPrompt {
        file: prompt.file.clone(),
        characters: variables.fill(&prompt.text).chars().count(),
    };
    let wakeup = |wakeup: &super::Wakeup| PlannedWakeup {
        when: wakeup.show(),
        next: wakeup.next(&surroundings.now, SCHEDULE_TIMES).iter().map(time).collect(),
        prompt: agent.wakeup_prompt.as_ref().map(|prompt| variables.fill(prompt)),
    };
    let script = match &agent.backend {
        Backend::Mock { script } => Some(PlannedScript { turns: script.turns.len(), then: after(script.then) }),
        _ => None,
    };
    let max_tokens = match &agent.backend {
        Backend::Sdk { max_tokens, .. } => *max_tokens,
        _ => None,
    };
    PlannedAgent {
        name: agent.name.value.clone(),
        id: variables.instance.agent(&agent.name.value).to_string(),
        backend: agent.backend.as_str(),
        model: agent.model.as_ref().filter(|_| has_model(&agent.backend)).map(|model| variables.fill(model)),
        program: program(agent, ready, surroundings),
        script,
        system_prompt: agent.system_prompt.as_ref().map(prompt),
        tools: agent.tools.as_ref().map(|tools| tools.iter().map(|tool| tool.value.clone()).collect()),
        workspace: agent.workspace.as_str(),
        sandbox: sandbox(&agent.sandbox),
        env: agent.env.iter().map(|(name, _)| name.value.clone()).collect(),
        max_turns: agent.max_turns,
        max_tokens,
        timeout: agent.timeout.map(duration::show),
        wakeup: agent.wakeup.as_ref().map(wakeup),
    }
}

/// Whether a backend uses a model.
fn has_model(backend: &Backend) -> bool {
    matches!(backend, Backend::Sdk { .. } | Backend::Program(_))
}

fn program(agent: &Agent, ready: &Ready, surroundings: &Surroundings<'_>) -> Option<PlannedProgram> {
    let find = |name: &str| (surroundings.find_program)(name).map(|path| path.display().to_string());
    match &agent.backend {
        Backend::Program(program) => {
            let found = program.names().iter().find_map(|name| Some((*name, find(name)?)));
            let name = found.as_ref().map_or_else(|| program.names()[0], |(name, _)| name);
            Some(PlannedProgram { argv: vec![name.to_owned()], found: found.map(|(_, path)| path) })
        }
        Backend::Command { argv } => {
            let argv: Vec<String> = argv.iter().map(|part| ready.variables.fill(part)).collect();
            let found = argv.first().and_then(|name| find(name));
            Some(PlannedProgram { argv, found })
        }
        Backend::Sdk { .. } | Backend::Mock { .. } => None,
    }
}

fn sandbox(sandbox: &Sandbox) -> PlannedSandbox {
    let texts = |all: &[super::InFile<String>]| all.iter().map(|text| text.value.clone()).collect();
    match sandbox {
        Sandbox::Off => {
            PlannedSandbox { on: false, network: Vec::new(), write: Vec::new(), limits: SandboxLimits::default() }
        }
        Sandbox::On { network, write, limits } => {
            PlannedSandbox { on: true, network: texts(network), write: texts(write), limits: *limits }
        }
    }
}

fn after(then: Then) -> &'static str {
    match then {
        Then::Pass => "pass",
        Then::Repeat => "repeat",
        Then::Fail => "fail",
    }
}

fn time(at: &Zoned) -> String {
    at.strftime("%Y-%m-%d %H:%M %Z").to_string()
}

fn context_of(ready: &Ready) -> PlannedContext {
    PlannedContext {
        provider: ready.workflow.context.provider.as_str(),
        folder: ready.folder.clone().filter(|_| ready.workflow.context.provider == Provider::File),
        channel: context::channel(&ready.context).to_owned(),
        document: context::document(&ready.context).to_owned(),
        documents: ready.context.documents.clone().unwrap_or_default(),
    }
}

fn limits_of(ready: &Ready) -> PlannedLimits {
    let super::TeamLimits { max_turns, max_messages, max_runtime, max_cost_usd } = ready.workflow.limits;
    PlannedLimits { max_turns, max_messages, max_runtime: max_runtime.map(duration::show), max_cost_usd }
}

fn step(step: &super::StepConfig) -> PlannedStep {
    PlannedStep {
        id: step.rule.id.clone(),
        agent: step.agent.as_ref().map(|agent| agent.value.clone()),
        message_type: step.rule.expects.message_type.as_str().to_owned(),
        payload_type: step.rule.expects.payload_type.as_str().to_owned(),
        required: step.rule.expects.required.clone(),
    }
}

/// Whether a variable has a secret's name and a literal value in the file.
fn is_literal_secret(name: &str, value: &EnvValue) -> bool {
    let name = name.to_ascii_uppercase();
    let secret = ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|ending| name.ends_with(ending));
    let literal = matches!(value, EnvValue::Text(template) if template.plain().is_some_and(|text| !text.is_empty()));
    secret && literal
}
