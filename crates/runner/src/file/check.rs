//! Checks that span several parts of a file: variables, tools, names of agents, and contradictions.

use rookery_core::model::context_settings::Provider;

use super::agent::{Agent, EnvValue, check_is_member};
use super::backend::Backend;
use super::fault::{FileFault, FileFaults, InFile};
use super::near::nearest;
use super::ready::Ready;
use super::script::{Action, Script};
use super::template::TextTemplate;
use super::variables::{TextScope, VariableValue};

/// Providers in `provider/model` with a known address.
const PROVIDERS: [&str; 4] = ["anthropic", "openai", "google", "ollama"];
/// Tools of the backend `sdk`; programs have their own.
const OWN_TOOLS: [&str; 3] = ["bash", "read", "edit"];

pub(super) fn check(ready: &Ready, tools: &[String], faults: &mut FileFaults) {
    let workflow = &ready.workflow;
    let variables = ready.variables.command_variables();
    workflow.setup.iter().for_each(|setup| setup.check(&variables, faults));
    if let Some(kickoff) = &workflow.kickoff {
        ready.variables.check(kickoff, TextScope::Text, faults);
        if workflow.context.provider == Provider::Off && !kickoff.is_blank() {
            let fault = FileFault::new(&kickoff.place, "there is no channel for it: `context` is false");
            faults.add(fault.hint("remove one of the two"));
        }
    }
    for agent in &workflow.agents {
        check_agent(agent, ready, tools, faults);
    }
}

fn check_agent(agent: &Agent, ready: &Ready, tools: &[String], faults: &mut FileFaults) {
    let mut text = |template: &TextTemplate| ready.variables.check(template, TextScope::Text, faults);
    agent.system_prompt.iter().for_each(|prompt| text(&prompt.text));
    agent.wakeup_prompt.iter().for_each(&mut text);
    let mut setting = |template: &TextTemplate| ready.variables.check(template, TextScope::Setting, faults);
    agent.model.iter().for_each(&mut setting);
    for (_, value) in &agent.env {
        if let EnvValue::Text(template) = value {
            setting(template);
        }
    }
    match &agent.backend {
        Backend::Sdk { provider, .. } => {
            provider.base_url.iter().for_each(&mut setting);
            check_model(agent, ready, faults);
            if let Some(url) = &provider.base_url {
                check_url(url, ready, faults);
            }
        }
        Backend::Command { argv } => argv.iter().for_each(setting),
        Backend::Mock { script } => check_script(agent, script, ready, tools, faults),
        Backend::Program(_) => {}
    }
    for tool in agent.tools.iter().flatten() {
        check_tool(tool, &agent.backend, tools, faults);
    }
}

/// Fills in a text, if all its variables are known.
pub(super) fn resolve(template: &TextTemplate, ready: &Ready) -> Option<String> {
    let known = |name: &str| matches!(ready.variables.look_up(name), VariableValue::Value(_));
    let is_resolvable =
        !ready.variables.is_too_long(template) && template.variables().all(|variable| known(&variable.name));
    is_resolvable.then(|| ready.variables.fill(template))
}

fn check_model(agent: &Agent, ready: &Ready, faults: &mut FileFaults) {
    let Some((template, model)) = agent.model.as_ref().and_then(|model| Some((model, resolve(model, ready)?))) else {
        return;
    };
    let fault = |message: &str| FileFault::new(&template.place, message).found(format!("`{model}`"));
    let own_address = matches!(&agent.backend, Backend::Sdk { provider, .. } if provider.base_url.is_some());
    match model.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() && !model.contains(char::is_whitespace) => {
            if !PROVIDERS.contains(&provider) && !own_address {
                let fault = fault("is a provider without a known address");
                faults.add(match nearest(provider, PROVIDERS) {
                    Some(meant) => fault.meant(Some(&format!("{meant}/{name}"))),
                    None => fault.hint(format!("use one of {}, or set `provider.base_url`", PROVIDERS.join(", "))),
                });
            }
        }
        _ => faults.add(
            fault("must be provider/model")
                .hint("such as anthropic/claude-sonnet-4-5; to run a program, set `backend`"),
        ),
    }
}

fn check_url(template: &TextTemplate, ready: &Ready, faults: &mut FileFaults) {
    let Some(url) = resolve(template, ready) else { return };
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)) {
        let fault = FileFault::new(&template.place, "must be an address").found(format!("`{url}`"));
        faults.add(fault.hint("such as https://models.example.com/v1"));
    }
}

fn check_tool(tool: &InFile<String>, backend: &Backend, tools: &[String], faults: &mut FileFaults) {
    let is_own = OWN_TOOLS.contains(&tool.value.as_str());
    let has_own = matches!(backend, Backend::Sdk { .. });
    if tools.contains(&tool.value) || (is_own && has_own) {
        return;
    }
    if is_own {
        let message = format!("`{}` is a tool of the backend `sdk`, but this is `{}`", tool.value, backend.as_str());
        faults.add(FileFault::new(&tool.place, message).hint("remove it; programs have their own tools for that"));
        return;
    }
    add_unknown_tool(tool, tools.iter().map(String::as_str).chain(OWN_TOOLS.into_iter().filter(|_| has_own)), faults);
}

fn add_unknown_tool<'a>(tool: &InFile<String>, known: impl Iterator<Item = &'a str>, faults: &mut FileFaults) {
    faults.add_with(|| {
        let fault = FileFault::new(&tool.place, format!("there is no tool `{}`", tool.value));
        match nearest(&tool.value, known) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint("`rookery reference mcp` lists them"),
        }
    });
}

fn check_script(agent: &Agent, script: &Script, ready: &Ready, tools: &[String], faults: &mut FileFaults) {
    // A script with repetitions or conditions may run in another order than written, so a result that is kept anywhere counts
    // as known everywhere.
    let kept = script.actions().filter_map(|action| match &action.value {
        Action::Call { keep: Some(keep), .. } => Some(keep.value.clone()),
        _ => None,
    });
    let kept: Vec<String> = kept.collect();
    for action in script.actions() {
        for template in action.value.templates() {
            ready.variables.check(template, TextScope::Script(&kept), faults);
        }
        match &action.value {
            Action::Send { to: Some(to), .. } => check_is_member(to, &ready.workflow.names, faults),
            Action::Call { tool, .. } => check_call(agent, tool, tools, faults),
            _ => {}
        }
    }
    for from in script.turns.iter().filter_map(|turn| turn.when.as_ref()?.from.as_ref()) {
        if from.value != "system" && !from.value.starts_with("person:") {
            check_is_member(from, &ready.workflow.names, faults);
        }
    }
}

fn check_call(agent: &Agent, tool: &InFile<String>, tools: &[String], faults: &mut FileFaults) {
    if !tools.contains(&tool.value) {
        add_unknown_tool(tool, tools.iter().map(String::as_str), faults);
    } else if agent.tools.as_ref().is_some_and(|allowed| !allowed.iter().any(|other| other.value == tool.value)) {
        let message = format!("`{}` is not among the `tools` of {}", tool.value, agent.name.value);
        faults.add(FileFault::new(&tool.place, message).hint("add it there, or remove the call"));
    }
}
