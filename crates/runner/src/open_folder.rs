//! Folders held open by descriptor, so that file operations cannot be redirected out of them.
//!
//! Agents can write to the folders in which the runner creates files, even at the same time. Every name is looked up relative
//! to an open folder, no link is ever followed, and new files have unpredictable names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// An open folder. Replacing the folder at its path does not affect it.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    fd: OwnedFd,
    /// For error messages.
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder by its absolute path. Fails if any part of the path is a link.
    pub(crate) fn open(path: &Path) -> io::Result<OpenFolder> {
        let flags = step_flags();
        let mut held = OpenFolder { fd: fs::open("/", flags, Mode::empty())?, path: PathBuf::from("/") };
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => held = held.step(name, flags)?,
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::other(format!("{} is not an absolute path", path.display())));
                }
            }
        }
        held.reopen()
    }

    /// Opens a subfolder.
    pub(crate) fn enter(&self, name: impl AsRef<OsStr>) -> io::Result<OpenFolder> {
        self.step(name.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC)
    }

    /// Opens a subfolder, and creates it if missing. Also returns whether it was created.
    pub(crate) fn create(&self, name: impl AsRef<OsStr>) -> io::Result<(OpenFolder, bool)> {
        let created = match fs::mkdirat(&self.fd, name.as_ref(), Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        Ok((self.enter(name)?, created))
    }

    /// Whether a file, folder or link has this name.
    pub(crate) fn has(&self, name: &OsStr) -> io::Result<bool> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads at most `most` bytes of a regular file. Returns `None` if nothing has this name, and an error for anything but a
    /// regular file.
    pub(crate) fn read(&self, name: &OsStr, most: u64) -> io::Result<Option<Vec<u8>>> {
        // Non-blocking, since an agent may have put a pipe there.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !FileType::from_raw_mode(fs::fstat(&file)?.st_mode).is_file() {
            return Err(io::Error::other(format!("{} is not a regular file", self.path.join(name).display())));
        }
        let mut content = Vec::new();
        File::from(file).take(most).read_to_end(&mut content)?;
        Ok(Some(content))
    }

    /// Whether a regular file of this name has exactly this content.
    pub(crate) fn contains(&self, name: &OsStr, content: &[u8]) -> bool {
        let found = self.read(name, content.len() as u64 + 1);
        found.is_ok_and(|found| found.is_some_and(|found| found == content))
    }

    /// Writes a file atomically and durably. Replaces any file or link of this name.
    pub(crate) fn write(&self, name: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
        let fresh = format!(".rookery-{:032x}", rand::random::<u128>());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(fs::openat(&self.fd, &fresh, flags, mode_of(mode))?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| Ok(fs::renameat(&self.fd, &fresh, &self.fd, name)?));
        if renamed.is_err() {
            fs::unlinkat(&self.fd, &fresh, AtFlags::empty()).ok();
        }
        renamed.and_then(|()| self.sync())
    }

    /// Moves a file, folder or link to another folder.
    pub(crate) fn rename(&self, from: &OsStr, folder: &OpenFolder, to: &OsStr) -> io::Result<()> {
        fs::renameat(&self.fd, from, &folder.fd, to)?;
        folder.sync()?;
        self.sync()
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes a folder if it is empty.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    fn step(&self, name: &OsStr, flags: OFlags) -> io::Result<OpenFolder> {
        let path = self.path.join(name);
        match fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(OpenFolder { fd, path }),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let shown = path.display();
                Err(io::Error::other(format!(
                    "{shown} is a link or not a folder, and links are not followed; remove it"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reopens the folder for more than looking up names.
    fn reopen(self) -> io::Result<OpenFolder> {
        let fd = fs::openat(&self.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(OpenFolder { fd, path: self.path })
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }
}

/// Flags for the folders of a path, which may be accessible but not readable.
fn step_flags() -> OFlags {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    let flags = flags | OFlags::PATH;
    flags
}

fn mode_of(mode: u32) -> Mode {
    #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "modes have another size elsewhere"))]
    Mode::from_raw_mode(mode.try_into().unwrap_or(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn link_in_a_path_is_rejected() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real", root.join("link")).unwrap();
        assert!(OpenFolder::open(&root.join("real/deep")).is_ok());
        let error = OpenFolder::open(&root.join("link/deep")).unwrap_err().to_string();
        assert!(error.contains("link is a link"), "{error}");
        assert!(OpenFolder::open(&root).unwrap().create("link").is_err());
    }

    #[test]
    fn write_replaces_a_link_and_not_its_target() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::write(root.join("victim"), "theirs").unwrap();
        symlink("victim", root.join("file")).unwrap();
        let held = OpenFolder::open(&root).unwrap();
        assert!(!held.contains("file".as_ref(), b"theirs"), "a link has no content");
        held.write("file".as_ref(), b"ours", 0o600).unwrap();
        assert!(held.contains("file".as_ref(), b"ours"));
        assert_eq!(std::fs::read_to_string(root.join("victim")).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 2, "no other file is left");
    }

    #[test]
    fn contains_does_not_wait_for_a_pipe() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::mkfifoat(fs::CWD, root.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        assert!(!OpenFolder::open(&root).unwrap().contains("pipe".as_ref(), b""));
    }
}
