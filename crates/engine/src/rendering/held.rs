//! A folder of the project that is held open: files made relative to it stay inside of it, whatever happens to its path.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{self, Mode, OFlags};

use crate::held::open_folder;

/// A folder inside of the project, opened part by part from the project's folder without following a link.
#[derive(Debug)]
pub struct HeldFolder(OwnedFd);

impl HeldFolder {
    /// Opens the folder at `path`, which lies in `root`.
    pub fn open(root: &Path, path: &Path) -> io::Result<HeldFolder> {
        let outside =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not in the project", path.display()));
        let inside = path.strip_prefix(root).map_err(|_| outside())?;
        let mut here = fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in inside.components() {
            let Component::Normal(name) = part else { return Err(outside()) };
            here = open_folder(&here, name.to_str().ok_or_else(outside)?)?;
        }
        Ok(HeldFolder(here))
    }

    /// Whether both are the same folder of the disk.
    pub fn is_same(&self, other: &HeldFolder) -> bool {
        let id = |folder: &HeldFolder| fs::fstat(&folder.0).ok().map(|stat| (stat.st_dev, stat.st_ino));
        id(self).is_some() && id(self) == id(other)
    }
}

impl AsFd for HeldFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn held_folder_is_not_opened_through_links() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        symlink(outside.path(), root.path().join("link")).unwrap();
        symlink(outside.path(), root.path().join("a/link")).unwrap();
        let open = |path: &str| HeldFolder::open(root.path(), &root.path().join(path));
        assert!(
            open("a/b").unwrap().is_same(&open("a/b").unwrap()) && !open("a").unwrap().is_same(&open("a/b").unwrap())
        );
        for bad in ["link", "a/link", "link/x", "a/../link", "missing"] {
            assert!(open(bad).is_err(), "{bad}");
        }
        assert!(HeldFolder::open(root.path(), outside.path()).is_err());
    }
}
