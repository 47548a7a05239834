//! What faces share about files: how a path that a caller wrote becomes a claim.

use rookery_core::files::{ClaimFile, ClaimMode};
use rookery_core::{AgentId, Rejection, TaskId};
use rookery_engine::Engine;
use rookery_engine::watcher::hash_file;

/// The claim on a path as somebody wrote it, with what the path contains now.
pub async fn claim(
    engine: &Engine,
    path: &str,
    agent: AgentId,
    task: Option<TaskId>,
    insist: ClaimMode,
) -> Result<ClaimFile, Rejection> {
    let path = engine.paths().resolve(path).await?;
    let hash = if path.is_subtree() {
        String::new()
    } else {
        // A file that cannot be read has no known content; the claim is about the path.
        hash_file(engine.paths().root(), &path.to_string()).await.unwrap_or_default()
    };
    Ok(ClaimFile { path, agent, task, hash, site: engine.cluster().site(), insist })
}

/// The note on a claim that was granted for a task that does not exist.
pub fn note_without_task(task: &TaskId) -> String {
    format!("task_id: {task} is not a task known here; the claim belongs to no task and stays until it is released")
}
