//! The endpoints of agents, and what the network does to what is posted there: it comes late, or never; it is taken, and the
//! answer gets lost or comes when nobody waits for it; it fails, or will never be taken.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rookery_core::{AgentId, MessageId};
use rookery_engine::endpoints::{HttpAnswer, HttpAttempt};

use super::network::{Heard, Network, Reaches};

/// How long a courier waits for an answer.
const PATIENCE_MILLIS: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) network: Network,
    under_way: Vec<UnderWay>,
    /// How those do that do not do well, and until when.
    moods: BTreeMap<AgentId, (Mood, u64)>,
    known: BTreeMap<(AgentId, MessageId), Known>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    Well,
    Failing,
    Down,
    /// It takes everything at once, and the network does no harm.
    Perfect,
    /// Nothing arrives, and everything is answered as if it had.
    Swallowing,
}

/// A post on its way there, or its answer on the way back.
#[derive(Debug)]
struct UnderWay {
    number: u64,
    posting: HttpAttempt,
    arrives: Option<u64>,
    takes: bool,
    answers: Option<(u64, Heard)>,
}

/// What is known of one message at the endpoint of one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    pub(super) posts: u32,
    pub(super) arrived: u32,
    /// How often the endpoint took it.
    pub(super) taken: u32,
}

/// A message that has come to its endpoint.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) posting: HttpAttempt,
    pub(super) takes: bool,
}

impl Endpoints {
    pub(super) fn is_in(&mut self, agent: AgentId, mood: Mood, until: u64) {
        self.moods.insert(agent, (mood, until));
    }

    pub(super) fn mood(&self, agent: &AgentId, now: u64) -> Mood {
        self.moods.get(agent).filter(|(_, until)| *until > now).map_or(Mood::Well, |(mood, _)| *mood)
    }

    pub(super) fn known(&self, agent: &AgentId, message: &MessageId) -> Known {
        self.known.get(&(agent.clone(), message.clone())).copied().unwrap_or_default()
    }

    /// A post begins its way.
    pub(super) fn takes_up(&mut self, rng: &mut StdRng, (number, posting): (u64, HttpAttempt), mood: Mood, now: u64) {
        self.of(&posting).posts += 1;
        self.under_way.push(way(rng, mood, now, number, posting));
    }

    /// What arrives by now, in its order.
    pub(super) fn arrive(&mut self, now: u64) -> Vec<Arrived> {
        let mut due: Vec<&mut UnderWay> =
            self.under_way.iter_mut().filter(|post| post.arrives.is_some_and(|at| at <= now)).collect();
        due.sort_by_key(|post| (post.arrives, post.number));
        let arrived: Vec<Arrived> = due
            .into_iter()
            .map(|post| {
                post.arrives = None;
                Arrived { posting: post.posting.clone(), takes: post.takes }
            })
            .collect();
        arrived
    }

    pub(super) fn note(&mut self, arrived: &Arrived) {
        let known = self.of(&arrived.posting);
        known.arrived += 1;
        known.taken += u32::from(arrived.takes);
    }

    /// Hands out what is answered by now; how many of the answers nobody heard.
    pub(super) fn answer(&mut self, now: u64) -> u64 {
        let mut unheard = 0;
        for post in &mut self.under_way {
            if let Some((_, heard)) = post.answers.take_if(|(at, _)| *at <= now)
                && self.network.answer(post.number, heard) == Reaches::Nobody
            {
                unheard += 1;
            }
        }
        self.under_way.retain(|post| post.arrives.is_some() || post.answers.is_some());
        unheard
    }

    /// A night passes for everything that is on its way.
    pub(super) fn sleep(&mut self, millis: u64) {
        for post in &mut self.under_way {
            post.arrives = post.arrives.map(|at| at + millis);
            if let Some((at, _)) = &mut post.answers {
                *at += millis;
            }
        }
        self.moods.values_mut().for_each(|(_, until)| *until += millis);
    }

    /// Another history takes the place of the one that they know.
    pub(super) fn forget(&mut self) {
        self.under_way.clear();
        self.known.clear();
    }

    fn of(&mut self, posting: &HttpAttempt) -> &mut Known {
        self.known.entry((posting.agent.clone(), posting.message.clone())).or_default()
    }
}

fn way(rng: &mut StdRng, mood: Mood, now: u64, number: u64, posting: HttpAttempt) -> UnderWay {
    let answered = |status: u16| {
        let retry_after = (status == 429).then_some(Duration::from_secs(2));
        Ok(HttpAnswer { status, retry_after })
    };
    let status = match (mood, rng.random_range(0..100)) {
        (Mood::Perfect, _) => 202,
        (Mood::Down, _) => {
            let answers = Some((now, Err("it cannot be reached".to_owned())));
            return UnderWay { number, posting, arrives: None, takes: false, answers };
        }
        (Mood::Swallowing, _) => {
            let answers = Some((now, answered(202)));
            return UnderWay { number, posting, arrives: None, takes: false, answers };
        }
        (Mood::Well, 0..93) | (Mood::Failing, 0..20) => 200,
        (Mood::Well, 93..97) | (Mood::Failing, 20..80) => 503,
        (Mood::Well, 97..99) | (Mood::Failing, 80..95) => 429,
        (Mood::Well | Mood::Failing, _) => 422,
    };
    let takes = status < 300;
    if mood == Mood::Perfect {
        return UnderWay { number, posting, arrives: Some(now), takes, answers: Some((now, answered(status))) };
    }
    let arrives = now + delay(rng);
    let in_time = |at: u64, heard: Heard| match at <= now + PATIENCE_MILLIS {
        true => (at, heard),
        false => (now + PATIENCE_MILLIS, Err("it did not answer in time".to_owned())),
    };
    let (arrives, answers) = match rng.random_range(0..100) {
        0..3 => (None, in_time(u64::MAX, answered(status))),
        3..8 => (Some(arrives), in_time(arrives, Err("the connection was closed".to_owned()))),
        _ => (Some(arrives), in_time(arrives + delay(rng), answered(status))),
    };
    UnderWay { number, posting, arrives, takes, answers: Some(answers) }
}

/// Most of the time there is none; now and then it is longer than a courier waits.
fn delay(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..100) {
        0..75 => 0,
        75..96 => rng.random_range(0..5_000),
        _ => rng.random_range(5_000..2 * PATIENCE_MILLIS),
    }
}
