//! What a transaction loads and writes: a batch's needs, its write-set, and changes to operational state.

use std::collections::{BTreeMap, BTreeSet};

use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, AnyReply, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::connection::stored_seq;
use super::error::Problem;
use super::fault::{Faults, Step};
use super::{log, schema};
use crate::batch::{CommitSet, Loaded, Needs, RememberedReply};
use crate::offline::Reply;
use crate::operational::{EndpointCursor, KEEP_AFTER_RUN_MILLIS, Operation, PresenceBoard, PresenceRecord, Token};
use crate::query::LogQuery;

/// How many remembered replies are forgotten in one go, so that nobody waits long behind it.
const FORGET_AT_ONCE: i64 = 10_000;

const REMEMBER: &str =
    "INSERT OR REPLACE INTO replies (scope, key, hash, answer, keep_until) VALUES (?1, ?2, ?3, ?4, ?5)";

pub(super) fn load(connection: &Connection, needs: &Needs, board: &PresenceBoard) -> Result<Loaded, Problem> {
    let mut loaded = Loaded::default();
    for key in &needs.rows {
        if let Some(row) = schema::get(connection, key)? {
            loaded.rows.push((key.clone(), row));
        }
    }
    for lookup in &needs.lookups {
        loaded.lookups.push((lookup.clone(), schema::look_up(connection, lookup)?));
    }
    for agent in &needs.presence {
        if let Some(presence) = board.newest(agent, presence_of(connection, agent)?) {
            loaded.presence.push((agent.clone(), presence));
        }
    }
    for key in &needs.replies {
        if let Some(remembered) = reply(connection, key)? {
            loaded.replies.push((key.clone(), remembered));
        }
    }
    loaded.duties.extend(needs.duties.iter().copied().map(super::for_good));
    Ok(loaded)
}

fn presence_of(connection: &Connection, agent: &AgentId) -> Result<Option<Presence>, Problem> {
    let mut statement = connection.prepare_cached("SELECT last_seen, source FROM presence WHERE agent = ?1")?;
    let found = statement.query_row([agent.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    found.map(|(last_seen, source): (i64, String)| presence(last_seen, &source)).transpose()
}

fn presence(last_seen: i64, source: &str) -> Result<Presence, Problem> {
    let source = LifeSource::parse(source).ok_or_else(|| Problem::Unreadable(format!("source of life {source}")))?;
    Ok(Presence { last_seen: Timestamp(last_seen), source })
}

fn reply(connection: &Connection, (scope, key): &(String, String)) -> Result<Option<RememberedReply>, Problem> {
    let mut statement = connection.prepare_cached("SELECT hash, answer FROM replies WHERE scope = ?1 AND key = ?2")?;
    let found = statement.query_row([scope, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((hash, answer)): Option<(String, Vec<u8>)> = found else { return Ok(None) };
    let reply = serde_json::from_slice(&answer)
        .map_err(|error| Problem::Unreadable(format!("remembered reply to {key}: {error}")))?;
    Ok(Some(RememberedReply { hash, reply }))
}

/// Writes everything a batch changes. The caller commits.
pub(super) fn write(connection: &Connection, write: &CommitSet, faults: Option<&dyn Faults>) -> Result<(), Problem> {
    let before = |step| faults.map_or(Ok(()), |faults| faults.before(step, connection));
    before(Step::Log)?;
    log::append(connection, &write.log)?;
    log::blank(connection, &write.blanked)?;
    before(Step::Rows)?;
    for (key, row) in &write.rows {
        match row {
            Some(row) => schema::put(connection, key, row)?,
            None => schema::delete(connection, key)?,
        }
    }
    before(Step::Tallies)?;
    count(connection, &write.tallies)?;
    before(Step::Replies)?;
    remember(connection, write)?;
    blank_replies(connection, write)?;
    connection.prepare_cached("UPDATE log_head SET head = ?1")?.execute([stored_seq(write.head)])?;
    Ok(())
}

pub(super) fn count(connection: &Connection, changes: &BTreeMap<&'static str, i64>) -> Result<(), Problem> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO tallies (name, n) VALUES (?1, max(?2, 0)) ON CONFLICT (name) DO UPDATE SET n = max(n + ?2, 0)",
    )?;
    for (name, change) in changes {
        statement.execute(params![name, change])?;
    }
    Ok(())
}

fn remember(connection: &Connection, write: &CommitSet) -> Result<(), Problem> {
    let mut statement = connection.prepare_cached(REMEMBER)?;
    for (idempotency, reply) in &write.replies {
        let answer = encode(reply, &idempotency.key)?;
        let (scope, key, hash) = (&idempotency.scope, &idempotency.key, &idempotency.hash);
        statement.execute(params![scope, key, hash, answer, idempotency.keep_until])?;
    }
    Ok(())
}

/// What is taken out of the log is taken out of remembered replies, too: they show the rows as they are now.
fn blank_replies(connection: &Connection, write: &CommitSet) -> Result<(), Problem> {
    let mut keys = BTreeSet::new();
    for (seq, _) in &write.blanked {
        let rows = log::read(connection, &LogQuery::one(*seq))?;
        keys.extend(rows.iter().flat_map(|row| row.event.write_set()));
    }
    for key in keys {
        let id = serde_json::to_string(&key.id()).unwrap_or_default();
        let mut statement = connection
            .prepare_cached("SELECT scope, key, answer FROM replies WHERE instr(answer, CAST(?1 AS BLOB))")?;
        let found = statement.query_map([id.trim_matches('"')], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found: Vec<(String, String, Vec<u8>)> = found.collect::<rusqlite::Result<_>>()?;
        for (scope, name, answer) in found {
            let shows = serde_json::from_slice::<AnyReply>(&answer).is_ok_and(|answer| answer.shows(&key));
            if shows {
                let answer = encode(&AnyReply::of_row(key.clone(), schema::get(connection, &key)?), &name)?;
                connection
                    .prepare_cached("UPDATE replies SET answer = ?3 WHERE scope = ?1 AND key = ?2")?
                    .execute(params![scope, name, answer])?;
            }
        }
    }
    Ok(())
}

fn encode(answer: &AnyReply, key: &str) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(answer).map_err(|error| Problem::Unreadable(format!("reply to {key}: {error}")))
}

/// Writes operational state. How many rows of it changed.
pub(super) fn operate(connection: &Connection, operation: &Operation) -> Result<usize, Problem> {
    let changed = match operation {
        Operation::WritePresence(entries) => write_presence(connection, entries)?,
        Operation::PutToken(token) => {
            let doc = serde_json::to_vec(token)
                .map_err(|error| Problem::Unreadable(format!("token {}: {error}", token.id)))?;
            connection
                .prepare_cached("INSERT OR REPLACE INTO tokens (id, doc) VALUES (?1, ?2)")?
                .execute(params![token.id, doc])?
        }
        Operation::RenewToken(token) => {
            let doc = serde_json::to_vec(token)
                .map_err(|error| Problem::Unreadable(format!("token {}: {error}", token.id)))?;
            connection.prepare_cached("UPDATE tokens SET doc = ?2 WHERE id = ?1")?.execute(params![token.id, doc])?
        }
        Operation::RevokeToken { id } => {
            connection.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([id])?
        }
        Operation::PutOutbox(outbox) => {
            let doc = serde_json::to_vec(outbox)
                .map_err(|error| Problem::Unreadable(format!("outbox of {}: {error}", outbox.adapter)))?;
            let version = i64::try_from(outbox.version).unwrap_or(i64::MAX);
            let sql = "INSERT INTO outboxes (adapter, version, doc) VALUES (?1, ?2, ?3) ON CONFLICT (adapter) DO UPDATE
                SET version = excluded.version, doc = excluded.doc WHERE outboxes.version = excluded.version - 1";
            connection.prepare_cached(sql)?.execute(params![outbox.adapter, version, doc])?
        }
        Operation::ForgetReplies { before } => {
            put_off_replies(connection, *before)? + forget_replies(connection, *before)?
        }
    };
    Ok(changed)
}

/// A scope is a run and a sender, and the run has no space in it. The default run, and one that never had a task, has no row.
fn put_off_replies(connection: &Connection, before: Timestamp) -> Result<usize, Problem> {
    let sql = "UPDATE replies SET keep_until = due.until FROM
        (SELECT scope, replies.key AS key, coalesce(ended, ?1) + ?3 AS until
            FROM replies JOIN runs ON runs.key = substr(scope, 1, instr(scope, ' ') - 1)
            WHERE keep_until < ?1 AND coalesce(ended, ?1) + ?3 > ?1
            ORDER BY keep_until LIMIT ?2) AS due
        WHERE replies.scope = due.scope AND replies.key = due.key";
    let figures = params![before.0, FORGET_AT_ONCE, KEEP_AFTER_RUN_MILLIS];
    Ok(connection.prepare_cached(sql)?.execute(figures)?)
}

fn forget_replies(connection: &Connection, before: Timestamp) -> Result<usize, Problem> {
    let sql = "DELETE FROM replies WHERE (scope, key) IN
        (SELECT scope, replies.key
            FROM replies LEFT JOIN runs ON runs.key = substr(scope, 1, instr(scope, ' ') - 1)
            WHERE keep_until < ?1 AND (runs.key IS NULL OR coalesce(ended, ?1) + ?3 <= ?1)
            ORDER BY keep_until LIMIT ?2)";
    let figures = params![before.0, FORGET_AT_ONCE, KEEP_AFTER_RUN_MILLIS];
    Ok(connection.prepare_cached(sql)?.execute(figures)?)
}

fn write_presence(connection: &Connection, entries: &[(AgentId, Presence)]) -> Result<usize, Problem> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO presence (agent, last_seen, source) VALUES (?1, ?2, ?3) ON CONFLICT (agent) DO UPDATE
            SET last_seen = excluded.last_seen, source = excluded.source WHERE excluded.last_seen > presence.last_seen",
    )?;
    let mut changed = 0;
    for (agent, presence) in entries {
        changed += statement.execute(params![agent.as_str(), presence.last_seen.0, presence.source.as_str()])?;
    }
    Ok(changed)
}

pub(super) fn all_presence(connection: &Connection) -> Result<Vec<PresenceRecord>, Problem> {
    let mut statement = connection.prepare_cached("SELECT agent, last_seen, source FROM presence ORDER BY agent")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (agent, last_seen, source): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        found.push(PresenceRecord { agent: AgentId::new(agent), presence: presence(last_seen, &source)?, by: None });
    }
    Ok(found)
}

pub(super) fn all_outboxes(connection: &Connection) -> Result<Vec<EndpointCursor>, Problem> {
    let mut statement = connection.prepare_cached("SELECT adapter, doc FROM outboxes ORDER BY adapter")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (adapter, doc): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let unreadable = |error| Problem::Unreadable(format!("outbox of {adapter}: {error}"));
        found.push(serde_json::from_slice(&doc).map_err(unreadable)?);
    }
    Ok(found)
}

pub(super) fn all_tokens(connection: &Connection) -> Result<Vec<Token>, Problem> {
    let mut statement = connection.prepare_cached("SELECT id, doc FROM tokens ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, doc): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let token =
            serde_json::from_slice(&doc).map_err(|error| Problem::Unreadable(format!("token {id}: {error}")))?;
        found.push(token);
    }
    Ok(found)
}

/// Remembered replies after one, in the order of scope and key.
pub(super) fn page_of_replies(
    connection: &Connection,
    after: Option<&Reply>,
    limit: u32,
) -> Result<Vec<Reply>, Problem> {
    let mut statement = connection.prepare_cached(
        "SELECT scope, key, hash, answer, keep_until FROM replies
            WHERE (scope, key) > (?1, ?2) ORDER BY scope, key LIMIT ?3",
    )?;
    let (scope, key) = after.map_or(("", ""), |reply| (&reply.scope, &reply.key));
    let rows = statement.query_map(params![scope, key, limit], |row| {
        let (scope, key, hash) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Reply { scope, key, hash, answer: row.get(3)?, keep_until: row.get(4)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn put_replies(connection: &Connection, replies: &[Reply]) -> Result<(), Problem> {
    let mut statement = connection.prepare_cached(REMEMBER)?;
    for reply in replies {
        statement.execute(params![reply.scope, reply.key, reply.hash, reply.answer, reply.keep_until])?;
    }
    Ok(())
}

pub(super) fn all_tallies(connection: &Connection) -> Result<BTreeMap<String, u64>, Problem> {
    let mut statement = connection.prepare_cached("SELECT name, n FROM tallies")?;
    let mut rows = statement.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (name, n): (String, i64) = (row.get(0)?, row.get(1)?);
        found.insert(name, u64::try_from(n).unwrap_or(0));
    }
    Ok(found)
}
