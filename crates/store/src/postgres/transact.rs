//! What a transaction loads and writes: a batch's needs, its write-set, and changes to operational state.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use deadpool_postgres::ClientWrapper;
use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, AnyReply, Key, Lookup, NodeId, Row, Table, Timestamp};

use super::connection::{Frame, NOW, Param, Question, ask, column, stored_seq, text};
use super::error::Problem;
use super::text::stored;
use super::{log, schema};
use crate::batch::{CommitSet, Loaded, Needs, RememberedReply};
use crate::node::{LeaderEpoch, LeaderRole};
use crate::offline::Reply;
use crate::operational::{EndpointCursor, KEEP_AFTER_RUN_MILLIS, Operation, PresenceBoard, PresenceRecord, Token};
use crate::query::LogQuery;
use crate::store::Tallies;

/// How many remembered replies are forgotten in one go, so that nobody waits long behind it.
const FORGET_AT_ONCE: i64 = 10_000;

/// What the answers to a batch's needs are about.
#[derive(Default)]
pub(super) struct Loading {
    parts: Vec<Part>,
}

enum Part {
    Rows(Table),
    Lookup(Lookup),
    Presence(Vec<AgentId>),
    Replies,
    Duties,
}

impl Loading {
    /// The needs as statements, added to those that come before.
    pub(super) fn of(needs: &Needs, questions: &mut Vec<Question>) -> Result<Loading, Problem> {
        let mut loading = Loading::default();
        let mut add = |part, question| {
            loading.parts.push(part);
            questions.push(question);
        };
        for (table, question) in schema::get(&needs.rows) {
            add(Part::Rows(table), question);
        }
        for lookup in &needs.lookups {
            add(Part::Lookup(lookup.clone()), schema::look_up(lookup)?);
        }
        if !needs.presence.is_empty() {
            let agents: Vec<String> = needs.presence.iter().map(|agent| stored(agent.as_str())).collect();
            let sql = "SELECT agent, last_seen, source FROM presence WHERE agent = ANY($1)";
            add(Part::Presence(needs.presence.iter().cloned().collect()), Question::new(sql, vec![Box::new(agents)]));
        }
        if !needs.replies.is_empty() {
            let (scopes, keys): (Vec<String>, Vec<String>) =
                needs.replies.iter().map(|(scope, key)| (stored(scope), stored(key))).unzip();
            let sql = "SELECT replies.scope, replies.key, hash, answer FROM replies
                JOIN unnest($1::text[], $2::text[]) AS wanted (scope, key)
                ON replies.scope = wanted.scope AND replies.key = wanted.key";
            add(Part::Replies, Question::new(sql, vec![Box::new(scopes), Box::new(keys)]));
        }
        if !needs.duties.is_empty() {
            let names: Vec<&'static str> = needs.duties.iter().map(|duty| duty.name()).collect();
            let sql = "SELECT name, epoch FROM duties WHERE name = ANY($1)";
            add(Part::Duties, Question::new(sql, vec![Box::new(names)]));
        }
        Ok(loading)
    }

    pub(super) fn loaded(
        &self,
        answers: &[Vec<tokio_postgres::Row>],
        board: &PresenceBoard,
    ) -> Result<Loaded, Problem> {
        let mut loaded = Loaded::default();
        for (part, rows) in self.parts.iter().zip(answers) {
            match part {
                Part::Rows(table) => loaded.rows.extend(schema::found(*table, rows)?),
                Part::Lookup(lookup) => {
                    loaded.lookups.push((lookup.clone(), schema::found(lookup.table(), rows)?));
                }
                Part::Presence(agents) => loaded.presence.extend(presence_of(agents, rows, board)?),
                Part::Replies => {
                    for row in rows {
                        let (scope, key) = (text(row, 0)?, text(row, 1)?);
                        let reply = decode(row.try_get(3)?, &key)?;
                        loaded.replies.push(((scope, key), RememberedReply { hash: text(row, 2)?, reply }));
                    }
                }
                Part::Duties => loaded.duties.extend(tenures(rows)?),
            }
        }
        Ok(loaded)
    }
}

fn presence_of(
    agents: &[AgentId],
    rows: &[tokio_postgres::Row],
    board: &PresenceBoard,
) -> Result<Vec<(AgentId, Presence)>, Problem> {
    let mut stored = BTreeMap::new();
    for row in rows {
        stored.insert(AgentId::new(text(row, 0)?), presence(row.try_get(1)?, row.try_get(2)?)?);
    }
    let newest = |agent: &AgentId| Some((agent.clone(), board.newest(agent, stored.get(agent).copied())?));
    Ok(agents.iter().filter_map(newest).collect())
}

fn presence(last_seen: i64, source: &str) -> Result<Presence, Problem> {
    let source = LifeSource::parse(source).ok_or_else(|| Problem::Unreadable(format!("source of life {source}")))?;
    Ok(Presence { last_seen: Timestamp(last_seen), source })
}

/// `name, epoch` of duties. One that this program does not know is a newer program's.
pub(super) fn tenures(rows: &[tokio_postgres::Row]) -> Result<Vec<LeaderEpoch>, Problem> {
    let mut found = Vec::new();
    for row in rows {
        let epoch = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
        found.extend(LeaderRole::parse(row.try_get(0)?).map(|duty| LeaderEpoch { duty, epoch }));
    }
    Ok(found)
}

fn decode(bytes: &[u8], key: &str) -> Result<AnyReply, Problem> {
    serde_json::from_slice(bytes).map_err(|error| Problem::Unreadable(format!("remembered reply to {key}: {error}")))
}

fn encode(reply: &AnyReply, key: &str) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(reply).map_err(|error| Problem::Unreadable(format!("reply to {key}: {error}")))
}

/// What a batch changes, as statements; [`conclude`] is the last.
pub(super) fn write(write: &CommitSet) -> Result<Vec<Question>, Problem> {
    let mut questions = Vec::new();
    if !write.log.is_empty() {
        questions.push(log::append(write.log.iter().map(log::Raw::of).collect()));
    }
    questions.extend(schema::put(write.rows.iter().filter_map(|(key, row)| Some((key, row.as_ref()?)))));
    questions.extend(schema::delete(write.rows.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| key)));
    if !write.replies.is_empty() {
        questions.push(remember(write)?);
    }
    Ok(questions)
}

/// Makes a batch's id the newest of its node.
static NAME_BATCH: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO batches (node, batch, at) VALUES ($1, $2, {NOW})
            ON CONFLICT (node) DO UPDATE SET batch = excluded.batch, at = excluded.at"
    )
});

/// One statement, because each is an exchange of its own for the server.
static CONCLUDE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH named AS ({}),
            counted AS (INSERT INTO tallies (name, n) SELECT * FROM unnest($3::text[], $4::bigint[])
                ON CONFLICT (name) DO UPDATE SET n = greatest(tallies.n + excluded.n, 0)),
            moved AS (UPDATE log_head SET head = $5)
        SELECT pg_notify($6, $1)",
        *NAME_BATCH
    )
});

/// What every batch ends with: its id, the totals, the head, and a word to every node, which hears at the commit whose
/// batch it was.
pub(super) fn conclude(write: &CommitSet, node: &NodeId, batch: String, channel: String) -> Question {
    let (names, changes) = counts(&write.tallies);
    let (node, head) = (node.to_string(), stored_seq(write.head));
    let params: Vec<Param> =
        vec![Box::new(node), Box::new(batch), Box::new(names), Box::new(changes), Box::new(head), Box::new(channel)];
    Question::new(CONCLUDE.as_str(), params)
}

pub(super) fn name_batch(node: &NodeId, batch: &str) -> Question {
    Question::new(NAME_BATCH.as_str(), vec![Box::new(node.to_string()), Box::new(batch.to_owned())])
}

/// Writes something that says nothing.
pub(super) fn touch_batch(node: &NodeId) -> Question {
    Question::new(format!("UPDATE batches SET at = {NOW} WHERE node = $1"), vec![Box::new(node.to_string())])
}

/// Tells every node, this one as well, that there is something new.
pub(super) fn notify(channel: &str) -> Question {
    Question::new("SELECT pg_notify($1, '')", vec![Box::new(channel.to_owned())])
}

/// Totals where there are none.
pub(super) fn count_anew(changes: &BTreeMap<&'static str, i64>) -> Question {
    let (names, changes) = counts(changes);
    let sql = "INSERT INTO tallies (name, n) SELECT * FROM unnest($1::text[], $2::bigint[])";
    Question::new(sql, vec![Box::new(names), Box::new(changes)])
}

fn counts(changes: &BTreeMap<&'static str, i64>) -> (Vec<&'static str>, Vec<i64>) {
    changes.iter().map(|(name, n)| (*name, *n)).unzip()
}

fn remember(write: &CommitSet) -> Result<Question, Problem> {
    let mut replies = Vec::with_capacity(write.replies.len());
    // The same key twice in one batch is one reply: the last.
    let mut newest = BTreeMap::new();
    for (idempotency, reply) in &write.replies {
        newest.insert((idempotency.scope.clone(), idempotency.key.clone()), (idempotency, reply));
    }
    for ((scope, key), (idempotency, reply)) in newest {
        let answer = encode(reply, &key)?;
        let (hash, keep_until) = (idempotency.hash.clone(), idempotency.keep_until);
        replies.push(Reply { scope, key, hash, answer, keep_until });
    }
    Ok(put_replies(&replies))
}

/// Writes replies, each key once.
pub(super) fn put_replies(replies: &[Reply]) -> Question {
    let sql = "INSERT INTO replies (scope, key, hash, answer, keep_until)
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[])
        ON CONFLICT (scope, key) DO UPDATE
        SET hash = excluded.hash, answer = excluded.answer, keep_until = excluded.keep_until";
    let params: Vec<Param> = vec![
        column(replies, |reply| stored(&reply.scope)),
        column(replies, |reply| stored(&reply.key)),
        column(replies, |reply| stored(&reply.hash)),
        column(replies, |reply| reply.answer.clone()),
        column(replies, |reply| reply.keep_until),
    ];
    Question::new(sql, params)
}

/// Remembered replies after one, in the order of scope and key.
pub(super) fn page_of_replies(after: Option<&Reply>, limit: u32) -> Question {
    let sql = "SELECT scope, key, hash, answer, keep_until FROM replies
        WHERE (scope, key) > ($1, $2) ORDER BY scope, key LIMIT $3";
    let (scope, key) = after.map_or((String::new(), String::new()), |reply| (stored(&reply.scope), stored(&reply.key)));
    Question::new(sql, vec![Box::new(scope), Box::new(key), Box::new(i64::from(limit))])
}

/// What [`page_of_replies`] found.
pub(super) fn replies(rows: &[tokio_postgres::Row]) -> Result<Vec<Reply>, Problem> {
    let one = |row: &tokio_postgres::Row| {
        let (scope, key, hash) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        Ok(Reply { scope, key, hash, answer: row.try_get(3)?, keep_until: row.try_get(4)? })
    };
    rows.iter().map(one).collect()
}

/// What is taken out of the log is taken out of remembered replies, too: they show the rows as they are now. Happens in
/// the open transaction, after everything else of the batch is written.
pub(super) async fn blank(client: &ClientWrapper, write: &CommitSet) -> Result<(), Problem> {
    ask(client, Frame::Bare, &[log::blank(&write.blanked)]).await?;
    let mut keys = std::collections::BTreeSet::new();
    for (seq, _) in &write.blanked {
        let query = LogQuery::one(*seq);
        let rows = ask(client, Frame::Bare, &[log::read(&query)]).await?.pop().unwrap_or_default();
        let rows = log::found(&query, &rows)?;
        keys.extend(rows.iter().flat_map(|row| row.event.write_set()));
    }
    for key in keys {
        blank_replies(client, &key).await?;
    }
    Ok(())
}

async fn blank_replies(client: &ClientWrapper, key: &Key) -> Result<(), Problem> {
    let id = serde_json::to_string(&key.id()).unwrap_or_default();
    let needle = id.trim_matches('"').as_bytes().to_vec();
    let sql = "SELECT scope, key, answer FROM replies WHERE position($1::bytea IN answer) > 0";
    let mut questions: Vec<Question> = schema::get([key]).into_iter().map(|(_, question)| question).collect();
    questions.push(Question::new(sql, vec![Box::new(needle)]));
    let mut answers = ask(client, Frame::Bare, &questions).await?;
    let replies = answers.pop().unwrap_or_default();
    let row = schema::found(key.table(), &answers.pop().unwrap_or_default())?.pop().map(|(_, row)| row);
    for reply in &replies {
        let (scope, name) = (text(reply, 0)?, text(reply, 1)?);
        let shows = serde_json::from_slice::<AnyReply>(reply.try_get(2)?).is_ok_and(|reply| reply.shows(key));
        if shows {
            let answer = encode(&AnyReply::of_row(key.clone(), row.clone()), &name)?;
            let sql = "UPDATE replies SET answer = $3 WHERE scope = $1 AND key = $2";
            let params = vec![Box::new(stored(&scope)) as Param, Box::new(stored(&name)), Box::new(answer)];
            ask(client, Frame::Bare, &[Question::new(sql, params)]).await?;
        }
    }
    Ok(())
}

/// A change of operational state, as one statement that returns a row for each row it changed.
pub(super) fn operate(operation: &Operation, node: &NodeId) -> Result<Question, Problem> {
    Ok(match operation {
        Operation::WritePresence(entries) => {
            let agents: Vec<String> = entries.iter().map(|(agent, _)| stored(agent.as_str())).collect();
            let seen: Vec<i64> = entries.iter().map(|(_, presence)| presence.last_seen.0).collect();
            let sources: Vec<&'static str> = entries.iter().map(|(_, presence)| presence.source.as_str()).collect();
            let sql = "INSERT INTO presence (agent, last_seen, source, node)
                SELECT agent, last_seen, source, $4::text
                    FROM unnest($1::text[], $2::bigint[], $3::text[]) AS sign (agent, last_seen, source) ORDER BY agent
                ON CONFLICT (agent) DO UPDATE
                SET last_seen = excluded.last_seen, source = excluded.source, node = excluded.node
                WHERE excluded.last_seen > presence.last_seen RETURNING 1";
            Question::new(sql, vec![Box::new(agents), Box::new(seen), Box::new(sources), Box::new(node.to_string())])
        }
        Operation::PutToken(token) => {
            let doc = serde_json::to_vec(token)
                .map_err(|error| Problem::Unreadable(format!("token {}: {error}", token.id)))?;
            let sql = "INSERT INTO tokens (id, doc) VALUES ($1, $2)
                ON CONFLICT (id) DO UPDATE SET doc = excluded.doc RETURNING 1";
            Question::new(sql, vec![Box::new(stored(&token.id)), Box::new(doc)])
        }
        Operation::RenewToken(token) => {
            let doc = serde_json::to_vec(token)
                .map_err(|error| Problem::Unreadable(format!("token {}: {error}", token.id)))?;
            let sql = "UPDATE tokens SET doc = $2 WHERE id = $1 RETURNING 1";
            Question::new(sql, vec![Box::new(stored(&token.id)), Box::new(doc)])
        }
        Operation::RevokeToken { id } => {
            Question::new("DELETE FROM tokens WHERE id = $1 RETURNING 1", vec![Box::new(stored(id))])
        }
        Operation::PutOutbox(outbox) => {
            let doc = serde_json::to_vec(outbox)
                .map_err(|error| Problem::Unreadable(format!("outbox of {}: {error}", outbox.adapter)))?;
            let version = i64::try_from(outbox.version).unwrap_or(i64::MAX);
            let sql = "INSERT INTO outboxes (adapter, version, doc) VALUES ($1, $2, $3)
                ON CONFLICT (adapter) DO UPDATE SET version = excluded.version, doc = excluded.doc
                WHERE outboxes.version = excluded.version - 1 RETURNING 1";
            Question::new(sql, vec![Box::new(stored(&outbox.adapter)), Box::new(version), Box::new(doc)])
        }
        Operation::ForgetReplies { before } => {
            // What a batch is writing right now is left for the next time. A scope is a run and a sender, and the run has no space
            // in it. The default run, and one that never had a task, has no row.
            let sql = "WITH due AS (
                    SELECT scope, key, (
                        SELECT coalesce(ended, $1::bigint) + $3::bigint FROM runs
                            WHERE runs.key = split_part(replies.scope, ' ', 1)
                    ) AS until
                    FROM replies WHERE keep_until < $1 ORDER BY keep_until LIMIT $2 FOR UPDATE SKIP LOCKED
                ), put_off AS (
                    UPDATE replies SET keep_until = due.until FROM due
                        WHERE replies.scope = due.scope AND replies.key = due.key AND due.until > $1 RETURNING 1
                ), forgotten AS (
                    DELETE FROM replies USING due
                        WHERE replies.scope = due.scope AND replies.key = due.key AND coalesce(due.until, $1) <= $1
                        RETURNING 1
                ) SELECT * FROM put_off UNION ALL SELECT * FROM forgotten";
            let figures: Vec<Param> =
                vec![Box::new(before.0), Box::new(FORGET_AT_ONCE), Box::new(KEEP_AFTER_RUN_MILLIS)];
            Question::new(sql, figures)
        }
    })
}

pub(super) const ALL_PRESENCE: &str = "SELECT agent, last_seen, source, node FROM presence ORDER BY agent";
pub(super) const ALL_TOKENS: &str = "SELECT id, doc FROM tokens ORDER BY n";
pub(super) const ALL_OUTBOXES: &str = "SELECT adapter, doc FROM outboxes ORDER BY adapter";
pub(super) const ALL_TALLIES: &str = "SELECT name, n FROM tallies";

pub(super) fn signs(rows: &[tokio_postgres::Row]) -> Result<Vec<PresenceRecord>, Problem> {
    let sign = |row: &tokio_postgres::Row| {
        Ok(PresenceRecord {
            agent: AgentId::new(text(row, 0)?),
            presence: presence(row.try_get(1)?, row.try_get(2)?)?,
            by: row.try_get::<_, Option<&str>>(3)?.map(NodeId::from),
        })
    };
    rows.iter().map(sign).collect()
}

pub(super) fn tokens(rows: &[tokio_postgres::Row]) -> Result<Vec<Token>, Problem> {
    let token = |row: &tokio_postgres::Row| {
        let id = text(row, 0)?;
        serde_json::from_slice(row.try_get(1)?).map_err(|error| Problem::Unreadable(format!("token {id}: {error}")))
    };
    rows.iter().map(token).collect()
}

pub(super) fn outboxes(rows: &[tokio_postgres::Row]) -> Result<Vec<EndpointCursor>, Problem> {
    let outbox = |row: &tokio_postgres::Row| {
        let adapter = text(row, 0)?;
        let unreadable = |error| Problem::Unreadable(format!("outbox of {adapter}: {error}"));
        serde_json::from_slice(row.try_get(1)?).map_err(unreadable)
    };
    rows.iter().map(outbox).collect()
}

pub(super) fn tallies(rows: &[tokio_postgres::Row]) -> Result<Tallies, Problem> {
    let tally = |row: &tokio_postgres::Row| Ok((text(row, 0)?, u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0)));
    rows.iter().map(tally).collect()
}

/// The rows of keys, in their order.
pub(super) fn in_order(keys: &[Key], found: Vec<(Key, Row)>) -> Vec<Option<Row>> {
    let found: std::collections::HashMap<Key, Row> = found.into_iter().collect();
    keys.iter().map(|key| found.get(key).cloned()).collect()
}
