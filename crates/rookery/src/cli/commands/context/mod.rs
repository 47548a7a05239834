//! `rookery context`: the team's messages and documents for programs that do not speak MCP. Each command calls the tool
//! of the daemon that does the same.

mod configure;
mod coord;
mod documents;
mod held;
mod messages;

use std::io::Read as _;

use anyhow::Context as _;
use rookery_client::Proof;
use rookery_client::Tools;
use rookery_client::tools::ToolCallAnswer;
use serde_json::Value;

use super::mcp::member;
use crate::cli::context::{Context, inherited};
use crate::cli::output::{Format, TextStyle};

/// Talk to the team and write its documents, as an agent that does not speak MCP
///
/// Without --agent you speak as the person who owns the project. A token in ROOKERY_TOKEN or a session in ROOKERY_SESSION
/// is shown, if there is one, else the project's key file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent that speaks, such as reviewer or reviewer@pr-123
    #[arg(long, global = true, value_name = "ID", env = "ROOKERY_AGENT_ID", hide_env_values = true)]
    agent: Option<String>,

    /// The instance you speak in, where the agent's name does not say
    #[arg(long, global = true, value_name = "NAME", env = "ROOKERY_INSTANCE", hide_env_values = true)]
    instance: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Send(messages::Send),
    Read(messages::Read),
    Peek(messages::Peek),
    /// Show the messages to you that you have not acknowledged
    #[command(visible_alias = "mentions")]
    Inbox(messages::Inbox),
    Ack(messages::Ack),
    Wait(messages::Wait),
    Status(messages::Status),
    /// Read and write the shared documents
    #[command(subcommand)]
    Doc(documents::Command),
    /// Coordination messages, which each recipient acknowledges
    #[command(subcommand)]
    Coord(coord::Command),
    /// Show who is active, stale or offline
    Presence,
    /// Show the messages that wait for you to decide, because they looked like a storm
    Held,
    Release(held::Release),
    Discard(held::Discard),
    /// Say what an instance's context is kept in: files, memory, or nothing
    Configure(configure::Configure),
    /// Show what an instance's context is kept in, or that of all
    Where,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let room = Room::enter(context, args.agent, args.instance.clone()).await?;
    match args.command {
        Command::Configure(configure) => configure::configure(context, configure, args.instance).await,
        Command::Where => configure::tell(context, args.instance).await,
        Command::Send(send) => messages::send(&room, send).await,
        Command::Read(read) => messages::read(&room, read).await,
        Command::Peek(peek) => messages::peek(&room, peek).await,
        Command::Inbox(inbox) => messages::inbox(&room, inbox).await,
        Command::Ack(ack) => messages::ack(&room, ack).await,
        Command::Wait(wait) => messages::wait(&room, wait).await,
        Command::Status(status) => messages::status(&room, status).await,
        Command::Doc(command) => documents::run(&room, command).await,
        Command::Coord(command) => coord::run(&room, command).await,
        Command::Presence => coord::presence(&room).await,
        Command::Held => held::list(context).await,
        Command::Release(release) => held::release(context, release).await,
        Command::Discard(discard) => held::discard(context, discard).await,
    }
}

/// Where the team talks: the daemon's tools, and the one who is shown what they answer.
struct Room<'a> {
    context: &'a Context,
    tools: Tools,
}

impl Room<'_> {
    async fn enter(context: &Context, agent: Option<String>, instance: Option<String>) -> anyhow::Result<Room<'_>> {
        let instance = instance.filter(|instance| !instance.is_empty());
        let agent = agent.filter(|agent| !agent.is_empty());
        let agent = agent.map(|agent| member(&agent, instance.as_deref())).transpose()?;
        let client = context.client().await?;
        let client = match own_proof() {
            Some(proof) => client.with_proof(proof),
            None => client,
        };
        Ok(Room { context, tools: Tools::new(client, agent).in_instance(instance) })
    }

    /// What a tool answers; what else it wants noticed is told beside.
    async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<ToolCallAnswer> {
        let answer = self.tools.call(tool, given(arguments)).await?;
        self.notes(&answer);
        Ok(answer)
    }

    fn notes(&self, answer: &ToolCallAnswer) {
        answer.notes.iter().for_each(|note| self.context.out.note(note));
    }

    /// Shows an answer as JSON, or by the words that the tool has for it.
    fn said(&self, answer: &ToolCallAnswer) -> anyhow::Result<()> {
        self.context.out.done(&answer.value, &answer.text)
    }

    /// Shows an answer as JSON, or in a form for people.
    fn show(&self, answer: &ToolCallAnswer, human: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        match self.context.out.format() {
            Format::Json => self.context.out.json(&answer.value),
            Format::Human => human(),
        }
    }

    /// A heading and the text below it, line by line.
    fn block(&self, heading: &str, text: &str) -> anyhow::Result<()> {
        self.context.out.line(heading, TextStyle::Good)?;
        text.lines().try_for_each(|line| self.context.out.line(line, TextStyle::Plain))?;
        self.context.out.line("", TextStyle::Plain)
    }
}

/// What this process can show as an agent's own. The project's key file is the person's.
fn own_proof() -> Option<Proof> {
    match std::env::var("ROOKERY_TOKEN").ok().filter(|token| !token.is_empty()) {
        Some(token) => Some(Proof::Token(token)),
        None => Some(inherited()).filter(|proof| *proof != Proof::Nothing),
    }
}

/// Arguments without those that were not given.
fn given(arguments: Value) -> Value {
    match arguments {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// A text as it was typed, or what comes by stdin if it is `-`.
pub(super) fn typed(text: String) -> anyhow::Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    std::io::stdin().read_to_string(&mut read).context("cannot read the text from stdin")?;
    Ok(read)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Names in one piece.
fn names(value: &Value) -> String {
    list(value).iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_given_is_not_asked_for() {
        assert_eq!(given(json!({"limit": null, "since": "x"})), json!({"since": "x"}));
    }
}
