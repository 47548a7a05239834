//! Changes on disk: the changes that the watcher reports, and the agents that it holds responsible.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_reply, eventually, setup, team_of};

fn write_file(team: &Team, path: &str, text: &str) {
    let path = team.root().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Starts a daemon that watches files and has seen a first change.
async fn start_watching(setup: rookery_testkit::daemon::Setup, agents: &[&str]) -> Team {
    let team = team_of(setup, agents).await;
    // Every change after the first event about the mark is seen.
    eventually("the watcher sees changes", || async {
        write_file(&team, "mark", &format!("{:?}", std::time::UNIX_EPOCH.elapsed()));
        (!team.events("x.file.untracked_changed").await.is_empty()).then_some(())
    })
    .await;
    team
}

async fn report_change(team: &Team, agent: &str, path: &str) -> Value {
    let body = json!({"agent_id": agent, "action": "resource.modified", "resource": path});
    let reply = team.post("/events", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn unattributed_change_is_logged_without_a_conflict() {
    let team = start_watching(setup(), &["a"]).await;
    assert_eq!(team.ok("/admin/info").await["watching"], true);
    write_file(&team, "src/x.rs", "one");
    team.claim("src/x.rs", "a").await;
    assert_eq!(team.resource("src/x.rs").await["content_hash"], sha256("one"));
    let mut stream = Sse::open(&team, "/events/stream?resource=src/x.rs", None).await;
    write_file(&team, "src/x.rs", "two");
    let event = stream.next_of("resource.modified").await.event;
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(sha256("one")), &json!(sha256("two"))));
    assert_eq!(event["agent_id"], "watcher");
    assert!(event["metadata"]["warning"].as_str().is_some(), "{event}");
    let resource = team.resource("src/x.rs").await;
    assert_eq!(resource["content_hash"], sha256("two"));
    assert_eq!((&resource["state"], &resource["last_modified_by"]), (&json!("claimed"), &Value::Null));
    assert_eq!(team.ok("/status").await["resources"]["conflicted"], 0);
}

#[tokio::test]
async fn unchanged_content_is_ignored_and_deleted_file_keeps_its_claim() {
    let team = start_watching(setup(), &["a"]).await;
    write_file(&team, "x", "one");
    team.claim("x", "a").await;
    let mut stream = Sse::open(&team, "/events/stream?resource=x", None).await;
    write_file(&team, "x", "one");
    std::fs::remove_file(team.root().join("x")).unwrap();
    let event = stream.next_of("resource.modified").await.event;
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(sha256("one")), &json!("")));
    let resource = team.resource("x").await;
    assert_eq!((&resource["owner"], &resource["content_hash"]), (&json!("a"), &json!("")));
    write_file(&team, "x", "again");
    let event = stream.next_of("resource.modified").await.event;
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(""), &json!(sha256("again"))));
}

#[tokio::test]
async fn change_by_another_agent_is_a_conflict_until_resolved() {
    let team = start_watching(setup(), &["lead", "a", "b"]).await;
    write_file(&team, "src/x.rs", "one");
    team.claim("src/x.rs", "a").await;
    let mut stream = Sse::open(&team, "/events/stream?resource=src/x.rs", None).await;
    let body = json!({"agent_id": "b", "action": "resource.modified", "resource": "src/x.rs",
        "before_hash": sha256("one"), "after_hash": sha256("two"), "metadata": {"why": "rename"}});
    let reported = team.post("/events", body).await.unwrap().body;
    assert_eq!((&reported["action"], &reported["agent_id"]), (&json!("resource.modified"), &json!("b")));
    assert_eq!(reported["metadata"]["why"], "rename");
    let conflict = stream.next_of("resource.conflict_detected").await.event;
    assert_eq!((&conflict["before_hash"], &conflict["after_hash"]), (&json!(sha256("one")), &json!(sha256("two"))));
    assert_eq!((&conflict["metadata"]["holder"], &conflict["metadata"]["intruder"]), (&json!("a"), &json!("b")));
    let resource = team.resource("src/x.rs").await;
    assert_eq!((&resource["state"], &resource["owner"]), (&json!("conflicted"), &json!("a")));
    assert_eq!(resource["last_modified_by"], "b");
    assert_eq!(team.ok("/status").await["resources"], json!({"total": 1, "claimed": 1, "conflicted": 1}));
    assert_eq!(team.ok("/resources?filter=conflicted").await, json!([resource]));
    // A second report is no second conflict.
    report_change(&team, "b", "src/x.rs").await;
    assert_eq!(team.events("resource.conflict_detected").await.len(), 1);
    let resolved =
        team.as_person(Method::POST, "/resources/resolve", Some(json!({"path": "src/x.rs", "winner": "a"}))).await;
    assert_eq!((&resolved.body["state"], &resolved.body["owner"]), (&json!("claimed"), &json!("a")));
    assert_eq!(team.ok("/status").await["resources"]["conflicted"], 0);
    assert_eq!(stream.next_of("resource.conflict_resolved").await.event["metadata"]["winner"], "a");
    // A change by the owner is no conflict.
    report_change(&team, "a", "src/x.rs").await;
    assert_eq!(team.resource("src/x.rs").await["state"], "claimed");
    assert_eq!(team.resource("src/x.rs").await["last_modified_by"], "a");
}

#[tokio::test]
async fn change_below_claimed_subtree_is_a_conflict() {
    let team = team_of(setup().arg("--no-watch"), &["lead", "a", "b"]).await;
    team.claim("src/", "a").await;
    report_change(&team, "b", "src/deep/x.rs").await;
    assert_eq!(team.resource("src/deep/x.rs").await["state"], "conflicted");
    report_change(&team, "b", "other.rs").await;
    assert_eq!(team.resource("other.rs").await["state"], "free", "the path was free");
}

#[tokio::test]
async fn release_ends_the_conflict() {
    let team = team_of(setup().arg("--no-watch"), &["lead", "a", "b"]).await;
    team.claim("x", "a").await;
    report_change(&team, "b", "x").await;
    assert_reply(&team.release("x", "a").await, 200, json!({"released": true}));
    assert_eq!(team.resource("x").await["state"], "free");
    assert_eq!(team.ok("/status").await["resources"], json!({"total": 1, "claimed": 0, "conflicted": 0}));
    assert_eq!(team.events("resource.conflict_resolved").await.len(), 1);
}

#[tokio::test]
async fn unresolved_conflict_is_escalated_once_after_timeout() {
    let team =
        team_of(setup().arg("--no-watch").env("ROOKERY_ESCALATE_CONFLICTS_AFTER", "200ms"), &["lead", "a", "b"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    team.claim("x", "a").await;
    report_change(&team, "b", "x").await;
    let event = stream.next_of("authority.escalation").await.event;
    assert_eq!(event["resource"], "x");
    assert_eq!((&event["metadata"]["holder"], &event["metadata"]["intruder"]), (&json!("a"), &json!("b")));
    assert_eq!(team.resource("x").await["state"], "conflicted");
    // Escalated once: it waits for a person now. A conflict resolved in time is not escalated.
    team.claim("y", "a").await;
    report_change(&team, "b", "y").await;
    stream.next_of("authority.escalation").await;
    assert_eq!(team.events("authority.escalation").await.len(), 2);
}

#[tokio::test]
async fn resolved_conflict_is_not_escalated() {
    let team =
        team_of(setup().arg("--no-watch").env("ROOKERY_ESCALATE_CONFLICTS_AFTER", "1s"), &["lead", "a", "b"]).await;
    for path in ["solved", "left"] {
        team.claim(path, "a").await;
        report_change(&team, "b", path).await;
    }
    let resolve = json!({"path": "solved", "winner": "a", "agent_id": "lead"});
    assert_eq!(team.post("/resources/resolve", resolve).await.unwrap().status, 200);
    let escalated = team.wait_for("an escalation", "/events?action=authority.escalation", |events| {
        (!events.as_array()?.is_empty()).then(|| events.clone())
    });
    assert_eq!(escalated.await[0]["resource"], "left");
    assert_eq!(team.events("authority.escalation").await.len(), 1);
}

#[tokio::test]
async fn changes_of_unclaimed_files_are_summarized() {
    let team = start_watching(setup(), &["a"]).await;
    std::fs::create_dir_all(team.root().join("many")).unwrap();
    let before = team.events("x.file.untracked_changed").await.len();
    for n in 0..200 {
        write_file(&team, &format!("many/{n}.txt"), "x");
    }
    let seen = eventually("200 changed files", || async {
        let events = team.events("x.file.untracked_changed").await;
        let total: u64 = events[before..].iter().map(|event| event["metadata"]["changed"].as_u64().unwrap()).sum();
        (total >= 200).then_some(events)
    })
    .await;
    let summaries = &seen[before..];
    assert!(summaries.len() <= 20, "{} events for 200 files", summaries.len());
    assert!(summaries.iter().all(|event| event["metadata"]["sample"].as_array().unwrap().len() <= 10));
    assert_eq!(team.ok("/resources").await, json!([]), "the summary tracks no files");
}

#[tokio::test]
async fn ignored_files_and_daemon_folder_are_not_watched() {
    let team = team_of(setup(), &["a"]).await;
    write_file(&team, ".gitignore", "ignored/\n*.log\ndaemon.stderr\n");
    let team = {
        let mut team = team;
        team.restart().unwrap();
        team
    };
    let mut stream = Sse::open(&team, "/events/stream?action=x.file.untracked_changed", None).await;
    for path in ["ignored/x", "a.log", ".git/HEAD", ".rookery/x", ".workflow/x"] {
        write_file(&team, path, "x");
    }
    let touching = eventually("a summary", async || {
        write_file(&team, "seen.txt", &format!("{:?}", std::time::UNIX_EPOCH.elapsed()));
        None::<()>
    });
    tokio::select! {
        _ = stream.next() => {}
        () = touching => {}
    }
    let events = team.events("x.file.untracked_changed").await;
    let named: Vec<&Value> = events.iter().flat_map(|event| event["metadata"]["sample"].as_array().unwrap()).collect();
    assert!(named.iter().all(|path| ["seen.txt", ".gitignore"].contains(&path.as_str().unwrap())), "{named:?}");
}

#[tokio::test]
async fn claimed_file_changed_during_downtime_is_reported() {
    let mut team = start_watching(setup(), &["a"]).await;
    write_file(&team, "x", "one");
    team.claim("x", "a").await;
    team.kill().unwrap();
    write_file(&team, "x", "two");
    team.restart().unwrap();
    let events = team.wait_for("the change", "/events?action=resource.modified", |events| {
        (!events.as_array()?.is_empty()).then(|| events.clone())
    });
    let event = events.await[0].clone();
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(sha256("one")), &json!(sha256("two"))));
}

#[tokio::test]
async fn disabled_watcher_is_reported_as_a_warning() {
    let team = team_of(setup().arg("--no-watch"), &["a"]).await;
    let info = team.ok("/admin/info").await;
    assert_eq!(info["watching"], false);
    assert!(info["warnings"][0].as_str().unwrap().contains("not watched"));
}
