//! `rookery mcp`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;
use rookery_client::Proof;
use rookery_core::Instance;
use rookery_engine::agent_named;
use rookery_surfaces::mcp::Toolset;

use crate::cli::bridge::{self, Home, Options};
use crate::cli::context::{self, Context};
use crate::cli::failure::Failure;

/// Speak MCP on stdin and stdout, for programs that start their servers themselves
///
/// Carries messages to this project's daemon and continues when the daemon is restarted. If none runs, it is started where
/// `.rookery/` is there already; elsewhere the command ends with exit code 3.
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

/// The agent that is to speak. A bare name is that of a member of the instance, and in `default` that of a standalone agent.
pub(super) fn member(agent: &str, instance: Option<&str>) -> Result<String, Failure> {
    let instance = instance.map_or_else(Instance::default, Instance::new);
    let member = instance.caller(agent);
    let named = agent_named("--agent", member.as_str()).map_err(|refusal| {
        Failure::usage(format!("no agent can be called '{agent}': {}", refusal.message)).hint(
            "an agent's name has no spaces and is not kept for others, as 'system' and what begins with 'person:' are",
        )
    })?;
    Ok(named.to_string())
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
    let proof = token.map_or_else(context::inherited, Proof::Token);
    if !project.exists() {
        // Programs start their servers in whatever folder they are in: that makes no project of it.
        return Err(context::no_daemon(&project).into());
    }
    let home = Home { project, start: context.start, proof };
    let instance = args.instance.filter(|instance| !instance.is_empty());
    let agent = args.agent.filter(|agent| !agent.is_empty());
    let agent = agent.map(|agent| member(&agent, instance.as_deref())).transpose()?;
    let session_id = context.out.clock().session_id();
    let heartbeat = settings.heartbeat_interval;
    let options = Options { path: args.tools.path(), agent, instance, heartbeat, session_id };
    bridge::run(home, options).await
}
