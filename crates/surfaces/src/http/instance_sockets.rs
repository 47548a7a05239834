//! The sockets of instances: `context.sock` in the folder of each that is in use, where `/mcp` offers the context tools and
//! a bare name is that of a member.
//!
//! The address of a socket is short. Where the folder's is not, the socket is in the user's run-time folder and a link
//! stands in its place: whoever names it relative to the project reaches it all the same.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use rookery_core::Instance;
use rookery_engine::held::HeldFolder;
use rookery_engine::renderer::RenderedFolder;
use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::identity::{self, Sender};
use super::server::{InstanceRoutes, Server, listen_unix};
use super::state::App;

pub const NAME: &str = "context.sock";
/// Socket addresses hold 104 bytes on the smallest system we run on, and one of them ends the string.
const MAX_PATH_BYTES: usize = 103;
/// The system's folder of everything that this process has open.
const HELD_FOLDERS: &str = "/proc/self/fd";
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// How many instances have a socket at once.
const MAX_SOCKETS: usize = 256;
/// How often a socket is missed that somebody removed.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Where sockets go whose own place has too long an address.
#[derive(Clone, Debug)]
pub struct Sockets {
    pub run_time: PathBuf,
}

impl Sockets {
    /// The address of the socket of an instance with this folder.
    pub fn at(&self, folder: &Path) -> PathBuf {
        let near = folder.join(NAME);
        if near.as_os_str().as_bytes().len() <= MAX_PATH_BYTES {
            return near;
        }
        let mut hasher = DefaultHasher::new();
        near.hash(&mut hasher);
        self.run_time.join(format!("{:016x}.sock", hasher.finish()))
    }

    /// Opens the socket in a held folder, in the place of one that an earlier process left.
    fn open(&self, folder: &Path, held: &HeldFolder) -> io::Result<(PathBuf, UnixListener)> {
        let at = self.at(folder);
        clear(held)?;
        if at == folder.join(NAME) {
            return Ok((at, listen_in(held, folder)?));
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.run_time)?;
        // Fails where it is somebody else's.
        std::fs::set_permissions(&self.run_time, Permissions::from_mode(0o700))?;
        let listener = listen_unix(&at)?;
        fs::symlinkat(&at, held, NAME)?;
        Ok((at, listener))
    }
}

/// Listens on a new socket in the folder, which only this user can connect to. The address leads through the held folder, not
/// through its path, which others may exchange for a link at any moment.
fn listen_in(held: &HeldFolder, folder: &Path) -> io::Result<UnixListener> {
    let through = PathBuf::from(format!("{HELD_FOLDERS}/{}", held.as_fd().as_raw_fd()));
    let address = if through.exists() { through.join(NAME) } else { folder.join(NAME) };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode of the socket. Nothing is changed by name after it exists, when it can be exchanged too.
    fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    net::bind(&socket, &SocketAddrUnix::new(&address)?)?;
    net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

/// Makes room for a socket. Only sockets and links to them are ours to remove.
fn clear(held: &HeldFolder) -> io::Result<()> {
    match kind_in(held)? {
        None => Ok(()),
        Some(kind) if kind.is_socket() || kind.is_symlink() => Ok(fs::unlinkat(held, NAME, AtFlags::empty())?),
        Some(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAME} is not a socket"))),
    }
}

/// The kind of file at the socket's place.
fn kind_in(held: &HeldFolder) -> io::Result<Option<FileType>> {
    match fs::statat(held, NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

struct Open {
    folder: PathBuf,
    held: HeldFolder,
    at: PathBuf,
    accepting: JoinHandle<()>,
}

impl Open {
    /// Whether the socket is where the instance's folder is now.
    fn is_in_place(&self) -> bool {
        let is_held = HeldFolder::open(&self.folder).is_ok_and(|now| now.is_same(&self.held));
        let is_near = self.at == self.folder.join(NAME);
        is_held && matches!(kind_in(&self.held), Ok(Some(_))) && (is_near || self.at.exists())
    }

    /// Ends listening and removes what we put there.
    fn close(self) {
        self.accepting.abort();
        clear(&self.held).ok();
        if self.at != self.folder.join(NAME) {
            std::fs::remove_file(&self.at).ok();
        }
    }
}

/// Keeps a socket for every instance that has a folder here, until the daemon stops.
pub(crate) async fn keep(server: Arc<Server>, routes: InstanceRoutes) {
    let app = server.app().clone();
    let mut rendered = app.about().rendered.clone();
    let mut open: BTreeMap<Instance, Open> = BTreeMap::new();
    let mut refused: BTreeMap<Instance, String> = BTreeMap::new();
    loop {
        let folders = rendered.borrow_and_update().folders.clone();
        let is_wanted = |instance: &Instance, known: &Open| {
            let wanted = folders.iter().any(|folder| folder.instance == *instance && folder.path == known.folder);
            wanted && known.is_in_place()
        };
        let gone: Vec<Instance> =
            open.iter().filter(|(i, known)| !is_wanted(i, known)).map(|(i, _)| i.clone()).collect();
        gone.iter().filter_map(|instance| open.remove(instance)).for_each(Open::close);
        for RenderedFolder { instance, path } in folders {
            if open.contains_key(&instance) || open.len() >= MAX_SOCKETS {
                continue;
            }
            let opened = HeldFolder::open(&path).and_then(|held| {
                let (at, listener) = app.sockets().open(&path, &held)?;
                Ok((held, at, listener))
            });
            match opened {
                Ok((held, at, listener)) => {
                    let accepting = tokio::spawn(server.clone().accept_instance(listener, routes(instance.clone())));
                    refused.remove(&instance);
                    open.insert(instance, Open { folder: path, held, at, accepting });
                }
                Err(error) => {
                    let message = error.to_string();
                    if refused.get(&instance) != Some(&message) {
                        tracing::warn!(%instance, "the context's socket cannot be opened: {message}");
                        refused.insert(instance, message);
                    }
                }
            }
        }
        tokio::select! {
            () = app.stopping().cancelled() => break,
            changed = rendered.changed() => if changed.is_err() {
                app.stopping().cancelled().await;
                break;
            },
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
    open.into_values().for_each(Open::close);
}

/// On the socket of an instance, a bare name is that of a member of it; but one that is the own name of a token or a session
/// is that, because nobody is more likely to be meant by it.
pub(crate) async fn name_members(
    State(app): State<App>,
    Extension(instance): Extension<Instance>,
    mut request: Request,
    next: Next,
) -> Response {
    const AGENT: HeaderName = HeaderName::from_static("x-agent-id");
    const INSTANCE: HeaderName = HeaderName::from_static(identity::INSTANCE);
    if let Ok(name) = HeaderValue::from_str(instance.name()) {
        request.headers_mut().insert(INSTANCE, name);
    }
    let stated = request.headers().get(&AGENT).and_then(|value| value.to_str().ok());
    let stated = stated.filter(|id| !id.is_empty() && !is_own(&app, request.headers(), id));
    let member = stated.map(|id| instance.caller(id));
    if let Some(value) = member.and_then(|id| HeaderValue::from_str(id.as_str()).ok()) {
        request.headers_mut().insert(AGENT, value);
    }
    next.run(request).await
}

/// Whether the credential that came along is for this agent.
fn is_own(app: &App, headers: &HeaderMap, agent: &str) -> bool {
    let sender = Sender::of(headers).ok().filter(Sender::has_credential).map(Sender::unstated);
    let own = sender.and_then(|sender| sender.caller(app, None).ok());
    own.is_some_and(|caller| caller.actor.agent().is_some_and(|own| own.as_str() == agent))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// The names of everything below a folder.
    fn names_below(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { names_below(&path) } else { vec![path] }).collect()
    }

    #[tokio::test]
    async fn context_socket_is_private_and_reachable() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        let sockets = Sockets { run_time: root.path().join("run") };
        let held = HeldFolder::open(&folder).unwrap();
        for _ in 0..2 {
            let (at, listener) = sockets.open(&folder, &held).unwrap();
            let found = std::fs::symlink_metadata(&at).unwrap();
            assert!(found.file_type().is_socket() && found.permissions().mode() & 0o777 == 0o600, "{found:?}");
            let (accepted, connected) = tokio::join!(listener.accept(), tokio::net::UnixStream::connect(&at));
            assert!(accepted.is_ok() && connected.is_ok());
        }
        std::fs::remove_file(folder.join(NAME)).unwrap();
        std::fs::write(folder.join(NAME), "a person's").unwrap();
        assert!(sockets.open(&folder, &held).is_err());
        assert_eq!(std::fs::read_to_string(folder.join(NAME)).unwrap(), "a person's");
    }

    #[tokio::test]
    async fn context_socket_of_exchanged_folder_never_appears_outside() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let long = "long".repeat(30);
        for name in ["near", long.as_str()] {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let sockets = Sockets { run_time: root.path().join("run") };
            let done = AtomicBool::new(false);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let aside = root.path().join("aside");
                    while !done.load(Ordering::Relaxed) {
                        std::fs::rename(&folder, &aside).unwrap();
                        std::os::unix::fs::symlink(outside.path(), &folder).unwrap();
                        std::fs::remove_file(&folder).unwrap();
                        std::fs::rename(&aside, &folder).unwrap();
                        std::thread::yield_now();
                    }
                });
                let runtime = tokio::runtime::Handle::current();
                let _entered = runtime.enter();
                let (mut tried, mut opened) = (0, 0);
                while tried < 3_000 || (opened == 0 && tried < 1_000_000) {
                    let held = HeldFolder::open(&folder);
                    opened += u32::from(held.and_then(|held| sockets.open(&folder, &held)).is_ok());
                    tried += 1;
                }
                done.store(true, Ordering::Relaxed);
                assert!(opened > 0, "the folder is there at times");
            });
            assert_eq!(names_below(outside.path()), Vec::<PathBuf>::new());
        }
    }
}
