//! `daemon.json`: where the project's daemon can be reached.
//!
//! Written by the daemon once it serves and removed when it stops. It may be stale after a crash: whoever reads it
//! asks the address, or [`super::ProjectLock`], before believing it.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use rookery_client::{Address, Locate};
use serde::{Deserialize, Serialize};

use super::{Project, ProjectError};

/// What a daemon tells its clients about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    pub pid: u32,
    /// Base address of the HTTP face, without a slash at the end.
    pub url: String,
    /// The Unix socket, where one is served.
    pub socket: Option<PathBuf>,
    pub version: String,
    /// The project's id, which requests carry as `X-Rookery-Project`.
    pub project: String,
    /// The store that it serves, without secrets.
    #[serde(default)]
    pub store: Option<String>,
    /// Epoch milliseconds.
    pub started_at: i64,
}

impl DaemonFile {
    /// What is on disk; `None` if no daemon was started or the last one stopped cleanly.
    pub fn load(project: &Project) -> Result<Option<Self>, ProjectError> {
        let path = project.daemon_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ProjectError::Read { path, source }),
        };
        serde_json::from_str(&text).map(Some).map_err(|source| ProjectError::DaemonFile { path, source })
    }

    /// Where its clients reach it.
    pub fn address(&self) -> Address {
        Address { url: self.url.clone(), socket: self.socket.clone(), project: self.project.clone() }
    }

    /// Puts the file in place in one step; it goes away with the returned guard.
    pub fn publish(self, project: &Project) -> Result<Published, ProjectError> {
        let path = project.daemon_file();
        let written = |source| ProjectError::Write { path: path.clone(), source };
        let text = serde_json::to_string_pretty(&self)
            .map_err(|source| ProjectError::DaemonFile { path: path.clone(), source })?;
        let mut file = tempfile::NamedTempFile::new_in(project.folder()).map_err(written)?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(written)?;
        file.persist(&path).map_err(|error| written(error.error))?;
        Ok(Published { project: project.clone(), file: self })
    }
}

impl Locate for Project {
    fn locate(&self) -> Option<Address> {
        DaemonFile::load(self).ok().flatten().map(|file| file.address())
    }
}

/// A daemon's address while it is served; dropping it withdraws the address.
#[derive(Debug)]
pub struct Published {
    project: Project,
    file: DaemonFile,
}

impl Published {
    pub fn file(&self) -> &DaemonFile {
        &self.file
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // Another daemon's file is not ours to remove.
        if DaemonFile::load(&self.project).ok().flatten().as_ref() == Some(&self.file)
            && let Err(error) = fs::remove_file(self.project.daemon_file())
        {
            tracing::warn!(%error, "cannot remove daemon.json");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(pid: u32) -> DaemonFile {
        DaemonFile {
            pid,
            url: "http://127.0.0.1:4700".into(),
            socket: None,
            version: "0.1.0".into(),
            project: "prj_1".into(),
            store: None,
            started_at: 1_700_000_000_000,
        }
    }

    #[test]
    fn the_file_lives_as_long_as_its_guard() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        assert_eq!(DaemonFile::load(&project).unwrap(), None);
        project.prepare().unwrap();
        let published = example(1).publish(&project).unwrap();
        assert_eq!(DaemonFile::load(&project).unwrap(), Some(example(1)));
        drop(published);
        assert_eq!(DaemonFile::load(&project).unwrap(), None);
    }

    #[test]
    fn a_successors_file_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        let first = example(1).publish(&project).unwrap();
        let _second = example(2).publish(&project).unwrap();
        drop(first);
        assert_eq!(DaemonFile::load(&project).unwrap(), Some(example(2)));
    }

    #[test]
    fn a_garbled_file_is_an_error_that_names_it() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        fs::write(project.daemon_file(), "{").unwrap();
        let error = DaemonFile::load(&project).unwrap_err();
        assert!(error.to_string().ends_with("daemon.json is not what a daemon writes"), "{error}");
    }
}
