//! Watches the daemon for messages that wake agents and for requests to stop the team. The stream only reduces delays, since
//! the inboxes and the team are also polled.

use std::sync::Arc;
use std::time::Duration;

use rookery_client::teams::Team;
use rookery_client::{ClientError, EventFollower, StreamItem};
use rookery_core::AgentId;
use serde_json::Value;
use tokio::sync::Notify;

use super::TeamError;
use super::crew::Crew;
use super::report::Level;

/// Interval for reading the team from the daemon.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(20);

/// Follows the log and wakes the agents that an event concerns. Returns an error only if it ends the whole team.
pub(super) async fn follow(
    crew: Arc<Crew>,
    mut follower: EventFollower,
    stop_request: Arc<Notify>,
) -> Result<(), TeamError> {
    let mut is_disconnected = false;
    loop {
        let Some(followed) = follower.next().await else { return Ok(()) };
        match followed? {
            StreamItem::Event { event, .. } => {
                if std::mem::take(&mut is_disconnected) {
                    crew.reports.note(None, Level::Info, "the daemon is available again");
                }
                handle_event(&crew, &event, &stop_request);
            }
            StreamItem::Lost => {
                is_disconnected = true;
                let text = "the daemon is unavailable; the team waits for it (`rookery up` starts it)";
                crew.reports.note(None, Level::Warning, text);
            }
            StreamItem::Replaced => {
                crew.names.values().for_each(|name| crew.board.mark_maybe_paused(name));
                crew.board.wake_all();
            }
        }
    }
}

/// Handles one event of the log.
fn handle_event(crew: &Crew, event: &Value, stop_request: &Notify) {
    let action = event["action"].as_str().unwrap_or_default();
    let about = &event["metadata"];
    match action.strip_prefix("x.").unwrap_or(action) {
        "message.sent" | "message.released" => {
            let here = crew.ready.variables.instance.thread();
            if about["thread"] == here.as_str() && about["form"] == "entry" {
                crew.ledger.count_message();
            }
            wake(crew, &about["to"]);
        }
        // The storm guard held a message for a person to decide.
        "authority.escalation" => {
            let from = about["from"].as_str().map(AgentId::from);
            if let Some(name) = from.and_then(|from| crew.names.get(&from)).filter(|_| about["message"].is_string()) {
                let reason = format!("a message of {name} is held until a person decides: see `rookery context held`");
                crew.ledger.fail(reason.clone());
                crew.reports.note(Some(name), Level::Error, reason);
            }
        }
        "delivery.retried" => {
            crew.ledger.clear_given_up();
            crew.board.wake_all();
        }
        "envelope.received" | "task.forwarded" => crew.board.wake_all(),
        "agent.paused" | "agent.resumed" => {
            let agent = event["agent_id"].as_str().map(AgentId::from);
            if let Some(name) = agent.and_then(|agent| crew.names.get(&agent)) {
                crew.board.mark_maybe_paused(name);
                crew.board.wake(name);
            }
        }
        "team.stop_requested" if about["team"] == crew.team.as_str() => stop_request.notify_one(),
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

/// The reason why the daemon requires the team to stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WatchEnd {
    /// A stop was requested.
    StopRequested(Option<String>),
    /// Another process runs the team, or it has ended: it must not be ended again.
    Superseded,
}

/// Polls the team until all of it must stop. Stops single agents that were asked to.
pub(super) async fn watch(crew: Arc<Crew>, stop_request: Arc<Notify>) -> Result<WatchEnd, TeamError> {
    loop {
        let team = match crew.client.team(crew.team.as_str()).await {
            Ok(team) => team,
            Err(ClientError::Refused { status: 404, .. }) => return Ok(WatchEnd::Superseded),
            Err(error) => return Err(error.into()),
        };
        if team.generation != crew.generation || !team.live {
            return Ok(WatchEnd::Superseded);
        }
        if team.stop_requested {
            return Ok(WatchEnd::StopRequested(team.stop_reason));
        }
        stop_members(&crew, &team);
        tokio::select! {
            () = stop_request.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn stop_members(crew: &Crew, team: &Team) {
    team.agents.iter().filter(|member| member.stop_requested).for_each(|member| crew.board.stop(&member.name));
}

/// Sends heartbeats of all agents until dropped.
pub(super) async fn send_heartbeats(crew: Arc<Crew>) {
    loop {
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        for (id, name) in &crew.names {
            if crew.board.signals(name).is_none_or(|(_, stop)| stop.is_cancelled()) {
                continue;
            }
            let Ok(client) = crew.client.as_agent(id.as_str()) else { continue };
            // A lost heartbeat does not matter: the next one brings an offline agent back online.
            let path = ["agents", id.as_str(), "heartbeat"];
            client.with_retry_timeout(Duration::ZERO).post(&path, &serde_json::json!({})).await.ok();
        }
    }
}
