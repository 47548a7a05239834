//! Operational state: everything the store keeps that is neither the log nor folded from it.
//!
//! | what | its loss would cost |
//! |---|---|
//! | presence | agents seem last seen at their last logged transition, and get a full period of grace |
//! | tokens | every token has to be created again |
//! | browser sessions (kept among the tokens) | every browser has to sign in again |
//! | remembered replies | a repeated request may be carried out twice |
//! | nodes, duties | every node attends again within seconds; duties change hands |
//! | who was shown which message, wake-ups (in the memory of a node) | a chain of messages begins anew; a wake-up is repeated |
//! | how often a message was handed to its recipient, circuits of endpoints (in the memory of a node) | pauses and attempts begin anew |
//! | what of the log stands in the context's files (files of its own in `.rookery/rendered/`) | files are compared with the log itself, which takes longer |
//! | how far adapters have come with passing on the log, and what they could not pass on | each begins anew at the head: what it had not sent by then is not sent |
//! | batch ids, holds on artifacts, blobs of uploads under way | commits under way are of unknown outcome; an upload under way fails |
//!
//! All of it is backed up; none of it is replayed.

use std::collections::HashMap;
use std::sync::Mutex;

use rookery_core::kernel::caller::Authority;
use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, NodeId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// A change to operational state.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// An older sign of life never replaces a newer one that another process wrote.
    WritePresence(Vec<(AgentId, Presence)>),
    PutToken(Token),
    /// Replaces a token that exists. A revoked one stays revoked.
    RenewToken(Token),
    RevokeToken {
        id: String,
    },
    /// Over the version before it and no other: whoever made it of an older one changes nothing.
    PutOutbox(EndpointCursor),
    /// Forgets replies whose time is over, as many as fit one go: repeated until there are none. Those of a run are kept until it
    /// has ended, and a day more: their time is put off.
    ForgetReplies {
        before: Timestamp,
    },
}

/// How long the replies of a run are remembered after its end, and after how long an open one is looked at again.
pub(crate) const KEEP_AFTER_RUN_MILLIS: i64 = 24 * 60 * 60 * 1_000;

impl Operation {
    pub(crate) fn changes_tokens(&self) -> bool {
        matches!(self, Operation::PutToken(_) | Operation::RenewToken(_) | Operation::RevokeToken { .. })
    }
}

/// When an agent was last seen, and by which node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresenceRecord {
    pub agent: AgentId,
    pub presence: Presence,
    /// `None` in a store that only one process can have.
    pub by: Option<NodeId>,
}

/// A credential. Only the hash of its secret is kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Token {
    pub id: String,
    /// SHA-256 of the secret, in hex.
    pub hash: String,
    /// The agent it may act as; for a person, the person's name.
    pub subject: String,
    pub power: Authority,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub label: Option<String>,
    /// Set if this is a browser session. Its hash is that of both halves of the session's secret, and it is no bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<Browser>,
}

/// The browser that a session belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Browser {
    /// For people, as in `Firefox on Linux`.
    pub name: String,
    /// Up to a few minutes behind.
    pub last_used: Timestamp,
}

/// How far an adapter has come with passing on the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndpointCursor {
    pub adapter: String,
    /// Counted up with every change.
    pub version: u64,
    /// Everything up to here is settled: passed on, not wanted, or among the dead.
    pub place: Seq,
    /// How often what comes next was tried in vain.
    pub attempts: u32,
    /// Since it no longer gets through.
    pub failing: Option<Failing>,
    /// What was given up on, the oldest first.
    pub dead: Vec<DeadLetter>,
}

/// That nothing gets through.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failing {
    pub since: Timestamp,
    /// How often in a row.
    pub failures: u32,
    pub error: String,
    pub next_at: Timestamp,
}

/// A message that could not be passed on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    pub seq: Seq,
    pub attempts: u32,
    pub error: String,
    pub at: Timestamp,
    /// Somebody wants it tried once more.
    pub again: bool,
}

/// The newest sign of life of each agent as this process knows it. Heartbeats end here and never wait in a queue; what
/// is new is written down from time to time.
#[derive(Debug, Default)]
pub struct PresenceBoard {
    seen: Mutex<HashMap<AgentId, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    presence: Presence,
    /// The source that the agent is held to for good, once it has shown it.
    kept: Option<LifeSource>,
    written: bool,
    /// The node that saw it last; `None` if this process did.
    by: Option<NodeId>,
}

impl Entry {
    fn here(presence: Presence) -> Entry {
        Entry { presence, kept: kept(presence.source), written: false, by: None }
    }

    fn learned(sign: PresenceRecord) -> Entry {
        Entry { presence: sign.presence, kept: kept(sign.presence.source), written: true, by: sign.by }
    }
}

/// A process that we watch and heartbeats go on or their agent is gone. A connection may be closed by one that goes on
/// calling.
fn kept(source: LifeSource) -> Option<LifeSource> {
    match source {
        LifeSource::Process | LifeSource::Heartbeat => Some(source),
        LifeSource::Connection | LifeSource::Call => None,
    }
}

impl PresenceBoard {
    /// Notes a sign of life. Its source is the agent's, unless it has shown a stronger one that is kept. Each sign is
    /// newer than those before it, also on a clock that went back or is behind another node's: it is news that counts, not the hour.
    pub fn saw(&self, agent: &AgentId, presence: Presence) {
        let mut seen = self.lock();
        match seen.get_mut(agent) {
            Some(entry) => {
                let newest = entry.presence.last_seen;
                let behind = presence.last_seen < newest;
                entry.presence.last_seen = if behind { newest.plus_millis(1) } else { presence.last_seen };
                entry.kept = entry.kept.into_iter().chain(kept(presence.source)).min();
                entry.presence.source = entry.kept.map_or(presence.source, |kept| kept.min(presence.source));
                entry.written = false;
                entry.by = None;
            }
            None => {
                seen.insert(agent.clone(), Entry::here(presence));
            }
        }
    }

    pub fn get(&self, agent: &AgentId) -> Option<Presence> {
        self.lock().get(agent).map(|entry| entry.presence)
    }

    /// The other node that saw the agent last; `None` if it was seen here, or nowhere.
    pub fn witness(&self, agent: &AgentId) -> Option<NodeId> {
        self.lock().get(agent).and_then(|entry| entry.by.clone())
    }

    pub fn all(&self) -> Vec<(AgentId, Presence)> {
        self.lock().iter().map(|(agent, entry)| (agent.clone(), entry.presence)).collect()
    }

    /// What was not written down yet. Call [`PresenceBoard::wrote`] when it is.
    pub fn unwritten(&self) -> Vec<(AgentId, Presence)> {
        let seen = self.lock();
        seen.iter().filter(|(_, entry)| !entry.written).map(|(agent, entry)| (agent.clone(), entry.presence)).collect()
    }

    pub fn wrote(&self, entries: &[(AgentId, Presence)]) {
        let mut seen = self.lock();
        for (agent, presence) in entries {
            if let Some(entry) = seen.get_mut(agent)
                && entry.presence == *presence
            {
                entry.written = true;
            }
        }
    }

    /// Takes what another process, or an earlier one, wrote down.
    pub fn learn(&self, signs: Vec<PresenceRecord>) {
        let mut seen = self.lock();
        for sign in signs {
            let presence = sign.presence;
            let entry = seen.entry(sign.agent.clone()).or_insert_with(|| Entry::learned(sign.clone()));
            if entry.written && presence.last_seen > entry.presence.last_seen {
                *entry = Entry { kept: entry.kept, ..Entry::learned(sign) };
            }
            if !entry.written && presence.last_seen >= entry.presence.last_seen {
                // What was seen here since is news on top of it, also if two clocks came to the same number.
                entry.presence.last_seen = presence.last_seen.plus_millis(1);
            }
        }
    }

    /// The newer of what is known here and what was loaded.
    pub fn newest(&self, agent: &AgentId, loaded: Option<Presence>) -> Option<Presence> {
        let here = self.get(agent);
        match (here, loaded) {
            (Some(here), Some(loaded)) if loaded.last_seen > here.last_seen => Some(loaded),
            (Some(here), _) => Some(here),
            (None, loaded) => loaded,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AgentId, Entry>> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_while_it_lasts_and_heartbeats_for_good() {
        use LifeSource::*;
        for (shown, source) in [
            (vec![Call, Connection], Connection),
            (vec![Connection, Call], Call),
            (vec![Heartbeat, Call], Heartbeat),
            (vec![Heartbeat, Connection], Connection),
            (vec![Heartbeat, Connection, Call], Heartbeat),
            (vec![Process, Connection, Heartbeat, Call], Process),
        ] {
            let board = PresenceBoard::default();
            for (at, source) in (1..).zip(&shown) {
                board.saw(&"a".into(), Presence { last_seen: Timestamp(at), source: *source });
            }
            assert_eq!(board.get(&"a".into()).map(|presence| presence.source), Some(source), "{shown:?}");
        }
    }
}
