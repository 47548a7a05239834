//! A store out of JSON lines: taken whole or not at all. Derived rows are folded anew.

use std::io::{BufRead, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{LogId, Seq, Timestamp};
use sha2::{Digest, Sha256};

use super::line::{ARTIFACT, ArtifactLine, BodyLine, END, Encoding, Footer, Header, LINE_BYTES, Line, VERSION};
use super::raw::is_next_part;
use super::{Beginning, CHUNK, Ending, Entry, OfflineError, ProjectName, RawRow, Sink, give_up, publish};
use crate::artifact::{hex, sha256_hex};
use crate::query::LogHead;
use crate::replay::Fold;

/// Rows are handed over when their lines reach so many bytes, also if they are few.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    pub head: LogHead,
    pub rows: u64,
    /// Artifacts that facts refer to.
    pub artifacts: u64,
}

/// Makes a store out of an export, with a log id of its own.
pub fn import(from: &mut dyn BufRead, sink: &mut dyn Sink, log_id: &LogId) -> Result<ImportReport, OfflineError> {
    let mut lines = Lines { from, line: 0, digest: Sha256::new() };
    let header = lines.header()?;
    let project = ProjectName { id: None, name: header.project.clone() };
    let begun = sink.begin(&Beginning { log: log_id.clone(), floor: Seq(header.floor), project });
    let import = |sink| Import {
        lines,
        sink,
        fold: Fold::default(),
        taken: vec![],
        taken_bytes: 0,
        part_index: None,
        part: None,
        artifacts: 0,
    };
    let made = begun.and_then(|()| import(&mut *sink).run(&header));
    match made {
        Ok(report) => publish(sink).map(|()| report),
        Err(error) => {
            give_up(sink);
            Err(error)
        }
    }
}

struct Import<'a, 'b> {
    lines: Lines<'a>,
    sink: &'b mut dyn Sink,
    fold: Fold,
    /// Rows that the sink has not got yet.
    taken: Vec<Entry>,
    /// How long their lines were.
    taken_bytes: usize,
    /// The `part_index` of the last row.
    part_index: Option<u32>,
    /// The artifact that is under way, and the part that follows.
    part: Option<(String, u64)>,
    artifacts: u64,
}

impl Import<'_, '_> {
    fn run(mut self, header: &Header) -> Result<ImportReport, OfflineError> {
        let mut next = Seq(header.floor);
        let (footer, sha256) = loop {
            let before = hex(&self.lines.digest.clone().finalize());
            let bytes = self.lines.read()?;
            if bytes.starts_with(END) {
                break (self.lines.parse(&bytes)?, before);
            }
            if bytes.starts_with(ARTIFACT) {
                let line = self.lines.parse(&bytes)?;
                self.take_part(line)?;
                continue;
            }
            let line: Line = self.lines.parse(&bytes)?;
            self.take(line, next)?;
            next = next.next();
            self.taken_bytes += bytes.len();
            if self.taken.len() >= CHUNK as usize || self.taken_bytes >= CHUNK_BYTES {
                self.hand_over()?;
            }
        };
        if self.part.is_some() {
            return Err(self.lines.bad("comes before the end of an artifact"));
        }
        let rows = next.0 - header.floor;
        self.lines.check_end(header, &footer, &sha256, rows)?;
        self.hand_over()?;
        let ending = Ending { head: Seq(header.head), fold: &self.fold, tokens: &[], outboxes: &[], presence: &[] };
        let head = self.sink.finish(&ending)?.snapshot().head.clone();
        Ok(ImportReport { head, rows, artifacts: self.artifacts })
    }

    fn take(&mut self, line: Line, expected: Seq) -> Result<(), OfflineError> {
        if Seq(line.seq) != expected {
            return Err(self.lines.bad(format!("has seq {}, where {expected} follows", line.seq)));
        }
        if !is_next_part(self.part_index.replace(line.part_index), line.part_index) {
            return Err(self.lines.bad(format!("has part_index {}, which does not follow", line.part_index)));
        }
        let body = line.body.map(|body| self.body(body)).transpose()?;
        let raw = RawRow {
            seq: expected,
            at: Timestamp(line.at),
            kind: line.kind,
            version: line.version,
            run: line.run,
            thread: line.thread,
            actor: line.actor,
            auth: line.auth,
            via: line.via,
            cause: line.cause.map(Seq),
            part_index: line.part_index,
            fact: line.fact.get().as_bytes().to_vec(),
            body,
        };
        let entry = raw.decode().map_err(|error| self.lines.bad(error.to_string()))?;
        self.fold.add(&entry.row);
        self.taken.push(entry);
        Ok(())
    }

    /// Takes the next part of an artifact, which ends as what its hash says or not at all.
    fn take_part(&mut self, line: ArtifactLine) -> Result<(), OfflineError> {
        let expected = self.part.take().unwrap_or_else(|| (line.artifact.clone(), 0));
        if (&line.artifact, line.part) != (&expected.0, expected.1) {
            let (sha256, part) = expected;
            return Err(self.lines.bad(format!("is not part {part} of artifact {sha256}, which follows")));
        }
        let bytes = STANDARD.decode(&line.data).map_err(|error| self.lines.bad(format!("has bad base64: {error}")))?;
        self.sink.artifact_piece(&bytes)?;
        if !line.last {
            self.part = Some((line.artifact, line.part + 1));
            return Ok(());
        }
        if self.sink.put_artifact()? != line.artifact {
            return Err(self.lines.bad("ends an artifact that is not what its hash says"));
        }
        self.artifacts += 1;
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), OfflineError> {
        let taken = std::mem::take(&mut self.taken);
        self.taken_bytes = 0;
        self.sink.append(&taken)
    }

    fn body(&mut self, body: BodyLine) -> Result<Body, OfflineError> {
        let sha256 = body.sha256;
        let data = body.data.unwrap_or_default();
        let bytes = match body.encoding {
            Encoding::Gone => return Ok(Body { sha256, bytes: BodyBytes::Gone }),
            Encoding::Missing => return Ok(Body { sha256, bytes: BodyBytes::Artifact }),
            Encoding::Utf8 => data.into_bytes(),
            Encoding::Base64 => {
                STANDARD.decode(data).map_err(|error| self.lines.bad(format!("has bad base64: {error}")))?
            }
        };
        if sha256_hex(&bytes) != sha256 {
            return Err(self.lines.bad("has a body that is not what its hash says"));
        }
        if !body.artifact {
            return Ok(Body { sha256, bytes: BodyBytes::Here(bytes) });
        }
        self.sink.artifact_piece(&bytes)?;
        self.sink.put_artifact()?;
        Ok(Body { sha256, bytes: BodyBytes::Artifact })
    }
}

struct Lines<'a> {
    from: &'a mut dyn BufRead,
    line: u64,
    digest: Sha256,
}

impl Lines<'_> {
    fn header(&mut self) -> Result<Header, OfflineError> {
        let bytes = self.read()?;
        let header: Header = self.parse(&bytes)?;
        if !(1..=VERSION).contains(&header.rookery_export) {
            let version = header.rookery_export;
            let known = format!("this program reads versions up to {VERSION}");
            return Err(self.bad(format!("has version {version}, from a newer or a development version; {known}")));
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
