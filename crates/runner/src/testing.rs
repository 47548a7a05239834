//! Workflow files for tests of this crate.

use jiff::Zoned;

use crate::file::{Agent, Ready, Surroundings, WorkflowSource};
use crate::sandbox::SandboxSupport;

/// Parses a valid workflow.
pub(crate) fn ready(text: &str) -> Ready {
    let source = WorkflowSource { file: "test.yaml".into(), folder: ".".into(), text: text.to_owned() };
    let tools = ["channel_send", "task_get"].map(str::to_owned).to_vec();
    let surroundings = Surroundings {
        env: Default::default(),
        tools,
        now: Zoned::default(),
        find_program: &|_: &str| None,
        sandbox: SandboxSupport::Missing,
    };
    Ready::check(&source, "pr-1", &[], &surroundings).unwrap_or_else(|refused| panic!("{refused}"))
}

/// Parses an agent called `a`, from the lines below its name.
pub(crate) fn agent(text: &str) -> Agent {
    let below: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    let ready = ready(&format!("agents:\n  a:\n{}\nkickoff: '@a'\n", below.join("\n")));
    ready.workflow.agents[0].clone()
}
