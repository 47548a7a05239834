//! Several daemons over one PostgreSQL: followers that join late, resume, or change the node see the same sequence.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait;
use rookery_testkit::websocket::LoggedMessage;
use serde_json::json;

use crate::endpoint::{Endpoint, Reaction};
use crate::sending::{envelope, post, send_ok};
use crate::team::{announce, follow, note, pages, setup};

fn start(schema: &Schema) -> Daemon {
    setup().store(schema.url()).start().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_shows_the_same_sequence() {
    let schema = Schema::new().unwrap();
    let mut nodes = [start(&schema), start(&schema)];
    announce(&nodes[0], "ken").await;
    announce(&nodes[1], "mia").await;
    let mut here = follow(&nodes[0], "?after=0").await;
    let mut there = follow(&nodes[1], "?after=0&batch=0").await;
    let mut filtered = follow(&nodes[1], "?after=0&agent_id=ken").await;
    for number in 0..30 {
        note(&nodes[number % 2], if number % 3 == 0 { "ken" } else { "mia" }, number).await;
    }
    let (listed, _) = pages(&nodes[0], "/messages?limit=13").await;
    assert_eq!(pages(&nodes[1], "/messages?limit=1000").await.0, listed);
    assert_eq!(here.take(listed.len()).await.unwrap(), listed);
    // The follower moves to the other node halfway.
    let mut moving = there.take(listed.len() / 2).await.unwrap();
    drop(there);
    let last = moving.last().unwrap().seq;
    let mut moved = follow(&nodes[0], &format!("?after={last}")).await;
    moving.extend(moved.take(listed.len() - moving.len()).await.unwrap());
    assert_eq!(moving, listed);
    let by_ken: Vec<LoggedMessage> =
        listed.iter().filter(|placed| placed.message["from"]["agent_id"] == "agent:ken").cloned().collect();
    assert_eq!(filtered.take(by_ken.len()).await.unwrap(), by_ken);
    assert_eq!(pages(&nodes[1], "/messages?agent_id=ken&limit=5").await.0, by_ken);

    // One node is killed under its follower, and a late follower joins: both see the same sequence.
    let mut late = follow(&nodes[1], "?after=0").await;
    let mut seen = late.take(listed.len() / 3).await.unwrap();
    nodes[1].kill().unwrap();
    for number in 30..40 {
        note(&nodes[0], "ken", number).await;
    }
    let (listed, _) = pages(&nodes[0], "/messages?limit=1000").await;
    nodes[1].restart().unwrap();
    let mut resumed = follow(&nodes[1], &format!("?after={}", seen.last().unwrap().seq)).await;
    seen.extend(resumed.take(listed.len() - seen.len()).await.unwrap());
    assert_eq!(seen, listed);
    assert_eq!(follow(&nodes[0], "?after=0").await.take(listed.len()).await.unwrap(), listed);
    let rest: Vec<LoggedMessage> = here.take(listed.len() - moving.len()).await.unwrap();
    assert_eq!(rest, listed[moving.len()..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_of_one_node_is_streamed_identically_by_another() {
    let schema = Schema::new().unwrap();
    let nodes = [start(&schema), start(&schema)];
    announce(&nodes[0], "ken").await;
    // Wherever the second node is handed the next piece, one of the two batches is cut between a request and its
    // effects.
    for (part, notes) in [("odd", 1), ("even", 2)] {
        let before = pages(&nodes[0], "/messages?limit=1000").await.0.len();
        let mut live = follow(&nodes[1], "").await;
        let mut requests = follow(&nodes[1], "?type=task.request").await;
        let note = |number: usize| envelope(&format!("{part}-n{number}"), "x.note", "ken", json!({}));
        let request = |number: usize| {
            let asked = json!({"task_id": format!("{part}-{number}"), "to": [{"agent_id": "person:anna"}]});
            envelope(&format!("{part}-r{number}"), "task.request", "ken", asked)
        };
        let batch = (0..notes).map(note).chain((0..600).map(request)).collect();
        let reply = post(&nodes[0], &batch).await;
        assert_eq!(reply.status, 202, "{}", reply.body);
        let listed = pages(&nodes[0], "/messages?limit=1000").await.0.split_off(before);
        assert_eq!(live.take(listed.len()).await.unwrap(), listed, "{part}");
        let asked: Vec<LoggedMessage> =
            listed.into_iter().filter(|placed| placed.message_type() == "task.request").collect();
        assert_eq!(asked.len(), 600);
        assert_eq!(requests.take(600).await.unwrap(), asked, "{part}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_a_crashed_node_are_taken_over() {
    let schema = Schema::new().unwrap();
    let mut first = start(&schema);
    let endpoint = Endpoint::start(Reaction::Hang).await;
    endpoint.register_for(&first, "ken", json!({})).await;
    announce(&first, "ada").await;
    let second = start(&schema);
    for id in ["m1", "m2"] {
        let note = envelope(id, "x.note", "ada", json!({"to": [{"agent_id": "agent:ken"}], "task_id": "t"}));
        send_ok(&second, &note).await;
    }
    assert_eq!(endpoint.wait_for(1).await[0].id(), "m1");
    first.kill().unwrap();
    endpoint.set_reactions(&[], Reaction::Answer(200));
    let acked = || async {
        let reply = second.get("/clutch/v0/deliveries?state=acked").await?.body;
        Ok(reply["deliveries"].as_array().filter(|acked| acked.len() == 2).map(|_| ()))
    };
    wait::eventually("the other node to deliver both", acked).await.unwrap();
    assert_eq!(endpoint.ids(), ["m1", "m1", "m2"], "sent again, in order");
}
