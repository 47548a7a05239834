//! `rookery mcp`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;
use rookery_core::{Actor, AgentId, Instance};

use rookery_surfaces::mcp::Toolset;

use crate::cli::bridge::{self, Home, Options};
use crate::cli::client::Proof;
use crate::cli::context::Context;

/// Speak MCP on stdin and stdout, for programs that start their servers themselves
///
/// Carries messages to this project's daemon, which is started if none runs, and goes on when the daemon is restarted.
/// While it runs its agent counts as alive. A token is read from --token-file or from ROOKERY_TOKEN. Without one, the
/// project's key file proves which agent speaks, or in a sandbox ROOKERY_SESSION does.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which tools to offer
    #[arg(long, value_name = "SET", value_enum, default_value_t = Tools::All)]
    tools: Tools,

    /// The agent that speaks; without it, the one that it registers
    #[arg(long, value_name = "ID", env = "ROOKERY_AGENT_ID", hide_env_values = true)]
    agent: Option<String>,

    /// The instance that the agent is in, where its name does not say
    #[arg(long, value_name = "NAME", env = "ROOKERY_INSTANCE", hide_env_values = true)]
    instance: Option<String>,

    /// File with the agent's token
    #[arg(long, value_name = "FILE", env = "ROOKERY_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Tools {
    /// Every tool
    All,
    /// Agents, workflows, tasks, files
    Workflow,
    /// Channel, inbox, documents
    Context,
    /// Coordination messages and presence
    Coord,
    /// The few that daily work needs
    Team,
}

impl Tools {
    pub(super) fn set(self) -> Toolset {
        match self {
            Tools::All => Toolset::All,
            Tools::Workflow => Toolset::Workflow,
            Tools::Context => Toolset::Context,
            Tools::Coord => Toolset::Coord,
            Tools::Team => Toolset::Team,
        }
    }

    fn path(self) -> &'static [&'static str] {
        match self {
            Tools::All => &["mcp"],
            Tools::Workflow => &["mcp", "workflow"],
            Tools::Context => &["mcp", "context"],
            Tools::Coord => &["mcp", "coord"],
            Tools::Team => &["mcp", "team"],
        }
    }
}

/// A bare name is that of a member of the instance.
fn member(agent: String, instance: Option<&str>) -> String {
    let bare = AgentId::from(agent.as_str());
    match instance.filter(|instance| !instance.is_empty()) {
        Some(instance) if Instance::of(&bare) == Instance::default() && !Actor::is_reserved(&agent) => {
            Instance::new(instance).agent(&agent).to_string()
        }
        _ => agent,
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = context.settled()?;
    let token = match &args.token_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(text.trim().to_owned())
        }
        None => std::env::var("ROOKERY_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let proof = token.map_or_else(Proof::inherited, Proof::Bearer);
    let home = Home { project, start: context.start, proof };
    let agent = args.agent.filter(|agent| !agent.is_empty());
    let agent = agent.map(|agent| member(agent, args.instance.as_deref()));
    let instance = args.instance.filter(|instance| !instance.is_empty());
    let options = Options { path: args.tools.path(), agent, instance, heartbeat: *settings.heartbeat_interval };
    bridge::run(home, options).await
}
