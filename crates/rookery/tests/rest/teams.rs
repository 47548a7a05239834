//! Teams and turns: the reports of a runner, and how everyone sees them.

use reqwest::Method;
use rookery_testkit::daemon::HttpReply;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_error, assert_rejected, assert_time, team, text};

const CODER: &str = "coder@pr-1";
const REVIEWER: &str = "reviewer@pr-1";

/// A daemon that knows both agents of the instance.
async fn start_instance_daemon() -> Team {
    team(&[CODER, REVIEWER]).await
}

/// The start request of the runner with this pid.
fn started_by(pid: u32) -> Value {
    json!({
        "workflow": "review", "file": "review.yaml", "mode": "run",
        "agents": [{"name": "coder", "backend": "mock"}, {"name": "reviewer", "backend": "claude", "model": "m"}],
        "runner": {"host": "here", "boot_id": "b", "pid": pid, "started_at": 77},
    })
}

fn taken_over_by(pid: u32) -> Value {
    let mut start = started_by(pid);
    start["takeover"] = json!(true);
    start
}

async fn post_as_person(team: &Team, path: &str, body: Value) -> HttpReply {
    team.as_person(Method::POST, path, Some(body)).await
}

async fn post_ok(team: &Team, path: &str, body: Value) -> Value {
    let reply = post_as_person(team, path, body).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.body);
    reply.body
}

/// Starts the team and kicks it off with a text; returns the id of that message.
async fn kick_off(team: &Team, text_of_kickoff: &str) -> String {
    post_ok(team, "/teams/@pr-1/start", started_by(1)).await;
    let shown = post_ok(team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": text_of_kickoff})).await;
    text(&shown["kickoff_messages"][1])
}

fn turn_request(agent: &str, attempt: u32, messages: &[&str]) -> Value {
    json!({"team": "@pr-1", "generation": 1, "agent": agent, "attempt": attempt, "cause": "messages", "messages": messages})
}

async fn start_turn(team: &Team, agent: &str, attempt: u32, messages: &[&str]) -> String {
    text(&post_ok(team, "/turns", turn_request(agent, attempt, messages)).await["turn"])
}

async fn end_turn(team: &Team, turn: &str, body: Value) -> Value {
    post_ok(team, &format!("/turns/{turn}/end"), body).await
}

/// The state of a message's delivery to an agent.
async fn delivery_state(team: &Team, message: &str, agent: &str) -> String {
    let all = team.ok(&format!("/clutch/v0/deliveries?agent_id={agent}&limit=1000")).await;
    let found =
        all["deliveries"].as_array().unwrap().iter().find(|delivery_state| delivery_state["message_id"] == message);
    found.map_or_else(|| panic!("{message}: {all}"), |delivery_state| text(&delivery_state["state"]))
}

/// The texts of the channel, oldest first, each with its author.
async fn channel_messages(team: &Team) -> Vec<(String, String)> {
    let events = team.events("x.message.sent").await;
    let text_of_kickoff = |event: &Value| (text(&event["metadata"]["from"]), text(&event["metadata"]["text"]));
    events.iter().map(text_of_kickoff).collect()
}

#[tokio::test]
async fn team_lifecycle_from_start_through_kickoff_to_end() {
    let team = start_instance_daemon().await;
    let started = post_ok(&team, "/teams/@pr-1/start", started_by(1)).await;
    let wanted = json!({"team": "@pr-1", "generation": 1, "resumed": false, "kicked_off": false, "interrupted": []});
    assert_eq!(started, wanted);
    let shown = team.ok("/teams/@pr-1").await;
    assert_time(&shown["started_at"]);
    assert_eq!((&shown["live"], &shown["kicked_off"], &shown["outcome"]), (&json!(true), &json!(false), &Value::Null));
    assert_eq!(shown["runner"], json!({"host": "here", "boot_id": "b", "pid": 1, "started_at": 77}));
    assert_eq!((&shown["agents"][0]["name"], &shown["agents"][0]["id"]), (&json!("coder"), &json!(CODER)));
    assert_eq!((&shown["agents"][1]["model"], &shown["agents"][1]["state"]), (&json!("m"), &json!("idle")));
    post_ok(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder begin"})).await;
    post_ok(&team, "/teams/@pr-1/announcements", json!({"text": "that was a lot"})).await;
    let said =
        ["Workflow started", "@coder begin", "that was a lot"].map(|said| ("system".to_owned(), said.to_owned()));
    assert_eq!(channel_messages(&team).await, said);
    let end = json!({"generation": 1, "outcome": "completed", "reason": "nothing is left"});
    let shown = post_ok(&team, "/teams/@pr-1/end", end.clone()).await;
    assert_eq!((&shown["live"], &shown["outcome"]), (&json!(false), &json!("completed")));
    assert_eq!(post_ok(&team, "/teams/@pr-1/end", end).await, shown, "the same end again");
    let other = post_as_person(&team, "/teams/@pr-1/end", json!({"generation": 1, "outcome": "failed"})).await;
    assert_rejected(&other, 409, "ALREADY_ANSWERED", "completed");
    let again = post_ok(&team, "/teams/@pr-1/start", started_by(2)).await;
    assert_eq!(
        (&again["generation"], &again["resumed"], &again["kicked_off"]),
        (&json!(2), &json!(false), &json!(false))
    );
}

#[tokio::test]
async fn second_runner_or_second_team_of_an_agent_is_rejected() {
    let team = start_instance_daemon().await;
    post_ok(&team, "/teams/@pr-1/start", started_by(1)).await;
    let rejected = post_as_person(&team, "/teams/@pr-1/start", started_by(2)).await;
    assert_rejected(&rejected, 409, "CONFLICT", "process 1 on here");
    assert!(text(&rejected.body["hint"]).contains("rookery stop @pr-1"), "{}", rejected.body);
    let mut alone = started_by(3);
    (alone["mode"], alone["agents"]) = (json!("standalone"), json!([{"name": "coder", "backend": "mock"}]));
    assert_rejected(&post_as_person(&team, "/teams/coder@pr-1/start", alone.clone()).await, 409, "CONFLICT", "@pr-1");
    post_ok(&team, "/teams/@pr-1/end", json!({"generation": 1, "outcome": "stopped"})).await;
    post_ok(&team, "/teams/coder@pr-1/start", alone).await;
    let ids =
        |teams: &Value| teams["teams"].as_array().unwrap().iter().map(|team| text(&team["id"])).collect::<Vec<_>>();
    assert_eq!(ids(&team.ok("/teams?live=true").await), ["coder@pr-1"]);
    assert_eq!(ids(&team.ok("/teams").await), ["coder@pr-1", "@pr-1"]);
    assert_eq!(ids(&team.ok("/teams?live=false").await), ["@pr-1"]);
}

/// Several runners start at once, and each takes its call for the first.
#[tokio::test]
async fn concurrent_duplicate_kickoffs_are_posted_once() {
    let team = start_instance_daemon().await;
    post_ok(&team, "/teams/@pr-1/start", started_by(1)).await;
    let ask = || post_as_person(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder begin"}));
    let replies = futures_util::future::join_all((0..8).map(|_| ask())).await;
    let messages: Vec<&Value> = replies.iter().map(|reply| &reply.body["kickoff_messages"]).collect();
    assert!(replies.iter().all(|reply| reply.status == 200) && messages.iter().all(|ids| *ids == messages[0]));
    assert_eq!(channel_messages(&team).await.len(), 2);
}

#[tokio::test]
async fn done_turn_acknowledges_its_messages_and_posts_the_reply() {
    let team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    let turn = start_turn(&team, CODER, 1, &[&kickoff]).await;
    assert_eq!(delivery_state(&team, &kickoff, CODER).await, "notified");
    let shown = team.ok("/teams/@pr-1").await;
    assert_eq!((&shown["agents"][0]["state"], &shown["agents"][0]["open_turn"]), (&json!("working"), &json!(turn)));
    let busy = post_as_person(&team, "/turns", turn_request(CODER, 1, &[&kickoff])).await;
    assert_rejected(&busy, 409, "CONFLICT", &turn);
    let later =
        text(&post_ok(&team, "/teams/@pr-1/announcements", json!({"text": "@coder one more thing"})).await["message"]);
    let usage = json!({"input_tokens": 1200, "output_tokens": 30, "cost_usd": 0.0125});
    let end = json!({"outcome": "done", "usage": usage, "conversation": "c-1", "said": "@reviewer look at it"});
    let shown = end_turn(&team, &turn, end.clone()).await;
    assert_eq!((&shown["outcome"], &shown["usage"], &shown["conversation"]), (&json!("done"), &usage, &json!("c-1")));
    let states = (delivery_state(&team, &kickoff, CODER).await, delivery_state(&team, &later, CODER).await);
    assert_eq!(states, ("acked".to_owned(), "pending".to_owned()), "only the messages of the turn");
    assert_eq!(channel_messages(&team).await.last().unwrap(), &(CODER.to_owned(), "@reviewer look at it".to_owned()));
    assert_eq!(delivery_state(&team, &text(&shown["posted"]), REVIEWER).await, "pending");
    let head = team.head().await;
    assert_eq!(end_turn(&team, &turn, end).await, shown, "the same end again");
    assert_eq!(team.head().await, head, "and it appended nothing");
    let other = post_as_person(&team, &format!("/turns/{turn}/end"), json!({"outcome": "failed"})).await;
    assert_rejected(&other, 409, "ALREADY_ANSWERED", "done");
    let used = team.ok("/teams/@pr-1").await;
    assert_eq!((&used["turns"], &used["input_tokens"], &used["cost_usd"]), (&json!(1), &json!(1200), &json!(0.0125)));
}

#[tokio::test]
async fn last_failed_attempt_gives_up_messages_that_can_be_retried() {
    let team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    let error = json!({"message": "@reviewer broke it", "hint": "look", "kind": "crashed"});
    let first = start_turn(&team, CODER, 1, &[&kickoff]).await;
    end_turn(&team, &first, json!({"outcome": "failed", "error": error, "last": false})).await;
    assert_eq!(delivery_state(&team, &kickoff, CODER).await, "notified", "the message will be retried");
    assert_eq!(team.ok("/teams/@pr-1").await["agents"][0]["state"], "waiting");
    let second = start_turn(&team, CODER, 2, &[&kickoff]).await;
    let shown = end_turn(&team, &second, json!({"outcome": "failed", "error": error, "last": true})).await;
    assert_eq!((&shown["gave_up"], &shown["error"]), (&json!(true), &error));
    assert_eq!(delivery_state(&team, &kickoff, CODER).await, "dead");
    let (from, notice) = channel_messages(&team).await.pop().unwrap();
    assert_eq!(from, "system");
    assert!(
        notice.starts_with("coder failed, tried 2 times: @reviewer broke it\n1 message was given up on"),
        "{notice}"
    );
    let to_reviewer = team.ok(&format!("/clutch/v0/deliveries?agent_id={REVIEWER}")).await;
    assert_eq!(to_reviewer["deliveries"], json!([]), "a notice wakes no agent");
    let gone = post_as_person(&team, "/turns", turn_request(CODER, 1, &[&kickoff])).await;
    assert_rejected(&gone, 409, "INVALID_STATE", "waits");
    let dead = team.ok("/clutch/v0/deliveries?state=dead").await;
    let retry = format!("/clutch/v0/deliveries/{}/retry", text(&dead["deliveries"][0]["id"]));
    assert!(post_as_person(&team, &retry, json!({})).await.status.is_success());
    let third = start_turn(&team, CODER, 1, &[&kickoff]).await;
    end_turn(&team, &third, json!({"outcome": "done"})).await;
    assert_eq!(delivery_state(&team, &kickoff, CODER).await, "acked");
    let turns = team.ok("/turns?agent=coder@pr-1&team=@pr-1&limit=2").await;
    let ids: Vec<String> = turns["turns"].as_array().unwrap().iter().map(|turn| text(&turn["turn"])).collect();
    assert_eq!(ids, [third, second], "the newest first");
}

#[tokio::test]
async fn takeover_returns_interrupted_turns_and_their_actions() {
    let mut team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    let turn = start_turn(&team, CODER, 1, &[&kickoff]).await;
    let task = team.create_task().await;
    team.send(
        Method::PATCH,
        &format!("/tasks/{task}"),
        &[("x-agent-id", CODER)],
        Some(json!({"status": "in_progress", "agent_id": CODER})),
    )
    .await;
    team.kill().unwrap();
    team.restart().unwrap();
    let started = post_ok(&team, "/teams/@pr-1/start", taken_over_by(2)).await;
    assert_eq!(
        (&started["generation"], &started["resumed"], &started["kicked_off"]),
        (&json!(1), &json!(true), &json!(true))
    );
    let interrupted = &started["interrupted"][0];
    assert_eq!((&interrupted["turn"], &interrupted["outcome"]), (&json!(turn), &json!("interrupted")));
    assert_eq!(post_ok(&team, "/teams/@pr-1/start", taken_over_by(2)).await, started, "a repeat after a lost answer");
    let shown = team.ok(&format!("/turns/{turn}")).await;
    let did: Vec<(&str, &str)> = shown["did"]
        .as_array()
        .unwrap()
        .iter()
        .map(|action| (action["kind"].as_str().unwrap(), action["summary"].as_str().unwrap()))
        .collect();
    assert_eq!(
        did,
        [("task.claimed", format!("task.claimed {task}").as_str()), ("task.started", &format!("task.started {task}"))]
    );
    let late = post_as_person(&team, &format!("/turns/{turn}/end"), json!({"outcome": "done"})).await;
    assert_rejected(&late, 409, "ALREADY_ANSWERED", "interrupted");
    assert_eq!(delivery_state(&team, &kickoff, CODER).await, "notified", "it is not acknowledged");
    post_ok(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder write it"})).await;
    assert_eq!(channel_messages(&team).await.len(), 2, "the kickoff was posted already");
}

#[tokio::test]
async fn stop_request_reaches_the_runner_by_stream() {
    let team = start_instance_daemon().await;
    post_ok(&team, "/teams/@pr-1/start", started_by(1)).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let shown = post_ok(&team, "/teams/@pr-1/stop", json!({"agent": "coder", "reason": "enough"})).await;
    assert_eq!((&shown["stop_requested"], &shown["agents"][0]["stop_requested"]), (&json!(false), &json!(true)));
    let heard = stream.next_of("x.team.stop_requested").await.event;
    assert_eq!((&heard["metadata"]["team"], &heard["metadata"]["member"]), (&json!("@pr-1"), &json!(CODER)));
    assert_eq!(post_ok(&team, "/teams/@pr-1/stop", json!({})).await["stop_requested"], true);
    assert_eq!(stream.next_of("x.team.stop_requested").await.event["metadata"]["member"], Value::Null);
    let unknown = post_as_person(&team, "/teams/@pr-1/stop", json!({"agent": "ghost"})).await;
    assert_rejected(&unknown, 404, "AGENT_NOT_FOUND", "ghost@pr-1");
}

#[tokio::test]
async fn team_changes_need_a_person_and_reads_do_not() {
    let team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    let turn = start_turn(&team, CODER, 1, &[&kickoff]).await;
    let head = team.head().await;
    for (path, body) in [
        ("/teams/@pr-2/start".to_owned(), started_by(1)),
        ("/teams/@pr-1/kickoff".to_owned(), json!({"generation": 1})),
        ("/teams/@pr-1/announcements".to_owned(), json!({"text": "x"})),
        ("/teams/@pr-1/stop".to_owned(), json!({})),
        ("/teams/@pr-1/end".to_owned(), json!({"generation": 1, "outcome": "stopped"})),
        ("/turns".to_owned(), turn_request(REVIEWER, 1, &[])),
        (format!("/turns/{turn}/end"), json!({"outcome": "done"})),
    ] {
        for headers in [&[][..], &[("x-agent-id", CODER)]] {
            let reply = team.send(Method::POST, &path, headers, Some(body.clone())).await;
            assert_rejected(&reply, 403, "FORBIDDEN", "person");
        }
    }
    assert_eq!(team.head().await, head, "no event was appended");
    assert_eq!(team.ok("/turns").await["turns"][0]["turn"], turn.as_str());
}

#[tokio::test]
async fn invalid_team_and_turn_requests_are_rejected_by_field() {
    let team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    for (path, code, part) in
        [("/teams/@nobody", "TEAM_NOT_FOUND", "@nobody"), ("/turns/turn_x", "TURN_NOT_FOUND", "turn_x")]
    {
        assert_rejected(&team.get(path).await.unwrap(), 404, code, part);
    }
    assert_rejected(&team.get("/teams/@a@b").await.unwrap(), 400, "INVALID", "team");
    assert_error(&team.get("/teams?limit=0").await.unwrap(), 400, "INVALID", "limit must be at least 1");
    let table = [
        ("/teams/@pr-1/kickoff", json!({"generation": 7}), 409, "STALE", "generation 7"),
        ("/teams/@pr-1/kickoff", json!({"generation": 1, "txt": "x"}), 400, "INVALID", "txt"),
        ("/teams/@pr-2/start", json!({}), 400, "INVALID", "workflow"),
        ("/teams/@pr-1/announcements", json!({"text": ""}), 400, "INVALID", "empty"),
        ("/teams/@pr-1/end", json!({"generation": 1, "outcome": "won"}), 400, "INVALID", "outcome"),
        ("/turns", turn_request(REVIEWER, 1, &[&kickoff]), 404, "MESSAGE_NOT_FOUND", REVIEWER),
        ("/turns", turn_request(CODER, 0, &[&kickoff]), 400, "INVALID", "attempt"),
        ("/turns", turn_request("ghost@pr-1", 1, &[]), 404, "AGENT_NOT_FOUND", "ghost"),
        ("/turns/turn_x/end", json!({"outcome": "done"}), 404, "TURN_NOT_FOUND", "turn_x"),
        ("/turns/turn_x/end", json!({"outcome": "done", "usage": {"cost_usd": -1}}), 400, "INVALID", "cost_usd"),
        ("/turns/turn_x/end", json!({"outcome": "done", "transcript": "sha256:no"}), 400, "INVALID", "transcript"),
    ];
    let head = team.head().await;
    for (path, body, status, code, part) in table {
        assert_rejected(&post_as_person(&team, path, body).await, status, code, part);
    }
    assert_eq!(team.head().await, head, "no event was appended");
}

/// After a lost answer, the same request with the same key starts the same turn.
#[tokio::test]
async fn duplicate_turn_request_with_key_starts_one_turn() {
    let team = start_instance_daemon().await;
    let kickoff = kick_off(&team, "@coder write it").await;
    let key = format!("Bearer {}", team.person_key().unwrap());
    let headers = [("authorization", key.as_str()), ("idempotency-key", "turn of coder")];
    let ask = || team.send(Method::POST, "/turns", &headers, Some(turn_request(CODER, 1, &[&kickoff])));
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(team.ok("/turns").await["turns"].as_array().unwrap().len(), 1);
}
