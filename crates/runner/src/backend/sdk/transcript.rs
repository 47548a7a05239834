//! Everything that was said in a turn, for people who want to know: a line of JSON for each message.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::model::Message;

const FILE: &str = "transcript.jsonl";
/// What is kept of a turn.
const BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    /// None once the disk refused it or it is full; the turn need not fail for that.
    file: Option<File>,
    room: usize,
}

impl Transcript {
    pub(super) fn begin(folder: &Path) -> Transcript {
        let path = folder.join(FILE);
        Transcript { file: File::create(&path).ok(), path, room: BYTES }
    }

    pub(super) fn add(&mut self, message: &Message) {
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
