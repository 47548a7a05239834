//! The courier: posts what waits for an agent to the endpoint that its card names, until that answers.
//!
//! A duty, and restart-safe: what waits is found in rows, and an acknowledgement is what ends it. Whoever takes the duty over, or
//! comes after a crash between a POST and its acknowledgement, sends the message again, with the same id. Of what is about
//! one task only one message is on its way to an agent at a time, so that it arrives in order. Attempts and circuits are
//! operational, and known to this tenure only: losing them costs that pauses and counts begin anew. That a delivery was given up
//! on is a fact.

mod deliver;
mod round;

use rookery_core::messages::{MessagesAcked, MessagesSuperseded};
use rookery_core::{AgentId, EventRef, MessageId, Row, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeFrom;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::model::Table;
use rookery_core::model::agent::Agent;
use rookery_core::traits::LogRow;
use rookery_store::RowQuery;
use rookery_store::node::{LeaderEpoch, LeaderRole};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use deliver::{Delivered, Job};

use deliver::{Fate, Showed};
use round::{Look, Round};

use crate::durations::RETRY_DELAY;
use crate::endpoints::EndpointClient;
use crate::endpoints::circuit::{Circuit, Leave};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::projections::arrival::Arrival;
use crate::state::delivery_attempts::AttemptState;
use crate::subscribe::Subscription;

/// How many messages are on their way to one endpoint.
const PER_ENDPOINT: usize = 8;
/// How long the end of the daemon waits for what is on its way. What did not end by then is posted again after the next start.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Delivers whenever that is for this node to do, until it is told to stop.
pub(crate) async fn run(engine: Engine, carrier: Arc<dyn EndpointClient>, stop: CancellationToken) {
    let mut duties = engine.cluster().changes();
    loop {
        let held = |tenures: &Vec<LeaderEpoch>| tenures.iter().any(|tenure| tenure.duty == LeaderRole::Courier);
        tokio::select! {
            () = stop.cancelled() => return,
            held = duties.wait_for(held) => if held.is_err() { return },
        }
        if let Err(error) = serve(&engine, &carrier, &stop).await {
            tracing::warn!(%error, "deliveries are interrupted");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_DELAY) => {}
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum CourierError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("a delivery broke: {0}")]
    Broke(#[from] JoinError),
}

/// Delivers until the duty is another node's. Posts are tasks of their own, so that they go on whatever is looked up meanwhile.
async fn serve(
    engine: &Engine,
    carrier: &Arc<dyn EndpointClient>,
    stop: &CancellationToken,
) -> Result<(), CourierError> {
    let Some(mut courier) = Courier::begin(engine, carrier.clone()).await? else { return Ok(()) };
    let mut posts = JoinSet::new();
    let mut duties = engine.cluster().changes();
    while !courier.is_over() && !stop.is_cancelled() {
        for job in courier.round().await? {
            posts.spawn(job.deliver());
        }
        let pause = courier.pause();
        tokio::select! {
            heard = courier.hear() => heard?,
            Some(delivered) = posts.join_next() => courier.settle(delivered?),
            _ = duties.changed() => {}
            () = sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
    if stop.is_cancelled() {
        let ending = async { while posts.join_next().await.is_some() {} };
        tokio::time::timeout(SHUTDOWN_GRACE, ending).await.ok();
    }
    Ok(())
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// The courier of one tenure, with what it knows from one round to the next. The simulation runs its rounds as the daemon does.
#[derive(Debug)]
pub struct Courier {
    engine: Engine,
    tenure: LeaderEpoch,
    carrier: Arc<dyn EndpointClient>,
    subscription: Subscription,
    /// What is known is true at this place.
    at: Seq,
    /// What waits for each agent that has an endpoint.
    rounds: BTreeMap<AgentId, Round>,
    /// By the address of the endpoint.
    circuits: BTreeMap<String, Circuit>,
    /// Agents whose endpoint may have changed.
    to_look_up: BTreeSet<AgentId>,
    /// Agents for whom there may be something to send.
    stirred: BTreeSet<AgentId>,
    /// The last of them that had its turn, so that all get theirs.
    last: Option<AgentId>,
    /// When an agent is to be stirred.
    wake: BTreeMap<AgentId, u64>,
    /// Jobs that were given out and have not ended.
    under_way: usize,
    numbers: RangeFrom<u64>,
}

impl Courier {
    /// Nothing if another node delivers.
    pub async fn begin(engine: &Engine, carrier: Arc<dyn EndpointClient>) -> Result<Option<Courier>, EngineError> {
        let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Courier) else { return Ok(None) };
        engine.attempt_log().close_circuits();
        let subscription = engine.subscribe(None).await?;
        let (rows, head) = engine.store().list(RowQuery::all(Table::Agents)).await?;
        let agents = rows.into_iter().filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None });
        let rounds: BTreeMap<AgentId, Round> =
            agents.filter_map(|agent| Some((agent.id.clone(), Round::new(endpoint(&agent)?)))).collect();
        Ok(Some(Courier {
            engine: engine.clone(),
            tenure,
            carrier,
            subscription,
            at: head.head,
            stirred: rounds.keys().cloned().collect(),
            rounds,
            circuits: BTreeMap::new(),
            to_look_up: BTreeSet::new(),
            last: None,
            wake: BTreeMap::new(),
            under_way: 0,
            numbers: 1..,
        }))
    }

    /// Whether delivering is not for this node to do any more, or was not for a while.
    pub fn is_over(&self) -> bool {
        self.engine.cluster().leader_epoch(LeaderRole::Courier) != Some(self.tenure)
    }

    /// Takes the next stretch of the log; waits until there is one. Safe to drop while it waits.
    pub async fn hear(&mut self) -> Result<(), EngineError> {
        for row in self.subscription.next().await?.rows() {
            self.take(row);
        }
        Ok(())
    }

    /// What is to be posted now by what it has heard. Whoever carries a job tells what it came to; one that fails may have lost
    /// some, and begins anew.
    pub async fn round(&mut self) -> Result<Vec<Job>, EngineError> {
        self.look().await?;
        Ok(self.send().await)
    }

    /// Takes the next row of the log, unless what is known has it already.
    fn take(&mut self, row: &LogRow) {
        if row.seq <= self.at {
            return;
        }
        self.at = row.seq;
        match row.event.typed() {
            EventRef::AgentRegistered(fact) => drop(self.to_look_up.insert(fact.id.clone())),
            EventRef::AgentUpdated(fact) => drop(self.to_look_up.insert(fact.id.clone())),
            EventRef::AgentLeft(fact) => drop(self.to_look_up.insert(fact.agent.clone())),
            EventRef::MessagesAcked(MessagesAcked(receipt))
            | EventRef::MessagesSuperseded(MessagesSuperseded(receipt)) => {
                for message in receipt.messages.iter().chain(&receipt.broadcasts) {
                    self.over(&receipt.agent, message);
                }
            }
            EventRef::DeliveryAbandoned(fact) => self.over(&fact.agent, &fact.message),
            _ => {}
        }
        let look = match row.event.typed() {
            EventRef::DeliveryRetried(_) | EventRef::AgentRegistered(_) => Look::Anew,
            _ => Look::Further,
        };
        let concerned: Vec<AgentId> = match Arrival::of(&row.event) {
            Arrival::Nobody => vec![],
            Arrival::Agents(agents) => agents.into_iter().cloned().collect(),
            Arrival::Everyone => self.rounds.keys().cloned().collect(),
        };
        for agent in concerned {
            if let Some(round) = self.rounds.get_mut(&agent) {
                round.look_again(look);
                self.stirred.insert(agent);
            }
        }
    }

    /// A delivery has ended, by whichever way.
    fn over(&mut self, agent: &AgentId, message: &MessageId) {
        if let Some(round) = self.rounds.get_mut(agent) {
            round.done(message);
            self.stirred.insert(agent.clone());
        }
    }

    /// Learns where agents take messages now.
    async fn look(&mut self) -> Result<(), EngineError> {
        for agent in std::mem::take(&mut self.to_look_up) {
            let known = self.engine.query().agent(&agent).await?.value;
            match (known.as_ref().and_then(endpoint), self.rounds.get_mut(&agent)) {
                (Some(url), Some(round)) if round.url == url => {}
                (Some(url), Some(round)) => {
                    round.moves_to(url);
                    self.engine.attempt_log().set_circuit_open(&agent, None);
                }
                (Some(url), None) => drop(self.rounds.insert(agent.clone(), Round::new(url))),
                (None, _) => {
                    self.rounds.remove(&agent);
                    self.engine.attempt_log().set_circuit_open(&agent, None);
                }
            }
            self.stirred.insert(agent);
        }
        let used: BTreeSet<&String> = self.rounds.values().map(|round| &round.url).collect();
        if self.circuits.len() > used.len() {
            let used: BTreeSet<String> = used.into_iter().cloned().collect();
            self.circuits.retain(|url, _| used.contains(url));
        }
        Ok(())
    }

    /// Whatever can be sent now.
    async fn send(&mut self) -> Vec<Job> {
        let now = self.engine.clock().monotonic();
        let due: Vec<AgentId> =
            self.wake.iter().filter(|(_, due)| **due <= now).map(|(agent, _)| agent.clone()).collect();
        for agent in due {
            self.wake.remove(&agent);
            self.stirred.insert(agent);
        }
        let mut jobs = Vec::new();
        while self.under_way < self.engine.config().delivery.in_flight
            && let Some(agent) = self.next_stirred()
        {
            self.last = Some(agent.clone());
            match self.send_to(&agent, now).await {
                Ok(more) => jobs.extend(more),
                // A matter of this agent, as far as anybody knows: the others get theirs.
                Err(error) => {
                    tracing::debug!(%error, %agent, "what waits for an agent cannot be read");
                    let millis = u64::try_from(RETRY_DELAY.as_millis()).unwrap_or(u64::MAX);
                    self.wake.insert(agent, now.saturating_add(millis));
                }
            }
        }
        jobs
    }

    fn next_stirred(&mut self) -> Option<AgentId> {
        let after = self.last.as_ref().and_then(|last| self.stirred.range((Excluded(last), Unbounded)).next());
        let next = after.or(self.stirred.first()).cloned()?;
        self.stirred.remove(&next);
        Some(next)
    }

    async fn send_to(&mut self, agent: &AgentId, now: u64) -> Result<Vec<Job>, EngineError> {
        let Some(round) = self.rounds.get_mut(agent) else { return Ok(vec![]) };
        while let Some((after, most)) = round.to_read() {
            round.read(self.engine.inbox().list_waiting(agent, after, most).await?, most);
        }
        let room = self.engine.config().delivery.in_flight.saturating_sub(self.under_way);
        let room = room.min(PER_ENDPOINT.saturating_sub(round.on_their_way()));
        let circuit = self.circuits.entry(round.url.clone()).or_default();
        let most = match circuit.leave(now) {
            Leave::Granted => room,
            Leave::Once => room.min(1),
            Leave::NotBefore(then) => {
                self.wake.insert(agent.clone(), then);
                return Ok(vec![]);
            }
            // Whoever hears what became of it stirs all that wait for it.
            Leave::Wait => return Ok(vec![]),
        };
        let ready = round.ready(now, most, &mut self.numbers);
        if !ready.items.is_empty() {
            circuit.sends();
        }
        if let Some(next) = ready.next {
            self.wake.insert(agent.clone(), next);
        }
        self.under_way += ready.items.len();
        let job = |item: round::Item| {
            Some(Job {
                engine: self.engine.clone(),
                carrier: self.carrier.clone(),
                tenure: self.tenure,
                number: item.job?,
                agent: agent.clone(),
                url: round.url.clone(),
                message: item.message,
                attempt: item.attempts.saturating_add(1),
                verdict: item.verdict,
            })
        };
        Ok(ready.items.into_iter().filter_map(job).collect())
    }

    /// Takes note of what a job came to.
    pub fn settle(&mut self, delivered: Delivered) {
        let Delivered { number, agent, url, message, attempt, showed, fate } = delivered;
        self.under_way = self.under_way.saturating_sub(1);
        self.learn(&agent, url, showed);
        let (clock, effort) = (self.engine.clock(), self.engine.config().delivery);
        let then = |pause: Duration| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if let Some(round) = self.rounds.get_mut(&agent) {
            let soon = clock.monotonic().saturating_add(then(RETRY_DELAY));
            match fate {
                Fate::Over => round.done_by(number),
                Fate::Again { error, asked } => {
                    let millis = then(effort.pause(&message, attempt, asked));
                    round.again(number, clock.monotonic().saturating_add(millis));
                    let at = clock.now();
                    let next_at = Some(at.plus_millis(millis));
                    let state = AttemptState { attempts: attempt, last_at: at, error: Some(error), next_at };
                    self.engine.attempt_log().put(&agent, &message, state);
                }
                Fate::Unwritten(verdict) => round.put_back(number, soon, Some(verdict)),
                Fate::Untried => round.put_back(number, soon, None),
            }
        }
        self.stirred.insert(agent);
    }

    /// Learns how an endpoint does.
    fn learn(&mut self, agent: &AgentId, url: String, showed: Showed) {
        let now = self.engine.clock().monotonic();
        let circuit = self.circuits.entry(url.clone()).or_default();
        let was_open = circuit.is_open();
        match showed {
            Showed::Answered => circuit.answered(),
            Showed::Failed => circuit.failed(now, self.engine.config().delivery.tolerance()),
            Showed::Nothing => circuit.untried(now),
        }
        if circuit.is_open() && !was_open {
            tracing::info!(%agent, "an endpoint failed so often that it is left alone for a while");
        }
        if was_open || circuit.is_open() {
            let clock = self.engine.clock();
            let until = circuit.open_until().map(|until| clock.now().plus_millis(until.saturating_sub(now)));
            for agent in self.rounds.iter().filter(|(_, round)| round.url == url).map(|(agent, _)| agent) {
                self.engine.attempt_log().set_circuit_open(agent, until);
                self.stirred.insert(agent.clone());
            }
        }
    }

    /// How long nothing is to be done, unless something happens.
    pub fn pause(&self) -> Option<Duration> {
        let now = self.engine.clock().monotonic();
        let next = self.wake.values().min()?;
        Some(Duration::from_millis(next.saturating_sub(now).max(1)))
    }
}

/// Where an agent takes messages, if it is on the team.
fn endpoint(agent: &Agent) -> Option<String> {
    let card = agent.profile.card.as_ref().filter(|_| !agent.has_left())?;
    card.endpoints.clutch.as_ref().map(|endpoint| endpoint.url.clone())
}
