//! `rookery log`

use std::time::Duration;

use rookery_client::wire::{self, Event};
use rookery_client::{Followed, Follower};
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};

/// How long a daemon that went away is looked for.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Metadata beyond this many characters is left to `--json`.
const DETAIL_CHARS: usize = 80;

/// Show the event log, oldest first
///
/// With -f it goes on as events happen, and after a lost connection where it stopped.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go on with events as they happen
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

    /// Only events of this type, such as task.completed
    #[arg(long = "type", value_name = "TYPE")]
    action: Option<String>,

    /// Only events about this file
    #[arg(long, value_name = "PATH")]
    resource: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
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
    for event in &events {
        show(context, event, None)?;
    }
    if events.is_empty() && !args.follow {
        context.out.note("no events");
    }
    if args.follow { follow(context, client.follow(filters, answer.position, RECONNECT_TIMEOUT)).await } else { Ok(()) }
}

impl Args {
    fn filters(&self) -> Vec<(&'static str, String)> {
        let filters =
            [("agent_id", &self.agent), ("run", &self.run), ("action", &self.action), ("resource", &self.resource)];
        filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Shows events as they come, for ever; resumes by position on the daemon's new address if it moved.
async fn follow(context: &Context, mut follower: Follower) -> anyhow::Result<()> {
    while let Some(followed) = follower.next().await {
        match followed {
            Ok(Followed::Event { event, position }) => show(context, &event, position.as_deref())?,
            Ok(Followed::Lost) => context.out.note("the event stream is lost; trying to find it again"),
            Ok(Followed::Replaced) => context.out.note("the log was replaced; going on with what happens from now"),
            Err(error) if error.status().is_some_and(|status| status < 500) => return Err(error.into()),
            Err(error) => {
                let failure = Failure::unreachable(format!("the event stream is lost: {error}"));
                return Err(failure.hint("start the daemon with `rookery up`, then follow the log again").into());
            }
        }
    }
    Ok(())
}

fn show(context: &Context, event: &Value, position: Option<&str>) -> anyhow::Result<()> {
    match context.out.format() {
        Format::Json => context.out.json_line(event),
        Format::Human => {
            let event: Event = wire::read(event)?;
            context.out.line(&line(&event, position, context.out.clock()), tone(&event.action))
        }
    }
}

/// An event on one line: number, time, type, agent, what it is about, details.
fn line(event: &Event, position: Option<&str>, clock: &Clock) -> String {
    let seq = event.seq().map(|seq| seq.to_string());
    let seq = seq.or_else(|| position.map(|position| position.rsplit(':').next().unwrap_or(position).to_owned()));
    let about: Vec<&str> = event.resource.iter().chain(&event.task_id).map(String::as_str).collect();
    let line = format!(
        "{:>6}  {}  {:<26}  {:<20}  {}  {}",
        seq.unwrap_or_default(),
        clock.local(event.timestamp),
        event.action,
        event.agent_id,
        about.join(" "),
        detail(event)
    );
    line.trim_end().to_owned()
}

fn detail(event: &Event) -> String {
    let fields = event.metadata.iter().filter(|(_, value)| !value.is_null());
    let text =
        fields.map(|(name, value)| format!("{name}={}", super::status::brief(value))).collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(DETAIL_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
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

    fn event(extra: Value) -> Event {
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
        let plain = line(&event(json!({})), None, &clock);
        assert_eq!(
            plain,
            "        2023-11-14 22:13:20  resource.claimed            cursor-1              src/a.rs task_1"
        );
        let full = line(&event(json!({"metadata": {"by": "a", "n": 1}, "resource": null})), Some("log_1:42"), &clock);
        assert_eq!(
            full,
            "    42  2023-11-14 22:13:20  resource.claimed            cursor-1              task_1  by=a n=1"
        );
    }

    #[test]
    fn long_details_are_cut_between_characters() {
        let text = detail(&event(json!({"metadata": {"text": "ä".repeat(200)}})));
        assert_eq!(text.chars().count(), DETAIL_CHARS + 3);
    }
}
