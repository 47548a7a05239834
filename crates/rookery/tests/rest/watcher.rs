//! Conflicts on disk: what the watcher sees, whom it blames and whom it does not.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_reply, eventually, setup, team_of};

fn write(team: &Team, path: &str, text: &str) {
    let path = team.root().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A daemon that watches, and has looked at the project once.
async fn watching(setup: rookery_testkit::daemon::Setup, agents: &[&str]) -> Team {
    let team = team_of(setup, agents).await;
    // Whatever comes after the first event about the mark is seen.
    eventually("the watcher sees changes", || async {
        write(&team, "mark", &format!("{:?}", std::time::UNIX_EPOCH.elapsed()));
        (!team.events("x.file.untracked_changed").await.is_empty()).then_some(())
    })
    .await;
    team
}

async fn report(team: &Team, agent: &str, path: &str) -> Value {
    let body = json!({"agent_id": agent, "action": "resource.modified", "resource": path});
    let reply = team.post("/events", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn a_change_that_nobody_can_be_credited_with_is_told_and_blamed_on_nobody() {
    let team = watching(setup(), &["a"]).await;
    assert_eq!(team.ok("/admin/info").await["watching"], true);
    write(&team, "src/x.rs", "one");
    team.claimed("src/x.rs", "a").await;
    assert_eq!(team.resource("src/x.rs").await["content_hash"], sha256("one"));
    let mut stream = Sse::open(&team, "/events/stream?resource=src/x.rs", None).await;
    write(&team, "src/x.rs", "two");
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
async fn the_same_content_again_is_no_change_and_a_gone_file_keeps_its_claim() {
    let team = watching(setup(), &["a"]).await;
    write(&team, "x", "one");
    team.claimed("x", "a").await;
    let mut stream = Sse::open(&team, "/events/stream?resource=x", None).await;
    write(&team, "x", "one");
    std::fs::remove_file(team.root().join("x")).unwrap();
    let event = stream.next_of("resource.modified").await.event;
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(sha256("one")), &json!("")));
    let resource = team.resource("x").await;
    assert_eq!((&resource["owner"], &resource["content_hash"]), (&json!("a"), &json!("")));
    write(&team, "x", "again");
    let event = stream.next_of("resource.modified").await.event;
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(""), &json!(sha256("again"))));
}

#[tokio::test]
async fn a_change_by_another_agent_is_a_conflict_until_somebody_decides() {
    let team = watching(setup(), &["lead", "a", "b"]).await;
    write(&team, "src/x.rs", "one");
    team.claimed("src/x.rs", "a").await;
    let mut stream = Sse::open(&team, "/events/stream?resource=src/x.rs", None).await;
    let body = json!({"agent_id": "b", "action": "resource.modified", "resource": "src/x.rs",
        "before_hash": sha256("one"), "after_hash": sha256("two"), "metadata": {"why": "rename"}});
    let told = team.post("/events", body).await.unwrap().body;
    assert_eq!((&told["action"], &told["agent_id"]), (&json!("resource.modified"), &json!("b")));
    assert_eq!(told["metadata"]["why"], "rename");
    let conflict = stream.next_of("resource.conflict_detected").await.event;
    assert_eq!((&conflict["before_hash"], &conflict["after_hash"]), (&json!(sha256("one")), &json!(sha256("two"))));
    assert_eq!((&conflict["metadata"]["holder"], &conflict["metadata"]["intruder"]), (&json!("a"), &json!("b")));
    let resource = team.resource("src/x.rs").await;
    assert_eq!((&resource["state"], &resource["owner"]), (&json!("conflicted"), &json!("a")));
    assert_eq!(resource["last_modified_by"], "b");
    assert_eq!(team.ok("/status").await["resources"], json!({"total": 1, "claimed": 1, "conflicted": 1}));
    assert_eq!(team.ok("/resources?filter=conflicted").await, json!([resource]));
    // A second report is no second conflict.
    report(&team, "b", "src/x.rs").await;
    assert_eq!(team.events("resource.conflict_detected").await.len(), 1);
    let resolved =
        team.as_person(Method::POST, "/resources/resolve", Some(json!({"path": "src/x.rs", "winner": "a"}))).await;
    assert_eq!((&resolved.body["state"], &resolved.body["owner"]), (&json!("claimed"), &json!("a")));
    assert_eq!(team.ok("/status").await["resources"]["conflicted"], 0);
    assert_eq!(stream.next_of("resource.conflict_resolved").await.event["metadata"]["winner"], "a");
    // The owner's own change is none.
    report(&team, "a", "src/x.rs").await;
    assert_eq!(team.resource("src/x.rs").await["state"], "claimed");
    assert_eq!(team.resource("src/x.rs").await["last_modified_by"], "a");
}

#[tokio::test]
async fn a_change_below_anothers_subtree_is_a_conflict() {
    let team = team_of(setup().arg("--no-watch"), &["lead", "a", "b"]).await;
    team.claimed("src/", "a").await;
    report(&team, "b", "src/deep/x.rs").await;
    assert_eq!(team.resource("src/deep/x.rs").await["state"], "conflicted");
    report(&team, "b", "other.rs").await;
    assert_eq!(team.resource("other.rs").await["state"], "free", "nobody held it");
}

#[tokio::test]
async fn releasing_ends_the_conflict_about_it() {
    let team = team_of(setup().arg("--no-watch"), &["lead", "a", "b"]).await;
    team.claimed("x", "a").await;
    report(&team, "b", "x").await;
    assert_reply(&team.release("x", "a").await, 200, json!({"released": true}));
    assert_eq!(team.resource("x").await["state"], "free");
    assert_eq!(team.ok("/status").await["resources"], json!({"total": 1, "claimed": 0, "conflicted": 0}));
    assert_eq!(team.events("resource.conflict_resolved").await.len(), 1);
}

#[tokio::test]
async fn a_conflict_that_nobody_resolves_is_put_before_people() {
    let team =
        team_of(setup().arg("--no-watch").env("ROOKERY_ESCALATE_CONFLICTS_AFTER", "200ms"), &["lead", "a", "b"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    team.claimed("x", "a").await;
    report(&team, "b", "x").await;
    let event = stream.next_of("authority.escalation").await.event;
    assert_eq!(event["resource"], "x");
    assert_eq!((&event["metadata"]["holder"], &event["metadata"]["intruder"]), (&json!("a"), &json!("b")));
    assert_eq!(team.resource("x").await["state"], "conflicted");
    // Once: it waits for a person now. One that is resolved in time never gets there.
    team.claimed("y", "a").await;
    report(&team, "b", "y").await;
    stream.next_of("authority.escalation").await;
    assert_eq!(team.events("authority.escalation").await.len(), 2);
}

#[tokio::test]
async fn a_conflict_that_is_resolved_is_not_escalated() {
    let team =
        team_of(setup().arg("--no-watch").env("ROOKERY_ESCALATE_CONFLICTS_AFTER", "1s"), &["lead", "a", "b"]).await;
    for path in ["solved", "left"] {
        team.claimed(path, "a").await;
        report(&team, "b", path).await;
    }
    let resolve = json!({"path": "solved", "winner": "a", "agent_id": "lead"});
    assert_eq!(team.post("/resources/resolve", resolve).await.unwrap().status, 200);
    let escalated = team.until("an escalation", "/events?action=authority.escalation", |events| {
        (!events.as_array()?.is_empty()).then(|| events.clone())
    });
    assert_eq!(escalated.await[0]["resource"], "left");
    assert_eq!(team.events("authority.escalation").await.len(), 1);
}

#[tokio::test]
async fn changes_of_unclaimed_files_are_one_summary() {
    let team = watching(setup(), &["a"]).await;
    std::fs::create_dir_all(team.root().join("many")).unwrap();
    let before = team.events("x.file.untracked_changed").await.len();
    for n in 0..200 {
        write(&team, &format!("many/{n}.txt"), "x");
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
    assert_eq!(team.ok("/resources").await, json!([]), "they are not tracked by that");
}

#[tokio::test]
async fn what_git_ignores_and_our_own_folder_are_not_looked_at() {
    let team = team_of(setup(), &["a"]).await;
    write(&team, ".gitignore", "ignored/\n*.log\ndaemon.stderr\n");
    let team = {
        let mut team = team;
        team.restart().unwrap();
        team
    };
    let mut stream = Sse::open(&team, "/events/stream?action=x.file.untracked_changed", None).await;
    for path in ["ignored/x", "a.log", ".git/HEAD", ".rookery/x", ".workflow/x"] {
        write(&team, path, "x");
    }
    let touching = eventually("a summary", async || {
        write(&team, "seen.txt", &format!("{:?}", std::time::UNIX_EPOCH.elapsed()));
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
async fn a_claimed_file_that_changed_while_we_were_away_is_told() {
    let mut team = watching(setup(), &["a"]).await;
    write(&team, "x", "one");
    team.claimed("x", "a").await;
    team.kill().unwrap();
    write(&team, "x", "two");
    team.restart().unwrap();
    let events = team.until("the change", "/events?action=resource.modified", |events| {
        (!events.as_array()?.is_empty()).then(|| events.clone())
    });
    let event = events.await[0].clone();
    assert_eq!((&event["before_hash"], &event["after_hash"]), (&json!(sha256("one")), &json!(sha256("two"))));
}

#[tokio::test]
async fn without_a_watcher_files_change_unseen_and_the_daemon_says_so() {
    let team = team_of(setup().arg("--no-watch"), &["a"]).await;
    let info = team.ok("/admin/info").await;
    assert_eq!(info["watching"], false);
    assert!(info["warnings"][0].as_str().unwrap().contains("not watched"));
}
