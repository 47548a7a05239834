//! The event stream: its exact form, resuming, filters, and its end at a shutdown.

use serde_json::json;

use crate::support::{Sse, Team, setup, team, team_of, text};

async fn report_note(team: &Team, agent: &str, n: usize) {
    let body = json!({"agent_id": agent, "action": "x.n", "metadata": {"n": n}});
    assert_eq!(team.post("/events", body).await.unwrap().status, 201);
}

fn numbers(frames: &[crate::support::Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.event["metadata"]["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn stream_frame_has_the_documented_form() {
    let team = team(&["claude-code-1"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let header = |name: &str| stream.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-cache");
    team.claim("src/index.ts", "claude-code-1").await;
    let frame = stream.next().await;
    let lines: Vec<&str> = frame.raw.split('\n').collect();
    assert_eq!(lines.len(), 2, "{}", frame.raw);
    assert!(lines[0].starts_with("id: ") && lines[1].starts_with("data: {"), "{}", frame.raw);
    let listed = team.ok("/events?limit=1").await[0].clone();
    assert_eq!(frame.event, listed);
    // The contract's fields come first, in the contract's order.
    let names =
        ["id", "timestamp", "agent_id", "action", "resource", "task_id", "before_hash", "after_hash", "metadata"];
    let places: Vec<usize> = names.iter().map(|name| lines[1].find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{}", lines[1]);
    assert_eq!((&frame.event["resource"], &frame.event["task_id"]), (&json!("src/index.ts"), &json!(null)));
    // The id is the position.
    let status = team.get("/status").await.unwrap();
    let head = |name: &str| status.headers[name].to_str().unwrap().to_owned();
    assert_eq!(frame.id, format!("{}:{}", head("x-rookery-log"), head("x-rookery-seq")));
}

#[tokio::test]
async fn stream_starts_at_head_unless_given_a_position() {
    let team = team(&["a"]).await;
    report_note(&team, "a", 1).await;
    let mut now = Sse::open(&team, "/events/stream", None).await;
    report_note(&team, "a", 2).await;
    assert_eq!(now.next().await.event["metadata"]["n"], 2);
    let mut all = Sse::open(&team, "/events/stream?after=0", None).await;
    let count = team.head().await as usize;
    let actions: Vec<String> = all.take(count).await.iter().map(|frame| text(&frame.event["action"])).collect();
    assert_eq!(actions, team.actions().await);
}

#[tokio::test]
async fn resumed_stream_has_no_gap_and_no_repeat() {
    let team = team(&["a"]).await;
    let mut first = Sse::open(&team, "/events/stream", None).await;
    for n in 0..40 {
        report_note(&team, "a", n).await;
    }
    let seen = first.take(15).await;
    drop(first);
    for n in 40..60 {
        report_note(&team, "a", n).await;
    }
    // The header wins over the address: browsers resend the address unchanged.
    let mut again = Sse::open(&team, "/events/stream?after=0", Some(&seen[14].id)).await;
    for n in 60..80 {
        report_note(&team, "a", n).await;
    }
    let rest = again.take(65).await;
    assert_eq!([numbers(&seen), numbers(&rest)].concat(), (0..80).collect::<Vec<_>>());
    // A position without a log id is read as one of this log.
    let bare_position = seen[14].id.rsplit(':').next().unwrap();
    assert_eq!(
        Sse::open(&team, &format!("/events/stream?after={bare_position}"), None).await.next().await.event["metadata"]["n"],
        15
    );
}

#[tokio::test]
async fn stream_resumes_across_a_daemon_crash() {
    let mut team = team(&["a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    for n in 0..10 {
        report_note(&team, "a", n).await;
    }
    let seen = stream.take(7).await;
    team.restart().unwrap();
    for n in 10..20 {
        report_note(&team, "a", n).await;
    }
    let mut again = Sse::open(&team, "/events/stream", Some(&seen[6].id)).await;
    assert_eq!(numbers(&again.take(13).await), (7..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn concurrent_writers_lose_no_event_for_a_stream() {
    let team = team(&["a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let requests: Vec<_> = (0..25)
            .map(|n| {
                let body = json!({"agent_id": "a", "action": "x.n", "metadata": {"n": writer * 100 + n}});
                team.request(reqwest::Method::POST, "/events").json(&body)
            })
            .collect();
        writers.spawn(async move {
            for request in requests {
                assert_eq!(request.send().await.unwrap().status(), 201);
            }
        });
    }
    let frames = stream.take(200).await;
    writers.join_all().await;
    let places: Vec<u64> = frames.iter().map(|frame| frame.id.rsplit(':').next().unwrap().parse().unwrap()).collect();
    assert!(places.windows(2).all(|pair| pair[1] == pair[0] + 1), "{places:?}");
    let mut got = numbers(&frames);
    got.sort_unstable();
    let sent: Vec<u64> = (0..8).flat_map(|writer| (0..25).map(move |n| writer * 100 + n)).collect();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn stream_filters_select_matching_events() {
    let team = team(&["a", "b"]).await;
    let mut by_agent = Sse::open(&team, "/events/stream?agent_id=b", None).await;
    let mut by_action = Sse::open(&team, "/events/stream?action=resource.released", None).await;
    let mut by_path = Sse::open(&team, "/events/stream?resource=./src//x", None).await;
    let mut by_all = Sse::open(&team, "/events/stream?resource=src/x&agent_id=b&action=resource.claimed", None).await;
    team.claim("src/x", "a").await;
    team.claim("y", "a").await;
    team.release("src/x", "a").await;
    team.claim("src/x", "b").await;
    let shown = |frame: &crate::support::Frame| {
        let event = &frame.event;
        format!("{} {} {}", text(&event["agent_id"]), text(&event["action"]), text(&event["resource"]))
    };
    assert_eq!(shown(&by_agent.next().await), "b resource.claimed src/x");
    assert_eq!(shown(&by_action.next().await), "a resource.released src/x");
    let path: Vec<String> = by_path.take(3).await.iter().map(shown).collect();
    assert_eq!(path, ["a resource.claimed src/x", "a resource.released src/x", "b resource.claimed src/x"]);
    assert_eq!(shown(&by_all.next().await), "b resource.claimed src/x");
    // A filtered stream resumes by the same ids, past events that it filtered out.
    let last = by_action.release_and_read_id(&team).await;
    let mut resumed = Sse::open(&team, "/events/stream?action=resource.released", Some(&last)).await;
    team.release("y", "a").await;
    assert_eq!(shown(&resumed.next().await), "a resource.released y");
}

impl Sse {
    /// Releases once more and returns the id of that event.
    async fn release_and_read_id(&mut self, team: &Team) -> String {
        team.release("src/x", "b").await;
        self.next().await.id
    }
}

#[tokio::test]
async fn shutdown_ends_open_streams_promptly() {
    let mut team = team(&["a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    report_note(&team, "a", 1).await;
    stream.next().await;
    assert_eq!(team.stop().unwrap(), Some(0));
    assert_eq!(stream.block().await, None);
}

#[tokio::test]
async fn stream_over_the_subscription_limit_is_rejected() {
    let team = team_of(setup().arg("--no-watch").env("ROOKERY_MAX_SUBSCRIPTIONS", "1"), &["a"]).await;
    let open = Sse::open(&team, "/events/stream", None).await;
    let reply = team.get("/events/stream").await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.body["code"]), (503, &json!("TOO_MANY_SUBSCRIBERS")));
    drop(open);
    crate::support::eventually("a place is free again", || async {
        let reply = team.request(reqwest::Method::GET, "/events/stream").send().await.unwrap();
        (reply.status() == 200).then_some(())
    })
    .await;
}
