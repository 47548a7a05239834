//! Files and folders that exist only so that nothing else can be created in their place.
//!
//! Git ignores them. They are removed when no sandbox needs them any more. A crash leaves them behind, and the next sandbox of
//! the project removes them when it ends.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;

/// A file with this content, or a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Placeholder {
    pub path: PathBuf,
    /// The content of a file; `None` for a folder.
    text: Option<&'static str>,
}

impl Placeholder {
    pub(super) fn folder(path: PathBuf) -> Placeholder {
        Placeholder { path, text: None }
    }

    pub(super) fn file(path: PathBuf, text: &'static str) -> Placeholder {
        Placeholder { path, text: Some(text) }
    }

    /// Creates it unless something exists there. False if that is a link or of another kind.
    pub(super) fn ensure(&self) -> io::Result<bool> {
        let made = match self.text {
            None => fs::create_dir(&self.path),
            Some(text) => self.create(text),
        };
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&self.path)?;
                Ok(if self.text.is_some() { found.is_file() } else { found.is_dir() })
            }
            Err(error) => Err(error),
        }
    }

    fn create(&self, text: &str) -> io::Result<()> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new().write(true).create_new(true).custom_flags(no_link).open(&self.path)?;
        file.write_all(text.as_bytes())
    }

    /// Removes it if it is unchanged. A folder with content stays.
    fn remove(&self) {
        let Some(text) = self.text else {
            // Git creates `hooks` and `info` in every repository, and scripts of users rely on them.
            let is_usual = ["hooks", "info", "branches"].iter().any(|name| self.path.ends_with(name));
            if !is_usual {
                fs::remove_dir(&self.path).ok();
            }
            return;
        };
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.is_file() && found.len() == text.len() as u64)
            && fs::read(&self.path).is_ok_and(|found| found == text.as_bytes());
        // An empty `config` may be the user's, and some versions of git do not recognise a repository without one.
        if is_ours && !self.path.ends_with("config") {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// The placeholders that a sandbox needs. The last of their users in the project removes them.
#[derive(Debug)]
pub(super) struct Placeholders {
    /// Locked, shared, by every sandbox that needs placeholders. No agent sees this file.
    users: File,
    placeholders: Mutex<BTreeSet<Placeholder>>,
}

impl Placeholders {
    pub(super) fn open(lock: &Path) -> io::Result<Placeholders> {
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let users = OpenOptions::new().create(true).truncate(false).write(true).custom_flags(no_link).open(lock)?;
        users.lock_shared()?;
        Ok(Placeholders { users, placeholders: Mutex::default() })
    }

    pub(super) fn add(&self, placeholders: Vec<Placeholder>) {
        self.placeholders.lock().unwrap_or_else(PoisonError::into_inner).extend(placeholders);
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        // Another sandbox may show them read only; removing them would expose the path there.
        if self.users.unlock().is_ok() && self.users.try_lock().is_ok() {
            let placeholders = self.placeholders.lock().unwrap_or_else(PoisonError::into_inner);
            // Deepest first, so that folders are empty when they are removed.
            placeholders.iter().rev().for_each(Placeholder::remove);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_removed_by_their_last_user() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let lock = at("lock");
        let (one, other) = (Placeholders::open(&lock).unwrap(), Placeholders::open(&lock).unwrap());
        let all = [Placeholder::file(at("commondir"), ".\n"), Placeholder::folder(at("modules"))];
        for users in [&one, &other] {
            assert!(all.iter().all(|placeholder| placeholder.ensure().unwrap()));
            users.add(all.to_vec());
        }
        drop(one);
        assert_eq!(fs::read_to_string(at("commondir")).unwrap(), ".\n");
        drop(other);
        assert!(!at("commondir").exists() && !at("modules").exists());
    }

    #[test]
    fn existing_or_changed_placeholder_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::write(at("commondir"), "../..\n").unwrap();
        fs::create_dir_all(at("modules/lib")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", at("link")).unwrap();
        let users = Placeholders::open(&at("lock")).unwrap();
        let all = [Placeholder::file(at("commondir"), ".\n"), Placeholder::folder(at("modules"))];
        assert!(all.iter().all(|placeholder| placeholder.ensure().unwrap()));
        assert!(!Placeholder::file(at("link"), "").ensure().unwrap(), "a link is not what is wanted");
        users.add(all.to_vec());
        drop(users);
        assert_eq!(fs::read_to_string(at("commondir")).unwrap(), "../..\n");
        assert!(at("modules/lib").exists());
    }
}
