//! The log as JSON lines, out and in. A header, a line for each row, and a footer with the hash of all lines before it.
//!
//! Facts travel in the very bytes they were written in; derived rows do not travel, they are folded anew. What comes in
//! is taken whole or not at all.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_core::actor::{Actor, Auth};
use rookery_core::log::{Body, BodyBytes, LogRow};
use rookery_core::{Fact, LogId, RunId, Seq, ThreadId, Timestamp};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::backup::{failed, put_in_place, remove};
use super::connection::{self, begin, begin_reading, beside, commit, stored, stored_seq};
use super::error::{OfflineError, Problem};
use super::lock::Lock;
use super::log::{self, Raw};
use super::migrate::{self, Birth, MIGRATIONS};
use super::verify::open_existing;
use crate::artifact::{ArtifactDir, hex, sha256_hex};
use crate::query::Head;
use crate::replay::Fold;

const VERSION: u32 = 1;
const END: &[u8] = b"{\"rookery_export_end\":";
/// No line is longer than this: an artifact in base64 with some room.
const LINE_BYTES: u64 = 1024 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportReport {
    pub head: Head,
    pub rows: u64,
    /// Artifacts that the log names and that are not there, or not what they were.
    pub missing: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    pub head: Head,
    pub rows: u64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    rookery_export: u32,
    log: String,
    floor: u64,
    head: u64,
    format: u32,
    project: String,
}

#[derive(Serialize, Deserialize)]
struct Footer {
    rookery_export_end: u32,
    rows: u64,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    at: i64,
    kind: String,
    version: u32,
    run: Option<String>,
    thread: Option<String>,
    actor: String,
    auth: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    cause: Option<u64>,
    fact: Box<RawValue>,
    body: Option<BodyLine>,
}

#[derive(Serialize, Deserialize)]
struct BodyLine {
    sha256: String,
    encoding: Encoding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Kept as a file, not in the row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    artifact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Utf8,
    Base64,
    /// Redacted.
    Gone,
    /// Should be there, and was not when this was written.
    Missing,
}

/// Writes the log as it is at one moment, beside whoever writes it.
pub fn export(path: &Path, artifacts: &ArtifactDir, out: &mut dyn Write) -> Result<ExportReport, OfflineError> {
    let connection = open_existing(path)?;
    begin_reading(&connection)?;
    let found = stored(&connection)?;
    let project = connection.query_row("SELECT project FROM log_head", [], |row| row.get(0))?;
    let (head, format) = (found.head, found.format);
    let mut lines = Lines { out, digest: Sha256::new() };
    lines.write(&Header {
        rookery_export: VERSION,
        log: head.log.to_string(),
        floor: head.floor.0,
        head: head.head.0,
        format,
        project,
    })?;
    let (mut rows, mut missing) = (0, vec![]);
    let mut statement = connection.prepare(
        "SELECT seq, at, kind, version, run, thread, actor, auth, cause, fact, body_hash, body_in, body, via
         FROM log ORDER BY seq",
    )?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let line = line(row, artifacts)?;
        let lost = line.body.as_ref().filter(|body| body.encoding == Encoding::Missing);
        missing.extend(lost.map(|body| body.sha256.clone()));
        lines.write(&line)?;
        rows += 1;
    }
    let sha256 = hex(&lines.digest.clone().finalize());
    lines.write(&Footer { rookery_export_end: VERSION, rows, sha256 })?;
    lines.out.flush().map_err(|source| OfflineError::Stream { source })?;
    Ok(ExportReport { head, rows, missing })
}

struct Lines<'a> {
    out: &'a mut dyn Write,
    digest: Sha256,
}

impl Lines<'_> {
    fn write(&mut self, line: &impl Serialize) -> Result<(), OfflineError> {
        let stream = |source| OfflineError::Stream { source };
        let mut bytes = serde_json::to_vec(line).map_err(|error| stream(error.into()))?;
        bytes.push(b'\n');
        self.digest.update(&bytes);
        self.out.write_all(&bytes).map_err(stream)
    }
}

fn line(row: &rusqlite::Row<'_>, artifacts: &ArtifactDir) -> Result<Line, OfflineError> {
    let seq: i64 = row.get(0)?;
    let fact: Vec<u8> = row.get(9)?;
    let unreadable = |_| Problem::Unreadable(format!("the fact of log row {seq} is not JSON"));
    let fact = String::from_utf8(fact).map_err(|_| Problem::Unreadable(format!("the fact of log row {seq}")))?;
    let cause: Option<i64> = row.get(8)?;
    Ok(Line {
        seq: connection::seq(seq)?.0,
        at: row.get(1)?,
        kind: row.get(2)?,
        version: row.get(3)?,
        run: row.get(4)?,
        thread: row.get(5)?,
        actor: row.get(6)?,
        auth: row.get(7)?,
        via: row.get(13)?,
        cause: cause.map(connection::seq).transpose()?.map(|seq| seq.0),
        fact: RawValue::from_string(fact).map_err(unreadable)?,
        body: body_line(row, artifacts)?,
    })
}

fn body_line(row: &rusqlite::Row<'_>, artifacts: &ArtifactDir) -> Result<Option<BodyLine>, OfflineError> {
    let Some(sha256) = row.get::<_, Option<String>>(10)? else { return Ok(None) };
    let place: Option<String> = row.get(11)?;
    let artifact = place.as_deref() == Some("artifact");
    let bytes = match place {
        None => return Ok(Some(BodyLine { sha256, encoding: Encoding::Gone, data: None, artifact: false })),
        Some(_) if artifact => match artifacts.get(&sha256) {
            Ok(bytes) => bytes,
            Err(_) => return Ok(Some(BodyLine { sha256, encoding: Encoding::Missing, data: None, artifact })),
        },
        Some(_) => row.get::<_, Option<Vec<u8>>>(12)?.unwrap_or_default(),
    };
    let (encoding, data) = match String::from_utf8(bytes) {
        Ok(text) => (Encoding::Utf8, text),
        Err(error) => (Encoding::Base64, STANDARD.encode(error.as_bytes())),
    };
    Ok(Some(BodyLine { sha256, encoding, data: Some(data), artifact }))
}

/// Makes a store out of an export, with a log id of its own. The store must not exist yet.
pub fn import(
    from: &mut dyn BufRead,
    path: &Path,
    artifacts: &ArtifactDir,
    log_id: &LogId,
) -> Result<ImportReport, OfflineError> {
    super::prepare_folder(path)?;
    let _lock = Lock::take(path)?;
    if path.exists() {
        return Err(OfflineError::Exists { path: path.to_owned() });
    }
    let partial = beside(path, ".importing");
    remove(&partial)?;
    let mut added = Vec::new();
    let made = Import { from, line: 0, digest: Sha256::new(), artifacts, added: &mut added }
        .run(&partial, log_id)
        .and_then(|report| put_in_place(&partial, path).map(|()| report));
    if made.is_err() {
        // All or nothing; the first failure is the one to tell.
        drop(fs::remove_file(&partial));
        drop(fs::remove_file(beside(&partial, "-journal")));
        added.iter().for_each(|sha256| drop(artifacts.erase(sha256)));
    }
    made
}

struct Import<'a> {
    from: &'a mut dyn BufRead,
    line: u64,
    digest: Sha256,
    artifacts: &'a ArtifactDir,
    /// Artifacts that were not there before.
    added: &'a mut Vec<String>,
}

impl Import<'_> {
    fn run(mut self, partial: &Path, log_id: &LogId) -> Result<ImportReport, OfflineError> {
        let header: Header = self.header()?;
        connection::create_private(partial).map_err(failed(partial))?;
        let connection = connection::single_file(partial)?;
        migrate::prepare(&connection, partial, Birth { log_id, project: &header.project }, MIGRATIONS)?;
        begin(&connection)?;
        let mut fold = Fold::default();
        let mut next = Seq(header.floor);
        let footer = loop {
            let before = hex(&self.digest.clone().finalize());
            let bytes = self.read()?;
            if bytes.starts_with(END) {
                let footer: Footer = self.parse(&bytes)?;
                break (footer, before);
            }
            let line: Line = self.parse(&bytes)?;
            self.take(&connection, line, next, &mut fold)?;
            next = next.next();
        };
        let rows = next.0 - header.floor;
        self.check_end(&header, &footer.0, &footer.1, rows)?;
        migrate::write_fold(&connection, &fold)?;
        connection.execute(
            "UPDATE log_head SET floor = ?1, head = ?2",
            params![stored_seq(Seq(header.floor)), stored_seq(Seq(header.head))],
        )?;
        commit(&connection)?;
        let head = stored(&connection)?.head;
        connection.close().map_err(|(_, error)| error)?;
        Ok(ImportReport { head, rows })
    }

    fn header(&mut self) -> Result<Header, OfflineError> {
        let bytes = self.read()?;
        let header: Header = self.parse(&bytes)?;
        if header.rookery_export != VERSION {
            return Err(self.bad(format!("has version {}, and this program reads {VERSION}", header.rookery_export)));
        }
        let last = i64::MAX.unsigned_abs();
        if header.floor == 0 || header.head >= last || header.head + 1 < header.floor {
            return Err(self.bad("names an impossible stretch of the log"));
        }
        Ok(header)
    }

    fn check_end(&mut self, header: &Header, footer: &Footer, sha256: &str, rows: u64) -> Result<(), OfflineError> {
        if footer.sha256 != sha256 {
            return Err(self.bad("has the hash of other lines than these"));
        }
        if footer.rows != rows || header.floor + rows != header.head + 1 {
            return Err(self.bad(format!("comes after {rows} rows, and {} were promised", footer.rows)));
        }
        let mut rest = Vec::new();
        self.from.take(1).read_to_end(&mut rest).map_err(|source| OfflineError::Stream { source })?;
        if rest.is_empty() { Ok(()) } else { Err(self.bad("is not the last one")) }
    }

    fn take(
        &mut self,
        connection: &Connection,
        line: Line,
        expected: Seq,
        fold: &mut Fold,
    ) -> Result<(), OfflineError> {
        if Seq(line.seq) != expected {
            return Err(self.bad(format!("has seq {}, where {expected} follows", line.seq)));
        }
        let fact = line.fact.get().as_bytes();
        let decoded = Fact::decode(&line.kind, line.version, fact)
            .map_err(|error| self.bad(format!("is unreadable: {error}")))?;
        let auth = Auth::parse(&line.auth).ok_or_else(|| self.bad(format!("has auth {}", line.auth)))?;
        let body = line.body.map(|body| self.body(body)).transpose()?;
        let row = LogRow {
            seq: expected,
            at: Timestamp(line.at),
            run: line.run.map(RunId::new),
            thread: line.thread.map(ThreadId::new),
            actor: Actor::parse(&line.actor),
            auth,
            via: line.via,
            cause: line.cause.map(Seq),
            fact: decoded,
            body,
        };
        log::append_raw(connection, &Raw { row: &row, kind: &line.kind, version: line.version, fact })?;
        fold.add(&row);
        Ok(())
    }

    fn body(&mut self, body: BodyLine) -> Result<Body, OfflineError> {
        let sha256 = body.sha256;
        let data = body.data.unwrap_or_default();
        let bytes = match body.encoding {
            Encoding::Gone => return Ok(Body { sha256, bytes: BodyBytes::Gone }),
            Encoding::Missing => return Ok(Body { sha256, bytes: BodyBytes::Artifact }),
            Encoding::Utf8 => data.into_bytes(),
            Encoding::Base64 => STANDARD.decode(data).map_err(|error| self.bad(format!("has bad base64: {error}")))?,
        };
        if sha256_hex(&bytes) != sha256 {
            return Err(self.bad("has a body that is not what its hash says"));
        }
        if !body.artifact {
            return Ok(Body { sha256, bytes: BodyBytes::Here(bytes) });
        }
        if !self.artifacts.contains(&sha256) {
            self.added.push(sha256.clone());
        }
        self.artifacts.put(&bytes).map_err(failed(self.artifacts.folder()))?;
        Ok(Body { sha256, bytes: BodyBytes::Artifact })
    }

    /// The next line with its end.
    fn read(&mut self) -> Result<Vec<u8>, OfflineError> {
        self.line += 1;
        let mut bytes = Vec::new();
        let mut limited = (&mut *self.from).take(LINE_BYTES);
        limited.read_until(b'\n', &mut bytes).map_err(|source| OfflineError::Stream { source })?;
        if bytes.last() != Some(&b'\n') {
            let reason = if bytes.is_empty() { "is missing: the export was cut off" } else { "is cut off" };
            return Err(self.bad(reason));
        }
        self.digest.update(&bytes);
        Ok(bytes)
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, OfflineError> {
        serde_json::from_slice(bytes).map_err(|error| self.bad(format!("cannot be read: {error}")))
    }

    fn bad(&self, reason: impl Into<String>) -> OfflineError {
        OfflineError::Line { line: self.line, reason: reason.into() }
    }
}
