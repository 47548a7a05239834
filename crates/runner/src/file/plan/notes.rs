//! Remarks about a workflow that do not block a run.

use rookery_core::kernel::instance;
use rookery_core::messages::mentions;

use super::super::agent::{Agent, EnvValue, Sandbox};
use super::super::backend::{AgentProgram, Backend};
use super::super::near::nearest;
use super::super::ready::{Ready, Surroundings};
use super::{has_model, is_literal_secret};

pub(super) fn of(ready: &Ready, kickoff: Option<&str>, surroundings: &Surroundings<'_>) -> Vec<String> {
    let mut notes: Vec<String> = kickoff.map(|kickoff| unknown_mentions(ready, kickoff)).unwrap_or_default();
    for agent in &ready.workflow.agents {
        of_agent(agent, surroundings, &mut notes);
    }
    notes.extend(cost_limit_warning(ready));
    notes
}

/// A warning about agents that `max_cost_usd` may not limit, because their backends may report no cost.
pub(crate) fn cost_limit_warning(ready: &Ready) -> Option<String> {
    ready.workflow.limits.max_cost_usd?;
    let may_report_none = |agent: &&Agent| match &agent.backend {
        Backend::Program(AgentProgram::Claude | AgentProgram::Opencode) | Backend::Mock { .. } => false,
        Backend::Program(AgentProgram::Codex | AgentProgram::Cursor | AgentProgram::Gemini) => true,
        Backend::Sdk { .. } | Backend::Command { .. } => true,
    };
    let names: Vec<&str> =
        ready.workflow.agents.iter().filter(may_report_none).map(|agent| agent.name.value.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: `max_cost_usd` counts only reported costs, and their backends may report none; set `max_turns` too",
            names.join(", ")
        )
    })
}

/// Reports mentions of unknown agents that resemble a member of the team.
fn unknown_mentions(ready: &Ready, kickoff: &str) -> Vec<String> {
    let here = &ready.variables.instance;
    let mentioned = mentions(kickoff, here).into_iter().filter(|agent| here.agent(instance::bare(agent)) == *agent);
    let unknown =
        mentioned.map(|agent| instance::bare(&agent).to_owned()).filter(|name| ready.workflow.agent(name).is_none());
    let note = |name: String| {
        let meant = nearest(&name, ready.workflow.names.iter().map(String::as_str))?;
        Some(format!("the kickoff mentions @{name}, but no agent has this name; did you mean @{meant}?"))
    };
    unknown.filter_map(note).collect()
}

fn of_agent(agent: &Agent, surroundings: &Surroundings<'_>, notes: &mut Vec<String>) {
    let name = &agent.name.value;
    if agent.model.is_some() && !has_model(&agent.backend) {
        notes.push(format!("{name}: the backend `{}` ignores `model`", agent.backend.as_str()));
    }
    if agent.sandbox == Sandbox::Off {
        notes.push(format!("{name}: runs without a sandbox, as configured"));
    }
    for (variable, value) in &agent.env {
        match value {
            EnvValue::Inherited(from) if !surroundings.env.contains_key(&from.value) => {
                notes.push(format!("{name}: the environment has no {}, so {} is not set", from.value, variable.value));
            }
            value if is_literal_secret(&variable.value, value) => notes.push(format!(
                "{name}: {} looks like a secret in the file; write ${} and put the value into the environment",
                variable.value, variable.value
            )),
            _ => {}
        }
    }
}
