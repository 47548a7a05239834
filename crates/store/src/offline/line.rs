//! The lines of an export: a header, a line for each row, the parts of artifacts that facts refer to, and a footer with the
//! hash of all lines before it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) const VERSION: u32 = 1;
/// How a footer begins.
pub(super) const END: &[u8] = b"{\"rookery_export_end\":";
/// How a part of an artifact begins.
pub(super) const ARTIFACT: &[u8] = b"{\"artifact\":";
/// No line is longer than this: a body in base64 with some room.
pub(super) const LINE_BYTES: u64 = 1024 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) rookery_export: u32,
    pub(super) log: String,
    pub(super) floor: u64,
    pub(super) head: u64,
    pub(super) format: u32,
    pub(super) project: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Footer {
    pub(super) rookery_export_end: u32,
    pub(super) rows: u64,
    pub(super) sha256: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) at: i64,
    pub(super) kind: String,
    pub(super) version: u32,
    pub(super) run: Option<String>,
    pub(super) thread: Option<String>,
    pub(super) actor: String,
    pub(super) auth: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) via: Option<String>,
    pub(super) cause: Option<u64>,
    pub(super) part_index: u32,
    pub(super) fact: Box<RawValue>,
    pub(super) body: Option<BodyLine>,
}

/// A part of an artifact. The parts of one follow each other.
#[derive(Serialize, Deserialize)]
pub(super) struct ArtifactLine {
    /// Its hash.
    pub(super) artifact: String,
    pub(super) part: u64,
    /// Nothing of it follows.
    pub(super) last: bool,
    pub(super) data: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct BodyLine {
    pub(super) sha256: String,
    pub(super) encoding: Encoding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// Kept as an artifact, not in the row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) artifact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    Utf8,
    Base64,
    /// Redacted.
    Gone,
    /// Should be there, and was not when this was written.
    Missing,
}

impl Encoding {
    /// Bytes as text: as they are, if they are a text.
    pub(super) fn of(bytes: Vec<u8>) -> (Encoding, Option<String>) {
        match String::from_utf8(bytes) {
            Ok(text) => (Encoding::Utf8, Some(text)),
            Err(error) => (Encoding::Base64, Some(STANDARD.encode(error.as_bytes()))),
        }
    }
}
