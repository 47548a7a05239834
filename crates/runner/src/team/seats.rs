//! Prepares the agents of a team: their working folders, registrations and seats.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rookery_client::{Client, ClientError, Proof, Tools};
use rookery_core::AgentId;
use rookery_core::kernel::session_key::TeamSession;
use serde_json::{Value, json};

use super::lock::{TeamLock, create_private_folder};
use super::{Order, TeamError};
use crate::backend::{Daemon, Environment, Provider, Seat, Secret};
use crate::file::{Agent, Backend, Ready, Variables, WorkspaceKind};

/// Time for creating a worktree; longer than the daemon's own limit.
const WORKTREE_TIMEOUT: Duration = Duration::from_secs(180);
/// Lifetime of the session that registers an agent; longer than the registration takes, even while the daemon is unavailable.
const REGISTRATION_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the working folder of an agent: the project, or the agent's worktree, which is created if missing.
pub(super) async fn folder(order: &Order, agent: &Agent, id: &AgentId) -> Result<PathBuf, TeamError> {
    if agent.workspace == WorkspaceKind::Shared {
        return Ok(order.project.clone());
    }
    let tools = Tools::as_agent(&order.client, id.as_str())?;
    let branch = branch(order, &agent.name.value);
    if let Some(path) = find_worktree(&tools, &branch).await? {
        return Ok(path);
    }
    let arguments = json!({"branch": branch, "create_worktree": true, "repo_path": order.project});
    let created = tools.call_within(WORKTREE_TIMEOUT, "workspace_create", arguments).await;
    let created =
        created.map_err(|error| TeamError::Worktree { agent: agent.name.value.clone(), source: Box::new(error) })?;
    Ok(PathBuf::from(created.value["path"].as_str().unwrap_or_default()))
}

/// The branch of an agent's worktree, which is the same each time its team is started.
fn branch(order: &Order, name: &str) -> String {
    format!("rookery/{}/{name}", order.ready.variables.instance.name())
}

async fn find_worktree(tools: &Tools, branch: &str) -> Result<Option<PathBuf>, ClientError> {
    let listed = tools.call("workspace_list", json!({})).await?;
    let all = listed.value["workspaces"].as_array().cloned().unwrap_or_default();
    let fits = |one: &Value| one["branch"] == branch && one["status"] == "active";
    let path = all.iter().find(|one| fits(one)).and_then(|one| one["path"].as_str()).map(PathBuf::from);
    Ok(path.filter(|path| path.is_dir()))
}

/// Registers an agent with the daemon, so that messages reach it. Uses a session of the team, so that the agent's credential
/// does not outlive the team.
pub(super) async fn register(
    order: &Order,
    generation: u64,
    agent: &Agent,
    id: &AgentId,
    folder: &Path,
) -> Result<(), ClientError> {
    let announcement = json!({
        "id": id,
        "name": agent.name.value,
        "tool": agent.backend.as_str(),
        "role": "worker",
        "workspace_path": folder,
        "metadata": {"workflow": order.ready.name, "team": order.team()},
    });
    let session = order.client.session_issuer(id, TeamSession { team: order.team(), generation })?;
    let client = order.client.clone().with_proof(Proof::Session(session.key(REGISTRATION_LIFETIME)));
    client.post(&["agents", "announce"], &announcement).await.map(drop)
}

/// Unregisters an agent, which releases its claims.
pub(super) async fn leave(client: &Client, id: &AgentId) -> Result<(), ClientError> {
    client.as_agent(id.as_str())?.delete(&["agents", id.as_str()]).await.map(drop)
}

/// Creates the seat of an agent, which is the same for all its turns.
pub(super) fn seat(
    order: &Order,
    ready: &Ready,
    agent: &Agent,
    place: SeatContext<'_>,
    variables: &Arc<Variables>,
) -> Result<Seat, TeamError> {
    let id = order.team().member(&agent.name.value);
    let state = place.held.folder.join(&agent.name.value);
    create_private_folder(&state).map_err(|source| TeamError::State { path: state.clone(), source })?;
    let address = order.client.address();
    let session = TeamSession { team: order.team(), generation: place.generation };
    let (max_tokens, provider) = match &agent.backend {
        Backend::Sdk { provider, max_tokens } => (*max_tokens, provider_of(provider, variables)),
        Backend::Program(_) | Backend::Command { .. } | Backend::Mock { .. } => (None, Provider::default()),
    };
    Ok(Seat {
        name: agent.name.value.clone(),
        instance: ready.variables.instance.clone(),
        generation: place.generation,
        project: order.project.clone(),
        folder: place.folder.to_path_buf(),
        state,
        tools: Tools::as_agent(&order.client, id.as_str())?,
        session: order.client.session_issuer(&id, session)?,
        daemon: Daemon { url: address.url, socket: address.socket },
        env: Environment(agent.environment(variables)),
        model: agent.model.as_ref().map(|model| variables.fill(model)),
        allowed: agent.tools.as_ref().map(|tools| tools.iter().map(|tool| tool.value.clone()).collect()),
        sandbox: agent.sandbox.clone(),
        program: order.program.clone(),
        records: place.held.records(),
        max_tokens,
        provider,
        variables: Arc::clone(variables),
        id,
    })
}

/// The surroundings of an agent's seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatContext<'a> {
    /// The locked folder of its team.
    pub(super) held: &'a TeamLock,
    /// The working folder of its programs.
    pub(super) folder: &'a Path,
    pub(super) generation: u64,
}

fn provider_of(provider: &crate::file::Provider, variables: &Variables) -> Provider {
    let key = provider.api_key.as_ref().and_then(|name| variables.env.get(&name.value));
    Provider {
        base_url: provider.base_url.as_ref().map(|url| variables.fill(url)),
        api_key: key.map(|key| Secret(key.clone())),
    }
}
