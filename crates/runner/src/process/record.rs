//! Records of running programs on disk, from which a later runner ends the leftovers of a crash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process_tree::{ProcessId, ProcessTree, TerminationScope, boot_id};

const ENDING: &str = "process.json";

#[derive(Debug, Serialize, Deserialize)]
struct RecordContent {
    boot_id: String,
    /// For people who read the file.
    program: String,
    process_tree: ProcessTree,
}

/// The record of a running program. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct ProcessRecord {
    path: PathBuf,
    content: RecordContent,
}

impl ProcessRecord {
    /// Written before the program starts, so that no process ever runs without a record.
    pub(super) fn begin(folder: &Path, program: &str, process_tree: &ProcessTree) -> io::Result<ProcessRecord> {
        fs::create_dir_all(folder)?;
        let content =
            RecordContent { boot_id: boot_id()?, program: program.to_owned(), process_tree: process_tree.clone() };
        let record = ProcessRecord { path: folder.join(format!("{}.{ENDING}", process_tree.mark)), content };
        record.write()?;
        Ok(record)
    }

    pub(super) fn set_first(&mut self, first: Option<ProcessId>) -> io::Result<()> {
        self.content.process_tree.first = first;
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(&self.content)?)?;
        fs::rename(beside, &self.path)
    }
}

impl Drop for ProcessRecord {
    fn drop(&mut self) {
        // A record that remains names no living process.
        drop(fs::remove_file(&self.path));
    }
}

/// A program that outlived its runner, with the number of its processes that were ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    pub program: String,
    pub processes: usize,
}

/// Ends the programs that the records in a folder name. Call it only while holding the folder exclusively, before
/// starting any program.
pub async fn end_orphans(folder: &Path) -> io::Result<Vec<Orphan>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let boot = boot_id()?;
    let mut ended = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(ENDING) {
            continue;
        }
        // A file that was cut short by a crash was written before its program started.
        let content = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<RecordContent>(&bytes).ok());
        if let Some(content) = content.filter(|content| content.boot_id == boot) {
            let processes = content.process_tree.end(TerminationScope::All).await;
            if processes > 0 {
                ended.push(Orphan { program: content.program, processes });
            }
        }
        fs::remove_file(&path)?;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn record_exists_as_long_as_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("processes");
        assert_eq!(end_orphans(&records).await.unwrap(), [], "there need be no folder");
        let mut record = ProcessRecord::begin(&records, "sh", &ProcessTree::new()).unwrap();
        record.set_first(ProcessId::of(1)).unwrap();
        assert_eq!(fs::read_dir(&records).unwrap().count(), 1);
        drop(record);
        assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn record_of_another_boot_or_unreadable_is_only_removed() {
        let folder = tempfile::tempdir().unwrap();
        let first = ProcessId::of(std::os::unix::process::parent_id());
        assert!(first.is_some());
        let process_tree = ProcessTree { first, ..ProcessTree::new() };
        let content = RecordContent { boot_id: "another".into(), program: "sh".into(), process_tree };
        fs::write(folder.path().join("a.process.json"), serde_json::to_vec(&content).unwrap()).unwrap();
        fs::write(folder.path().join("b.process.json"), "{").unwrap();
        fs::write(folder.path().join("other"), "stays").unwrap();
        assert_eq!(end_orphans(folder.path()).await.unwrap(), []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(ProcessId::of(std::os::unix::process::parent_id()), first, "the named process is alive");
    }
}
