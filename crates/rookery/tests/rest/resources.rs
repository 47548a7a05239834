//! Resources: claims on paths and subtrees, releases, force, locks, and equal spellings of a path.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Team, assert_error, assert_json, assert_rejected, assert_reply, assert_time, fields, team, text};

#[tokio::test]
async fn claim_of_claimed_path_is_denied_with_its_owner() {
    let team = team(&["claude-code-1", "cursor-1"]).await;
    team.claim("src/index.ts", "claude-code-1").await;
    let rejected = team.try_claim("src/index.ts", "cursor-1").await;
    assert_json(&rejected);
    let denial = json!({"granted": false, "owner": "claude-code-1", "reason": "Resource claimed by claude-code-1"});
    assert_reply(&rejected, 409, denial);
    let resource = team.resource("src/index.ts").await;
    let contract = ["claimed_at", "content_hash", "last_modified_by", "owner", "path", "state"];
    assert_eq!(fields(&resource).into_iter().filter(|name| !contract.contains(name)).collect::<Vec<_>>(), ["fence"]);
    assert_time(&resource["claimed_at"]);
    for (field, value) in [
        ("path", json!("src/index.ts")),
        ("state", json!("claimed")),
        ("owner", json!("claude-code-1")),
        ("last_modified_by", Value::Null),
        ("content_hash", json!("")),
    ] {
        assert_eq!(resource[field], value, "{field}");
    }
    assert_eq!(team.ok("/resources").await, json!([resource]));
    assert_eq!(team.ok("/state").await["resources"], json!([resource]));
    let events = team.events("resource.claimed").await;
    assert_eq!((events.len(), &events[0]["resource"]), (1, &json!("src/index.ts")));
}

#[tokio::test]
async fn claimed_file_has_its_content_hash() {
    let team = team(&["a"]).await;
    std::fs::write(team.root().join("hello"), "hello\n").unwrap();
    team.claim("hello", "a").await;
    let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert_eq!(team.resource("hello").await["content_hash"], sha256);
}

#[tokio::test]
async fn claim_without_path_or_agent_is_rejected() {
    let team = team(&["a"]).await;
    for verb in ["claim", "release"] {
        for body in [json!({}), json!({"path": "x"}), json!({"agent_id": "a"}), json!({"path": "", "agent_id": "a"})] {
            let reply = team.post(&format!("/resources/{verb}"), body).await.unwrap();
            assert_error(&reply, 400, "INVALID", "path and agent_id are required");
        }
    }
}

#[tokio::test]
async fn duplicate_claim_by_owner_appends_no_event() {
    let team = team(&["a"]).await;
    team.claim("x", "a").await;
    let head = team.head().await;
    team.claim("./x", "a").await;
    assert_eq!(team.head().await, head);
}

#[tokio::test]
async fn claim_by_unknown_or_departed_agent_is_denied_without_owner() {
    let team = team(&["a", "b"]).await;
    team.delete("/agents/b").await.unwrap();
    for agent in ["ghost", "b"] {
        let reply = team.try_claim("x", agent).await;
        assert_eq!(reply.status, 409);
        assert_eq!(fields(&reply.body), ["granted", "reason"], "{}", reply.body);
        assert_eq!(reply.body["granted"], false);
    }
}

#[tokio::test]
async fn claim_for_an_unknown_task_is_granted_with_a_note() {
    let team = team(&["a"]).await;
    for _ in 0..2 {
        let claim = json!({"path": "x", "agent_id": "a", "task_id": "task_ghost"});
        let granted = team.post("/resources/claim", claim).await.unwrap();
        assert_eq!((granted.status.as_u16(), &granted.body["granted"]), (200, &json!(true)));
        assert!(
            granted.body["note"].as_str().unwrap().contains("task_ghost is not a task known here"),
            "{}",
            granted.body
        );
    }
    assert_eq!(team.resource("x").await["task_id"], Value::Null);
    let claims = team.events("resource.claimed").await;
    assert_eq!(claims.len(), 1);
    assert_eq!((&claims[0]["task_id"], &claims[0]["metadata"]["unknown_task"]), (&Value::Null, &json!("task_ghost")));
}

#[tokio::test]
async fn claims_treat_all_spellings_as_one_path() {
    let team = team(&["a", "b"]).await;
    std::fs::create_dir(team.root().join("src")).unwrap();
    std::os::unix::fs::symlink("src", team.root().join("link")).unwrap();
    team.claim("./src//x/../a.rs", "a").await;
    let absolute = team.root().join("src/a.rs").display().to_string();
    for path in ["src/a.rs", "./src/a.rs", "src/./a.rs", "link/a.rs", &absolute] {
        assert_eq!(team.try_claim(path, "b").await.body["owner"], "a", "{path}");
    }
    // Case is kept.
    team.claim("src/A.rs", "b").await;
    // The same characters, composed and decomposed.
    team.claim("caf\u{e9}", "a").await;
    assert_eq!(team.try_claim("cafe\u{301}", "b").await.body["owner"], "a");
}

#[tokio::test]
async fn path_outside_project_is_rejected() {
    let team = team(&["a"]).await;
    std::os::unix::fs::symlink("/etc", team.root().join("out")).unwrap();
    for path in ["/etc/passwd", "../x", "a/../../x", "a\0b", ".", "out/passwd", "/"] {
        for verb in ["claim", "release", "resolve", "lock", "unlock"] {
            let body = json!({"path": path, "agent_id": "a", "winner": "a"});
            let reply = team.post(&format!("/resources/{verb}"), body).await.unwrap();
            assert_rejected(&reply, 400, "INVALID", "path");
        }
        let reported = json!({"agent_id": "a", "action": "resource.modified", "resource": path});
        assert_rejected(&team.post("/events", reported).await.unwrap(), 400, "INVALID", "path");
    }
    assert_rejected(&team.get("/resources/..%2Fx").await.unwrap(), 400, "INVALID", "path");
    assert_rejected(&team.get("/resources/a%00b").await.unwrap(), 400, "INVALID", "path");
    assert_rejected(&team.get("/resources/%ff").await.unwrap(), 400, "INVALID", "");
    assert_eq!(team.ok("/resources").await, json!([]));
}

#[tokio::test]
async fn subtree_claim_excludes_paths_below_and_subtrees_above() {
    let team = team(&["a", "b"]).await;
    team.claim("src/core/", "a").await;
    for path in ["src/core/x.rs", "src/core/deep/er/", "src/core/", "src/core", "src/"] {
        let reply = team.try_claim(path, "b").await;
        assert_eq!((reply.status.as_u16(), &reply.body["owner"]), (409, &json!("a")), "{path}");
        assert!(text(&reply.body["reason"]).starts_with("Resource claimed by a"), "{}", reply.body);
    }
    for path in ["src/corex", "src/other.rs", "src/cor/"] {
        team.claim(path, "b").await;
    }
    team.claim("src/core/x.rs", "a").await;
    assert_eq!(team.resource("src/core/").await["owner"], "a");
    assert_reply(&team.release("src/core/", "a").await, 200, json!({"released": true}));
    assert_eq!(team.try_claim("src/core/x.rs", "b").await.body["owner"], "a", "the claim on the file remains");
    team.claim("src/core/y.rs", "b").await;
}

#[tokio::test]
async fn release_reports_whether_a_claim_ended() {
    let team = team(&["lead", "a", "b"]).await;
    team.claim("x", "a").await;
    let by_other = team.release("x", "b").await;
    assert_reply(&by_other, 200, json!({"released": false, "reason": "x is claimed by a"}));
    let unknown = team.release("never", "a").await;
    assert_reply(&unknown, 200, json!({"released": false, "reason": "never is not tracked"}));
    assert_reply(&team.release("./x", "a").await, 200, json!({"released": true}));
    let again = team.release("x", "a").await;
    assert_reply(&again, 200, json!({"released": false, "reason": "x is not claimed"}));
    // Released paths stay tracked.
    let resource = team.resource("x").await;
    assert_eq!((&resource["state"], &resource["owner"]), (&json!("free"), &Value::Null));
    assert_eq!(resource["claimed_at"], Value::Null);
    assert_eq!(team.ok("/status").await["resources"], json!({"total": 1, "claimed": 0, "conflicted": 0}));
    team.claim("x", "b").await;
    assert_reply(&team.release("x", "lead").await, 200, json!({"released": true}));
}

#[tokio::test]
async fn release_with_outdated_fence_is_rejected() {
    let team = team(&["a"]).await;
    team.claim("x", "a").await;
    let fence = team.resource("x").await["fence"].to_string();
    let body = Some(json!({"path": "x", "agent_id": "a"}));
    let stale = team.send(Method::POST, "/resources/release", &[("x-fence", "1")], body.clone()).await;
    assert_rejected(&stale, 409, "STALE_FENCE", "fence 1");
    let right = team.send(Method::POST, "/resources/release", &[("x-fence", &fence)], body).await;
    assert_reply(&right, 200, json!({"released": true}));
}

#[tokio::test]
async fn resource_list_is_filtered() {
    let team = team(&["a"]).await;
    team.claim("b", "a").await;
    team.claim("a", "a").await;
    team.claim("free", "a").await;
    team.release("free", "a").await;
    let list = async |query: &str| -> Vec<String> {
        let found = team.ok(&format!("/resources{query}")).await;
        found.as_array().unwrap().iter().map(|resource| text(&resource["path"])).collect()
    };
    assert_eq!(list("").await, ["a", "b", "free"]);
    assert_eq!(list("?filter=claimed").await, ["a", "b"]);
    assert_eq!(list("?filter=conflicted").await, Vec::<String>::new());
    assert_rejected(&team.get("/resources?filter=locked").await.unwrap(), 400, "INVALID", "filter");
    assert_error(&team.get("/resources/ghost").await.unwrap(), 404, "RESOURCE_NOT_FOUND", "Resource not tracked");
}

#[tokio::test]
async fn resource_address_accepts_any_file_name() {
    let team = team(&["a"]).await;
    for (path, address) in [
        ("src/deep/er.rs", "src/deep/er.rs"),
        ("with/slash", "with%2Fslash"),
        ("with space", "with%20space"),
        ("100%", "100%25"),
        ("ä/ö", "%C3%A4/%C3%B6"),
        ("a+b", "a+b"),
        ("q?x#y", "q%3Fx%23y"),
        ("claim", "claim"),
        ("release", "release"),
        ("resolve", "resolve"),
        ("lock", "lock"),
        ("unlock", "unlock"),
        ("claim/deeper", "claim/deeper"),
        ("folder/", "folder/"),
    ] {
        team.claim(path, "a").await;
        assert_eq!(team.resource(address).await["path"], path);
    }
}

#[tokio::test]
async fn forced_claim_needs_lead_or_person_and_records_the_previous_owner() {
    let team = team(&["lead", "a", "b"]).await;
    team.claim("x", "a").await;
    let force = |agent: &str| json!({"path": "x", "agent_id": agent, "force": true});
    let by_b = team.post("/resources/claim", force("b")).await.unwrap();
    assert_rejected(&by_b, 403, "FORBIDDEN", "only the lead or a person may force a claim");
    assert_eq!(team.resource("x").await["owner"], "a");
    assert_reply(&team.post("/resources/claim", force("lead")).await.unwrap(), 200, json!({"granted": true}));
    assert_eq!(team.resource("x").await["owner"], "lead");
    let decision = team.events("authority.decision").await.pop().unwrap();
    assert_eq!(decision["resource"], "x");
    assert_eq!((&decision["metadata"]["loser"], &decision["metadata"]["winner"]), (&json!("a"), &json!("lead")));
    let for_b = team.as_person(Method::POST, "/resources/claim", Some(force("b"))).await;
    assert_reply(&for_b, 200, json!({"granted": true}));
    assert_eq!(team.resource("x").await["owner"], "b");
    assert_eq!(team.ok("/status").await["resources"]["claimed"], 1);
    // A free path: forcing is claiming.
    let free = json!({"path": "free", "agent_id": "b", "force": true});
    assert_reply(&team.post("/resources/claim", free).await.unwrap(), 200, json!({"granted": true}));
}

#[tokio::test]
async fn claim_of_locked_path_is_denied() {
    let team = team(&["lead", "a"]).await;
    let post = async |team: &Team, verb: &str, agent: &str, path: &str| {
        team.post(&format!("/resources/{verb}"), json!({"path": path, "agent_id": agent})).await.unwrap()
    };
    assert_rejected(&post(&team, "lock", "a", "x").await, 403, "FORBIDDEN", "only the lead or a person may lock");
    let locked = post(&team, "lock", "lead", "x").await;
    assert_eq!((locked.status.as_u16(), &locked.body["state"]), (200, &json!("locked")));
    let rejected = team.try_claim("x", "a").await;
    assert_reply(&rejected, 409, json!({"granted": false, "reason": "Resource locked by lead"}));
    assert_eq!(team.try_claim("x", "lead").await.status, 409, "the lock holds for its owner too");
    assert_rejected(&post(&team, "unlock", "a", "x").await, 403, "FORBIDDEN", "unlock");
    assert_eq!(post(&team, "unlock", "lead", "x").await.body["state"], "free");
    team.claim("x", "a").await;
    post(&team, "lock", "lead", "dir/").await;
    assert_eq!(team.try_claim("dir/file", "a").await.status, 409);
    assert_rejected(&post(&team, "unlock", "lead", "never").await, 404, "RESOURCE_NOT_FOUND", "not tracked");
    let by_person = team.as_person(Method::POST, "/resources/lock", Some(json!({"path": "y"}))).await;
    assert_eq!(by_person.body["state"], "locked");
}

#[tokio::test]
async fn resolve_needs_authority_and_a_conflict() {
    let team = team(&["lead", "a", "b"]).await;
    team.claim("x", "a").await;
    let resolve = |agent: &str, winner: &str| json!({"path": "x", "winner": winner, "agent_id": agent});
    let none = team.post("/resources/resolve", resolve("lead", "a")).await.unwrap();
    assert_rejected(&none, 409, "NOT_CONFLICTED", "x has no conflict");
    let changed = json!({"agent_id": "b", "action": "resource.modified", "resource": "x", "after_hash": "1f"});
    team.post("/events", changed).await.unwrap();
    assert_eq!(team.resource("x").await["state"], "conflicted");
    let by_a = team.post("/resources/resolve", resolve("a", "a")).await.unwrap();
    assert_rejected(&by_a, 403, "FORBIDDEN", "resolve");
    assert_rejected(
        &team.post("/resources/resolve", json!({"path": "x"})).await.unwrap(),
        400,
        "INVALID",
        "path and winner are required",
    );
    let ghost = team.post("/resources/resolve", resolve("lead", "ghost")).await.unwrap();
    assert_rejected(&ghost, 404, "AGENT_NOT_FOUND", "Agent not found");
    let resolved = team.post("/resources/resolve", resolve("lead", "b")).await.unwrap();
    assert_eq!(resolved.status, 200);
    assert_eq!((&resolved.body["state"], &resolved.body["owner"]), (&json!("claimed"), &json!("b")));
    let event = team.events("resource.conflict_resolved").await.pop().unwrap();
    assert_eq!((&event["resource"], &event["metadata"]["winner"]), (&json!("x"), &json!("b")));
}

#[tokio::test]
async fn worktree_path_is_claimed_as_its_repository_path() {
    let team = team(&["a", "b"]).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let worktree = elsewhere.path().canonicalize().unwrap();
    let entry = team.root().join(".git/worktrees/wt");
    std::fs::create_dir_all(&entry).unwrap();
    std::fs::write(entry.join("gitdir"), format!("{}/.git\n", worktree.display())).unwrap();
    team.claim(&worktree.join("src/a.rs").display().to_string(), "a").await;
    assert_eq!(team.try_claim("src/a.rs", "b").await.body["owner"], "a");
}
