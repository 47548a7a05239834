//! The checks: invariants that hold under all faults. Each check is a function that reports a violation under its name.

pub(super) mod deliveries;
pub(super) mod envelopes;
pub(super) mod routing;
pub(super) mod teams;

use rookery_core::{
    Actor, AgentId, AnyCommand, AnyReply, Auth, Caller, EventRef, EventStamp, Key, NodeId, Position, Rejection, Row,
    RunId, Seq, Timestamp, apply_row,
};
use std::collections::BTreeMap;

use rookery_core::model::agent::Evidence;
use rookery_core::model::file::FileClaimOutcome;
use rookery_core::model::run::RunStatus;
use rookery_core::model::task::{ReleaseCause, TaskState};
use rookery_core::traits::LogRow;
use rookery_engine::subscribe;
use rookery_store::memory::Database;
use rookery_store::node::LeaderRole;
use rookery_store::replay::Fold;
use rookery_store::{Committed, LogHead};

use super::model::{Model, Redecision, request_of};

/// A violation check, with details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub check: &'static str,
    pub details: String,
}

pub(super) type CheckResult = Result<(), Violation>;

fn violation(check: &'static str, details: impl Into<String>) -> CheckResult {
    Err(Violation { check, details: details.into() })
}

/// A command as its sender knows it.
#[derive(Clone, Debug)]
pub(super) struct SentCommand {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) command: Box<AnyCommand>,
    /// Whether the command has an idempotency key.
    pub(super) keyed: bool,
    /// The head of the log when the command was first sent.
    pub(super) since: Seq,
}

/// The log has every seq once, in order. Runs with each new row, before it is added to the model.
pub(super) fn seq_is_gap_free(model: &Model, row: &LogRow) -> CheckResult {
    if row.seq == model.head().next() {
        return Ok(());
    }
    violation("seq_is_gap_free", format!("{} follows {}", row.seq, model.head()))
}

/// An event of an agent with a credential comes from a caller that proved the id, and did not merely assert it. Runs
/// before the row is added to the model.
pub(super) fn ids_with_credentials_are_proven(model: &Model, row: &LogRow) -> CheckResult {
    let Actor::Agent(id) = &row.actor else { return Ok(()) };
    match model.row(&Key::Agent(id.clone())) {
        Some(Row::Agent(agent)) if agent.has_credential && !matches!(row.auth, Auth::Token | Auth::Session) => {
            violation(
                "ids_with_credentials_are_proven",
                format!("{} of {id} has the authentication {:?}", row.event.kind(), row.auth),
            )
        }
        _ => Ok(()),
    }
}

/// A task changes its holder only by an event that names the previous holder. Runs before the row is added to the model.
pub(super) fn task_claims_change_by_events(model: &Model, row: &LogRow) -> CheckResult {
    for key in row.event.write_set() {
        let Some(Row::Task(old)) = model.row(&key) else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        // A task without a holder may be removed from a plan.
        if new.is_none() && matches!(row.event.typed(), EventRef::TaskRemoved(_)) && old.held_by().is_none() {
            continue;
        }
        let Some(Row::Task(new)) = new else {
            return violation("task_claims_change_by_events", format!("{key:?} vanished by {}", row.event.kind()));
        };
        if old.claim == new.claim {
            continue;
        }
        let named = match row.event.typed() {
            EventRef::TaskClaimed(event) => event.from.as_ref(),
            EventRef::TaskReleased(event) => event.holder.as_ref(),
            EventRef::TaskCompleted(event) => event.holder.as_ref(),
            EventRef::TaskFailed(event) => event.holder.as_ref(),
            EventRef::TaskTimedOut(event) => event.holder.as_ref(),
            EventRef::TaskCancelled(event) => event.holder.as_ref(),
            EventRef::TaskSkipped(event) => event.holder.as_ref(),
            EventRef::TaskReopened(event) => event.holder.as_ref(),
            _ => {
                let kind = row.event.kind();
                return violation("task_claims_change_by_events", format!("{key:?} changed its holder by {kind}"));
            }
        };
        if named != old.holder() {
            let details = format!(
                "{}: {} names the previous holder {named:?}, held by {:?}",
                new.id,
                row.event.kind(),
                old.holder()
            );
            return violation("task_claims_change_by_events", details);
        }
    }
    Ok(())
}

/// A path changes its holder only by an event that names the previous holder. Runs before the row is added to the model.
pub(super) fn file_claims_change_by_events(model: &Model, row: &LogRow) -> CheckResult {
    for key in row.event.write_set() {
        let Some(Row::File(old)) = model.row(&key) else { continue };
        let Some(holder) = old.holder() else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        let Some(Row::File(new)) = new else {
            return violation("file_claims_change_by_events", format!("{key:?} vanished by {}", row.event.kind()));
        };
        if new.holder() == Some(holder) {
            continue;
        }
        let named = match row.event.typed() {
            EventRef::FileClaimed(event) => event.from.as_ref(),
            EventRef::FileReleased(event) => Some(&event.holder),
            EventRef::ClaimForced(event) => Some(&event.loser),
            EventRef::ConflictResolved(event) => Some(&event.holder),
            _ => None,
        };
        if named != Some(holder) {
            let details =
                format!("{}: {} names the previous holder {named:?}, held by {holder}", new.path, row.event.kind());
            return violation("file_claims_change_by_events", details);
        }
    }
    Ok(())
}

/// The state of a delivery only advances, from queued to read to acked, and a delivery never disappears. Runs before the
/// row is added to the model.
pub(super) fn deliveries_only_advance(model: &Model, row: &LogRow) -> CheckResult {
    for key in row.event.write_set() {
        let Some(Row::Delivery(old)) = model.row(&key) else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        match new {
            Some(Row::Delivery(new)) if new.standing >= old.standing => {}
            other => {
                let details = format!("{key:?} went from {:?} to {other:?} by {}", old.standing, row.event.kind());
                return violation("deliveries_only_advance", details);
            }
        }
    }
    Ok(())
}

/// No two agents hold overlapping paths. Runs after the last event of each command, since the events of a command are
/// committed and shown together.
pub(super) fn one_holder_per_path(model: &Model) -> CheckResult {
    let held: Vec<_> = model
        .rows()
        .filter_map(|(_, row)| if let Row::File(file) = row { Some((file, file.holder()?)) } else { None })
        .collect();
    for (one, holder) in &held {
        for (other, rival) in &held {
            if holder != rival && one.path.overlaps(&other.path) {
                let head = model.head();
                let details = format!("at {head}: {holder} holds {}, {rival} holds {}", one.path, other.path);
                return violation("one_holder_per_path", details);
            }
        }
    }
    Ok(())
}

/// A run's counts fit its tasks, and it has ended if and only if none of them is open, unless it was abandoned. Runs after
/// the last event of each command.
pub(super) fn runs_follow_their_tasks(model: &Model) -> CheckResult {
    let mut left: BTreeMap<&RunId, (u32, u32, u32)> = BTreeMap::new();
    for (_, row) in model.rows() {
        if let Row::Task(task) = row {
            let (tasks, unfinished, failed) = left.entry(&task.run).or_default();
            *tasks += 1;
            *unfinished += u32::from(!task.state.is_finished());
            *failed += u32::from(task.state == TaskState::Failed);
        }
    }
    for (_, row) in model.rows() {
        let Row::Run(run) = row else { continue };
        let (tasks, unfinished, failed) = left.get(&run.id).copied().unwrap_or_default();
        let follows = match run.status {
            RunStatus::Abandoned => true,
            RunStatus::Completed => unfinished == 0,
            // A caller may have set this status earlier.
            RunStatus::Failed => tasks == 0 || unfinished > 0,
            _ => tasks == 0 || unfinished > failed,
        };
        if (run.tasks, run.unfinished, run.failed) != (tasks, unfinished, failed) || !follows {
            let details = format!("at {}: {} of {tasks} tasks are left of {run:?}", model.head(), unfinished);
            return violation("runs_follow_their_tasks", details);
        }
    }
    Ok(())
}

/// A change of the lead names the current lead as the previous one. Runs before the row is added to the model.
pub(super) fn lead_changes_by_events(model: &Model, row: &LogRow) -> CheckResult {
    let EventRef::LeadChosen(event) = row.event.typed() else { return Ok(()) };
    let holder = lead(model);
    let was_asked = matches!(model.row(&Key::lead()), Some(Row::Lead(lead)) if lead.asked);
    let changes = event.holder.as_ref() != holder || event.asked != was_asked;
    if event.previous.as_ref() == holder && changes {
        return Ok(());
    }
    let details = format!("at {}: from {:?} to {:?}, held by {holder:?}", row.seq, event.previous, event.holder);
    violation("lead_changes_by_events", details)
}

fn lead(model: &Model) -> Option<&AgentId> {
    match model.row(&Key::lead()) {
        Some(Row::Lead(lead)) => lead.holder.as_ref(),
        _ => None,
    }
}

/// There is a lead if and only if an agent is online, and the lead is online. Runs after the last event of each command.
pub(super) fn lead_is_online(model: &Model) -> CheckResult {
    let live: Vec<&AgentId> = model
        .rows()
        .filter_map(|(_, row)| if let Row::Agent(agent) = row { agent.is_online().then_some(&agent.id) } else { None })
        .collect();
    match lead(model) {
        None if live.is_empty() => Ok(()),
        Some(lead) if live.contains(&lead) => Ok(()),
        lead => violation("lead_is_online", format!("at {}: {lead:?} of {live:?}", model.head())),
    }
}

/// Every holder is online. The sweeper would never free the claims of an offline holder. Runs after the last event of each
/// command.
pub(super) fn holders_are_online(model: &Model) -> CheckResult {
    for (key, row) in model.rows() {
        let holder = match row {
            Row::Task(task) => task.holder(),
            Row::File(file) => file.holder(),
            _ => None,
        };
        let Some(holder) = holder else { continue };
        match model.row(&Key::Agent(holder.clone())) {
            Some(Row::Agent(agent)) if agent.is_online() => {}
            _ => {
                let details = format!("at {}: {key:?} is held by {holder}, which is not online", model.head());
                return violation("holders_are_online", details);
            }
        }
    }
    Ok(())
}

/// Each agent's count of tasks is the number of tasks that it holds.
pub(super) fn holdings_are_counted(model: &Model) -> CheckResult {
    let mut held: BTreeMap<&AgentId, u32> = BTreeMap::new();
    for (_, row) in model.rows() {
        if let Row::Task(task) = row
            && let Some(holder) = task.holder()
        {
            *held.entry(holder).or_default() += 1;
        }
    }
    for (_, row) in model.rows() {
        if let Row::Agent(agent) = row
            && agent.holding != held.get(&agent.id).copied().unwrap_or(0)
        {
            let details = format!("{} counts {}, holds {:?}", agent.id, agent.holding, held.get(&agent.id));
            return violation("holdings_are_counted", details);
        }
    }
    Ok(())
}

/// The world's knowledge about an agent that a node declared offline.
#[derive(Debug)]
pub(super) struct OfflineEvidence {
    /// How long the node had watched without a break as the sweeper, on its monotonic clock.
    pub(super) watched_millis: u64,
    /// How long ago the node itself received a sign of life of the agent.
    pub(super) heard_millis_ago: Option<u64>,
    /// How long ago each other node received one, for nodes that have run without a break since.
    pub(super) heard_elsewhere_millis_ago: Vec<u64>,
    /// How long ago any node wrote one to the database.
    pub(super) written_millis_ago: Option<u64>,
}

/// The longest time for a sign of life to travel from one node to another.
const PRESENCE_TRAVEL_MILLIS: u64 = 15_000;

/// An agent is declared offline only after a full timeout in which a node watched and received no sign of life.
pub(super) fn expiry_needs_full_watch(agent: &AgentId, evidence: &Evidence, known: &OfflineEvidence) -> CheckResult {
    if evidence.source.is_none() {
        return Ok(());
    }
    let limit = evidence.limit_millis;
    let within = |ago: Option<u64>, limit: u64| ago.is_some_and(|ago| ago < limit);
    let is_shared = |ago: &u64| (PRESENCE_TRAVEL_MILLIS..limit).contains(ago);
    if known.watched_millis < limit
        || within(known.heard_millis_ago, limit)
        || known.heard_elsewhere_millis_ago.iter().any(is_shared)
        || within(known.written_millis_ago, limit.saturating_sub(PRESENCE_TRAVEL_MILLIS))
    {
        return violation("expiry_needs_full_watch", format!("{agent} by {evidence:?} with {known:?}"));
    }
    Ok(())
}

/// The work of a leader role is committed only by the node that holds the role at that time, so that one epoch is in force
/// at every seq. Runs with each new row and the node that wrote it.
pub(super) fn leader_work_is_done_by_the_leader(row: &LogRow, writer: &NodeId, database: &Database) -> CheckResult {
    let Some(role) = leader_role_of(row) else { return Ok(()) };
    match database.posts().get(&role) {
        Some(post) if post.node == *writer => Ok(()),
        post => {
            let details = format!("{} {} was written by {writer}, {post:?}", row.seq, row.event.kind());
            violation("leader_work_is_done_by_the_leader", details)
        }
    }
}

/// The leader role whose work appends such an event. Only the daemon's own subscribers act as the system.
fn leader_role_of(row: &LogRow) -> Option<LeaderRole> {
    match row.event.typed() {
        _ if row.actor != Actor::System => None,
        EventRef::AgentWentOffline(_) => Some(LeaderRole::Sweeper),
        EventRef::ConflictEscalated(_)
        | EventRef::TaskTimedOut(_)
        | EventRef::RoutingResumed(_)
        | EventRef::DependentsUnblocked(_) => Some(LeaderRole::Timers),
        EventRef::TaskReleased(event) if event.because == ReleaseCause::NotAccepted => Some(LeaderRole::Timers),
        EventRef::IntentClosed(_) => Some(LeaderRole::Effects),
        EventRef::MessagesAcked(_) | EventRef::DeliveryAbandoned(_) => Some(LeaderRole::Courier),
        EventRef::RoutingDecided(_) | EventRef::RoutingFailed(_) | EventRef::TaskForwarded(_) => {
            Some(LeaderRole::Router)
        }
        _ => None,
    }
}

/// Soon after the faults have stopped, a living node holds each leader role.
pub(super) fn every_leader_role_is_held(database: &Database, now: Timestamp, alive: &[&NodeId]) -> CheckResult {
    let posts = database.posts();
    for role in LeaderRole::ALL {
        match posts.get(&role) {
            Some(post) if post.until > now && alive.contains(&&post.node) => {}
            post => return violation("every_leader_role_is_held", format!("{} at {now:?}: {post:?}", role.name())),
        }
    }
    Ok(())
}

/// An acknowledged reply agrees with the log: decided again at the same seq, the command has the same events and the same
/// reply.
pub(super) fn reply_agrees_with_the_log(model: &Model, sent: &SentCommand, committed: &Committed) -> CheckResult {
    let check = "reply_agrees_with_the_log";
    if committed.at > model.head() {
        return violation(
            check,
            format!("{} has a reply at {}, the log ends at {}", sent.id, committed.at, model.head()),
        );
    }
    if committed.duplicate && was_redacted(model, &committed.reply, committed.at) {
        return Ok(());
    }
    // A rejected file claim did nothing. A retry with the same key may have succeeded later.
    let was_refused = matches!(committed.reply, AnyReply::FileClaim(FileClaimOutcome::Refused { .. }));
    match model.executions(&sent.id).first().filter(|first| !was_refused || **first <= committed.at) {
        Some(first) => {
            let events = model.events_of_command(*first);
            let end = events.last().map_or(*first, |row| row.seq);
            if !committed.duplicate && end != committed.at {
                return violation(
                    check,
                    format!("{} has a reply at {}, its last event is at {end}", sent.id, committed.at),
                );
            }
            check_decision(model, sent, Seq(first.0 - 1), events, &committed.reply)
        }
        None if committed.duplicate => {
            let mut seqs = (sent.since.0..=committed.at.0).rev().map(Seq);
            if seqs.any(|at| check_decision(model, sent, at, &[], &committed.reply).is_ok()) {
                return Ok(());
            }
            violation(check, format!("{} never had the reply {:?}", sent.id, committed.reply))
        }
        None => check_decision(model, sent, committed.at, &[], &committed.reply),
    }
}

/// Whether a remembered reply shows a row as it was after a redaction of an event that changed the row.
fn was_redacted(model: &Model, answer: &AnyReply, at: Seq) -> bool {
    let AnyReply::Row(key, shown) = answer else { return false };
    let touched = |seq: Seq| {
        let row = model.log().get((seq.0 - 1) as usize);
        row.is_some_and(|row| row.event.write_set().contains(key))
    };
    let redactions = model.log().iter().filter_map(|row| match row.event.typed() {
        EventRef::LogRedacted(event) if touched(event.seq) => Some(row.seq),
        _ => None,
    });
    let mut after = redactions.flat_map(|seq| (seq.0..=at.0).map(Seq));
    after.any(|seq| model.row_at(key, seq) == Some(&shown.0))
}

/// Fails unless the command, decided after `before`, has these events and this reply.
fn check_decision(model: &Model, sent: &SentCommand, before: Seq, rows: &[LogRow], answer: &AnyReply) -> CheckResult {
    let check = "reply_agrees_with_the_log";
    let at = rows.first().map_or(Timestamp(0), |row| row.at);
    let decision = match model.decide_at(before, &sent.caller, &sent.command, at) {
        Redecision::Decided(decision) => decision,
        other => {
            return violation(check, format!("{} ({}) after {before}: {other:?}", sent.id, sent.command.name()));
        }
    };
    if !decision.events.iter().eq(rows.iter().map(|row| &row.event)) {
        let details = format!("{} ({:?}) after {before} decides other events than {rows:?}", sent.id, sent.command);
        return violation(check, details);
    }
    // An anonymous caller acts as the holder of the row that it changes.
    let author = match (&sent.caller.actor, rows.first().and_then(|row| row.event.holder())) {
        (Actor::Anonymous, Some(holder)) => Actor::Agent(holder.clone()),
        (actor, _) => actor.clone(),
    };
    if let Some(row) = rows.iter().find(|row| row.actor != author) {
        return violation(check, format!("{} of {} has the author {}", sent.id, sent.caller.actor, row.actor));
    }
    let end = rows.last().map_or(before, |row| row.seq);
    let expected = model.expected_reply(decision.reply, before.next(), end);
    if expected != *answer {
        return violation(check, format!("{} received {answer:?}, the log says {expected:?}", sent.id));
    }
    Ok(())
}

/// A rejection was right at some seq between the request and its answer.
pub(super) fn rejection_is_justified(
    model: &Model,
    sent: &SentCommand,
    asked: Seq,
    rejection: &Rejection,
) -> CheckResult {
    let is_rejected = |at: Seq| {
        let redecision = model.decide_at(at, &sent.caller, &sent.command, Timestamp(0));
        matches!(redecision, Redecision::Rejected(again) if again.code == rejection.code)
    };
    if (asked.0..=model.head().0).rev().map(Seq).any(is_rejected) {
        return Ok(());
    }
    violation("rejection_is_justified", format!("{} ({:?}) was rejected with {rejection:?}", sent.id, sent.command))
}

/// A request whose answer says that nothing was committed left no events.
pub(super) fn failure_left_no_trace(model: &Model, sent: &SentCommand) -> CheckResult {
    if sent.keyed || model.executions(&sent.id).is_empty() {
        return Ok(());
    }
    violation("failure_left_no_trace", format!("{} was executed at {:?}", sent.id, model.executions(&sent.id)))
}

/// A request is executed once. One with a key may arrive repeatedly; others are sent once. Runs before the row is added to
/// the model.
pub(super) fn request_is_applied_once(model: &Model, row: &LogRow) -> CheckResult {
    let Some(request) = request_of(row) else { return Ok(()) };
    match model.executions(&request) {
        [] => Ok(()),
        before => violation("request_is_applied_once", format!("{request} at {before:?} and at {}", row.seq)),
    }
}

/// A repeated idempotency key gets the first reply, except for texts redacted in the meantime. A rejected file claim did
/// nothing, and may succeed later.
pub(super) fn key_has_one_answer(model: &mut Model, sent: &SentCommand, committed: &Committed) -> CheckResult {
    let answer = &committed.reply;
    if !sent.keyed || was_redacted(model, answer, committed.at) {
        return Ok(());
    }
    let done_before = model.executions(&sent.id).first().is_some_and(|first| *first <= committed.at);
    if matches!(answer, AnyReply::FileClaim(FileClaimOutcome::Refused { .. })) && !committed.duplicate && !done_before {
        return Ok(());
    }
    let first = model.answers.entry(sent.id.clone()).or_insert_with(|| answer.clone());
    if first == answer {
        return Ok(());
    }
    violation("key_has_one_answer", format!("{} received {first:?}, then {answer:?}", sent.id))
}

/// The stored rows and tallies equal the fold of the stored log.
pub(super) fn rows_are_the_fold_of_the_log(database: &Database) -> CheckResult {
    let mut fold = Fold::default();
    database.log().iter().for_each(|row| fold.add(row));
    let (rows, tallies) = database.stored();
    let differences = fold.differences(&rows, &tallies);
    if differences.is_empty() {
        return Ok(());
    }
    violation("rows_are_the_fold_of_the_log", differences.join("; "))
}

/// Every event of the log stays as it is, except that a redaction removes its texts.
pub(super) fn events_never_change(model: &Model, database: &Database) -> CheckResult {
    let stored = database.log();
    if stored.len() != model.log().len() {
        return violation("events_never_change", format!("{} rows of {}", stored.len(), model.log().len()));
    }
    let redacted: Vec<Seq> = model
        .log()
        .iter()
        .filter_map(|row| if let EventRef::LogRedacted(event) = row.event.typed() { Some(event.seq) } else { None })
        .collect();
    for (stored, written) in stored.iter().zip(model.log()) {
        let same = if redacted.contains(&stored.seq) {
            same_document(&stored.event.encode(), &written.event.blanked())
        } else {
            stored.event == written.event && stored.body == written.body
        };
        let same_place = stored.seq == written.seq && stored.at == written.at && stored.actor == written.actor;
        if !same || !same_place {
            let details = format!("{} was {:?} and is {:?}", written.seq, written.event, stored.event);
            return violation("events_never_change", details);
        }
    }
    Ok(())
}

fn same_document(one: &[u8], other: &[u8]) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    read(one).is_some() && read(one) == read(other)
}

/// A subscriber receives every row once and in order.
pub(super) fn stream_is_in_order(cursor: Seq, row: &LogRow) -> CheckResult {
    if row.seq == cursor.next() {
        return Ok(());
    }
    violation("stream_is_in_order", format!("{} came after {cursor}", row.seq))
}

/// A position in a log that a restored backup replaced is rejected.
pub(super) fn abandoned_position_is_refused(position: &Position, head: &LogHead) -> CheckResult {
    if subscribe::check(position, head).is_err() {
        return Ok(());
    }
    violation("abandoned_position_is_refused", format!("{position} is accepted as a position in {head:?}"))
}

/// After the faults, no work is open: no intents, and no timers that are due on every node.
pub(super) fn nothing_is_left_open(model: &Model, earliest: Timestamp) -> CheckResult {
    let open = model.rows().find(|(_, row)| match row {
        Row::Intent(_) => true,
        Row::Timer(timer) => timer.due <= earliest,
        Row::Task(task) => task.clocks.due(earliest).is_some(),
        _ => false,
    });
    match open {
        None => Ok(()),
        Some((key, _)) => violation("nothing_is_left_open", format!("{key:?}")),
    }
}

/// After the faults, the agents that still send signs of life are online, and no others, apart from those that left.
pub(super) fn silent_agents_are_offline(model: &Model, speaking: &[AgentId]) -> CheckResult {
    for (_, row) in model.rows() {
        let Row::Agent(agent) = row else { continue };
        if !agent.has_left() && agent.is_online() != speaking.contains(&agent.id) {
            return violation("silent_agents_are_offline", format!("{} is {:?}", agent.id, agent.membership));
        }
    }
    Ok(())
}

/// Whether a row is the last one of its command, given the next row.
pub(super) fn ends_a_command(next: Option<&LogRow>) -> bool {
    next.is_none_or(|next| next.part_index == 0)
}

/// The agent that the daemon declared offline, with its evidence.
pub(super) fn offline_declaration(row: &LogRow) -> Option<(&AgentId, &Evidence)> {
    match row.event.typed() {
        EventRef::AgentWentOffline(event) if row.actor == Actor::System => Some((&event.agent, &event.evidence)),
        _ => None,
    }
}
