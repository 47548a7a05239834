//! What a team hears from the daemon: messages that wake its agents, and that somebody wants it to stop. The stream only makes
//! it look sooner; it looks by itself now and then.

use std::sync::Arc;
use std::time::Duration;

use rookery_client::teams::Team;
use rookery_client::{ClientError, Followed, Follower};
use rookery_core::AgentId;
use serde_json::Value;
use tokio::sync::Notify;

use super::TeamError;
use super::crew::Crew;
use super::report::Level;

/// How often the team's own row is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often agents show that they are there.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Follows the log and wakes whom it concerns. Only what ends the whole team is an error.
pub(super) async fn follow(crew: Arc<Crew>, mut follower: Follower, asked: Arc<Notify>) -> Result<(), TeamError> {
    let mut away = false;
    loop {
        let Some(followed) = follower.next().await else { return Ok(()) };
        match followed? {
            Followed::Event { event, .. } => {
                if std::mem::take(&mut away) {
                    crew.reports.note(None, Level::Info, "the daemon is back");
                }
                hear(&crew, &event, &asked);
            }
            Followed::Lost => {
                away = true;
                crew.reports.note(
                    None,
                    Level::Warning,
                    "the daemon is away; the team waits until it is back (`rookery up` starts it)",
                );
            }
            Followed::Replaced => {
                crew.names.values().for_each(|name| crew.board.may_pause(name));
                crew.board.wake_all();
            }
        }
    }
}

/// What one event is to the team.
fn hear(crew: &Crew, event: &Value, asked: &Notify) {
    let action = event["action"].as_str().unwrap_or_default();
    let about = &event["metadata"];
    match action.strip_prefix("x.").unwrap_or(action) {
        "message.sent" | "message.released" => {
            let here = crew.ready.variables.instance.thread();
            if about["thread"] == here.as_str() && about["form"] == "entry" {
                crew.ledger.message();
            }
            wake(crew, &about["to"]);
        }
        // A message is held for a person.
        "authority.escalation" => {
            let from = about["from"].as_str().map(AgentId::from);
            if let Some(name) = from.and_then(|from| crew.names.get(&from)).filter(|_| about["message"].is_string()) {
                let reason = format!("a message of {name} is held until a person decides: see `rookery context held`");
                crew.ledger.fail(reason.clone());
                crew.reports.note(Some(name), Level::Error, reason);
            }
        }
        "delivery.retried" => {
            crew.ledger.take_up_again();
            crew.board.wake_all();
        }
        "envelope.received" | "task.forwarded" => crew.board.wake_all(),
        "agent.paused" | "agent.resumed" => {
            let agent = event["agent_id"].as_str().map(AgentId::from);
            if let Some(name) = agent.and_then(|agent| crew.names.get(&agent)) {
                crew.board.may_pause(name);
                crew.board.wake(name);
            }
        }
        "team.stop_requested" if about["team"] == crew.team.as_str() => asked.notify_one(),
        _ => {}
    }
}

fn wake(crew: &Crew, to: &Value) {
    match to["agents"].as_array() {
        Some(agents) => {
            let named = agents.iter().filter_map(Value::as_str).map(AgentId::from);
            named.filter_map(|agent| crew.names.get(&agent)).for_each(|name| crew.board.wake(name));
        }
        None => crew.board.wake_all(),
    }
}

/// Why a team stops that nobody here ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stopped {
    Asked(Option<String>),
    /// Somebody else runs it, or it was ended: there is nothing left to end.
    Superseded,
}

/// Looks at the team's own row until somebody wants all of it to stop, and stops the agents that shall.
pub(super) async fn watch(crew: Arc<Crew>, asked: Arc<Notify>) -> Result<Stopped, TeamError> {
    loop {
        let team = match crew.client.team(crew.team.as_str()).await {
            Ok(team) => team,
            Err(ClientError::Refused { status: 404, .. }) => return Ok(Stopped::Superseded),
            Err(error) => return Err(error.into()),
        };
        if team.generation != crew.generation || !team.live {
            return Ok(Stopped::Superseded);
        }
        if team.stop_requested {
            return Ok(Stopped::Asked(team.stop_reason));
        }
        stop_members(&crew, &team);
        tokio::select! {
            () = asked.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn stop_members(crew: &Crew, team: &Team) {
    team.agents.iter().filter(|member| member.stop_requested).for_each(|member| crew.board.stop(&member.name));
}

/// Shows that the agents are there, for as long as this is polled.
pub(super) async fn heartbeats(crew: Arc<Crew>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        for (id, name) in &crew.names {
            if crew.board.bell(name).is_none_or(|(_, stop)| stop.is_cancelled()) {
                continue;
            }
            let Ok(client) = crew.client.as_agent(id.as_str()) else { continue };
            // One that is lost is made good by the next; whoever went offline comes back by it.
            let path = ["agents", id.as_str(), "heartbeat"];
            let _lost = client.with_retry_timeout(Duration::ZERO).post(&path, &serde_json::json!({})).await;
        }
    }
}
