//! What is the same for all turns of one agent: who it is, where it works, what it may use and how it reaches the daemon.
//! Everything here is settled before its first turn, so that a backend has nothing left to look up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::{SessionIssuer, Tools};
use rookery_core::AgentId;
use rookery_core::kernel::instance::Instance;

use crate::file::{Sandbox, Variables};
use crate::process::{ExecShim, Program};

/// How long a key lasts at most that a program outside of any sandbox is given. It ends with its team's generation, and a
/// team may run for weeks.
const SESSION_LASTS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// One agent's place in the team.
#[derive(Clone, Debug)]
pub struct Seat {
    /// As the daemon knows it: `name@instance`, or the name alone in the default instance.
    pub id: AgentId,
    /// As the others of its team mention it.
    pub name: String,
    pub instance: Instance,
    /// Counted up each time its team is started anew, and not when it is resumed.
    pub generation: u64,
    /// The folder of the project.
    pub project: PathBuf,
    /// Where its programs run: the project, or a worktree of its own.
    pub folder: PathBuf,
    /// Where a backend may keep what it needs between turns, for this agent alone: `.rookery/run/<team>/<agent>/`. It exists.
    pub state: PathBuf,
    /// Calls the daemon's tools as this agent.
    pub tools: Tools,
    /// Makes the keys that prove to the daemon which agent a program speaks for. They are for the environment of programs
    /// outside of sandboxes and for the gate, never for arguments.
    pub session: SessionIssuer,
    pub daemon: Daemon,
    /// What the file sets for its programs, with everything put in and inherited.
    pub env: Environment,
    /// The model, as the file says it.
    pub model: Option<String>,
    /// The only tools that it may use, if they are limited.
    pub allowed: Option<Vec<String>>,
    /// What the file says about its sandbox.
    pub sandbox: Sandbox,
    /// Our own program, for `rookery mcp` and whatever else an agent needs of us.
    pub program: PathBuf,
    /// Where it is written down what runs, so that nothing is left over after a crash.
    pub records: PathBuf,
    /// How much a model may answer at once.
    pub max_tokens: Option<u64>,
    /// Another address for the model, and the key for it.
    pub provider: Provider,
    /// What stands for `${{ … }}` in the texts of this agent.
    pub variables: Arc<Variables>,
}

/// Where the daemon is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Daemon {
    /// Without a slash at the end.
    pub url: String,
    /// Where it is served, the way in for whatever runs on this machine.
    pub socket: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provider {
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
}

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Variables for programs. Their values may be secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(pub BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Seat {
    /// A program of this agent: in its folder and sandbox, with its identity and the variables of the file.
    pub fn starts(&self, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        let exec_shim = ExecShim { rookery: self.program.clone(), records: self.records.clone() };
        Program::new(exec_shim, &self.folder, argv).discreet().envs(&self.env.0).envs(self.identity())
    }

    /// What every program of this agent finds in its environment besides the file's own variables: who it is and how it
    /// reaches the daemon.
    pub fn identity(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([
            ("ROOKERY_AGENT_ID".to_owned(), self.id.to_string()),
            ("ROOKERY_DIR".to_owned(), self.project.display().to_string()),
            ("ROOKERY_INSTANCE".to_owned(), self.instance.name().to_owned()),
            ("ROOKERY_SESSION".to_owned(), self.session.key(SESSION_LASTS)),
            ("ROOKERY_URL".to_owned(), self.daemon.url.clone()),
        ]);
        if let Some(socket) = &self.daemon.socket {
            all.insert("ROOKERY_SOCKET".to_owned(), socket.display().to_string());
        }
        all
    }
}
