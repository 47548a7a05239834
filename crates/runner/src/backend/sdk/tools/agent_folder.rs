//! Access to the files of the agent's folder, and to no others, wherever links lead.
//!
//! A path is resolved once, and the folder that it leads to is held open from then on. All operations are relative to that
//! folder, so that replacing a folder by a link meanwhile, for example by a program of the agent, leads nowhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Hidden from agents: keys and the log.
const HIDDEN: &str = ".rookery";
/// Not writable: it decides what git runs when a person uses it.
const NOT_WRITABLE: &str = ".git";

#[derive(Clone, Debug)]
pub(super) struct AgentFolder {
    /// The canonical path.
    root: PathBuf,
}

/// The intended use of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    Read,
    Write,
}

/// A file, as a name in an open folder.
struct FolderEntry {
    folder: OwnedFd,
    name: OsString,
}

impl AgentFolder {
    pub(super) fn new(folder: &Path) -> io::Result<AgentFolder> {
        Ok(AgentFolder { root: folder.canonicalize()? })
    }

    /// Reads a text file.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        let (text, _) = self.open(path, FileAccess::Read)?.read(path)?;
        Ok(text)
    }

    /// Replaces a text that occurs exactly once, or everywhere. Returns the number of occurrences.
    pub(super) fn replace(&self, path: &str, old: &str, new: &str, everywhere: bool) -> Result<usize, String> {
        let place = self.open(path, FileAccess::Write)?;
        let (text, mode) = place.read(path)?;
        let count = text.matches(old).count();
        match count {
            0 => {
                return Err(format!("{path} does not have the text `old`; read the file and copy the text exactly"));
            }
            1 => {}
            _ if everywhere => {}
            _ => {
                return Err(format!(
                    "{path} has the text `old` {count} times; add more of the text around it, or set `all`"
                ));
            }
        }
        place.write(&text.replace(old, new), mode).map_err(|error| describe(path, &error))?;
        Ok(count)
    }

    /// Creates a file, with the folders on its path.
    pub(super) fn create(&self, path: &str, text: &str) -> Result<(), String> {
        let place = self.open(path, FileAccess::Write)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&place.folder, &place.name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => File::from(file).write_all(text.as_bytes()).map_err(|error| describe(path, &error)),
            Err(Errno::EXIST) => Err(format!("{path} exists already; set `old` to the text to replace")),
            Err(error) => Err(describe(path, &error.into())),
        }
    }

    fn open(&self, path: &str, access: FileAccess) -> Result<FolderEntry, String> {
        let wanted = self.root.join(path);
        // A link at the end is followed too. A missing file may be in an existing folder.
        let real = wanted.canonicalize().unwrap_or(wanted);
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(format!("{path} is not a file"));
        };
        let folder = self.folder(parent, path, access)?;
        self.check(&current_path(&folder).map_err(|error| describe(path, &error))?.join(name), path, access)?;
        Ok(FolderEntry { folder, name: name.to_owned() })
    }

    /// Opens a folder. Missing ones are created for writing.
    fn folder(&self, folder: &Path, path: &str, access: FileAccess) -> Result<OwnedFd, String> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        let there = folder.ancestors().nth(missing.len()).unwrap_or(Path::new("/"));
        let mut open = enter(CWD, there.as_os_str(), OFlags::empty()).map_err(|error| describe(path, &error.into()))?;
        if missing.is_empty() {
            return Ok(open);
        }
        if access == FileAccess::Read {
            return Err(describe(path, &io::ErrorKind::NotFound.into()));
        }
        let rest = folder.strip_prefix(there).unwrap_or(folder);
        // Checked before anything is created.
        self.check(&current_path(&open).map_err(|error| describe(path, &error))?.join(rest), path, access)?;
        for part in rest.components() {
            let Component::Normal(name) = part else { return Err(format!("{path}: `..` needs existing folders")) };
            match rustix::fs::mkdirat(&open, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(describe(path, &error.into())),
            }
            open = enter(&open, name, OFlags::NOFOLLOW).map_err(|error| describe(path, &error.into()))?;
        }
        Ok(open)
    }

    /// Checks that the agent may use a file, given its canonical path.
    fn check(&self, real: &Path, path: &str, access: FileAccess) -> Result<(), String> {
        let Ok(within) = real.strip_prefix(&self.root) else {
            return Err(format!("{path} is outside of your folder, {}", self.root.display()));
        };
        let has = |name: &str| within.components().any(|part| part.as_os_str() == name);
        if has(HIDDEN) {
            return Err(format!("{path} is not for agents"));
        }
        if access == FileAccess::Write && has(NOT_WRITABLE) {
            return Err(format!("{path} belongs to git; use git commands"));
        }
        Ok(())
    }
}

impl FolderEntry {
    fn read(&self, path: &str) -> Result<(String, Mode), String> {
        // Opening it must not block, whatever it is.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || -> io::Result<(File, std::fs::Metadata)> {
            let file = File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?);
            let found = file.metadata()?;
            Ok((file, found))
        };
        let (file, found) = open().map_err(|error| describe(path, &error))?;
        if !found.is_file() {
            return Err(format!("{path} is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| describe(path, &error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("{path} is longer than {MAX_FILE_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not a text file"))?;
        Ok((text, mode_of(&found)))
    }

    /// Replaces the content atomically.
    fn write(&self, text: &str, mode: Mode) -> io::Result<()> {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{:016x}", rand::random::<u64>()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &name, flags, mode)?;
        let written = (|| {
            let mut file = File::from(file);
            file.write_all(text.as_bytes())?;
            rustix::fs::fchmod(&file, mode)?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&self.folder, &name, &self.folder, &self.name)?)
        })();
        if written.is_err() {
            // The error of the write matters more than that of the cleanup.
            rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty()).ok();
        }
        written
    }
}

fn mode_of(found: &std::fs::Metadata) -> Mode {
    use std::os::unix::fs::PermissionsExt;
    Mode::from_raw_mode(found.permissions().mode() & 0o777)
}

fn enter(folder: impl AsFd, name: &OsStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(folder, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more, Mode::empty())
}

/// The current path of an open folder.
#[cfg(target_os = "linux")]
fn current_path(folder: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

#[cfg(target_vendor = "apple")]
fn current_path(folder: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(OsString::from_vec(rustix::fs::getpath(folder)?.into_bytes()).into())
}

fn describe(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file {path}"),
        _ => format!("{path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn agent_folder() -> (tempfile::TempDir, AgentFolder) {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("project");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join(".rookery")).unwrap();
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::write(folder.join("src/a.rs"), "one two one\n").unwrap();
        fs::write(folder.join(".rookery/person.key"), "secret").unwrap();
        fs::write(folder.join(".git/config"), "[core]").unwrap();
        fs::write(all.path().join("outside"), "not yours").unwrap();
        let agent_folder = AgentFolder::new(&folder).unwrap();
        (all, agent_folder)
    }

    #[test]
    fn files_are_read_changed_and_created() {
        let (all, agent_folder) = agent_folder();
        let file = all.path().join("project/src/a.rs");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(agent_folder.read("src/a.rs").unwrap(), "one two one\n");
        assert_eq!(agent_folder.read("./src/../src/a.rs").unwrap(), "one two one\n");
        assert_eq!(agent_folder.read(file.canonicalize().unwrap().to_str().unwrap()).unwrap(), "one two one\n");
        assert_eq!(agent_folder.replace("src/a.rs", "two", "2", false), Ok(1));
        let twice = agent_folder.replace("src/a.rs", "one", "1", false).unwrap_err();
        assert!(twice.contains("2 times"), "{twice}");
        assert_eq!(agent_folder.replace("src/a.rs", "one", "1", true), Ok(2));
        assert!(agent_folder.replace("src/a.rs", "three", "", false).unwrap_err().contains("does not have"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 2 1\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        agent_folder.create("docs/new/b.md", "# b").unwrap();
        assert_eq!(agent_folder.read("docs/new/b.md").unwrap(), "# b");
        assert!(agent_folder.create("docs/new/b.md", "again").unwrap_err().contains("exists already"));
        assert_eq!(fs::read_dir(all.path().join("project/src")).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn files_outside_are_unreachable_by_any_path() {
        let (all, agent_folder) = agent_folder();
        let folder = all.path().join("project");
        symlink("../outside", folder.join("link")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink(".rookery", folder.join("notes")).unwrap();
        symlink("src", folder.join("alias")).unwrap();
        let outside = all.path().join("outside");
        let bad = ["../outside", "link", "up/outside", "src/../../outside", outside.to_str().unwrap(), "/etc/passwd"];
        for path in bad {
            assert!(agent_folder.read(path).unwrap_err().contains("outside"), "{path}");
            assert!(agent_folder.replace(path, "not", "now", false).unwrap_err().contains("outside"), "{path}");
        }
        for path in ["../new", "up/new", "up/new/deep", "/tmp/new-of-an-agent"] {
            assert!(agent_folder.create(path, "x").unwrap_err().contains("outside"), "{path}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "not yours");
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 2, "nothing was made beside it");
        for path in [".rookery/person.key", "notes/person.key", "src/../.rookery/person.key"] {
            assert!(agent_folder.read(path).unwrap_err().contains("not for agents"), "{path}");
        }
        assert!(agent_folder.create("notes/mine", "x").is_err());
        assert_eq!(agent_folder.read("alias/a.rs").unwrap(), "one two one\n", "a link within is as good as any path");
        assert_eq!(agent_folder.read(".git/config").unwrap(), "[core]");
        for path in [".git/hooks/post-commit", ".git/new/x"] {
            assert!(agent_folder.create(path, "x").unwrap_err().contains("belongs to git"), "{path}");
        }
        assert!(agent_folder.replace(".git/config", "core", "x", false).is_err());
    }

    #[test]
    fn file_that_is_not_text_is_rejected_with_a_reason() {
        let (all, agent_folder) = agent_folder();
        let folder = all.path().join("project");
        fs::write(folder.join("binary"), [0xff, 0xfe]).unwrap();
        File::create(folder.join("large")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        rustix::fs::mknodat(CWD, folder.join("pipe"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        for (path, why) in [
            ("binary", "not a text"),
            ("large", "longer than"),
            ("pipe", "not a file"),
            ("src", "not a file"),
            ("missing", "no file missing"),
            ("no/such/file", "no file no/such/file"),
            ("", "not a file"),
        ] {
            let error = agent_folder.read(path).unwrap_err();
            assert!(error.contains(why), "{path}: {error}");
        }
    }
}
