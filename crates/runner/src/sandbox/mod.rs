//! Sandboxes: the files and hosts that an agent's programs can see and reach.
//!
//! In a sandbox, the machine's files are read only, and the user's home and the project's `.rookery` folder are hidden. The
//! agent can write its own folder and a private home. There is no network: a [`relay`] inside leads through sockets to the
//! [proxy](egress) in the runner, which knows the hosts that may be reached, and to the [daemon](gate). The [spec] describes a
//! sandbox as data, and bubblewrap creates it where the machine [has it](SandboxSupport). Elsewhere programs run without a
//! sandbox, and the runner says so.

mod egress;
mod exclude;
mod gate;
mod git;
mod models;
mod placeholder;
mod relay;
mod request;
mod rule;
mod socket;
mod spec;
mod support;
mod survey;

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rookery_client::SessionIssuer;
use rookery_core::kernel::outbound::SandboxReach;
use serde_json::Value;

pub use exclude::exclude_from_git;
pub use relay::{RelayedPort, relay};
pub use rule::Rule;
pub use support::{NestedNamespaces, SandboxSupport};

use crate::backend::{BackendEvent, Events, Failure, Seat, Why};
use crate::file::{self, Agent, AgentProgram};
use crate::process::{ResourceLimits, SandboxBounds, kept_environment};
use egress::{DaemonRoute, Egress};
use gate::{DaemonAddress, Gate, GateIdentity};
use git::{Protection, Trap};
use placeholder::Placeholders;
use rule::{NetworkRules, NetworkTarget};
use spec::{DAEMON, DAEMON_FILE, EGRESS, FOLDER, IGNORE_FILE, SERVED, SandboxSpec};
use survey::{SurveyRequest, survey};

/// Maximum number of hosts in a session key, since the key is a header of every request.
const MAX_REACH_HOSTS: usize = 64;

/// Inputs for opening a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxRequest<'a> {
    /// The agent that notes about rejected connections name.
    pub agent: &'a str,
    pub project: &'a Path,
    /// The agent's working folder.
    pub folder: &'a Path,
    /// The runner's folder for the agent.
    pub state: &'a Path,
    /// Folders for the private data of the agent's program, in `state` or in the user's home, besides the private home.
    pub own: &'a [PathBuf],
    /// The `rookery` executable.
    pub rookery: &'a Path,
    /// The address of the daemon.
    pub url: &'a str,
    pub socket: Option<&'a Path>,
    /// Issues the session keys of the agent.
    pub session: &'a SessionIssuer,
    /// The settings of the workflow file.
    pub settings: &'a file::Sandbox,
    /// The agent's program, if it contacts a model by itself.
    pub program: Option<AgentProgram>,
    /// Variables that the file sets for the agent's programs; they may contain the address of a model.
    pub env: &'a BTreeMap<String, String>,
}

/// The reason why a sandbox could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("{0}")]
    SurveyError(String),
    #[error("cannot serve a sandbox in {}", folder.display())]
    Serve { folder: PathBuf, source: io::Error },
    #[error("the daemon's address {url} cannot be read")]
    Address { url: String },
}

/// The sandbox of one agent. Its proxy and gate are served until it is dropped.
#[derive(Debug)]
pub struct Sandbox {
    bwrap: PathBuf,
    nested_namespaces: NestedNamespaces,
    rookery: PathBuf,
    bounds: SandboxBounds,
    spec: SandboxSpec,
    /// Repositories inside the folders that the agent can write.
    nested: Vec<PathBuf>,
    placeholders: Placeholders,
    /// Folders that the agent can write.
    roots: Vec<PathBuf>,
    known_traps: Mutex<HashSet<Trap>>,
    ports: Vec<RelayedPort>,
    /// The home folder inside, if it is not at its usual path.
    home: Option<PathBuf>,
    egress: Egress,
    _gate: Gate,
}

impl Sandbox {
    /// Opens the sandbox for a seat. `program` is the agent's program, if it contacts a model by itself; `env` holds the
    /// variables that the file sets for its programs; `own` lists the folders for their private data.
    pub fn for_seat(
        seat: &Seat,
        program: Option<AgentProgram>,
        env: &BTreeMap<String, String>,
        own: &[PathBuf],
    ) -> Result<Option<Arc<Sandbox>>, Failure> {
        let request = SandboxRequest {
            agent: seat.id.as_str(),
            project: &seat.project,
            folder: &seat.folder,
            state: &seat.state,
            own,
            rookery: &seat.program,
            url: &seat.daemon.url,
            socket: seat.daemon.socket.as_deref(),
            session: &seat.session,
            settings: &seat.sandbox,
            program,
            env,
        };
        Sandbox::open(&request).map_err(|error| {
            let reason = match std::error::Error::source(&error) {
                Some(source) => format!("{} has no sandbox: {error}: {source}", seat.name),
                None => format!("{} has no sandbox: {error}", seat.name),
            };
            let hint = "see `sandbox` in the file; `sandbox: false` runs it without one".to_owned();
            Failure { why: Why::Hopeless, reason, hint: Some(hint) }
        })
    }

    /// Returns `None` if the file turns it off or the machine cannot create one. Must be called within a runtime.
    pub fn open(request: &SandboxRequest<'_>) -> Result<Option<Arc<Sandbox>>, SandboxError> {
        let file::Sandbox::On { network, write, limits } = request.settings else { return Ok(None) };
        let Some((bwrap, nested_namespaces)) = SandboxSupport::of_this_machine().with_namespaces() else {
            return Ok(None);
        };
        let served = request.state.join("served");
        let not_served = |source| SandboxError::Serve { folder: served.clone(), source };
        fs::create_dir_all(&served).map_err(not_served)?;
        let write: Vec<String> = write.iter().map(|folder| folder.value.clone()).collect();
        let limits = ResourceLimits::new(limits);
        let spec = survey(&SurveyRequest {
            project: request.project,
            folder: request.folder,
            state: request.state,
            served: &served,
            write: &write,
            own: request.own,
            rookery: request.rookery,
            env: &kept_environment(),
            temporary_bytes: limits.memory / 2,
        });
        let spec = spec.map_err(|impossible| SandboxError::SurveyError(impossible.to_string()))?;
        let mut rules: Vec<Rule> = network.iter().map(|host| Rule::parse(&host.value)).collect();
        rules.extend(models::hosts(request.program, request.env));
        let address = || SandboxError::Address { url: request.url.to_owned() };
        let daemon = NetworkTarget::from_url(request.url).ok_or_else(address)?;
        // The first listener of a port wins: a rule for the daemon's own port leads to the gate as well.
        let mut ports = vec![RelayedPort::to_socket(daemon.port, &Path::new(SERVED).join(DAEMON))];
        let machine = rules.iter().filter_map(Rule::on_loopback).filter(|target| target.port != daemon.port);
        ports.extend(machine.map(RelayedPort::to_machine));
        show_daemon(request.project, &served).map_err(not_served)?;
        let identity = GateIdentity { session: request.session.clone(), reach: reach(&rules, daemon.port) };
        let route = DaemonRoute {
            port: daemon.port,
            file: request.project.join(FOLDER).join(DAEMON_FILE),
            gate: served.join(DAEMON),
        };
        let daemon_address =
            request.socket.map_or(DaemonAddress::Port(daemon), |path| DaemonAddress::Socket(path.to_path_buf()));
        let roots: Vec<PathBuf> = spec.write.iter().chain([&spec.folder]).cloned().collect();
        let folders = roots.iter().chain([&spec.state.join("home")]).cloned().collect();
        let lock = request.project.join(FOLDER).join(PLACEHOLDERS);
        Ok(Some(Arc::new(Sandbox {
            bwrap: bwrap.to_path_buf(),
            nested_namespaces,
            bounds: SandboxBounds { limits, folders, except: spec.project.join(FOLDER) },
            nested: git::find_nested_repositories(&roots),
            known_traps: Mutex::new(git::find_traps(&spec.folder, &roots).into_iter().collect()),
            roots,
            placeholders: Placeholders::open(&lock).map_err(not_served)?,
            rookery: request.rookery.to_path_buf(),
            home: spec.home.is_none().then(|| request.state.join("home")),
            ports,
            egress: Egress::open(&served, EGRESS, request.agent, NetworkRules(rules), route).map_err(not_served)?,
            _gate: Gate::open(&served, DAEMON, daemon_address, identity).map_err(not_served)?,
            spec,
        })))
    }

    /// Reports rejected connections to these events from now on, each host once. Call it when a turn begins.
    pub fn report_to(&self, events: &Events) {
        self.egress.report_to(events);
    }

    /// Reports repositories and unfinished rebases that appeared since the last report, because a person's own git runs
    /// commands from their settings. Call it when a turn has ended.
    pub(crate) async fn report_traps(self: &Arc<Self>, events: &Events) {
        let this = self.clone();
        let found = tokio::task::spawn_blocking(move || git::find_traps(&this.spec.folder, &this.roots)).await;
        let mut known = self.known_traps.lock().unwrap_or_else(PoisonError::into_inner);
        for trap in found.unwrap_or_default() {
            if known.insert(trap.clone()) {
                let note = format!("{}: {}", trap.path().display(), trap.warning());
                events.emit(BackendEvent::Note(note));
            }
        }
    }

    /// Lists settings files that do not exist and that the agent's program would read when a person uses it.
    pub(crate) fn absent_settings(&self) -> Vec<PathBuf> {
        self.spec.absent.iter().filter(|path| fs::symlink_metadata(path).is_err()).cloned().collect()
    }

    /// The limits of the sandbox's programs, and the folders that they write to.
    pub(crate) fn bounds(&self) -> SandboxBounds {
        self.bounds.clone()
    }

    /// The arguments that run a program inside. Fails if the settings of a person's own git cannot be protected.
    pub(crate) fn wrap_arguments(&self, program: &Path, arguments: &[OsString]) -> Result<Vec<OsString>, SandboxError> {
        let mut spec = self.spec.clone();
        // A program that the agent can write may be a link to anywhere, so it must not reveal hidden folders.
        if !self.spec.is_writable(program) {
            let hidden = survey::hidden_program(spec.home.as_ref().map(|home| home.at.as_path()), program);
            spec.tools.extend(hidden.into_iter().filter(|path| !self.spec.is_writable(path)));
        }
        let protection = Protection::of(&spec.folder, &self.nested);
        let protection = protection.map_err(|unprotected| SandboxError::SurveyError(unprotected.to_string()))?;
        self.placeholders.add(protection.placeholders);
        spec.write.extend(protection.write);
        spec.guarded.extend(protection.read);
        let mut argv: Vec<OsString> = vec![self.bwrap.clone().into()];
        argv.extend(self.nested_namespaces.arguments().iter().map(OsString::from));
        argv.extend(spec.arguments());
        argv.extend([self.rookery.clone().into(), "relay".into(), "--egress".into()]);
        argv.push(Path::new(SERVED).join(EGRESS).into());
        argv.extend(["--limits".into(), self.bounds.limits.of_each_process().to_string().into()]);
        for listen in &self.ports {
            argv.extend(["--listen".into(), listen.argument()]);
        }
        argv.extend(["--".into(), program.into()]);
        argv.extend_from_slice(arguments);
        Ok(argv)
    }

    /// Adapts a program's environment to the inside of the sandbox.
    pub(crate) fn environment(&self, env: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = env
            .iter()
            .filter(|(name, _)| !is_outside_only(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        // A daemon that is started inside would be a different one.
        env.insert("ROOKERY_NO_START".into(), "1".into());
        if let Some(socket) = env.get_mut(OsStr::new("ROOKERY_SOCKET")) {
            *socket = Path::new(SERVED).join(DAEMON).into();
        }
        // The gate speaks plain HTTP on the sandbox's own loopback, whatever the daemon does outside.
        if let Some(url) = env.get_mut(OsStr::new("ROOKERY_URL"))
            && let Some(rest) = url.to_str().and_then(|url| url.strip_prefix("https://"))
        {
            *url = format!("http://{rest}").into();
        }
        if let Some(home) = &self.home {
            env.insert("HOME".into(), home.into());
        }
        env
    }
}

/// A file of the project's `.rookery` folder that users of [placeholders](placeholder) lock.
const PLACEHOLDERS: &str = "placeholders.lock";

/// Reads the head of a request to the proxy, for the fuzzer: the target, and the head that a plain request's target is sent.
#[doc(hidden)]
pub fn proxy_head(head: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    request::parse_head(head).map(|(target, forwarded)| (target.to_string(), forwarded))
}

/// The warning at the start of a team whose agents should have a sandbox but cannot.
pub fn missing_warning(agents: &[Agent]) -> Option<String> {
    warning_for(SandboxSupport::of_this_machine(), agents)
}

pub(crate) fn warning_for(support: &SandboxSupport, agents: &[Agent]) -> Option<String> {
    let hint = support.fix_hint()?;
    let wants_sandbox =
        |agent: &&Agent| agent.sandbox != file::Sandbox::Off && !matches!(agent.backend, file::Backend::Mock { .. });
    let names: Vec<&str> = agents.iter().filter(wants_sandbox).map(|agent| agent.name.value.as_str()).collect();
    match names[..] {
        [] => None,
        [one] => Some(format!("{one} runs without a sandbox ({}): {hint}", support.reason())),
        _ => Some(format!("{} run without a sandbox ({}): {hint}", names.join(", "), support.reason())),
    }
}

/// Whether a variable has another meaning inside, or none. The gate adds the session to every request, so no session key has
/// to be inside.
fn is_outside_only(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        matches!(name, "TMPDIR" | "ROOKERY_SESSION") || name.to_ascii_lowercase().ends_with("_proxy")
    })
}

/// The hosts that a card from the sandbox may name. The daemon is excluded, because it would post to itself.
fn reach(rules: &[Rule], daemon_port: u16) -> SandboxReach {
    let is_daemon = |rule: &Rule| rule.on_loopback().is_some_and(|target| target.port == daemon_port);
    let hosts = rules.iter().filter(|rule| !is_daemon(rule)).flat_map(Rule::exact_hosts);
    SandboxReach { hosts: hosts.take(MAX_REACH_HOSTS).collect() }
}

/// Writes the file that tells programs inside how to reach the daemon.
fn show_daemon(project: &Path, served: &Path) -> io::Result<()> {
    let text = fs::read(project.join(FOLDER).join(DAEMON_FILE))?;
    let mut file: Value = serde_json::from_slice(&text)?;
    if let Some(file) = file.as_object_mut() {
        file.insert("socket".to_owned(), Path::new(SERVED).join(DAEMON).to_string_lossy().into());
        file.insert("store".to_owned(), Value::Null);
    }
    fs::write(served.join(DAEMON_FILE), serde_json::to_vec_pretty(&file)?)?;
    fs::write(served.join(IGNORE_FILE), "*\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ready;

    #[test]
    fn agents_without_the_sandbox_that_they_want_are_named() {
        let team = ready(
            "agents:\n  a: {backend: claude}\n  b: {backend: command, command: [x]}\n  \
             c: {backend: codex, sandbox: false}\n  d: {backend: mock, script: [{say: x}]}\nkickoff: '@a'\n",
        );
        let agents = &team.workflow.agents;
        let wanted = "a, b run without a sandbox (bubblewrap is not installed): install bubblewrap, or set `sandbox: false` in the workflow file";
        assert_eq!(warning_for(&SandboxSupport::Missing, agents).as_deref(), Some(wanted));
        assert_eq!(warning_for(&SandboxSupport::Missing, &agents[2..]), None);
        let there =
            SandboxSupport::Yes { bwrap: "/usr/bin/bwrap".into(), version: "1".into(), nested: NestedNamespaces::Off };
        assert_eq!(warning_for(&there, agents), None);
    }
}
