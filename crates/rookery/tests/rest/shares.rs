//! Fair shares: one caller cannot take the places that others, and people first, need.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::cli::rookery;
use crate::support::{Team, assert_rejected, eventually, setup, team_of, text};

/// The `Authorization` value of the project's owner.
fn owner_bearer(team: &Team) -> String {
    format!("Bearer {}", team.person_key().unwrap())
}

/// Opens a stream and keeps it; an error is the status of the refusal.
async fn open_stream(team: &Team, headers: &[(&str, &str)]) -> Result<reqwest::Response, u16> {
    let mut request = team.request(Method::GET, "/events/stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.send().await.unwrap();
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    response.chunk().await.unwrap();
    Ok(response)
}

/// Opens all streams that a caller may have; returns them with the status of the refusal.
async fn open_all_streams(team: &Team, headers: &[(&str, &str)]) -> (Vec<reqwest::Response>, u16) {
    let mut open = Vec::new();
    loop {
        match open_stream(team, headers).await {
            Ok(response) => open.push(response),
            Err(status) => return (open, status),
        }
    }
}

#[tokio::test]
async fn streams_of_one_caller_leave_room_for_others() {
    let limits = setup().arg("--no-watch").env("ROOKERY_MAX_SUBSCRIPTIONS", "64");
    let team = team_of(limits.env("ROOKERY_MAX_STREAMS_PER_CALLER", "8"), &["a", "greedy"]).await;
    let (open, status) = open_all_streams(&team, &[("x-agent-id", "greedy")]).await;
    assert_eq!((open.len(), status), (8, 429), "its own share");
    let rejected = team.send(Method::GET, "/events/stream", &[("x-agent-id", "greedy")], None).await;
    assert_rejected(&rejected, 429, "TOO_MANY_SUBSCRIBERS", "this caller");
    assert!(rejected.headers.contains_key("retry-after") && rejected.body["hint"].is_string(), "{}", rejected.body);
    let waits = "/clutch/v0/agents/greedy/inbox?wait=30s";
    assert_eq!(team.send(Method::GET, waits, &[("x-agent-id", "greedy")], None).await.status, 429, "of all kinds");
    assert!(open_stream(&team, &[("x-agent-id", "a")]).await.is_ok());
    // Callers without a name count as one caller.
    let (unnamed, status) = open_all_streams(&team, &[]).await;
    assert_eq!((unnamed.len(), status), (16, 429));
    drop(open);
    let again = || async { open_stream(&team, &[("x-agent-id", "greedy")]).await.ok() };
    eventually("the places are free again", again).await;
}

#[tokio::test]
async fn streams_of_all_agents_leave_room_for_people() {
    let limits = setup().arg("--no-watch").env("ROOKERY_MAX_SUBSCRIPTIONS", "64");
    let team = team_of(limits.env("ROOKERY_MAX_STREAMS_PER_CALLER", "1000"), &["greedy"]).await;
    let (open, status) = open_all_streams(&team, &[("x-agent-id", "greedy")]).await;
    assert_eq!((open.len(), status), (56, 429), "all places that are not kept for people");
    assert_eq!(open_stream(&team, &[]).await.unwrap_err(), 503);
    let key = owner_bearer(&team);
    assert!(open_stream(&team, &[("authorization", &key)]).await.is_ok());
    let taken = read_metric(&team, "rookery_places_taken{pool=\"streams\"}").await;
    assert!(taken >= 56.0, "{taken}");
    assert!(read_metric(&team, "rookery_refused_places_total{pool=\"streams\",reason=\"pool\"}").await >= 1.0);
}

/// The value of one of the daemon's metrics.
async fn read_metric(team: &Team, name: &str) -> f64 {
    let text = team.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).map_or(0.0, |value| value.trim().parse().unwrap())
}

#[tokio::test]
async fn idle_tcp_connections_do_not_lock_out_the_command_line() {
    let team = team_of(setup().arg("--no-watch").env("ROOKERY_MAX_CONNECTIONS", "16"), &[]).await;
    let address = team.url().strip_prefix("http://").unwrap().to_owned();
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(&address).await.unwrap());
    }
    let rejected = || async {
        let reply = team.get("/status").await.ok()?;
        (reply.body["code"] == "TOO_MANY_CONNECTIONS").then_some(())
    };
    eventually("all connections of TCP are taken", rejected).await;
    let (status, out, err) = rookery(team.root(), &["status"]);
    assert_eq!(status, 0, "{out}{err}");
}

/// Uploads an artifact of this size and returns its path.
async fn upload_artifact(team: &Team, bytes: usize) -> String {
    let upload = team.request(Method::POST, "/clutch/v0/artifacts").body(vec![7; bytes]);
    let reply = read(upload.header("content-type", "application/octet-stream")).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    format!("/clutch/v0/artifacts/sha256-{}", text(&reply.body["sha256"]))
}

/// Begins a download and reads nothing of its body.
async fn begin_download(team: &Team, path: &str, agent: &str) -> Result<reqwest::Response, Value> {
    let response = team.request(Method::GET, path).header("x-agent-id", agent).send().await.unwrap();
    match response.status().as_u16() {
        200 => Ok(response),
        _ => Err(response.json().await.unwrap()),
    }
}

#[tokio::test]
async fn downloads_are_bounded_until_they_are_sent() {
    let limits = setup().arg("--no-watch").env("ROOKERY_MAX_DOWNLOADS", "16");
    let team = team_of(limits.env("ROOKERY_MAX_DOWNLOADS_PER_CALLER", "2"), &["a", "greedy"]).await;
    let path = upload_artifact(&team, 16 << 20).await;
    let mut under_way = Vec::new();
    for _ in 0..2 {
        under_way.push(begin_download(&team, &path, "greedy").await.unwrap());
    }
    let rejected = begin_download(&team, &path, "greedy").await.unwrap_err();
    assert_eq!((&rejected["code"], &rejected["retryable"]), (&"TOO_MANY_DOWNLOADS".into(), &true.into()), "{rejected}");
    let other = begin_download(&team, &path, "a").await.unwrap();
    assert_eq!(other.bytes().await.unwrap().len(), 16 << 20, "other callers are served completely");
    // A download that ends makes room, and so does one that the client drops.
    under_way.pop().unwrap().bytes().await.unwrap();
    under_way.push(eventually("room", || async { begin_download(&team, &path, "greedy").await.ok() }).await);
    drop(under_way);
    eventually("room", || async { begin_download(&team, &path, "greedy").await.ok() }).await;
}

/// Opens an HTTP/2 connection.
async fn http2(team: &Team) -> http2::SendRequest<Empty<Bytes>> {
    let address = team.url().strip_prefix("http://").unwrap().to_owned();
    let open_stream = TokioIo::new(TcpStream::connect(&address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), open_stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn get_http2(
    sender: &mut http2::SendRequest<Empty<Bytes>>,
    team: &Team,
    path: &str,
) -> hyper::Response<Incoming> {
    let request = hyper::Request::get(format!("{}{path}", team.url())).body(Empty::new()).unwrap();
    sender.send_request(request).await.unwrap()
}

#[tokio::test]
async fn stalled_http2_downloads_are_bounded_and_end() {
    let limits = setup().arg("--no-watch").env("ROOKERY_WRITE_TIMEOUT", "4s");
    let team = team_of(limits.env("ROOKERY_MAX_DOWNLOADS", "16"), &[]).await;
    let path = upload_artifact(&team, 4 << 20).await;
    let mut sender = http2(&team).await;
    let mut stalled = Vec::new();
    let mut rejected = 0;
    for _ in 0..16 {
        let response = get_http2(&mut sender, &team, &path).await;
        match response.status().as_u16() {
            200 => stalled.push(response),
            429 => rejected += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((stalled.len(), rejected), (4, 12), "callers without a name have a quarter");
    assert_eq!(read_metric(&team, "rookery_places_taken{pool=\"downloads\"}").await, 4.0);
    let free = || async { (read_metric(&team, "rookery_places_taken{pool=\"downloads\"}").await == 0.0).then_some(()) };
    eventually("stalled downloads are given up", free).await;
    for response in stalled {
        assert!(response.into_body().collect().await.is_err(), "none is taken for complete");
    }
    assert!(read_metric(&team, "rookery_stalled_responses_total").await >= 1.0);

    // A slow reader is not a stalled one.
    let mut body = get_http2(&mut http2(&team).await, &team, &path).await.into_body();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let before = received / (1 << 20);
        received += frame.unwrap().into_data().map_or(0, |data| data.len());
        if received / (1 << 20) > before {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
    assert_eq!(received, 4 << 20);
}

#[tokio::test]
async fn unread_responses_keep_their_place_until_the_write_timeout() {
    let limits = setup().arg("--no-watch").env("ROOKERY_WRITE_TIMEOUT", "4s");
    let team = team_of(limits.env("ROOKERY_MAX_REQUESTS", "16"), &["a"]).await;
    for _ in 0..40 {
        let note = serde_json::json!({"agent_id": "a", "action": "x.note", "metadata": {"text": "n".repeat(20_000)}});
        assert_eq!(team.post("/events", note).await.unwrap().status, 201);
    }
    let mut sender = http2(&team).await;
    let mut open = Vec::new();
    let rejected = loop {
        let response = get_http2(&mut sender, &team, "/events?limit=1000").await;
        if response.status() != 200 {
            break response;
        }
        open.push(response);
        assert!(open.len() < 100, "stalled answers are not counted");
    };
    assert_eq!(rejected.status(), 429);
    let free = || async { team.get("/status").await.ok().filter(|reply| reply.status == 200) };
    eventually("stalled answers are given up", free).await;
}
