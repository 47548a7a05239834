//! `rookery log`

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::client::Client;
use crate::cli::clock::Clock;
use crate::cli::context::{self, Context};
use crate::cli::output::{Format, Tone};
use crate::cli::sse::Parser;
use crate::cli::wire::{self, Event};

/// Attempts to find the daemon again, with growing pauses: about a minute in all.
const RECONNECTS: u32 = 12;
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Keep-alives come every 15 seconds; a stream that is silent for three of them is dead.
const SILENCE: Duration = Duration::from_secs(45);
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
    if args.follow { follow(context, client, &filters, answer.position).await } else { Ok(()) }
}

impl Args {
    fn filters(&self) -> Vec<(&'static str, String)> {
        let filters =
            [("agent_id", &self.agent), ("run", &self.run), ("action", &self.action), ("resource", &self.resource)];
        filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Shows events as they come, for ever; resumes by position on the daemon's new address if it moved.
async fn follow(
    context: &Context,
    mut client: Client,
    filters: &[(&'static str, String)],
    mut last: Option<String>,
) -> anyhow::Result<()> {
    let project = context.project()?;
    let mut failures = 0;
    loop {
        let before = last.clone();
        let lost = match stream(context, &client, filters, &mut last).await {
            Ok(lost) => lost,
            Err(error) => match error.downcast_ref::<crate::cli::client::ClientError>() {
                Some(refused) if refused.status() == Some(410) => {
                    context.out.note("the log was replaced; going on with what happens from now");
                    last = None;
                    anyhow::anyhow!("the position is gone")
                }
                Some(refused) if refused.status().is_some_and(|status| status < 500) => return Err(error),
                Some(_) => error,
                None => return Err(error),
            },
        };
        failures = if last == before { failures + 1 } else { 1 };
        if failures > RECONNECTS {
            let failure = Failure::unreachable(format!("the event stream is lost: {lost:#}"));
            return Err(failure.hint("start the daemon with `rookery up`, then follow the log again").into());
        }
        if failures == 2 {
            context.out.note("the event stream is lost; trying to find it again");
        }
        tokio::time::sleep(pause(failures)).await;
        if let Ok(running) = context::find(&project).await {
            client = running.client;
        }
    }
}

/// Shows one connection's events; `Ok` with the reason when it is lost, `Err` when it never came or output failed.
async fn stream(
    context: &Context,
    client: &Client,
    filters: &[(&'static str, String)],
    last: &mut Option<String>,
) -> anyhow::Result<anyhow::Error> {
    let mut response = client.stream(&["events", "stream"], filters, last.as_deref()).await?;
    let mut parser = Parser::default();
    loop {
        let chunk = match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(anyhow::anyhow!("the daemon closed it")),
            Ok(Err(error)) => return Ok(error.into()),
            Err(_elapsed) => return Ok(anyhow::anyhow!("the daemon is silent")),
        };
        for event in parser.feed(&chunk)? {
            let value: Value = serde_json::from_str(&event.data).context("an event that is no JSON")?;
            show(context, &value, event.id.as_deref())?;
            if event.id.is_some() {
                *last = event.id;
            }
        }
    }
}

fn pause(failures: u32) -> Duration {
    Duration::from_millis(100 << failures.min(7)).min(LONGEST_PAUSE)
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

fn tone(action: &str) -> Tone {
    match action {
        "resource.conflict_detected" | "task.blocked" | "authority.escalation" => Tone::Bad,
        "task.completed" | "resource.conflict_resolved" | "handoff.accepted" => Tone::Good,
        "handoff.rejected" | "agent.left" | "authority.decision" => Tone::Warning,
        "agent.heartbeat" => Tone::Dim,
        _ => Tone::Plain,
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

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses: Vec<u64> = [1, 2, 6, 7, 40].map(|n| u64::try_from(pause(n).as_millis()).unwrap()).to_vec();
        assert_eq!(pauses, [200, 400, 6_400, 8_000, 8_000]);
    }
}
