//! `rookery runs` and `rookery run-tree` over a real daemon.

use serde_json::{Value, json};

use crate::team::{Team, Tools, ok, rookery, team};

fn shown(team: &Team, args: &[&str]) -> String {
    let (code, stdout, stderr) = rookery(team.root(), team.store(), args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}

#[tokio::test]
async fn a_run_can_be_seen_in_the_terminal() {
    let team = team(&["ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}])).await;
    let find = &tasks["find"];
    ken.call("task_claim", json!({"task_id": find})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "in_progress"})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "failed", "error": "no network"})).await;

    let runs = shown(&team, &["runs"]);
    assert!(runs.contains(&run) && runs.contains("0 of 2 done"), "{runs}");
    let json: Value = serde_json::from_str(&shown(&team, &["runs", "--json"])).unwrap();
    assert_eq!(json, ok(&team, "/runs").await);

    let tree = shown(&team, &["run-tree", &run]);
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].starts_with(&run), "{tree}");
    assert!(lines[1].starts_with("|- [!] find") && lines[1].contains("failed") && lines[1].contains("ken"), "{tree}");
    assert!(lines[2].contains("attempt 1 by ken: failed after") && lines[2].ends_with(": no network"), "{tree}");
    assert!(lines[3].starts_with("`- [ ] write") && lines[3].contains(&format!("waits for {find}")), "{tree}");
    assert_eq!(lines.len(), 4, "{tree}");
    let json: Value = serde_json::from_str(&shown(&team, &["run-tree", &run, "--json"])).unwrap();
    assert_eq!(json, ok(&team, &format!("/runs/{run}")).await);

    let (code, stdout, stderr) = rookery(team.root(), team.store(), &["run-tree", "run_nowhere"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("Run not found") && stderr.contains("list the runs"), "{stderr}");
}
