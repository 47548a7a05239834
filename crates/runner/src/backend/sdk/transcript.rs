//! The transcript of a turn for people: one JSON line for each message.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::model::ModelMessage;

const FILE: &str = "transcript.jsonl";
/// Maximum size of a transcript.
const MAX_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct ModelTranscript {
    path: PathBuf,
    /// `None` once the disk rejects a line or the transcript is full; the turn need not fail for that.
    file: Option<File>,
    room: usize,
}

impl ModelTranscript {
    pub(super) fn begin(folder: &Path) -> ModelTranscript {
        let path = folder.join(FILE);
        ModelTranscript { file: File::create(&path).ok(), path, room: MAX_BYTES }
    }

    pub(super) fn add(&mut self, message: &ModelMessage) {
        let Some(file) = &mut self.file else { return };
        let Ok(line) = serde_json::to_string(message) else { return };
        let fits = line.len() < self.room;
        self.room = self.room.saturating_sub(line.len() + 1);
        let line = if fits { line } else { "\"the rest is left out\"".to_owned() };
        if writeln!(file, "{line}").is_err() || !fits {
            self.file = None;
        }
    }

    pub(super) fn finish(self) -> Option<PathBuf> {
        self.path.exists().then_some(self.path)
    }
}
