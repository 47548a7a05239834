//! A project: its root, and the layout of the `.rookery/` folder in it.
//!
//! Owns every path below `.rookery/` and the modes they are created with; nothing else spells these names. Where the
//! root is found is in [`discover`], who serves it in [`daemon_file`] and [`lock`], which of a project's folders it is in
//! [`site`]; [`reserve`] is room for a start on a full disk. Never prints, never runs git.

mod daemon_file;
mod discover;
mod lock;
mod reserve;
mod site;

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use daemon_file::{DaemonFile, Published};
pub use lock::{Holder, ProjectLock};
pub use reserve::Reserve;
pub use site::host_name;

/// The folder that makes a directory a project.
pub const FOLDER: &str = ".rookery";

/// The settings file in the project's root.
pub const CONFIG_FILE: &str = "rookery.toml";

/// Socket addresses hold 104 bytes on the smallest system we run on, and one of them ends the string.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// Bytes of randomness in the person's key.
const PERSON_KEY_BYTES: usize = 32;

/// What can go wrong with a project's own files.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("cannot tell the current folder")]
    CurrentFolder(#[source] io::Error),
    #[error("there is no folder {}", path.display())]
    NoSuchFolder { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not what a daemon writes", path.display())]
    DaemonFile { path: PathBuf, source: serde_json::Error },
    #[error("the system gave no randomness for a key")]
    Randomness,
    #[error("a daemon already serves {}{}", root.display(), pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Served { root: PathBuf, pid: Option<u32> },
}

impl ProjectError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::CurrentFolder(_) => "change to a folder that exists, or name the project with --dir".into(),
            Self::NoSuchFolder { .. } => "name an existing folder with --dir or ROOKERY_DIR".into(),
            Self::Read { path, .. } | Self::Write { path, .. } => {
                format!("check who owns {} and whether the disk is full", path.display())
            }
            Self::DaemonFile { path, .. } => {
                format!("stop the daemon if one runs, remove {} and run `rookery up`", path.display())
            }
            Self::Randomness => "check that this process may read the system's random source".into(),
            Self::Served { .. } => "use it as it is, or stop it first with `rookery down`".into(),
        }
    }
}

/// A project's root and what lies in its `.rookery/` folder. Cheap to clone; holds no file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project that a command run in the current folder means; `chosen` (`--dir`, `ROOKERY_DIR`) overrides the search.
    pub fn locate(chosen: Option<&Path>) -> Result<Self, ProjectError> {
        match chosen {
            Some(folder) => Self::at(folder),
            None => {
                let here = std::env::current_dir().map_err(ProjectError::CurrentFolder)?;
                Ok(Self { root: discover::root_for(&here) })
            }
        }
    }

    /// The project whose root is exactly `folder`.
    pub fn at(folder: &Path) -> Result<Self, ProjectError> {
        match folder.canonicalize() {
            Ok(root) if root.is_dir() => Ok(Self { root }),
            _ => Err(ProjectError::NoSuchFolder { path: folder.to_path_buf() }),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the project's folder, which is the project's name unless one is set.
    pub fn folder_name(&self) -> String {
        self.root.file_name().map_or_else(|| "project".into(), |name| name.to_string_lossy().into_owned())
    }

    pub fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    pub fn config_file(&self) -> PathBuf {
        self.root.join(CONFIG_FILE)
    }

    pub fn database(&self) -> PathBuf {
        self.folder().join("rookery.db")
    }

    pub fn artifacts(&self) -> PathBuf {
        self.folder().join("artifacts")
    }

    pub fn daemon_file(&self) -> PathBuf {
        self.folder().join("daemon.json")
    }

    pub fn site_file(&self) -> PathBuf {
        self.folder().join("site.json")
    }

    pub fn lock_file(&self) -> PathBuf {
        self.folder().join("lock")
    }

    pub fn person_key_file(&self) -> PathBuf {
        self.folder().join("person.key")
    }

    pub fn log_folder(&self) -> PathBuf {
        self.folder().join("log")
    }

    pub fn daemon_log(&self) -> PathBuf {
        self.log_folder().join("daemon.log")
    }

    /// Where the Unix socket goes: in the project, or in the user's run-time folder if the address would be too long.
    pub fn socket(&self) -> PathBuf {
        let near = self.folder().join("rookery.sock");
        if near.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH_BYTES {
            return near;
        }
        let mut hasher = DefaultHasher::new();
        self.root.hash(&mut hasher);
        run_time_folder().join(format!("{:016x}.sock", hasher.finish()))
    }

    /// Where is kept what of the log stands in files.
    pub fn rendered(&self) -> PathBuf {
        self.folder().join("rendered")
    }

    /// The socket's path, in a folder that only this user may enter.
    pub fn prepare_socket(&self) -> Result<PathBuf, ProjectError> {
        let socket = self.socket();
        if let Some(folder) = socket.parent() {
            create_private_folder(folder)?;
        }
        Ok(socket)
    }

    /// Tells this project from others, also from those of the same name: requests carry it as `X-Rookery-Project`.
    pub fn id(&self) -> String {
        let name: String = self
            .folder_name()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        let digest = Sha256::digest(self.root.as_os_str().as_bytes());
        let tail: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{name}-{tail}")
    }

    /// True if a daemon was ever set up here.
    pub fn exists(&self) -> bool {
        self.folder().is_dir()
    }

    /// Creates what a daemon needs in `.rookery/`; leaves alone what is there.
    pub fn prepare(&self) -> Result<(), ProjectError> {
        create_private_folder(&self.folder())?;
        create_private_folder(&self.log_folder())?;
        let ignore = self.folder().join(".gitignore");
        create_file(&ignore, b"*\n", 0o644)?;
        // A repository that cannot be written to is no reason not to start: the file above says the same to git.
        rookery_runner::sandbox::exclude_from_git(&self.root).ok();
        if !self.person_key_file().exists() {
            create_file(&self.person_key_file(), new_person_key()?.as_bytes(), 0o600)?;
        }
        Ok(())
    }

    /// Gives the person a key where the file is there and empty. Only whoever has the project may do this: two that do it
    /// at once would each believe in another key.
    pub fn fill_empty_key(&self, _held: &ProjectLock) -> Result<(), ProjectError> {
        if self.person_key()?.is_some() {
            return Ok(());
        }
        let path = self.person_key_file();
        let key = new_person_key()?;
        let filled = write_beside(&path, key.as_bytes(), 0o600)
            .and_then(|temporary| fs::rename(temporary, &path))
            .and_then(|()| sync_folder_of(&path));
        filled.map_err(|source| ProjectError::Write { path, source })
    }

    /// The key that proves the caller is the person who owns this project; `None` before the first start.
    pub fn person_key(&self) -> Result<Option<String>, ProjectError> {
        let path = self.person_key_file();
        match fs::read_to_string(&path) {
            Ok(key) => Ok(Some(key.trim().to_owned()).filter(|key| !key.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ProjectError::Read { path, source }),
        }
    }
}

/// The user's own folder for sockets, in the temporary folder where the system has no better one.
pub fn run_time_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("rookery"),
        None => std::env::temp_dir().join(format!("rookery-{}", rustix::process::getuid().as_raw())),
    }
}

/// Creates a folder that only its owner may enter, and narrows one that is wider.
fn create_private_folder(path: &Path) -> Result<(), ProjectError> {
    let written = |source| ProjectError::Write { path: path.to_path_buf(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(written)?;
    let mode = fs::metadata(path).map_err(written)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(written)?;
    }
    Ok(())
}

/// Creates a file whole or not at all; one that exists stays as it is, whoever was first.
fn create_file(path: &Path, contents: &[u8], mode: u32) -> Result<(), ProjectError> {
    let written = |source| ProjectError::Write { path: path.to_path_buf(), source };
    if path.exists() {
        return Ok(());
    }
    let temporary = write_beside(path, contents, mode).map_err(written)?;
    let linked = fs::hard_link(&temporary, path);
    drop(fs::remove_file(&temporary));
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(written(error)),
        _ => sync_folder_of(path).map_err(written),
    }
}

/// Replaces a file's contents whole, so that whoever reads it meanwhile sees the old or the new. A link stays a link, and the
/// file keeps its mode.
pub fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let (path, mode) = match fs::canonicalize(path) {
        Ok(path) => {
            let mode = fs::metadata(&path)?.permissions().mode();
            (path, mode & 0o7777)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            return Err(io::Error::new(error.kind(), "it is a link to something that is not there"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (std::path::absolute(path)?, 0o644),
        Err(error) => return Err(error),
    };
    let temporary = write_beside(&path, contents, mode)?;
    fs::rename(&temporary, &path).inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    sync_folder_of(&path)
}

/// Writes a durable file next to the one that it is to become.
fn write_beside(path: &Path, contents: &[u8], mode: u32) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    // What stands there was left by a process of the same id that ended halfway.
    drop(fs::remove_file(&temporary));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    if let Err(error) = file.write_all(contents).and_then(|()| file.sync_all()) {
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    Ok(temporary)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}

/// Bytes that nobody can guess, from the random source that the TLS library already checks and uses.
pub fn random<const N: usize>() -> Result<[u8; N], ProjectError> {
    let mut bytes = [0_u8; N];
    let source = rustls::crypto::ring::default_provider().secure_random;
    source.fill(&mut bytes).map_err(|_| ProjectError::Randomness)?;
    Ok(bytes)
}

/// A fresh secret in hexadecimal.
fn new_person_key() -> Result<String, ProjectError> {
    let bytes = random::<PERSON_KEY_BYTES>()?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("rkp_{hex}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn prepare_creates_a_private_folder_once() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        assert_eq!(project.person_key().unwrap(), None);
        project.prepare().unwrap();
        let key = project.person_key().unwrap().unwrap();
        project.prepare().unwrap();
        assert_eq!(project.person_key().unwrap().unwrap(), key, "a second start keeps the key");
        assert_eq!(key.len(), "rkp_".len() + 2 * PERSON_KEY_BYTES);
        assert_eq!(mode(&project.folder()), 0o700);
        assert_eq!(mode(&project.person_key_file()), 0o600);
        assert_eq!(fs::read_to_string(project.folder().join(".gitignore")).unwrap(), "*\n");
    }

    #[test]
    fn an_empty_key_is_none_and_is_filled_by_whoever_has_the_project() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        fs::write(project.person_key_file(), "").unwrap();
        project.prepare().unwrap();
        assert_eq!(project.person_key().unwrap(), None);
        let held = ProjectLock::acquire(&project).unwrap();
        project.fill_empty_key(&held).unwrap();
        let key = project.person_key().unwrap().unwrap();
        project.fill_empty_key(&held).unwrap();
        assert_eq!(project.person_key().unwrap(), Some(key));
        assert_eq!(mode(&project.person_key_file()), 0o600);
        let left = fs::read_dir(project.folder()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("person.key")).count(), 1);
    }

    #[test]
    fn prepare_narrows_a_folder_that_others_may_enter() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        fs::create_dir(project.folder()).unwrap();
        fs::set_permissions(project.folder(), fs::Permissions::from_mode(0o755)).unwrap();
        project.prepare().unwrap();
        assert_eq!(mode(&project.folder()), 0o700);
    }

    #[test]
    fn a_long_path_moves_the_socket_out_of_the_project() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let socket = Project::at(&deep).unwrap().socket();
        assert!(!socket.starts_with(&deep));
        assert!(socket.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH_BYTES);
        let near = Project::at(Path::new("/")).unwrap().socket();
        assert_eq!(near, Path::new("/.rookery/rookery.sock"));
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = Project::at(Path::new("/no/such/folder")).unwrap_err();
        assert_eq!(error.to_string(), "there is no folder /no/such/folder");
    }
}
