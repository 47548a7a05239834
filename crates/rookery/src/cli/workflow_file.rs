//! Workflow files on the command line: reading one in the surroundings of this process, and telling what is wrong with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rookery_core::model::context_settings::Provider;
use rookery_runner::file::{FileFaults, InFile, Ready, Refused, Surroundings, WorkflowSource};
use rookery_runner::sandbox::SandboxSupport;
use rookery_surfaces::mcp::Toolset;

use super::context::Context;
use super::failure::Failure;
use super::output::{Format, TextStyle};

/// Tools that our own loop has besides those of the daemon.
const OWN_TOOLS: [&str; 3] = ["bash", "read", "edit"];

/// What is around the file in this process.
pub fn surroundings(context: &Context) -> Surroundings<'static> {
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Surroundings {
        env: env.collect(),
        tools: rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name.to_owned()).collect(),
        now: context.out.clock().zoned(),
        find_program: &find_program,
        sandbox: SandboxSupport::of_this_machine().clone(),
    }
}

/// Reads and checks a file for an instance, with what was said after `--`. What is wrong with it is told.
pub fn load(
    context: &Context,
    file: &Path,
    instance: &str,
    params: &[String],
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Ready> {
    let source = match WorkflowSource::load(file) {
        Ok(source) => source,
        Err(faults) => return Err(tell(context, &faults)?),
    };
    match Ready::check(&source, instance, params, surroundings) {
        Ok(ready) => Ok(without_context_tools(ready)),
        Err(Refused::File(faults)) => Err(tell(context, &faults)?),
        Err(Refused::Argument(error)) => {
            let hint = format!("`params` in {} says which there are", file.display());
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        Err(Refused::Instance(message)) => {
            Err(Failure::usage(message).hint("an instance is one word, such as pr-123").into())
        }
    }
}

/// Where a team has no context, its agents are not offered the tools that would only be refused. Cursor cannot be kept from any
/// tool.
fn without_context_tools(mut ready: Ready) -> Ready {
    if ready.workflow.context.provider != Provider::Off {
        return ready;
    }
    for agent in &mut ready.workflow.agents {
        let others = tools_without_context(agent.backend.as_str());
        agent.tools = match agent.tools.take() {
            None if agent.backend.as_str() == "cursor" => None,
            None => {
                let place = &agent.name.place;
                Some(others.into_iter().map(|tool| InFile { value: tool.to_owned(), place: place.clone() }).collect())
            }
            Some(tools) => Some(tools.into_iter().filter(|tool| others.contains(&tool.value.as_str())).collect()),
        };
    }
    ready
}

/// Everything but the channel, the inbox and the documents.
pub fn tools_without_context(backend: &str) -> Vec<&'static str> {
    let tools = rookery_surfaces::mcp::tools::all();
    let others = tools.iter().filter(|tool| !tool.sets.contains(&Toolset::Context)).map(|tool| tool.name);
    others.chain(OWN_TOOLS.into_iter().filter(|_| backend == "sdk")).collect()
}

/// Every fault on a line of its own, and that there are some.
fn tell(context: &Context, faults: &FileFaults) -> anyhow::Result<anyhow::Error> {
    match context.out.format() {
        Format::Json => context.out.json(faults)?,
        Format::Human => faults.to_string().lines().try_for_each(|line| context.out.line(line, TextStyle::Bad))?,
    }
    let wrong = match faults.count() {
        1 => "1 error in the file".to_owned(),
        count => format!("{count} errors in the file"),
    };
    Ok(Failure::usage(wrong).hint("`rookery schema workflow` describes the file for editors").into())
}

/// Where a program is that can be started: as a path from here, or by its name on the PATH.
fn find_program(name: &str) -> Option<PathBuf> {
    let can_be_started =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| can_be_started(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| can_be_started(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn tools_of(text: &str) -> BTreeMap<String, Option<Vec<String>>> {
        let surroundings = Surroundings {
            env: BTreeMap::new(),
            tools: rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name.to_owned()).collect(),
            now: jiff::Zoned::default(),
            find_program: &|_| None,
            sandbox: SandboxSupport::Missing,
        };
        let source =
            WorkflowSource { file: "team.yaml".into(), folder: PathBuf::from("/nonexistent"), text: text.to_owned() };
        let ready = without_context_tools(Ready::check(&source, "default", &[], &surroundings).unwrap());
        let tools = |tools: &Vec<InFile<String>>| tools.iter().map(|tool| tool.value.clone()).collect();
        ready.workflow.agents.iter().map(|agent| (agent.name.value.clone(), agent.tools.as_ref().map(tools))).collect()
    }

    #[test]
    fn agents_without_context_are_offered_none_of_its_tools() {
        let agents = "agents:\n  ada: {backend: claude}\n  ben: {backend: codex, tools: [channel_send, task_claim]}\n";
        let with = tools_of(agents);
        assert_eq!((with["ada"].as_ref(), with["ben"].as_ref().map(Vec::len)), (None, Some(2)));
        let without = tools_of(&format!("context: false\n{agents}"));
        let ada = without["ada"].as_ref().unwrap();
        assert!(ada.contains(&"task_claim".to_owned()), "{ada:?}");
        for tool in ["channel_send", "inbox_check", "document_read"] {
            assert!(!ada.contains(&tool.to_owned()), "{tool}");
        }
        assert_eq!(without["ben"].as_deref(), Some(&["task_claim".to_owned()][..]));
    }
}
