//! The router: follows the log, and gives every task that was asked for by a request to somebody who fits.
//!
//! A duty, and restart-safe: what waits is found in rows, so that whoever takes the duty over goes on with it. The choice is
//! made in memory and submitted; the rule looks at the hard limits again. What nobody fits for waits, and is tried again when
//! somebody comes, changes or gets free. Whoever does not accept in time, and pauses before further attempts, are clocks of the
//! task, which the log tells of when they go off.

use std::collections::BTreeMap;

use rookery_core::key::Table;
use rookery_core::routing::{Candidates, Choice, Demand, Forward, Route};
use rookery_core::task::{Task, Terms};
use rookery_core::{AgentId, Caller, Command, Fact, Key, MessageId, Row, Seq, TaskId, artifact, envelope};
use rookery_store::artifact::Held;
use rookery_store::node::{Duty, Tenure};
use rookery_store::query::Test;
use rookery_store::{Head, ListQuery, Submission, SubmitError};

use crate::engine::{Engine, EngineError};
use crate::services::RETRY_AFTER;
use crate::subscribe::Subscription;
use crate::timers::millis;

/// Routes whenever that is for this node to do.
pub(crate) async fn run(engine: Engine) {
    let mut duties = engine.attending().changes();
    loop {
        let held = |tenures: &Vec<Tenure>| tenures.iter().any(|tenure| tenure.duty == Duty::Router);
        if duties.wait_for(held).await.is_err() {
            return;
        }
        if let Err(error) = serve(&engine).await {
            tracing::warn!(%error, "routing is interrupted");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Routes until the duty is another node's.
async fn serve(engine: &Engine) -> Result<(), EngineError> {
    let mut routing = Routing::default();
    while engine.tenure(Duty::Router).is_some() {
        let mut duties = engine.attending().changes();
        routing.round(engine).await?;
        tokio::select! {
            heard = routing.hear() => heard?,
            _ = duties.changed() => {}
        }
    }
    Ok(())
}

/// The router with what it knows from one round to the next. The simulation runs its rounds as the daemon does.
#[derive(Debug, Default)]
pub struct Routing {
    /// That of this tenure: whoever takes the duty over looks at everything anew.
    router: Option<Router>,
}

impl Routing {
    /// Routes what is due by what it has heard, if that is for this node to do.
    pub async fn round(&mut self, engine: &Engine) -> Result<(), EngineError> {
        let Some(tenure) = engine.tenure(Duty::Router) else {
            self.router = None;
            return Ok(());
        };
        let known = self.router.take().filter(|router| router.tenure == tenure);
        let mut router = match known {
            Some(router) => router,
            None => Router::begin(engine, tenure).await?,
        };
        // One that fails may know half of something: the next round begins anew.
        router.route_due().await?;
        self.router = Some(router);
        Ok(())
    }

    /// Takes the next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn hear(&mut self) -> Result<(), EngineError> {
        match &mut self.router {
            Some(router) => router.hear().await,
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug)]
struct Router {
    engine: Engine,
    tenure: Tenure,
    subscription: Subscription,
    candidates: Candidates,
    /// What is known is true at this place.
    at: Seq,
    /// Tasks that wait for somebody, by when they were created.
    waiting: BTreeMap<TaskId, Seq>,
    /// Tasks that may have begun or ceased to wait.
    to_look_at: Vec<TaskId>,
    /// Tasks that somebody else reserved for an agent, who has not got the request.
    to_pass_on: Vec<Task>,
    /// Tasks to choose for; all that wait, if the team has changed.
    due: Due,
}

#[derive(Debug, PartialEq, Eq)]
enum Due {
    Some(Vec<TaskId>),
    All,
}

impl Router {
    async fn begin(engine: &Engine, tenure: Tenure) -> Result<Router, EngineError> {
        let subscription = engine.subscribe(None).await?;
        let unrouted = ListQuery::all(Table::Tasks).with("unrouted", Test::Present);
        let held = ListQuery::all(Table::Tasks).with("held_by", Test::Present);
        let (candidates, rest, head) = known(engine, vec![unrouted, held]).await?;
        let tasks = rest.into_iter().flatten().filter_map(task_of);
        let (to_pass_on, tasks): (Vec<Task>, Vec<Task>) = tasks.partition(|task| task.to_be_passed_on().is_some());
        let waiting = tasks.into_iter().filter(|task| task.to_be_routed().is_some());
        Ok(Router {
            engine: engine.clone(),
            tenure,
            subscription,
            candidates,
            at: head.head,
            waiting: waiting.map(|task| (task.id, task.created)).collect(),
            to_look_at: vec![],
            to_pass_on,
            due: Due::All,
        })
    }

    /// Takes the next row of the log, unless what is known has it already.
    fn take(&mut self, row: &rookery_core::log::LogRow) {
        if row.seq <= self.at {
            return;
        }
        self.at = row.seq;
        self.candidates.follow(row);
        match &row.fact {
            Fact::TaskCreated(fact) if fact.origin.terms.is_some() => self.to_look_at.push(fact.task.clone()),
            Fact::TaskRetried(fact) => self.to_look_at.push(fact.task.clone()),
            Fact::RoutingResumed(fact) => self.to_look_at.push(fact.task.clone()),
            Fact::TaskReopened(fact) => {
                self.to_look_at.push(fact.task.clone());
                self.due = Due::All;
            }
            Fact::TaskReleased(fact) => {
                self.to_look_at.push(fact.task.clone());
                self.due = Due::All;
            }
            Fact::TaskReserved(fact) => {
                self.waiting.remove(&fact.task);
                self.to_look_at.push(fact.task.clone());
            }
            Fact::TaskReassigned(fact) => self.to_look_at.push(fact.task.clone()),
            Fact::TaskForwarded(fact) => self.to_look_at.retain(|task| *task != fact.task),
            Fact::TaskClaimed(fact) => drop(self.waiting.remove(&fact.task)),
            Fact::TaskCompleted(fact) => self.freed(&fact.task, &fact.unblocks),
            Fact::TaskDropped(fact) => self.freed(&fact.task, &fact.unblocks),
            Fact::TaskFailed(fact) => self.freed(&fact.task, &[]),
            Fact::TaskTimedOut(fact) => self.freed(&fact.task, &[]),
            Fact::TaskRemoved(fact) => self.freed(&fact.task, &[]),
            Fact::AgentRegistered(fact) => self.changed(&fact.id),
            Fact::AgentUpdated(fact) => self.changed(&fact.id),
            Fact::AgentReturned(_) | Fact::RunStatusSet(_) => self.due = Due::All,
            _ => {}
        }
    }

    /// An agent is another one now: it may fit for what waits, and speak the protocol by which it was not told of its work.
    fn changed(&mut self, agent: &AgentId) {
        self.to_look_at.extend(self.candidates.tasks_of(agent).cloned());
        self.due = Due::All;
    }

    /// A task has ended: whoever had it can take another, and what waited for it may be routed.
    fn freed(&mut self, ended: &TaskId, unblocked: &[TaskId]) {
        self.waiting.remove(ended);
        self.to_look_at.extend(unblocked.iter().cloned());
        self.due = Due::All;
    }

    async fn route_due(&mut self) -> Result<(), EngineError> {
        loop {
            self.look().await?;
            for task in std::mem::take(&mut self.to_pass_on) {
                self.pass_on(&task).await?;
            }
            let due = match std::mem::replace(&mut self.due, Due::Some(vec![])) {
                Due::Some(tasks) => tasks,
                Due::All => {
                    let mut all: Vec<_> = self.waiting.iter().collect();
                    all.sort_by_key(|(_, created)| **created);
                    all.into_iter().map(|(task, _)| task.clone()).collect()
                }
            };
            if due.is_empty() {
                return Ok(());
            }
            for task in due {
                self.route(&task).await?;
            }
        }
    }

    /// Reads those tasks that may wait now.
    async fn look(&mut self) -> Result<(), EngineError> {
        let ids = std::mem::take(&mut self.to_look_at);
        if ids.is_empty() {
            return Ok(());
        }
        let keys = ids.into_iter().map(Key::Task).collect();
        let (rows, _) = self.engine.store().rows(keys).await?;
        let tasks = rows.into_iter().flatten().filter_map(task_of);
        let (to_pass_on, tasks): (Vec<Task>, Vec<Task>) = tasks.partition(|task| task.to_be_passed_on().is_some());
        self.to_pass_on.extend(to_pass_on);
        for task in tasks.into_iter().filter(|task| task.to_be_routed().is_some()) {
            self.waiting.insert(task.id.clone(), task.created);
            if let Due::Some(due) = &mut self.due {
                due.push(task.id);
            }
        }
        Ok(())
    }

    async fn route(&mut self, id: &TaskId) -> Result<(), EngineError> {
        let Some(task) = self.engine.task(id).await?.value else {
            self.waiting.remove(id);
            return Ok(());
        };
        let Some(terms) = task.to_be_routed() else {
            self.waiting.remove(id);
            return Ok(());
        };
        let choice = self.candidates.choose_for(&task, terms);
        let selected = choice.selected.clone();
        let accept_within_millis = millis(self.engine.settings().accept_timeout);
        let route = Route { task: id.clone(), choice, pause_millis: accept_within_millis };
        let mut submission = self.submission(&task, route);
        let mut held = None;
        if let Some(to) = selected {
            let message = MessageId::new(self.engine.mint("msg_"));
            let forward = Forward { task: id.clone(), to, message, accept_within_millis, artifacts: vec![] };
            let (forward, body) = self.forwards(&task, &terms.request, forward).await?;
            submission.others = vec![forward];
            held = body;
        }
        let outcome = self.engine.store().submit(submission).await;
        if let Some(held) = held {
            self.engine.let_go(held).await;
        }
        match outcome {
            // The next choice shall know of this one.
            Ok(committed) => self.catch_up(committed.at).await,
            Err(SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. }) => {
                tracing::debug!(task = %id, %refusal, "a choice was out of date");
                self.looks_again(id).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Passes the request on to an agent that somebody else reserved the task for. Who has no card, and was given what nobody
    /// asked for by a message, finds it by its own face.
    async fn pass_on(&mut self, task: &Task) -> Result<(), EngineError> {
        let Some(to) = task.to_be_passed_on().cloned() else { return Ok(()) };
        let request = task.origin.terms.as_ref().map(|terms| terms.request.clone());
        if request.is_none() && !self.candidates.has_card(&to) {
            return Ok(());
        }
        let message = MessageId::new(self.engine.mint("msg_"));
        let accept_within_millis = millis(self.engine.settings().accept_timeout);
        let request = request.unwrap_or_else(|| envelope::id_at(task.created));
        let forward = Forward { task: task.id.clone(), to, message, accept_within_millis, artifacts: vec![] };
        let (submission, held) = self.forwards(task, &request, forward).await?;
        let outcome = self.engine.store().submit(submission).await;
        if let Some(held) = held {
            self.engine.let_go(held).await;
        }
        match outcome {
            Ok(committed) => self.catch_up(committed.at).await,
            // It changed meanwhile, and what did is told by the log.
            Err(SubmitError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A choice was refused: what it did not know of is in the log by now, and the next one shall know it. If nothing is, the
    /// task waits for what comes.
    async fn looks_again(&mut self, id: &TaskId) -> Result<(), EngineError> {
        let chosen_at = self.at;
        let (_, head) = self.engine.store().tallies().await?;
        self.catch_up(head.head).await?;
        if self.at > chosen_at && self.engine.tenure(Duty::Router) == Some(self.tenure) {
            self.to_look_at.push(id.clone());
        }
        Ok(())
    }

    fn submission(&self, task: &Task, command: impl Into<Command>) -> Submission {
        let mut submission = Submission::internal(Caller::system(), command).out_of(self.tenure);
        submission.run = Some(task.run.clone());
        submission.thread = task.origin.thread.clone();
        submission
    }

    /// The command that passes the request on, with the message that the agent gets as its body.
    async fn forwards(
        &self,
        task: &Task,
        request: &MessageId,
        mut forward: Forward,
    ) -> Result<(Submission, Option<Held>), EngineError> {
        let request = self.engine.request_body(request).await?;
        let now = self.engine.clock().now();
        let message = envelope::forwarded(&request, task, &forward.to, &forward.message, now);
        forward.artifacts = artifact::passed_on(&message);
        let bytes = serde_json::to_vec(&message).unwrap_or_default();
        let mut submission = self.submission(task, forward);
        let (body, held) = self.engine.body_to_keep(bytes).await?;
        submission.body = Some(body);
        Ok((submission, held))
    }

    async fn catch_up(&mut self, upto: Seq) -> Result<(), EngineError> {
        while self.at < upto {
            self.hear().await?;
        }
        Ok(())
    }

    async fn hear(&mut self) -> Result<(), EngineError> {
        for row in self.subscription.next().await?.rows() {
            self.take(row);
        }
        Ok(())
    }
}

/// Everybody who could be given a task, with what they have, and whatever else is asked for at the same place.
async fn known(engine: &Engine, more: Vec<ListQuery>) -> Result<(Candidates, Vec<Vec<Row>>, Head), EngineError> {
    let agents = ListQuery::all(Table::Agents);
    let held = ListQuery::all(Table::Tasks).with("held_by", Test::Present);
    let queries = [agents, held].into_iter().chain(more).collect();
    let (lists, head) = engine.store().lists(queries).await?;
    let mut lists = lists.into_iter();
    let mut candidates = Candidates::default();
    for row in lists.next().unwrap_or_default() {
        if let Row::Agent(agent) = row {
            candidates.put(agent);
        }
    }
    for task in lists.next().unwrap_or_default().into_iter().filter_map(task_of) {
        if let Some(agent) = task.held_by() {
            candidates.assign(&task.id, agent);
        }
    }
    Ok((candidates, lists.collect(), head))
}

fn task_of(row: Row) -> Option<Task> {
    if let Row::Task(task) = row { Some(task) } else { None }
}

impl Engine {
    /// Whom a task on these terms would be given to now, and why nobody else. Nothing is stored.
    pub async fn explain(&self, terms: Terms) -> Result<Choice, EngineError> {
        let members = self.listed_members(&terms.to).await?;
        let (candidates, _, _) = known(self, vec![]).await?;
        Ok(candidates.explain(&Demand::of(&Terms { members, ..terms }, &[])))
    }
}
