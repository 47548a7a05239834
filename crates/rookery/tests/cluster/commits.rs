//! A network that cuts connections during COMMIT, and one that drops all packets for some time.

use std::time::Duration;

use anyhow::{Context, ensure};
use rand::Rng;
use reqwest::{Method, RequestBuilder};
use rookery_testkit::daemon::{HttpReply, read};
use rookery_testkit::postgres::{SHARED, Schema};
use rookery_testkit::proxy::{Proxy, When};
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::checker::read_common_log;
use crate::load::{AnswerTimeout, Load};
use crate::nodes::{Nodes, Stopwatch, code, wait_until_ready, wait_until_unready};
use crate::recorder::Recorder;

const CUTS: u64 = 15;
/// A little longer than the daemon's timeout of a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// Two nodes, the first of which reaches the database through a proxy.
struct ProxiedCluster {
    proxy: Proxy,
    nodes: Nodes,
    schema: Schema,
}

impl ProxiedCluster {
    async fn new() -> anyhow::Result<ProxiedCluster> {
        let proxy = Proxy::start(&std::env::var(SHARED)?)?;
        let schema = Schema::new()?;
        let nodes = Nodes::start(&[schema.url_at(&proxy.url()), schema.url()]).await?;
        Ok(ProxiedCluster { proxy, nodes, schema })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_answer_is_applied_at_most_once_after_retry() -> anyhow::Result<()> {
    let ProxiedCluster { proxy, nodes, schema } = ProxiedCluster::new().await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    let mut load = Load::start(&nodes, 8, AnswerTimeout::LONG).await?;
    load.wait_for_writes(0..2, 10).await?;
    for cut in 1..=CUTS {
        proxy.cut_at_commit_of("writer", random_moment());
        eventually("a commit to be cut", async || Ok((proxy.commits_cut() >= cut).then_some(()))).await?;
        if cut.is_multiple_of(5) {
            proxy.cut();
        }
        load.wait_for_writes(0..2, 3).await?;
    }
    let record = load.stop().await?;
    wait_until_ready(&nodes[0]).await?;
    let log = read_common_log(&nodes, recorders).await?;
    record.check(&log)?;
    ensure!(record.unanswered == 0, "{} requests had no answer", record.unanswered);
    drop(schema);
    Ok(())
}

fn random_moment() -> When {
    let mut random = rand::rng();
    match random.random_range(0..3) {
        0 => When::Before,
        1 => When::After,
        _ => When::Meanwhile(Duration::from_millis(random.random_range(0..1_500))),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_network_is_reported_before_timeout() -> anyhow::Result<()> {
    let ProxiedCluster { proxy, nodes, schema } = ProxiedCluster::new().await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    let mut load = Load::start(&nodes, 8, AnswerTimeout::LONG).await?;
    load.wait_for_writes(0..2, 10).await?;
    proxy.freeze(true);
    let write = || nodes[0].request(Method::POST, "/events").json(&json!({"agent_id": "lead", "action": "x.frozen"}));
    let list = || nodes[0].request(Method::GET, "/tasks");
    let (first, second, others) = tokio::join!(
        async { tokio::try_join!(timed(write()), timed(list())) },
        async {
            // More requests arrive while the first ones wait.
            wait_until_unready(&nodes[0]).await?;
            tokio::try_join!(timed(write()), timed(list()))
        },
        // If the frozen node holds the head lock, the database takes it away.
        load.wait_for_writes_at(1, 20),
    );
    others?;
    for (reply, took) in [first?, second?].into_iter().flat_map(|(write, list)| [write, list]) {
        ensure!(took < ANSWER_TIMEOUT, "the answer took {took:?}: {reply:?}");
        ensure!(reply.status == 503, "{reply:?}");
        ensure!(["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code(&reply)), "{reply:?}");
    }
    proxy.freeze(false);
    wait_until_ready(&nodes[0]).await?;
    load.wait_for_writes(0..2, 20).await?;
    let record = load.stop().await?;
    let log = read_common_log(&nodes, recorders).await?;
    record.check(&log)?;
    let frozen = log.events.iter().filter(|event| event["action"] == "x.frozen").count();
    ensure!(frozen <= 2, "two writes were sent, {frozen} were applied");
    drop(schema);
    Ok(())
}

async fn timed(request: RequestBuilder) -> anyhow::Result<(HttpReply, Duration)> {
    let watch = Stopwatch::start();
    let reply = read(request.timeout(2 * ANSWER_TIMEOUT)).await.context("no answer")?;
    Ok((reply, watch.elapsed()))
}
