//! The router: follows the log, and gives every task that was asked for by a request to somebody who fits.
//!
//! A duty, and restart-safe: what waits is found in rows, so that whoever takes the duty over goes on with it. The choice is
//! made in memory and submitted; the rule looks at the hard limits again. What nobody fits for waits, and is tried again when
//! somebody comes, changes or gets free; if that comes to nothing once more, nothing is submitted. Tasks of a run that is paused
//! or given up rest until it goes on. Whoever does not accept in time, and pauses before further attempts, are clocks of the
//! task, which the log tells of when they go off.

use rookery_core::kernel::event_id;
use rookery_core::{
    AgentId, AnyCommand, AnyEvent, Caller, Code, EventRef, Key, MessageId, Row, RunId, Seq, TaskId, Timestamp,
    artifacts, envelope,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rookery_core::eligibility::{Candidates, Change, RequiredCapability, TaskDemand};
use rookery_core::model::Table;
use rookery_core::model::routing::{Routing as Known, RoutingDecision};
use rookery_core::model::task::{AlarmKind, Alarms, RequestTerms, Task};
use rookery_core::routing::{OfferTask, RouteTask, is_news};
use rookery_core::traits::LogRow;
use rookery_store::artifact::{ArtifactError, ArtifactHold};
use rookery_store::node::{LeaderEpoch, LeaderRole};
use rookery_store::query::ColumnTest;
use rookery_store::{LogHead, RowQuery, Submission, SubmitError};

use crate::durations::{RETRY_DELAY, millis};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::subscribe::Subscription;

/// Explains which agent a task would be routed to.
#[derive(Clone, Copy, Debug)]
pub struct RouterHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`RouterHandle`].
    pub fn router(&self) -> RouterHandle<'_> {
        RouterHandle { engine: self }
    }
}

/// How many tasks are read in one go.
const READ_AT_ONCE: usize = 1_000;

/// Routes whenever that is for this node to do.
pub(crate) async fn run(engine: Engine) {
    let mut duties = engine.cluster().changes();
    loop {
        let held = |tenures: &Vec<LeaderEpoch>| tenures.iter().any(|tenure| tenure.duty == LeaderRole::Router);
        if duties.wait_for(held).await.is_err() {
            return;
        }
        if let Err(error) = serve(&engine).await {
            tracing::warn!(%error, "routing is interrupted");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Routes until the duty is another node's.
async fn serve(engine: &Engine) -> Result<(), EngineError> {
    let mut routing = Routing::default();
    while engine.cluster().leader_epoch(LeaderRole::Router).is_some() {
        let mut duties = engine.cluster().changes();
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
        let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Router) else {
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
    tenure: LeaderEpoch,
    subscription: Subscription,
    candidates: Candidates,
    /// What is known is true at this place.
    at: Seq,
    /// Tasks that wait for somebody.
    waiting: HashMap<TaskId, WaitingTask>,
    /// Tasks that would wait, or be passed on, if their runs gave out work.
    resting: HashMap<TaskId, RunId>,
    /// Tasks that may have begun or ceased to wait, or have to be passed on.
    to_look_at: BTreeSet<TaskId>,
    /// Tasks that somebody else reserved for an agent, who has not got the request.
    to_pass_on: Vec<Task>,
    /// Tasks to choose for; all that wait, if somebody could take more than before.
    due: Due,
    /// Choices that fell on nobody, for as long as they would again: tasks that want the same share them.
    nobody: HashMap<Arc<RequiredCapability>, Arc<RoutingDecision>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Due {
    Some(BTreeSet<TaskId>),
    All,
}

/// What the router knows of a task that waits.
#[derive(Debug)]
struct WaitingTask {
    created: Seq,
    run: RunId,
    wanted: Arc<RequiredCapability>,
    routing: Known,
    clocks: Alarms,
}

impl WaitingTask {
    fn of(task: &Task, terms: &RequestTerms) -> WaitingTask {
        WaitingTask {
            created: task.created,
            run: task.run.clone(),
            wanted: Arc::new(RequiredCapability::of(task, terms)),
            routing: task.routing.clone(),
            clocks: task.clocks.clone(),
        }
    }

    /// Whether its deadline is over, which the timers are about to tell.
    fn is_over(&self, now: Timestamp) -> bool {
        self.clocks.get(AlarmKind::Deadline).is_some_and(|deadline| deadline.due <= now)
    }
}

impl Router {
    async fn begin(engine: &Engine, tenure: LeaderEpoch) -> Result<Router, EngineError> {
        let subscription = engine.subscribe(None).await?;
        let unrouted = RowQuery::all(Table::Tasks).with("unrouted", ColumnTest::Present);
        let held = RowQuery::all(Table::Tasks).with("held_by", ColumnTest::Present);
        let (candidates, rest, head) = known(engine, vec![unrouted, held]).await?;
        let tasks = rest.into_iter().flatten().filter_map(task_of);
        let to_look_at = tasks.filter(is_for_us).map(|task| task.id).collect();
        Ok(Router {
            engine: engine.clone(),
            tenure,
            subscription,
            candidates,
            at: head.head,
            waiting: HashMap::new(),
            resting: HashMap::new(),
            to_look_at,
            to_pass_on: vec![],
            due: Due::Some(BTreeSet::new()),
            nobody: HashMap::new(),
        })
    }

    /// Takes the next row of the log, unless what is known has it already.
    fn take(&mut self, row: &LogRow) {
        if row.seq <= self.at {
            return;
        }
        self.at = row.seq;
        let change = self.candidates.follow(row);
        if change > Change::Nothing {
            self.nobody.clear();
        }
        if change == Change::Room {
            self.due = Due::All;
        }
        let touched = row.event.write_set().into_iter();
        let touched = touched.filter_map(|key| if let Key::Task(task) = key { Some(task) } else { None });
        let (begins, waiting) = (may_concern_us(&row.event), &self.waiting);
        self.to_look_at.extend(touched.filter(|task| begins || waiting.contains_key(task)));
        match row.event.typed() {
            EventRef::RunStatusSet(fact) => self.look_at_run(&fact.run),
            EventRef::AgentRegistered(fact) => self.look_at_tasks_of(&fact.id),
            EventRef::AgentUpdated(fact) => self.look_at_tasks_of(&fact.id),
            // It was reserved just before, and nothing of that is left to be looked at.
            EventRef::TaskForwarded(fact) => {
                self.to_look_at.remove(&fact.task);
                self.waiting.remove(&fact.task);
            }
            _ => {}
        }
    }

    /// An agent may speak the protocol now by which it was not told of its work.
    fn look_at_tasks_of(&mut self, agent: &AgentId) {
        self.to_look_at.extend(self.candidates.tasks_of(agent).cloned());
    }

    fn look_at_run(&mut self, run: &RunId) {
        let resting = self.resting.iter().filter(|(_, of)| *of == run).map(|(task, _)| task);
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.run == *run).map(|(task, _)| task);
        self.to_look_at.extend(resting.chain(waiting).cloned());
    }

    /// Routes what is due. A task whose request cannot be kept holds up no other: it is tried again with the next round.
    async fn route_due(&mut self) -> Result<(), EngineError> {
        let mut failed = None;
        loop {
            self.look().await?;
            for task in std::mem::take(&mut self.to_pass_on) {
                failed = waits_alone(&task.id, self.pass_on(&task).await)?.or(failed);
            }
            let due = self.take_due();
            if due.is_empty() {
                return failed.map_or(Ok(()), Err);
            }
            for task in due {
                failed = waits_alone(&task, self.route(&task).await)?.or(failed);
            }
        }
    }

    /// The oldest comes first.
    fn take_due(&mut self) -> Vec<TaskId> {
        let due = std::mem::replace(&mut self.due, Due::Some(BTreeSet::new()));
        let is_due = |task: &TaskId| match &due {
            Due::Some(tasks) => tasks.contains(task),
            Due::All => true,
        };
        let mut found: Vec<(Seq, &TaskId)> =
            self.waiting.iter().filter(|(task, _)| is_due(task)).map(|(task, known)| (known.created, task)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, task)| task.clone()).collect()
    }

    /// Reads those tasks that may wait now.
    async fn look(&mut self) -> Result<(), EngineError> {
        let ids: Vec<TaskId> = std::mem::take(&mut self.to_look_at).into_iter().collect();
        for ids in ids.chunks(READ_AT_ONCE) {
            let (rows, _) = self.engine.store().rows(ids.iter().cloned().map(Key::Task).collect()).await?;
            for id in ids {
                self.waiting.remove(id);
                self.resting.remove(id);
            }
            let tasks = rows.into_iter().flatten().filter_map(task_of);
            let to_do: Vec<Task> = tasks.filter(is_for_us).collect();
            let at_rest = self.runs_at_rest(&to_do).await?;
            for task in to_do {
                if at_rest.contains(&task.run) {
                    self.resting.insert(task.id, task.run);
                } else if task.to_be_passed_on().is_some() {
                    self.to_pass_on.push(task);
                } else if let Some(terms) = task.to_be_routed() {
                    self.waits(&task, terms);
                }
            }
        }
        Ok(())
    }

    fn waits(&mut self, task: &Task, terms: &RequestTerms) {
        self.waiting.insert(task.id.clone(), WaitingTask::of(task, terms));
        if let Due::Some(due) = &mut self.due {
            due.insert(task.id.clone());
        }
    }

    /// Those runs of some tasks that give out no work now. When one goes on, the log tells.
    async fn runs_at_rest(&self, tasks: &[Task]) -> Result<BTreeSet<RunId>, EngineError> {
        let runs: BTreeSet<RunId> = tasks.iter().filter_map(Task::run_if_named).collect();
        if runs.is_empty() {
            return Ok(runs);
        }
        let (rows, _) = self.engine.store().rows(runs.into_iter().map(Key::Run).collect()).await?;
        let at_rest = |row| if let Row::Run(run) = row { (!run.status.gives_work()).then_some(run.id) } else { None };
        Ok(rows.into_iter().flatten().filter_map(at_rest).collect())
    }

    async fn route(&mut self, id: &TaskId) -> Result<(), EngineError> {
        let Some(waiting) = self.waiting.get(id) else { return Ok(()) };
        if waiting.is_over(self.engine.cluster().store_now()) {
            return Ok(());
        }
        let choice = match self.nobody.get(&waiting.wanted) {
            Some(known) => known.clone(),
            None => Arc::new(self.candidates.choose_for(&waiting.wanted)),
        };
        if choice.selected.is_some() {
            return self.gives(id, &choice).await;
        }
        // As many as there are tasks, whatever they want.
        if self.nobody.len() > self.waiting.len() {
            self.nobody.clear();
        }
        self.nobody.insert(waiting.wanted.clone(), choice.clone());
        if !is_news(&waiting.routing, &waiting.clocks, &choice) {
            return Ok(());
        }
        match self.engine.query().task(id).await?.value {
            Some(task) => self.submit(&task, &choice, None).await,
            None => Ok(()),
        }
    }

    /// Gives a task to whom the choice fell on, with the request as it is passed on.
    async fn gives(&mut self, id: &TaskId, choice: &RoutingDecision) -> Result<(), EngineError> {
        let Some(task) = self.engine.query().task(id).await?.value else { return Ok(()) };
        let (Some(terms), Some(to)) = (task.to_be_routed(), &choice.selected) else { return Ok(()) };
        let message = MessageId::new(self.engine.mint("msg_"));
        let accept_within_millis = self.accept_within();
        let forward = OfferTask { task: id.clone(), to: to.clone(), message, accept_within_millis, artifacts: vec![] };
        let forward = self.forwards(&task, &terms.request, forward).await?;
        self.submit(&task, choice, Some(forward)).await
    }

    async fn submit(
        &mut self,
        task: &Task,
        choice: &RoutingDecision,
        forward: Option<Forwarding>,
    ) -> Result<(), EngineError> {
        let (choice, pause_millis) = (choice.clone(), self.accept_within());
        let mut submission = self.submission(task, RouteTask { task: task.id.clone(), choice, pause_millis });
        let mut held = vec![];
        if let Some((forward, body)) = forward {
            submission.others = vec![forward];
            held.extend(body);
        }
        match self.engine.intake().submit_with(submission, held).await? {
            // The next choice shall know of this one.
            Ok(committed) => self.catch_up(committed.at).await,
            Err(SubmitError::Refused(refusal) | SubmitError::RefusedOne { refusal, .. }) => {
                tracing::debug!(task = %task.id, %refusal, "a choice was out of date");
                self.looks_again(&task.id, refusal.code).await
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
        let request = request.unwrap_or_else(|| MessageId::new(event_id::of(task.created)));
        let accept_within_millis = self.accept_within();
        let forward = OfferTask { task: task.id.clone(), to, message, accept_within_millis, artifacts: vec![] };
        let (submission, held) = self.forwards(task, &request, forward).await?;
        match self.engine.intake().submit_with(submission, held.into_iter().collect()).await? {
            Ok(committed) => self.catch_up(committed.at).await,
            // Its run may rest by now, until the log tells that it goes on.
            Err(SubmitError::Refused(refusal)) if refusal.code == Code::InvalidState => {
                self.looks_again(&task.id, refusal.code).await
            }
            // It changed meanwhile, and what did is told by the log.
            Err(SubmitError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A choice was refused: what it did not know of is in the log by now, and the next one shall know it. If nothing is, the
    /// task waits for what comes.
    async fn looks_again(&mut self, id: &TaskId, code: Code) -> Result<(), EngineError> {
        let chosen_at = self.at;
        let (_, head) = self.engine.store().tallies().await?;
        self.catch_up(head.head).await?;
        let has_news = self.at > chosen_at || code == Code::InvalidState;
        if has_news && self.engine.cluster().leader_epoch(LeaderRole::Router) == Some(self.tenure) {
            self.to_look_at.insert(id.clone());
        }
        Ok(())
    }

    fn accept_within(&self) -> u64 {
        millis(self.engine.settings().accept_timeout)
    }

    fn submission(&self, task: &Task, command: impl Into<AnyCommand>) -> Submission {
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
        mut forward: OfferTask,
    ) -> Result<Forwarding, EngineError> {
        let request = self.words_of(task, request).await?;
        let now = self.engine.clock().now();
        let message = envelope::forwarded(&request, task, &forward.to, &forward.message, now);
        forward.artifacts = artifacts::passed_on(&message);
        let bytes = serde_json::to_vec(&message).unwrap_or_default();
        let mut submission = self.submission(task, forward);
        let (body, held) = self.engine.intake().store_body(bytes).await?;
        submission.body = Some(body);
        Ok((submission, held))
    }

    /// The request as it was sent. One that is damaged or lost is passed on with what the task says of it, which is its title
    /// and description: nothing brings its words back, and the work can be done all the same.
    async fn words_of(&self, task: &Task, request: &MessageId) -> Result<Vec<u8>, EngineError> {
        match self.engine.history().request_body(request).await {
            Err(EngineError::Artifact(error @ (ArtifactError::Damaged { .. } | ArtifactError::Absent { .. }))) => {
                tracing::error!(task = %task.id, %request, %error, "a request is passed on without its words");
                Ok(vec![])
            }
            read => read,
        }
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

/// A request on its way to an agent, and the file that its words are in if they are many.
type Forwarding = (Submission, Option<ArtifactHold>);

/// What came of a task, if that is not only about itself: one whose words cannot be read or kept now holds up no other.
fn waits_alone(task: &TaskId, routed: Result<(), EngineError>) -> Result<Option<EngineError>, EngineError> {
    match routed {
        Ok(()) => Ok(None),
        Err(error @ EngineError::Artifact(_)) => {
            tracing::warn!(%task, %error, "a task waits because its request cannot be passed on");
            Ok(Some(error))
        }
        Err(error) => Err(error),
    }
}

/// Whether tasks that a fact touches may have to be given to somebody from here on, or told to whom they were given.
fn may_concern_us(fact: &AnyEvent) -> bool {
    match fact.typed() {
        EventRef::TaskCreated(fact) => fact.origin.terms.is_some(),
        EventRef::TaskCompleted(fact) => !fact.unblocks.is_empty(),
        EventRef::TaskCancelled(fact) => !fact.unblocks.is_empty(),
        EventRef::TaskSkipped(fact) => !fact.unblocks.is_empty(),
        EventRef::TaskReserved(_)
        | EventRef::TaskReassigned(_)
        | EventRef::TaskRetried(_)
        | EventRef::TaskReopened(_)
        | EventRef::TaskReleased(_)
        | EventRef::TaskRemoved(_)
        | EventRef::TaskPlanned(_)
        | EventRef::DependentsUnblocked(_)
        | EventRef::RoutingResumed(_) => true,
        _ => false,
    }
}

/// Everybody who could be given a task, with what they have, and whatever else is asked for at the same place.
async fn known(engine: &Engine, more: Vec<RowQuery>) -> Result<(Candidates, Vec<Vec<Row>>, LogHead), EngineError> {
    let agents = RowQuery::all(Table::Agents);
    let held = RowQuery::all(Table::Tasks).with("held_by", ColumnTest::Present);
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

/// Whether a task is to be given to somebody, or its request to be passed on.
fn is_for_us(task: &Task) -> bool {
    task.to_be_routed().is_some() || task.to_be_passed_on().is_some()
}

fn task_of(row: Row) -> Option<Task> {
    if let Row::Task(task) = row { Some(task) } else { None }
}

impl RouterHandle<'_> {
    /// Whom a task on these terms would be given to now, and why nobody else. Nothing is stored.
    pub async fn explain(&self, terms: RequestTerms) -> Result<RoutingDecision, EngineError> {
        let members = self.engine.query().group_members(&terms.to).await?;
        let (candidates, _, _) = known(self.engine, vec![]).await?;
        Ok(candidates.explain(&TaskDemand::of(&RequestTerms { members, ..terms }, &[])))
    }
}
