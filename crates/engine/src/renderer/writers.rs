//! Finds the processes that have files open for writing: the content of such a file is not final.
//!
//! Files are identified by device and inode, not by path: a process in a container or behind a bind mount has another path
//! to the same file. Processes of other users or on other machines are not visible. So an absence of visible writers is a
//! reason to wait for some time, never a reason to remove a file at once.

use std::fs;
use std::io;
use std::path::Path;

use super::file_stamp::FileId;

/// The files that visible processes have open for writing.
#[derive(Debug)]
pub(super) struct Writers {
    open: Vec<FileId>,
    visibility: ProcessVisibility,
}

/// Which processes are visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcessVisibility {
    /// All processes of this machine.
    All,
    /// Not the processes of other users.
    Some,
    Nothing,
}

impl Writers {
    /// Searches every visible process once.
    pub(super) fn look(among: &[FileId]) -> Writers {
        let mut writers = Writers { open: vec![], visibility: ProcessVisibility::All };
        if among.is_empty() {
            return writers;
        }
        let Ok(processes) = fs::read_dir("/proc") else {
            return Writers { visibility: ProcessVisibility::Nothing, ..writers };
        };
        for process in processes.flatten() {
            let is_process = process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
            if is_process {
                match written_by(&process.path(), among) {
                    Ok(open) => writers.open.extend(open),
                    // A process that has just ended cannot write any more.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        writers.visibility = ProcessVisibility::Some
                    }
                    Err(_) => {}
                }
            }
        }
        writers
    }

    /// Whether a visible process has the file open for writing.
    pub(super) fn has_writer(&self, file: FileId) -> bool {
        self.open.contains(&file)
    }

    pub(super) fn visibility(&self) -> ProcessVisibility {
        self.visibility
    }
}

fn written_by(process: &Path, among: &[FileId]) -> io::Result<Vec<FileId>> {
    let mut open = Vec::new();
    for file in fs::read_dir(process.join("fd"))?.flatten() {
        let is_on_disk = fs::read_link(file.path()).is_ok_and(|path| path.is_absolute());
        if !is_on_disk || !is_for_writing(&process.join("fdinfo").join(file.file_name())) {
            continue;
        }
        // Through the process's own handle, which works for any path.
        open.extend(FileId::at(&file.path()).filter(|id| among.contains(id)));
    }
    Ok(open)
}

/// Whether a file was opened for writing, by its flags. Assumes so when they cannot be read.
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
    fn file_open_for_writing_has_a_writer_until_it_is_closed() {
        let id = |path: &Path| FileId::at(path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (written, read, moved) = (root.join("written"), root.join("read"), root.join("moved"));
        fs::write(&read, "x").unwrap();
        let writer = fs::File::create(&written).unwrap();
        let reader = fs::File::open(&read).unwrap();
        let ask = |path: &Path| Writers::look(&[id(path)]).has_writer(id(path));
        assert_eq!((ask(&written), ask(&read)), (true, false));
        fs::rename(&written, &moved).unwrap();
        assert!(ask(&moved), "it goes where the file goes");
        drop((writer, reader));
        assert!(!ask(&moved));
    }

    #[test]
    fn file_open_by_another_path_has_a_writer() {
        let id = |path: &Path| FileId::at(path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, &other).unwrap();
        let writer = fs::File::options().write(true).open(&other).unwrap();
        fs::remove_file(&other).unwrap();
        assert!(Writers::look(&[id(&file)]).has_writer(id(&file)));
        drop(writer);
        assert!(!Writers::look(&[id(&file)]).has_writer(id(&file)));
    }
}
