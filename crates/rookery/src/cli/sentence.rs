//! Sentences about events: a short one for a person by the event's name, with the text of messages and the titles of tasks.

use std::collections::BTreeMap;

use rookery_client::wire::LoggedEvent;
use rookery_client::{Client, ClientError};
use rookery_surfaces::rest::event_names::shown;
use serde_json::Value;

/// Text of a message beyond this many characters is left to `--json`.
const SAID_CHARS: usize = 160;
/// Details of an event without a sentence beyond this many characters are left to `--json`.
const DETAIL_CHARS: usize = 80;

/// The titles of tasks by their ids, asked for once each.
#[derive(Debug, Default)]
pub struct Titles {
    known: BTreeMap<String, Option<String>>,
}

impl Titles {
    /// Learns the title of the task that an event is about.
    pub async fn learn(&mut self, event: &LoggedEvent, client: &Client) -> Result<(), ClientError> {
        let Some(task) = &event.task_id else { return Ok(()) };
        if let Some(title) = event.metadata.get("title").and_then(Value::as_str) {
            self.known.insert(task.clone(), Some(title.to_owned()));
        }
        if self.known.contains_key(task) {
            return Ok(());
        }
        let title = match client.get(&["tasks", task], &[]).await {
            Ok(task) => task["title"].as_str().map(str::to_owned),
            // It was removed, or an agent only says that there is one.
            Err(error) if error.status().is_some_and(|status| status < 500) => None,
            Err(error) => return Err(error),
        };
        self.known.insert(task.clone(), title);
        Ok(())
    }

    fn of(&self, event: &LoggedEvent) -> String {
        let Some(task) = &event.task_id else { return "a task".to_owned() };
        match self.known.get(task) {
            Some(Some(title)) => format!("task '{}'", on_one_line(title)),
            _ => format!("task {task}"),
        }
    }
}

/// An event as one line.
pub fn sentence(event: &LoggedEvent, titles: &Titles) -> String {
    let name = shown(&event.action);
    let line = match name.split_once('.') {
        Some(("agent" | "lead", _)) => of_agent(name, event),
        Some(("resource" | "file", _)) => of_file(name, event),
        Some(("task" | "handoff" | "checkpoint" | "routing", _)) => of_task(name, event, titles),
        Some(("authority", _)) => of_authority(name, event, titles),
        Some(("message" | "document" | "channel", _)) => of_talk(name, event),
        Some(("run" | "team" | "turn", _)) => of_team(name, event),
        _ => None,
    };
    line.unwrap_or_else(|| plain(event))
}

fn of_agent(name: &str, event: &LoggedEvent) -> Option<String> {
    let who = &event.agent_id;
    Some(match name {
        "agent.joined" => {
            format!(
                "{who} joined as {} ({})",
                text(event, "role").unwrap_or("worker"),
                text(event, "tool").unwrap_or("?")
            )
        }
        "agent.left" => format!("{who} left"),
        "agent.heartbeat" => format!("{who} is back"),
        "agent.updated" => format!("{who} changed its profile"),
        "agent.paused" => format!("{who} was paused{}", because(event, "reason")),
        "agent.resumed" => format!("{who} was resumed"),
        "agent.status_changed" => match text(event, "status") {
            Some(status) => format!("{who} is {}", status.replace('_', " ")),
            None => format!("{who} went offline"),
        },
        _ => return None,
    })
}

fn of_file(name: &str, event: &LoggedEvent) -> Option<String> {
    let (who, path) = (&event.agent_id, event.resource.as_deref()?);
    let named = |field| text(event, field).unwrap_or("?");
    Some(match name {
        "resource.claimed" => format!("{who} claimed {path}"),
        "resource.released" => format!("{who} released {path}"),
        "resource.modified" => format!("{who} changed {path}"),
        "resource.conflict_detected" => {
            format!("{} changed {path}, which {} holds", named("intruder"), named("holder"))
        }
        "resource.conflict_resolved" => match text(event, "winner") {
            Some(winner) => format!("conflict about {path} resolved: {winner} keeps it"),
            None => format!("conflict about {path} resolved"),
        },
        "file.locked" => format!("{who} locked {path}"),
        "file.unlocked" => format!("{who} unlocked {path}"),
        _ => return None,
    })
}

fn of_task(name: &str, event: &LoggedEvent, titles: &Titles) -> Option<String> {
    let (who, task) = (&event.agent_id, titles.of(event));
    let named = |field| text(event, field).unwrap_or("?");
    Some(match name {
        "task.created" => format!("{task} created by {}", text(event, "assigned_by").unwrap_or(who)),
        "task.assigned" if event.metadata.contains_key("reserved") => format!("{task} reserved for {who}"),
        "task.assigned" => format!("{task} claimed by {who}"),
        "task.started" => format!("{task} started by {who}"),
        "task.completed" => format!("{task} completed by {who}{}", outcome(event)),
        "task.blocked" if text(event, "to") == Some("paused") => {
            format!("{task} is blocked{}", because(event, "reason"))
        }
        "task.blocked" => format!("{task} failed{}{}", because(event, "error"), because(event, "message")),
        "task.step_set" => format!("{task} is in {}, by {who}", named("to").replace('_', " ")),
        "task.retried" => format!("{task} is tried again"),
        "task.forwarded" => format!("{task} forwarded to {}", named("to")),
        "handoff.initiated" => {
            let to = text(event, "to").unwrap_or("any agent");
            format!("{who} hands {task} over to {to}{}", because(event, "summary"))
        }
        "handoff.accepted" => format!("{who} accepted {task} from {}", named("from")),
        "handoff.rejected" => format!("{who} rejected {task}{}", because(event, "reason")),
        "checkpoint.added" => format!("{who} noted on {task}{}", because(event, "summary")),
        "routing.decided" => format!("{task} routed to {}", named("selected")),
        "routing.failed" => format!("no agent fits {task}{}", because(event, "reason")),
        // The others are named after the action: planned, released, cancelled, skipped.
        _ => format!("{task} {} by {who}{}", name.strip_prefix("task.")?.replace('_', " "), because(event, "reason")),
    })
}

fn of_authority(name: &str, event: &LoggedEvent, titles: &Titles) -> Option<String> {
    let named = |field| text(event, field).unwrap_or("?");
    let path = event.resource.as_deref();
    Some(match (name, path, &event.task_id) {
        ("authority.decision", Some(path), _) => format!("{} took {path} from {}", event.agent_id, named("loser")),
        ("authority.decision", None, Some(_)) => format!("{} given to {}", titles.of(event), named("to")),
        ("authority.decision", None, None) => match text(event, "holder") {
            Some(holder) => format!("{holder} leads"),
            None => "no agent leads".to_owned(),
        },
        ("authority.escalation", Some(path), _) => format!("conflict about {path} waits for a person"),
        ("authority.escalation", None, Some(_)) => format!("{} failed and is not tried again", titles.of(event)),
        ("authority.escalation", None, None) => format!("a message waits for a person: {}", detail(event)),
        _ => return None,
    })
}

fn of_talk(name: &str, event: &LoggedEvent) -> Option<String> {
    let who = &event.agent_id;
    let path = || text(event, "path").unwrap_or("a document");
    let version = || event.metadata.get("version").map(|version| format!(" (version {version})")).unwrap_or_default();
    let count = || match event.metadata.get("messages").and_then(Value::as_array).map_or(1, Vec::len) {
        1 => "a message".to_owned(),
        count => format!("{count} messages"),
    };
    Some(match name {
        "message.sent" if text(event, "announces").is_some() => {
            format!("notified {} of {}", recipients(event), text(event, "announces").unwrap_or_default())
        }
        "message.sent" => {
            let from = text(event, "from").unwrap_or(who);
            let to = match text(event, "form") {
                Some("entry") | None => String::new(),
                Some(_) => format!(" to {}", recipients(event)),
            };
            format!("{from}{to}: {}", cut(&on_one_line(text(event, "text").unwrap_or_default()), SAID_CHARS))
        }
        "message.read" => format!("{who} read {}", count()),
        "message.acked" => format!("{who} acknowledged {}", count()),
        "message.superseded" => format!("{} no longer asks {}", count(), text(event, "agent").unwrap_or(who)),
        "channel.archived" => {
            let name = |field: &str| text(event, field).map_or("", |id| id.strip_prefix("thr_").unwrap_or(id));
            format!("{who} archived the channel of {} as {}", name("thread"), name("archive"))
        }
        "document.written" => format!("{who} wrote {}{}", path(), version()),
        "document.deleted" => format!("{who} deleted {}", path()),
        _ => return None,
    })
}

fn of_team(name: &str, event: &LoggedEvent) -> Option<String> {
    let who = &event.agent_id;
    let named = |field| text(event, field).unwrap_or("?");
    Some(match name {
        "run.created" => format!("{who} created run '{}'", on_one_line(text(event, "title").unwrap_or(named("run")))),
        "run.planned" => format!("{who} planned run {}{}", named("run"), because(event, "summary")),
        "run.status_set" => format!("run {} is {}", named("run"), named("to").replace('_', " ")),
        "team.started" => format!("team {} started", named("team")),
        "team.resumed" => format!("team {} resumed", named("team")),
        "team.kicked_off" => format!("team {} got its kickoff", named("team")),
        "team.stop_requested" => format!("{who} asked team {} to stop{}", named("team"), because(event, "reason")),
        "team.ended" => format!("team {} ended: {}{}", named("team"), named("how"), because(event, "reason")),
        "turn.started" => format!("{who} started a turn"),
        "turn.ended" => format!("{who} ended its turn: {}", named("how").replace('_', " ")),
        _ => return None,
    })
}

/// An event without a sentence: its author, what it is about, and its details.
fn plain(event: &LoggedEvent) -> String {
    let about = event.resource.iter().chain(&event.task_id).map(String::as_str);
    let details = detail(event);
    let parts: Vec<&str> = std::iter::once(event.agent_id.as_str()).chain(about).chain([details.as_str()]).collect();
    parts.join("  ").trim_end().to_owned()
}

fn detail(event: &LoggedEvent) -> String {
    let fields = event.metadata.iter().filter(|(_, value)| !value.is_null());
    let all = fields.map(|(name, value)| format!("{name}={}", super::commands::brief(value))).collect::<Vec<_>>();
    cut(&on_one_line(&all.join(" ")), DETAIL_CHARS)
}

fn text<'a>(event: &'a LoggedEvent, field: &str) -> Option<&'a str> {
    event.metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn because(event: &LoggedEvent, field: &str) -> String {
    text(event, field).map(|why| format!(": {}", cut(&on_one_line(why), SAID_CHARS))).unwrap_or_default()
}

fn outcome(event: &LoggedEvent) -> String {
    let text = event.metadata.get("outcome").and_then(|outcome| outcome["text"].as_str()).unwrap_or_default();
    if text.is_empty() { String::new() } else { format!(": {}", cut(&on_one_line(text), SAID_CHARS)) }
}

fn recipients(event: &LoggedEvent) -> String {
    let agents = event.metadata.get("to").and_then(|to| to["agents"].as_array());
    let names: Vec<&str> = agents.into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "everybody".to_owned() } else { names.join(", ") }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(action: &str, resource: Option<&str>, task: Option<&str>, metadata: Value) -> String {
        let event: LoggedEvent = serde_json::from_value(json!({
            "agent_id": "coder", "action": action, "resource": resource, "task_id": task, "metadata": metadata,
        }))
        .unwrap();
        let titles = Titles { known: [("tk_1".to_owned(), Some("Fix login".to_owned()))].into() };
        sentence(&event, &titles)
    }

    #[test]
    fn event_is_one_sentence_for_a_person() {
        let task = Some("tk_1");
        let path = Some("src/a.rs");
        for (expected, action, resource, task, metadata) in [
            (
                "coder: @reviewer please look",
                "x.message.sent",
                None,
                None,
                json!({"from": "coder", "form": "entry", "text": "@reviewer please\n look", "to": {"agents": ["reviewer"]}}),
            ),
            (
                "coder to reviewer: hello",
                "x.message.sent",
                None,
                None,
                json!({"from": "coder", "form": "direct", "text": "hello", "to": {"agents": ["reviewer"]}}),
            ),
            (
                "notified reviewer of task.completed",
                "x.message.sent",
                None,
                task,
                json!({"form": "envelope", "announces": "task.completed", "text": "", "to": {"agents": ["reviewer"]}}),
            ),
            ("coder claimed src/a.rs", "resource.claimed", path, task, json!({})),
            ("task 'Fix login' claimed by coder", "task.assigned", None, task, json!({})),
            ("task 'Fix login' reserved for coder", "task.assigned", None, task, json!({"reserved": true})),
            ("task 'Fix login' completed by coder", "task.completed", None, task, json!({})),
            (
                "task 'Fix login' completed by coder: it works",
                "task.completed",
                None,
                task,
                json!({"outcome": {"text": "it works"}}),
            ),
            ("task 'Fix login' failed: no key", "task.blocked", None, task, json!({"error": "no key"})),
            (
                "task 'Fix login' is blocked: no key",
                "task.blocked",
                None,
                task,
                json!({"to": "paused", "reason": "no key"}),
            ),
            ("task 'Fix login' cancelled by coder: late", "x.task.cancelled", None, task, json!({"reason": "late"})),
            ("task tk_2 started by coder", "task.started", None, Some("tk_2"), json!({})),
            (
                "coder hands task 'Fix login' over to ada: half done",
                "handoff.initiated",
                None,
                task,
                json!({"to": "ada", "summary": "half done"}),
            ),
            ("rita leads", "authority.decision", None, None, json!({"holder": "rita"})),
            ("conflict about src/a.rs waits for a person", "authority.escalation", path, None, json!({})),
            ("team @pr-1 ended: completed", "x.team.ended", None, None, json!({"team": "@pr-1", "how": "completed"})),
            ("coder  src/a.rs  n=1", "x.deploy.started", path, None, json!({"n": 1})),
        ] {
            assert_eq!(line(action, resource, task, metadata), expected, "{action}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = line("x.message.sent", None, None, json!({"from": "a", "text": "ä".repeat(1000)}));
        assert_eq!(text.chars().count(), "a: ".len() + SAID_CHARS + 3);
        let text = line("x.other", None, None, json!({"text": "ä".repeat(1000)}));
        assert_eq!(text.chars().count(), "coder  ".len() + DETAIL_CHARS + 3);
    }
}
