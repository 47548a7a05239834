//! `rookery agents`

use reqwest::Method;
use rookery_client::Client;
use rookery_client::wire::{self, Agent};
use serde_json::{Value, json};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the agents: what each is, does, and when it was last seen
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Add(Add),
}

/// Register an agent that takes its messages at an HTTP endpoint
///
/// The daemon posts the agent's messages to the URL. That host and port are allowed from then on, also on this machine and in
/// private networks and where tokens are required, until the agent leaves.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ADD_EXAMPLES)]
struct Add {
    /// The agent's id
    name: String,

    /// Where it takes messages, such as http://127.0.0.1:8080/clutch
    #[arg(long, value_name = "URL")]
    url: String,

    /// A capability, such as research or tool:browser; may be given several times
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
}

const ADD_EXAMPLES: &str = "Examples:
  rookery agents add ken --url http://127.0.0.1:8080/clutch
  rookery agents add ken --url https://ken.example/in --capability research --capability tool:browser";

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    match args.command {
        None => {
            let agents = client.get(&["agents"], &[]).await?;
            context.out.show(&agents, |clock| Ok(table(wire::read(&agents)?, clock)))
        }
        Some(Command::Add(add)) => register(context, &client, &add).await,
    }
}

async fn register(context: &Context, client: &Client, add: &Add) -> anyhow::Result<()> {
    let path = ["clutch", "v0", "agents", &add.name];
    let request = client.request(Method::PUT, &path, &[("allow_endpoint", "true".to_owned())]);
    let answer = client.json_of(request.json(&add.card())).await?;
    context.out.done(&answer, &format!("added {}; its messages are posted to {}", add.name, add.url))
}

impl Add {
    fn card(&self) -> Value {
        let capability = |name: &String| match name.contains(':') {
            true => json!({ "id": name }),
            false => json!({ "id": format!("skill:{name}") }),
        };
        json!({
            "v": "clutch/0.1",
            "agent_id": format!("agent:{}", self.name),
            "endpoints": { "clutch": { "url": self.url } },
            "capabilities": self.capabilities.iter().map(capability).collect::<Vec<_>>(),
        })
    }
}

fn table(agents: Vec<Agent>, clock: &Clock) -> Table {
    let row = |agent: Agent| {
        let tone = match agent.status.as_str() {
            _ if agent.paused.is_some() => TextStyle::Warning,
            "working" => TextStyle::Good,
            "blocked" | "waiting_review" => TextStyle::Warning,
            "offline" => TextStyle::Dim,
            _ => TextStyle::Plain,
        };
        vec![
            agent.id.into(),
            agent.tool.into(),
            agent.role.into(),
            Cell::new(if agent.paused.is_some() { format!("{}, paused", agent.status) } else { agent.status }, tone),
            agent.current_task.unwrap_or_else(|| "-".into()).into(),
            clock.age(agent.last_heartbeat).into(),
            agent.capabilities.join(", ").into(),
        ]
    };
    Table {
        headings: &["AGENT", "TOOL", "ROLE", "STATUS", "TASK", "SEEN", "CAPABILITIES"],
        rows: agents.into_iter().map(row).collect(),
        empty: "no agent has joined yet",
    }
}
