//! Artifacts in the database, so that every node has them: bytes by their SHA-256 in pieces, verified when read.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object, Pool, Transaction};
use rookery_core::NodeId;
use tokio::time::timeout;
use tokio_postgres::GenericClient;

use super::connection::{Frame, NOW, Param, Question, ask};
use super::error::Problem;
use crate::artifact::{ArtifactError, Erased, Held, is_sha256, sha256_hex};

/// How large a piece is at most.
const CHUNK_BYTES: usize = 512 * 1024;
/// How long storing or reading one may take.
const PATIENCE: Duration = Duration::from_secs(25);
/// How long a hold lasts whose holder is gone.
const HOLD_MILLIS: i64 = 10 * 60 * 1000;

impl From<Problem> for ArtifactError {
    fn from(problem: Problem) -> ArtifactError {
        ArtifactError::Unavailable { reason: problem.to_string() }
    }
}

impl From<tokio_postgres::Error> for ArtifactError {
    fn from(error: tokio_postgres::Error) -> ArtifactError {
        Problem::Sql(error).into()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Artifacts {
    pub(super) pool: Pool,
    pub(super) node: NodeId,
    pub(super) holds: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Artifacts {
    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<Held, ArtifactError> {
        let sha256 = sha256_hex(&bytes);
        let number = self.holds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let hold = format!("{}.{number}", self.node);
        self.in_transaction(async |client: &Transaction<'_>| {
            store(&**client, &sha256, &bytes).await?;
            let sql = format!("INSERT INTO artifact_holds (id, sha256, until) VALUES ($1, $2, {NOW} + {HOLD_MILLIS})");
            client.execute(&sql, &[&hold, &sha256]).await?;
            Ok(())
        })
        .await?;
        Ok(Held::row(sha256.clone(), hold.clone()))
    }

    pub(super) async fn get(&self, sha256: String) -> Result<Vec<u8>, ArtifactError> {
        let client = self.pool.get().await.map_err(Problem::from)?;
        match timeout(PATIENCE, read(&client, Frame::Snapshot, sha256)).await {
            Ok(found) => found,
            Err(_) => {
                drop(Object::take(client));
                Err(ArtifactError::Unavailable { reason: "the database does not answer".to_owned() })
            }
        }
    }

    /// Removes an artifact that nobody names or holds; `own` is a hold that ends with this.
    pub(super) async fn erase(&self, sha256: String, own: Option<&str>) -> Result<Erased, ArtifactError> {
        self.in_transaction(async |client: &Transaction<'_>| {
            if let Some(own) = own {
                client.execute("DELETE FROM artifact_holds WHERE id = $1", &[&own]).await?;
            }
            // Whoever stores the same bytes waits for us, or we for them: what follows sees what they did.
            let there = client.query("SELECT 1 FROM artifacts WHERE sha256 = $1 FOR UPDATE", &[&sha256]).await?;
            if there.is_empty() {
                return Ok(Erased::Gone);
            }
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM log WHERE body_hash = $1 AND body_in = 'artifact'),
                    EXISTS (SELECT 1 FROM artifact_holds WHERE sha256 = $1 AND until > {NOW})"
            );
            let row = client.query_one(&sql, &[&sha256]).await?;
            let (named, held): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
            if named {
                return Ok(Erased::Named);
            }
            if held {
                return Ok(Erased::Held);
            }
            client.execute("DELETE FROM artifacts WHERE sha256 = $1", &[&sha256]).await?;
            client.execute("DELETE FROM artifact_holds WHERE sha256 = $1", &[&sha256]).await?;
            Ok(Erased::Gone)
        })
        .await
    }

    /// Runs something as one transaction. Given up in the middle, it is rolled back.
    async fn in_transaction<T>(
        &self,
        run: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, ArtifactError>,
    ) -> Result<T, ArtifactError> {
        let mut client = self.pool.get().await.map_err(Problem::from)?;
        let running = async {
            let transaction = client.transaction().await?;
            let done = run(&transaction).await?;
            transaction.commit().await?;
            Ok(done)
        };
        match timeout(PATIENCE, running).await {
            Ok(done) => done,
            Err(_) => {
                drop(Object::take(client));
                Err(ArtifactError::Unavailable { reason: "the database does not answer".to_owned() })
            }
        }
    }
}

/// The bytes of a hash, verified.
pub(super) async fn read(client: &ClientWrapper, frame: Frame, sha256: String) -> Result<Vec<u8>, ArtifactError> {
    if !is_sha256(&sha256) {
        return Err(ArtifactError::Absent { sha256 });
    }
    let there = "SELECT 1 FROM artifacts WHERE sha256 = $1";
    let pieces = "SELECT data FROM artifact_chunks WHERE sha256 = $1 ORDER BY n";
    let questions = [there, pieces].map(|sql| Question::new(sql, vec![Box::new(sha256.clone()) as Param]));
    let answers = ask(client, frame, &questions).await?;
    if answers[0].is_empty() {
        return Err(ArtifactError::Absent { sha256 });
    }
    let mut bytes = Vec::new();
    for row in &answers[1] {
        bytes.extend_from_slice(row.try_get(0)?);
    }
    if sha256_hex(&bytes) != sha256 {
        return Err(ArtifactError::Damaged { sha256 });
    }
    Ok(bytes)
}

/// Puts the bytes into the open transaction. Those that are there already stay, unless a piece is missing.
pub(super) async fn store(client: &impl GenericClient, sha256: &str, bytes: &[u8]) -> Result<(), ArtifactError> {
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let sql = format!(
        "INSERT INTO artifacts (sha256, bytes, stored_at) VALUES ($1, $2, {NOW})
            ON CONFLICT (sha256) DO UPDATE SET stored_at = excluded.stored_at"
    );
    client.execute(&sql, &[&sha256, &length]).await?;
    let sql = "SELECT coalesce(sum(length(data)), -1)::bigint FROM artifact_chunks WHERE sha256 = $1";
    let stored: i64 = client.query_one(sql, &[&sha256]).await?.try_get(0)?;
    if stored == length {
        return Ok(());
    }
    client.execute("DELETE FROM artifact_chunks WHERE sha256 = $1", &[&sha256]).await?;
    let insert = client.prepare("INSERT INTO artifact_chunks (sha256, n, data) VALUES ($1, $2, $3)").await?;
    for (n, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
        client.execute(&insert, &[&sha256, &n, &chunk]).await?;
    }
    Ok(())
}
