//! The tools of the model: those of the daemon with the agent's identity, and `bash`, `read` and `edit` in its folder.

mod agent_folder;
mod bash;
mod files;

use std::sync::Arc;
use std::time::Duration;

use rookery_client::tools::ToolDescription;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use self::agent_folder::AgentFolder;
use super::model::ModelTool;
use crate::backend::{Events, Failure, Seat, Why};
use crate::sandbox::Sandbox;

pub(super) const BASH: &str = "bash";
pub(super) const READ: &str = "read";
pub(super) const EDIT: &str = "edit";

/// Maximum size of a result for the model.
const MAX_RESULT_BYTES: usize = 48 << 10;
/// The groups of the daemon's tools that an agent gets if the file names none.
const DEFAULT_TOOL_GROUPS: [&str; 2] = ["context", "workflow"];
/// Left out by default: the runner wakes an agent for new messages, so waiting within a turn only wastes time.
const EXCLUDED_BY_DEFAULT: &str = "inbox_wait";
/// Longer than any tool of the daemon waits.
const CALL_TIMEOUT: Duration = Duration::from_secs(330);

#[derive(Debug)]
pub(super) struct Toolbox {
    seat: Seat,
    folder: AgentFolder,
    /// For commands of `bash`.
    sandbox: Option<Arc<Sandbox>>,
    tools: OnceCell<Vec<ModelTool>>,
}

impl Toolbox {
    pub(super) fn new(seat: &Seat) -> Result<Toolbox, Failure> {
        let folder = AgentFolder::new(&seat.folder).map_err(|error| Failure {
            why: Why::Hopeless,
            reason: format!("the folder {} cannot be used: {error}", seat.folder.display()),
            hint: None,
        })?;
        let runs_commands = seat.allowed.as_ref().is_none_or(|named| named.iter().any(|name| name == BASH));
        let sandbox = if runs_commands { Sandbox::for_seat(seat, None, &seat.env.0, &[])? } else { None };
        Ok(Toolbox { seat: seat.clone(), folder, sandbox, tools: OnceCell::new() })
    }

    /// Reports rejected connections of commands to these events from now on.
    pub(super) fn report_to(&self, events: &Events) {
        self.sandbox.iter().for_each(|sandbox| sandbox.report_to(events));
    }

    /// Lists the tools that the agent may call; requested once.
    pub(super) async fn tools(&self) -> Result<&[ModelTool], Failure> {
        let tools = self.tools.get_or_try_init(|| self.list()).await?;
        Ok(tools)
    }

    async fn list(&self) -> Result<Vec<ModelTool>, Failure> {
        let own = [bash::tool(), files::read_tool(), files::edit_tool()];
        let mut tools: Vec<ModelTool> = own.into_iter().filter(|tool| self.is_allowed(&tool.name)).collect();
        let sets: Vec<Option<&str>> = match &self.seat.allowed {
            None => DEFAULT_TOOL_GROUPS.into_iter().map(Some).collect(),
            Some(named) if named.iter().all(|name| tools.iter().any(|own| own.name == *name)) => vec![],
            Some(_) => vec![None],
        };
        for set in sets {
            let listed = self.seat.tools.list(set).await.map_err(|error| daemon_failure(&error))?;
            tools.extend(listed.into_iter().filter(|tool| self.is_allowed(&tool.name)).map(tool));
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|one, other| one.name == other.name);
        Ok(tools)
    }

    fn is_allowed(&self, name: &str) -> bool {
        match &self.seat.allowed {
            Some(named) => named.iter().any(|allowed| allowed == name),
            None => name != EXCLUDED_BY_DEFAULT,
        }
    }

    /// Carries out a call. Returns its result, or an error for the model. Fails if no tool can be called any more.
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
            READ => self.with_files(move |folder| files::read(folder, input)).await,
            EDIT => self.with_files(move |folder| files::edit(folder, input)).await,
            _ => self.call_daemon(name, input).await?,
        };
        Ok(result.map(|text| clip(&text, MAX_RESULT_BYTES)).map_err(|text| clip(&text, MAX_RESULT_BYTES)))
    }

    async fn with_files(
        &self,
        work: impl FnOnce(&AgentFolder) -> Result<String, String> + Send + 'static,
    ) -> Result<String, String> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.unwrap_or_else(|_| Err("the file operation failed".to_owned()))
    }

    async fn call_daemon(&self, name: &str, input: Value) -> Result<Result<String, String>, Failure> {
        match self.seat.tools.call_within(CALL_TIMEOUT, name, input).await {
            Ok(answer) => Ok(Ok([vec![answer.text], answer.notes].concat().join("\n\n"))),
            // A rejection by the daemon goes to the model, which can correct its call.
            Err(error) if error.status().is_some() => {
                let code = error.code().map(|code| format!(" ({code})")).unwrap_or_default();
                Ok(Err(format!("{error}{code}\n{}", error.hint())))
            }
            Err(error) => Err(daemon_failure(&error)),
        }
    }
}

fn tool(listed: ToolDescription) -> ModelTool {
    let mut schema = listed.input_schema;
    if let Some(schema) = schema.as_object_mut() {
        // The schema's dialect means nothing to a model, and some APIs reject it.
        schema.remove("$schema");
    }
    ModelTool { name: listed.name, description: listed.description, schema }
}

fn daemon_failure(error: &rookery_client::ClientError) -> Failure {
    Failure { why: Why::Fault, reason: format!("the daemon: {error}"), hint: Some(error.hint()) }
}

/// The beginning and the end of a text with at most `most` bytes, with a note about the rest.
pub(super) fn clip(text: &str, most: usize) -> String {
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
    fn long_result_loses_its_middle() {
        assert_eq!(clip("short", 10), "short");
        assert_eq!(clip("0123456789abcdef", 8), "0123\n[8 bytes left out here]\ncdef");
        assert!(clip(&"ü".repeat(100), 11).contains("bytes left out"));
    }
}
