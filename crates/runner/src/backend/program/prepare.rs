//! Writes the files that a program needs before it starts, and undoes overrides afterwards.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::dialect::{LinkedFolder, ProgramStart};
use super::override_file::OverriddenFile;
use crate::backend::{BackendEvent, Events, Failure, Seat, Why};
use crate::open_folder::OpenFolder;

/// The folder that records which files of a project are overridden.
pub const LEDGER: &str = ".rookery/restore";

/// Changes that were made for a program.
#[derive(Debug)]
pub(super) struct Prepared {
    overridden: Option<OverriddenFile>,
}

pub(super) async fn prepare(seat: &Seat, start: &ProgramStart) -> Result<Prepared, Failure> {
    for (path, text) in &start.files {
        write(&seat.state, Path::new(path), text).map_err(|error| failure(&seat.state.join(path), &error))?;
    }
    if let Some(linked) = &start.linked {
        let to = seat.state.join(linked.to);
        inside(&seat.state, &to.join("x")).and_then(|()| link(linked, &to)).map_err(|error| failure(&to, &error))?;
    }
    let Some((file, text)) = start.overridden.clone() else { return Ok(Prepared { overridden: None }) };
    let (ledger, wanted) = (seat.project.join(LEDGER), file.clone());
    // May wait for another process that overrides the same file.
    let applied = tokio::task::spawn_blocking(move || OverriddenFile::apply(&ledger, &wanted, &text)).await;
    let overridden = applied.map_err(io::Error::other).flatten().map_err(|error| failure(&file, &error))?;
    Ok(Prepared { overridden: Some(overridden) })
}

impl Prepared {
    /// Restores an overridden file. If that fails, the record remains, and the next start restores the file.
    pub(super) async fn undo(self, events: &Events) {
        let Some(overridden) = self.overridden else { return };
        let restored = tokio::task::spawn_blocking(move || overridden.restore()).await;
        if let Err(error) = restored.map_err(io::Error::other).flatten() {
            events.emit(BackendEvent::Note(format!("a file of the project could not be restored yet: {error}")));
        }
    }
}

/// Creates the folder of a file. Fails if a part of the path is a link: an agent may write to parts of its state folder, and
/// its links could lead anywhere.
fn inside(state: &Path, path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let link_error = || io::Error::other("a link on its path leads out of the agent's folder; remove the link");
    // From the top, so that nothing is created beyond a link.
    for part in folder.ancestors().take_while(|part| *part != state).collect::<Vec<_>>().into_iter().rev() {
        match fs::symlink_metadata(part) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(link_error()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(part)?,
            Err(error) => return Err(error),
        }
    }
    if path.is_symlink() { Err(link_error()) } else { Ok(()) }
}

/// Writes a file below the state folder, readable only for the user: it may contain parts of their settings. Links are not
/// followed, since an agent may write to parts of the state folder.
fn write(state: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut held = OpenFolder::open(&state.canonicalize()?)?;
    let name = path.file_name().ok_or_else(|| io::Error::other("its path has no file name"))?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        held = held.create(part)?.0;
    }
    held.write(name, text.as_bytes(), 0o600)
}

/// Links the entries of the user's folder into ours, except those that exist there already.
fn link(linked: &LinkedFolder, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(&linked.from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if linked.except.iter().any(|except| name == *except) || fs::symlink_metadata(to.join(&name)).is_ok() {
            continue;
        }
        symlink(linked.from.join(&name), to.join(&name))?;
    }
    Ok(())
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure {
        why: Why::Fault,
        reason: format!("cannot prepare {}: {error}", path.display()),
        hint: Some("check whether the disk is full, and whether you may write there".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_link_is_not_followed_when_writing() {
        let temp = tempfile::tempdir().unwrap();
        let (state, elsewhere) = (temp.path().join("state"), temp.path().join("elsewhere"));
        fs::create_dir_all(state.join("home")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, state.join("home/gemini")).unwrap();
        assert!(inside(&state, &state.join("home/gemini/.gemini/settings.json")).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        inside(&state, &state.join("home/other/deep/file")).unwrap();
        assert!(state.join("home/other/deep").is_dir());
        symlink(elsewhere.join("file"), state.join("file")).unwrap();
        assert!(inside(&state, &state.join("file")).is_err());
        write(&state, Path::new("file"), "ours").unwrap();
        assert!(write(&state, Path::new("home/gemini/.gemini/settings.json"), "ours").is_err());
        assert_eq!(
            (fs::read_dir(&elsewhere).unwrap().count(), fs::read_to_string(state.join("file")).unwrap()),
            (0, "ours".into())
        );
    }

    #[test]
    fn login_is_linked_and_settings_are_not() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("theirs"), temp.path().join("a/ours"));
        fs::create_dir(&from).unwrap();
        for name in ["oauth_creds.json", "settings.json", "kept"] {
            fs::write(from.join(name), "theirs").unwrap();
        }
        let linked = LinkedFolder { from: from.clone(), to: "a/ours", except: &["settings.json"] };
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("kept"), "ours").unwrap();
        link(&linked, &to).unwrap();
        link(&linked, &to).unwrap();
        assert_eq!(fs::read_link(to.join("oauth_creds.json")).unwrap(), from.join("oauth_creds.json"));
        assert!(!to.join("settings.json").exists());
        assert_eq!(fs::read_to_string(to.join("kept")).unwrap(), "ours");
        let nothing = LinkedFolder { from: temp.path().join("nowhere"), ..linked };
        link(&nothing, &to).unwrap();
    }
}
