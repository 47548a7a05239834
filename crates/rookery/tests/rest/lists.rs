//! `/state` and lists: pages, and answers that are not sent again while nothing changed.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Team, assert_rejected, team, text};

fn ids(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| text(&entry[field])).collect()
}

/// Reads a list by pages of two.
async fn read_pages(team: &Team, path: &str, field: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut next = format!("{path}?limit=2");
    loop {
        let page = ids(&team.ok(&next).await, field);
        let Some(last) = page.last() else { return pages };
        next = format!("{path}?limit=2&after={last}");
        pages.push(page);
    }
}

#[tokio::test]
async fn lists_are_paged_by_limit_and_cursor() {
    let team = team(&["a", "b", "c"]).await;
    for path in ["src/a.rs", "src/b.rs", "src/c.rs"] {
        let claim = json!({"path": path, "agent_id": "a"});
        assert_eq!(team.post("/resources/claim", claim).await.unwrap().status, 200);
    }
    for _ in 0..3 {
        let task = team.create_task().await;
        team.move_task(&task, "in_progress", "a").await;
        let offer = json!({"from_agent": "a", "task_id": task, "summary": "half done"});
        assert_eq!(team.post("/handoffs", offer).await.unwrap().status, 201);
    }
    for (path, field) in [("/agents", "id"), ("/resources", "path"), ("/tasks", "id"), ("/handoffs", "id")] {
        let whole = ids(&team.ok(path).await, field);
        assert_eq!(whole.len(), 3, "{path}");
        let paged = read_pages(&team, path, field).await;
        assert_eq!(paged, [whole[..2].to_vec(), whole[2..].to_vec()], "{path}");
        let empty = team.send(Method::GET, &format!("{path}?limit=0"), &[], None).await;
        assert_rejected(&empty, 400, "INVALID", "limit must be at least 1");
    }
    for path in ["/agents", "/tasks", "/handoffs"] {
        let unknown = team.send(Method::GET, &format!("{path}?after=unknown"), &[], None).await;
        assert_rejected(&unknown, 400, "INVALID", "known here");
    }
}

#[tokio::test]
async fn list_with_etag_is_not_modified_until_the_log_grows() {
    let team = team(&["a"]).await;
    for path in ["/state", "/agents", "/resources", "/tasks", "/handoffs"] {
        let first = team.send(Method::GET, path, &[], None).await;
        assert_eq!(first.status, StatusCode::OK, "{path}");
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let again = team.send(Method::GET, path, &[("if-none-match", &tag)], None).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{path}");
        assert_eq!(again.headers["x-rookery-seq"], first.headers["x-rookery-seq"], "{path}");
        let task = team.create_task().await;
        let changed = team.send(Method::GET, path, &[("if-none-match", &tag)], None).await;
        assert_eq!(changed.status, StatusCode::OK, "{path}");
        assert_ne!(changed.headers["etag"], tag, "{path}");
        if path == "/state" {
            assert!(ids(&changed.body["tasks"], "id").contains(&task), "{}", changed.body);
        }
    }
}

#[tokio::test]
async fn state_shows_heartbeats_that_are_not_in_the_log() {
    let team = team(&["a"]).await;
    let seen = async |path: &str, of: fn(Value) -> Value| of(team.ok(path).await)["last_heartbeat"].as_i64().unwrap();
    let in_state = |state: Value| state["agents"][0].clone();
    let in_list = |list: Value| list[0].clone();
    for (path, of) in [("/state", in_state as fn(Value) -> Value), ("/agents", in_list)] {
        let before = seen(path, of).await;
        assert_eq!(team.post("/agents/a/heartbeat", json!({})).await.unwrap().status, 200);
        assert!(seen(path, of).await > before, "{path}");
    }
}
