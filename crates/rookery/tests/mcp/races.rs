//! Many connections compete for the same tasks.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::{Client, TRANSPORTS, Transport, connect, create_planned_workflow, rows_of_kind, setup, text};

const TASKS: usize = 10;
const CLIENTS: usize = 32;

/// Every transport once; the other clients use the two that need no process.
fn transport(number: usize) -> Transport {
    TRANSPORTS.get(number).copied().unwrap_or(if number.is_multiple_of(2) {
        Transport::Session
    } else {
        Transport::Stateless
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_task_claims_have_one_winner() {
    let daemon = setup().start().unwrap();
    let clients = join_all((0..CLIENTS).map(|number| {
        let (daemon, transport) = (&daemon, transport(number));
        async move {
            let name = format!("agent-{number}");
            let client = connect(daemon, transport, Some(&name)).await;
            client.register(&name).await;
            client
        }
    }))
    .await;
    let tasks = (0..TASKS).map(|number| json!({"name": format!("task {number}")})).collect();
    let (workflow, _) = create_planned_workflow(&clients[0], tasks).await;
    for left in (1..=TASKS).rev() {
        let next = clients[0].call("workflow_next_tasks", json!({"workflow_id": workflow})).await;
        assert_eq!(next["tasks"].as_array().unwrap().len(), left);
        let task = text(&next["tasks"][0]["id"]);
        let answers = join_all(clients.iter().map(|client| client.call("task_claim", json!({"task_id": task})))).await;
        let winners = answers.iter().filter(|answer| answer["success"] == true).count();
        assert_eq!(winners, 1, "{answers:?}");
        let named: BTreeSet<_> = answers.iter().filter_map(|answer| answer["already_claimed_by"].as_str()).collect();
        let holder = daemon.get(&format!("/tasks/{task}")).await.unwrap().body["assigned_to"].clone();
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [holder.as_str().unwrap()]);
    }
    assert_eq!(rows_of_kind(&daemon, "task.claimed").len(), TASKS);
}

/// A rejected claim names the holder that it lost to, even if that holder releases at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_claim_names_the_holder_despite_concurrent_release() {
    const ROUNDS: usize = 100;
    let daemon = setup().start().unwrap();
    let ada = connect(&daemon, Transport::Session, Some("ada")).await;
    let ben = connect(&daemon, Transport::Session, Some("ben")).await;
    ada.register("ada").await;
    ben.register("ben").await;
    let (_, tasks) = create_planned_workflow(&ada, json!([{"name": "wanted"}])).await;
    let claim = json!({"task_id": tasks["wanted"]});

    let answers = tokio::join!(ada.call("task_claim", claim.clone()), ben.call("task_claim", claim.clone()));
    let (winner, rejected_claim) = match answers.0["success"].as_bool() {
        Some(true) => ("ada", answers.1),
        _ => ("ben", answers.0),
    };
    assert_eq!(rejected_claim, json!({"success": false, "already_claimed_by": winner}));
    let holder = if winner == "ada" { &ada } else { &ben };
    holder.call("task_release", claim.clone()).await;

    let contend = async |client: &Client, other: &str| {
        let mut rejected = 0;
        for _ in 0..ROUNDS {
            let answer = client.call("task_claim", claim.clone()).await;
            if answer["success"] == true {
                client.call("task_release", claim.clone()).await;
            } else {
                assert_eq!(answer, json!({"success": false, "already_claimed_by": other}));
                rejected += 1;
            }
        }
        rejected
    };
    let (ada_rejected, ben_rejected) = tokio::join!(contend(&ada, "ben"), contend(&ben, "ada"));
    assert!(ada_rejected + ben_rejected > 0, "the claims never collided");
    assert_eq!(rows_of_kind(&daemon, "task.claimed").len(), 1 + 2 * ROUNDS - ada_rejected - ben_rejected);
}
