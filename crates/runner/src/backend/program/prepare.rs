//! What has to be on the disk before a program starts, and what is taken away after it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::dialect::{Linked, Start};
use super::override_file::OverriddenFile;
use crate::backend::{BackendEvent, Events, Failure, Seat, Why};
use crate::held::HeldFolder;

/// Where it is written down which files of a project are others for a while.
pub const LEDGER: &str = ".rookery/restore";

/// What was done for a program.
#[derive(Debug)]
pub(super) struct Prepared {
    lent: Option<OverriddenFile>,
}

pub(super) async fn prepare(seat: &Seat, start: &Start) -> Result<Prepared, Failure> {
    for (path, text) in &start.files {
        write(&seat.state, Path::new(path), text).map_err(|error| failure(&seat.state.join(path), &error))?;
    }
    if let Some(linked) = &start.linked {
        let to = seat.state.join(linked.to);
        inside(&seat.state, &to.join("x")).and_then(|()| link(linked, &to)).map_err(|error| failure(&to, &error))?;
    }
    let Some((file, text)) = start.lent.clone() else { return Ok(Prepared { lent: None }) };
    let (ledger, wanted) = (seat.project.join(LEDGER), file.clone());
    // May wait for another process that is about to do the same.
    let taken = tokio::task::spawn_blocking(move || OverriddenFile::take(&ledger, &wanted, &text)).await;
    let lent = taken.map_err(io::Error::other).flatten().map_err(|error| failure(&file, &error))?;
    Ok(Prepared { lent: Some(lent) })
}

impl Prepared {
    /// Puts back what was another one. What fails here is written down, and done before the next start.
    pub(super) async fn undo(self, events: &Events) {
        let Some(lent) = self.lent else { return };
        let given = tokio::task::spawn_blocking(move || lent.give_back()).await;
        if let Err(error) = given.map_err(io::Error::other).flatten() {
            events.tell(BackendEvent::Note(format!("a file of the project could not be put back yet: {error}")));
        }
    }
}

/// Makes the folder of a file, and sees that it is where it seems to be: an agent may write to a part of its state folder,
/// and what it links there could lead anywhere.
fn inside(state: &Path, path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let strays = || io::Error::other("a link in it leads out of the agent's folder: remove it");
    // Looked at from above, so that nothing is made beyond a link either.
    for part in folder.ancestors().take_while(|part| *part != state).collect::<Vec<_>>().into_iter().rev() {
        match fs::symlink_metadata(part) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(strays()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(part)?,
            Err(error) => return Err(error),
        }
    }
    if path.is_symlink() { Err(strays()) } else { Ok(()) }
}

/// Writes a file below the state folder, for the user alone: it may contain parts of the user's own settings. An agent may
/// write to a part of the state folder, so no link is followed.
fn write(state: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut held = HeldFolder::open(&state.canonicalize()?)?;
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        held = held.make(part)?.0;
    }
    held.write(name, text.as_bytes(), 0o600)
}

/// Everything that is in the user's folder is to be found in ours, unless something is there already.
fn link(linked: &Linked, to: &Path) -> io::Result<()> {
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
        hint: Some("see whether the disk is full, and who may write there".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_beyond_a_link_of_the_agents() {
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
    fn a_login_is_linked_and_settings_are_not() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("theirs"), temp.path().join("a/ours"));
        fs::create_dir(&from).unwrap();
        for name in ["oauth_creds.json", "settings.json", "kept"] {
            fs::write(from.join(name), "theirs").unwrap();
        }
        let linked = Linked { from: from.clone(), to: "a/ours", except: &["settings.json"] };
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("kept"), "ours").unwrap();
        link(&linked, &to).unwrap();
        link(&linked, &to).unwrap();
        assert_eq!(fs::read_link(to.join("oauth_creds.json")).unwrap(), from.join("oauth_creds.json"));
        assert!(!to.join("settings.json").exists());
        assert_eq!(fs::read_to_string(to.join("kept")).unwrap(), "ours");
        let nothing = Linked { from: temp.path().join("nowhere"), ..linked };
        link(&nothing, &to).unwrap();
    }
}
