//! Many connections want one task.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::{WAYS, connect, facts, setup, task};

const TASKS: usize = 10;
const CLIENTS: usize = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_want_a_task_one_gets_it() {
    let daemon = setup().start().unwrap();
    let clients = join_all((0..CLIENTS).map(|number| {
        let (daemon, way) = (&daemon, WAYS[number % WAYS.len()]);
        async move {
            let name = format!("agent-{number}");
            let client = connect(daemon, way, Some(&name)).await;
            client.register(&name).await;
            client
        }
    }))
    .await;
    for _ in 0..TASKS {
        let task = task(&daemon, None).await;
        let answers = join_all(clients.iter().map(|client| client.call("task_claim", json!({"task_id": task})))).await;
        let winners = answers.iter().filter(|answer| answer["success"] == true).count();
        assert_eq!(winners, 1, "{answers:?}");
        let named: BTreeSet<_> = answers.iter().filter_map(|answer| answer["already_claimed_by"].as_str()).collect();
        let holder = daemon.get(&format!("/tasks/{task}")).await.unwrap().body["assigned_to"].clone();
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [holder.as_str().unwrap()]);
    }
    assert_eq!(facts(&daemon, "task.claimed").len(), TASKS);
}
