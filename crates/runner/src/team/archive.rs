//! Archives the documents and the channel of an earlier run, so that two runs in one instance do not mix.

use rookery_client::{Client, ClientError, Tools};
use rookery_core::{AgentId, Instance};
use serde_json::{Value, json};

/// Maximum number of archives of an instance.
const MAX_ARCHIVES: u32 = 10_000;

/// The treatment of what an earlier run left in the instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftovers {
    Keep,
    /// Moves it to another instance.
    Archive,
}

/// Moves documents and channel of an instance to the first of `default.1`, `default.2` and so on that has neither, and supersedes the
/// unread messages of its agents. Returns that instance, or `None` if there was nothing to move. Listed documents remain and become
/// empty.
pub(super) async fn archive(
    client: &Client,
    instance: &Instance,
    listed: &[String],
    agents: &[AgentId],
) -> Result<Option<Instance>, ClientError> {
    let here = tools(client, instance);
    let mut texts = Vec::new();
    for file in files(&here).await? {
        let read = here.call("document_read", json!({"file": file})).await?;
        texts.push((file, read.value["content"].as_str().unwrap_or_default().to_owned()));
    }
    texts.retain(|(_, text)| !text.trim().is_empty());
    let has_channel = has_entries(client, instance).await?;
    if texts.is_empty() && !has_channel {
        return Ok(None);
    }
    let archive = find_free(client, instance).await?;
    let there = tools(client, &archive);
    for (file, text) in &texts {
        there.call("document_write", json!({"file": file, "content": text})).await?;
    }
    // Cleared last: an interruption before causes a second archive, but loses no text.
    for (file, _) in &texts {
        if listed.contains(file) {
            here.call("document_write", json!({"file": file, "content": ""})).await?;
        } else {
            here.call("document_delete", json!({"file": file})).await?;
        }
    }
    if has_channel {
        let asked = json!({"archive": archive.name(), "agents": agents});
        client.post(&["channels", instance.name(), "archive"], &asked).await?;
    }
    Ok(Some(archive))
}

async fn has_entries(client: &Client, instance: &Instance) -> Result<bool, ClientError> {
    let entries = client.get(&["channels", instance.name(), "messages"], &[("limit", "1".to_owned())]).await?;
    Ok(entries.as_array().is_some_and(|entries| !entries.is_empty()))
}

fn tools(client: &Client, instance: &Instance) -> Tools {
    Tools::new(client.clone(), None).in_instance(Some(instance.name().to_owned()))
}

async fn files(tools: &Tools) -> Result<Vec<String>, ClientError> {
    let files = match tools.call("document_list", json!({})).await {
        Err(error) if error.code() == Some("CONTEXT_DISABLED") => return Ok(Vec::new()),
        listed => listed?.value["files"].clone(),
    };
    Ok(files.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
}

async fn find_free(client: &Client, instance: &Instance) -> Result<Instance, ClientError> {
    let mut archive = Instance::new(format!("{instance}.1"));
    for number in 2..=MAX_ARCHIVES {
        if files(&tools(client, &archive)).await?.is_empty() && !has_entries(client, &archive).await? {
            break;
        }
        archive = Instance::new(format!("{instance}.{number}"));
    }
    Ok(archive)
}
