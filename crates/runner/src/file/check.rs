//! What one part of the file must know about the others: variables, tools, names of agents, and what makes sense together.

use rookery_core::model::context_settings::Provider;

use super::agent::{Agent, EnvValue, is_one_of};
use super::backend::Backend;
use super::fault::{At, Fault, Faults};
use super::near::nearest;
use super::ready::Ready;
use super::script::{Action, Script};
use super::template::Template;
use super::variables::{Known, Scope};

/// Models are asked for as `provider/model`; these need no address.
const PROVIDERS: [&str; 4] = ["anthropic", "openai", "google", "ollama"];
/// Tools that only our own loop has; the programs bring theirs.
const OWN_TOOLS: [&str; 3] = ["bash", "read", "edit"];

pub(super) fn check(ready: &Ready, tools: &[String], faults: &mut Faults) {
    let workflow = &ready.workflow;
    let commands = ready.variables.of_commands();
    workflow.setup.iter().for_each(|setup| setup.check(&commands, faults));
    if let Some(kickoff) = &workflow.kickoff {
        ready.variables.check(kickoff, Scope::Text, faults);
        if workflow.context.provider == Provider::Off && !kickoff.is_blank() {
            let fault = Fault::new(&kickoff.place, "there is no channel to send it to: `context` is false");
            faults.add(fault.hint("take one of the two away"));
        }
    }
    for agent in &workflow.agents {
        check_agent(agent, ready, tools, faults);
    }
}

fn check_agent(agent: &Agent, ready: &Ready, tools: &[String], faults: &mut Faults) {
    let mut text = |template: &Template| ready.variables.check(template, Scope::Text, faults);
    agent.system_prompt.iter().for_each(|prompt| text(&prompt.text));
    agent.wakeup_prompt.iter().for_each(&mut text);
    let mut setting = |template: &Template| ready.variables.check(template, Scope::Setting, faults);
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

/// A text with everything put in, if everything is known.
pub(super) fn settled(template: &Template, ready: &Ready) -> Option<String> {
    let known = |name: &str| matches!(ready.variables.look_up(name), Known::Value(_));
    let is_settled =
        !ready.variables.is_too_long(template) && template.variables().all(|variable| known(&variable.name));
    is_settled.then(|| ready.variables.fill(template))
}

fn check_model(agent: &Agent, ready: &Ready, faults: &mut Faults) {
    let Some((template, model)) = agent.model.as_ref().and_then(|model| Some((model, settled(model, ready)?))) else {
        return;
    };
    let fault = |message: &str| Fault::new(&template.place, message).found(format!("`{model}`"));
    let own_address = matches!(&agent.backend, Backend::Sdk { provider, .. } if provider.base_url.is_some());
    match model.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() && !model.contains(char::is_whitespace) => {
            if !PROVIDERS.contains(&provider) && !own_address {
                let fault = fault("it is not known where this provider is");
                faults.add(match nearest(provider, PROVIDERS) {
                    Some(meant) => fault.meant(Some(&format!("{meant}/{name}"))),
                    None => fault.hint(format!("one of {}, or say `provider.base_url`", PROVIDERS.join(", "))),
                });
            }
        }
        _ => faults.add(
            fault("must be provider/model")
                .hint("such as anthropic/claude-sonnet-4-5; to run a program, say `backend`"),
        ),
    }
}

fn check_url(template: &Template, ready: &Ready, faults: &mut Faults) {
    let Some(url) = settled(template, ready) else { return };
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)) {
        let fault = Fault::new(&template.place, "must be an address").found(format!("`{url}`"));
        faults.add(fault.hint("such as https://models.example.com/v1"));
    }
}

fn check_tool(tool: &At<String>, backend: &Backend, tools: &[String], faults: &mut Faults) {
    let is_own = OWN_TOOLS.contains(&tool.value.as_str());
    let has_own = matches!(backend, Backend::Sdk { .. });
    if tools.contains(&tool.value) || (is_own && has_own) {
        return;
    }
    if is_own {
        let message = format!("`{}` is a tool of the backend `sdk`, and this is `{}`", tool.value, backend.as_str());
        faults.add(Fault::new(&tool.place, message).hint("take it away; a program has its own tools for that"));
        return;
    }
    unknown_tool(tool, tools.iter().map(String::as_str).chain(OWN_TOOLS.into_iter().filter(|_| has_own)), faults);
}

fn unknown_tool<'a>(tool: &At<String>, known: impl Iterator<Item = &'a str>, faults: &mut Faults) {
    faults.add_with(|| {
        let fault = Fault::new(&tool.place, format!("there is no tool `{}`", tool.value));
        match nearest(&tool.value, known) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint("`rookery reference mcp` lists them"),
        }
    });
}

fn check_script(agent: &Agent, script: &Script, ready: &Ready, tools: &[String], faults: &mut Faults) {
    // What a call keeps is there from then on. A script that repeats or has conditions may come to it in another order, so
    // every result that is kept anywhere is known everywhere.
    let kept = script.actions().filter_map(|action| match &action.value {
        Action::Call { keep: Some(keep), .. } => Some(keep.value.clone()),
        _ => None,
    });
    let kept: Vec<String> = kept.collect();
    for action in script.actions() {
        for template in action.value.templates() {
            ready.variables.check(template, Scope::Script(&kept), faults);
        }
        match &action.value {
            Action::Send { to: Some(to), .. } => is_one_of(to, &ready.workflow.names, faults),
            Action::Call { tool, .. } => check_call(agent, tool, tools, faults),
            _ => {}
        }
    }
    for from in script.turns.iter().filter_map(|turn| turn.when.as_ref()?.from.as_ref()) {
        if from.value != "system" && !from.value.starts_with("person:") {
            is_one_of(from, &ready.workflow.names, faults);
        }
    }
}

fn check_call(agent: &Agent, tool: &At<String>, tools: &[String], faults: &mut Faults) {
    if !tools.contains(&tool.value) {
        unknown_tool(tool, tools.iter().map(String::as_str), faults);
    } else if agent.tools.as_ref().is_some_and(|allowed| !allowed.iter().any(|other| other.value == tool.value)) {
        let message = format!("`{}` is not among the `tools` of {}", tool.value, agent.name.value);
        faults.add(Fault::new(&tool.place, message).hint("add it there, or take the call away"));
    }
}
