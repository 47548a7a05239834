//! A network that loses connections in the middle of COMMIT, and one that swallows everything for a while.

use std::time::Duration;

use anyhow::{Context, ensure};
use rand::Rng;
use reqwest::{Method, RequestBuilder};
use rookery_testkit::daemon::{HttpReply, read};
use rookery_testkit::postgres::{SHARED, Schema};
use rookery_testkit::proxy::{Proxy, When};
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::checker::one_log;
use crate::load::{Load, Waits};
use crate::nodes::{Nodes, Stopwatch, code, ready, unready};
use crate::record::Recorder;

const STRIKES: u64 = 15;
/// A request is answered after thirty seconds, whatever happens.
const ANSWERED_WITHIN: Duration = Duration::from_secs(35);

/// The first node behind a proxy, the second not.
struct Scene {
    proxy: Proxy,
    nodes: Nodes,
    _schema: Schema,
}

impl Scene {
    async fn new() -> anyhow::Result<Scene> {
        let proxy = Proxy::start(&std::env::var(SHARED)?)?;
        let schema = Schema::new()?;
        let nodes = Nodes::start(&[schema.url_at(&proxy.url()), schema.url()]).await?;
        Ok(Scene { proxy, nodes, _schema: schema })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_lose_their_connection_are_done_once_or_not_at_all() -> anyhow::Result<()> {
    let Scene { proxy, nodes, _schema } = Scene::new().await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    let mut load = Load::begin(&nodes, 8, Waits::FOR_AN_ANSWER).await?;
    load.goes_on(0..2, 10).await?;
    for strike in 1..=STRIKES {
        proxy.cut_at_commit_of("writer", any_moment());
        eventually("a commit is struck", async || Ok((proxy.commits_cut() >= strike).then_some(()))).await?;
        if strike.is_multiple_of(5) {
            proxy.cut();
        }
        load.goes_on(0..2, 3).await?;
    }
    let book = load.end().await?;
    ready(&nodes[0]).await?;
    let log = one_log(&nodes, recorders).await?;
    book.agrees(&log)?;
    ensure!(book.unanswered == 0, "{} requests had no answer", book.unanswered);
    Ok(())
}

fn any_moment() -> When {
    let mut random = rand::rng();
    match random.random_range(0..3) {
        0 => When::Before,
        1 => When::After,
        _ => When::Meanwhile(Duration::from_millis(random.random_range(0..1_500))),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_said_in_time() -> anyhow::Result<()> {
    let Scene { proxy, nodes, _schema } = Scene::new().await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    let mut load = Load::begin(&nodes, 8, Waits::FOR_AN_ANSWER).await?;
    load.goes_on(0..2, 10).await?;
    proxy.freeze(true);
    let write = || nodes[0].request(Method::POST, "/events").json(&json!({"agent_id": "lead", "action": "x.frozen"}));
    let look = || nodes[0].request(Method::GET, "/tasks");
    let (first, second, others) = tokio::join!(
        async { tokio::try_join!(timed(write()), timed(look())) },
        async {
            // Others come while the first ones wait.
            unready(&nodes[0]).await?;
            tokio::try_join!(timed(write()), timed(look()))
        },
        // If the frozen node held the head, it is taken from it.
        load.goes_on_at(1, 20),
    );
    others?;
    for (reply, took) in [first?, second?].into_iter().flat_map(|(write, look)| [write, look]) {
        ensure!(took < ANSWERED_WITHIN, "it took {took:?}: {reply:?}");
        ensure!(reply.status == 503, "{reply:?}");
        ensure!(["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code(&reply)), "{reply:?}");
    }
    proxy.freeze(false);
    ready(&nodes[0]).await?;
    load.goes_on(0..2, 20).await?;
    let book = load.end().await?;
    let log = one_log(&nodes, recorders).await?;
    book.agrees(&log)?;
    let frozen = log.events.iter().filter(|event| event["action"] == "x.frozen").count();
    ensure!(frozen <= 2, "two were sent, and {frozen} were done");
    Ok(())
}

async fn timed(request: RequestBuilder) -> anyhow::Result<(HttpReply, Duration)> {
    let watch = Stopwatch::start();
    let reply = read(request.timeout(2 * ANSWERED_WITHIN)).await.context("no answer")?;
    Ok((reply, watch.elapsed()))
}
