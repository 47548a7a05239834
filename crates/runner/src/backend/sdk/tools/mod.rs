//! What the model can do: the daemon's tools as this agent, and in its folder `bash`, `read` and `edit`.

mod agent_folder;
mod bash;
mod files;

use std::sync::Arc;
use std::time::Duration;

use rookery_client::tools::Listed;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use self::agent_folder::Workspace;
use super::model::Tool;
use crate::backend::{Events, Failure, Seat, Why};
use crate::sandbox::Sandbox;

pub(super) const BASH: &str = "bash";
pub(super) const READ: &str = "read";
pub(super) const EDIT: &str = "edit";

/// How much of a result a model is told.
const RESULT_BYTES: usize = 48 << 10;
/// The groups of the daemon's tools that an agent has unless the file names some.
const SETS: [&str; 2] = ["context", "workflow"];
/// The runner wakes an agent when there is something: waiting within a turn only takes time.
const NOT_BY_ITSELF: &str = "inbox_wait";
/// Above what any tool that waits does.
const CALL_TIME: Duration = Duration::from_secs(330);

#[derive(Debug)]
pub(super) struct Toolbox {
    seat: Seat,
    workspace: Workspace,
    /// For commands.
    sandbox: Option<Arc<Sandbox>>,
    tools: OnceCell<Vec<Tool>>,
}

impl Toolbox {
    pub(super) fn new(seat: &Seat) -> Result<Toolbox, Failure> {
        let workspace = Workspace::new(&seat.folder).map_err(|error| Failure {
            why: Why::Hopeless,
            reason: format!("the folder {} cannot be used: {error}", seat.folder.display()),
            hint: None,
        })?;
        let runs_commands = seat.allowed.as_ref().is_none_or(|named| named.iter().any(|name| name == BASH));
        let sandbox = if runs_commands { Sandbox::of(seat, None, &seat.env.0, &[])? } else { None };
        Ok(Toolbox { seat: seat.clone(), workspace, sandbox, tools: OnceCell::new() })
    }

    /// From now on, what commands are kept from is told here.
    pub(super) fn tell(&self, events: &Events) {
        self.sandbox.iter().for_each(|sandbox| sandbox.tell(events));
    }

    /// Everything that the agent may call, asked for once.
    pub(super) async fn tools(&self) -> Result<&[Tool], Failure> {
        let tools = self.tools.get_or_try_init(|| self.list()).await?;
        Ok(tools)
    }

    async fn list(&self) -> Result<Vec<Tool>, Failure> {
        let own = [bash::tool(), files::read_tool(), files::edit_tool()];
        let mut tools: Vec<Tool> = own.into_iter().filter(|tool| self.is_allowed(&tool.name)).collect();
        let sets: Vec<Option<&str>> = match &self.seat.allowed {
            None => SETS.into_iter().map(Some).collect(),
            Some(named) if named.iter().all(|name| tools.iter().any(|own| own.name == *name)) => vec![],
            Some(_) => vec![None],
        };
        for set in sets {
            let listed = self.seat.tools.list(set).await.map_err(|error| daemon_is_away(&error))?;
            tools.extend(listed.into_iter().filter(|tool| self.is_allowed(&tool.name)).map(tool));
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|one, other| one.name == other.name);
        Ok(tools)
    }

    fn is_allowed(&self, name: &str) -> bool {
        match &self.seat.allowed {
            Some(named) => named.iter().any(|allowed| allowed == name),
            None => name != NOT_BY_ITSELF,
        }
    }

    /// What a call brought, or what to tell the model about why not. Fails only if no tool can be called any more.
    pub(super) async fn call(
        &self,
        name: &str,
        input: Value,
        stop: &CancellationToken,
    ) -> Result<Result<String, String>, Failure> {
        let tools = self.tools().await?;
        if !tools.iter().any(|tool| tool.name == name) {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            return Ok(Err(format!("there is no tool `{name}`; there are {}", names.join(", "))));
        }
        let result = match name {
            BASH => bash::run(&self.seat, self.sandbox.clone(), input, stop).await,
            READ => self.with_files(move |workspace| files::read(workspace, input)).await,
            EDIT => self.with_files(move |workspace| files::edit(workspace, input)).await,
            _ => self.call_daemon(name, input).await?,
        };
        Ok(result.map(|text| clipped(&text, RESULT_BYTES)).map_err(|text| clipped(&text, RESULT_BYTES)))
    }

    async fn with_files(
        &self,
        work: impl FnOnce(&Workspace) -> Result<String, String> + Send + 'static,
    ) -> Result<String, String> {
        let workspace = self.workspace.clone();
        let done = tokio::task::spawn_blocking(move || work(&workspace)).await;
        done.unwrap_or_else(|_| Err("it could not be done".to_owned()))
    }

    async fn call_daemon(&self, name: &str, input: Value) -> Result<Result<String, String>, Failure> {
        match self.seat.tools.call_within(CALL_TIME, name, input).await {
            Ok(answer) => Ok(Ok([vec![answer.text], answer.notes].concat().join("\n\n"))),
            // What the daemon refused is for the model to mend.
            Err(error) if error.status().is_some() => {
                let code = error.code().map(|code| format!(" ({code})")).unwrap_or_default();
                Ok(Err(format!("{error}{code}\n{}", error.hint())))
            }
            Err(error) => Err(daemon_is_away(&error)),
        }
    }
}

fn tool(listed: Listed) -> Tool {
    let mut schema = listed.input_schema;
    if let Some(schema) = schema.as_object_mut() {
        // Which dialect it is says nothing to a model, and not every interface takes it.
        schema.remove("$schema");
    }
    Tool { name: listed.name, description: listed.description, schema }
}

fn daemon_is_away(error: &rookery_client::ClientError) -> Failure {
    Failure { why: Why::Fault, reason: format!("the daemon: {error}"), hint: Some(error.hint()) }
}

/// At most so many bytes of a text, and how much is missing.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (begin, end) = (text.floor_char_boundary(most / 2), text.ceil_char_boundary(text.len() - most / 2));
    format!("{}\n[{} bytes left out here]\n{}", &text[..begin], end - begin, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_result_has_its_middle_left_out() {
        assert_eq!(clipped("short", 10), "short");
        assert_eq!(clipped("0123456789abcdef", 8), "0123\n[8 bytes left out here]\ncdef");
        assert!(clipped(&"ü".repeat(100), 11).contains("bytes left out"));
    }
}
