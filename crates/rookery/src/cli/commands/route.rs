//! `rookery route`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use rookery_client::wire::{self, RouteChoice};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Format, Table, TextStyle};

/// Ask the router whom work would be given to
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Explain(Explain),
}

/// Tell whom a request would be given to now, and why nobody else
///
/// Nothing is sent and nothing is stored. What is asked for is told by options, by a draft of a `task.request` in JSON, or
/// by both: options take the place of what the draft says.
#[derive(Debug, clap::Args)]
struct Explain {
    /// A `task.request`, or as much of one as there is; - for what comes in
    #[arg(value_name = "FILE")]
    draft: Option<PathBuf>,

    /// What the agent must have, such as skill:research@^1.0; may be given more than once
    #[arg(long, value_name = "CAPABILITY")]
    requires: Vec<String>,

    /// What is better to have, such as tool:browser or domain:fintech; may be given more than once
    #[arg(long, value_name = "CAPABILITY")]
    prefers: Vec<String>,

    /// Whom it is to: an agent, or a group such as group:workers; may be given more than once
    #[arg(long, value_name = "WHOM")]
    to: Vec<String>,

    /// What it is about; agents with that tag are preferred if nothing else is
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,

    /// Only agents in a sandbox
    #[arg(long)]
    sandbox: bool,

    /// A tool that may be used, and no others, such as mcp:files; may be given more than once
    #[arg(long, value_name = "TOOL")]
    allow_tool: Vec<String>,

    /// What the agent must reach
    #[arg(long, value_enum, value_name = "REACH")]
    network: Option<Network>,

    /// How far the agent must be trusted
    #[arg(long, value_enum, value_name = "LEVEL")]
    trust_level: Option<TrustLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Network {
    None,
    EgressRestricted,
    EgressAllowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TrustLevel {
    Sandbox,
    Prod,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let Command::Explain(asked) = args.command;
    let mut draft = match &asked.draft {
        Some(file) => read(file).await?,
        None => Map::new(),
    };
    asked.fill_in(&mut draft)?;
    let answer = context.client().await?.post(&["clutch", "v0", "router", "explain"], &draft).await?;
    if context.out.format() == Format::Json {
        return context.out.json(&answer);
    }
    let choice: RouteChoice = wire::read(&answer)?;
    match &choice.selected {
        Some(agent) => context.out.line(&format!("{}: {}", named(agent), choice.reason), TextStyle::Good)?,
        None => context.out.line(&choice.reason, TextStyle::Warning)?,
    }
    context.out.show(&answer, |_| Ok(table(&choice)))
}

async fn read(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        tokio::io::stdin().read_to_end(&mut bytes).await.map(|_| bytes).context("cannot read what comes in")
    } else {
        tokio::fs::read(file).await.with_context(|| format!("cannot read {}", file.display()))
    }?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::new(format!("{} is not an object of JSON: {error}", file.display()))
            .hint("write a task.request, such as {\"requires\": [\"skill:research\"]}")
            .into()
    })
}

impl Explain {
    /// Puts into the draft what the options say.
    fn fill_in(&self, draft: &mut Map<String, Value>) -> anyhow::Result<()> {
        for (field, asked) in [("requires", &self.requires), ("prefers", &self.prefers)] {
            if !asked.is_empty() {
                draft.insert(field.to_owned(), json!(asked));
            }
        }
        if !self.to.is_empty() {
            draft.insert("to".to_owned(), self.to.iter().map(|whom| json!({ "agent_id": whom })).collect());
        }
        if let Some(domain) = &self.domain {
            draft.insert("domain".to_owned(), json!(domain));
        }
        let policy = self.policy();
        if !policy.is_empty() {
            below(below(draft, "security")?, "policy")?.extend(policy);
        }
        Ok(())
    }

    fn policy(&self) -> Map<String, Value> {
        let word = |value: Option<clap::builder::PossibleValue>| value.map(|value| json!(value.get_name()));
        let said = [
            ("sandbox", self.sandbox.then_some(json!(true))),
            ("tool_allowlist", (!self.allow_tool.is_empty()).then(|| json!(self.allow_tool))),
            ("network", word(self.network.and_then(|value| value.to_possible_value()))),
            ("trust_level", word(self.trust_level.and_then(|value| value.to_possible_value()))),
        ];
        said.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
    }
}

/// The object in a field, which is made if there is none.
fn below<'m>(fields: &'m mut Map<String, Value>, field: &str) -> anyhow::Result<&'m mut Map<String, Value>> {
    let value = fields.entry(field).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or_else(|| Failure::new(format!("the draft's `{field}` is not an object")).into())
}

/// Whoever fits, the best first, and then the others.
fn table(choice: &RouteChoice) -> Table {
    let fits = choice.candidates.iter().map(|agent| {
        let score = choice.scores.get(agent).map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
        let outcome = match choice.selected.as_ref() == Some(agent) {
            true => Cell::new("selected", TextStyle::Good),
            false => Cell::new("fits", TextStyle::Plain),
        };
        vec![named(agent).into(), score.into(), outcome]
    });
    let rejected = choice
        .rejected
        .iter()
        .map(|(agent, reason)| vec![named(agent).into(), "-".into(), Cell::new(reason.as_str(), TextStyle::Dim)]);
    Table { headings: &["AGENT", "SCORE", "OUTCOME"], rows: fits.chain(rejected).collect(), empty: "no agents" }
}

/// An agent as people call it.
fn named(address: &str) -> &str {
    address.strip_prefix("agent:").unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        asked: Explain,
    }

    fn filled(mut draft: Value, args: &[&str]) -> anyhow::Result<Value> {
        let line = Line::try_parse_from(std::iter::once(&"explain").chain(args))?;
        line.asked.fill_in(draft.as_object_mut().unwrap())?;
        Ok(draft)
    }

    #[test]
    fn options_take_the_place_of_what_the_draft_says() {
        let draft = json!({ "requires": ["a"], "prefers": ["b"], "security": { "auth": 1, "policy": { "sandbox": false, "x": 1 } } });
        assert_eq!(filled(draft.clone(), &[]).unwrap(), draft);
        let args = ["--requires", "c", "--requires", "d", "--to", "group:workers", "--sandbox", "--network", "none"];
        let expected = json!({ "requires": ["c", "d"], "prefers": ["b"], "to": [{ "agent_id": "group:workers" }],
            "security": { "auth": 1, "policy": { "sandbox": true, "x": 1, "network": "none" } } });
        assert_eq!(filled(draft, &args).unwrap(), expected);
        let all = ["--domain", "law", "--allow-tool", "mcp:files", "--trust-level", "prod"];
        let expected = json!({ "domain": "law",
            "security": { "policy": { "tool_allowlist": ["mcp:files"], "trust_level": "prod" } } });
        assert_eq!(filled(json!({}), &all).unwrap(), expected);
        assert!(filled(json!({ "security": 1 }), &["--sandbox"]).is_err());
    }
}
