//! The files that an agent may see and change by itself: those of its folder, wherever links lead.
//!
//! A path is followed once, and what it leads to is held open from then on. Everything happens relative to that, so that
//! nobody who exchanges a folder for a link meanwhile, such as a program that the agent left running, leads us elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// A file that is larger is not for a model.
const FILE_BYTES: u64 = 4 << 20;
/// What is Rookery's own: keys, the log.
const HIDDEN: &str = ".rookery";
/// What git does when somebody else calls it is no business of an agent.
const NOT_WRITTEN: &str = ".git";

#[derive(Clone, Debug)]
pub(super) struct Workspace {
    /// Where it really is.
    root: PathBuf,
}

/// What is going to be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
}

/// A file, by the folder that it is in.
struct FolderEntry {
    folder: OwnedFd,
    name: OsString,
}

impl Workspace {
    pub(super) fn new(folder: &Path) -> io::Result<Workspace> {
        Ok(Workspace { root: folder.canonicalize()? })
    }

    /// The text of a file.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        let (text, _) = self.open(path, Purpose::Read)?.read(path)?;
        Ok(text)
    }

    /// Replaces a piece of a file that is there exactly once, or everywhere. How often it was there.
    pub(super) fn replace(&self, path: &str, old: &str, new: &str, everywhere: bool) -> Result<usize, String> {
        let place = self.open(path, Purpose::Write)?;
        let (text, mode) = place.read(path)?;
        let count = text.matches(old).count();
        match count {
            0 => {
                return Err(format!("{path} does not have the text `old`; read it and take the text exactly as it is"));
            }
            1 => {}
            _ if everywhere => {}
            _ => {
                return Err(format!(
                    "{path} has the text `old` {count} times; say more of what is around it, or `all`"
                ));
            }
        }
        place.write(&text.replace(old, new), mode).map_err(|error| told(path, &error))?;
        Ok(count)
    }

    /// Makes a file that is not there yet, with the folders that it is in.
    pub(super) fn create(&self, path: &str, text: &str) -> Result<(), String> {
        let place = self.open(path, Purpose::Write)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&place.folder, &place.name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => File::from(file).write_all(text.as_bytes()).map_err(|error| told(path, &error)),
            Err(Errno::EXIST) => Err(format!("{path} is there already; say `old`, which text of it to replace")),
            Err(error) => Err(told(path, &error.into())),
        }
    }

    fn open(&self, path: &str, purpose: Purpose) -> Result<FolderEntry, String> {
        let asked = self.root.join(path);
        // A link at the end is followed too; what is not there has a folder that may be.
        let real = asked.canonicalize().unwrap_or(asked);
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(format!("{path} is no file"));
        };
        let folder = self.folder(parent, path, purpose)?;
        self.check(&held(&folder).map_err(|error| told(path, &error))?.join(name), path, purpose)?;
        Ok(FolderEntry { folder, name: name.to_owned() })
    }

    /// Holds a folder open. To write, those are made that are not there.
    fn folder(&self, folder: &Path, path: &str, purpose: Purpose) -> Result<OwnedFd, String> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        let there = folder.ancestors().nth(missing.len()).unwrap_or(Path::new("/"));
        let mut open = enter(CWD, there.as_os_str(), OFlags::empty()).map_err(|error| told(path, &error.into()))?;
        if missing.is_empty() {
            return Ok(open);
        }
        if purpose == Purpose::Read {
            return Err(told(path, &io::ErrorKind::NotFound.into()));
        }
        let rest = folder.strip_prefix(there).unwrap_or(folder);
        // Nothing is made before it is known that it may be.
        self.check(&held(&open).map_err(|error| told(path, &error))?.join(rest), path, purpose)?;
        for part in rest.components() {
            let Component::Normal(name) = part else { return Err(format!("{path}: `..` leads nowhere that is there")) };
            match rustix::fs::mkdirat(&open, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(told(path, &error.into())),
            }
            open = enter(&open, name, OFlags::NOFOLLOW).map_err(|error| told(path, &error.into()))?;
        }
        Ok(open)
    }

    /// Whether a file, by where it really is, is the agent's to use.
    fn check(&self, real: &Path, path: &str, purpose: Purpose) -> Result<(), String> {
        let Ok(within) = real.strip_prefix(&self.root) else {
            return Err(format!("{path} is outside of your folder, {}", self.root.display()));
        };
        let has = |name: &str| within.components().any(|part| part.as_os_str() == name);
        if has(HIDDEN) {
            return Err(format!("{path} is not for agents"));
        }
        if purpose == Purpose::Write && has(NOT_WRITTEN) {
            return Err(format!("{path} is git's own; use git"));
        }
        Ok(())
    }
}

impl FolderEntry {
    fn read(&self, path: &str) -> Result<(String, Mode), String> {
        // Whatever it is, opening it must not wait for anybody.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || -> io::Result<(File, std::fs::Metadata)> {
            let file = File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?);
            let found = file.metadata()?;
            Ok((file, found))
        };
        let (file, found) = open().map_err(|error| told(path, &error))?;
        if !found.is_file() {
            return Err(format!("{path} is no file"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| told(path, &error))?;
        if bytes.len() as u64 > FILE_BYTES {
            return Err(format!("{path} is longer than {FILE_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{path} is no text"))?;
        Ok((text, mode_of(&found)))
    }

    /// Puts another text into its place, whole or not at all.
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
            let _gone = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
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

/// Where a folder that is held open is now.
#[cfg(target_os = "linux")]
fn held(folder: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

#[cfg(target_vendor = "apple")]
fn held(folder: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(OsString::from_vec(rustix::fs::getpath(folder)?.into_bytes()).into())
}

fn told(path: &str, error: &io::Error) -> String {
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

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("project");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join(".rookery")).unwrap();
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::write(folder.join("src/a.rs"), "one two one\n").unwrap();
        fs::write(folder.join(".rookery/person.key"), "secret").unwrap();
        fs::write(folder.join(".git/config"), "[core]").unwrap();
        fs::write(all.path().join("outside"), "not yours").unwrap();
        let workspace = Workspace::new(&folder).unwrap();
        (all, workspace)
    }

    #[test]
    fn files_are_read_changed_and_made() {
        let (all, workspace) = workspace();
        let file = all.path().join("project/src/a.rs");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(workspace.read("src/a.rs").unwrap(), "one two one\n");
        assert_eq!(workspace.read("./src/../src/a.rs").unwrap(), "one two one\n");
        assert_eq!(workspace.read(file.canonicalize().unwrap().to_str().unwrap()).unwrap(), "one two one\n");
        assert_eq!(workspace.replace("src/a.rs", "two", "2", false), Ok(1));
        let twice = workspace.replace("src/a.rs", "one", "1", false).unwrap_err();
        assert!(twice.contains("2 times"), "{twice}");
        assert_eq!(workspace.replace("src/a.rs", "one", "1", true), Ok(2));
        assert!(workspace.replace("src/a.rs", "three", "", false).unwrap_err().contains("does not have"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 2 1\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        workspace.create("docs/new/b.md", "# b").unwrap();
        assert_eq!(workspace.read("docs/new/b.md").unwrap(), "# b");
        assert!(workspace.create("docs/new/b.md", "again").unwrap_err().contains("is there already"));
        assert_eq!(fs::read_dir(all.path().join("project/src")).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn nothing_outside_is_reached_by_any_way() {
        let (all, workspace) = workspace();
        let folder = all.path().join("project");
        symlink("../outside", folder.join("link")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink(".rookery", folder.join("notes")).unwrap();
        symlink("src", folder.join("alias")).unwrap();
        let outside = all.path().join("outside");
        let bad = ["../outside", "link", "up/outside", "src/../../outside", outside.to_str().unwrap(), "/etc/passwd"];
        for path in bad {
            assert!(workspace.read(path).unwrap_err().contains("outside"), "{path}");
            assert!(workspace.replace(path, "not", "now", false).unwrap_err().contains("outside"), "{path}");
        }
        for path in ["../new", "up/new", "up/new/deep", "/tmp/new-of-an-agent"] {
            assert!(workspace.create(path, "x").unwrap_err().contains("outside"), "{path}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "not yours");
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 2, "nothing was made beside it");
        for path in [".rookery/person.key", "notes/person.key", "src/../.rookery/person.key"] {
            assert!(workspace.read(path).unwrap_err().contains("not for agents"), "{path}");
        }
        assert!(workspace.create("notes/mine", "x").is_err());
        assert_eq!(workspace.read("alias/a.rs").unwrap(), "one two one\n", "a link within is as good as any path");
        assert_eq!(workspace.read(".git/config").unwrap(), "[core]");
        for path in [".git/hooks/post-commit", ".git/new/x"] {
            assert!(workspace.create(path, "x").unwrap_err().contains("git's own"), "{path}");
        }
        assert!(workspace.replace(".git/config", "core", "x", false).is_err());
    }

    #[test]
    fn what_is_no_text_file_is_said() {
        let (all, workspace) = workspace();
        let folder = all.path().join("project");
        fs::write(folder.join("binary"), [0xff, 0xfe]).unwrap();
        File::create(folder.join("large")).unwrap().set_len(FILE_BYTES + 1).unwrap();
        rustix::fs::mknodat(CWD, folder.join("pipe"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        for (path, why) in [
            ("binary", "no text"),
            ("large", "longer than"),
            ("pipe", "no file"),
            ("src", "no file"),
            ("missing", "no file missing"),
            ("no/such/file", "no file no/such/file"),
            ("", "no file"),
        ] {
            let told = workspace.read(path).unwrap_err();
            assert!(told.contains(why), "{path}: {told}");
        }
    }
}
