//! The sockets of instances: `context.sock` in the folder of each that is in use, where `/mcp` offers the context tools and
//! a bare name is that of a member.
//!
//! The address of a socket is short. Where the folder's is not, the socket is in the user's run-time folder and a link
//! stands in its place: whoever names it relative to the project reaches it all the same.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use rookery_core::Instance;
use rookery_engine::rendering::Folder;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::sender::{self, Sender};
use crate::serve::{Server, listen_unix};

pub const NAME: &str = "context.sock";
/// Socket addresses hold 104 bytes on the smallest system we run on, and one of them ends the string.
const MAX_PATH_BYTES: usize = 103;
/// How many instances have a socket at once.
const MOST: usize = 256;
/// How often a socket is missed that somebody removed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

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

    /// Opens the socket, in the place of one that an earlier process left.
    fn open(&self, folder: &Path) -> io::Result<(PathBuf, UnixListener)> {
        let (near, at) = (folder.join(NAME), self.at(folder));
        clear(&near)?;
        if at != near {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.run_time)?;
            // Fails where it is somebody else's.
            std::fs::set_permissions(&self.run_time, Permissions::from_mode(0o700))?;
            clear(&at)?;
        }
        let listener = listen_unix(&at)?;
        if at != near {
            std::os::unix::fs::symlink(&at, &near)?;
        }
        Ok((at, listener))
    }
}

/// Makes room for a socket. Only sockets and links to them are ours to remove.
fn clear(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if kind.is_socket() || kind.is_symlink() {
        return std::fs::remove_file(path);
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is not a socket", path.display())))
}

struct Open {
    folder: PathBuf,
    at: PathBuf,
    accepting: JoinHandle<()>,
}

impl Open {
    /// Ends listening and removes what we put there.
    fn close(self) {
        self.accepting.abort();
        for path in [self.folder.join(NAME), self.at] {
            drop(clear(&path));
        }
    }
}

/// Keeps a socket for every instance that has a folder here, until the daemon stops.
pub(crate) async fn keep(server: Arc<Server>) {
    let app = server.app().clone();
    let mut rendered = app.about().rendered.clone();
    let mut open: BTreeMap<Instance, Open> = BTreeMap::new();
    let mut refused: BTreeMap<Instance, String> = BTreeMap::new();
    loop {
        let folders = rendered.borrow_and_update().folders.clone();
        let is_wanted = |instance: &Instance, known: &Open| {
            let wanted = folders.iter().any(|folder| folder.instance == *instance && folder.path == known.folder);
            wanted && known.at.exists() && std::fs::symlink_metadata(known.folder.join(NAME)).is_ok()
        };
        let gone: Vec<Instance> =
            open.iter().filter(|(i, known)| !is_wanted(i, known)).map(|(i, _)| i.clone()).collect();
        gone.iter().filter_map(|instance| open.remove(instance)).for_each(Open::close);
        for Folder { instance, path } in folders {
            if open.contains_key(&instance) || open.len() >= MOST {
                continue;
            }
            match app.sockets().open(&path) {
                Ok((at, listener)) => {
                    let accepting = tokio::spawn(server.clone().accept_context(listener, instance.clone()));
                    refused.remove(&instance);
                    open.insert(instance, Open { folder: path, at, accepting });
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
            () = tokio::time::sleep(LOOK_EVERY) => {}
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
    const INSTANCE: HeaderName = HeaderName::from_static(sender::INSTANCE);
    if let Ok(name) = HeaderValue::from_str(instance.name()) {
        request.headers_mut().insert(INSTANCE, name);
    }
    let stated = request.headers().get(&AGENT).and_then(|value| value.to_str().ok());
    let stated = stated.filter(|id| !id.is_empty() && !is_own(&app, request.headers(), id));
    let member = stated.map(|id| instance.member(id));
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
