//! The context of an agent when its turn begins: the latest messages of the channel, the entry document, and its open tasks.
//! All of it is requested from the daemon at once; reading it changes nothing.

use futures_util::future::{join_all, try_join3};
use rookery_client::ClientError;
use rookery_core::model::context_settings::Provider;
use serde::Deserialize;
use serde_json::json;

use super::message::ChannelPost;
use crate::backend::Seat;
use crate::file::Ready;

/// Number of latest channel entries in a prompt.
const MAX_ENTRIES: usize = 20;
/// Maximum number of open tasks in a prompt.
const MAX_TASKS: usize = 5;
/// Maximum size of a task's context.
const MAX_TASK_TOKENS: usize = 2_000;
/// REST states of tasks that the agent may still have to work on, the most urgent first.
const OPEN_STATES: [&str; 4] = ["in_progress", "review", "assigned", "blocked"];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Situation {
    /// The last entries of the channel, oldest first.
    pub channel: Vec<ChannelPost>,
    pub document: Option<EntryFile>,
    /// Tasks that the agent holds or was assigned.
    pub tasks: Vec<OpenTask>,
    /// Number of open tasks left out, as far as they were listed.
    pub more_tasks: usize,
}

/// The entry document, if it is not empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryFile {
    pub file: String,
    pub text: String,
    /// Other documents that the workflow file names.
    pub others: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenTask {
    pub id: String,
    pub title: String,
    pub state: String,
    /// The result of `task_load_context`.
    pub context: Option<String>,
}

#[derive(Deserialize)]
struct ChannelResponse {
    entries: Vec<ChannelPost>,
}

#[derive(Deserialize)]
struct DocumentResponse {
    file: String,
    content: String,
}

#[derive(Deserialize)]
struct TaskRow {
    id: String,
    title: String,
    state: String,
}

impl Situation {
    /// Loads the context of one agent, with its permissions.
    pub async fn load(ready: &Ready, seat: &Seat) -> Result<Situation, ClientError> {
        let has_context = ready.context.provider != Some(Provider::Off);
        let channel = async { if has_context { channel(seat).await } else { Ok(Vec::new()) } };
        let document = async { if has_context { document(ready, seat).await } else { Ok(None) } };
        let (channel, document, (tasks, more_tasks)) = try_join3(channel, document, tasks(seat)).await?;
        Ok(Situation { channel, document, tasks, more_tasks })
    }
}

async fn channel(seat: &Seat) -> Result<Vec<ChannelPost>, ClientError> {
    let answer = seat.tools.call("channel_peek", json!({"limit": MAX_ENTRIES, "on_behalf": true})).await?;
    let response: ChannelResponse = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
    Ok(response.entries)
}

async fn document(ready: &Ready, seat: &Seat) -> Result<Option<EntryFile>, ClientError> {
    let answer = seat.tools.call("document_read", json!({})).await?;
    let DocumentResponse { file, content } = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
    let others = ready.context.documents.clone().unwrap_or_default();
    Ok(Some(EntryFile { file, text: content, others }).filter(|document| !document.text.trim().is_empty()))
}

/// Loads the first few open tasks with their contexts, and counts the others.
async fn tasks(seat: &Seat) -> Result<(Vec<OpenTask>, usize), ClientError> {
    let listed = OPEN_STATES.map(|status| async move {
        let query = [
            ("assigned_to", seat.id.to_string()),
            ("status", status.to_owned()),
            ("limit", (MAX_TASKS + 1).to_string()),
        ];
        let listed = seat.tools.client().get(&["tasks"], &query).await?;
        serde_json::from_value::<Vec<TaskRow>>(listed).map_err(ClientError::Garbled)
    });
    let mut all = Vec::new();
    for listed in join_all(listed).await {
        all.extend(listed?);
    }
    let more = all.len().saturating_sub(MAX_TASKS);
    all.truncate(MAX_TASKS);
    let tasks = join_all(all.into_iter().map(|listed| with_context(seat, listed))).await;
    Ok((tasks, more))
}

/// Adds a task's context. A task whose context cannot be loaded is listed without it.
async fn with_context(seat: &Seat, TaskRow { id, title, state }: TaskRow) -> OpenTask {
    let arguments = json!({"task_id": id, "max_tokens": MAX_TASK_TOKENS});
    let context = seat.tools.call("task_load_context", arguments).await.ok().map(|answer| answer.text);
    OpenTask { id, title, state, context }
}
