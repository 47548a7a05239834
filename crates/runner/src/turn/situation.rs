//! What is around an agent when its turn begins: what was said, what stands in the entry document, and its open tasks. All
//! of it is asked of the daemon at once, and none of it is changed by asking.

use futures_util::future::{join_all, try_join3};
use rookery_client::ClientError;
use rookery_core::model::context_settings::Provider;
use serde::Deserialize;
use serde_json::json;

use super::message::Entry;
use crate::backend::Seat;
use crate::file::Ready;

/// How many of the last entries of the channel are told.
const ENTRIES: usize = 20;
/// How many open tasks are told.
const TASKS: usize = 5;
/// How much of what a task needs to know is told.
const TASK_TOKENS: usize = 2_000;
/// Tasks of which the agent may still have something to do, in the words of the REST face, the nearest first.
const OPEN: [&str; 4] = ["in_progress", "review", "assigned", "blocked"];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Situation {
    /// The last entries of the channel, oldest first.
    pub channel: Vec<Entry>,
    pub document: Option<Document>,
    /// What it holds, or was given.
    pub tasks: Vec<Task>,
    /// How many open tasks are not among them, as far as was looked.
    pub more_tasks: usize,
}

/// The entry document, unless nothing is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    pub file: String,
    pub text: String,
    /// Others that the file of the workflow names.
    pub others: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub state: String,
    /// Everything about it that the agent needs to know, as the daemon tells it.
    pub context: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Read {
    file: String,
    content: String,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    title: String,
    state: String,
}

impl Situation {
    /// Looks around for one agent, as that agent.
    pub async fn look(ready: &Ready, seat: &Seat) -> Result<Situation, ClientError> {
        let has_context = ready.context.provider != Some(Provider::Off);
        let channel = async { if has_context { channel(seat).await } else { Ok(Vec::new()) } };
        let document = async { if has_context { document(ready, seat).await } else { Ok(None) } };
        let (channel, document, (tasks, more_tasks)) = try_join3(channel, document, tasks(seat)).await?;
        Ok(Situation { channel, document, tasks, more_tasks })
    }
}

async fn channel(seat: &Seat) -> Result<Vec<Entry>, ClientError> {
    let answer = seat.tools.call("channel_peek", json!({"limit": ENTRIES, "on_behalf": true})).await?;
    let said: Said = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
    Ok(said.entries)
}

async fn document(ready: &Ready, seat: &Seat) -> Result<Option<Document>, ClientError> {
    let answer = seat.tools.call("document_read", json!({})).await?;
    let Read { file, content } = serde_json::from_value(answer.value).map_err(ClientError::Garbled)?;
    let others = ready.context.documents.clone().unwrap_or_default();
    Ok(Some(Document { file, text: content, others }).filter(|document| !document.text.trim().is_empty()))
}

/// The first few open tasks with what they need to know, and how many more there are.
async fn tasks(seat: &Seat) -> Result<(Vec<Task>, usize), ClientError> {
    let listed = OPEN.map(|status| async move {
        let query =
            [("assigned_to", seat.id.to_string()), ("status", status.to_owned()), ("limit", (TASKS + 1).to_string())];
        let listed = seat.tools.client().get(&["tasks"], &query).await?;
        serde_json::from_value::<Vec<Listed>>(listed).map_err(ClientError::Garbled)
    });
    let mut all = Vec::new();
    for listed in join_all(listed).await {
        all.extend(listed?);
    }
    let more = all.len().saturating_sub(TASKS);
    all.truncate(TASKS);
    let tasks = join_all(all.into_iter().map(|listed| with_context(seat, listed))).await;
    Ok((tasks, more))
}

/// A task that cannot be looked into is still one that the agent has.
async fn with_context(seat: &Seat, Listed { id, title, state }: Listed) -> Task {
    let asked = json!({"task_id": id, "max_tokens": TASK_TOKENS});
    let context = seat.tools.call("task_load_context", asked).await.ok().map(|answer| answer.text);
    Task { id, title, state, context }
}
