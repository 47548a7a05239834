//! Artifacts over HTTP and on the command line: uploads, downloads, ranges, damage, interruptions, collection.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::stream;
use reqwest::{Body, Method, RequestBuilder, StatusCode, header};
use rookery_testkit::daemon::{Daemon, Engine, HttpReply, Setup, read};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATH: &str = "/clutch/v0/artifacts";
const MIB: usize = 1024 * 1024;

fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// A daemon whose artifacts are files, for tests that damage them.
fn start_with_file_artifacts() -> Daemon {
    setup().store("sqlite:.rookery/rookery.db").start().unwrap()
}

/// Pseudo-random bytes that differ by seed.
fn bytes(length: usize, seed: u32) -> Vec<u8> {
    (0..length).map(|at| ((at as u32 ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn at(sha256: &str) -> String {
    format!("{PATH}/sha256-{sha256}")
}

async fn upload(daemon: &Daemon, bytes: &[u8]) -> HttpReply {
    read(daemon.request(Method::POST, PATH).body(bytes.to_vec())).await.unwrap()
}

/// Uploads an artifact that must be accepted, and returns its hash.
async fn put(daemon: &Daemon, bytes: &[u8]) -> String {
    let reply = upload(daemon, bytes).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    let sha256 = hash(bytes);
    let expected = json!({"ref": format!("artifact:sha256-{sha256}"), "sha256": sha256, "size": bytes.len()});
    assert_eq!(reply.body, expected);
    assert_eq!(reply.headers[header::LOCATION], at(&sha256).as_str());
    sha256
}

fn get(daemon: &Daemon, sha256: &str) -> RequestBuilder {
    daemon.request(Method::GET, &at(sha256))
}

async fn content(request: RequestBuilder) -> (StatusCode, Vec<u8>) {
    let response = request.send().await.unwrap();
    (response.status(), response.bytes().await.unwrap().to_vec())
}

#[track_caller]
fn assert_rejected(reply: &HttpReply, status: u16, code: &str) {
    assert_eq!((reply.status.as_u16(), reply.body["code"].as_str()), (status, Some(code)), "{}", reply.body);
    let body = reply.body.as_object().unwrap();
    assert!(body["message"].is_string() && body["retryable"].is_boolean() && body["details"].is_object(), "{body:?}");
}

async fn list_artifacts(daemon: &Daemon) -> Vec<Value> {
    let reply = daemon.get(PATH).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body["artifacts"].as_array().unwrap().clone()
}

fn folder(daemon: &Daemon) -> PathBuf {
    daemon.root().join(".rookery/artifacts")
}

/// Names and sizes of all files in the artifact folder.
fn files(daemon: &Daemon) -> Vec<(String, u64)> {
    let Ok(entries) = fs::read_dir(folder(daemon)) else { return vec![] };
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let length = entry.metadata().map_or(0, |found| found.len());
            (entry.file_name().into_string().unwrap(), length)
        })
        .collect()
}

#[tokio::test]
async fn uploaded_content_is_downloaded_by_its_hash() {
    let daemon = setup().start().unwrap();
    // The last one exceeds the limit of other bodies.
    for sent in [vec![], b"hello".to_vec(), bytes(3 * MIB + 5, 1)] {
        let sha256 = put(&daemon, &sent).await;
        assert_eq!(put(&daemon, &sent).await, sha256, "the same again");
        let response = get(&daemon, &sha256).send().await.unwrap();
        for (name, value) in [
            ("content-type", "application/octet-stream"),
            ("content-length", &sent.len().to_string()),
            ("accept-ranges", "bytes"),
            ("etag", &format!("\"sha256-{sha256}\"")),
            ("content-disposition", &format!("attachment; filename=\"sha256-{sha256}\"")),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; sandbox"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
        assert_eq!((response.status(), response.bytes().await.unwrap().to_vec()), (StatusCode::OK, sent.clone()));
        let head = daemon.request(Method::HEAD, &at(&sha256)).send().await.unwrap();
        assert_eq!(
            (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
            (200, &*sent.len().to_string())
        );
        assert_eq!(head.bytes().await.unwrap(), "");
    }
    assert_eq!(list_artifacts(&daemon).await.len(), 3);
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn invalid_artifact_name_is_rejected() {
    let daemon = setup().start().unwrap();
    put(&daemon, b"here").await;
    let upper = at(&hash(b"here")).to_uppercase().replace("/CLUTCH/V0/ARTIFACTS/SHA256-", &format!("{PATH}/sha256-"));
    for id in ["x", "..%2f..%2frookery.db", "sha256-", "sha256-ab", "md5-ab", "sha256-%00", "artifact:sha256-ab"] {
        let reply = daemon.get(&format!("{PATH}/{id}")).await.unwrap();
        assert_rejected(&reply, 400, "INVALID");
    }
    assert_rejected(&daemon.get(&upper).await.unwrap(), 400, "INVALID");
    assert_rejected(&daemon.get(&format!("{PATH}?after=x")).await.unwrap(), 400, "INVALID");
    assert_rejected(&daemon.get(&format!("{PATH}?limit=x")).await.unwrap(), 400, "INVALID");
    assert_rejected(&daemon.get(&at(&hash(b"elsewhere"))).await.unwrap(), 404, "ARTIFACT_NOT_FOUND");
    assert_eq!(daemon.request(Method::DELETE, &at(&hash(b"here"))).send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn artifact_page_names_the_next_page() {
    let daemon = setup().start().unwrap();
    let mut all = Vec::new();
    for number in 0..5_u8 {
        all.push(put(&daemon, &[number]).await);
    }
    all.sort();
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let reply = daemon.get(&format!("{PATH}?limit=2{next}")).await.unwrap();
        let page = reply.body["artifacts"].as_array().unwrap();
        found.extend(page.iter().map(|artifact| artifact["sha256"].as_str().unwrap().to_owned()));
        match reply.body["next"].as_str() {
            Some(place) => next = format!("&after={place}"),
            None => break,
        }
    }
    assert_eq!(found, all);
}

#[tokio::test]
async fn byte_ranges_are_served_as_requested() {
    let daemon = setup().start().unwrap();
    let sent = bytes(MIB + 100, 2);
    let (sha256, size) = (put(&daemon, &sent).await, sent.len());
    let part = |range: &str| get(&daemon, &sha256).header(header::RANGE, range);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=524280-524300", 524_280, 524_301),
        ("bytes=1048576-", MIB, size),
        ("bytes=-7", size - 7, size),
        ("bytes=-99999999", 0, size),
        ("bytes=5-99999999", 5, size),
    ] {
        let response = part(range).send().await.unwrap();
        assert_eq!(response.status(), 206, "{range}");
        assert_eq!(response.headers()["content-range"], format!("bytes {from}-{}/{size}", to - 1), "{range}");
        assert_eq!(response.headers()["content-length"], (to - from).to_string(), "{range}");
        assert!(response.bytes().await.unwrap() == sent[from..to], "{range}");
    }
    for range in ["bytes=1048676-", "bytes=9999999-", "bytes=9-3", "bytes=-0", "bytes=x"] {
        let reply = read(part(range)).await.unwrap();
        assert_rejected(&reply, 416, "RANGE_NOT_SATISFIABLE");
        assert_eq!(reply.headers["content-range"], format!("bytes */{size}"), "{range}");
    }
    for range in ["bytes=0-1,4-5", "lines=0-1"] {
        let (status, body) = content(part(range)).await;
        assert!((status.as_u16(), body.len()) == (200, size), "{range}");
    }
    let tag = format!("\"sha256-{sha256}\"");
    let of_this = part("bytes=0-1").header(header::IF_RANGE, &tag);
    assert_eq!(content(of_this).await, (StatusCode::PARTIAL_CONTENT, sent[..2].to_vec()));
    let of_another = part("bytes=0-1").header(header::IF_RANGE, "\"sha256-other\"");
    assert_eq!(content(of_another).await.1.len(), size);
    let known = get(&daemon, &sha256).header(header::IF_NONE_MATCH, format!("\"x\", {tag}"));
    assert_eq!(content(known).await, (StatusCode::NOT_MODIFIED, vec![]));
    let unknown = get(&daemon, &sha256).header(header::IF_NONE_MATCH, "\"x\"");
    assert_eq!(content(unknown).await.0, 200);
}

#[tokio::test]
async fn oversized_upload_is_rejected_and_leaves_nothing() {
    let daemon = setup()
        .store("sqlite:.rookery/rookery.db")
        .env("ROOKERY_MAX_ARTIFACT_BYTES", "2MiB")
        .env("ROOKERY_MAX_BODY_BYTES", "1KiB")
        .start()
        .unwrap();
    put(&daemon, &bytes(2 * MIB, 1)).await;
    let reply = upload(&daemon, &bytes(2 * MIB + 1, 2)).await;
    assert_rejected(&reply, 413, "TOO_LARGE");
    assert_eq!(reply.body["details"]["limit"], 2 * MIB);
    // An upload without a Content-Length.
    let pieces = (0..5).map(|number| Ok::<_, std::io::Error>(bytes(MIB / 2, 10 + number)));
    let request = daemon.request(Method::POST, PATH).body(Body::wrap_stream(stream::iter(pieces)));
    assert_rejected(&read(request).await.unwrap(), 413, "TOO_LARGE");
    eventually("nothing is left", async || Ok((files(&daemon).len() == 1).then_some(()))).await.unwrap();
}

/// The daemon's resident memory and its maximum so far, in KiB.
fn memory_kib(daemon: &Daemon) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid().unwrap())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[tokio::test]
async fn large_artifact_is_streamed_with_bounded_memory() {
    const PIECES: u32 = 96;
    let daemon = setup().start().unwrap();
    put(&daemon, &bytes(MIB, 0)).await;
    let (before, _) = memory_kib(&daemon);
    let pieces = (0..PIECES).map(|number| Ok::<_, std::io::Error>(bytes(MIB, number)));
    let reply = read(daemon.request(Method::POST, PATH).body(Body::wrap_stream(stream::iter(pieces)))).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.body["size"].as_u64()), (201, Some(96 * MIB as u64)), "{}", reply.body);
    let sha256 = reply.body["sha256"].as_str().unwrap().to_owned();
    let mut response = get(&daemon, &sha256).send().await.unwrap();
    let (mut digest, mut length) = (Sha256::new(), 0);
    while let Some(piece) = response.chunk().await.unwrap() {
        digest.update(&piece);
        length += piece.len();
    }
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((found, length), (sha256, 96 * MIB));
    let (_, most) = memory_kib(&daemon);
    assert!(most < before + 64 * 1024, "{before} KiB before, {most} KiB at most");
}

#[tokio::test]
async fn damaged_artifact_is_reported_and_repaired_by_another_upload() {
    let daemon = start_with_file_artifacts();
    let sent = bytes(MIB, 3);
    let sha256 = put(&daemon, &sent).await;
    let mut other = sent.clone();
    other[MIB / 2] ^= 1;
    for damage in [other, sent[..10].to_vec()] {
        fs::write(folder(&daemon).join(&sha256), damage).unwrap();
        assert_rejected(&read(get(&daemon, &sha256)).await.unwrap(), 500, "ARTIFACT_DAMAGED");
        let part = get(&daemon, &sha256).header(header::RANGE, "bytes=0-1");
        assert_rejected(&read(part).await.unwrap(), 500, "ARTIFACT_DAMAGED");
        put(&daemon, &sent).await;
        assert_eq!(content(get(&daemon, &sha256)).await, (StatusCode::OK, sent.clone()));
    }
}

/// Sends only a part of an upload.
async fn start_partial_upload(daemon: &Daemon, part: &[u8]) -> TcpStream {
    let host = daemon.url().strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(host).await.unwrap();
    let head = format!("POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n", 64 * MIB);
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(part).await.unwrap();
    socket
}

/// Waits until a part of an upload is in a temporary file.
async fn wait_for_partial_upload(daemon: &Daemon) {
    let some = |(name, length): &(String, u64)| name.starts_with('.') && *length >= MIB as u64;
    eventually("the upload is under way", async || Ok(files(daemon).iter().any(some).then_some(()))).await.unwrap();
}

#[tokio::test]
async fn interrupted_upload_leaves_nothing() {
    let daemon = start_with_file_artifacts();
    let socket = start_partial_upload(&daemon, &bytes(3 * MIB, 4)).await;
    wait_for_partial_upload(&daemon).await;
    assert_eq!(list_artifacts(&daemon).await, Vec::<Value>::new());
    drop(socket);
    eventually("the partial upload is removed", async || Ok(files(&daemon).is_empty().then_some(()))).await.unwrap();
}

#[tokio::test]
async fn daemon_crash_during_an_upload_leaves_nothing() {
    let mut daemon = start_with_file_artifacts();
    let kept = put(&daemon, b"kept").await;
    let socket = start_partial_upload(&daemon, &bytes(3 * MIB, 5)).await;
    wait_for_partial_upload(&daemon).await;
    daemon.kill().unwrap();
    assert_eq!(files(&daemon).len(), 2);
    daemon.restart().unwrap();
    assert_eq!(files(&daemon), [(kept.clone(), 4)]);
    assert_eq!(content(get(&daemon, &kept)).await, (StatusCode::OK, b"kept".to_vec()));
    drop(socket);
}

#[tokio::test]
async fn stalled_upload_ends_in_a_timeout() {
    let daemon = setup().env("ROOKERY_REQUEST_TIMEOUT", "1s").start().unwrap();
    let mut socket = start_partial_upload(&daemon, b"some").await;
    let mut answer = Vec::new();
    // A trickle of bytes does not prolong the timeout.
    for _ in 0..200 {
        drop(socket.write_all(b".").await);
        let mut some = [0; 4096];
        match tokio::time::timeout(Duration::from_millis(100), socket.read(&mut some)).await {
            Ok(Ok(length)) => {
                answer.extend_from_slice(&some[..length]);
                break;
            }
            Ok(Err(_)) => break,
            Err(_) => {}
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"TIMEOUT\""), "{answer:?}");
    assert_eq!(list_artifacts(&daemon).await, Vec::<Value>::new());
}

#[tokio::test]
async fn concurrent_uploads_of_duplicate_content_are_one_artifact() {
    let daemon = setup().start().unwrap();
    let sent = bytes(2 * MIB + 3, 6);
    let uploads = (0..8).map(|_| upload(&daemon, &sent));
    for reply in futures_util::future::join_all(uploads).await {
        assert_eq!((reply.status.as_u16(), reply.body["sha256"].as_str()), (201, Some(&*hash(&sent))));
    }
    assert_eq!(list_artifacts(&daemon).await.len(), 1);
    assert!(content(get(&daemon, &hash(&sent))).await.1 == sent);
}

/// Completes a task with these artifacts attached to its outcome.
async fn complete_task_with(daemon: &Daemon, hashes: &[&str]) {
    let agent = json!({"id": "a", "tool": "test", "role": "worker"});
    daemon.post("/agents/announce", agent).await.unwrap();
    let task = daemon.post("/tasks", json!({"title": "t", "assigned_by": "anna"})).await.unwrap().body;
    let path = format!("/tasks/{}", task["id"].as_str().unwrap());
    let attached = |sha256: &&str| json!({"kind": "artifact_ref", "ref": format!("artifact:sha256-{sha256}")});
    let attachments: Vec<Value> = hashes.iter().map(attached).collect();
    for change in [
        json!({"status": "in_progress", "agent_id": "a"}),
        json!({"status": "done", "agent_id": "a", "outcome": "done", "outcome_detail": {"attachments": attachments}}),
    ] {
        let reply = daemon.patch(&path, change).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

async fn as_person(daemon: &Daemon, path: &str, body: Value) -> HttpReply {
    let key = daemon.person_key().unwrap();
    read(daemon.request(Method::POST, path).bearer_auth(key).json(&body)).await.unwrap()
}

async fn collect(daemon: &Daemon, body: Value) -> (u64, u64) {
    let reply = as_person(daemon, "/admin/artifacts/collect", body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    (reply.body["removed"].as_u64().unwrap(), reply.body["young"].as_u64().unwrap())
}

#[tokio::test]
async fn attached_artifact_is_kept_and_old_unnamed_ones_are_collected() {
    let daemon = setup().start().unwrap();
    let (kept, other) = (put(&daemon, b"kept").await, put(&daemon, b"other").await);
    complete_task_with(&daemon, &[&kept, &hash(b"later")]).await;
    let later = put(&daemon, b"later").await;
    let named: Vec<Value> =
        list_artifacts(&daemon).await.into_iter().filter(|artifact| artifact["named"] == true).collect();
    assert_eq!(named.len(), 2);
    assert_eq!(collect(&daemon, json!({})).await, (0, 1), "by default, a day");
    assert_eq!(collect(&daemon, json!({"older_than_seconds": 0, "dry_run": true})).await, (1, 0));
    assert_eq!(content(get(&daemon, &other)).await.0, 200);
    assert_eq!(collect(&daemon, json!({"older_than_seconds": 0})).await, (1, 0));
    assert_eq!(content(get(&daemon, &other)).await.0, 404);
    for sha256 in [&kept, &later] {
        assert_eq!(content(get(&daemon, sha256)).await.0, 200);
    }
    let anonymous = daemon.post("/admin/artifacts/collect", json!({})).await.unwrap();
    assert_eq!(anonymous.status, 403);
    // Redaction removes the references of the event.
    let redacted = as_person(&daemon, "/admin/redact", json!({"match": &kept})).await;
    assert_eq!(redacted.status, 200, "{}", redacted.body);
    assert_eq!(collect(&daemon, json!({"older_than_seconds": 0})).await, (2, 0));
    assert_eq!(list_artifacts(&daemon).await, Vec::<Value>::new());
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn artifact_of_a_message_is_kept_until_its_redaction() {
    let daemon = setup().start().unwrap();
    let (report, brief) = (put(&daemon, b"report").await, put(&daemon, b"brief").await);
    let attached = |sha256: &str| {
        json!([
            {"kind": "artifact_ref", "ref": format!("artifact:sha256-{sha256}")},
            {"kind": "link", "ref": "https://example.org/elsewhere"},
        ])
    };
    let send = async |id: &str, kind: &str, payload: Value, attachments: Value| {
        let envelope = json!({
            "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11Z", "thread_id": "thr_1", "run_id": "run_1",
            "task_id": "t", "from": {"agent_id": "agent:ken"}, "to": [{"agent_id": "agent:orchestrator"}],
            "type": kind, "payload": payload, "attachments": attachments,
        });
        let reply = daemon.post("/clutch/v0/messages", envelope).await.unwrap();
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.body["results"][0]["seq"].as_u64().unwrap()
    };
    let card = json!({"v": "clutch/0.1", "agent_id": "agent:ken"});
    send("reg", "agent.register", card, json!([])).await;
    let reported = send("m1", "x.report", json!({}), attached(&report)).await;
    let asked = send("m2", "task.request", json!({"title": "read it"}), attached(&brief)).await;
    let forwarded = eventually("the request is forwarded", async || {
        let log = daemon.get("/clutch/v0/messages?task_id=t&type=task.request").await.unwrap();
        Ok(log.body["messages"].as_array().unwrap().iter().find_map(|one| {
            (one["message"]["from"]["agent_id"] == "agent:orchestrator").then(|| one["seq"].as_u64().unwrap())
        }))
    });
    let forwarded = forwarded.await.unwrap();
    assert_eq!(collect(&daemon, json!({"older_than_seconds": 0})).await, (0, 0));
    for (seq, removed) in [(reported, 1), (asked, 0), (forwarded, 1)] {
        let redacted = as_person(&daemon, "/admin/redact", json!({"seqs": [seq]})).await;
        assert_eq!(redacted.status, 200, "{}", redacted.body);
        assert_eq!(collect(&daemon, json!({"older_than_seconds": 0})).await, (removed, 0), "{seq}");
    }
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn upload_by_an_observer_is_rejected() {
    let daemon = setup().arg("--require-token").start().unwrap();
    assert_rejected(&upload(&daemon, b"x").await, 401, "UNAUTHENTICATED");
    let token = |role: &str| as_person(&daemon, "/admin/tokens", json!({"agent": role, "role": role}));
    let (observer, agent) = (token("observer").await.body, token("agent").await.body);
    let upload_as = |token: &Value| {
        let request = daemon.request(Method::POST, PATH).bearer_auth(token["token"].as_str().unwrap());
        read(request.body("x"))
    };
    assert_rejected(&upload_as(&observer).await.unwrap(), 403, "FORBIDDEN");
    assert_eq!(upload_as(&agent).await.unwrap().status, 201);
    let request = get(&daemon, &hash(b"x")).bearer_auth(observer["token"].as_str().unwrap());
    assert_eq!(content(request).await, (StatusCode::OK, b"x".to_vec()));
    assert_rejected(&read(get(&daemon, &hash(b"x"))).await.unwrap(), 401, "UNAUTHENTICATED");
}

/// Runs `rookery artifacts` in the project's folder; returns exit code, stdout and stderr.
fn rookery(daemon: &Daemon, args: &[&str], input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    let output = command.current_dir(daemon.root()).arg("artifacts").args(args).write_stdin(input).output().unwrap();
    (output.status.code().unwrap(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

fn artifacts_ok(daemon: &Daemon, args: &[&str], input: &[u8]) -> Vec<u8> {
    let (code, stdout, stderr) = rookery(daemon, args, input);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_command_uploads_lists_and_downloads_files() {
    let daemon = setup().start().unwrap();
    let sent = bytes(2 * MIB + 9, 7);
    fs::write(daemon.root().join("report.bin"), &sent).unwrap();
    let reference = format!("artifact:sha256-{}", hash(&sent));
    assert_eq!(artifacts_ok(&daemon, &["put", "report.bin"], b""), format!("{reference}\n").as_bytes());
    let piped: Value = serde_json::from_slice(&artifacts_ok(&daemon, &["put", "-", "--json"], &sent)).unwrap();
    assert_eq!((&piped["ref"], &piped["size"]), (&json!(reference), &json!(sent.len())));
    assert!(artifacts_ok(&daemon, &["get", &reference], b"") == sent, "to a pipe");
    artifacts_ok(&daemon, &["get", &hash(&sent), "-o", "copy.bin"], b"");
    assert!(fs::read(daemon.root().join("copy.bin")).unwrap() == sent);
    let (code, _, stderr) = rookery(&daemon, &["get", &reference, "-o", "copy.bin"], b"");
    assert!(code == 1 && stderr.contains("exists already"), "{stderr}");
    let (code, _, stderr) = rookery(&daemon, &["get", &hash(b"other"), "-o", "none.bin"], b"");
    assert!(code == 1 && stderr.contains("there is no artifact") && stderr.contains("hint"), "{stderr}");
    assert!(!daemon.root().join("none.bin").exists());
    let (code, _, stderr) = rookery(&daemon, &["get", "../x"], b"");
    assert!(code == 2 && stderr.contains("64 hexadecimal digits"), "{stderr}");
    let (code, _, stderr) = rookery(&daemon, &["put", "nowhere.bin"], b"");
    assert!(code == 1 && stderr.contains("cannot read nowhere.bin"), "{stderr}");
    let table = String::from_utf8(artifacts_ok(&daemon, &["list"], b"")).unwrap();
    assert!(table.contains(&reference) && table.contains("2.0 MiB"), "{table}");
    let would = artifacts_ok(&daemon, &["gc", "--older-than", "0s", "--dry-run"], b"");
    assert_eq!(String::from_utf8(would).unwrap(), "would remove 1 artifacts of 2.0 MiB; 0 are too young\n");
    let kept = artifacts_ok(&daemon, &["gc"], b"");
    assert_eq!(String::from_utf8(kept).unwrap(), "removed 0 artifacts of 0 B; 1 are too young\n");
    let removed: Value =
        serde_json::from_slice(&artifacts_ok(&daemon, &["gc", "--older-than", "0s", "--json"], b"")).unwrap();
    assert_eq!(removed, json!({"removed": 1, "bytes": sent.len(), "young": 0, "dry_run": false}));
    let none: Value = serde_json::from_slice(&artifacts_ok(&daemon, &["list", "--json"], b"")).unwrap();
    assert_eq!(none, json!({"artifacts": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_command_keeps_no_damaged_download() {
    let daemon = start_with_file_artifacts();
    let sent = bytes(MIB, 8);
    let sha256 = put(&daemon, &sent).await;
    fs::write(folder(&daemon).join(&sha256), &sent[1..]).unwrap();
    let (code, _, stderr) = rookery(&daemon, &["get", &sha256, "-o", "copy.bin"], b"");
    assert!(code == 1 && stderr.contains("damaged") && stderr.contains("hint"), "{stderr}");
    let entries: Vec<_> = fs::read_dir(daemon.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!entries.iter().any(|name| name.to_string_lossy().contains("tmp") || name == "copy.bin"), "{entries:?}");
}

#[tokio::test]
async fn artifact_of_one_node_is_served_by_another() {
    if Engine::from_env().unwrap() != Engine::Postgres {
        return;
    }
    let first = setup().start().unwrap();
    let second = setup().store(first.store().unwrap()).start().unwrap();
    let sent = bytes(2 * MIB, 9);
    let sha256 = put(&first, &sent).await;
    assert!(content(get(&second, &sha256)).await == (StatusCode::OK, sent));
    complete_task_with(&second, &[&sha256]).await;
    assert_eq!(collect(&first, json!({"older_than_seconds": 0})).await, (0, 0));
}
