//! Teams and turns: what a runner tells the daemon, and what everybody sees of it.

use reqwest::Method;
use rookery_testkit::daemon::HttpReply;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_error, assert_refused, assert_time, team, text};

const CODER: &str = "coder@pr-1";
const REVIEWER: &str = "reviewer@pr-1";

/// A daemon that knows both agents of the instance.
async fn daemon() -> Team {
    team(&[CODER, REVIEWER]).await
}

/// What the runner with this pid starts.
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

async fn asks(team: &Team, path: &str, body: Value) -> HttpReply {
    team.as_person(Method::POST, path, Some(body)).await
}

async fn done(team: &Team, path: &str, body: Value) -> Value {
    let reply = asks(team, path, body).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.body);
    reply.body
}

/// Starts the team and kicks it off with a text; the id of the message with it.
async fn kicked_off(team: &Team, words: &str) -> String {
    done(team, "/teams/@pr-1/start", started_by(1)).await;
    let shown = done(team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": words})).await;
    text(&shown["kickoff_messages"][1])
}

fn waking(agent: &str, attempt: u32, messages: &[&str]) -> Value {
    json!({"team": "@pr-1", "generation": 1, "agent": agent, "attempt": attempt, "cause": "messages", "messages": messages})
}

async fn woken(team: &Team, agent: &str, attempt: u32, messages: &[&str]) -> String {
    text(&done(team, "/turns", waking(agent, attempt, messages)).await["turn"])
}

async fn ended(team: &Team, turn: &str, body: Value) -> Value {
    done(team, &format!("/turns/{turn}/end"), body).await
}

/// Where a message stands with an agent.
async fn delivery(team: &Team, message: &str, agent: &str) -> String {
    let all = team.ok(&format!("/clutch/v0/deliveries?agent_id={agent}&limit=1000")).await;
    let found = all["deliveries"].as_array().unwrap().iter().find(|delivery| delivery["message_id"] == message);
    found.map_or_else(|| panic!("{message}: {all}"), |delivery| text(&delivery["state"]))
}

/// The texts of the channel, oldest first, each with its author.
async fn channel(team: &Team) -> Vec<(String, String)> {
    let events = team.events("x.message.sent").await;
    let words = |event: &Value| (text(&event["metadata"]["from"]), text(&event["metadata"]["text"]));
    events.iter().map(words).collect()
}

#[tokio::test]
async fn a_team_is_started_kicked_off_and_ended() {
    let team = daemon().await;
    let started = done(&team, "/teams/@pr-1/start", started_by(1)).await;
    let wanted = json!({"team": "@pr-1", "generation": 1, "resumed": false, "kicked_off": false, "interrupted": []});
    assert_eq!(started, wanted);
    let shown = team.ok("/teams/@pr-1").await;
    assert_time(&shown["started_at"]);
    assert_eq!((&shown["live"], &shown["kicked_off"], &shown["outcome"]), (&json!(true), &json!(false), &Value::Null));
    assert_eq!(shown["runner"], json!({"host": "here", "boot_id": "b", "pid": 1, "started_at": 77}));
    assert_eq!((&shown["agents"][0]["name"], &shown["agents"][0]["id"]), (&json!("coder"), &json!(CODER)));
    assert_eq!((&shown["agents"][1]["model"], &shown["agents"][1]["state"]), (&json!("m"), &json!("idle")));
    done(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder begin"})).await;
    done(&team, "/teams/@pr-1/announcements", json!({"text": "that was a lot"})).await;
    let said =
        ["Workflow started", "@coder begin", "that was a lot"].map(|said| ("system".to_owned(), said.to_owned()));
    assert_eq!(channel(&team).await, said);
    let end = json!({"generation": 1, "outcome": "completed", "reason": "nothing is left"});
    let shown = done(&team, "/teams/@pr-1/end", end.clone()).await;
    assert_eq!((&shown["live"], &shown["outcome"]), (&json!(false), &json!("completed")));
    assert_eq!(done(&team, "/teams/@pr-1/end", end).await, shown, "the same end again");
    let other = asks(&team, "/teams/@pr-1/end", json!({"generation": 1, "outcome": "failed"})).await;
    assert_refused(&other, 409, "ALREADY_ANSWERED", "completed");
    let again = done(&team, "/teams/@pr-1/start", started_by(2)).await;
    assert_eq!(
        (&again["generation"], &again["resumed"], &again["kicked_off"]),
        (&json!(2), &json!(false), &json!(false))
    );
}

#[tokio::test]
async fn one_runner_runs_a_team_and_no_agent_is_in_two() {
    let team = daemon().await;
    done(&team, "/teams/@pr-1/start", started_by(1)).await;
    let refused = asks(&team, "/teams/@pr-1/start", started_by(2)).await;
    assert_refused(&refused, 409, "CONFLICT", "process 1 on here");
    assert!(text(&refused.body["hint"]).contains("rookery stop @pr-1"), "{}", refused.body);
    let mut alone = started_by(3);
    (alone["mode"], alone["agents"]) = (json!("standalone"), json!([{"name": "coder", "backend": "mock"}]));
    assert_refused(&asks(&team, "/teams/coder@pr-1/start", alone.clone()).await, 409, "CONFLICT", "@pr-1");
    done(&team, "/teams/@pr-1/end", json!({"generation": 1, "outcome": "stopped"})).await;
    done(&team, "/teams/coder@pr-1/start", alone).await;
    let ids =
        |teams: &Value| teams["teams"].as_array().unwrap().iter().map(|team| text(&team["id"])).collect::<Vec<_>>();
    assert_eq!(ids(&team.ok("/teams?live=true").await), ["coder@pr-1"]);
    assert_eq!(ids(&team.ok("/teams").await), ["coder@pr-1", "@pr-1"]);
    assert_eq!(ids(&team.ok("/teams?live=false").await), ["@pr-1"]);
}

/// Runners that are started at once and each think that theirs is the first call.
#[tokio::test]
async fn a_kickoff_is_posted_once_however_often_and_at_once_it_is_asked_for() {
    let team = daemon().await;
    done(&team, "/teams/@pr-1/start", started_by(1)).await;
    let ask = || asks(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder begin"}));
    let replies = futures_util::future::join_all((0..8).map(|_| ask())).await;
    let messages: Vec<&Value> = replies.iter().map(|reply| &reply.body["kickoff_messages"]).collect();
    assert!(replies.iter().all(|reply| reply.status == 200) && messages.iter().all(|told| *told == messages[0]));
    assert_eq!(channel(&team).await.len(), 2);
}

#[tokio::test]
async fn a_turn_that_is_done_acknowledges_its_messages_and_says_what_its_agent_said() {
    let team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    let turn = woken(&team, CODER, 1, &[&kickoff]).await;
    assert_eq!(delivery(&team, &kickoff, CODER).await, "notified");
    let shown = team.ok("/teams/@pr-1").await;
    assert_eq!((&shown["agents"][0]["state"], &shown["agents"][0]["open_turn"]), (&json!("working"), &json!(turn)));
    let busy = asks(&team, "/turns", waking(CODER, 1, &[&kickoff])).await;
    assert_refused(&busy, 409, "CONFLICT", &turn);
    let later =
        text(&done(&team, "/teams/@pr-1/announcements", json!({"text": "@coder one more thing"})).await["message"]);
    let usage = json!({"input_tokens": 1200, "output_tokens": 30, "cost_usd": 0.0125});
    let end = json!({"outcome": "done", "usage": usage, "conversation": "c-1", "said": "@reviewer look at it"});
    let shown = ended(&team, &turn, end.clone()).await;
    assert_eq!((&shown["outcome"], &shown["usage"], &shown["conversation"]), (&json!("done"), &usage, &json!("c-1")));
    let states = (delivery(&team, &kickoff, CODER).await, delivery(&team, &later, CODER).await);
    assert_eq!(states, ("acked".to_owned(), "pending".to_owned()), "only what the turn was for");
    assert_eq!(channel(&team).await.last().unwrap(), &(CODER.to_owned(), "@reviewer look at it".to_owned()));
    assert_eq!(delivery(&team, &text(&shown["posted"]), REVIEWER).await, "pending");
    let head = team.head().await;
    assert_eq!(ended(&team, &turn, end).await, shown, "the same end again");
    assert_eq!(team.head().await, head, "and nothing was done by it");
    let other = asks(&team, &format!("/turns/{turn}/end"), json!({"outcome": "failed"})).await;
    assert_refused(&other, 409, "ALREADY_ANSWERED", "done");
    let used = team.ok("/teams/@pr-1").await;
    assert_eq!((&used["turns"], &used["input_tokens"], &used["cost_usd"]), (&json!(1), &json!(1200), &json!(0.0125)));
}

#[tokio::test]
async fn what_fails_for_the_last_time_is_given_up_visibly_and_can_be_brought_back() {
    let team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    let error = json!({"message": "@reviewer broke it", "hint": "look", "kind": "crashed"});
    let first = woken(&team, CODER, 1, &[&kickoff]).await;
    ended(&team, &first, json!({"outcome": "failed", "error": error, "last": false})).await;
    assert_eq!(delivery(&team, &kickoff, CODER).await, "notified", "it is tried again");
    assert_eq!(team.ok("/teams/@pr-1").await["agents"][0]["state"], "waiting");
    let second = woken(&team, CODER, 2, &[&kickoff]).await;
    let shown = ended(&team, &second, json!({"outcome": "failed", "error": error, "last": true})).await;
    assert_eq!((&shown["gave_up"], &shown["error"]), (&json!(true), &error));
    assert_eq!(delivery(&team, &kickoff, CODER).await, "dead");
    let (from, notice) = channel(&team).await.pop().unwrap();
    assert_eq!(from, "system");
    assert!(
        notice.starts_with("coder failed, tried 2 times: @reviewer broke it\n1 message was given up on"),
        "{notice}"
    );
    let to_reviewer = team.ok(&format!("/clutch/v0/deliveries?agent_id={REVIEWER}")).await;
    assert_eq!(to_reviewer["deliveries"], json!([]), "a notice wakes nobody");
    let gone = asks(&team, "/turns", waking(CODER, 1, &[&kickoff])).await;
    assert_refused(&gone, 409, "INVALID_STATE", "waits");
    let dead = team.ok("/clutch/v0/deliveries?state=dead").await;
    let retry = format!("/clutch/v0/deliveries/{}/retry", text(&dead["deliveries"][0]["id"]));
    assert!(asks(&team, &retry, json!({})).await.status.is_success());
    let third = woken(&team, CODER, 1, &[&kickoff]).await;
    ended(&team, &third, json!({"outcome": "done"})).await;
    assert_eq!(delivery(&team, &kickoff, CODER).await, "acked");
    let turns = team.ok("/turns?agent=coder@pr-1&team=@pr-1&limit=2").await;
    let ids: Vec<String> = turns["turns"].as_array().unwrap().iter().map(|turn| text(&turn["turn"])).collect();
    assert_eq!(ids, [third, second], "the newest first");
}

#[tokio::test]
async fn whoever_takes_over_is_told_what_was_under_way_and_what_it_did() {
    let mut team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    let turn = woken(&team, CODER, 1, &[&kickoff]).await;
    let task = team.task().await;
    team.send(
        Method::PATCH,
        &format!("/tasks/{task}"),
        &[("x-agent-id", CODER)],
        Some(json!({"status": "in_progress", "agent_id": CODER})),
    )
    .await;
    team.kill().unwrap();
    team.restart().unwrap();
    let started = done(&team, "/teams/@pr-1/start", taken_over_by(2)).await;
    assert_eq!(
        (&started["generation"], &started["resumed"], &started["kicked_off"]),
        (&json!(1), &json!(true), &json!(true))
    );
    let interrupted = &started["interrupted"][0];
    assert_eq!((&interrupted["turn"], &interrupted["outcome"]), (&json!(turn), &json!("interrupted")));
    assert_eq!(done(&team, "/teams/@pr-1/start", taken_over_by(2)).await, started, "it did not hear the answer");
    let shown = team.ok(&format!("/turns/{turn}")).await;
    let did: Vec<(&str, &str)> = shown["did"]
        .as_array()
        .unwrap()
        .iter()
        .map(|deed| (deed["kind"].as_str().unwrap(), deed["summary"].as_str().unwrap()))
        .collect();
    assert_eq!(
        did,
        [("task.claimed", format!("task.claimed {task}").as_str()), ("task.started", &format!("task.started {task}"))]
    );
    let late = asks(&team, &format!("/turns/{turn}/end"), json!({"outcome": "done"})).await;
    assert_refused(&late, 409, "ALREADY_ANSWERED", "interrupted");
    assert_eq!(delivery(&team, &kickoff, CODER).await, "notified", "nobody acknowledged it");
    done(&team, "/teams/@pr-1/kickoff", json!({"generation": 1, "text": "@coder write it"})).await;
    assert_eq!(channel(&team).await.len(), 2, "the kickoff was out");
}

#[tokio::test]
async fn a_runner_hears_that_it_shall_stop() {
    let team = daemon().await;
    done(&team, "/teams/@pr-1/start", started_by(1)).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let shown = done(&team, "/teams/@pr-1/stop", json!({"agent": "coder", "reason": "enough"})).await;
    assert_eq!((&shown["stop_requested"], &shown["agents"][0]["stop_requested"]), (&json!(false), &json!(true)));
    let heard = stream.next_of("x.team.stop_requested").await.event;
    assert_eq!((&heard["metadata"]["team"], &heard["metadata"]["member"]), (&json!("@pr-1"), &json!(CODER)));
    assert_eq!(done(&team, "/teams/@pr-1/stop", json!({})).await["stop_requested"], true);
    assert_eq!(stream.next_of("x.team.stop_requested").await.event["metadata"]["member"], Value::Null);
    let nobody = asks(&team, "/teams/@pr-1/stop", json!({"agent": "ghost"})).await;
    assert_refused(&nobody, 404, "AGENT_NOT_FOUND", "ghost@pr-1");
}

#[tokio::test]
async fn only_people_run_agents_and_everybody_may_look() {
    let team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    let turn = woken(&team, CODER, 1, &[&kickoff]).await;
    let head = team.head().await;
    for (path, body) in [
        ("/teams/@pr-2/start".to_owned(), started_by(1)),
        ("/teams/@pr-1/kickoff".to_owned(), json!({"generation": 1})),
        ("/teams/@pr-1/announcements".to_owned(), json!({"text": "x"})),
        ("/teams/@pr-1/stop".to_owned(), json!({})),
        ("/teams/@pr-1/end".to_owned(), json!({"generation": 1, "outcome": "stopped"})),
        ("/turns".to_owned(), waking(REVIEWER, 1, &[])),
        (format!("/turns/{turn}/end"), json!({"outcome": "done"})),
    ] {
        for headers in [&[][..], &[("x-agent-id", CODER)]] {
            let reply = team.send(Method::POST, &path, headers, Some(body.clone())).await;
            assert_refused(&reply, 403, "FORBIDDEN", "person");
        }
    }
    assert_eq!(team.head().await, head, "nothing was done");
    assert_eq!(team.ok("/turns").await["turns"][0]["turn"], turn.as_str());
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_a_word_for_it() {
    let team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    for (path, code, word) in
        [("/teams/@nobody", "TEAM_NOT_FOUND", "@nobody"), ("/turns/turn_x", "TURN_NOT_FOUND", "turn_x")]
    {
        assert_refused(&team.get(path).await.unwrap(), 404, code, word);
    }
    assert_refused(&team.get("/teams/@a@b").await.unwrap(), 400, "INVALID", "team");
    assert_error(&team.get("/teams?limit=0").await.unwrap(), 400, "INVALID", "limit must be at least 1");
    let table = [
        ("/teams/@pr-1/kickoff", json!({"generation": 7}), 409, "STALE", "generation 7"),
        ("/teams/@pr-1/kickoff", json!({"generation": 1, "txt": "x"}), 400, "INVALID", "txt"),
        ("/teams/@pr-2/start", json!({}), 400, "INVALID", "workflow"),
        ("/teams/@pr-1/announcements", json!({"text": ""}), 400, "INVALID", "empty"),
        ("/teams/@pr-1/end", json!({"generation": 1, "outcome": "won"}), 400, "INVALID", "outcome"),
        ("/turns", waking(REVIEWER, 1, &[&kickoff]), 404, "MESSAGE_NOT_FOUND", REVIEWER),
        ("/turns", waking(CODER, 0, &[&kickoff]), 400, "INVALID", "attempt"),
        ("/turns", waking("ghost@pr-1", 1, &[]), 404, "AGENT_NOT_FOUND", "ghost"),
        ("/turns/turn_x/end", json!({"outcome": "done"}), 404, "TURN_NOT_FOUND", "turn_x"),
        ("/turns/turn_x/end", json!({"outcome": "done", "usage": {"cost_usd": -1}}), 400, "INVALID", "cost_usd"),
        ("/turns/turn_x/end", json!({"outcome": "done", "transcript": "sha256:no"}), 400, "INVALID", "transcript"),
    ];
    let head = team.head().await;
    for (path, body, status, code, word) in table {
        assert_refused(&asks(&team, path, body).await, status, code, word);
    }
    assert_eq!(team.head().await, head, "nothing was done");
}

/// The answer was lost: the same request with the same key is the same turn.
#[tokio::test]
async fn a_turn_that_is_asked_for_twice_with_a_key_is_one() {
    let team = daemon().await;
    let kickoff = kicked_off(&team, "@coder write it").await;
    let key = format!("Bearer {}", team.person_key().unwrap());
    let headers = [("authorization", key.as_str()), ("idempotency-key", "turn of coder")];
    let ask = || team.send(Method::POST, "/turns", &headers, Some(waking(CODER, 1, &[&kickoff])));
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(team.ok("/turns").await["turns"].as_array().unwrap().len(), 1);
}
