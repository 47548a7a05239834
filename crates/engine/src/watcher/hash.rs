//! The content hash of one file: SHA-256 of its bytes, in hex, `""` where no file exists.
//!
//! Reads in pieces, and again if the file changed meanwhile. The content of a symbolic link is its target path, as in git,
//! so that nothing outside of the root is read. Blocking: call it on a blocking thread.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

/// How often a changing file is read. Then the last reading counts, and the next event corrects it.
const MAX_READINGS: usize = 4;

const PIECE_BYTES: usize = 128 * 1024;

/// The hash of the file at `path` (relative to `root`, separated by `/`); `""` when there is no file.
///
/// Claims record it when they are granted, so that a change is found even if it happened while no watcher ran.
pub async fn hash_file(root: &Path, path: &str) -> io::Result<String> {
    let (root, path) = (root.to_owned(), path.to_owned());
    let hashing = move || hash_now(&root, &path, &CancellationToken::new());
    tokio::task::spawn_blocking(hashing).await.map_err(io::Error::other)?
}

/// The same on this thread; fails with `Interrupted` when cancelled.
pub(super) fn hash_now(root: &Path, path: &str, cancelled: &CancellationToken) -> io::Result<String> {
    let full = place(root, path)?;
    let mut last = String::new();
    for _ in 0..MAX_READINGS {
        match read(&full, cancelled)? {
            Reading::Steady(hash) => return Ok(hash),
            Reading::Moved(hash) => last = hash,
        }
    }
    Ok(last)
}

/// The number of bytes that `hash_now` would read.
pub(super) fn size(root: &Path, path: &str) -> u64 {
    fs::symlink_metadata(root.join(path)).map_or(0, |metadata| metadata.len())
}

enum Reading {
    Steady(String),
    /// The file changed while it was read.
    Moved(String),
}

/// The full path of a file, after a check that no folder in it leads out of the root.
fn place(root: &Path, path: &str) -> io::Result<PathBuf> {
    let relative = Path::new(path);
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path leaves the project"));
    }
    let full = root.join(relative);
    let Some(folder) = full.parent() else { return Ok(full) };
    // The root may vanish between the two calls: then there is no file.
    match fs::canonicalize(folder).and_then(|real| Ok(real.starts_with(fs::canonicalize(root)?))) {
        Ok(true) => Ok(full),
        Ok(false) => Err(io::Error::new(ErrorKind::InvalidInput, "a link on the way leads out of the project")),
        Err(error) if is_absent(&error) => Ok(full),
        Err(error) => Err(error),
    }
}

fn read(full: &Path, cancelled: &CancellationToken) -> io::Result<Reading> {
    let absent = || Ok(Reading::Steady(String::new()));
    let metadata = match fs::symlink_metadata(full) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return absent(),
        Err(error) => return Err(error),
    };
    if metadata.is_symlink() {
        let target = match fs::read_link(full) {
            Ok(target) => target,
            Err(error) if is_absent(&error) => return absent(),
            Err(error) => return Err(error),
        };
        return Ok(Reading::Steady(hex(Sha256::digest(target.as_os_str().as_encoded_bytes()).as_slice())));
    }
    if !metadata.is_file() {
        return absent();
    }
    let mut file = match open(full) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return absent(),
        Err(error) => return Err(error),
    };
    let before = Fingerprint::of(&file.metadata()?);
    let hash = digest(&mut file, cancelled)?;
    let same = fs::symlink_metadata(full).is_ok_and(|now| Fingerprint::of(&now) == before);
    Ok(if same { Reading::Steady(hash) } else { Reading::Moved(hash) })
}

fn digest(file: &mut File, cancelled: &CancellationToken) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if cancelled.is_cancelled() {
            return Err(ErrorKind::Interrupted.into());
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(hex(hasher.finalize().as_slice())),
            Ok(length) => hasher.update(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens a plain file. A pipe or a link that replaced it meanwhile neither blocks nor is followed.
fn open(full: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    }
    options.open(full)
}

/// Tells two states of a file apart without reading it; precise enough to notice a change during a read.
#[derive(PartialEq, Eq)]
struct Fingerprint {
    length: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64),
}

impl Fingerprint {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[tokio::test]
    async fn hash_of_a_missing_file_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/a"), "abc").unwrap();
        for (path, expected) in
            [("sub/a", ABC), ("./sub/a", ABC), ("sub", ""), ("none", ""), ("sub/a/b", ""), ("x/y", "")]
        {
            assert_eq!(hash_file(dir.path(), path).await.unwrap(), expected, "{path}");
        }
    }

    #[tokio::test]
    async fn file_larger_than_the_buffer_is_hashed() {
        let dir = tempfile::tempdir().unwrap();
        let content = vec![b'a'; 1_000_000];
        fs::write(dir.path().join("a"), &content).unwrap();
        let known = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(hash_file(dir.path(), "a").await.unwrap(), known);
    }

    #[tokio::test]
    async fn path_outside_of_the_root_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../a", "/etc/hostname", "a/../../b"] {
            assert_eq!(hash_file(dir.path(), path).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{path}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn link_is_hashed_by_its_target_and_linked_folder_is_rejected() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "abc").unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("abc", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("away")).unwrap();
        assert_eq!(hash_file(dir.path(), "link").await.unwrap(), ABC);
        assert_eq!(hash_file(dir.path(), "away/secret").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn concurrent_rename_of_the_root_is_not_an_error() {
        let above = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (above.path().join("project"), above.path().join("elsewhere"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "abc").unwrap();
        let going = CancellationToken::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !going.is_cancelled() {
                    fs::rename(&root, &elsewhere).unwrap();
                    fs::rename(&elsewhere, &root).unwrap();
                }
            });
            let guard = going.clone().drop_guard();
            for _ in 0..5_000 {
                let hash = hash_now(&root, "a", &CancellationToken::new()).unwrap();
                assert!(hash == ABC || hash.is_empty(), "{hash}");
            }
            drop(guard);
        });
    }

    #[test]
    fn cancelled_hash_is_interrupted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "abc").unwrap();
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        assert_eq!(hash_now(dir.path(), "a", &cancelled).unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
