//! What a browser gets: the web UI or the page without it, signing in, and what the UI asks of the daemon.

use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::support::{Team, assert_refused, setup, team, team_of, text};

/// A new launch code.
async fn code(team: &Team, person: &str) -> String {
    let reply = team.as_person(Method::POST, "/session/launch", Some(json!({ "person": person }))).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["path"]).strip_prefix("/ui/launch#").unwrap().to_owned()
}

/// The cookie that a browser keeps after it was signed in.
async fn cookie(team: &Team, person: &str) -> String {
    let code = code(team, person).await;
    let reply = team.post("/session", json!({ "code": code })).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    let set = reply.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_launch_address_signs_a_person_in_once() {
    let team = team(&["a"]).await;
    let code = code(&team, "anna").await;
    assert_eq!(team.ok("/session").await["person"], Value::Null);
    let reply = team.post("/session", json!({ "code": code })).await.unwrap();
    assert_eq!(reply.status, 200);
    let again = team.post("/session", json!({ "code": code })).await.unwrap();
    assert_refused(&again, 401, "UNAUTHENTICATED", "used already");
    assert!(!again.headers.contains_key("set-cookie"));
    let wrong = team.post("/session", json!({ "code": "guess" })).await.unwrap();
    assert_refused(&wrong, 401, "UNAUTHENTICATED", "used already");
}

#[tokio::test]
async fn only_a_person_makes_launch_addresses() {
    let team = team(&["lead"]).await;
    for headers in [&[][..], &[("x-agent-id", "lead")]] {
        let reply = team.send(Method::POST, "/session/launch", headers, None).await;
        assert_refused(&reply, 403, "FORBIDDEN", "only a person");
    }
    let odd = team.as_person(Method::POST, "/session/launch", Some(json!({"person": "two words"}))).await;
    assert_refused(&odd, 400, "INVALID", "person must be");
}

#[tokio::test]
async fn the_cookie_acts_as_its_person_and_for_no_other_site() {
    let mut team = team(&["a"]).await;
    let cookie = cookie(&team, "anna").await;
    let with = [("cookie", cookie.as_str())];
    assert_eq!(team.send(Method::GET, "/session", &with, None).await.body["person"], "anna");
    assert_eq!(team.send(Method::GET, "/admin/tokens", &with, None).await.status, 200, "what only people may");
    assert_eq!(team.send(Method::GET, "/admin/tokens", &[], None).await.status, 403);

    let own = team.url().to_owned();
    let note = Some(json!({"text": "hello"}));
    let foreign = [("cookie", cookie.as_str()), ("origin", "http://127.0.0.1:1")];
    let reply = team.send(Method::POST, "/channels/default/messages", &foreign, note.clone()).await;
    assert_refused(&reply, 403, "FOREIGN_ORIGIN", "origin");
    let ours = [("cookie", cookie.as_str()), ("origin", own.as_str())];
    assert_eq!(team.send(Method::POST, "/channels/default/messages", &ours, note.clone()).await.status, 201);

    let (name, value) = cookie.split_once('=').unwrap();
    let other = format!("rookery-other={value}; {name}=rku.00.99.00");
    assert_eq!(team.send(Method::GET, "/session", &[("cookie", &other)], None).await.body["person"], Value::Null);

    team.restart().unwrap();
    assert_eq!(team.send(Method::GET, "/session", &with, None).await.body["person"], "anna", "it outlives the daemon");
}

#[tokio::test]
async fn with_tokens_required_a_cookie_is_as_good_as_one() {
    let team = team_of(setup().arg("--no-watch").arg("--require-token"), &[]).await;
    assert_eq!(team.send(Method::GET, "/state", &[], None).await.status, 401);
    let cookie = cookie(&team, "anna").await;
    assert_eq!(team.send(Method::GET, "/state", &[("cookie", &cookie)], None).await.status, 200);
    let out = team.send(Method::DELETE, "/session", &[("cookie", &cookie)], None).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn people_and_agents_talk_in_the_same_channel() {
    let team = team(&["ada", "bob"]).await;
    let cookie = cookie(&team, "anna").await;
    let say = async |headers: &[(&str, &str)], body: Value| {
        team.send(Method::POST, "/channels/default/messages", headers, Some(body)).await
    };
    let first = say(&[("cookie", &cookie)], json!({"text": "@ada @bob look, @carl too"})).await;
    assert_eq!(first.status, 201, "{}", first.body);
    assert_eq!(first.body["from"], "person:anna");
    assert_eq!(first.body["mentions"], json!(["ada", "bob"]));
    assert_eq!(first.body["unknown"], json!(["carl"]));
    assert_eq!(first.body["priority"], "high");
    let answer = json!({"text": "@anna yes", "reply_to": first.body["id"]});
    let answer = say(&[("x-agent-id", "ada")], answer).await;
    assert_eq!((answer.body["from"].clone(), answer.body["unknown"].clone()), (json!("ada"), json!(["anna"])));
    assert_refused(&say(&[], json!({"text": "hi"})).await, 403, "FORBIDDEN", "nobody in particular");
    assert_refused(&say(&[("cookie", &cookie)], json!({})).await, 400, "INVALID", "text is required");

    let entries = team.ok("/channels/default/messages").await;
    let entries = entries.as_array().unwrap();
    let shown: Vec<(String, &Value)> = entries.iter().map(|entry| (text(&entry["from"]), &entry["reply_to"])).collect();
    assert_eq!(shown, [("person:anna".to_owned(), &Value::Null), ("ada".to_owned(), &first.body["id"])]);
    let before = format!("/channels/default/messages?limit=5&before={}", entries[1]["at"]);
    assert_eq!(team.ok(&before).await.as_array().unwrap().len(), 1);
    let channels = team.ok("/channels").await;
    assert_eq!((&channels[0]["name"], &channels[0]["messages"]), (&json!("default"), &json!(2)));
    let waiting = team.ok("/clutch/v0/agents/bob/inbox").await;
    assert!(waiting.to_string().contains("look, @carl too"), "{waiting}");
}

#[tokio::test]
async fn a_document_is_written_over_the_version_that_was_read() {
    let team = team(&["ada"]).await;
    let cookie = cookie(&team, "anna").await;
    let path = "/contexts/default/documents/notes/plan.md";
    let write = async |body: Value| team.send(Method::PUT, path, &[("cookie", &cookie)], Some(body)).await;
    assert_eq!(write(json!({"text": "one", "version": 0})).await.body["version"], 1);
    assert_eq!(write(json!({"text": "two", "version": 1})).await.body["version"], 2);
    let stale = write(json!({"text": "three", "version": 1})).await;
    assert_eq!((stale.status, text(&stale.body["code"])), (StatusCode::CONFLICT, "STALE_VERSION".to_owned()));
    assert_eq!((&stale.body["newer"]["text"], &stale.body["newer"]["version"]), (&json!("two"), &json!(2)));
    assert_refused(&write(json!({"text": "three"})).await, 400, "INVALID", "required");

    let now = team.ok(path).await;
    assert_eq!((&now["text"], &now["author"]), (&json!("two"), &json!("person:anna")));
    assert_eq!(team.ok(&format!("{path}?version=1")).await["text"], "one");
    let history = team.ok("/contexts/default/history/notes/plan.md").await;
    let versions: Vec<&Value> = history.as_array().unwrap().iter().map(|change| &change["version"]).collect();
    assert_eq!(versions, [2, 1]);
    assert_eq!(team.ok("/contexts/default/documents").await[0]["path"], "notes/plan.md");
    let nobody = team.send(Method::PUT, path, &[], Some(json!({"text": "x", "version": 2}))).await;
    assert_refused(&nobody, 403, "FORBIDDEN", "nobody in particular");
    let missing = team.send(Method::GET, "/contexts/default/documents/none.md", &[], None).await;
    assert_eq!(missing.status, 404);
}

/// The same whether this program carries the UI or not; what differs is looked at where it does.
#[tokio::test]
async fn views_are_pages_and_files_that_are_missing_are_missing() {
    let team = team(&["a"]).await;
    let page = |path: &str| team.request(Method::GET, path).header("accept", "text/html,*/*");
    for path in ["/", "/ui", "/ui/", "/ui/tasks/task_1", "/ui/c/default"] {
        let response = page(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(response.text().await.unwrap().contains("<!doctype html>"), "{path}");
    }
    let missing =
        read(team.request(Method::GET, "/ui/assets/none.js").header("sec-fetch-mode", "no-cors")).await.unwrap();
    assert_refused(&missing, 404, "NOT_FOUND", "nothing at this path");
    let elsewhere = read(page("/nowhere")).await.unwrap();
    assert_refused(&elsewhere, 404, "NOT_FOUND", "nothing at this path");
}

#[tokio::test]
async fn hashed_files_are_kept_for_ever_and_the_page_never() {
    let team = team(&[]).await;
    let get = |path: &str, encoding: &str| team.request(Method::GET, path).header("accept-encoding", encoding);
    let index = team.request(Method::GET, "/ui/").header("accept", "text/html").send().await.unwrap();
    let caching = |response: &reqwest::Response| response.headers().get("cache-control").cloned();
    let Some(never) = caching(&index) else {
        // Built without the UI: the page says how to get it.
        assert!(index.text().await.unwrap().contains("cargo xtask up"));
        return;
    };
    assert_eq!(never, "no-cache");
    let html = index.text().await.unwrap();
    let script =
        html.split('"').find(|text| text.starts_with("/ui/assets/") && text.ends_with(".js")).unwrap().to_owned();
    let file = get(&script, "gzip, br").send().await.unwrap();
    assert!(caching(&file).unwrap().to_str().unwrap().contains("immutable"));
    assert_eq!(file.headers()["content-encoding"], "br");
    let tag = file.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(get(&script, "br").header("if-none-match", tag).send().await.unwrap().status(), 304);
    let licenses = get("/licenses", "identity").send().await.unwrap();
    assert!(licenses.text().await.unwrap().contains("react"));
}
