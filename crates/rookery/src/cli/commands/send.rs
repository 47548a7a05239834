//! `rookery send`

use rookery_client::tools::ToolCallAnswer;
use rookery_client::{Client, ClientError, Tools};
use rookery_core::kernel::instance::namesake;
use rookery_core::messages::mentions;
use rookery_core::model::addressee::Address;
use rookery_core::{AgentId, Instance};
use serde_json::{Value, json};

use super::context::typed;
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::roster::{Left, Meant, Missing, Roster, recipient};

/// Send a message to an agent
///
/// It goes to the channel of the agent's instance and mentions it, so that it reaches its inbox and wakes it.
/// Without --to it goes to the one agent that runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to say; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    message: String,

    /// The agent, such as reviewer or reviewer@pr-123
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let message = typed(args.message)?;
    let message = message.trim_end_matches(['\r', '\n']);
    if message.trim().is_empty() {
        return Err(Failure::usage("there is nothing to send")
            .hint("write the message after `send`, or - to read it from stdin")
            .into());
    }
    let client = context.client().await?;
    let roster = Roster::read(&client).await?;
    let agent = chosen(context, &roster, args.to.as_deref())?;
    let meant = known(&client, &roster, &agent).await?;
    meant.note().iter().for_each(|note| context.out.note(note));
    let answer = send(client, &meant, message).await?;
    let agent = meant.agent;
    if let Some(why) = answer.value["held"].as_str() {
        let failure = Failure::new(format!("it did not reach {agent}: {why}"));
        return Err(failure.hint("a person lets it go with `rookery context held`").into());
    }
    answer.notes.iter().for_each(|note| context.out.note(note));
    if roster.find(&agent).is_none() {
        context.out.note(&format!("no runner runs {agent}: it gets the message when it looks for it"));
    }
    let mut value = answer.value;
    if !value["unknown"].as_array().is_none_or(Vec::is_empty) && value["mentions"].as_array().is_none_or(Vec::is_empty)
    {
        return Err(Failure::new(format!("{agent} left meanwhile: the channel has it, and nobody was told")).into());
    }
    value["to"] = agent.as_str().into();
    context.out.done(&value, &format!("sent to {agent}"))
}

/// Who is meant; where several run, whoever sits at the terminal is asked.
fn chosen(context: &Context, roster: &Roster, to: Option<&str>) -> anyhow::Result<AgentId> {
    let missing = match (to, roster.only()) {
        (None, Err(Missing::Several(names))) => names,
        _ => return Ok(recipient(roster, to)?),
    };
    match context.out.ask(&format!("To whom ({missing})?"))?.filter(|answer| !answer.is_empty()) {
        Some(answer) => Ok(recipient(roster, Some(&answer))?),
        None => Err(Failure::from(Missing::Several(missing)).into()),
    }
}

/// The agent that the name means. One that has left gets nothing, unless its team runs.
async fn known(client: &Client, roster: &Roster, agent: &AgentId) -> anyhow::Result<Meant> {
    if let Some(meant) = Meant::read(client, agent, Left::Ignored).await?.or_else(|| roster.meant(agent)) {
        return Ok(meant);
    }
    let failure = Failure::new(format!("no agent named '{agent}' here"));
    let hint = match roster.names() {
        names if names.is_empty() => "start it first; `rookery agents` lists all agents".to_owned(),
        names => format!("start it first; these run: {names}; `rookery agents` lists all agents"),
    };
    Err(failure.hint(hint).into())
}

async fn send(client: Client, meant: &Meant, message: &str) -> Result<ToolCallAnswer, ClientError> {
    let agent = &meant.agent;
    let instance = Instance::of(agent);
    let tools = Tools::new(client, None).in_instance(Some(instance.name().to_owned()));
    let arguments = |fields: &[(&str, &str)]| -> Value {
        fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
    };
    let entry = arguments(&[("message", &mentioning(meant, &instance, message))]);
    match tools.call("channel_send", entry).await {
        // Where there is no channel, it is for the agent alone.
        Err(error) if error.code() == Some("CONTEXT_DISABLED") => {
            let to = Address::Agent(agent.clone()).to_string();
            tools.call("channel_send", arguments(&[("message", message), ("to", &to)])).await
        }
        sent => sent,
    }
}

/// The message so that it mentions the agent.
fn mentioning(meant: &Meant, instance: &Instance, message: &str) -> String {
    let Meant { agent, member } = meant;
    let mentioned = mentions(message, instance);
    let is_named = namesake(agent).is_some_and(|name| member.is_none() && mentioned.contains(&name));
    if is_named || mentioned.contains(agent) {
        return message.to_owned();
    }
    match member {
        Some(_) => format!("@{} {message}", Address::Agent(agent.clone())),
        None => format!("@{} {message}", instance.calls(agent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_mentions_whom_it_is_for_once() {
        let said_beside = |agent: &str, member: Option<&str>, message: &str| {
            let meant = Meant { agent: agent.into(), member: member.map(AgentId::from) };
            mentioning(&meant, &Instance::of(&meant.agent), message)
        };
        let said = |agent: &str, message: &str| said_beside(agent, None, message);
        assert_eq!(said("helper", "hello"), "@helper hello");
        assert_eq!(said("helper", "@helper hello"), "@helper hello");
        assert_eq!(said("coder@default", "hello"), "@coder hello");
        assert_eq!(said_beside("coder", Some("coder@default"), "ask @coder"), "@agent:coder ask @coder");
        assert_eq!(said("coder@pr-1", "hello"), "@coder hello");
        assert_eq!(said("coder@pr-1", "look, @coder: here"), "look, @coder: here");
        assert_eq!(said("coder@pr-1", "as @coders say"), "@coder as @coders say");
    }
}
