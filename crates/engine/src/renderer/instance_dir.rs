//! The folder of an instance on the disk. Only this module accesses it.
//!
//! Each part of a path is opened from the project's folder on, and no link is followed, so that nothing outside of the
//! project is reached. A replacement is first written whole into the folder's `.swap`, then exchanged with the file: the
//! replaced file is in `.swap` until it was checked, also across a crash.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rookery_core::kernel::limit;
use rookery_core::model::context_dir::{Folder, NEW_SHARED as NEW_SHARED_FOLDER, SHARED as SHARED_FOLDER};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::fault_points::{FaultPoint, FaultPoints};
use super::file_stamp::{FileId, FileStamp};
use crate::held::open_folder;

/// The folder for drafts and replaced files.
const SWAP: &str = ".swap";
/// The prefix of unfinished drafts, which hold rendered text only.
const WRITING: &str = "writing-";
/// Stands for a path that is too long for a name. The path is in a separate file, named by `PATH_OF` and the id.
const LONG: &str = "%";
const PATH_OF: &str = "path-";
/// The prefix of a file that is moved out first, where the file system cannot exchange two files in one step. No id has it.
const OUT: &str = "%";
/// The longest name in `.swap`, which leaves space for a prefix.
const NAME_BYTES: usize = 220;
/// The most levels and entries of a folder that are read.
const WALK_DEPTH: usize = 16;
pub(super) const WALK_ENTRIES: usize = 5_000;
/// The most edited files of one name that are kept aside.
const MAX_ASIDE: u32 = 20;

const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// A failed operation on a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}")]
pub(super) struct InstanceDirError {
    pub(super) doing: &'static str,
    pub(super) path: String,
    pub(super) source: io::Error,
}

type Result<T> = std::result::Result<T, InstanceDirError>;

/// The state of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathState {
    Nothing,
    File(FileStamp),
    /// A folder, a link or another thing that is never written to.
    Other,
}

/// The content of a file as read.
#[derive(Debug)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: FileStamp,
    /// Whether this is the whole file.
    pub(super) complete: bool,
}

/// The files in a folder.
#[derive(Debug)]
pub(super) struct DirListing {
    pub(super) found: BTreeMap<String, FileStamp>,
    /// Whether these are all files.
    pub(super) complete: bool,
}

/// A file in `.swap`: a finished draft for a path, or a file that was replaced at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SwapFile {
    pub(super) name: String,
    pub(super) path: String,
}

/// An unfinished file in `.swap`.
#[derive(Debug)]
pub(super) struct DraftFile {
    name: String,
    file: File,
}

#[derive(Debug)]
pub(super) struct InstanceDir {
    folder: OwnedFd,
    swap: OwnedFd,
    path: PathBuf,
    fault_points: FaultPoints,
}

impl InstanceDir {
    /// Opens the folder, and creates missing parts.
    pub(super) fn enter(root: &Path, folder: &Folder, fault_points: FaultPoints) -> Result<InstanceDir> {
        let path = root.join(folder.as_str());
        let failed = |source: Errno| InstanceDirError {
            doing: "open the folder",
            path: path.display().to_string(),
            source: source.into(),
        };
        let mut here =
            fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        for (at, part) in folder.parts().enumerate() {
            let made = if at == 0 && part == SHARED_FOLDER {
                make_shared_folder(here.as_fd(), &fault_points)
            } else {
                make_folder(here.as_fd(), part, &fault_points)
            };
            let opened = made.and_then(|()| open_folder(here.as_fd(), part));
            here = opened.map_err(|source| InstanceDirError { source, ..failed(Errno::IO) })?;
        }
        let swap = make_folder(here.as_fd(), SWAP, &fault_points).and_then(|()| open_folder(here.as_fd(), SWAP));
        let swap = swap.map_err(|source| InstanceDirError { source, ..failed(Errno::IO) })?;
        Ok(InstanceDir { folder: here, swap, path, fault_points })
    }

    /// The identity of the folder, which differs from that of a replacement.
    pub(super) fn id(&self) -> Result<FileId> {
        let stat = fs::fstat(&self.folder).map_err(|error| self.error("look at", "", error))?;
        Ok(FileStamp::of(&stat).id())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, doing: &'static str, path: &str, source: impl Into<io::Error>) -> InstanceDirError {
        InstanceDirError { doing, path: self.path.join(path).display().to_string(), source: source.into() }
    }

    /// Opens the folder of a path. Returns it with the file's name, or `None` if it does not exist.
    fn open_parent<'a>(&self, path: &'a str) -> io::Result<Option<(OwnedFd, &'a str)>> {
        let mut here = self.folder.try_clone()?;
        let Some((folders, name)) = path.rsplit_once('/') else { return Ok(Some((here, path))) };
        for part in folders.split('/') {
            here = match open_folder(here.as_fd(), part) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(Some((here, name)))
    }

    /// As [`InstanceDir::open_parent`], but creates missing folders.
    fn create_parent<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let mut here = self.folder.try_clone()?;
        let Some((folders, name)) = path.rsplit_once('/') else { return Ok((here, path)) };
        for part in folders.split('/') {
            make_folder(here.as_fd(), part, &self.fault_points)?;
            here = open_folder(here.as_fd(), part)?;
        }
        Ok((here, name))
    }

    pub(super) fn look(&self, path: &str) -> Result<PathState> {
        match self.open_parent(path) {
            Ok(None) => Ok(PathState::Nothing),
            Ok(Some((folder, name))) => match fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => {
                    Ok(PathState::File(FileStamp::of(&stat)))
                }
                Ok(_) => Ok(PathState::Other),
                Err(Errno::NOENT) => Ok(PathState::Nothing),
                Err(error) => Err(self.error("look at", path, error)),
            },
            Err(error) if is_no_folder(&error) => Ok(PathState::Other),
            Err(error) => Err(self.error("look at", path, error)),
        }
    }

    /// Reads at most `most` bytes of a file; `None` if there is no file.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Option<FileContent>> {
        let Some((folder, name)) = self.open_parent(path).map_err(|error| self.error("read", path, error))? else {
            return Ok(None);
        };
        read_at(&folder, name, most).map_err(|error| self.error("read", path, error))
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, path: &str) -> Result<Option<(File, FileStamp)>> {
        let failed = |error: io::Error| self.error("read", path, error);
        let Some((folder, name)) = self.open_parent(path).map_err(failed)? else { return Ok(None) };
        open_file(&folder, name, OFlags::RDONLY).map_err(failed)
    }

    /// Appends to a file if its stamp is `to`. Returns the new stamp, or `None` if another program changed the file.
    pub(super) fn append(&self, path: &str, to: FileStamp, bytes: &[u8]) -> Result<Option<FileStamp>> {
        let failed = |error: io::Error| self.error("append to", path, error);
        let Some((folder, name)) = self.open_parent(path).map_err(failed)? else { return Ok(None) };
        let opened = open_file(&folder, name, OFlags::WRONLY | OFlags::APPEND).map_err(failed)?;
        let Some((mut file, stamp)) = opened.filter(|(_, stamp)| *stamp == to) else { return Ok(None) };
        // In two halves, so that a test can stop between them.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for half in [first, second] {
            self.fault_points.pass(FaultPoint::Append).map_err(failed)?;
            file.write_all(half).map_err(failed)?;
        }
        let after = fs::fstat(&file).map_err(|error| failed(error.into()))?;
        let after = FileStamp::of(&after);
        let grown = stamp.bytes().saturating_add(bytes.len() as u64);
        Ok(Some(after).filter(|after| after.bytes() == grown))
    }

    /// Starts a draft; `id` must be new.
    pub(super) fn draft(&self, id: &str) -> Result<DraftFile> {
        let name = format!("{WRITING}{id}");
        let failed = |error: io::Error| self.error("write", SWAP, error);
        self.fault_points.pass(FaultPoint::WriteDraft).map_err(failed)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&self.swap, &name, flags, Mode::from_raw_mode(FILE_MODE));
        Ok(DraftFile { name, file: file.map_err(|error| failed(error.into()))?.into() })
    }

    /// Adds to a draft.
    pub(super) fn write(&self, draft: &mut DraftFile, bytes: &[u8]) -> Result<()> {
        let written = self.fault_points.pass(FaultPoint::WriteDraft).and_then(|()| draft.file.write_all(bytes));
        written.map_err(|error| self.error("write", SWAP, error))
    }

    /// Makes a draft durable and assigns it to a path.
    pub(super) fn keep(&self, draft: DraftFile, path: &str) -> Result<SwapFile> {
        let failed = |error: io::Error| self.error("write", path, error);
        let id = draft.name.strip_prefix(WRITING).unwrap_or(&draft.name);
        let name = self.swap_name(id, path).map_err(failed)?;
        draft.file.sync_all().map_err(failed)?;
        self.fault_points.pass(FaultPoint::KeepDraft).map_err(failed)?;
        fs::renameat(&self.swap, &draft.name, &self.swap, &name).map_err(|error| failed(error.into()))?;
        Ok(SwapFile { name, path: path.to_owned() })
    }

    /// The name in `.swap` that encodes a path, so that it is known after a crash.
    fn swap_name(&self, id: &str, path: &str) -> io::Result<String> {
        let name = format!("{id}-{}", escape_path(path));
        if name.len() <= NAME_BYTES {
            return Ok(name);
        }
        // Written before any file gets the name, so that its path is always known.
        self.fault_points.pass(FaultPoint::WriteDraft)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let mut beside: File = fs::openat(&self.swap, format!("{PATH_OF}{id}"), flags, mode)?.into();
        beside.write_all(path.as_bytes())?;
        beside.sync_all()?;
        sync(&self.swap)?;
        Ok(format!("{id}-{LONG}"))
    }

    /// The path that a name in `.swap` encodes; `None` for foreign names.
    fn path_of_name(&self, name: &str) -> io::Result<Option<String>> {
        let Some((id, path)) = name.split_once('-') else { return Ok(None) };
        if path != LONG {
            return Ok(unescape_path(path));
        }
        let beside = read_at(&self.swap, &format!("{PATH_OF}{}", id_of(id)), limit::DOCUMENT_PATH_BYTES as u64)?;
        Ok(beside.and_then(|content| String::from_utf8(content.bytes).ok()))
    }

    /// Moves a finished draft to its path, unless something is there. Returns whether it did.
    pub(super) fn place(&self, swap: &SwapFile) -> Result<bool> {
        let failed = |error: io::Error| self.error("write", &swap.path, error);
        let (folder, name) = self.create_parent(&swap.path).map_err(failed)?;
        self.fault_points.pass(FaultPoint::Place).map_err(failed)?;
        let placed = move_without_replacing((self.swap.as_fd(), &swap.name), (folder.as_fd(), name)).map_err(failed)?;
        sync(folder.as_fd()).map_err(failed)?;
        Ok(placed)
    }

    /// Exchanges a finished draft and the file at its path, which is in `.swap` afterwards. Returns whether there was a file
    /// to exchange.
    pub(super) fn exchange(&self, swap: &SwapFile) -> Result<bool> {
        let failed = |error: io::Error| self.error("write", &swap.path, error);
        let (folder, name) = self.create_parent(&swap.path).map_err(failed)?;
        let exchanged = match self.fault_points.pass(FaultPoint::Exchange) {
            Ok(()) => fs::renameat_with(&self.swap, &swap.name, &folder, name, RenameFlags::EXCHANGE),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(Errno::NOSYS),
            Err(error) => return Err(failed(error)),
        };
        match exchanged {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(error) if is_unsupported(error) => {
                if !self.exchange_in_two(swap, folder.as_fd(), name).map_err(failed)? {
                    return Ok(false);
                }
            }
            Err(error) => return Err(failed(error.into())),
        }
        sync(folder.as_fd()).map_err(failed)?;
        Ok(true)
    }

    /// Exchanges in two fault_points, for file systems that cannot do it in one: moves the file out, then the draft in.
    fn exchange_in_two(&self, swap: &SwapFile, folder: impl AsFd, name: &str) -> io::Result<bool> {
        let out = format!("{OUT}{}", swap.name);
        self.fault_points.pass(FaultPoint::TakeAway)?;
        match fs::renameat(&folder, name, &self.swap, &out) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.fault_points.pass(FaultPoint::Place)?;
        if !move_without_replacing((self.swap.as_fd(), &swap.name), (folder.as_fd(), name))? {
            // Another program put a file there meanwhile. It is handled like any other, and the draft is not needed.
            fs::unlinkat(&self.swap, &swap.name, AtFlags::empty())?;
        }
        fs::renameat(&self.swap, &out, &self.swap, &swap.name)?;
        Ok(true)
    }

    /// Moves the file at a path into `.swap`; `None` if there is none.
    pub(super) fn take_away(&self, id: &str, path: &str) -> Result<Option<SwapFile>> {
        let failed = |error: io::Error| self.error("remove", path, error);
        let Some((folder, name)) = self.open_parent(path).map_err(failed)? else { return Ok(None) };
        let swap = SwapFile { name: self.swap_name(id, path).map_err(failed)?, path: path.to_owned() };
        self.fault_points.pass(FaultPoint::TakeAway).map_err(failed)?;
        match fs::renameat(&folder, name, &self.swap, &swap.name) {
            Ok(()) => Ok(Some(swap)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Lists the files in `.swap`. Removes unfinished drafts of a crash, and path files without their file.
    pub(super) fn swaps(&self) -> Result<Vec<SwapFile>> {
        let failed = |error: Errno| self.error("look into", SWAP, error);
        let (mut found, mut paths) = (Vec::new(), Vec::new());
        for entry in Dir::read_from(&self.swap).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(WRITING) {
                self.clear(name)?;
            } else if let Some(id) = name.strip_prefix(PATH_OF) {
                paths.push(id.to_owned());
            } else if let Some(path) = self.path_of_name(name).map_err(|error| self.error("read", SWAP, error))? {
                found.push(SwapFile { name: name.to_owned(), path });
            }
        }
        let is_of = |swap: &SwapFile, id: &str| swap.name.split_once('-').is_some_and(|(of, _)| id_of(of) == id);
        for id in paths.iter().filter(|id| !found.iter().any(|swap| is_of(swap, id))) {
            self.clear(&format!("{PATH_OF}{id}"))?;
        }
        Ok(found)
    }

    /// Removes a file in `.swap` that holds no edit.
    fn clear(&self, name: &str) -> Result<()> {
        self.fault_points.pass(FaultPoint::Remove).map_err(|error| self.error("remove", name, error))?;
        fs::unlinkat(&self.swap, name, AtFlags::empty()).map_err(|error| self.error("remove", name, error))
    }

    /// Reads a file in `.swap`.
    pub(super) fn read_swap(&self, swap: &SwapFile, most: u64) -> Result<Option<FileContent>> {
        read_at(&self.swap, &swap.name, most).map_err(|error| self.error("read", &swap.path, error))
    }

    /// Opens a file in `.swap` for reading.
    pub(super) fn open_swap(&self, swap: &SwapFile) -> Result<Option<File>> {
        let opened = open_file(&self.swap, &swap.name, OFlags::RDONLY);
        Ok(opened.map_err(|error| self.error("read", &swap.path, error))?.map(|(file, _)| file))
    }

    /// The stamp of a file in `.swap`; `None` if it is gone or not a file.
    pub(super) fn swap_stamp(&self, swap: &SwapFile) -> Result<Option<FileStamp>> {
        match fs::statat(&self.swap, &swap.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileStamp::of(&stat)).filter(|_| FileType::from_raw_mode(stat.st_mode).is_file())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error("look at", &swap.path, error)),
        }
    }

    /// Removes a file in `.swap` whose content is preserved.
    pub(super) fn remove_swap(&self, swap: &SwapFile) -> Result<()> {
        let failed = |error: io::Error| self.error("remove", &swap.path, error);
        self.fault_points.pass(FaultPoint::Remove).map_err(failed)?;
        match fs::unlinkat(&self.swap, &swap.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Moves a file in `.swap` beside its path, under a name with the time `when`. Returns that name.
    pub(super) fn keep_aside(&self, swap: &SwapFile, when: &str) -> Result<String> {
        let (folder, _) = self.create_parent(&swap.path).map_err(|error| self.error("keep", &swap.path, error))?;
        self.move_to_free_name((self.swap.as_fd(), &swap.name), folder.as_fd(), &swap.path, when)
    }

    /// Moves the file at a path aside, under a name with the time `when`. Returns that name, or `None` if there was no file.
    pub(super) fn move_aside(&self, path: &str, when: &str) -> Result<Option<String>> {
        let failed = |error: io::Error| self.error("move aside", path, error);
        let Some((folder, name)) = self.open_parent(path).map_err(failed)? else { return Ok(None) };
        match self.move_to_free_name((folder.as_fd(), name), folder.as_fd(), path, when) {
            Ok(aside) => Ok(Some(aside)),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn move_to_free_name(&self, from: (impl AsFd, &str), folder: impl AsFd, path: &str, when: &str) -> Result<String> {
        let failed = |error: io::Error| self.error("move aside", path, error);
        let (inside, name) = path.rsplit_once('/').map_or(("", path), |(inside, name)| (inside, name));
        for nth in 1..=MAX_ASIDE {
            let number = if nth == 1 { String::new() } else { format!("-{nth}") };
            let aside = format!("{}.edited-{when}{number}", stem(name));
            self.fault_points.pass(FaultPoint::MoveAside).map_err(failed)?;
            if move_without_replacing((from.0.as_fd(), from.1), (folder.as_fd(), &aside)).map_err(failed)? {
                sync(folder.as_fd()).map_err(failed)?;
                return Ok(if inside.is_empty() { aside } else { format!("{inside}/{aside}") });
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Whether as many files of this name as allowed were moved aside and still exist.
    pub(super) fn is_crowded(&self, path: &str) -> Result<bool> {
        let begins = format!("{}.edited-", stem(path));
        let failed = |error: Errno| self.error("look into", "", error);
        let mut count = 0;
        for entry in Dir::read_from(&self.folder).map_err(failed)? {
            count += u32::from(entry.map_err(failed)?.file_name().to_bytes().starts_with(begins.as_bytes()));
        }
        Ok(count >= MAX_ASIDE)
    }

    /// Lists the files that may be documents, within the limits on levels and entries. Hidden files and links are left out.
    pub(super) fn walk(&self) -> Result<DirListing> {
        let mut found = BTreeMap::new();
        let mut seen = 0;
        let mut folders =
            vec![(self.folder.try_clone().map_err(|error| self.error("look into", "", error))?, String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let failed = |error: Errno| self.error("look into", &prefix, error);
            for entry in Dir::read_from(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if name.starts_with('.') {
                    continue;
                }
                seen += 1;
                if seen > WALK_ENTRIES {
                    return Ok(DirListing { found, complete: false });
                }
                let Ok(stat) = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let kind = FileType::from_raw_mode(stat.st_mode);
                let path = format!("{prefix}{name}");
                if kind.is_file() {
                    found.insert(path, FileStamp::of(&stat));
                } else if kind.is_dir() && path.matches('/').count() < WALK_DEPTH {
                    // A folder that vanished or became a link meanwhile is read next time.
                    if let Ok(inner) = open_folder(folder.as_fd(), name) {
                        folders.push((inner, format!("{path}/")));
                    }
                }
            }
        }
        Ok(DirListing { found, complete: true })
    }
}

fn is_no_folder(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory
}

fn make_folder(at: impl AsFd, name: &str, fault_points: &FaultPoints) -> io::Result<()> {
    if fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    fault_points.pass(FaultPoint::MakeFolder)?;
    match fs::mkdirat(at, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates the folder that instances share, with a `.gitignore` from its first moment: its files are rendered, not committed.
fn make_shared_folder(at: impl AsFd, fault_points: &FaultPoints) -> io::Result<()> {
    if fs::statat(&at, SHARED_FOLDER, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    make_folder(&at, NEW_SHARED_FOLDER, fault_points)?;
    let folder = open_folder(&at, NEW_SHARED_FOLDER)?;
    fault_points.pass(FaultPoint::MakeFolder)?;
    // A new file each time: one left by an earlier try or another program could be a link, a pipe or a hard link.
    match fs::unlinkat(&folder, ".gitignore", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut ignore: File = fs::openat(&folder, ".gitignore", flags, Mode::from_raw_mode(FILE_MODE))?.into();
    ignore.write_all(b"*\n")?;
    ignore.sync_all()?;
    fault_points.pass(FaultPoint::MakeFolder)?;
    // A rename never replaces a folder that holds files.
    match fs::renameat(&at, NEW_SHARED_FOLDER, &at, SHARED_FOLDER) {
        Ok(()) | Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Renames unless something has the new name. Returns whether it did.
fn move_without_replacing(from: (impl AsFd, &str), to: (impl AsFd, &str)) -> io::Result<bool> {
    match fs::renameat_with(&from.0, from.1, &to.0, to.1, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) if is_unsupported(error) => match fs::linkat(&from.0, from.1, &to.0, to.1, AtFlags::empty()) {
            Ok(()) => Ok(fs::unlinkat(&from.0, from.1, AtFlags::empty()).map(|()| true)?),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

fn open_file(folder: impl AsFd, name: &str, flags: OFlags) -> io::Result<Option<(File, FileStamp)>> {
    // Without blocking: opening a pipe would wait for its other end.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    Ok(is_file.then(|| (file.into(), FileStamp::of(&stat))))
}

fn read_at(folder: impl AsFd, name: &str, most: u64) -> io::Result<Option<FileContent>> {
    let Some((file, stamp)) = open_file(folder, name, OFlags::RDONLY)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let complete = bytes.len() as u64 <= most;
    Ok(Some(FileContent { bytes, stamp, complete }))
}

fn sync(folder: impl AsFd) -> io::Result<()> {
    match fs::fsync(folder) {
        // Some file systems cannot sync folders.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The part of a name that leaves space for the suffix of an edited file.
fn stem(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES)]
}

/// The id in a name of `.swap`, also while the file is halfway out.
fn id_of(name: &str) -> &str {
    name.strip_prefix(OUT).unwrap_or(name)
}

/// Encodes a path as one name.
fn escape_path(path: &str) -> String {
    path.replace('%', "%25").replace('/', "%2F")
}

fn unescape_path(name: &str) -> Option<String> {
    let path = name.replace("%2F", "/").replace("%25", "%");
    (escape_path(&path) == name).then_some(path)
}
