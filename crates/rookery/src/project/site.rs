//! `site.json`: which place this folder is among those that share a store.
//!
//! A site is a folder on one machine. The file says which, so that a folder that was copied or moved elsewhere, with the
//! file in it, is another site.

use std::fs;
use std::io;

use rookery_core::SiteId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Project, ProjectError, sync_folder_of, write_beside};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SiteFile {
    id: SiteId,
    /// Tells this machine from others.
    machine: String,
    root: String,
}

impl Project {
    /// The site of this folder on this machine; a new id from `mint` if it has none yet, or its file is another's.
    pub fn site(&self, mint: impl FnOnce() -> SiteId) -> Result<SiteId, ProjectError> {
        self.site_on(machine(), mint)
    }

    fn site_on(&self, machine: String, mint: impl FnOnce() -> SiteId) -> Result<SiteId, ProjectError> {
        let root = self.root().to_string_lossy().into_owned();
        let known = self.read_site()?.filter(|site| site.machine == machine && site.root == root);
        match known {
            Some(site) => Ok(site.id),
            None => self.write_site(SiteFile { id: mint(), machine, root }),
        }
    }

    /// What the file says; `None` if there is none, or it is not what a daemon writes.
    fn read_site(&self) -> Result<Option<SiteFile>, ProjectError> {
        let path = self.site_file();
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ProjectError::Read { path, source }),
        }
    }

    fn write_site(&self, site: SiteFile) -> Result<SiteId, ProjectError> {
        let path = self.site_file();
        let written = serde_json::to_vec_pretty(&site)
            .map_err(io::Error::other)
            .and_then(|bytes| write_beside(&path, &bytes, 0o600))
            .and_then(|temporary| fs::rename(temporary, &path))
            .and_then(|()| sync_folder_of(&path));
        written.map(|()| site.id).map_err(|source| ProjectError::Write { path, source })
    }
}

/// The name that this machine goes by.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The machine's own id, or what stands in for it where the system has none.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim() {
        "" | "uninitialized" => {
            let digest = Sha256::digest(host_name());
            digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        }
        id => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn project(folder: &Path) -> Project {
        let project = Project::at(folder).unwrap();
        project.prepare().unwrap();
        project
    }

    #[test]
    fn a_folder_keeps_its_site_and_a_copy_gets_another() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let original = project(one.path());
        let id = original.site_on("m".into(), || "site_1".into()).unwrap();
        assert_eq!(original.site_on("m".into(), || "site_2".into()).unwrap(), id, "a second start");
        let copy = project(other.path());
        fs::copy(original.site_file(), copy.site_file()).unwrap();
        assert_eq!(copy.site_on("m".into(), || "site_3".into()).unwrap(), "site_3".into());
        assert_eq!(original.site_on("elsewhere".into(), || "site_4".into()).unwrap(), "site_4".into());
        assert_eq!(copy.site_on("m".into(), || "site_5".into()).unwrap(), "site_3".into());
    }

    #[test]
    fn a_garbled_file_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let project = project(temp.path());
        fs::write(project.site_file(), "{").unwrap();
        assert_eq!(project.site(|| "site_1".into()).unwrap(), "site_1".into());
        assert_eq!(project.site(|| "site_2".into()).unwrap(), "site_1".into());
    }
}
