//! Concurrent claims of the same tasks and files through all nodes: each has one winner, and all replies agree.

use anyhow::ensure;
use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, client, read};
use rookery_testkit::postgres::Schema;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::checker::{Log, position, read_common_log};
use crate::nodes::{Addresses, Nodes, announce, text};
use crate::recorder::Recorder;

const ITEMS: usize = 1_000;
const AGENTS: usize = 12;
/// The number of items that are claimed at the same time.
const CONCURRENT_ITEMS: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claims_through_all_nodes_have_one_winner() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start_three(&schema.url()).await?;
    let recorders = Recorder::start_everywhere(&nodes.addresses());
    for agent in 0..AGENTS {
        announce(&nodes[agent % nodes.count()], &name(agent)).await?;
    }
    let (http, mut contests) = (client()?, JoinSet::new());
    let mut replies = Vec::with_capacity(2 * 3 * ITEMS);
    for number in 0..ITEMS {
        if contests.len() >= CONCURRENT_ITEMS
            && let Some(done) = contests.join_next().await
        {
            replies.extend(done??);
        }
        contests.spawn(contest(http.clone(), nodes.addresses(), number));
    }
    while let Some(done) = contests.join_next().await {
        replies.extend(done??);
    }
    let log = read_common_log(&nodes, recorders).await?;
    ensure!(replies.len() == 2 * 3 * ITEMS, "{} answers", replies.len());
    for reply in &replies {
        reply.check(&log)?;
    }
    let granted = replies.iter().filter(|reply| reply.outcome == Outcome::Granted).count();
    ensure!(granted == 2 * ITEMS, "{granted} grants for {} items", 2 * ITEMS);
    Ok(())
}

fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// Lets three agents claim the same file and the same task at once, through three nodes.
async fn contest(http: reqwest::Client, addresses: Addresses, number: usize) -> anyhow::Result<Vec<ClaimReply>> {
    let send = |method: Method, at: usize, path: &str, body: Value| {
        read(http.request(method, format!("{}{path}", addresses.of(at % 3))).json(&body))
    };
    let file = format!("src/{number}.rs");
    let created = send(Method::POST, number, "/tasks", json!({"title": file, "assigned_by": "anna"})).await?;
    ensure!(created.status == 201, "{created:?}");
    let task = text(&created.body["id"])?;
    let agent = |at: usize| name((number * 3 + at) % AGENTS);
    let claim = |at: usize| send(Method::POST, at, "/resources/claim", json!({"path": file, "agent_id": agent(at)}));
    let start = |at: usize| {
        let body = json!({"status": "in_progress", "agent_id": agent(at)});
        send(Method::PATCH, at, &format!("/tasks/{task}"), body)
    };
    let (files, tasks) = tokio::join!(async { tokio::try_join!(claim(0), claim(1), claim(2)) }, async {
        tokio::try_join!(start(0), start(1), start(2))
    });
    let mut replies = Vec::new();
    for (at, reply) in <[HttpReply; 3]>::from(files?).iter().enumerate() {
        replies.push(ClaimReply::of_file(&file, agent(at), reply)?);
    }
    for (at, reply) in <[HttpReply; 3]>::from(tasks?).iter().enumerate() {
        replies.push(ClaimReply::of_task(&task, agent(at), reply)?);
    }
    Ok(replies)
}

/// The reply to a claim.
#[derive(Debug)]
struct ClaimReply {
    item: String,
    agent: String,
    outcome: Outcome,
    at: Option<u64>,
}

#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Granted,
    /// Rejected, because this agent holds it.
    Taken {
        by: String,
    },
    Rejected,
}

impl ClaimReply {
    fn of_file(path: &str, agent: String, reply: &HttpReply) -> anyhow::Result<ClaimReply> {
        let outcome = match (reply.status.as_u16(), &reply.body["granted"]) {
            (200, Value::Bool(true)) => Outcome::Granted,
            (409, Value::Bool(false)) => Outcome::Taken { by: text(&reply.body["owner"])? },
            _ => anyhow::bail!("{reply:?}"),
        };
        Ok(ClaimReply { item: path.to_owned(), agent, outcome, at: Some(position(reply)?) })
    }

    /// A rejection is an error, and errors have no position.
    fn of_task(task: &str, agent: String, reply: &HttpReply) -> anyhow::Result<ClaimReply> {
        let (outcome, at) = match (reply.status.as_u16(), reply.body["code"].as_str()) {
            (200, _) => (Outcome::Granted, Some(position(reply)?)),
            (409, Some("ALREADY_CLAIMED")) => (Outcome::Rejected, None),
            _ => anyhow::bail!("{reply:?}"),
        };
        Ok(ClaimReply { item: task.to_owned(), agent, outcome, at })
    }

    fn check(&self, log: &Log) -> anyhow::Result<()> {
        ensure!(log.grants(&self.item) == 1, "{} was claimed {} times", self.item, log.grants(&self.item));
        let holder = log.holder_at(&self.item, self.at.unwrap_or(u64::MAX));
        let is_right = match &self.outcome {
            Outcome::Granted => holder == Some(&self.agent),
            Outcome::Taken { by } => holder == Some(by) && *by != self.agent,
            Outcome::Rejected => holder != Some(&self.agent),
        };
        ensure!(is_right, "{self:?}, but the log has the holder {holder:?}");
        Ok(())
    }
}
