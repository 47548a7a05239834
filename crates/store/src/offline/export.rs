//! The log as JSON lines. Facts travel in the very bytes they were written in; derived rows do not travel.

use std::io::Write;

use rookery_core::log::{Body, BodyBytes};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::line::{BodyLine, Encoding, Footer, Header, Line, VERSION};
use super::{OfflineError, RawRow, Source, each_chunk};
use crate::artifact::hex;
use crate::query::Head;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportReport {
    pub head: Head,
    pub rows: u64,
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
    each_chunk(source, |source, chunk| {
        for raw in chunk {
            let line = line(raw, source)?;
            let lost = line.body.as_ref().filter(|body| body.encoding == Encoding::Missing);
            missing.extend(lost.map(|body| body.sha256.clone()));
            lines.write(&line)?;
            rows += 1;
        }
        Ok(())
    })?;
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
        body: raw.body.map(|body| body_line(body, source)),
    })
}

fn body_line(Body { sha256, bytes }: Body, source: &mut dyn Source) -> BodyLine {
    let artifact = bytes == BodyBytes::Artifact;
    let found = match bytes {
        BodyBytes::Here(bytes) => Ok(bytes),
        BodyBytes::Artifact => source.artifact(&sha256).map_err(|_| Encoding::Missing),
        BodyBytes::Gone => Err(Encoding::Gone),
    };
    let (encoding, data) = found.map_or_else(|encoding| (encoding, None), Encoding::of);
    BodyLine { sha256, encoding, data, artifact }
}
