//! `rookery log`

use std::time::Duration;

use rookery_client::wire::{self, LoggedEvent};
use rookery_client::{Client, EventFollower, StreamItem};
use rookery_surfaces::rest::event_names::{EventFilter, shown};
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};
use crate::cli::sentence::{Titles, sentence};

/// How long a daemon that went away is looked for.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Show the event log, oldest first
///
/// Each line has the number of the event, its time, its type, and the message or the action; --json shows events as REST has them.
/// With -f it continues as events happen, and after a lost connection where it stopped.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Continue with events as they happen
    #[arg(long, short)]
    follow: bool,

    /// How many of the newest events to show
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1000))]
    lines: u16,

    /// Only events of this agent
    #[arg(long)]
    agent: Option<String>,

    /// Only events of this run
    #[arg(long)]
    run: Option<String>,

    /// Only events of this type, such as task.completed or message.sent
    #[arg(long = "type", value_name = "TYPE")]
    action: Option<String>,

    /// Only events about this file
    #[arg(long, value_name = "PATH")]
    resource: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    if let Some(unknown) = args.action.as_deref().and_then(|name| EventFilter::parse(name).err()) {
        return Err(Failure::usage(unknown.to_string()).hint(unknown.hint()).into());
    }
    let client = context.client().await?;
    let filters = args.filters();
    let mut query = filters.clone();
    query.push(("limit", args.lines.max(1).to_string()));
    let answer = client.get_at(&["events"], &query).await?;
    let mut events: Vec<Value> = wire::read(&answer.body)?;
    events.truncate(args.lines.into());
    events.reverse();
    if context.out.format() == Format::Json && !args.follow {
        return context.out.json(&events);
    }
    let mut printer = EventPrinter { context, client: &client, titles: Titles::default() };
    for event in &events {
        printer.show(event, None).await?;
    }
    if events.is_empty() && !args.follow {
        context.out.note("no events");
    }
    if args.follow { follow(printer, client.follow(filters, answer.position, RECONNECT_TIMEOUT)).await } else { Ok(()) }
}

impl Args {
    fn filters(&self) -> Vec<(&'static str, String)> {
        let filters =
            [("agent_id", &self.agent), ("run", &self.run), ("action", &self.action), ("resource", &self.resource)];
        filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Shows events as they come, for ever; resumes by position on the daemon's new address if it moved.
async fn follow(mut printer: EventPrinter<'_>, mut follower: EventFollower) -> anyhow::Result<()> {
    let context = printer.context;
    while let Some(followed) = follower.next().await {
        match followed {
            Ok(StreamItem::Event { event, position }) => printer.show(&event, position.as_deref()).await?,
            Ok(StreamItem::Lost) => context.out.note("the event stream is lost; trying to find it again"),
            Ok(StreamItem::Replaced) => context.out.note("the log was replaced; continuing with what happens from now"),
            Err(error) if error.status().is_some_and(|status| status < 500) => return Err(error.into()),
            Err(error) => {
                let failure = Failure::unreachable(format!("the event stream is lost: {error}"));
                return Err(failure.hint("start the daemon with `rookery up`, then follow the log again").into());
            }
        }
    }
    Ok(())
}

/// Prints events, with the titles of their tasks.
struct EventPrinter<'a> {
    context: &'a Context,
    client: &'a Client,
    titles: Titles,
}

impl EventPrinter<'_> {
    async fn show(&mut self, event: &Value, position: Option<&str>) -> anyhow::Result<()> {
        let out = &self.context.out;
        match out.format() {
            Format::Json => out.json_line(event),
            Format::Human => {
                let event: LoggedEvent = wire::read(event)?;
                // Without the title a task is named by its id, which is better than no line.
                self.titles.learn(&event, self.client).await.ok();
                out.line(&line(&event, position, out.clock(), &self.titles), tone(&event.action))
            }
        }
    }
}

/// An event on one line: number, time, type, sentence.
fn line(event: &LoggedEvent, position: Option<&str>, clock: &Clock, titles: &Titles) -> String {
    let seq = event.seq().map(|seq| seq.to_string());
    let seq = seq.or_else(|| position.map(|position| position.rsplit(':').next().unwrap_or(position).to_owned()));
    let (seq, time, name) = (seq.unwrap_or_default(), clock.local(event.timestamp), shown(&event.action));
    format!("{seq:>6}  {time}  {name:<26}  {}", sentence(event, titles)).trim_end().to_owned()
}

fn tone(action: &str) -> TextStyle {
    match action {
        "resource.conflict_detected" | "task.blocked" | "authority.escalation" => TextStyle::Bad,
        "task.completed" | "resource.conflict_resolved" | "handoff.accepted" => TextStyle::Good,
        "handoff.rejected" | "agent.left" | "authority.decision" => TextStyle::Warning,
        "agent.heartbeat" => TextStyle::Dim,
        _ => TextStyle::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(extra: Value) -> LoggedEvent {
        let mut event = json!({
            "id": "evt_1", "timestamp": 1_700_000_000_000_i64, "agent_id": "cursor-1", "action": "resource.claimed",
            "resource": "src/a.rs", "task_id": "task_1", "before_hash": null, "after_hash": null, "metadata": {},
        });
        extra.as_object().unwrap().iter().for_each(|(name, value)| event[name] = value.clone());
        wire::read(&event).unwrap()
    }

    #[test]
    fn an_event_is_one_line() {
        let clock = Clock::fixed(0);
        let plain = line(&event(json!({})), None, &clock, &Titles::default());
        assert_eq!(plain, "        2023-11-14 22:13:20  resource.claimed            cursor-1 claimed src/a.rs");
        let said =
            json!({"action": "x.message.sent", "resource": null, "task_id": null, "metadata": {"text": "hello"}});
        let full = line(&event(said), Some("log_1:42"), &clock, &Titles::default());
        assert_eq!(full, "    42  2023-11-14 22:13:20  message.sent                cursor-1: hello");
    }
}
