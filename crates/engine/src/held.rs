//! Folders that are held open, and everything in them opened by name without following links.
//!
//! An agent that can write to a folder can exchange any part of a path for a link between a check and the use. A held
//! folder is a descriptor: it stays the same folder whatever becomes of its path, and each part below it is opened
//! relative to its parent with `O_NOFOLLOW`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

const FOLDER_MODE: u32 = 0o777;
const FILE_MODE: u32 = 0o666;
/// Passes over a tree that is being removed before we conclude that somebody keeps adding to it. A pass takes away one
/// level, so this also bounds the depth.
const REMOVE_PASSES: usize = 100_000;

/// How parts of a path are opened that are only passed through.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = FOLDER;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder that is held open, and the path that it was opened by.
#[derive(Debug)]
pub struct HeldFolder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Device and inode: equal for two folders only if they are the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub device: u64,
    pub number: u64,
}

/// Whether missing folders on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Fail,
}

impl HeldFolder {
    /// Opens an absolute path that must not contain links.
    pub fn open(path: &Path) -> io::Result<HeldFolder> {
        HeldFolder::walk(path, Missing::Fail)
    }

    /// As [`HeldFolder::open`], making the folders that are missing.
    pub(crate) fn create(path: &Path) -> io::Result<HeldFolder> {
        HeldFolder::walk(path, Missing::Make)
    }

    fn walk(path: &Path, missing: Missing) -> io::Result<HeldFolder> {
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => names.push(name),
                Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute and plain"));
                }
            }
        }
        let flags = if names.is_empty() { FOLDER } else { THROUGH };
        let mut here = fs::open("/", flags, Mode::empty())?;
        for (at, name) in names.iter().enumerate() {
            let flags = if at + 1 == names.len() { FOLDER } else { THROUGH };
            let opened = match open_folder_with(here.as_fd(), name, flags) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make => {
                    make_folder(here.as_fd(), name)?;
                    open_folder_with(here.as_fd(), name, flags)
                }
                other => other,
            };
            here = opened?;
        }
        Ok(HeldFolder { fd: here, path: path.to_owned() })
    }

    pub(crate) fn try_clone(&self) -> io::Result<HeldFolder> {
        Ok(HeldFolder { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both are the same folder of the disk.
    pub fn is_same(&self, other: &HeldFolder) -> bool {
        matches!((self.inode(), other.inode()), (Ok(one), Ok(two)) if one == two)
    }

    pub(crate) fn inode(&self) -> io::Result<Inode> {
        Ok(inode_of(&fs::fstat(&self.fd)?))
    }

    pub(crate) fn child(&self, name: impl AsRef<OsStr>) -> io::Result<HeldFolder> {
        let name = name.as_ref();
        Ok(HeldFolder { fd: open_folder_with(self.fd.as_fd(), plain(name)?, FOLDER)?, path: self.path.join(name) })
    }

    /// Opens a folder in this one, making it if it is missing.
    pub(crate) fn child_or_new(&self, name: impl AsRef<OsStr>) -> io::Result<HeldFolder> {
        make_folder(self.fd.as_fd(), plain(name.as_ref())?)?;
        self.child(name)
    }

    /// Makes a folder in this one; fails if anything has that name.
    pub(crate) fn new_child(&self, name: impl AsRef<OsStr>) -> io::Result<HeldFolder> {
        fs::mkdirat(&self.fd, plain(name.as_ref())?, Mode::from_raw_mode(FOLDER_MODE))?;
        self.child(name)
    }

    /// The inode of whatever has a name here, if it is a file or a folder and no link.
    pub(crate) fn inode_at(&self, name: &str) -> Option<Inode> {
        let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        (kind.is_file() || kind.is_dir()).then(|| inode_of(&stat))
    }

    /// Whether anything, a link too, has a name here.
    pub(crate) fn has(&self, name: &str) -> bool {
        fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether a name here is a link.
    pub(crate) fn is_link(&self, name: &str) -> bool {
        let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
    }

    /// Opens a regular file below this folder; none if there is none, or something else has its name.
    pub(crate) fn file(&self, relative: &str) -> io::Result<Option<File>> {
        let (folders, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let mut here = self.fd.try_clone()?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            here = match open_folder_with(here.as_fd(), OsStr::new(part), FOLDER) {
                Ok(folder) => folder,
                Err(error) if is_absent(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        // Without blocking: opening a pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file: File = match fs::openat(&here, plain(OsStr::new(name))?, flags, Mode::empty()) {
            Ok(file) => file.into(),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }

    /// Reads a small regular file below this folder; none if there is none, or it is larger than `most`.
    pub(crate) fn read(&self, relative: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(relative)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= most).then_some(bytes))
    }

    /// Writes a new file; fails if anything, a link too, has that name.
    pub(crate) fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, plain(OsStr::new(name))?, flags, Mode::from_raw_mode(FILE_MODE))?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_all()
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder in this one.
    pub(crate) fn remove_empty(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// The names of what is in this folder.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(&name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes everything in this folder, following no link. A file called `last` goes after everything else.
    ///
    /// Folders are emptied by moving their folders up into this one, so that neither the depth of the tree nor its size
    /// costs descriptors or stack.
    pub(crate) fn clear(&self, last: Option<&str>) -> io::Result<()> {
        let mut moved = 0_u64;
        for _ in 0..REMOVE_PASSES {
            let mut names = self.names()?;
            names.retain(|name| Some(name.as_os_str()) != last.map(OsStr::new));
            if names.is_empty() {
                return match last.map(|last| self.remove_file(last)) {
                    Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            for name in names {
                self.clear_one(&name, &mut moved)?;
            }
        }
        Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "files keep appearing"))
    }

    /// Removes a file, or the files of a folder; folders in it are moved up into this one.
    fn clear_one(&self, name: &OsStr, moved: &mut u64) -> io::Result<()> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = match open_folder_with(self.fd.as_fd(), name, FOLDER) {
            Ok(fd) => HeldFolder { fd, path: self.path.join(name) },
            // It became something else meanwhile; the next pass sees what.
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for inner in folder.names()? {
            match fs::unlinkat(&folder.fd, &inner, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => match folder.remove_empty(&inner) {
                    Ok(()) => {}
                    Err(_) => self.move_up(&folder, &inner, moved)?,
                },
                Err(error) => return Err(error.into()),
            }
        }
        match self.remove_empty(name) {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn move_up(&self, from: &HeldFolder, name: &OsStr, moved: &mut u64) -> io::Result<()> {
        for _ in 0..REMOVE_PASSES {
            *moved += 1;
            match fs::renameat(&from.fd, name, &self.fd, format!("rookery-removing-{moved}")) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Opens a folder by its name in another; a link is not followed.
pub(crate) fn open_folder(at: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    open_folder_with(at, OsStr::new(name), FOLDER)
}

fn open_folder_with(at: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    match fs::openat(at, name, flags, Mode::empty()) {
        Ok(folder) => Ok(folder),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("'{}' is a link or a file, where a folder is needed", name.display()),
        )),
        Err(error) => Err(error.into()),
    }
}

fn make_folder(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    match fs::mkdirat(at, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl AsFd for HeldFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A name that stays in its folder.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"));
    }
    Ok(name)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn inode_of(stat: &fs::Stat) -> Inode {
    Inode { device: number(stat.st_dev), number: number(stat.st_ino) }
}

/// The fields of a file's status have other types on other systems.
fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Bench {
        _temp: tempfile::TempDir,
        root: PathBuf,
    }

    fn bench() -> Bench {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::fs::create_dir(root.join("outside")).unwrap();
        std::fs::write(root.join("outside/secret"), "secret").unwrap();
        Bench { _temp: temp, root }
    }

    #[test]
    fn path_with_link_is_rejected() {
        let Bench { root, _temp } = bench();
        symlink(root.join("outside"), root.join("real/link")).unwrap();
        let open = |path: &str| HeldFolder::open(&root.join(path)).unwrap();
        assert!(open("real/inner").is_same(&open("real/inner")) && !open("real").is_same(&open("real/inner")));
        for path in ["real/link", "real/link/below"] {
            let error = HeldFolder::create(&root.join(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{path}");
        }
        assert!(HeldFolder::open(Path::new("relative")).is_err());
        assert!(HeldFolder::open(&root.join("real/../outside")).is_err());
        assert!(!root.join("outside/below").exists());
    }

    #[test]
    fn held_folder_reads_regular_files_only() {
        let Bench { root, _temp } = bench();
        symlink(root.join("outside/secret"), root.join("real/link")).unwrap();
        std::fs::write(root.join("real/inner/file"), "12345").unwrap();
        let held = HeldFolder::open(&root.join("real")).unwrap();
        assert_eq!(held.read("link", 10).unwrap(), None);
        assert_eq!(held.read("inner", 10).unwrap(), None);
        assert_eq!(held.read("nothing/there", 10).unwrap(), None);
        assert_eq!(held.read("inner/file", 5).unwrap().as_deref(), Some(&b"12345"[..]));
        assert_eq!(held.read("inner/file", 4).unwrap(), None, "too large");
        assert!(held.write_new("link", b"x").is_err());
        assert!(held.child("link").is_err() && held.child("..").is_err() && held.child("a/b").is_err());
        assert_eq!(std::fs::read_to_string(root.join("outside/secret")).unwrap(), "secret");
    }

    #[test]
    fn removed_tree_does_not_follow_links() {
        let Bench { root, _temp } = bench();
        symlink(root.join("outside"), root.join("real/inner/link")).unwrap();
        let deep = root.join("real/inner").join("d/".repeat(300));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), "x").unwrap();
        std::fs::create_dir_all(root.join("real/rookery-removing-1/kept")).unwrap();
        HeldFolder::open(&root.join("real")).unwrap().clear(Some("last")).unwrap();
        HeldFolder::open(&root).unwrap().remove_empty("real").unwrap();
        assert_eq!(std::fs::read_to_string(root.join("outside/secret")).unwrap(), "secret");
    }
}
