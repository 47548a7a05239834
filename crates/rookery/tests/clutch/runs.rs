//! Runs: lists, trees and replays.

use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::websocket::LoggedMessage;
use serde_json::{Value, json};

use crate::team::{Team, Tools, create_task, get_rejected, ok, pages, patch_task, rookery, setup, team, text};

/// The task of a tree with this title, at any depth.
fn find_task<'a>(tasks: &'a Value, title: &str) -> &'a Value {
    fn find<'a>(tasks: &'a Value, title: &str) -> Option<&'a Value> {
        tasks.as_array()?.iter().find_map(|task| match task["title"] == title {
            true => Some(task),
            false => find(&task["children"], title),
        })
    }
    find(tasks, title).unwrap_or_else(|| panic!("no {title} in {tasks}"))
}

/// A daemon on the export of another project.
struct Copy {
    daemon: Daemon,
    _folder: tempfile::TempDir,
    _schema: Option<Schema>,
}

fn import_into_new_project(team: &Team) -> Copy {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.jsonl");
    let done = |(code, _, stderr): (i32, String, String)| assert_eq!(code, 0, "{stderr}");
    done(rookery(team.root(), team.store(), &["export", file.to_str().unwrap()]));
    // On the same engine as the original.
    let schema = team.store().map(|_| Schema::new().unwrap());
    let url = schema.as_ref().map(Schema::url);
    let dir = folder.path().to_str().unwrap();
    done(rookery(folder.path(), url.as_deref(), &["import", file.to_str().unwrap(), "--dir", dir]));
    let setup = match url {
        Some(url) => setup().store(url),
        None => setup(),
    };
    Copy { daemon: setup.start_at(folder.path()).unwrap(), _folder: folder, _schema: schema }
}

#[tokio::test]
async fn runs_with_tasks_are_listed_newest_first() {
    let team = team(&["ken"]).await;
    assert_eq!(ok(&team, "/runs").await, json!({"runs": [], "next": null}));
    let ken = Tools::connect(&team, "ken").await;
    create_task(&team, "outside").await;
    ken.call("workflow_create", json!({"name": "empty", "source_type": "prompt", "source_content": "x"})).await;
    let mut expected = vec!["run_default".to_owned()];
    for _ in 0..3 {
        expected.insert(0, ken.plan(json!([{"name": "one"}, {"name": "two"}])).await.0);
    }
    let list = ok(&team, "/runs").await;
    let ids =
        |list: &Value| list["runs"].as_array().unwrap().iter().map(|run| text(&run["run_id"])).collect::<Vec<_>>();
    assert_eq!((ids(&list), &list["next"]), (expected.clone(), &Value::Null));
    let (newest, default) = (&list["runs"][0], &list["runs"][3]);
    let figures = |run: &Value| (run["status"].clone(), run["task_count"].clone(), run["unfinished_count"].clone());
    assert_eq!(figures(newest), (json!("ready"), json!(2), json!(2)));
    assert_eq!(figures(default), (json!("in_progress"), json!(1), json!(1)));

    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = ok(&team, &format!("/runs?limit=1{after}")).await;
        paged.extend(ids(&page));
        match page["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paged, expected);
    for (query, parameter) in [("limit=0", "limit"), ("after=x", "after")] {
        let (status, _, details) = get_rejected(&team, &format!("/runs?{query}")).await;
        assert_eq!((status, &details["parameter"]), (400, &json!(parameter)));
    }
}

#[tokio::test]
async fn run_tree_shows_attempts_and_outcomes() {
    let mut team = team(&["ken", "mia"]).await;
    let (ken, mia) = (Tools::connect(&team, "ken").await, Tools::connect(&team, "mia").await);
    let (run, tasks) =
        ken.plan(json!([{"name": "find"}, {"name": "write", "depends_on": ["find"]}, {"name": "spare"}])).await;
    let find = &tasks["find"];
    ken.call("task_claim", json!({"task_id": find})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "in_progress"})).await;
    ken.call("task_update_status", json!({"task_id": find, "status": "failed", "error": "no network"})).await;
    mia.call("task_claim", json!({"task_id": find})).await;
    mia.call("task_update_status", json!({"task_id": find, "status": "in_progress"})).await;
    mia.call("task_update_status", json!({"task_id": find, "status": "completed", "outcome": "found"})).await;
    ken.call("task_claim", json!({"task_id": tasks["write"]})).await;

    let tree = ok(&team, &format!("/runs/{run}")).await;
    assert_eq!((&tree["run_id"], &tree["status"], &tree["next"]), (&json!(run), &json!("in_progress"), &Value::Null));
    assert_eq!((&tree["task_count"], &tree["unfinished_count"]), (&json!(3), &json!(2)));
    let titles: Vec<String> = tree["tasks"].as_array().unwrap().iter().map(|task| text(&task["title"])).collect();
    assert_eq!(titles, ["find", "write", "spare"], "in the order of the plan");
    let found = find_task(&tree["tasks"], "find");
    assert_eq!((&found["state"], &found["outcome"]), (&json!("completed"), &json!("found")));
    assert_eq!((&found["agent"], &found["agents"]), (&json!("agent:mia"), &json!(["agent:ken", "agent:mia"])));
    let attempts: Vec<Value> = found["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| json!([attempt["attempt"], attempt["agent"], attempt["outcome"], attempt["error"]]))
        .collect();
    assert_eq!(
        json!(attempts),
        json!([[1, "agent:ken", "failed", "no network"], [2, "agent:mia", "completed", null]]),
        "{found}"
    );
    let spent: i64 = found["attempts"].as_array().unwrap().iter().map(|a| a["duration_ms"].as_i64().unwrap()).sum();
    assert_eq!(found["working_ms"], json!(spent));
    assert!(found["queued_ms"].as_i64().is_some_and(|queued| queued >= 0));
    let count = pages(&team, &format!("/messages?task_id={find}&limit=1000")).await.0.len();
    assert_eq!((&found["message_count"], &found["message_count_is_partial"]), (&json!(count), &json!(false)));
    let write = find_task(&tree["tasks"], "write");
    assert_eq!((&write["depends_on"], &write["waiting_on"]), (&json!([find]), &json!([])));
    assert_eq!((&write["attempts"][0]["ended_at"], &write["working_ms"]), (&Value::Null, &json!(0)));
    let spare = find_task(&tree["tasks"], "spare");
    assert_eq!((&spare["attempts"], &spare["queued_ms"], &spare["agent"]), (&json!([]), &Value::Null, &Value::Null));

    let first = ok(&team, &format!("/runs/{run}?limit=2")).await;
    let second = ok(&team, &format!("/runs/{run}?limit=2&after={}", first["next"])).await;
    assert_eq!((&second["tasks"][0]["title"], &second["next"]), (&json!("spare"), &Value::Null));

    // The same log gives the same tree: after a restart, and from rows rebuilt in another store.
    let replayed = pages(&team, &format!("/runs/{run}/replay")).await.0;
    team.restart().unwrap();
    assert_eq!(ok(&team, &format!("/runs/run:{run}")).await, tree);
    let copy = import_into_new_project(&team);
    assert_eq!(ok(&copy.daemon, &format!("/runs/{run}")).await, tree);
    assert_eq!(pages(&copy.daemon, &format!("/runs/{run}/replay")).await.0, replayed);
    let unknown = get_rejected(&team, "/runs/run_nowhere").await;
    assert_eq!((unknown.0, unknown.1.as_str()), (404, "WORKFLOW_NOT_FOUND"));
}

#[tokio::test]
async fn default_run_has_a_tree() {
    let team = team(&["ken"]).await;
    let unknown = get_rejected(&team, "/runs/run_default").await;
    assert_eq!(unknown.0, 404, "it has no task yet");
    let first = create_task(&team, "first").await;
    patch_task(&team, &first, json!({"status": "in_progress", "agent_id": "ken"})).await;
    patch_task(&team, &first, json!({"status": "queued", "agent_id": "ken"})).await;
    let tree = ok(&team, "/runs/run_default").await;
    assert_eq!((&tree["status"], &tree["task_count"]), (&json!("in_progress"), &json!(1)));
    let attempt = &tree["tasks"][0]["attempts"][0];
    assert_eq!((&attempt["agent"], &attempt["outcome"]), (&json!("agent:ken"), &json!("released")));
}

#[tokio::test]
async fn replay_contains_exactly_the_messages_of_the_run() {
    let team = team(&["ken"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "one"}, {"name": "two"}])).await;
    create_task(&team, "outside").await;
    ken.call("task_claim", json!({"task_id": tasks["one"]})).await;
    let of_run = pages(&team, &format!("/messages?run_id={run}&limit=1000")).await.0;
    assert!(of_run.len() > 3);
    let replayed = pages(&team, &format!("/runs/{run}/replay?limit=2")).await.0;
    assert_eq!(replayed, of_run);

    // Replayed at high speed: the same messages, one per line.
    let streamed = async |query: &str| {
        let path = format!("/clutch/v0/runs/{run}/replay?{query}");
        let response = team.request(reqwest::Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let body = response.text().await.unwrap();
        body.lines().map(|line| LoggedMessage::read(&serde_json::from_str(line).unwrap()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(streamed("speed=100000").await, of_run);
    assert_eq!(streamed(&format!("speed=1e9&after={}", of_run[1].seq)).await, of_run[2..]);
    for speed in ["0", "-1", "fast", "inf", "NaN", ""] {
        let (status, _, details) = get_rejected(&team, &format!("/runs/{run}/replay?speed={speed}")).await;
        assert_eq!((status, &details["parameter"]), (400, &json!("speed")), "{speed}");
    }
    assert_eq!(get_rejected(&team, "/runs/run_nowhere/replay").await.0, 404);
    let wrong = read(team.request(reqwest::Method::POST, &format!("/clutch/v0/runs/{run}"))).await.unwrap();
    assert_eq!(wrong.status, 405);
}
