//! The same tasks and the same files claimed through all nodes at once: one winner each, and everybody is told so.

use anyhow::ensure;
use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, client, read};
use rookery_testkit::postgres::Schema;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::checker::{Log, one_log, position};
use crate::nodes::{Addresses, Nodes, announce, text};
use crate::record::Recorder;

const THINGS: usize = 1_000;
const AGENTS: usize = 12;
/// How many things are fought for at the same time.
const AT_ONCE: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_and_every_file_has_one_winner() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::three(&schema.url()).await?;
    let recorders = Recorder::everywhere(&nodes.addresses());
    for agent in 0..AGENTS {
        announce(&nodes[agent % nodes.count()], &name(agent)).await?;
    }
    let (http, mut fights) = (client()?, JoinSet::new());
    let mut told = Vec::with_capacity(2 * 3 * THINGS);
    for number in 0..THINGS {
        if fights.len() >= AT_ONCE
            && let Some(done) = fights.join_next().await
        {
            told.extend(done??);
        }
        fights.spawn(fight(http.clone(), nodes.addresses(), number));
    }
    while let Some(done) = fights.join_next().await {
        told.extend(done??);
    }
    let log = one_log(&nodes, recorders).await?;
    ensure!(told.len() == 2 * 3 * THINGS, "{} answers", told.len());
    for answer in &told {
        answer.agrees(&log)?;
    }
    let granted = told.iter().filter(|answer| answer.outcome == Outcome::Granted).count();
    ensure!(granted == 2 * THINGS, "{granted} grants for {} things", 2 * THINGS);
    Ok(())
}

fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// One file and one task, each wanted by three agents through three nodes at the same moment.
async fn fight(http: reqwest::Client, addresses: Addresses, number: usize) -> anyhow::Result<Vec<Told>> {
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
    let mut told = Vec::new();
    for (at, reply) in <[HttpReply; 3]>::from(files?).iter().enumerate() {
        told.push(Told::of_file(&file, agent(at), reply)?);
    }
    for (at, reply) in <[HttpReply; 3]>::from(tasks?).iter().enumerate() {
        told.push(Told::of_task(&task, agent(at), reply)?);
    }
    Ok(told)
}

/// What somebody was told about a claim.
#[derive(Debug)]
struct Told {
    what: String,
    agent: String,
    outcome: Outcome,
    at: Option<u64>,
}

#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Granted,
    /// Refused, because this agent has it.
    Taken {
        by: String,
    },
    Refused,
}

impl Told {
    fn of_file(path: &str, agent: String, reply: &HttpReply) -> anyhow::Result<Told> {
        let outcome = match (reply.status.as_u16(), &reply.body["granted"]) {
            (200, Value::Bool(true)) => Outcome::Granted,
            (409, Value::Bool(false)) => Outcome::Taken { by: text(&reply.body["owner"])? },
            _ => anyhow::bail!("{reply:?}"),
        };
        Ok(Told { what: path.to_owned(), agent, outcome, at: Some(position(reply)?) })
    }

    /// A refusal is an error, and errors tell no position.
    fn of_task(task: &str, agent: String, reply: &HttpReply) -> anyhow::Result<Told> {
        let (outcome, at) = match (reply.status.as_u16(), reply.body["code"].as_str()) {
            (200, _) => (Outcome::Granted, Some(position(reply)?)),
            (409, Some("ALREADY_CLAIMED")) => (Outcome::Refused, None),
            _ => anyhow::bail!("{reply:?}"),
        };
        Ok(Told { what: task.to_owned(), agent, outcome, at })
    }

    fn agrees(&self, log: &Log) -> anyhow::Result<()> {
        ensure!(log.grants(&self.what) == 1, "{} was given {} times", self.what, log.grants(&self.what));
        let holder = log.holder_at(&self.what, self.at.unwrap_or(u64::MAX));
        let right = match &self.outcome {
            Outcome::Granted => holder == Some(&self.agent),
            Outcome::Taken { by } => holder == Some(by) && *by != self.agent,
            Outcome::Refused => holder != Some(&self.agent),
        };
        ensure!(right, "{self:?}, and the log says {holder:?}");
        Ok(())
    }
}
