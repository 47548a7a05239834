//! Copies of a database.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};

use super::connection::{self, begin_reading, beside, stored};
use super::error::OfflineError;

/// How far a copy has come, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

const PAGES_AT_ONCE: i32 = 1_024;

/// Copies the database as it is at one moment into a single file, while others may write.
pub(super) fn copy_database(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), OfflineError> {
    let source = connection::reader(from)?;
    // One transaction keeps the copy at one moment: without it, every write would make it begin again.
    begin_reading(&source)?;
    stored(&source)?;
    let partial = beside(to, ".partial");
    remove(&partial)?;
    let mut target = connection::single_file(&partial)?;
    {
        let copy = Backup::new(&source, &mut target)?;
        while copy.step(PAGES_AT_ONCE)? != StepResult::Done {
            let pages = copy.progress();
            let (total, left) = (u64::try_from(pages.pagecount), u64::try_from(pages.remaining));
            let (total, left) = (total.unwrap_or(0), left.unwrap_or(0));
            progress(Progress { done: total.saturating_sub(left), total });
        }
    }
    target.execute_batch("PRAGMA journal_mode = DELETE")?;
    target.close().map_err(|(_, error)| error)?;
    put_in_place(&partial, to)
}

fn remove(path: &Path) -> Result<(), OfflineError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(OfflineError::File { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Makes a finished file durable and gives it its name.
fn put_in_place(partial: &Path, to: &Path) -> Result<(), OfflineError> {
    let failed = |source| OfflineError::File { path: to.to_owned(), source };
    std::fs::File::open(partial).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(partial, to).map_err(failed)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    crate::artifact::sync_folder(folder).map_err(failed)
}
