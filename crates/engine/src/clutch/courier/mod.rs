//! The courier: posts what waits for an agent to the endpoint that its card names, until that answers.
//!
//! A duty, and restart-safe: what waits is found in rows, and an acknowledgement is what ends it. Whoever takes the duty over, or
//! comes after a crash between a POST and its acknowledgement, sends the message again, with the same id. Of what is about
//! one task only one message is on its way to an agent at a time, so that it arrives in order. Attempts and circuits are
//! operational; that a delivery was given up on is a fact.

mod carrier;
mod circuit;
mod deliver;
mod round;
mod signature;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rookery_core::agent::Agent;
use rookery_core::key::Table;
use rookery_core::log::LogRow;
use rookery_core::{AgentId, Fact, MessageId, Row, Seq};
use rookery_store::ListQuery;
use rookery_store::node::{Duty, Tenure};

pub use carrier::{Answered, Area, Carrier, Carrying, Http, Posting, Reach};
pub(crate) use deliver::{Meaning, meaning};
pub(crate) use signature::key_of;
pub use signature::{HEADER as SIGNATURE_HEADER, delivery_key};

use circuit::{Circuit, Leave, Tolerance};
use deliver::{Delivered, Job, Outcome};
use round::{Look, Round};

use crate::engine::{Engine, EngineError};
use crate::handed::Handing;
use crate::messages::Arrival;
use crate::services::RETRY_AFTER;
use crate::subscribe::{SubscribeError, Subscription};

/// How many messages are on their way to one endpoint.
const PER_ENDPOINT: usize = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// How hard it is tried to deliver a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// After so many in vain a delivery is given up on.
    pub attempts: u32,
    /// After the first of them; doubled each time.
    pub first_pause: Duration,
    /// After so many failures in a row an endpoint is left alone for a while.
    pub circuit_failures: u32,
    /// How long at first.
    pub circuit_pause: Duration,
    /// How many messages are on their way to all endpoints.
    pub in_flight: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            attempts: 12,
            first_pause: Duration::from_secs(1),
            circuit_failures: 5,
            circuit_pause: Duration::from_secs(10),
            in_flight: 64,
        }
    }
}

impl Effort {
    /// How long after an attempt the next one comes: doubled each time, and up to a quarter less, so that what failed
    /// together does not come back together. What the endpoint asks for is heeded.
    pub(crate) fn pause(&self, message: &MessageId, attempt: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
        let spread = message.as_str().bytes().fold(attempt, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let pause = doubled - doubled * (spread % 256) / 1_024;
        asked.map_or(pause, |asked| pause.max(asked.min(LONGEST_PAUSE)))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance { failures: self.circuit_failures.max(1), pause: self.circuit_pause }
    }
}

/// Delivers whenever that is for this node to do.
pub(crate) async fn run(engine: Engine, carrier: Arc<dyn Carrier>) {
    let mut duties = engine.attending().changes();
    loop {
        let held = |tenures: &Vec<Tenure>| tenures.iter().any(|tenure| tenure.duty == Duty::Courier);
        if duties.wait_for(held).await.is_err() {
            return;
        }
        if let Some(tenure) = engine.tenure(Duty::Courier)
            && let Err(error) = serve(&engine, tenure, &carrier).await
        {
            tracing::warn!(%error, "deliveries are interrupted");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

#[derive(Debug, thiserror::Error)]
enum CourierError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
}

/// Delivers until the duty is another node's.
async fn serve(engine: &Engine, tenure: Tenure, carrier: &Arc<dyn Carrier>) -> Result<(), CourierError> {
    let mut courier = Courier::begin(engine, tenure, carrier.clone()).await?;
    let mut duties = engine.attending().changes();
    duties.mark_unchanged();
    while engine.tenure(Duty::Courier) == Some(tenure) {
        courier.look().await?;
        courier.send().await?;
        let pause = courier.pause();
        tokio::select! {
            chunk = courier.subscription.next() => {
                for row in chunk?.rows() {
                    courier.take(row);
                }
            }
            Some(delivered) = courier.posts.next() => courier.settle(delivered),
            _ = duties.changed() => {}
            () = sleep(pause) => {}
        }
    }
    Ok(())
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

type Post = Pin<Box<dyn Future<Output = Delivered> + Send>>;

struct Courier {
    engine: Engine,
    tenure: Tenure,
    carrier: Arc<dyn Carrier>,
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
    posts: FuturesUnordered<Post>,
}

impl Courier {
    async fn begin(engine: &Engine, tenure: Tenure, carrier: Arc<dyn Carrier>) -> Result<Courier, CourierError> {
        let subscription = engine.subscribe(None).await?;
        let (rows, head) = engine.store().list(ListQuery::all(Table::Agents)).await.map_err(EngineError::from)?;
        let agents = rows.into_iter().filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None });
        let rounds: BTreeMap<AgentId, Round> =
            agents.filter_map(|agent| Some((agent.id.clone(), Round::new(endpoint(&agent)?)))).collect();
        Ok(Courier {
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
            posts: FuturesUnordered::new(),
        })
    }

    /// Takes the next row of the log, unless what is known has it already.
    fn take(&mut self, row: &LogRow) {
        if row.seq <= self.at {
            return;
        }
        self.at = row.seq;
        match &row.fact {
            Fact::AgentRegistered(fact) => drop(self.to_look_up.insert(fact.id.clone())),
            Fact::AgentUpdated(fact) => drop(self.to_look_up.insert(fact.id.clone())),
            Fact::AgentLeft(fact) => drop(self.to_look_up.insert(fact.agent.clone())),
            Fact::MessagesAcked(receipt) => {
                for message in receipt.messages.iter().chain(&receipt.broadcasts) {
                    self.over(&receipt.agent, message);
                }
            }
            Fact::DeliveryAbandoned(fact) => self.over(&fact.agent, &fact.message),
            _ => {}
        }
        if let Some(over) = row.fact.voids() {
            self.over(&over.agent, &over.message);
        }
        let look = match &row.fact {
            Fact::DeliveryRetried(_) | Fact::AgentRegistered(_) => Look::Anew,
            _ => Look::Further,
        };
        let concerned: Vec<AgentId> = match Arrival::of(&row.fact) {
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
    async fn look(&mut self) -> Result<(), CourierError> {
        for agent in std::mem::take(&mut self.to_look_up) {
            let known = self.engine.agent(&agent).await?.value;
            match (known.as_ref().and_then(endpoint), self.rounds.get_mut(&agent)) {
                (Some(url), Some(round)) if round.url == url => {}
                (Some(url), Some(round)) => round.moves_to(url),
                (Some(url), None) => drop(self.rounds.insert(agent.clone(), Round::new(url))),
                (None, _) => drop(self.rounds.remove(&agent)),
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

    /// Sends whatever can be sent now.
    async fn send(&mut self) -> Result<(), CourierError> {
        let now = self.engine.clock().monotonic();
        let due: Vec<AgentId> =
            self.wake.iter().filter(|(_, due)| **due <= now).map(|(agent, _)| agent.clone()).collect();
        for agent in due {
            self.wake.remove(&agent);
            self.stirred.insert(agent);
        }
        while self.posts.len() < self.engine.settings().effort.in_flight
            && let Some(agent) = self.next_stirred()
        {
            self.last = Some(agent.clone());
            self.send_to(&agent, now).await?;
        }
        Ok(())
    }

    fn next_stirred(&mut self) -> Option<AgentId> {
        let after = self.last.as_ref().and_then(|last| self.stirred.range((Excluded(last), Unbounded)).next());
        let next = after.or(self.stirred.first()).cloned()?;
        self.stirred.remove(&next);
        Some(next)
    }

    async fn send_to(&mut self, agent: &AgentId, now: u64) -> Result<(), CourierError> {
        let Some(round) = self.rounds.get_mut(agent) else { return Ok(()) };
        while let Some((after, most)) = round.to_read() {
            round.read(self.engine.waits(agent, after, most).await?, most);
        }
        let room = self.engine.settings().effort.in_flight.saturating_sub(self.posts.len());
        let room = room.min(PER_ENDPOINT.saturating_sub(round.on_their_way()));
        let circuit = self.circuits.entry(round.url.clone()).or_default();
        let most = match circuit.leave(now) {
            Leave::Granted => room,
            Leave::Once => room.min(1),
            Leave::NotBefore(then) => {
                self.wake.insert(agent.clone(), then);
                return Ok(());
            }
            // Whoever hears what became of it stirs all that wait for it.
            Leave::Wait => return Ok(()),
        };
        let ready = round.ready(now, most);
        if !ready.items.is_empty() {
            circuit.sends();
        }
        if let Some(next) = ready.next {
            self.wake.insert(agent.clone(), next);
        }
        for item in ready.items {
            let job = Job {
                engine: self.engine.clone(),
                carrier: self.carrier.clone(),
                tenure: self.tenure,
                agent: agent.clone(),
                url: round.url.clone(),
                message: item.message,
                attempt: item.attempts.saturating_add(1),
            };
            self.posts.push(Box::pin(job.deliver()));
        }
        Ok(())
    }

    /// Takes note of what became of a message.
    fn settle(&mut self, delivered: Delivered) {
        let Delivered { agent, url, message, attempt, outcome } = delivered;
        let (now, effort) = (self.engine.clock().monotonic(), self.engine.settings().effort);
        let circuit = self.circuits.entry(url.clone()).or_default();
        let was_open = circuit.is_open();
        match &outcome {
            Outcome::Done | Outcome::Refused => circuit.answered(),
            Outcome::Dead | Outcome::Failed { .. } => circuit.failed(now, effort.tolerance()),
            Outcome::Unsaid | Outcome::Over => circuit.untried(now),
        }
        if circuit.is_open() && !was_open {
            tracing::info!(%agent, "an endpoint failed so often that it is left alone for a while");
        }
        if let Some(round) = self.rounds.get_mut(&agent) {
            match outcome {
                Outcome::Done | Outcome::Refused | Outcome::Dead | Outcome::Over => round.done(&message),
                Outcome::Failed { error, asked } => {
                    let pause = effort.pause(&message, attempt, asked);
                    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    round.again(&message, now.saturating_add(millis));
                    let at = self.engine.clock().now();
                    let next_at = Some(at.plus_millis(millis));
                    let handing = Handing { attempts: attempt, last_at: at, error: Some(error), next_at };
                    self.engine.handed().put(&agent, &message, handing);
                }
                Outcome::Unsaid => {
                    let millis = u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
                    round.put_back(&message, now.saturating_add(millis));
                }
            }
        }
        self.stirred.insert(agent);
        if was_open {
            let others = self.rounds.iter().filter(|(_, round)| round.url == url).map(|(agent, _)| agent.clone());
            self.stirred.extend(others);
        }
    }

    /// How long nothing is to be done, unless something happens.
    fn pause(&self) -> Option<Duration> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_bounds_and_differ() {
        let effort = Effort::default();
        let pause = |attempt: u32, asked: Option<u64>| {
            effort.pause(&"msg_1".into(), attempt, asked.map(Duration::from_secs)).as_millis()
        };
        for (attempt, most) in [(1, 1_000), (2, 2_000), (5, 16_000), (12, 300_000), (u32::MAX, 300_000)] {
            assert!((most * 3 / 4..=most).contains(&pause(attempt, None)), "{attempt}: {}", pause(attempt, None));
        }
        assert_eq!((pause(1, Some(20)), pause(1, Some(9_999))), (20_000, 300_000));
        let others: BTreeSet<Duration> =
            (0..20).map(|at| effort.pause(&MessageId::new(format!("m{at}")), 4, None)).collect();
        assert!(others.len() > 10, "{others:?}");
    }
}
