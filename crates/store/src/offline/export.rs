//! The log as JSON lines, and after it the artifacts that facts refer to. Facts travel in the very bytes they were
//! written in; derived rows do not travel.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{AnyEvent, EventStamp, Key, Row, Table, apply_row};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::line::{ArtifactLine, BodyLine, Encoding, Footer, Header, Line, VERSION};
use super::{OfflineError, RawRow, Source, each_chunk, has_artifact, referred};
use crate::artifact::hex;
use crate::query::LogHead;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportReport {
    pub head: LogHead,
    pub rows: u64,
    /// Artifacts that facts refer to.
    pub artifacts: u64,
    /// Artifacts that the log names and that are not there, or not what they were.
    pub missing: Vec<String>,
}

/// Writes the log.
pub fn export(source: &mut dyn Source, out: &mut dyn Write) -> Result<ExportReport, OfflineError> {
    let snapshot = source.snapshot().clone();
    let head = snapshot.head;
    let mut lines = Lines { out, digest: Sha256::new() };
    lines.write(&Header {
        rookery_export: VERSION,
        log: head.log.to_string(),
        floor: head.floor.0,
        head: head.head.0,
        format: snapshot.format,
        project: snapshot.project.name,
    })?;
    let (mut rows, mut missing) = (0, vec![]);
    let mut refs = Refs::default();
    each_chunk(source, |source, chunk| {
        for raw in chunk {
            refs.add(&raw);
            let line = line(raw, source)?;
            let lost = line.body.as_ref().filter(|body| body.encoding == Encoding::Missing);
            missing.extend(lost.map(|body| body.sha256.clone()));
            lines.write(&line)?;
            rows += 1;
        }
        Ok(())
    })?;
    let mut artifacts = 0;
    for sha256 in referred(refs.rows.values()) {
        if has_artifact(source, &sha256)? {
            lines.artifact(source, &sha256)?;
            artifacts += 1;
        } else {
            missing.push(sha256);
        }
    }
    let sha256 = hex(&lines.digest.clone().finalize());
    lines.write(&Footer { rookery_export_end: VERSION, rows, sha256 })?;
    lines.out.flush().map_err(|source| OfflineError::Stream { source })?;
    Ok(ExportReport { head, rows, artifacts, missing })
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

    /// An artifact in parts, the last of which says so.
    fn artifact(&mut self, source: &mut dyn Source, sha256: &str) -> Result<(), OfflineError> {
        let mut part = 0;
        let mut line = |bytes: &[u8], last: bool| {
            let line = ArtifactLine { artifact: sha256.to_owned(), part, last, data: STANDARD.encode(bytes) };
            part += 1;
            self.write(&line)
        };
        source.artifact(sha256, &mut |bytes| line(bytes, false))?;
        line(&[], true)
    }
}

/// What facts refer to, as far as this program knows them. Nothing else is folded.
#[derive(Default)]
struct Refs {
    rows: BTreeMap<Key, Row>,
}

impl Refs {
    fn add(&mut self, raw: &RawRow) {
        let Ok(fact) = AnyEvent::decode(&raw.kind, raw.version, &raw.fact) else { return };
        for key in fact.write_set().into_iter().filter(|key| key.table() == Table::ArtifactRefs) {
            let old = self.rows.remove(&key);
            if let Some(row) = apply_row(old, &key, &fact, EventStamp { seq: raw.seq, at: raw.at }) {
                self.rows.insert(key, row);
            }
        }
    }
}

fn line(raw: RawRow, source: &mut dyn Source) -> Result<Line, OfflineError> {
    let not_json = || OfflineError::Unreadable(format!("the fact of log row {} is not JSON", raw.seq));
    let fact = String::from_utf8(raw.fact).map_err(|_| not_json())?;
    Ok(Line {
        seq: raw.seq.0,
        at: raw.at.0,
        fact: RawValue::from_string(fact).map_err(|_| not_json())?,
        kind: raw.kind,
        version: raw.version,
        run: raw.run,
        thread: raw.thread,
        actor: raw.actor,
        auth: raw.auth,
        via: raw.via,
        cause: raw.cause.map(|seq| seq.0),
        part_index: raw.part_index,
        body: raw.body.map(|body| body_line(body, source)),
    })
}

fn body_of(source: &mut dyn Source, sha256: &str) -> Result<Vec<u8>, OfflineError> {
    let mut bytes = Vec::new();
    source.artifact(sha256, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn body_line(Body { sha256, bytes }: Body, source: &mut dyn Source) -> BodyLine {
    let artifact = bytes == BodyBytes::Artifact;
    let found = match bytes {
        BodyBytes::Here(bytes) => Ok(bytes),
        BodyBytes::Artifact => body_of(source, &sha256).map_err(|_| Encoding::Missing),
        BodyBytes::Gone => Err(Encoding::Gone),
    };
    let (encoding, data) = found.map_or_else(|encoding| (encoding, None), Encoding::of);
    BodyLine { sha256, encoding, data, artifact }
}
