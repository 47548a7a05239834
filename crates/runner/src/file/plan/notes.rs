//! What is not wrong, and worth knowing before a run.

use rookery_core::kernel::instance;
use rookery_core::kernel::instance::Instance;
use rookery_core::messages::mentions;

use super::super::agent::{Agent, EnvValue, Sandbox};
use super::super::backend::{AgentProgram, Backend};
use super::super::near::nearest;
use super::super::ready::{Ready, Surroundings};
use super::{has_model, is_literal_secret};

pub(super) fn of(ready: &Ready, kickoff: Option<&str>, surroundings: &Surroundings<'_>) -> Vec<String> {
    let mut notes: Vec<String> = kickoff.map(|kickoff| nobody(ready, kickoff)).unwrap_or_default();
    for agent in &ready.workflow.agents {
        of_agent(agent, surroundings, &mut notes);
    }
    notes.extend(unbounded(ready));
    notes
}

/// Whom a limit of costs does not bound, because nobody tells what they cost.
pub(crate) fn unbounded(ready: &Ready) -> Option<String> {
    ready.workflow.limits.max_cost_usd?;
    let is_untold = |agent: &&Agent| match &agent.backend {
        Backend::Program(AgentProgram::Claude | AgentProgram::Opencode) | Backend::Mock { .. } => false,
        Backend::Program(AgentProgram::Codex | AgentProgram::Cursor | AgentProgram::Gemini) => true,
        Backend::Sdk { .. } | Backend::Command { .. } => true,
    };
    let names: Vec<&str> =
        ready.workflow.agents.iter().filter(is_untold).map(|agent| agent.name.value.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: `max_cost_usd` counts only costs that are told, which may be none; `max_turns` bounds too",
            names.join(", ")
        )
    })
}

/// Mentions of nobody that look like somebody of the team.
fn nobody(ready: &Ready, kickoff: &str) -> Vec<String> {
    let here = &ready.variables.instance;
    let strangers = mentions(kickoff, here).into_iter().filter(|agent| Instance::of(agent) == *here);
    let strangers =
        strangers.map(|agent| instance::bare(&agent).to_owned()).filter(|name| ready.workflow.agent(name).is_none());
    let told = |name: String| {
        let meant = nearest(&name, ready.workflow.names.iter().map(String::as_str))?;
        Some(format!("the kickoff mentions @{name}, and nobody is called so; did you mean @{meant}?"))
    };
    strangers.filter_map(told).collect()
}

fn of_agent(agent: &Agent, surroundings: &Surroundings<'_>, notes: &mut Vec<String>) {
    let name = &agent.name.value;
    if agent.model.is_some() && !has_model(&agent.backend) {
        notes.push(format!("{name}: the backend `{}` takes no notice of `model`", agent.backend.as_str()));
    }
    if agent.sandbox == Sandbox::Off {
        notes.push(format!("{name}: runs without a sandbox, as the file says"));
    }
    for (variable, value) in &agent.env {
        match value {
            EnvValue::Inherited(from) if !surroundings.env.contains_key(&from.value) => {
                notes.push(format!("{name}: the environment has no {}, so {} is not set", from.value, variable.value));
            }
            value if is_literal_secret(&variable.value, value) => notes.push(format!(
                "{name}: {} looks like a secret that stands in the file; write ${} and put it into the environment",
                variable.value, variable.value
            )),
            _ => {}
        }
    }
}
