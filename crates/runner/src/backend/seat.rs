//! The settings that all turns of one agent share: its identity, its folders, its limits and its way to the daemon. All of
//! them are resolved before the first turn, so that a backend looks nothing up.

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

/// Lifetime of the session key for a program outside of sandboxes. The key also ends with its team's generation, and a team
/// may run for weeks.
const SESSION_LASTS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// One agent's settings in its team.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The agent's id for the daemon: `name@instance`, or the name alone for a standalone agent of the default instance.
    pub id: AgentId,
    /// The name that its team mentions it by.
    pub name: String,
    pub instance: Instance,
    /// Increases whenever the team is started again, but not when it is resumed.
    pub generation: u64,
    /// The folder of the project.
    pub project: PathBuf,
    /// The working folder of its programs: the project, or a worktree for this agent.
    pub folder: PathBuf,
    /// The folder where a backend keeps state between turns, for this agent alone: `.rookery/run/<team>/<agent>/`. It exists.
    pub state: PathBuf,
    /// Calls the daemon's tools as this agent.
    pub tools: Tools,
    /// Issues the keys that prove to the daemon which agent a program acts for. Keys go into the environment of programs
    /// outside of sandboxes and to the gate, never into arguments.
    pub session: SessionIssuer,
    pub daemon: Daemon,
    /// Variables that the file sets for its programs, with placeholders filled and inherited values added.
    pub env: Environment,
    /// The model, as written in the file.
    pub model: Option<String>,
    /// The only tools that it may use; `None` for all.
    pub allowed: Option<Vec<String>>,
    /// The sandbox settings of the file.
    pub sandbox: Sandbox,
    /// The `rookery` executable, for `rookery mcp` and other helpers of an agent.
    pub program: PathBuf,
    /// The folder for records of running processes, from which leftovers of a crash are ended.
    pub records: PathBuf,
    /// Maximum length of a model's answer.
    pub max_tokens: Option<u64>,
    /// Another address for the model, and the key for it.
    pub provider: Provider,
    /// Values for the `${{ … }}` placeholders in texts of this agent.
    pub variables: Arc<Variables>,
}

/// The address of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Daemon {
    /// Without a trailing slash.
    pub url: String,
    /// The Unix socket, for programs on this machine.
    pub socket: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provider {
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
}

/// A text that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Environment variables whose values may be secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(pub BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Seat {
    /// Builds a program of this agent, with its folder, its identity and the variables of the file, but no sandbox yet.
    pub fn program_for(&self, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        let exec_shim = ExecShim { rookery: self.program.clone(), records: self.records.clone() };
        Program::new(exec_shim, &self.folder, argv).discreet().envs(&self.env.0).envs(self.identity())
    }

    /// Variables that every program of this agent gets besides those of the file: its identity and its way to the daemon.
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
