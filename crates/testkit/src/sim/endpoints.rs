//! The endpoints of agents, and the faults of posts to them: a post arrives late or never, its answer is lost or arrives
//! after the courier's timeout, or the endpoint fails or rejects it.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rookery_core::{AgentId, MessageId};
use rookery_engine::endpoints::{HttpAnswer, HttpAttempt};

use super::network::{Listener, Network, PostOutcome};

/// How long a courier waits for an answer.
const ANSWER_TIMEOUT_MILLIS: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) network: Network,
    in_transit: Vec<PostInTransit>,
    /// The endpoints that are not healthy, and until when.
    states: BTreeMap<AgentId, (EndpointState, u64)>,
    records: BTreeMap<(AgentId, MessageId), PostRecord>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndpointState {
    Healthy,
    Failing,
    Down,
    /// Accepts everything at once, without network faults.
    Perfect,
    /// Receives nothing, although every post is answered with success.
    Swallowing,
}

/// A post on its way to an endpoint, or its answer on the way back.
#[derive(Debug)]
struct PostInTransit {
    number: u64,
    attempt: HttpAttempt,
    arrives: Option<u64>,
    accepts: bool,
    answers: Option<(u64, PostOutcome)>,
}

/// The posts of one message to the endpoint of one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PostRecord {
    pub(super) posts: u32,
    pub(super) arrived: u32,
    /// How often the endpoint accepted it.
    pub(super) accepted: u32,
}

/// A post that arrived at its endpoint.
#[derive(Debug)]
pub(super) struct ArrivedPost {
    pub(super) attempt: HttpAttempt,
    pub(super) accepts: bool,
}

impl Endpoints {
    pub(super) fn set_state(&mut self, agent: AgentId, state: EndpointState, until: u64) {
        self.states.insert(agent, (state, until));
    }

    pub(super) fn state(&self, agent: &AgentId, now: u64) -> EndpointState {
        self.states.get(agent).filter(|(_, until)| *until > now).map_or(EndpointState::Healthy, |(state, _)| *state)
    }

    pub(super) fn record(&self, agent: &AgentId, message: &MessageId) -> PostRecord {
        self.records.get(&(agent.clone(), message.clone())).copied().unwrap_or_default()
    }

    /// Sends a post on its way.
    pub(super) fn send(
        &mut self,
        rng: &mut StdRng,
        (number, attempt): (u64, HttpAttempt),
        state: EndpointState,
        now: u64,
    ) {
        self.record_mut(&attempt).posts += 1;
        self.in_transit.push(plan_transit(rng, state, now, number, attempt));
    }

    /// Takes the posts that arrive by now, in order.
    pub(super) fn take_arrivals(&mut self, now: u64) -> Vec<ArrivedPost> {
        let mut due: Vec<&mut PostInTransit> =
            self.in_transit.iter_mut().filter(|post| post.arrives.is_some_and(|at| at <= now)).collect();
        due.sort_by_key(|post| (post.arrives, post.number));
        let arrived: Vec<ArrivedPost> = due
            .into_iter()
            .map(|post| {
                post.arrives = None;
                ArrivedPost { attempt: post.attempt.clone(), accepts: post.accepts }
            })
            .collect();
        arrived
    }

    pub(super) fn note_arrival(&mut self, arrived: &ArrivedPost) {
        let record = self.record_mut(&arrived.attempt);
        record.arrived += 1;
        record.accepted += u32::from(arrived.accepts);
    }

    /// Delivers the answers that are due by now. Returns the number of answers that came after their courier's timeout.
    pub(super) fn deliver_answers(&mut self, now: u64) -> u64 {
        let mut after_timeout = 0;
        for post in &mut self.in_transit {
            if let Some((_, outcome)) = post.answers.take_if(|(at, _)| *at <= now)
                && self.network.answer(post.number, outcome) == Listener::Gone
            {
                after_timeout += 1;
            }
        }
        self.in_transit.retain(|post| post.arrives.is_some() || post.answers.is_some());
        after_timeout
    }

    /// Postpones everything in transit, for a time in which all machines sleep.
    pub(super) fn postpone(&mut self, millis: u64) {
        for post in &mut self.in_transit {
            post.arrives = post.arrives.map(|at| at + millis);
            if let Some((at, _)) = &mut post.answers {
                *at += millis;
            }
        }
        self.states.values_mut().for_each(|(_, until)| *until += millis);
    }

    /// Forgets everything, because a restored backup replaces the log.
    pub(super) fn clear(&mut self) {
        self.in_transit.clear();
        self.records.clear();
    }

    fn record_mut(&mut self, attempt: &HttpAttempt) -> &mut PostRecord {
        self.records.entry((attempt.agent.clone(), attempt.message.clone())).or_default()
    }
}

/// Chooses when a post arrives, whether the endpoint accepts it, and when its answer arrives.
fn plan_transit(rng: &mut StdRng, state: EndpointState, now: u64, number: u64, attempt: HttpAttempt) -> PostInTransit {
    let answer = |status: u16| {
        let retry_after = (status == 429).then_some(Duration::from_secs(2));
        Ok(HttpAnswer { status, retry_after })
    };
    let status = match (state, rng.random_range(0..100)) {
        (EndpointState::Perfect, _) => 202,
        (EndpointState::Down, _) => {
            let answers = Some((now, Err("it cannot be reached".to_owned())));
            return PostInTransit { number, attempt, arrives: None, accepts: false, answers };
        }
        (EndpointState::Swallowing, _) => {
            let answers = Some((now, answer(202)));
            return PostInTransit { number, attempt, arrives: None, accepts: false, answers };
        }
        (EndpointState::Healthy, 0..93) | (EndpointState::Failing, 0..20) => 200,
        (EndpointState::Healthy, 93..97) | (EndpointState::Failing, 20..80) => 503,
        (EndpointState::Healthy, 97..99) | (EndpointState::Failing, 80..95) => 429,
        (EndpointState::Healthy | EndpointState::Failing, _) => 422,
    };
    let accepts = status < 300;
    if state == EndpointState::Perfect {
        return PostInTransit { number, attempt, arrives: Some(now), accepts, answers: Some((now, answer(status))) };
    }
    let arrives = now + delay(rng);
    let in_time = |at: u64, outcome: PostOutcome| match at <= now + ANSWER_TIMEOUT_MILLIS {
        true => (at, outcome),
        false => (now + ANSWER_TIMEOUT_MILLIS, Err("it did not answer in time".to_owned())),
    };
    let (arrives, answers) = match rng.random_range(0..100) {
        0..3 => (None, in_time(u64::MAX, answer(status))),
        3..8 => (Some(arrives), in_time(arrives, Err("the connection was closed".to_owned()))),
        _ => (Some(arrives), in_time(arrives + delay(rng), answer(status))),
    };
    PostInTransit { number, attempt, arrives, accepts, answers: Some(answers) }
}

/// Chooses a delay: usually none, sometimes longer than a courier waits.
fn delay(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..100) {
        0..75 => 0,
        75..96 => rng.random_range(0..5_000),
        _ => rng.random_range(5_000..2 * ANSWER_TIMEOUT_MILLIS),
    }
}
