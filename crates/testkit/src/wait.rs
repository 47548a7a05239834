//! Waiting with a deadline: a test that waits too long fails instead of hanging.

use std::time::Duration;

use anyhow::Context;

/// Long enough for a loaded machine; a test that waits this long has failed.
pub const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// Polls `ask` until it returns a value. `what` names the awaited thing in the error.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        loop {
            if let Some(found) = ask().await? {
                return Ok(found);
            }
            tokio::time::sleep(POLL).await;
        }
    };
    within(what, asking).await?
}

/// Waits for `work`, and fails after [`DEADLINE`] instead of hanging.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, work)
        .await
        .with_context(|| format!("timeout after {} s: {what}", DEADLINE.as_secs()))
}
