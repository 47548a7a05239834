//! `rookery agents`

use reqwest::Method;
use rookery_client::Client;
use rookery_client::wire::{self, ListedAgent};
use rookery_core::Code;
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
/// The daemon posts the agent's messages to the URL. An agent that is known already keeps what is not given here. That host and port are allowed from then on, also on this machine and in
/// private networks and where tokens are required, until the agent leaves.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ADD_EXAMPLES)]
struct Add {
    /// The agent's id
    name: String,

    /// Where it takes messages, such as http://127.0.0.1:8080/clutch
    #[arg(long, value_name = "URL")]
    url: String,

    /// A capability, such as research, research@1.2 or tool:browser; may be given several times
    #[arg(long = "capability", value_name = "NAME[@VERSION]")]
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
    let known = match client.get(&path, &[]).await {
        Err(error) if error.code() == Some(Code::AgentNotFound.as_str()) => add.new_card(),
        card => card?,
    };
    let request = client.request(Method::PUT, &path, &[("allow_endpoint", "true".to_owned())]);
    let answer = client.json_of(request.json(&add.with_given(known))).await?;
    context.out.done(&answer, &format!("added {}; its messages are posted to {}", add.name, add.url))
}

impl Add {
    fn new_card(&self) -> Value {
        json!({ "v": "clutch/0.1", "agent_id": format!("agent:{}", self.name), "endpoints": {}, "capabilities": [] })
    }

    /// The card with the given endpoint and capabilities. A capability that is there already only gets the given version.
    fn with_given(&self, mut card: Value) -> Value {
        card["endpoints"]["clutch"]["url"] = json!(self.url);
        let mut capabilities = card["capabilities"].as_array().cloned().unwrap_or_default();
        for given in self.capabilities.iter().map(|text| capability(text)) {
            match capabilities.iter_mut().find(|known| known["id"] == given["id"]) {
                Some(known) if given["version"].is_string() => known["version"] = given["version"].clone(),
                Some(_) => {}
                None => capabilities.push(given),
            }
        }
        card["capabilities"] = json!(capabilities);
        card
    }
}

/// A capability as a card has it: a skill unless another kind is named.
fn capability(text: &str) -> Value {
    let (name, version) = match text.rsplit_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let id = if name.contains(':') { name.to_owned() } else { format!("skill:{name}") };
    match version {
        Some(version) => json!({ "id": id, "version": version }),
        None => json!({ "id": id }),
    }
}

fn table(agents: Vec<ListedAgent>, clock: &Clock) -> Table {
    let row = |agent: ListedAgent| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn add(capabilities: &[&str]) -> Add {
        let capabilities = capabilities.iter().map(|name| (*name).to_owned()).collect();
        Add { name: "ken".to_owned(), url: "http://127.0.0.1:1/new".to_owned(), capabilities }
    }

    #[test]
    fn capability_with_a_version_is_split_at_the_last_at_sign() {
        assert_eq!(capability("research"), json!({ "id": "skill:research" }));
        assert_eq!(capability("research@1.0"), json!({ "id": "skill:research", "version": "1.0" }));
        assert_eq!(capability("tool:browser@2"), json!({ "id": "tool:browser", "version": "2" }));
    }

    #[test]
    fn adding_a_known_agent_keeps_what_is_not_given() {
        let known = json!({
            "display": { "name": "Ken" },
            "endpoints": { "a2a": { "url": "http://a" }, "clutch": { "url": "http://old", "push": true } },
            "capabilities": [{ "id": "skill:research", "tools": ["mcp:files"] }, { "id": "skill:write" }],
            "limits": { "max_concurrency": 2 },
        });
        let card = add(&["research@1.1", "tool:browser"]).with_given(known);
        assert_eq!(
            card,
            json!({
                "display": { "name": "Ken" },
                "endpoints": { "a2a": { "url": "http://a" }, "clutch": { "url": "http://127.0.0.1:1/new", "push": true } },
                "capabilities": [
                    { "id": "skill:research", "tools": ["mcp:files"], "version": "1.1" },
                    { "id": "skill:write" },
                    { "id": "tool:browser" },
                ],
                "limits": { "max_concurrency": 2 },
            })
        );
    }
}
