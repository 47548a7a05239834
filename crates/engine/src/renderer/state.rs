//! What was rendered last: how a person's edit is told from our own words, and how far the log was followed.
//!
//! Operational, a file per instance beside the store's. Losing it costs nothing but work: files are then compared with
//! the log itself, and what the log does not know becomes a version. So it is written without ceremony, after the files.

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

use super::fault_points::{Step, Steps};

/// What stands in the files of an instance, as far as we put it there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// The log and the folder that this is true of.
    pub(super) log: String,
    pub(super) folder: String,
    #[serde(default)]
    pub(super) documents: BTreeMap<String, RenderedDocument>,
    #[serde(default)]
    pub(super) channel: Option<Written>,
    /// Hashes of what waits in `.swap` and is known, by its name there.
    #[serde(default)]
    pub(super) swaps: BTreeMap<String, String>,
    /// Hashes of files that are made from nothing but settings, by name.
    #[serde(default)]
    pub(super) generated: BTreeMap<String, String>,
}

/// A document as it stands in its file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RenderedDocument {
    pub(super) version: u64,
    /// None if the document was deleted and its file with it.
    pub(super) hash: Option<String>,
}

/// How far the channel is written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// The time of the last entry.
    pub(super) last_at: Option<i64>,
}

/// Where states are kept.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    folder: PathBuf,
    steps: Steps,
}

/// No instance's folder begins with a dot, so that this is nobody's state.
const CURSOR: &str = ".cursor.json";

impl Shelf {
    pub(super) fn new(folder: &Path, steps: Steps) -> Shelf {
        Shelf { folder: folder.to_owned(), steps }
    }

    pub(super) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Whether an instance had its files in this folder.
    pub(super) fn knows(&self, instance: &Instance, log: &str, folder: &str) -> bool {
        self.kept(instance, log, folder).is_some()
    }

    fn kept(&self, instance: &Instance, log: &str, folder: &str) -> Option<State> {
        self.read::<State>(&of(instance)).filter(|state| state.log == log && state.folder == folder)
    }

    /// What was kept of an instance, if it is about this log and this folder.
    pub(super) fn load(&self, instance: &Instance, log: &str, folder: &str) -> State {
        let kept = self.kept(instance, log, folder);
        kept.unwrap_or_else(|| State { log: log.to_owned(), folder: folder.to_owned(), ..State::default() })
    }

    pub(super) fn save(&self, instance: &Instance, state: &State) -> io::Result<()> {
        self.write(&of(instance), state)
    }

    /// Up to where everything that the log says is in the files.
    pub(super) fn cursor(&self) -> Option<Position> {
        self.read::<String>(CURSOR).and_then(|text| Position::parse(&text))
    }

    pub(super) fn save_cursor(&self, position: &Position) -> io::Result<()> {
        self.write(CURSOR, &position.to_string())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        // Whatever cannot be read is as good as lost.
        let bytes = fs::read(self.folder.join(name)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.steps.take(Step::SaveState)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let (file, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let mut options = fs::OpenOptions::new();
        let mut writer = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        writer.write_all(&serde_json::to_vec(value)?)?;
        fs::rename(new, file)
    }
}

fn of(instance: &Instance) -> String {
    format!("{}.json", folder_name(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_another_log_or_folder_or_cannot_be_read_is_as_good_as_lost() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), Steps::default());
        let instance = Instance::new("cursor");
        let rendered = RenderedDocument { version: 3, hash: Some("aa".to_owned()) };
        let state = State {
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
