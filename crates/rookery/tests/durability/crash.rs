//! Repeated `kill -9` under load: acknowledged writes are present exactly once, others at most once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::{self, Engine, HttpReply};
use rookery_testkit::postgres::Server;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::store_checks::{check_single_holder, count_by, read_log, verify};
use crate::wire::{announce, within};

const CLIENTS: usize = 16;
const ROUNDS: usize = 15;
/// The most answers between two crashes.
const MAX_ANSWERS: usize = 80;
const SHARED_PATHS: u32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_crash_under_load_loses_and_duplicates_nothing() -> anyhow::Result<()> {
    let seed = seed();
    let ended = within("fifteen crashes", scenario(seed)).await.and_then(|ended| ended);
    ended.with_context(|| format!("DURABILITY_SEED={seed}"))
}

/// A random seed, or the one in `DURABILITY_SEED`. A failure prints the seed.
fn seed() -> u64 {
    let given = std::env::var("DURABILITY_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| rand::rng().random())
}

async fn scenario(seed: u64) -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    // The private database is durable, since acknowledged writes must survive here too.
    let server = (Engine::from_env()? == Engine::Postgres).then(Server::durable).transpose()?;
    let setup = server.iter().fold(crate::daemon(), |setup, server| setup.store(server.url()));
    let mut daemon = setup.start()?;
    // The first agent becomes the lead, which has more rights. It writes nothing.
    announce(&daemon, "lead").await?;
    for client in 0..CLIENTS {
        announce(&daemon, &name(client)).await?;
    }
    let (address, url) = watch::channel(daemon.url().to_owned());
    let team = Arc::new(Team::default());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let random = StdRng::seed_from_u64(random.random());
        clients.spawn(Client::new(client, team.clone(), url.clone(), random)?.run());
    }
    let mut answered = team.answered.subscribe();
    for _ in 0..ROUNDS {
        let enough = *answered.borrow_and_update() + random.random_range(1..MAX_ANSWERS);
        tokio::select! {
            reached = answered.wait_for(|answered| *answered >= enough) => drop(reached?),
            Some(ended) = clients.join_next() => return ended?.context("a client ended before the stop"),
        }
        daemon.kill()?;
        daemon.restart()?;
        address.send_replace(daemon.url().to_owned());
    }
    team.stop.send_replace(true);
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let record = std::mem::take(&mut *team.record.lock().unwrap_or_else(PoisonError::into_inner));
    check_record(&daemon, &record).await?;
    daemon.kill()?;
    verify(&daemon).await
}

fn name(client: usize) -> String {
    format!("agent-{client}")
}

/// The state that the clients share.
#[derive(Debug, Default)]
struct Team {
    record: Mutex<WriteRecord>,
    answered: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl Team {
    fn note(&self, write: impl FnOnce(&mut WriteRecord)) {
        write(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The acknowledged writes, and counts of unknown outcomes.
#[derive(Debug, Default)]
struct WriteRecord {
    /// Titles of created tasks, with their ids.
    created: BTreeMap<String, String>,
    /// Claimed tasks, with the agent.
    claimed: BTreeMap<String, String>,
    completed: BTreeSet<String>,
    /// Paths that only one client claims.
    own_paths: BTreeSet<String>,
    given_up: usize,
    replayed: usize,
    /// Tasks that any client may claim.
    open: Vec<String>,
}

struct Client {
    me: String,
    number: usize,
    team: Arc<Team>,
    url: watch::Receiver<String>,
    http: reqwest::Client,
    random: StdRng,
    keys: usize,
}

impl Client {
    fn new(number: usize, team: Arc<Team>, url: watch::Receiver<String>, random: StdRng) -> anyhow::Result<Client> {
        Ok(Client { me: name(number), number, team, url, http: daemon::client()?, random, keys: 0 })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let stop = self.team.stop.subscribe();
        for step in 0.. {
            if *stop.borrow() {
                break;
            }
            match step % 4 {
                0 => self.create_task(step).await?,
                1 => self.claim_and_complete().await?,
                2 => self.claim_own_path(step).await?,
                _ => self.claim_shared_path().await?,
            }
        }
        Ok(())
    }

    async fn create_task(&mut self, step: usize) -> anyhow::Result<()> {
        let title = format!("task {step} of {}", self.me);
        let body = json!({"title": title, "assigned_by": self.me});
        let Some(reply) = self.write(Method::POST, "/tasks", body).await? else { return Ok(()) };
        ensure!(reply.status == StatusCode::CREATED, "{reply:?}");
        let id = reply.body["id"].as_str().context("the task has no id")?.to_owned();
        self.team.note(|record| {
            record.open.push(id.clone());
            record.created.insert(title, id);
        });
        Ok(())
    }

    /// Claims the oldest open task, for which all clients compete.
    async fn claim_and_complete(&mut self) -> anyhow::Result<()> {
        let mut open = None;
        self.team.note(|record| open = record.open.first().cloned());
        let Some(task) = open else { return Ok(()) };
        let path = format!("/tasks/{task}");
        let claim = json!({"status": "in_progress", "agent_id": self.me});
        let Some(reply) = self.write(Method::PATCH, &path, claim).await? else { return Ok(()) };
        self.team.note(|record| record.open.retain(|other| *other != task));
        if reply.status != StatusCode::OK {
            ensure!(reply.status == StatusCode::CONFLICT, "{reply:?}");
            return Ok(());
        }
        self.team.note(|record| drop(record.claimed.insert(task.clone(), self.me.clone())));
        let done = json!({"status": "done", "agent_id": self.me});
        let Some(reply) = self.write(Method::PATCH, &path, done).await? else { return Ok(()) };
        ensure!(reply.status == StatusCode::OK, "{reply:?}");
        self.team.note(|record| record.completed.extend([task]));
        Ok(())
    }

    async fn claim_own_path(&mut self, step: usize) -> anyhow::Result<()> {
        let path = format!("own/{}/{step}.rs", self.number);
        let body = json!({"path": path, "agent_id": self.me});
        let Some(reply) = self.write(Method::POST, "/resources/claim", body).await? else { return Ok(()) };
        ensure!(reply.body["granted"] == true, "{reply:?}");
        self.team.note(|record| record.own_paths.extend([path]));
        Ok(())
    }

    async fn claim_shared_path(&mut self) -> anyhow::Result<()> {
        let path = format!("shared/{}.rs", self.random.random_range(0..SHARED_PATHS));
        let body = json!({"path": path, "agent_id": self.me});
        let Some(reply) = self.write(Method::POST, "/resources/claim", body.clone()).await? else { return Ok(()) };
        if reply.body["granted"] == true {
            self.write(Method::POST, "/resources/release", body).await?;
        }
        Ok(())
    }

    /// Retries a write with the same idempotency key until it is answered. Sometimes gives up instead.
    async fn write(&mut self, method: Method, path: &str, body: Value) -> anyhow::Result<Option<HttpReply>> {
        self.keys += 1;
        let key = format!("{}-{}", self.me, self.keys);
        loop {
            let url = format!("{}{path}", *self.url.borrow());
            let request = self.http.request(method.clone(), url).header("Idempotency-Key", &key).json(&body);
            match daemon::read(request).await {
                Ok(reply) => {
                    ensure!(!reply.status.is_server_error(), "{reply:?}");
                    self.team.answered.send_modify(|answered| *answered += 1);
                    let is_replayed = reply.headers.contains_key("idempotency-replayed");
                    self.team.note(|record| record.replayed += usize::from(is_replayed));
                    return Ok(Some(reply));
                }
                Err(_) if self.random.random_bool(0.1) => {
                    self.team.note(|record| record.given_up += 1);
                    return Ok(None);
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

/// Compares the record with the log and the tasks.
async fn check_record(daemon: &daemon::Daemon, record: &WriteRecord) -> anyhow::Result<()> {
    ensure!(record.given_up > 0, "no request was interrupted: the daemon was never killed under load");
    let events = read_log(daemon).await?;
    check_single_holder(&events)?;

    let listed = daemon.get("/tasks").await?.body;
    let mut tasks: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for task in listed.as_array().context("no list of tasks")? {
        tasks.entry(task["title"].as_str().unwrap_or_default()).or_default().push(task);
    }
    for (title, found) in &tasks {
        ensure!(found.len() == 1, "{title} exists {} times", found.len());
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let created = count_by(&events, "task.created", |event| text(&event["task_id"]));
    let claimed = count_by(&events, "task.assigned", |event| text(&event["task_id"]));
    let completed = count_by(&events, "task.completed", |event| text(&event["task_id"]));
    let own =
        count_by(&events, "resource.claimed", |event| text(&event["resource"]).filter(|path| path.starts_with("own/")));
    for (action, counts) in
        [("created", &created), ("claimed", &claimed), ("completed", &completed), ("claimed as a path", &own)]
    {
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        ensure!(twice.is_empty(), "{action} more than once: {twice:?}");
    }
    for (title, id) in &record.created {
        let found = tasks.get(title.as_str()).with_context(|| format!("{title} was acknowledged and is missing"))?;
        ensure!(found[0]["id"] == **id, "{title} is {} and was acknowledged as {id}", found[0]["id"]);
        ensure!(created.contains_key(id), "{title} has no event");
    }
    for (task, agent) in &record.claimed {
        let holder = events.iter().find(|event| event["action"] == "task.assigned" && event["task_id"] == **task);
        ensure!(
            holder.is_some_and(|event| event["agent_id"] == **agent),
            "{task} was acknowledged for {agent}, the log says {holder:?}"
        );
    }
    for task in &record.completed {
        ensure!(completed.contains_key(task), "the completion of {task} was acknowledged and is missing");
    }
    for path in &record.own_paths {
        ensure!(own.contains_key(path), "the claim of {path} was acknowledged and is missing");
    }
    Ok(())
}
