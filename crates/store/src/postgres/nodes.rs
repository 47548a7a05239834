//! Nodes and their duties, on the database's clock.

use rookery_core::{NodeId, SiteId, Timestamp};

use super::connection::{Frame, LOCKED_HEAD, NOW, Param, Question, text, timestamp};
use super::error::Problem;
use super::reader::Reader;
use crate::clock::Clock;
use crate::node::{LEASE, LeaderEpoch, LeaderRole, LeaseRenewal, Node, NodeLiveness, REMEMBER_AWAY, Seen, Site};

/// How long the last batch of a node that is gone is remembered.
const REMEMBER_BATCH_MILLIS: i64 = 24 * 3600 * 1000;

fn lease() -> i64 {
    i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX)
}

/// What a node is fit for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fit {
    ForDuties,
    /// It cannot write, so that a duty in its hands would be done by nobody.
    OnlyToRead,
}

/// Says that the node lives, and takes up what nobody keeps, if it is fit for that.
pub(super) async fn attend(reader: &Reader, node: &Node, fit: Fit, clock: &dyn Clock) -> Result<LeaseRenewal, Problem> {
    let asked = clock.now();
    let mut answers = reader.ask(Frame::Whole, &attending(node, fit)).await?;
    let told = clock.now();
    let now = timestamp(&answers.pop().unwrap_or_default())?;
    let mut posts = posts(&answers.pop().unwrap_or_default())?;
    let nodes = answers.pop().unwrap_or_default();
    let free = LeaderRole::ALL.into_iter().any(|duty| !posts.iter().any(|post| post.duty == duty && post.until > now));
    if free && fit == Fit::ForDuties {
        posts = take_up(reader, &node.id).await?;
    }
    let tenures = posts.iter().filter(|post| post.node == node.id && post.until > now);
    let tenures = tenures.map(|post| LeaderEpoch { duty: post.duty, epoch: post.epoch }).collect();
    let nodes = nodes.iter().map(|row| seen(row, &posts, now)).collect::<Result<_, _>>()?;
    Ok(LeaseRenewal { tenures, nodes, clock_ahead_millis: (asked.0 + told.0) / 2 - now.0 })
}

/// Keeps the node's place, and its duties or leaves them to others; clears away those it replaces and those long gone;
/// asks for all.
fn attending(node: &Node, fit: Fit) -> Vec<Question> {
    let id = || Box::new(node.id.to_string()) as Param;
    let site = || Box::new(node.site.id.to_string()) as Param;
    let lease = lease();
    let forget = i64::try_from(REMEMBER_AWAY.as_millis()).unwrap_or(i64::MAX);
    let keep = format!(
        "INSERT INTO nodes (id, host, pid, url, version, site, root, started_at, seen_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, {NOW})
            ON CONFLICT (id) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at"
    );
    // A site has one node: whoever had it before us is over, and so are its duties.
    let replace = "WITH gone AS (DELETE FROM nodes WHERE site = $1 AND id <> $2 RETURNING id)
        UPDATE duties SET until = 0 FROM gone WHERE duties.node = gone.id";
    let forget_nodes = format!("DELETE FROM nodes WHERE seen_at < {NOW} - {forget}");
    let forget_batches = format!(
        "DELETE FROM batches WHERE at < {NOW} - {REMEMBER_BATCH_MILLIS} AND node NOT IN (SELECT id FROM nodes)"
    );
    let forget_holds = format!("DELETE FROM artifact_holds WHERE until < {NOW}");
    let renew = match fit {
        Fit::ForDuties => format!("UPDATE duties SET until = {NOW} + {lease} WHERE node = $1"),
        Fit::OnlyToRead => LEAVE_DUTIES.to_owned(),
    };
    vec![
        Question::new(
            keep,
            vec![
                id(),
                Box::new(node.host.clone()),
                Box::new(i64::from(node.pid)),
                Box::new(node.url.clone()),
                Box::new(node.version.clone()),
                site(),
                Box::new(node.site.root.clone()),
                Box::new(node.started_at.0),
            ],
        ),
        Question::new(replace, vec![site(), id()]),
        Question::new(forget_nodes, vec![]),
        Question::new(forget_batches, vec![]),
        Question::new(forget_holds, vec![]),
        Question::new(renew, vec![id()]),
        Question::new(ALL_NODES, vec![]),
        Question::new(ALL_DUTIES, vec![]),
        Question::new(format!("SELECT {NOW}"), vec![]),
    ]
}

const ALL_NODES: &str =
    "SELECT id, host, pid, url, version, site, root, started_at, seen_at FROM nodes ORDER BY started_at, id";
const LEAVE_DUTIES: &str = "UPDATE duties SET until = 0 WHERE node = $1";
const ALL_DUTIES: &str = "SELECT name, node, epoch, until FROM duties";

/// Takes up the duties that nobody keeps, while no batch is under way: a command of the old epoch is before the change or
/// is refused.
async fn take_up(reader: &Reader, node: &NodeId) -> Result<Vec<Post>, Problem> {
    let names: Vec<&'static str> = LeaderRole::ALL.iter().map(|duty| duty.name()).collect();
    let take = format!(
        "INSERT INTO duties (name, node, epoch, until) SELECT name, $2, 1, {NOW} + {lease} FROM unnest($1::text[]) AS name
            ON CONFLICT (name) DO UPDATE SET node = excluded.node, epoch = duties.epoch + 1, until = excluded.until
            WHERE duties.until <= {NOW}",
        lease = lease()
    );
    let questions = [
        Question::new(LOCKED_HEAD, vec![]),
        Question::new(take, vec![Box::new(names), Box::new(node.to_string())]),
        Question::new(ALL_DUTIES, vec![]),
    ];
    posts(&reader.ask(Frame::Whole, &questions).await?.pop().unwrap_or_default())
}

/// Gives up the node's place and duties.
pub(super) async fn depart(reader: &Reader, node: &NodeId) -> Result<(), Problem> {
    let id = || vec![Box::new(node.to_string()) as Param];
    let questions = [Question::new("DELETE FROM nodes WHERE id = $1", id()), Question::new(LEAVE_DUTIES, id())];
    reader.ask(Frame::Whole, &questions).await.map(drop)
}

struct Post {
    duty: LeaderRole,
    node: NodeId,
    epoch: u64,
    until: Timestamp,
}

fn posts(rows: &[tokio_postgres::Row]) -> Result<Vec<Post>, Problem> {
    let mut found = Vec::new();
    for row in rows {
        // One that this program does not know is a newer program's.
        let Some(duty) = LeaderRole::parse(row.try_get(0)?) else { continue };
        found.push(Post {
            duty,
            node: NodeId::new(text(row, 1)?),
            epoch: u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0),
            until: Timestamp(row.try_get(3)?),
        });
    }
    Ok(found)
}

fn seen(row: &tokio_postgres::Row, posts: &[Post], now: Timestamp) -> Result<Seen, Problem> {
    let id = NodeId::new(text(row, 0)?);
    let last_seen = Timestamp(row.try_get(8)?);
    let duties = posts.iter().filter(|post| post.node == id && post.until > now).map(|post| post.duty).collect();
    Ok(Seen {
        node: Node {
            id,
            host: text(row, 1)?,
            pid: u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0),
            url: row.try_get(3)?,
            version: text(row, 4)?,
            site: Site { id: SiteId::new(text(row, 5)?), root: text(row, 6)? },
            started_at: Timestamp(row.try_get(7)?),
        },
        last_seen,
        liveness: if now.0 - last_seen.0 <= lease() { NodeLiveness::Online } else { NodeLiveness::Offline },
        leader_roles: duties,
    })
}
