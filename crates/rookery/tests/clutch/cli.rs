//! `rookery runs`, `rookery run-tree` and `rookery route` with a real daemon.

use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::team::{Team, Tools, ok, rookery, team};

fn run_ok(team: &Team, args: &[&str]) -> String {
    let (code, stdout, stderr) = rookery(team.root(), team.store(), args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}

#[tokio::test]
async fn run_commands_show_runs_and_their_trees() {
    let team = team(&["ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}])).await;
    let find = &tasks["find"];
    ken.call("task_claim", json!({"task_id": find})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "in_progress"})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "failed", "error": "no network"})).await;

    let runs = run_ok(&team, &["runs"]);
    assert!(runs.contains(&run) && runs.contains("0 of 2 done"), "{runs}");
    let json: Value = serde_json::from_str(&run_ok(&team, &["runs", "--json"])).unwrap();
    assert_eq!(json, ok(&team, "/runs").await);

    let tree = run_ok(&team, &["run-tree", &run]);
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].starts_with(&run), "{tree}");
    assert!(lines[1].starts_with("|- [!] find") && lines[1].contains("failed") && lines[1].contains("ken"), "{tree}");
    assert!(lines[2].contains("attempt 1 by ken: failed after") && lines[2].ends_with(": no network"), "{tree}");
    assert!(lines[3].starts_with("`- [ ] write") && lines[3].contains(&format!("waits for {find}")), "{tree}");
    assert_eq!(lines.len(), 4, "{tree}");
    let json: Value = serde_json::from_str(&run_ok(&team, &["run-tree", &run, "--json"])).unwrap();
    assert_eq!(json, ok(&team, &format!("/runs/{run}")).await);

    let (code, stdout, stderr) = rookery(team.root(), team.store(), &["run-tree", "run_nowhere"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("Run not found") && stderr.contains("list the runs"), "{stderr}");
}

#[tokio::test]
async fn route_explain_shows_the_choice_and_stores_nothing() {
    let team = team(&["mia"]).await;
    for (agent, tags) in [("ken", json!(["law"])), ("ada", json!(["law", "tax"]))] {
        let capability = json!({"id": "skill:research", "version": "1.2.0", "tags": tags});
        let card = json!({"v": "clutch/0.1", "agent_id": agent, "capabilities": [capability]});
        let path = format!("/clutch/v0/agents/{agent}");
        assert!(read(team.request(Method::PUT, &path).json(&card)).await.unwrap().status.is_success());
    }
    let before = team.export().unwrap().len();
    let args = ["route", "explain", "--requires", "skill:research@^1.0", "--prefers", "domain:tax"];
    let printed = run_ok(&team, &args);
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][0], "ada:", "{printed}");
    assert_eq!(lines[1], ["AGENT", "SCORE", "OUTCOME"]);
    assert_eq!(
        (&lines[2][..], &lines[3][..]),
        (&["ada", "1.00", "selected"][..], &["ken", "0.00", "fits"][..]),
        "{printed}"
    );
    assert_eq!(lines[4], ["mia", "-", "lacks", "skill:research@^1.0"], "{printed}");
    let json: Value = serde_json::from_str(&run_ok(&team, &[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!(
        (&json["selected"], &json["rejected"]["agent:mia"]),
        (&json!("agent:ada"), &json!("lacks skill:research@^1.0"))
    );

    // A group contains its members, also in a draft; options override the draft.
    let group = team.request(Method::PUT, "/clutch/v0/groups/tax").json(&json!({"members": ["ken", "mia"]}));
    assert!(read(group).await.unwrap().status.is_success());
    let draft = team.root().join("draft.json");
    std::fs::write(&draft, json!({"requires": ["skill:flying"], "to": [{"agent_id": "group:tax"}]}).to_string())
        .unwrap();
    let no_candidate = run_ok(&team, &["route", "explain", "draft.json"]);
    assert!(no_candidate.contains("lacks skill:flying") && !no_candidate.contains("ada"), "{no_candidate}");
    let ken = run_ok(&team, &["route", "explain", "draft.json", "--requires", "skill:research"]);
    assert!(ken.starts_with("ken:") && !ken.contains("ada"), "{ken}");

    for (args, expected_error) in [
        (["--to", "group:nobodys"], "'group:nobodys' is no group known here"),
        (["--requires", "skill:x@what"], "/requires/0"),
        (["draft.json", "--to=person:"], "/to/0"),
    ] {
        let (code, stdout, stderr) = rookery(team.root(), team.store(), &[&["route", "explain"][..], &args].concat());
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected_error), "{args:?}: {stderr}");
    }
    std::fs::write(&draft, "[1]").unwrap();
    let (code, _, stderr) = rookery(team.root(), team.store(), &["route", "explain", "draft.json"]);
    assert!(code == 1 && stderr.contains("is not an object"), "{stderr}");
    let group_set = 1;
    assert_eq!(team.export().unwrap().len(), before + group_set, "explaining stores nothing");
}
