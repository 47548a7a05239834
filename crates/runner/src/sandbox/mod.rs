//! What an agent's programs can see and reach.
//!
//! In a sandbox the machine's files are there to read, without the person's home and the project's own folder; the agent's
//! folder is there to write, and so is a home of its own. There is no network: a [`relay`] inside leads through sockets to the
//! [proxy](egress) in the runner, which knows the hosts that may be reached, and to the [daemon](gate). A [spec] is data, and
//! bubblewrap makes it so, where the machine [has it](Available). Where it has not, programs run without one, and the runner
//! says so.

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
pub use relay::{Listen, relay};
pub use rule::Rule;
pub use support::{Available, NestedNamespaces};

use crate::backend::{BackendEvent, Events, Failure, Seat, Why};
use crate::file::{self, Agent, AgentProgram};
use crate::process::{Bounds, ResourceLimits, kept_environment};
use egress::{DaemonRoute, Egress};
use gate::{Gate, Stamp, Way};
use git::{Protection, Trap};
use placeholder::Placeholders;
use rule::{Rules, Target};
use spec::{DAEMON, DAEMON_FILE, EGRESS, FOLDER, IGNORE_FILE, Plan, SERVED};
use survey::{SurveyRequest, survey};

/// Hosts that a session key names at most; it is a header of every request.
const REACH_HOSTS: usize = 64;

/// What a sandbox is made for.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
    /// Who is told of with what is refused.
    pub agent: &'a str,
    pub project: &'a Path,
    /// Where the agent works.
    pub folder: &'a Path,
    /// What the runner keeps for it.
    pub state: &'a Path,
    /// What its program keeps its own things in, in there or in the person's home, besides `home`.
    pub own: &'a [PathBuf],
    /// Our own program.
    pub rookery: &'a Path,
    /// Where the daemon is.
    pub url: &'a str,
    pub socket: Option<&'a Path>,
    /// Makes the session keys of the agent.
    pub session: &'a SessionIssuer,
    /// What the file says.
    pub said: &'a file::Sandbox,
    /// The program that is the agent, if it needs a model by itself.
    pub program: Option<AgentProgram>,
    /// What the file sets for the agent's programs, where the address of a model may be.
    pub env: &'a BTreeMap<String, String>,
}

/// Why an agent cannot have the sandbox that its file asks for.
#[derive(Debug, thiserror::Error)]
pub enum NoSandbox {
    #[error("{0}")]
    Impossible(String),
    #[error("cannot serve a sandbox in {}", folder.display())]
    Serve { folder: PathBuf, source: io::Error },
    #[error("the daemon's address {url} cannot be read")]
    Address { url: String },
}

/// The sandbox of one agent, and what serves it as long as this is kept.
#[derive(Debug)]
pub struct Sandbox {
    bwrap: PathBuf,
    nested_namespaces: NestedNamespaces,
    rookery: PathBuf,
    bounds: Bounds,
    plan: Plan,
    /// Repositories inside what the agent can write.
    nested: Vec<PathBuf>,
    placeholders: Placeholders,
    /// The folders that the agent can write.
    roots: Vec<PathBuf>,
    known_traps: Mutex<HashSet<Trap>>,
    listening: Vec<Listen>,
    /// Where programs are told that their home is, if not at its usual place.
    home: Option<PathBuf>,
    egress: Egress,
    _gate: Gate,
}

impl Sandbox {
    /// For the agent of a seat. `program` is what the agent is, if it needs a model by itself; `env` is all that its
    /// programs are given besides what every one gets; `own` is what they keep their own things in.
    pub fn of(
        seat: &Seat,
        program: Option<AgentProgram>,
        env: &BTreeMap<String, String>,
        own: &[PathBuf],
    ) -> Result<Option<Arc<Sandbox>>, Failure> {
        let wish = Wish {
            agent: seat.id.as_str(),
            project: &seat.project,
            folder: &seat.folder,
            state: &seat.state,
            own,
            rookery: &seat.program,
            url: &seat.daemon.url,
            socket: seat.daemon.socket.as_deref(),
            session: &seat.session,
            said: &seat.sandbox,
            program,
            env,
        };
        Sandbox::open(&wish).map_err(|error| {
            let reason = match std::error::Error::source(&error) {
                Some(source) => format!("{} has no sandbox: {error}: {source}", seat.name),
                None => format!("{} has no sandbox: {error}", seat.name),
            };
            let hint = "see `sandbox` in the file; `sandbox: false` runs it without one".to_owned();
            Failure { why: Why::Hopeless, reason, hint: Some(hint) }
        })
    }

    /// None if the file wants none, or this machine has none. Must be called within a runtime.
    pub fn open(wish: &Wish<'_>) -> Result<Option<Arc<Sandbox>>, NoSandbox> {
        let file::Sandbox::On { network, write, limits } = wish.said else { return Ok(None) };
        let Some((bwrap, nested_namespaces)) = Available::here().with_namespaces() else { return Ok(None) };
        let served = wish.state.join("served");
        let not_served = |source| NoSandbox::Serve { folder: served.clone(), source };
        fs::create_dir_all(&served).map_err(not_served)?;
        let write: Vec<String> = write.iter().map(|folder| folder.value.clone()).collect();
        let limits = ResourceLimits::new(limits);
        let plan = survey(&SurveyRequest {
            project: wish.project,
            folder: wish.folder,
            state: wish.state,
            served: &served,
            write: &write,
            own: wish.own,
            rookery: wish.rookery,
            env: &kept_environment(),
            temporary_bytes: limits.memory / 2,
        });
        let plan = plan.map_err(|impossible| NoSandbox::Impossible(impossible.to_string()))?;
        let mut rules: Vec<Rule> = network.iter().map(|host| Rule::said(&host.value)).collect();
        rules.extend(models::hosts(wish.program, wish.env));
        let address = || NoSandbox::Address { url: wish.url.to_owned() };
        let daemon = Target::of_url(wish.url).ok_or_else(address)?;
        // The first that listens at a port has it: a rule for the daemon's own port leads to the gate as well.
        let mut listening = vec![Listen::to_socket(daemon.port, &Path::new(SERVED).join(DAEMON))];
        let machine = rules.iter().filter_map(Rule::on_loopback).filter(|target| target.port != daemon.port);
        listening.extend(machine.map(Listen::to_machine));
        show_daemon(wish.project, &served).map_err(not_served)?;
        let stamp = Stamp { session: wish.session.clone(), reach: reach(&rules, daemon.port) };
        let route = DaemonRoute {
            port: daemon.port,
            file: wish.project.join(FOLDER).join(DAEMON_FILE),
            gate: served.join(DAEMON),
        };
        let way = wish.socket.map_or(Way::Port(daemon), |path| Way::Socket(path.to_path_buf()));
        let roots: Vec<PathBuf> = plan.write.iter().chain([&plan.folder]).cloned().collect();
        let folders = roots.iter().chain([&plan.state.join("home")]).cloned().collect();
        let lock = wish.project.join(FOLDER).join(PLACEHOLDERS);
        Ok(Some(Arc::new(Sandbox {
            bwrap: bwrap.to_path_buf(),
            nested_namespaces,
            bounds: Bounds { limits, folders, except: plan.project.join(FOLDER) },
            nested: git::nested_repositories(&roots),
            known_traps: Mutex::new(git::traps(&plan.folder, &roots).into_iter().collect()),
            roots,
            placeholders: Placeholders::open(&lock).map_err(not_served)?,
            rookery: wish.rookery.to_path_buf(),
            home: plan.home.is_none().then(|| wish.state.join("home")),
            listening,
            egress: Egress::open(&served, EGRESS, wish.agent, Rules(rules), route).map_err(not_served)?,
            _gate: Gate::open(&served, DAEMON, way, stamp).map_err(not_served)?,
            plan,
        })))
    }

    /// From now on, what is refused is told here, each host once: to be called when a turn begins.
    pub fn tell(&self, events: &Events) {
        self.egress.tell(events);
    }

    /// Tells of repositories and of an unfinished rebase that were made since this was told last: a person's own git runs what
    /// their settings say. To be called when a turn has ended.
    pub(crate) async fn tell_traps(self: &Arc<Self>, events: &Events) {
        let this = self.clone();
        let found = tokio::task::spawn_blocking(move || git::traps(&this.plan.folder, &this.roots)).await;
        let mut known = self.known_traps.lock().unwrap_or_else(PoisonError::into_inner);
        for trap in found.unwrap_or_default() {
            if known.insert(trap.clone()) {
                let note = format!("{}: {}", trap.path().display(), trap.warning());
                events.tell(BackendEvent::Note(note));
            }
        }
    }

    /// Settings of the agent's program that a person's own use of it would go by, and that are not there.
    pub(crate) fn absent_settings(&self) -> Vec<PathBuf> {
        self.plan.absent.iter().filter(|path| fs::symlink_metadata(path).is_err()).cloned().collect()
    }

    /// The limits of its programs, and the folders that they write to.
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds.clone()
    }

    /// The arguments that run a program in it. Fails if what a person's own git goes by cannot be protected.
    pub(crate) fn around(&self, program: &Path, arguments: &[OsString]) -> Result<Vec<OsString>, NoSandbox> {
        let mut plan = self.plan.clone();
        // A program that the agent can write may be a link to anywhere, and shows nothing that is hidden.
        if !self.plan.writes(program) {
            let hidden = survey::hidden_program(plan.home.as_ref().map(|home| home.at.as_path()), program);
            plan.tools.extend(hidden.into_iter().filter(|path| !self.plan.writes(path)));
        }
        let protection = Protection::of(&plan.folder, &self.nested);
        let protection = protection.map_err(|unprotected| NoSandbox::Impossible(unprotected.to_string()))?;
        self.placeholders.need(protection.placeholders);
        plan.write.extend(protection.write);
        plan.guarded.extend(protection.read);
        let mut argv: Vec<OsString> = vec![self.bwrap.clone().into()];
        argv.extend(self.nested_namespaces.arguments().iter().map(OsString::from));
        argv.extend(plan.arguments());
        argv.extend([self.rookery.clone().into(), "relay".into(), "--egress".into()]);
        argv.push(Path::new(SERVED).join(EGRESS).into());
        argv.extend(["--limits".into(), self.bounds.limits.of_each_process().to_string().into()]);
        for listen in &self.listening {
            argv.extend(["--listen".into(), listen.argument()]);
        }
        argv.extend(["--".into(), program.into()]);
        argv.extend_from_slice(arguments);
        Ok(argv)
    }

    /// A program's environment as it is inside.
    pub(crate) fn environment(&self, env: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = env
            .iter()
            .filter(|(name, _)| !is_of_outside(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        // A daemon that is started in here would be another one.
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

/// In the project's own folder: who needs [placeholders](placeholder).
const PLACEHOLDERS: &str = "placeholders.lock";

/// Reads the head of a request to the proxy, for the fuzzer: the target, and the head that a plain request's target is sent.
#[doc(hidden)]
pub fn proxy_head(head: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    request::parse_head(head).map(|(target, forwarded)| (target.to_string(), forwarded))
}

/// What to say at the start of a team some of whose agents are to have a sandbox, and cannot.
pub fn missing(agents: &[Agent]) -> Option<String> {
    missing_if(Available::here(), agents)
}

pub(crate) fn missing_if(available: &Available, agents: &[Agent]) -> Option<String> {
    let mend = available.mend()?;
    let wants =
        |agent: &&Agent| agent.sandbox != file::Sandbox::Off && !matches!(agent.backend, file::Backend::Mock { .. });
    let names: Vec<&str> = agents.iter().filter(wants).map(|agent| agent.name.value.as_str()).collect();
    match names[..] {
        [] => None,
        [one] => Some(format!("{one} runs without a sandbox ({}): {mend}", available.why_not())),
        _ => Some(format!("{} run without a sandbox ({}): {mend}", names.join(", "), available.why_not())),
    }
}

/// Whether a variable means something else, or nothing, inside. The gate adds the session to every request, so that no key
/// has to be inside.
fn is_of_outside(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        matches!(name, "TMPDIR" | "ROOKERY_SESSION") || name.to_ascii_lowercase().ends_with("_proxy")
    })
}

/// The hosts that a card from the sandbox may name. The daemon is not among them: it would post to itself.
fn reach(rules: &[Rule], daemon_port: u16) -> SandboxReach {
    let is_daemon = |rule: &Rule| rule.on_loopback().is_some_and(|target| target.port == daemon_port);
    let hosts = rules.iter().filter(|rule| !is_daemon(rule)).flat_map(Rule::exact_hosts);
    SandboxReach { hosts: hosts.take(REACH_HOSTS).collect() }
}

/// Writes down how the daemon is reached from inside.
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
    fn who_has_no_sandbox_and_wanted_one_is_named() {
        let team = ready(
            "agents:\n  a: {backend: claude}\n  b: {backend: command, command: [x]}\n  \
             c: {backend: codex, sandbox: false}\n  d: {backend: mock, script: [{say: x}]}\nkickoff: '@a'\n",
        );
        let agents = &team.workflow.agents;
        let wanted = "a, b run without a sandbox (bubblewrap is not installed): install bubblewrap, or say `sandbox: false` in the workflow file";
        assert_eq!(missing_if(&Available::Missing, agents).as_deref(), Some(wanted));
        assert_eq!(missing_if(&Available::Missing, &agents[2..]), None);
        let there =
            Available::Yes { bwrap: "/usr/bin/bwrap".into(), version: "1".into(), nested: NestedNamespaces::Off };
        assert_eq!(missing_if(&there, agents), None);
    }
}
