//! What runs, written down: whoever comes after a crash ends what was left over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process_tree::{Ask, ProcessId, ProcessTree, boot_id};

const ENDING: &str = "process.json";

#[derive(Debug, Serialize, Deserialize)]
struct Page {
    boot_id: String,
    /// For people.
    program: String,
    process_tree: ProcessTree,
}

/// The file about a program that runs; gone when this is dropped.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    page: Page,
}

impl Record {
    /// Written before the program is started, so that there is no moment in which it runs and nobody knows.
    pub(super) fn begin(folder: &Path, program: &str, process_tree: &ProcessTree) -> io::Result<Record> {
        fs::create_dir_all(folder)?;
        let page = Page { boot_id: boot_id()?, program: program.to_owned(), process_tree: process_tree.clone() };
        let record = Record { path: folder.join(format!("{}.{ENDING}", process_tree.mark)), page };
        record.write()?;
        Ok(record)
    }

    pub(super) fn started(&mut self, first: Option<ProcessId>) -> io::Result<()> {
        self.page.process_tree.first = first;
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(&self.page)?)?;
        fs::rename(beside, &self.path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // One that stays is about nobody who lives.
        drop(fs::remove_file(&self.path));
    }
}

/// A program that was left over, and how many processes of it were ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    pub program: String,
    pub processes: usize,
}

/// Ends what is left over of the programs that were written down in a folder. To be called by whoever has the folder to
/// itself, before it starts any.
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
        // A file that was cut by the end of its writer was written before anything was started.
        let page = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Page>(&bytes).ok());
        if let Some(page) = page.filter(|page| page.boot_id == boot) {
            let processes = page.process_tree.end(Ask::Everybody).await;
            if processes > 0 {
                ended.push(Orphan { program: page.program, processes });
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
    async fn a_record_is_there_as_long_as_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("processes");
        assert_eq!(end_orphans(&records).await.unwrap(), [], "there need be no folder");
        let mut record = Record::begin(&records, "sh", &ProcessTree::new()).unwrap();
        record.started(ProcessId::of(1)).unwrap();
        assert_eq!(fs::read_dir(&records).unwrap().count(), 1);
        drop(record);
        assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_of_another_start_of_the_machine_or_is_unreadable_is_only_removed() {
        let folder = tempfile::tempdir().unwrap();
        let first = ProcessId::of(std::os::unix::process::parent_id());
        assert!(first.is_some());
        let process_tree = ProcessTree { first, ..ProcessTree::new() };
        let page = Page { boot_id: "another".into(), program: "sh".into(), process_tree };
        fs::write(folder.path().join("a.process.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        fs::write(folder.path().join("b.process.json"), "{").unwrap();
        fs::write(folder.path().join("other"), "stays").unwrap();
        assert_eq!(end_orphans(folder.path()).await.unwrap(), []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(ProcessId::of(std::os::unix::process::parent_id()), first, "whoever it named lives");
    }
}
