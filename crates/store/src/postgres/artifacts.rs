//! Artifacts in the database, so that every node has them: bytes by their SHA-256, in pieces.
//!
//! Pieces belong to a blob, which is made before its hash is known, one short transaction for each piece; an artifact is
//! there as soon as a row names the blob. A blob that no artifact is made of is listed in `artifact_blobs`, and is removed
//! when its time there is over. Each piece has its own hash, by which a part of an artifact is verified.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use deadpool_postgres::{Object, Transaction};
use rookery_core::{NodeId, Timestamp};
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tokio_postgres::GenericClient;

use super::connection::{Frame, LOCKED_HEAD, NOW, Param, Question};
use super::error::Problem;
use super::reader::Reader;
use crate::artifact::{
    ArtifactError, ArtifactHold, ArtifactInfo, Erased, Hashing, Incoming, Outgoing, Stored, clamp, is_older, is_sha256,
    sha256_hex,
};
use crate::store::Pending;

/// How large a piece is: each of this size but the last.
pub(super) const CHUNK_BYTES: usize = 512 * 1024;
/// How long storing or removing one may take, or a piece of one.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(25);
/// How long a hold lasts whose holder is gone, and a blob of which no further piece comes.
const HOLD_MILLIS: i64 = 10 * 60 * 1000;
/// How many pieces are looked through or removed by one statement, and how many blobs are cleared away in one go.
const CHUNKS_AT_ONCE: i32 = 64;
const BLOBS_AT_ONCE: usize = 100;

pub(super) const INSERT_CHUNK: &str = "INSERT INTO artifact_chunks (blob, n, data, hash) VALUES ($1, $2, $3, $4)";

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
    pub(super) reader: Reader,
    pub(super) node: NodeId,
    /// Tells the holds and blobs of this node apart.
    pub(super) number: Arc<AtomicU64>,
}

/// Which artifact may be removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Only {
    Any,
    /// Unless somebody else stored it, before or since.
    StoredAt(Option<i64>),
    /// Last stored so long ago.
    Older(Duration),
}

impl Artifacts {
    fn id(&self) -> String {
        format!("{}.{}", self.node, self.number.fetch_add(1, Ordering::Relaxed))
    }

    /// Stores bytes and holds them. The blob that is made of them, if one has to be, bears the id of the hold.
    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<ArtifactHold, ArtifactError> {
        let (sha256, id) = (sha256_hex(&bytes), self.id());
        let put = async |client: &Transaction<'_>| {
            let stored_at = store(&**client, &sha256, &bytes, &id).await?;
            let sql = format!("INSERT INTO artifact_holds (id, sha256, until) VALUES ($1, $2, {NOW} + {HOLD_MILLIS})");
            client.execute(&sql, &[&id, &sha256]).await?;
            Ok(stored_at)
        };
        let stored_at = self.in_transaction(put).await?;
        Ok(ArtifactHold::row(sha256, id, stored_at))
    }

    pub(super) async fn get(&self, sha256: String) -> Result<Vec<u8>, ArtifactError> {
        let (blob, size) = self.find(&sha256).await?;
        let mut sending = Sending::new(self.clone(), (sha256, blob), size, 0..size);
        let mut bytes = Vec::new();
        while let Some(piece) = sending.piece().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    pub(super) async fn receive(&self) -> Result<Box<dyn Incoming>, ArtifactError> {
        let blob = self.id();
        let sql =
            format!("INSERT INTO artifact_blobs (id, until) VALUES ($1, {NOW} + {HOLD_MILLIS}) ON CONFLICT DO NOTHING");
        self.once(vec![Question::new(sql, vec![Box::new(blob.clone())])]).await?;
        let blob = Blob { artifacts: self.clone(), id: blob, adopted: false };
        Ok(Box::new(Receiving { blob, n: 0, buffer: Vec::new(), hashing: Hashing::default(), size: 0 }))
    }

    pub(super) async fn size(&self, sha256: String) -> Result<u64, ArtifactError> {
        self.find(&sha256).await.map(|(_, size)| size)
    }

    pub(super) async fn read(&self, sha256: String, span: Range<u64>) -> Result<Box<dyn Outgoing>, ArtifactError> {
        let (blob, size) = self.find(&sha256).await?;
        Ok(Box::new(Sending::new(self.clone(), (sha256, blob), size, span)))
    }

    /// The blob that an artifact is made of, and how long that is.
    async fn find(&self, sha256: &str) -> Result<(String, u64), ArtifactError> {
        let absent = || ArtifactError::Absent { sha256: sha256.to_owned() };
        if !is_sha256(sha256) {
            return Err(absent());
        }
        let sql = "SELECT blob, bytes FROM artifacts WHERE sha256 = $1";
        let rows = self.ask(Question::new(sql, vec![Box::new(sha256.to_owned())])).await?;
        let row = rows.first().ok_or_else(absent)?;
        Ok((row.try_get(0)?, u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0)))
    }

    pub(super) async fn page(&self, after: Option<String>, limit: u32) -> Result<Vec<ArtifactInfo>, ArtifactError> {
        let sql = "SELECT sha256, bytes, stored_at,
                EXISTS (SELECT 1 FROM log WHERE body_hash = artifacts.sha256 AND body_in = 'artifact')
                OR EXISTS (SELECT 1 FROM artifact_refs WHERE artifact_refs.sha256 = artifacts.sha256)
            FROM artifacts WHERE sha256 > $1 ORDER BY sha256 LIMIT $2";
        let params: Vec<Param> = vec![Box::new(after.unwrap_or_default()), Box::new(i64::from(limit))];
        let rows = self.ask(Question::new(sql, params)).await?;
        let info = |row: &tokio_postgres::Row| {
            Ok(ArtifactInfo {
                sha256: row.try_get(0)?,
                size: u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0),
                stored_at: Timestamp(row.try_get(2)?),
                named: row.try_get(3)?,
            })
        };
        rows.iter().map(info).collect()
    }

    /// Removes an artifact that nothing names and nobody holds; `own` is a hold that ends with this.
    pub(super) async fn erase(&self, sha256: String, only: Only, own: Option<&str>) -> Result<Erased, ArtifactError> {
        if let Some(own) = own {
            let sql = "DELETE FROM artifact_holds WHERE id = $1";
            self.once(vec![Question::new(sql, vec![Box::new(own.to_owned())])]).await?;
        }
        // Most often it is named; then nobody has to wait.
        if self.ask(named(&sha256)).await?.first().is_some_and(|row| row.get(0)) {
            return Ok(Erased::Named);
        }
        let erased = self
            .in_transaction(async |client: &Transaction<'_>| {
                // No batch commits before we do: nothing begins to name it.
                client.query(LOCKED_HEAD, &[]).await?;
                erase(client, &sha256, &only).await
            })
            .await?;
        // Also if it was gone: whoever removed it may have stopped before its pieces were.
        if erased == Erased::Gone {
            self.tidy().await?;
        }
        Ok(erased)
    }

    /// Removes the pieces of blobs that no artifact is made of, once their time is over.
    pub(super) async fn tidy(&self) -> Result<usize, ArtifactError> {
        for cleared in 0..BLOBS_AT_ONCE {
            let sql = format!("SELECT id FROM artifact_blobs WHERE until < {NOW} ORDER BY until LIMIT 1");
            let rows = self.ask(Question::new(sql, vec![])).await?;
            let Some(row) = rows.first() else { return Ok(cleared) };
            let blob: String = row.try_get(0)?;
            // Nobody adds to it any more: that would have renewed its time before it was over.
            let sql = "DELETE FROM artifact_chunks WHERE blob = $1 AND n IN
                (SELECT n FROM artifact_chunks WHERE blob = $1 ORDER BY n LIMIT $2) RETURNING n";
            let some = || -> Vec<Param> { vec![Box::new(blob.clone()), Box::new(i64::from(CHUNKS_AT_ONCE))] };
            while !self.once(vec![Question::new(sql, some())]).await?.is_empty() {}
            let sql = format!("DELETE FROM artifact_blobs WHERE id = $1 AND until < {NOW}");
            self.once(vec![Question::new(sql, vec![Box::new(blob.clone())])]).await?;
        }
        Ok(BLOBS_AT_ONCE)
    }

    async fn ask(&self, question: Question) -> Result<Vec<tokio_postgres::Row>, ArtifactError> {
        Ok(self.reader.ask(Frame::Bare, &[question]).await?.pop().unwrap_or_default())
    }

    /// Statements of one transaction that may be repeated; what the last one tells.
    async fn once(&self, questions: Vec<Question>) -> Result<Vec<tokio_postgres::Row>, ArtifactError> {
        Ok(self.reader.ask(Frame::Whole, &questions).await?.pop().unwrap_or_default())
    }

    /// Runs something as one transaction. Given up in the middle, it is rolled back.
    async fn in_transaction<T>(
        &self,
        run: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, ArtifactError>,
    ) -> Result<T, ArtifactError> {
        let mut client = self.reader.pool.get().await.map_err(Problem::from)?;
        let running = async {
            let transaction = client.transaction().await?;
            let done = run(&transaction).await?;
            transaction.commit().await?;
            Ok(done)
        };
        match timeout(TRANSFER_TIMEOUT, running).await {
            Ok(done) => done,
            Err(_) => {
                drop(Object::take(client));
                Err(ArtifactError::Unavailable { reason: "the database does not answer".to_owned() })
            }
        }
    }
}

/// Whether something in the log names an artifact.
fn named(sha256: &str) -> Question {
    let sql = "SELECT EXISTS (SELECT 1 FROM log WHERE body_hash = $1 AND body_in = 'artifact')
        OR EXISTS (SELECT 1 FROM artifact_refs WHERE sha256 = $1)";
    Question::new(sql, vec![Box::new(sha256.to_owned())])
}

/// Removes an artifact if it may go. Its pieces are left to be cleared away.
async fn erase(client: &Transaction<'_>, sha256: &str, only: &Only) -> Result<Erased, ArtifactError> {
    // Whoever stores the same bytes waits for us, or we for them: what follows sees what they did.
    let sql = format!("SELECT blob, stored_at, {NOW} FROM artifacts WHERE sha256 = $1 FOR UPDATE");
    let rows = client.query(&sql, &[&sha256]).await?;
    let Some(row) = rows.first() else { return Ok(Erased::Gone) };
    let (blob, stored_at, now): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if client.query_one(&*named(sha256).text, &[&sha256]).await?.try_get(0)? {
        return Ok(Erased::Named);
    }
    let sql = format!("SELECT EXISTS (SELECT 1 FROM artifact_holds WHERE sha256 = $1 AND until > {NOW})");
    if client.query_one(&sql, &[&sha256]).await?.try_get(0)? {
        return Ok(Erased::Held);
    }
    let may = match only {
        Only::Any => true,
        Only::StoredAt(time) => *time == Some(stored_at),
        Only::Older(age) => is_older(Timestamp(stored_at), Timestamp(now), *age),
    };
    if !may {
        return Ok(Erased::Young);
    }
    client.execute("DELETE FROM artifacts WHERE sha256 = $1", &[&sha256]).await?;
    client.execute("DELETE FROM artifact_holds WHERE sha256 = $1", &[&sha256]).await?;
    abandon(&**client, &blob).await?;
    Ok(Erased::Gone)
}

/// Puts bytes into the open transaction, as a new blob, and tells when that was. Those that are there already stay, if they
/// are whole.
async fn store(
    client: &impl GenericClient,
    sha256: &str,
    bytes: &[u8],
    blob: &str,
) -> Result<Option<i64>, ArtifactError> {
    let size = bytes.len() as u64;
    let rows = client.query("SELECT blob FROM artifacts WHERE sha256 = $1 FOR UPDATE", &[&sha256]).await?;
    let known: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let whole = match &known {
        Some(known) => is_whole(client, known, size).await?,
        None => false,
    };
    if !whole {
        let insert = client.prepare(INSERT_CHUNK).await?;
        for (n, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
            client.execute(&insert, &[&blob, &n, &chunk, &Sha256::digest(chunk).as_slice()]).await?;
        }
        return adopt(client, (sha256, size), blob, known.as_deref()).await;
    }
    let sql = format!("UPDATE artifacts SET stored_at = greatest({NOW}, stored_at + 1) WHERE sha256 = $1");
    client.execute(&sql, &[&sha256]).await?;
    Ok(None)
}

/// Whether a blob has all its pieces, each as it was written.
async fn is_whole(client: &impl GenericClient, blob: &str, size: u64) -> Result<bool, ArtifactError> {
    let sql = "SELECT coalesce(sum(length(data)), 0)::bigint, coalesce(bool_and(hash = sha256(data)), true)
        FROM artifact_chunks WHERE blob = $1 AND n >= $2 AND n < $3";
    let (mut from, mut found) = (0_i32, 0_u64);
    while found < size {
        let row = client.query_one(sql, &[&blob, &from, &(from + CHUNKS_AT_ONCE)]).await?;
        let (length, sound): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        if length == 0 || !sound {
            return Ok(false);
        }
        found += u64::try_from(length).unwrap_or(0);
        from += CHUNKS_AT_ONCE;
    }
    Ok(found == size)
}

/// Makes an artifact of a blob, in place of one that is damaged, and tells when that was. If another blob has become the
/// artifact meanwhile, that stays. What is not needed is left to be cleared away.
async fn adopt(
    client: &impl GenericClient,
    (sha256, size): (&str, u64),
    blob: &str,
    damaged: Option<&str>,
) -> Result<Option<i64>, ArtifactError> {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let sql = format!(
        "INSERT INTO artifacts (sha256, bytes, stored_at, blob) VALUES ($1, $2, {NOW}, $3)
            ON CONFLICT (sha256) DO UPDATE SET stored_at = greatest(excluded.stored_at, artifacts.stored_at + 1),
                blob = CASE WHEN artifacts.blob = $4 THEN excluded.blob ELSE artifacts.blob END
            RETURNING blob, stored_at"
    );
    let row = client.query_one(&sql, &[&sha256, &size, &blob, &damaged]).await?;
    if row.try_get::<_, &str>(0)? != blob {
        abandon(client, blob).await?;
        return Ok(None);
    }
    client.execute("DELETE FROM artifact_blobs WHERE id = $1", &[&blob]).await?;
    if let Some(damaged) = damaged {
        abandon(client, damaged).await?;
    }
    Ok(Some(row.try_get(1)?))
}

/// Leaves a blob to be cleared away.
async fn abandon(client: &impl GenericClient, blob: &str) -> Result<(), ArtifactError> {
    let sql = "INSERT INTO artifact_blobs (id, until) VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET until = 0";
    client.execute(sql, &[&blob]).await?;
    Ok(())
}

/// A blob that no artifact is made of yet. Dropped before that, it is cleared away.
struct Blob {
    artifacts: Artifacts,
    id: String,
    adopted: bool,
}

impl Blob {
    /// Adds a piece, if the blob's time is not over, and renews that.
    async fn add(&self, n: i32, data: Vec<u8>) -> Result<(), ArtifactError> {
        let hash = Sha256::digest(&data).to_vec();
        let sql = format!(
            "INSERT INTO artifact_chunks (blob, n, data, hash) SELECT $1, $2, $3, $4
                WHERE EXISTS (SELECT 1 FROM artifact_blobs WHERE id = $1 AND until > {NOW})
                ON CONFLICT (blob, n) DO UPDATE SET data = excluded.data, hash = excluded.hash
                RETURNING n"
        );
        let params: Vec<Param> = vec![Box::new(self.id.clone()), Box::new(n), Box::new(data), Box::new(hash)];
        self.checked(vec![self.renewal(), Question::new(sql, params)]).await
    }

    async fn renew(&self) -> Result<(), ArtifactError> {
        self.checked(vec![self.renewal()]).await
    }

    fn renewal(&self) -> Question {
        let sql = format!(
            "UPDATE artifact_blobs SET until = {NOW} + {HOLD_MILLIS} WHERE id = $1 AND until > {NOW} RETURNING id"
        );
        Question::new(sql, vec![Box::new(self.id.clone())])
    }

    async fn checked(&self, questions: Vec<Question>) -> Result<(), ArtifactError> {
        if self.artifacts.once(questions).await?.is_empty() {
            return Err(ArtifactError::Unavailable { reason: "its parts came too slowly".to_owned() });
        }
        Ok(())
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.adopted {
            return;
        }
        let (artifacts, blob) = (self.artifacts.clone(), self.id.clone());
        // If this comes to nothing, whoever has the duty finds it when its time is over.
        runtime.spawn(async move {
            let sql = "UPDATE artifact_blobs SET until = 0 WHERE id = $1";
            let given_up = artifacts.once(vec![Question::new(sql, vec![Box::new(blob)])]).await;
            if let Err(error) = given_up.map(drop).and(artifacts.tidy().await) {
                tracing::debug!(%error, "what is left of an artifact is cleared away later");
            }
        });
    }
}

/// An artifact that is being received.
struct Receiving {
    blob: Blob,
    n: i32,
    buffer: Vec<u8>,
    hashing: Hashing,
    size: u64,
}

impl Receiving {
    async fn take(&mut self, bytes: Bytes) -> Result<(), ArtifactError> {
        self.hashing.add(&bytes);
        self.size += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes);
        while self.buffer.len() >= CHUNK_BYTES {
            let rest = self.buffer.split_off(CHUNK_BYTES);
            let chunk = std::mem::replace(&mut self.buffer, rest);
            self.add(chunk).await?;
        }
        Ok(())
    }

    async fn add(&mut self, chunk: Vec<u8>) -> Result<(), ArtifactError> {
        self.blob.add(self.n, chunk).await?;
        self.n += 1;
        Ok(())
    }

    async fn place(mut self) -> Result<Stored, ArtifactError> {
        if !self.buffer.is_empty() {
            let chunk = std::mem::take(&mut self.buffer);
            self.add(chunk).await?;
        }
        let (sha256, size) = (std::mem::take(&mut self.hashing).hex(), self.size);
        let damaged = self.damaged(&sha256).await?;
        self.blob.renew().await?;
        let (artifacts, blob) = (self.blob.artifacts.clone(), self.blob.id.clone());
        artifacts
            .in_transaction(async |client: &Transaction<'_>| {
                adopt(&**client, (&sha256, size), &blob, damaged.as_deref()).await
            })
            .await?;
        self.blob.adopted = true;
        // What it made superfluous, or what was superfluous of it.
        if let Err(error) = artifacts.tidy().await {
            tracing::debug!(%error, "what is left of an artifact is cleared away later");
        }
        Ok(Stored { sha256: sha256.clone(), size })
    }

    /// The blob that the artifact is made of by now, if it is not whole.
    async fn damaged(&self, sha256: &str) -> Result<Option<String>, ArtifactError> {
        let artifacts = &self.blob.artifacts;
        match artifacts.find(sha256).await {
            Ok((known, size)) => {
                let client = artifacts.reader.pool.get().await.map_err(Problem::from)?;
                let whole = size == self.size && is_whole(&**client, &known, size).await?;
                Ok((!whole).then_some(known))
            }
            Err(ArtifactError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Incoming for Receiving {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, Result<(), ArtifactError>> {
        Box::pin(self.take(bytes))
    }

    fn finish(self: Box<Self>) -> Pending<'static, Result<Stored, ArtifactError>> {
        Box::pin(self.place())
    }
}

/// An artifact, or a part of it, that is being sent.
struct Sending {
    artifacts: Artifacts,
    sha256: String,
    blob: String,
    size: u64,
    /// What is left to be sent.
    span: Range<u64>,
    /// Of the whole.
    hashing: Option<Hashing>,
}

impl Sending {
    fn new(artifacts: Artifacts, (sha256, blob): (String, String), size: u64, span: Range<u64>) -> Sending {
        let span = clamp(span, size);
        let hashing = (span == (0..size)).then(Hashing::default);
        Sending { artifacts, sha256, blob, size, span, hashing }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, ArtifactError> {
        if self.span.is_empty() {
            return Ok(None);
        }
        let chunk = CHUNK_BYTES as u64;
        let (n, within) = (self.span.start / chunk, self.span.start % chunk);
        let data = self.chunk(n, (self.size - n * chunk).min(chunk)).await?;
        let end = (self.span.end - n * chunk).min(chunk);
        if let Some(hashing) = &mut self.hashing {
            hashing.add(&data);
        }
        self.span.start = n * chunk + end;
        let whole = self.hashing.clone().is_none_or(|hashing| hashing.hex() == self.sha256);
        if self.span.is_empty() && !whole {
            return Err(self.broken().await);
        }
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        Ok(Some(data.slice(at(within)..at(end))))
    }

    /// One piece of the blob, as it was written.
    async fn chunk(&self, n: u64, length: u64) -> Result<Bytes, ArtifactError> {
        let sql = "SELECT data, hash FROM artifact_chunks WHERE blob = $1 AND n = $2";
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        let params: Vec<Param> = vec![Box::new(self.blob.clone()), Box::new(n)];
        let rows = self.artifacts.ask(Question::new(sql, params)).await?;
        let Some(row) = rows.first() else { return Err(self.broken().await) };
        let (data, hash): (Vec<u8>, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
        if data.len() as u64 != length || Sha256::digest(&data).as_slice() != hash {
            return Err(self.broken().await);
        }
        Ok(data.into())
    }

    /// Why a piece is not what it should be: it was removed while it was read, or it is damaged.
    async fn broken(&self) -> ArtifactError {
        match self.artifacts.find(&self.sha256).await {
            Ok(_) => ArtifactError::Damaged { sha256: self.sha256.clone() },
            Err(error) => error,
        }
    }
}

impl Outgoing for Sending {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, ArtifactError>> {
        Box::pin(self.piece())
    }
}
