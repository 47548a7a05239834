//! The folder of an instance on the disk: the only place that touches it.
//!
//! Everything is opened part by part from the project's folder and no link is ever followed, so that nothing here leads
//! out of it. What replaces a file is first written whole into the folder's `.swap`, then changes places with it: what
//! was there is in `.swap` until somebody has looked at it, also across a crash.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rookery_core::kernel::limit;
use rookery_core::model::context_dir::{Folder, NEW_SHARED as NEW_SHARED_FOLDER, SHARED as SHARED_FOLDER};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::fault_points::{Step, Steps};
use crate::held::open_folder;

/// Where what is replaced waits to be looked at.
const SWAP: &str = ".swap";
/// A draft that is not whole yet: only our own words are ever in one.
const WRITING: &str = "writing-";
/// Stands for a path that is too long to be part of a name: it is in a file beside, with this before the id.
const LONG: &str = "%";
const PATH_OF: &str = "path-";
/// Before the name of what goes out first, where two files cannot change places in one step. No id begins so.
const OUT: &str = "%";
/// The longest name in `.swap`, with room for what is put before it for a moment.
const NAME_BYTES: usize = 220;
/// How much of a folder is looked at.
const WALK_DEPTH: usize = 16;
pub(super) const WALK_ENTRIES: usize = 5_000;
/// How many edited files of one name are kept aside before a person has to tidy up.
const ASIDE: u32 = 20;

const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// What went wrong with which file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}")]
pub(super) struct RoomError {
    pub(super) doing: &'static str,
    pub(super) path: String,
    pub(super) source: io::Error,
}

type Result<T> = std::result::Result<T, RoomError>;

/// What a file is, wherever it is and whatever stands in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// Of what is at a path; none if nothing is.
    pub(super) fn at(path: &Path) -> Option<FileId> {
        fs::stat(path).ok().map(|stat| Stamp::of(&stat).id())
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub(super) fn id(&self) -> FileId {
        FileId { device: self.device, inode: self.inode }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the system last saw it change, in epoch milliseconds.
    pub(super) fn changed_millis(&self) -> i64 {
        let millis = i64::try_from(self.changed.1 / 1_000_000).unwrap_or_default();
        self.changed.0.saturating_mul(1_000).saturating_add(millis)
    }

    fn of(stat: &fs::Stat) -> Stamp {
        Stamp {
            device: number(stat.st_dev),
            inode: number(stat.st_ino),
            bytes: number(stat.st_size),
            modified: (signed(stat.st_mtime), number(stat.st_mtime_nsec)),
            changed: (signed(stat.st_ctime), number(stat.st_ctime_nsec)),
        }
    }
}

/// The fields of a file's status have other types on other systems.
fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or_default()
}

fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or_default()
}

/// What is at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathState {
    Nothing,
    File(Stamp),
    /// A folder, a link or something else that is never written to.
    Other,
}

/// A file as it was read.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
    /// Whether this is all of it.
    pub(super) whole: bool,
}

/// What there is in a folder.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) found: BTreeMap<String, Stamp>,
    /// Whether there is not more.
    pub(super) whole: bool,
}

/// A file in `.swap` that was meant for, or stood at, a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Swap {
    pub(super) name: String,
    pub(super) path: String,
}

/// A file that is being written in `.swap`.
#[derive(Debug)]
pub(super) struct Draft {
    name: String,
    file: File,
}

#[derive(Debug)]
pub(super) struct Room {
    folder: OwnedFd,
    swap: OwnedFd,
    path: PathBuf,
    steps: Steps,
}

impl Room {
    /// Opens the folder, making what is missing.
    pub(super) fn enter(root: &Path, folder: &Folder, steps: Steps) -> Result<Room> {
        let path = root.join(folder.as_str());
        let failed = |source: Errno| RoomError {
            doing: "open the folder",
            path: path.display().to_string(),
            source: source.into(),
        };
        let mut here =
            fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        for (at, part) in folder.parts().enumerate() {
            let made = if at == 0 && part == SHARED_FOLDER {
                make_shared_folder(here.as_fd(), &steps)
            } else {
                make_folder(here.as_fd(), part, &steps)
            };
            let opened = made.and_then(|()| open_folder(here.as_fd(), part));
            here = opened.map_err(|source| RoomError { source, ..failed(Errno::IO) })?;
        }
        let swap = make_folder(here.as_fd(), SWAP, &steps).and_then(|()| open_folder(here.as_fd(), SWAP));
        let swap = swap.map_err(|source| RoomError { source, ..failed(Errno::IO) })?;
        Ok(Room { folder: here, swap, path, steps })
    }

    /// What tells this folder from one that takes its place.
    pub(super) fn id(&self) -> Result<FileId> {
        let stat = fs::fstat(&self.folder).map_err(|error| self.failed("look at", "", error))?;
        Ok(Stamp::of(&stat).id())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, doing: &'static str, path: &str, source: impl Into<io::Error>) -> RoomError {
        RoomError { doing, path: self.path.join(path).display().to_string(), source: source.into() }
    }

    /// The folder that a path is in, and its name there; none if it is not there.
    fn parent<'a>(&self, path: &'a str) -> io::Result<Option<(OwnedFd, &'a str)>> {
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

    /// As [`Room::parent`], making the folders that are missing.
    fn made_parent<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let mut here = self.folder.try_clone()?;
        let Some((folders, name)) = path.rsplit_once('/') else { return Ok((here, path)) };
        for part in folders.split('/') {
            make_folder(here.as_fd(), part, &self.steps)?;
            here = open_folder(here.as_fd(), part)?;
        }
        Ok((here, name))
    }

    pub(super) fn look(&self, path: &str) -> Result<PathState> {
        match self.parent(path) {
            Ok(None) => Ok(PathState::Nothing),
            Ok(Some((folder, name))) => match fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Ok(PathState::File(Stamp::of(&stat))),
                Ok(_) => Ok(PathState::Other),
                Err(Errno::NOENT) => Ok(PathState::Nothing),
                Err(error) => Err(self.failed("look at", path, error)),
            },
            Err(error) if is_no_folder(&error) => Ok(PathState::Other),
            Err(error) => Err(self.failed("look at", path, error)),
        }
    }

    /// Reads a file, at most so many bytes of it; none if there is no file.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Option<Content>> {
        let Some((folder, name)) = self.parent(path).map_err(|error| self.failed("read", path, error))? else {
            return Ok(None);
        };
        read_at(&folder, name, most).map_err(|error| self.failed("read", path, error))
    }

    /// A file to be read from its beginning.
    pub(super) fn open(&self, path: &str) -> Result<Option<(File, Stamp)>> {
        let failed = |error: io::Error| self.failed("read", path, error);
        let Some((folder, name)) = self.parent(path).map_err(failed)? else { return Ok(None) };
        open_file(&folder, name, OFlags::RDONLY).map_err(failed)
    }

    /// A file to be appended to, as long as it is in this state.
    pub(super) fn append(&self, path: &str, to: Stamp, bytes: &[u8]) -> Result<Option<Stamp>> {
        let failed = |error: io::Error| self.failed("append to", path, error);
        let Some((folder, name)) = self.parent(path).map_err(failed)? else { return Ok(None) };
        let opened = open_file(&folder, name, OFlags::WRONLY | OFlags::APPEND).map_err(failed)?;
        let Some((mut file, stamp)) = opened.filter(|(_, stamp)| *stamp == to) else { return Ok(None) };
        // In two halves, so that a test can end us between them.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for half in [first, second] {
            self.steps.take(Step::Append).map_err(failed)?;
            file.write_all(half).map_err(failed)?;
        }
        let after = fs::fstat(&file).map_err(|error| failed(error.into()))?;
        let after = Stamp::of(&after);
        let grown = stamp.bytes.saturating_add(bytes.len() as u64);
        Ok(Some(after).filter(|after| after.bytes == grown))
    }

    /// Begins a file that will be put somewhere; `id` must be new.
    pub(super) fn draft(&self, id: &str) -> Result<Draft> {
        let name = format!("{WRITING}{id}");
        let failed = |error: io::Error| self.failed("write", SWAP, error);
        self.steps.take(Step::WriteDraft).map_err(failed)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&self.swap, &name, flags, Mode::from_raw_mode(FILE_MODE));
        Ok(Draft { name, file: file.map_err(|error| failed(error.into()))?.into() })
    }

    /// Adds to a draft.
    pub(super) fn write(&self, draft: &mut Draft, bytes: &[u8]) -> Result<()> {
        let written = self.steps.take(Step::WriteDraft).and_then(|()| draft.file.write_all(bytes));
        written.map_err(|error| self.failed("write", SWAP, error))
    }

    /// Makes a draft durable and destines it for a path.
    pub(super) fn keep(&self, draft: Draft, path: &str) -> Result<Swap> {
        let failed = |error: io::Error| self.failed("write", path, error);
        let id = draft.name.strip_prefix(WRITING).unwrap_or(&draft.name);
        let name = self.named(id, path).map_err(failed)?;
        draft.file.sync_all().map_err(failed)?;
        self.steps.take(Step::KeepDraft).map_err(failed)?;
        fs::renameat(&self.swap, &draft.name, &self.swap, &name).map_err(|error| failed(error.into()))?;
        Ok(Swap { name, path: path.to_owned() })
    }

    /// The name in `.swap` that tells a path, also after a crash.
    fn named(&self, id: &str, path: &str) -> io::Result<String> {
        let name = format!("{id}-{}", escaped(path));
        if name.len() <= NAME_BYTES {
            return Ok(name);
        }
        // Before anything has the name that needs it, so that none is ever without.
        self.steps.take(Step::WriteDraft)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let mut beside: File = fs::openat(&self.swap, format!("{PATH_OF}{id}"), flags, mode)?.into();
        beside.write_all(path.as_bytes())?;
        beside.sync_all()?;
        sync(&self.swap)?;
        Ok(format!("{id}-{LONG}"))
    }

    /// The path that a name in `.swap` tells; none if it is not one of ours.
    fn path_in(&self, name: &str) -> io::Result<Option<String>> {
        let Some((id, path)) = name.split_once('-') else { return Ok(None) };
        if path != LONG {
            return Ok(unescaped(path));
        }
        let beside = read_at(&self.swap, &format!("{PATH_OF}{}", id_of(id)), limit::DOCUMENT_PATH_BYTES as u64)?;
        Ok(beside.and_then(|content| String::from_utf8(content.bytes).ok()))
    }

    /// Puts a kept draft to its path if nothing is there; whether it did.
    pub(super) fn place(&self, swap: &Swap) -> Result<bool> {
        let failed = |error: io::Error| self.failed("write", &swap.path, error);
        let (folder, name) = self.made_parent(&swap.path).map_err(failed)?;
        self.steps.take(Step::Place).map_err(failed)?;
        let placed = move_without_replacing((self.swap.as_fd(), &swap.name), (folder.as_fd(), name)).map_err(failed)?;
        sync(folder.as_fd()).map_err(failed)?;
        Ok(placed)
    }

    /// Lets a kept draft and the file at its path change places: what was at the path is in `.swap` afterwards. Whether
    /// there was something to change places with.
    pub(super) fn exchange(&self, swap: &Swap) -> Result<bool> {
        let failed = |error: io::Error| self.failed("write", &swap.path, error);
        let (folder, name) = self.made_parent(&swap.path).map_err(failed)?;
        let exchanged = match self.steps.take(Step::Exchange) {
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

    /// Where the file system cannot exchange: what is there goes out first, and the draft only where nothing is.
    fn exchange_in_two(&self, swap: &Swap, folder: impl AsFd, name: &str) -> io::Result<bool> {
        let out = format!("{OUT}{}", swap.name);
        self.steps.take(Step::TakeAway)?;
        match fs::renameat(&folder, name, &self.swap, &out) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.steps.take(Step::Place)?;
        if !move_without_replacing((self.swap.as_fd(), &swap.name), (folder.as_fd(), name))? {
            // Somebody put a file there meanwhile: it is looked at like any other, and the draft is ours.
            fs::unlinkat(&self.swap, &swap.name, AtFlags::empty())?;
        }
        fs::renameat(&self.swap, &out, &self.swap, &swap.name)?;
        Ok(true)
    }

    /// Takes the file at a path away into `.swap`; none if there is none.
    pub(super) fn take_away(&self, id: &str, path: &str) -> Result<Option<Swap>> {
        let failed = |error: io::Error| self.failed("remove", path, error);
        let Some((folder, name)) = self.parent(path).map_err(failed)? else { return Ok(None) };
        let swap = Swap { name: self.named(id, path).map_err(failed)?, path: path.to_owned() };
        self.steps.take(Step::TakeAway).map_err(failed)?;
        match fs::renameat(&folder, name, &self.swap, &swap.name) {
            Ok(()) => Ok(Some(swap)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// What waits in `.swap`. Drafts that a crash left unfinished are cleared away, and paths of what is gone.
    pub(super) fn swaps(&self) -> Result<Vec<Swap>> {
        let failed = |error: Errno| self.failed("look into", SWAP, error);
        let (mut found, mut paths) = (Vec::new(), Vec::new());
        for entry in Dir::read_from(&self.swap).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(WRITING) {
                self.clear(name)?;
            } else if let Some(id) = name.strip_prefix(PATH_OF) {
                paths.push(id.to_owned());
            } else if let Some(path) = self.path_in(name).map_err(|error| self.failed("read", SWAP, error))? {
                found.push(Swap { name: name.to_owned(), path });
            }
        }
        let is_of = |swap: &Swap, id: &str| swap.name.split_once('-').is_some_and(|(of, _)| id_of(of) == id);
        for id in paths.iter().filter(|id| !found.iter().any(|swap| is_of(swap, id))) {
            self.clear(&format!("{PATH_OF}{id}"))?;
        }
        Ok(found)
    }

    /// Removes a file in `.swap` that holds nobody's words.
    fn clear(&self, name: &str) -> Result<()> {
        self.steps.take(Step::Remove).map_err(|error| self.failed("remove", name, error))?;
        fs::unlinkat(&self.swap, name, AtFlags::empty()).map_err(|error| self.failed("remove", name, error))
    }

    /// Reads what waits in `.swap`.
    pub(super) fn read_swap(&self, swap: &Swap, most: u64) -> Result<Option<Content>> {
        read_at(&self.swap, &swap.name, most).map_err(|error| self.failed("read", &swap.path, error))
    }

    /// What waits in `.swap`, to be read from its beginning.
    pub(super) fn open_swap(&self, swap: &Swap) -> Result<Option<File>> {
        let opened = open_file(&self.swap, &swap.name, OFlags::RDONLY);
        Ok(opened.map_err(|error| self.failed("read", &swap.path, error))?.map(|(file, _)| file))
    }

    /// The state of what waits in `.swap`; none if it is gone or no file.
    pub(super) fn swap_stamp(&self, swap: &Swap) -> Result<Option<Stamp>> {
        match fs::statat(&self.swap, &swap.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stamp::of(&stat)).filter(|_| FileType::from_raw_mode(stat.st_mode).is_file())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("look at", &swap.path, error)),
        }
    }

    /// Forgets what waits in `.swap`, because it is known.
    pub(super) fn remove_swap(&self, swap: &Swap) -> Result<()> {
        let failed = |error: io::Error| self.failed("remove", &swap.path, error);
        self.steps.take(Step::Remove).map_err(failed)?;
        match fs::unlinkat(&self.swap, &swap.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Keeps what waits in `.swap` beside its path, under a name that tells when; that name.
    pub(super) fn keep_aside(&self, swap: &Swap, when: &str) -> Result<String> {
        let (folder, _) = self.made_parent(&swap.path).map_err(|error| self.failed("keep", &swap.path, error))?;
        self.moved_aside((self.swap.as_fd(), &swap.name), folder.as_fd(), &swap.path, when)
    }

    /// Moves the file at a path aside, under a name that tells when; that name, or none if there was no file.
    pub(super) fn move_aside(&self, path: &str, when: &str) -> Result<Option<String>> {
        let failed = |error: io::Error| self.failed("move aside", path, error);
        let Some((folder, name)) = self.parent(path).map_err(failed)? else { return Ok(None) };
        match self.moved_aside((folder.as_fd(), name), folder.as_fd(), path, when) {
            Ok(aside) => Ok(Some(aside)),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn moved_aside(&self, from: (impl AsFd, &str), folder: impl AsFd, path: &str, when: &str) -> Result<String> {
        let failed = |error: io::Error| self.failed("move aside", path, error);
        let (inside, name) = path.rsplit_once('/').map_or(("", path), |(inside, name)| (inside, name));
        for nth in 1..=ASIDE {
            let number = if nth == 1 { String::new() } else { format!("-{nth}") };
            let aside = format!("{}.edited-{when}{number}", stem(name));
            self.steps.take(Step::MoveAside).map_err(failed)?;
            if move_without_replacing((from.0.as_fd(), from.1), (folder.as_fd(), &aside)).map_err(failed)? {
                sync(folder.as_fd()).map_err(failed)?;
                return Ok(if inside.is_empty() { aside } else { format!("{inside}/{aside}") });
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// How many files of a name were moved aside and are still there.
    pub(super) fn is_crowded(&self, path: &str) -> Result<bool> {
        let begins = format!("{}.edited-", stem(path));
        let failed = |error: Errno| self.failed("look into", "", error);
        let mut count = 0;
        for entry in Dir::read_from(&self.folder).map_err(failed)? {
            count += u32::from(entry.map_err(failed)?.file_name().to_bytes().starts_with(begins.as_bytes()));
        }
        Ok(count >= ASIDE)
    }

    /// Every file that may be a document, by path, as far as a folder is looked at. Hidden ones and links are nobody's
    /// business.
    pub(super) fn walk(&self) -> Result<Walk> {
        let mut found = BTreeMap::new();
        let mut seen = 0;
        let mut folders =
            vec![(self.folder.try_clone().map_err(|error| self.failed("look into", "", error))?, String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let failed = |error: Errno| self.failed("look into", &prefix, error);
            for entry in Dir::read_from(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if name.starts_with('.') {
                    continue;
                }
                seen += 1;
                if seen > WALK_ENTRIES {
                    return Ok(Walk { found, whole: false });
                }
                let Ok(stat) = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let kind = FileType::from_raw_mode(stat.st_mode);
                let path = format!("{prefix}{name}");
                if kind.is_file() {
                    found.insert(path, Stamp::of(&stat));
                } else if kind.is_dir() && path.matches('/').count() < WALK_DEPTH {
                    // One that vanished or became a link meanwhile is looked at next time.
                    if let Ok(inner) = open_folder(folder.as_fd(), name) {
                        folders.push((inner, format!("{path}/")));
                    }
                }
            }
        }
        Ok(Walk { found, whole: true })
    }
}

fn is_no_folder(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory
}

fn make_folder(at: impl AsFd, name: &str, steps: &Steps) -> io::Result<()> {
    if fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    steps.take(Step::MakeFolder)?;
    match fs::mkdirat(at, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the folder that instances share, with a `.gitignore` from its first moment: what is in it is rendered, not kept.
fn make_shared_folder(at: impl AsFd, steps: &Steps) -> io::Result<()> {
    if fs::statat(&at, SHARED_FOLDER, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    make_folder(&at, NEW_SHARED_FOLDER, steps)?;
    let folder = open_folder(&at, NEW_SHARED_FOLDER)?;
    steps.take(Step::MakeFolder)?;
    // A new file each time: one that an earlier try or somebody else left could be a link, a pipe or another file's second name.
    match fs::unlinkat(&folder, ".gitignore", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut ignore: File = fs::openat(&folder, ".gitignore", flags, Mode::from_raw_mode(FILE_MODE))?.into();
    ignore.write_all(b"*\n")?;
    ignore.sync_all()?;
    steps.take(Step::MakeFolder)?;
    // A folder never takes the place of one that holds something.
    match fs::renameat(&at, NEW_SHARED_FOLDER, &at, SHARED_FOLDER) {
        Ok(()) | Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Renames unless something is at the new name; whether it did.
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

fn open_file(folder: impl AsFd, name: &str, flags: OFlags) -> io::Result<Option<(File, Stamp)>> {
    // Without waiting: whoever opens a pipe would wait for its other end.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    Ok(is_file.then(|| (file.into(), Stamp::of(&stat))))
}

fn read_at(folder: impl AsFd, name: &str, most: u64) -> io::Result<Option<Content>> {
    let Some((file, stamp)) = open_file(folder, name, OFlags::RDONLY)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 <= most;
    Ok(Some(Content { bytes, stamp, whole }))
}

fn sync(folder: impl AsFd) -> io::Result<()> {
    match fs::fsync(folder) {
        // Some file systems have nothing to say about folders.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// As much of a name as leaves room for what tells that it was edited.
fn stem(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES)]
}

/// The id in a name of `.swap`, also while what it names is halfway out.
fn id_of(name: &str) -> &str {
    name.strip_prefix(OUT).unwrap_or(name)
}

/// A path as one name.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('/', "%2F")
}

fn unescaped(name: &str) -> Option<String> {
    let path = name.replace("%2F", "/").replace("%25", "%");
    (escaped(&path) == name).then_some(path)
}
