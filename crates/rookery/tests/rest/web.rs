//! The web UI in a browser: its page, signing in, and the requests of the UI.

use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::read;
use rookery_testkit::stream::ReceiveBuffer;
use rookery_testkit::websocket::Socket;
use serde_json::{Value, json};

use crate::cli::rookery;
use crate::support::{DEADLINE, Team, assert_rejected, setup, team, team_of, text};

/// Creates a sign-in link for a person and returns its code.
async fn create_sign_in_code(team: &Team, person: &str) -> String {
    let reply = team.as_person(Method::POST, "/session/sign-in-links", Some(json!({ "person": person }))).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["path"]).strip_prefix("/ui/sign-in#").unwrap().to_owned()
}

/// Both halves of a browser session.
struct Browser {
    id: String,
    cookie: String,
    secret: String,
}

impl Browser {
    async fn sign_in(team: &Team, person: &str) -> Browser {
        let create_sign_in_code = create_sign_in_code(team, person).await;
        let firefox = [("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")];
        let reply = team.send(Method::POST, "/session", &firefox, Some(json!({ "code": create_sign_in_code }))).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let set = reply.headers["set-cookie"].to_str().unwrap().to_owned();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        let (secret, id) = (text(&reply.body["secret"]), text(&reply.body["session"]));
        assert!(!set.contains(&secret), "the halves differ");
        Browser { id, cookie: set.split(';').next().unwrap().to_owned(), secret }
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("cookie", &self.cookie), ("x-rookery-browser", &self.secret)]
    }
}

#[tokio::test]
async fn sign_in_link_signs_a_person_in_once() {
    let team = team(&["a"]).await;
    let create_sign_in_code = create_sign_in_code(&team, "anna").await;
    assert_eq!(team.ok("/session").await["person"], Value::Null);
    let reply = team.post("/session", json!({ "code": create_sign_in_code })).await.unwrap();
    assert_eq!(reply.status, 200);
    let again = team.post("/session", json!({ "code": create_sign_in_code })).await.unwrap();
    assert_rejected(&again, 401, "UNAUTHENTICATED", "used already");
    assert!(!again.headers.contains_key("set-cookie"));
    let wrong = team.post("/session", json!({ "code": "guess" })).await.unwrap();
    assert_rejected(&wrong, 401, "UNAUTHENTICATED", "used already");
}

#[tokio::test]
async fn session_cookie_of_tls_page_is_secure_only() {
    let team = team(&[]).await;
    let by_tls = team.url().replace("http://", "https://");
    for (origin, secure) in [(by_tls.as_str(), true), (team.url(), false)] {
        let body = json!({ "code": create_sign_in_code(&team, "anna").await });
        let reply = team.send(Method::POST, "/session", &[("origin", origin)], Some(body)).await;
        assert_eq!(reply.status, 200, "{origin}: {}", reply.body);
        assert_eq!(reply.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"), secure, "{origin}");
    }
}

#[tokio::test]
async fn sign_in_link_request_needs_a_person() {
    let team = team(&["lead"]).await;
    for headers in [&[][..], &[("x-agent-id", "lead")]] {
        let reply = team.send(Method::POST, "/session/sign-in-links", headers, None).await;
        assert_rejected(&reply, 403, "FORBIDDEN", "only a person");
    }
    let odd = team.as_person(Method::POST, "/session/sign-in-links", Some(json!({"person": "two words"}))).await;
    assert_rejected(&odd, 400, "INVALID", "person must be");
}

#[tokio::test]
async fn browser_session_acts_as_its_person_and_outlives_a_restart() {
    let mut team = team(&["a"]).await;
    let browser = Browser::sign_in(&team, "anna").await;
    let session = team.send(Method::GET, "/session", &browser.headers(), None).await;
    assert_eq!((&session.body["person"], &session.body["session"]), (&json!("anna"), &json!(browser.id)));
    assert_eq!(team.send(Method::GET, "/admin/tokens", &browser.headers(), None).await.body, json!([]));

    let own = team.url().to_owned();
    let note = Some(json!({"text": "hello"}));
    let [cookie, secret] = browser.headers();
    let foreign = [cookie, secret, ("origin", "http://127.0.0.1:1")];
    let reply = team.send(Method::POST, "/channels/default/messages", &foreign, note.clone()).await;
    assert_rejected(&reply, 403, "FOREIGN_ORIGIN", "origin");
    let ours = [cookie, secret, ("origin", own.as_str())];
    let reply = team.send(Method::POST, "/channels/default/messages", &ours, note).await;
    assert_eq!((reply.status.as_u16(), &reply.body["from"]), (201, &json!("person:anna")));

    team.restart().unwrap();
    let after = team.send(Method::GET, "/session", &browser.headers(), None).await;
    assert_eq!(after.body["person"], "anna");
}

/// A server on another port of this host receives the cookie and nothing else.
#[tokio::test]
async fn cookie_without_the_stored_secret_cannot_act_or_read_in_private() {
    let open = team(&["a"]).await;
    let browser = Browser::sign_in(&open, "anna").await;
    let stolen = [("cookie", browser.cookie.as_str())];
    assert_eq!(open.send(Method::GET, "/session", &stolen, None).await.body["person"], Value::Null);
    let token = json!({"agent": "eve", "role": "person"});
    let created = open.send(Method::POST, "/admin/tokens", &stolen, Some(token.clone())).await;
    assert_rejected(&created, 403, "FORBIDDEN", "only a person");
    for path in ["/admin/tokens", "/admin/messages/held", "/sessions"] {
        assert_eq!(open.send(Method::GET, path, &stolen, None).await.status, 403, "{path}");
    }
    let say = open.send(Method::POST, "/channels/default/messages", &stolen, Some(json!({"text": "hi"}))).await;
    assert_rejected(&say, 403, "FORBIDDEN", "nobody in particular");
    // Both halves with one of them wrong, or one half in both places, are rejected too.
    for (cookie, secret) in [(browser.cookie.as_str(), "guess"), ("x=y", browser.secret.as_str())] {
        let with = [("cookie", cookie), ("x-rookery-browser", secret)];
        let reply = open.send(Method::POST, "/admin/tokens", &with, Some(token.clone())).await;
        assert_rejected(&reply, 401, "UNAUTHENTICATED", "signed out");
    }
    let half = browser.cookie.split_once('=').unwrap().1;
    for bearer in [half, browser.secret.as_str()] {
        let bearer = format!("Bearer {bearer}");
        assert_eq!(open.send(Method::GET, "/state", &[("authorization", &bearer)], None).await.status, 401);
    }

    let closed = team_of(setup().arg("--no-watch").arg("--require-token"), &[]).await;
    let browser = Browser::sign_in(&closed, "anna").await;
    let stolen = [("cookie", browser.cookie.as_str())];
    for path in ["/state", "/events/stream", "/clutch/v0/messages", "/session", "/metrics"] {
        assert_eq!(closed.send(Method::GET, path, &stolen, None).await.status, 401, "{path}");
    }
    assert_eq!(closed.send(Method::GET, "/state", &browser.headers(), None).await.status, 200);
    assert_eq!(closed.send(Method::GET, "/ui/", &[("accept", "text/html")], None).await.status, 200, "static files");
}

#[tokio::test]
async fn signing_out_revokes_the_session_and_ends_its_streams() {
    let team = team(&[]).await;
    let (one, two) = (Browser::sign_in(&team, "anna").await, Browser::sign_in(&team, "ben").await);
    let listed = team.send(Method::GET, "/sessions", &one.headers(), None).await.body;
    let shown: Vec<(&Value, &Value, &Value)> =
        listed.as_array().unwrap().iter().map(|s| (&s["person"], &s["browser"], &s["current"])).collect();
    let firefox = json!("Firefox on Linux");
    assert_eq!(shown, [(&json!("anna"), &firefox, &json!(true)), (&json!("ben"), &firefox, &json!(false))]);
    assert!(!listed.to_string().contains(&one.secret));

    let mut stream = team.request(Method::GET, "/events/stream");
    for (name, value) in one.headers() {
        stream = stream.header(name, value);
    }
    let mut stream = stream.send().await.unwrap();
    assert!(stream.chunk().await.unwrap().is_some());
    let out = team.send(Method::DELETE, "/session", &one.headers(), None).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    let revoked = team.send(Method::GET, "/session", &one.headers(), None).await;
    assert_rejected(&revoked, 401, "UNAUTHENTICATED", "signed out");
    team.announce("w", "worker").await;
    let rest = tokio::time::timeout(DEADLINE, async { while let Ok(Some(_)) = stream.chunk().await {} }).await;
    assert!(rest.is_ok(), "the stream ends with its session");

    let agent = team.send(Method::DELETE, &format!("/sessions/{}", two.id), &[("x-agent-id", "w")], None).await;
    assert_rejected(&agent, 403, "FORBIDDEN", "only a person");
    assert_eq!(team.as_person(Method::DELETE, &format!("/sessions/{}", two.id), None).await.status, 200);
    assert_eq!(team.send(Method::GET, "/session", &two.headers(), None).await.status, 401);
    let gone = team.as_person(Method::DELETE, &format!("/sessions/{}", two.id), None).await;
    assert_rejected(&gone, 404, "SESSION_NOT_FOUND", "no browser session");
}

/// A page cannot send headers with a WebSocket, so its half of the session is the first frame.
#[tokio::test]
async fn websocket_needs_the_stored_secret_in_its_first_frame() {
    let team = team_of(setup().arg("--no-watch").arg("--require-token"), &[]).await;
    let browser = Browser::sign_in(&team, "anna").await;
    let cookie = [("cookie", browser.cookie.as_str())];
    let open = async |query: &str| Socket::connect(team.url(), query, &cookie, ReceiveBuffer::Default).await.unwrap();
    assert_eq!(open("").await.unwrap_err().status, 401, "the cookie alone opens nothing");
    for first in [json!({"op": "authenticate", "secret": "guess"}), json!({"op": "subscribe"}), json!("x")] {
        let mut socket = open("?authenticate=1&after=0").await.unwrap();
        socket.send(&first).await.unwrap();
        let rejected = socket.frame().await.unwrap();
        assert_eq!((&rejected["type"], &rejected["code"]), (&json!("error"), &json!("UNAUTHENTICATED")), "{rejected}");
        assert_eq!(socket.close_code().await.unwrap(), Some(1008), "{first}");
    }
    let mut socket = open("?authenticate=1").await.unwrap();
    socket.send(&json!({"op": "authenticate", "secret": browser.secret})).await.unwrap();
    assert_eq!(socket.frame().await.unwrap(), json!({"op": "authenticated", "as": "person:anna"}));
    let say = |text: &str| Some(json!({ "text": text }));
    team.as_person(Method::POST, "/channels/default/messages", say("hello")).await;
    assert_eq!(socket.next().await.unwrap().message_type(), "chat.message");
    assert_eq!(team.as_person(Method::DELETE, &format!("/sessions/{}", browser.id), None).await.status, 200);
    team.as_person(Method::POST, "/channels/default/messages", say("hello")).await;
    assert_eq!(socket.close_code().await.unwrap(), Some(1008), "the socket ends with the session");
}

#[tokio::test]
async fn sessions_command_lists_and_revokes() {
    let team = team(&[]).await;
    let (one, two) = (Browser::sign_in(&team, "anna").await, Browser::sign_in(&team, "ben").await);
    let run = async |args: &[&str]| {
        let (status, out, err) = rookery(team.root(), args);
        assert_eq!(status, 0, "{err}");
        out
    };
    let shown = run(&["sessions"]).await;
    assert!(shown.contains(&one.id) && shown.contains("Firefox on Linux"), "{shown}");
    run(&["sessions", "revoke", &one.id]).await;
    assert_eq!(team.send(Method::GET, "/session", &one.headers(), None).await.status, 401);
    assert_eq!(team.send(Method::GET, "/session", &two.headers(), None).await.status, 200);
    let all = run(&["sessions", "revoke", "--all"]).await;
    assert!(all.contains("signed out 1 browser"), "{all}");
    assert_eq!(team.send(Method::GET, "/session", &two.headers(), None).await.status, 401);
}

/// Redirected output is stored, so nothing in it may sign anyone in.
#[expect(clippy::disallowed_methods, reason = "the daemon whose output is redirected is started here")]
#[tokio::test]
async fn redirected_output_has_no_sign_in_link() {
    let team = team(&[]).await;
    let (status, out, err) = rookery(team.root(), &["open"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(out.trim(), team.url());
    assert!(!err.contains("/ui/sign-in#") && err.contains("--print"), "{err}");
    for args in [&["open", "--print"][..], &["--json", "open"]] {
        let (_, out, _) = rookery(team.root(), args);
        assert!(out.contains("/ui/sign-in#"), "{args:?}: {out}");
    }
    let fresh = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(fresh.path().join("up.log")).unwrap();
    let mut daemon = std::process::Command::new(env!("CARGO_BIN_EXE_rookery"))
        .args(["up", "--port", "0", "--no-watch"])
        .current_dir(fresh.path())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let output = crate::support::eventually("the daemon prints its address", || async {
        let output = std::fs::read_to_string(fresh.path().join("up.log")).unwrap();
        output.contains("web UI: ").then_some(output)
    })
    .await;
    let published = std::fs::read_to_string(fresh.path().join(".rookery/daemon.json")).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(!output.contains("sign-in#") && output.contains("rookery open"), "{output}");
    assert!(!published.contains("sign-in#"), "{published}");
}

#[tokio::test]
async fn requests_of_other_sites_are_refused_unless_they_open_a_page() {
    let team = team(&["a"]).await;
    for site in ["cross-site", "same-site", "\u{fe}"] {
        for (path, mode, dest) in [
            ("/clutch/v0/agents/a/inbox", "no-cors", "image"),
            ("/state", "navigate", "document"),
            ("/state", "no-cors", "script"),
            ("/ui/assets/x.js", "no-cors", "script"),
            ("/ui/", "navigate", "iframe"),
            ("/healthz", "cors", "empty"),
        ] {
            let with = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            let reply = team.send(Method::GET, path, &with, None).await;
            assert_eq!((reply.status.as_u16(), &reply.body["code"]), (403, &json!("FOREIGN_ORIGIN")), "{path}");
        }
        let with = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for path in ["/ui/", "/ui/tasks/t1", "/docs"] {
            assert_eq!(team.send(Method::GET, path, &with, None).await.status, 200, "{path}");
        }
        let posted = team.send(Method::POST, "/session", &with, Some(json!({"code": "x"}))).await;
        assert_rejected(&posted, 403, "FOREIGN_ORIGIN", "origin");
    }
    for site in ["same-origin", "none"] {
        let with = [("sec-fetch-site", site), ("sec-fetch-mode", "cors")];
        assert_eq!(team.send(Method::GET, "/state", &with, None).await.status, 200, "{site}");
    }
}

#[tokio::test]
async fn reading_in_a_browser_brings_no_agent_back() {
    let setup = setup().arg("--no-watch").arg("--set").arg("call_only_offline_after=200ms");
    let team = team_of(setup, &["w1"]).await;
    team.wait_for("w1 is offline", "/agents/w1", |agent| (agent["status"] == "offline").then_some(())).await;
    for browser in [
        [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")],
        [("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        [("user-agent", "Mozilla/5.0 (old)"), ("accept", "image/*")],
        [("referer", "http://127.0.0.1:1/"), ("accept", "image/*")],
    ] {
        let reply = team.send(Method::GET, "/clutch/v0/agents/w1/inbox", &browser, None).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(team.ok("/agents/w1").await["status"], "offline", "{browser:?}");
    }
    // The headers of `fetch` in Node.js.
    let program = [("sec-fetch-mode", "cors"), ("user-agent", "node")];
    assert_eq!(team.send(Method::GET, "/clutch/v0/agents/w1/inbox", &program, None).await.status, 200);
    assert_ne!(team.ok("/agents/w1").await["status"], "offline", "a program that pulls its inbox is back");
}

#[tokio::test]
async fn people_and_agents_share_a_channel() {
    let team = team(&["ada", "bob"]).await;
    let browser = Browser::sign_in(&team, "anna").await;
    let say = async |headers: &[(&str, &str)], body: Value| {
        team.send(Method::POST, "/channels/default/messages", headers, Some(body)).await
    };
    let first = say(&browser.headers(), json!({"text": "@ada @bob look, @carl too"})).await;
    assert_eq!(first.status, 201, "{}", first.body);
    assert_eq!(first.body["from"], "person:anna");
    assert_eq!(first.body["mentions"], json!(["ada", "bob"]));
    assert_eq!(first.body["unknown"], json!(["carl"]));
    assert_eq!(first.body["priority"], "high");
    let answer = json!({"text": "@anna yes", "reply_to": first.body["id"]});
    let answer = say(&[("x-agent-id", "ada")], answer).await;
    assert_eq!((&answer.body["from"], &answer.body["unknown"]), (&json!("ada"), &json!([])));
    assert_eq!(answer.body["people"], json!(["anna"]), "a person is reached by name");
    assert_rejected(&say(&[], json!({"text": "hi"})).await, 403, "FORBIDDEN", "nobody in particular");
    assert_rejected(&say(&browser.headers(), json!({})).await, 400, "INVALID", "text is required");

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
async fn document_write_with_outdated_version_is_rejected() {
    let team = team(&["ada"]).await;
    let browser = Browser::sign_in(&team, "anna").await;
    let path = "/contexts/default/documents/notes/plan.md";
    let write = async |body: Value| team.send(Method::PUT, path, &browser.headers(), Some(body)).await;
    assert_eq!(write(json!({"text": "one", "version": 0})).await.body["version"], 1);
    assert_eq!(write(json!({"text": "two", "version": 1})).await.body["version"], 2);
    let stale = write(json!({"text": "three", "version": 1})).await;
    assert_eq!((stale.status, text(&stale.body["code"])), (StatusCode::CONFLICT, "STALE_VERSION".to_owned()));
    assert_eq!((&stale.body["newer"]["text"], &stale.body["newer"]["version"]), (&json!("two"), &json!(2)));
    assert_rejected(&write(json!({"text": "three"})).await, 400, "INVALID", "required");

    let now = team.ok(path).await;
    assert_eq!((&now["text"], &now["author"]), (&json!("two"), &json!("person:anna")));
    assert_eq!(team.ok(&format!("{path}?version=1")).await["text"], "one");
    let history = team.ok("/contexts/default/history/notes/plan.md").await;
    let versions: Vec<&Value> = history.as_array().unwrap().iter().map(|change| &change["version"]).collect();
    assert_eq!(versions, [2, 1]);
    assert_eq!(team.ok("/contexts/default/documents").await[0]["path"], "notes/plan.md");
    let anonymous = team.send(Method::PUT, path, &[], Some(json!({"text": "x", "version": 2}))).await;
    assert_rejected(&anonymous, 403, "FORBIDDEN", "nobody in particular");
    let missing = team.send(Method::GET, "/contexts/default/documents/none.md", &[], None).await;
    assert_eq!(missing.status, 404);
}

/// Holds with and without the built UI in the program; differences are tested where they are.
#[tokio::test]
async fn ui_views_are_pages_and_missing_files_are_not_found() {
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
    assert_rejected(&missing, 404, "NOT_FOUND", "nothing at this path");
    let elsewhere = read(page("/nowhere")).await.unwrap();
    assert_rejected(&elsewhere, 404, "NOT_FOUND", "nothing at this path");
}

#[tokio::test]
async fn hashed_files_are_immutable_and_the_page_is_not_cached() {
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
