//! Who has a file open for writing: what such a file holds is not its last word.
//!
//! Where the system tells (Linux), a file that was taken out of its place and that nobody has open any more can never
//! change again. Elsewhere, only time tells.

use std::fs;
use std::path::{Path, PathBuf};

/// What is known about the writers of files.
#[derive(Debug)]
pub(super) enum Writers {
    /// The files that processes of this user have open for writing.
    Known(Vec<PathBuf>),
    /// The system does not tell.
    Unknown,
}

impl Writers {
    /// Looks at every process once.
    pub(super) fn look(among: &[PathBuf]) -> Writers {
        if among.is_empty() {
            return Writers::Known(vec![]);
        }
        let Ok(processes) = fs::read_dir("/proc") else { return Writers::Unknown };
        let mut open = Vec::new();
        for process in processes.flatten() {
            let is_process = process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
            if is_process {
                open.extend(written_by(&process.path(), among));
            }
        }
        Writers::Known(open)
    }

    /// Whether somebody may still be writing; `None` if only time tells.
    pub(super) fn write_to(&self, path: &Path) -> Option<bool> {
        match self {
            Writers::Known(open) => Some(open.iter().any(|known| known == path)),
            Writers::Unknown => None,
        }
    }
}

fn written_by(process: &Path, among: &[PathBuf]) -> Vec<PathBuf> {
    // Those of other users cannot be looked at, and have no business in these files.
    let Ok(files) = fs::read_dir(process.join("fd")) else { return vec![] };
    let mut open = Vec::new();
    for file in files.flatten() {
        let Ok(path) = fs::read_link(file.path()) else { continue };
        if among.contains(&path) && is_for_writing(&process.join("fdinfo").join(file.file_name())) {
            open.push(path);
        }
    }
    open
}

/// Reads the flags that a file was opened with; in doubt it is.
fn is_for_writing(info: &Path) -> bool {
    let Ok(text) = fs::read_to_string(info) else { return true };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim);
    match flags.map(|flags| u32::from_str_radix(flags, 8)) {
        Some(Ok(flags)) => flags & 0o3 != 0,
        _ => true,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_to_while_somebody_has_it_open_for_that() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (written, read, moved) = (root.join("written"), root.join("read"), root.join("moved"));
        fs::write(&read, "x").unwrap();
        let writer = fs::File::create(&written).unwrap();
        let reader = fs::File::open(&read).unwrap();
        let ask = |path: &PathBuf| Writers::look(std::slice::from_ref(path)).write_to(path);
        assert_eq!((ask(&written), ask(&read)), (Some(true), Some(false)));
        fs::rename(&written, &moved).unwrap();
        assert_eq!((ask(&written), ask(&moved)), (Some(false), Some(true)), "it goes where the file goes");
        drop((writer, reader));
        assert_eq!(ask(&moved), Some(false));
    }
}
