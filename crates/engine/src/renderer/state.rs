//! The saved state of the renderer: hashes that tell a person's edit from rendered text, and the position in the log.
//!
//! It is operational, one file per instance. Losing it costs only work: files are then compared with the log itself, and
//! content that the log does not have becomes a version. So it is written after the files, without fsync.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rookery_core::Position;
use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_dir::folder_name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fault_points::{FaultPoint, FaultPoints};

/// The content of an instance's files, as far as the renderer wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct InstanceState {
    /// The log and the folder that the state belongs to.
    pub(super) log: String,
    pub(super) folder: String,
    #[serde(default)]
    pub(super) documents: BTreeMap<String, RenderedDocument>,
    #[serde(default)]
    pub(super) channel: Option<ChannelState>,
    /// Hashes of preserved files in `.swap`, by their names there.
    #[serde(default)]
    pub(super) swaps: BTreeMap<String, String>,
    /// Hashes of files that are made from settings alone, by name.
    #[serde(default)]
    pub(super) generated: BTreeMap<String, String>,
}

/// A document as it is in its file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RenderedDocument {
    pub(super) version: u64,
    /// `None` if the document was deleted and its file with it.
    pub(super) hash: Option<String>,
}

/// The written part of the channel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ChannelState {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// The time of the last entry.
    pub(super) last_at: Option<i64>,
}

/// The folder that states are saved in.
#[derive(Clone, Debug)]
pub(super) struct StateStore {
    folder: PathBuf,
    fault_points: FaultPoints,
}

/// The folder name of an instance never begins with a dot, so that this name is free.
const CURSOR: &str = ".cursor.json";

impl StateStore {
    pub(super) fn new(folder: &Path, fault_points: FaultPoints) -> StateStore {
        StateStore { folder: folder.to_owned(), fault_points }
    }

    pub(super) fn fault_points(&self) -> &FaultPoints {
        &self.fault_points
    }

    /// Whether a state is saved for an instance with this log and folder.
    pub(super) fn has_state(&self, instance: &Instance, log: &str, folder: &str) -> bool {
        self.load_matching(instance, log, folder).is_some()
    }

    fn load_matching(&self, instance: &Instance, log: &str, folder: &str) -> Option<InstanceState> {
        self.read::<InstanceState>(&file_name(instance)).filter(|state| state.log == log && state.folder == folder)
    }

    /// The saved state of an instance, or an empty one if none was saved for this log and folder.
    pub(super) fn load(&self, instance: &Instance, log: &str, folder: &str) -> InstanceState {
        let kept = self.load_matching(instance, log, folder);
        kept.unwrap_or_else(|| InstanceState {
            log: log.to_owned(),
            folder: folder.to_owned(),
            ..InstanceState::default()
        })
    }

    pub(super) fn save(&self, instance: &Instance, state: &InstanceState) -> io::Result<()> {
        self.write(&file_name(instance), state)
    }

    /// The position up to which the files reflect the log.
    pub(super) fn cursor(&self) -> Option<Position> {
        self.read::<String>(CURSOR).and_then(|text| Position::parse(&text))
    }

    pub(super) fn save_cursor(&self, position: &Position) -> io::Result<()> {
        self.write(CURSOR, &position.to_string())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        // A file that cannot be read counts as lost.
        let bytes = fs::read(self.folder.join(name)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.fault_points.pass(FaultPoint::SaveState)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let (file, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let mut options = fs::OpenOptions::new();
        let mut writer = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        writer.write_all(&serde_json::to_vec(value)?)?;
        fs::rename(new, file)
    }
}

fn file_name(instance: &Instance) -> String {
    format!("{}.json", folder_name(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_another_log_or_folder_or_unreadable_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = StateStore::new(folder.path(), FaultPoints::default());
        let instance = Instance::new("cursor");
        let rendered = RenderedDocument { version: 3, hash: Some("aa".to_owned()) };
        let state = InstanceState {
            documents: BTreeMap::from([("notes.md".to_owned(), rendered)]),
            ..shelf.load(&instance, "log_1", "a")
        };
        shelf.save(&instance, &state).unwrap();
        shelf.save_cursor(&Position::parse("log_1:7").unwrap()).unwrap();
        assert_eq!(shelf.load(&instance, "log_1", "a"), state);
        assert_eq!(shelf.load(&instance, "log_2", "a").documents, BTreeMap::new());
        assert_eq!(shelf.load(&instance, "log_1", "b").documents, BTreeMap::new());
        assert_eq!(shelf.cursor(), Position::parse("log_1:7"));
        fs::write(folder.path().join("cursor.json"), "{").unwrap();
        assert_eq!(shelf.load(&instance, "log_1", "a").documents, BTreeMap::new());
    }
}
