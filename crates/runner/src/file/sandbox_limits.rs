//! The key `limits` of a sandbox: bounds on what an agent's programs use.

use std::time::Duration;

use serde::Serialize;

use super::cursor::{Field, FileReader};
use super::shape::{Record, Shape, optional_key};

/// The largest accepted number of processes or open files.
const MAX_COUNT: u64 = 1 << 20;
/// A program with fewer open files or processes does not start.
const MIN_COUNT: u64 = 16;

pub(super) const RECORD: Record = Record {
    name: "sandbox limits",
    about: "Resources that the agent's programs may use in a turn before it is ended.",
    keys: &[
        optional_key("processes", Shape::Count(MIN_COUNT, MAX_COUNT), "Processes at once"),
        optional_key("memory", Shape::Size, "Memory of all of them together: 512MiB, 8GiB"),
        optional_key("disk", Shape::Size, "Growth of the folders that it writes to in a turn: 20GiB"),
        optional_key("cpu_time", Shape::Duration, "CPU time of all of them together: 30m, 24h"),
        optional_key("open_files", Shape::Count(MIN_COUNT, MAX_COUNT), "Open files of one process"),
        optional_key("file_size", Shape::Size, "The largest file that it may write: 8GiB"),
    ],
};

/// Limits of a file; a missing one has a default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SandboxLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub cpu_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
}

impl SandboxLimits {
    pub(super) fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> SandboxLimits {
        let Some(keys) = field.record(reader, &RECORD) else { return SandboxLimits::default() };
        let mut count = |key: &str| keys.get(key).and_then(|field| field.count(reader, MIN_COUNT, MAX_COUNT));
        let (processes, open_files) = (count("processes"), count("open_files"));
        let mut size = |key: &str| keys.get(key).and_then(|field| field.size(reader));
        let (memory, disk, file_size) = (size("memory"), size("disk"), size("file_size"));
        let cpu_time = keys.get("cpu_time").and_then(|field| field.duration(reader));
        SandboxLimits { processes, memory, disk, cpu_time, open_files, file_size }
    }

    /// Whether the file has none.
    pub fn is_empty(&self) -> bool {
        *self == SandboxLimits::default()
    }
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn seconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}
