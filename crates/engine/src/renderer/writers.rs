//! Who has a file open for writing: what such a file holds is not its last word.
//!
//! A file is known by what it is, not by its path: a process in a container or behind a bind mount has another path to
//! it. And nobody sees everybody: processes of other users, or on other machines, tell nothing. So that nobody is seen
//! to write is a reason to wait for a while, never one to throw something away at once.

use std::fs;
use std::io;
use std::path::Path;

use super::instance_dir::FileId;

/// What is known about the writers of files.
#[derive(Debug)]
pub(super) struct Writers {
    open: Vec<FileId>,
    sees: Sees,
}

/// How much the system tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sees {
    /// Every process that there is here.
    All,
    /// Not those of others.
    Some,
    Nothing,
}

impl Writers {
    /// Looks at every process once.
    pub(super) fn look(among: &[FileId]) -> Writers {
        let mut writers = Writers { open: vec![], sees: Sees::All };
        if among.is_empty() {
            return writers;
        }
        let Ok(processes) = fs::read_dir("/proc") else { return Writers { sees: Sees::Nothing, ..writers } };
        for process in processes.flatten() {
            let is_process = process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
            if is_process {
                match written_by(&process.path(), among) {
                    Ok(open) => writers.open.extend(open),
                    // One that has just ended writes nothing any more.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => writers.sees = Sees::Some,
                    Err(_) => {}
                }
            }
        }
        writers
    }

    /// Whether somebody is seen to have it open for writing.
    pub(super) fn write_to(&self, file: FileId) -> bool {
        self.open.contains(&file)
    }

    pub(super) fn sees(&self) -> Sees {
        self.sees
    }
}

fn written_by(process: &Path, among: &[FileId]) -> io::Result<Vec<FileId>> {
    let mut open = Vec::new();
    for file in fs::read_dir(process.join("fd"))?.flatten() {
        let is_on_disk = fs::read_link(file.path()).is_ok_and(|path| path.is_absolute());
        if !is_on_disk || !is_for_writing(&process.join("fdinfo").join(file.file_name())) {
            continue;
        }
        // Through the process's own handle, whatever path it has to the file.
        open.extend(FileId::at(&file.path()).filter(|id| among.contains(id)));
    }
    Ok(open)
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
        let id = |path: &Path| FileId::at(path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (written, read, moved) = (root.join("written"), root.join("read"), root.join("moved"));
        fs::write(&read, "x").unwrap();
        let writer = fs::File::create(&written).unwrap();
        let reader = fs::File::open(&read).unwrap();
        let ask = |path: &Path| Writers::look(&[id(path)]).write_to(id(path));
        assert_eq!((ask(&written), ask(&read)), (true, false));
        fs::rename(&written, &moved).unwrap();
        assert!(ask(&moved), "it goes where the file goes");
        drop((writer, reader));
        assert!(!ask(&moved));
    }

    #[test]
    fn whoever_opened_it_by_another_path_is_seen_too() {
        let id = |path: &Path| FileId::at(path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, &other).unwrap();
        let writer = fs::File::options().write(true).open(&other).unwrap();
        fs::remove_file(&other).unwrap();
        assert!(Writers::look(&[id(&file)]).write_to(id(&file)));
        drop(writer);
        assert!(!Writers::look(&[id(&file)]).write_to(id(&file)));
    }
}
