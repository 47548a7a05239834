//! Unix sockets at paths of any length: their addresses are limited to about 100 bytes, but project folders are not.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Listens in a folder, after removing a stale socket of that name. Must be called within a runtime.
pub(super) fn listen(folder: &Path, name: &str) -> io::Result<UnixListener> {
    match fs::remove_file(folder.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (_held, short) = shorten(folder, name)?;
    UnixListener::bind(short)
}

/// Accepts connections, up to a number at once; further ones wait.
pub(super) async fn serve<F>(listener: UnixListener, at_once: usize, take: impl Fn(UnixStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(at_once));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // Out of file descriptors: other connections will end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let taking = take(client);
        tokio::spawn(async move {
            taking.await;
            drop(place);
        });
    }
}

/// Connects to a socket.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (folder, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
    let (_held, short) = shorten(folder, &name.to_string_lossy())?;
    UnixStream::connect(short).await
}

/// A short path to a file in a folder, valid while the returned handle of the folder is open.
fn shorten(folder: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    let held = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{name}", held.as_raw_fd()));
    Ok((held, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_path_works_like_a_short_one() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("d".repeat(150));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("a.sock");
        for _again in 0..2 {
            let listener = listen(&folder, "a.sock").unwrap();
            let (accepted, connected) = tokio::join!(listener.accept(), connect(&path));
            assert!(accepted.is_ok() && connected.is_ok());
        }
        assert!(connect(&folder.join("b.sock")).await.is_err());
    }
}
