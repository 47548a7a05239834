//! `kill -9` under load, again and again: what was acknowledged is there exactly once, what was not at most once.

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

use crate::ledger::{check_single_holder, count_by, read_log, verify};
use crate::wire::{announce, within};

const CLIENTS: usize = 16;
const ROUNDS: usize = 15;
/// At most so many answers come between two kills.
const ANSWERS: usize = 80;
const PATHS: u32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_loses_and_repeats_nothing() -> anyhow::Result<()> {
    let seed = seed();
    let ended = within("fifteen crashes", scenario(seed)).await.and_then(|ended| ended);
    ended.with_context(|| format!("DURABILITY_SEED={seed}"))
}

/// A seed of its own for every run; a failure names it, and the variable brings it back.
fn seed() -> u64 {
    let given = std::env::var("DURABILITY_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| rand::rng().random())
}

async fn scenario(seed: u64) -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    // A database that is not ours to kill must keep what it acknowledged all the same.
    let server = (Engine::from_env()? == Engine::Postgres).then(Server::durable).transpose()?;
    let setup = server.iter().fold(crate::daemon(), |setup, server| setup.store(server.url()));
    let mut daemon = setup.start()?;
    // The first to join becomes the lead, who may do what others may not. It takes no part.
    announce(&daemon, "lead").await?;
    for client in 0..CLIENTS {
        announce(&daemon, &name(client)).await?;
    }
    let (address, url) = watch::channel(daemon.url().to_owned());
    let team = Arc::new(Team::default());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let random = StdRng::seed_from_u64(random.random());
        clients.spawn(Client::new(client, team.clone(), url.clone(), random)?.work());
    }
    let mut answered = team.answered.subscribe();
    for _ in 0..ROUNDS {
        let enough = *answered.borrow_and_update() + random.random_range(1..ANSWERS);
        tokio::select! {
            reached = answered.wait_for(|answered| *answered >= enough) => drop(reached?),
            Some(ended) = clients.join_next() => return ended?.context("a client ended before it was told to"),
        }
        daemon.kill()?;
        daemon.restart()?;
        address.send_replace(daemon.url().to_owned());
    }
    team.stop.send_replace(true);
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let book = std::mem::take(&mut *team.book.lock().unwrap_or_else(PoisonError::into_inner));
    check(&daemon, &book).await?;
    daemon.kill()?;
    verify(&daemon).await
}

fn name(client: usize) -> String {
    format!("agent-{client}")
}

/// What the clients share.
#[derive(Debug, Default)]
struct Team {
    book: Mutex<Book>,
    answered: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl Team {
    fn note(&self, write: impl FnOnce(&mut Book)) {
        write(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What clients were told, and what they asked for without ever hearing of it.
#[derive(Debug, Default)]
struct Book {
    /// Titles of created tasks, with their ids.
    created: BTreeMap<String, String>,
    /// Tasks granted, with the agent.
    claimed: BTreeMap<String, String>,
    completed: BTreeSet<String>,
    /// Paths that only one client ever asks for.
    own_paths: BTreeSet<String>,
    given_up: usize,
    replayed: usize,
    /// Tasks that anybody may claim.
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

    async fn work(mut self) -> anyhow::Result<()> {
        let stop = self.team.stop.subscribe();
        for step in 0.. {
            if *stop.borrow() {
                break;
            }
            match step % 4 {
                0 => self.create(step).await?,
                1 => self.claim_and_complete().await?,
                2 => self.claim_own_path(step).await?,
                _ => self.claim_shared_path().await?,
            }
        }
        Ok(())
    }

    async fn create(&mut self, step: usize) -> anyhow::Result<()> {
        let title = format!("task {step} of {}", self.me);
        let body = json!({"title": title, "assigned_by": self.me});
        let Some(reply) = self.write(Method::POST, "/tasks", body).await? else { return Ok(()) };
        ensure!(reply.status == StatusCode::CREATED, "{reply:?}");
        let id = reply.body["id"].as_str().context("a task without an id")?.to_owned();
        self.team.note(|book| {
            book.open.push(id.clone());
            book.created.insert(title, id);
        });
        Ok(())
    }

    /// Everybody runs for the oldest open task; one gets it.
    async fn claim_and_complete(&mut self) -> anyhow::Result<()> {
        let mut open = None;
        self.team.note(|book| open = book.open.first().cloned());
        let Some(task) = open else { return Ok(()) };
        let path = format!("/tasks/{task}");
        let claim = json!({"status": "in_progress", "agent_id": self.me});
        let Some(reply) = self.write(Method::PATCH, &path, claim).await? else { return Ok(()) };
        self.team.note(|book| book.open.retain(|other| *other != task));
        if reply.status != StatusCode::OK {
            ensure!(reply.status == StatusCode::CONFLICT, "{reply:?}");
            return Ok(());
        }
        self.team.note(|book| drop(book.claimed.insert(task.clone(), self.me.clone())));
        let done = json!({"status": "done", "agent_id": self.me});
        let Some(reply) = self.write(Method::PATCH, &path, done).await? else { return Ok(()) };
        ensure!(reply.status == StatusCode::OK, "{reply:?}");
        self.team.note(|book| book.completed.extend([task]));
        Ok(())
    }

    async fn claim_own_path(&mut self, step: usize) -> anyhow::Result<()> {
        let path = format!("own/{}/{step}.rs", self.number);
        let body = json!({"path": path, "agent_id": self.me});
        let Some(reply) = self.write(Method::POST, "/resources/claim", body).await? else { return Ok(()) };
        ensure!(reply.body["granted"] == true, "{reply:?}");
        self.team.note(|book| book.own_paths.extend([path]));
        Ok(())
    }

    async fn claim_shared_path(&mut self) -> anyhow::Result<()> {
        let path = format!("shared/{}.rs", self.random.random_range(0..PATHS));
        let body = json!({"path": path, "agent_id": self.me});
        let Some(reply) = self.write(Method::POST, "/resources/claim", body.clone()).await? else { return Ok(()) };
        if reply.body["granted"] == true {
            self.write(Method::POST, "/resources/release", body).await?;
        }
        Ok(())
    }

    /// Sends a write until it is answered, always with the same key. Sometimes gives up instead.
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
                    let again = reply.headers.contains_key("idempotency-replayed");
                    self.team.note(|book| book.replayed += usize::from(again));
                    return Ok(Some(reply));
                }
                Err(_) if self.random.random_bool(0.1) => {
                    self.team.note(|book| book.given_up += 1);
                    return Ok(None);
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

async fn check(daemon: &daemon::Daemon, book: &Book) -> anyhow::Result<()> {
    ensure!(book.given_up > 0, "no request was cut off: the daemon was never killed at work");
    let events = read_log(daemon).await?;
    check_single_holder(&events)?;

    let listed = daemon.get("/tasks").await?.body;
    let mut tasks: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for task in listed.as_array().context("no list of tasks")? {
        tasks.entry(task["title"].as_str().unwrap_or_default()).or_default().push(task);
    }
    for (title, found) in &tasks {
        ensure!(found.len() == 1, "{title} is there {} times", found.len());
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let created = count_by(&events, "task.created", |event| text(&event["task_id"]));
    let claimed = count_by(&events, "task.assigned", |event| text(&event["task_id"]));
    let completed = count_by(&events, "task.completed", |event| text(&event["task_id"]));
    let own =
        count_by(&events, "resource.claimed", |event| text(&event["resource"]).filter(|path| path.starts_with("own/")));
    for (what, counts) in [("created", &created), ("claimed", &claimed), ("completed", &completed), ("taken", &own)] {
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        ensure!(twice.is_empty(), "{what} more than once: {twice:?}");
    }
    for (title, id) in &book.created {
        let found = tasks.get(title.as_str()).with_context(|| format!("{title} was acknowledged and is gone"))?;
        ensure!(found[0]["id"] == **id, "{title} is {} and was acknowledged as {id}", found[0]["id"]);
        ensure!(created.contains_key(id), "{title} has no event");
    }
    for (task, agent) in &book.claimed {
        let holder = events.iter().find(|event| event["action"] == "task.assigned" && event["task_id"] == **task);
        ensure!(holder.is_some_and(|event| event["agent_id"] == **agent), "{task} was granted to {agent}: {holder:?}");
    }
    for task in &book.completed {
        ensure!(completed.contains_key(task), "{task} was completed and is not");
    }
    for path in &book.own_paths {
        ensure!(own.contains_key(path), "{path} was granted and is free");
    }
    Ok(())
}
