//! What must hold, whatever happens. Each check is one function that names what it found.

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

use super::model::{Model, Redone, request_of};

/// A check that failed, and what it saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

pub(super) type Checked = Result<(), Violation>;

fn violated(check: &'static str, what: impl Into<String>) -> Checked {
    Err(Violation { check, what: what.into() })
}

/// A request as its sender knows it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) command: Box<AnyCommand>,
    pub(super) keyed: bool,
    /// The head of the log when it was first sent.
    pub(super) since: Seq,
}

/// The log has every seq once, in order. Told with each new row, before it is taken in.
pub(super) fn seq_is_gap_free(model: &Model, row: &LogRow) -> Checked {
    if row.seq == model.head().next() {
        return Ok(());
    }
    violated("seq_is_gap_free", format!("{} follows {}", row.seq, model.head()))
}

/// What stands as an agent's doing was done by whoever is known as that agent: an id that is bound to a credential is
/// not merely asserted. Told before the row is taken in.
pub(super) fn sealed_ids_are_proven(model: &Model, row: &LogRow) -> Checked {
    let Actor::Agent(id) = &row.actor else { return Ok(()) };
    match model.row(&Key::Agent(id.clone())) {
        Some(Row::Agent(agent)) if agent.has_credential && !matches!(row.auth, Auth::Token | Auth::Session) => {
            violated("sealed_ids_are_proven", format!("{} of {id} is known by {:?}", row.event.kind(), row.auth))
        }
        _ => Ok(()),
    }
}

/// A task changes hands only by a fact that says so, and says from whom. Told before the row is taken in.
pub(super) fn task_claims_end_by_facts(model: &Model, row: &LogRow) -> Checked {
    for key in row.event.write_set(row.seq) {
        let Some(Row::Task(old)) = model.row(&key) else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        // What nobody holds may be taken out of a plan.
        if new.is_none() && matches!(row.event.typed(), EventRef::TaskRemoved(_)) && old.held_by().is_none() {
            continue;
        }
        let Some(Row::Task(new)) = new else {
            return violated("task_claims_end_by_facts", format!("{key:?} vanished by {}", row.event.kind()));
        };
        if old.claim == new.claim {
            continue;
        }
        let said = match row.event.typed() {
            EventRef::TaskClaimed(fact) => fact.from.as_ref(),
            EventRef::TaskReleased(fact) => fact.holder.as_ref(),
            EventRef::TaskCompleted(fact) => fact.holder.as_ref(),
            EventRef::TaskFailed(fact) => fact.holder.as_ref(),
            EventRef::TaskTimedOut(fact) => fact.holder.as_ref(),
            EventRef::TaskCancelled(fact) => fact.holder.as_ref(),
            EventRef::TaskSkipped(fact) => fact.holder.as_ref(),
            EventRef::TaskReopened(fact) => fact.holder.as_ref(),
            _ => {
                let kind = row.event.kind();
                return violated("task_claims_end_by_facts", format!("{key:?} changed hands by {kind}"));
            }
        };
        if said != old.holder() {
            let what = format!("{}: {} took it from {said:?}, held by {:?}", new.id, row.event.kind(), old.holder());
            return violated("task_claims_end_by_facts", what);
        }
    }
    Ok(())
}

/// A path changes hands only by a fact that says so. Told before the row is taken in.
pub(super) fn file_claims_end_by_facts(model: &Model, row: &LogRow) -> Checked {
    for key in row.event.write_set(row.seq) {
        let Some(Row::File(old)) = model.row(&key) else { continue };
        let Some(holder) = old.holder() else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        let Some(Row::File(new)) = new else {
            return violated("file_claims_end_by_facts", format!("{key:?} vanished by {}", row.event.kind()));
        };
        if new.holder() == Some(holder) {
            continue;
        }
        let said = match row.event.typed() {
            EventRef::FileClaimed(fact) => fact.from.as_ref(),
            EventRef::FileReleased(fact) => Some(&fact.holder),
            EventRef::ClaimForced(fact) => Some(&fact.loser),
            EventRef::ConflictResolved(fact) => Some(&fact.holder),
            _ => None,
        };
        if said != Some(holder) {
            let what = format!("{}: {} took it from {said:?}, held by {holder}", new.path, row.event.kind());
            return violated("file_claims_end_by_facts", what);
        }
    }
    Ok(())
}

/// Where an agent stands with a message only goes on, from queued to read to acked, and is never gone. Told before the
/// row is taken in.
pub(super) fn deliveries_only_go_on(model: &Model, row: &LogRow) -> Checked {
    for key in row.event.write_set(row.seq) {
        let Some(Row::Delivery(old)) = model.row(&key) else { continue };
        let new = apply_row(model.row(&key).cloned(), &key, &row.event, EventStamp { seq: row.seq, at: row.at });
        match new {
            Some(Row::Delivery(new)) if new.standing >= old.standing => {}
            other => {
                let what = format!("{key:?} went from {:?} to {other:?} by {}", old.standing, row.event.kind());
                return violated("deliveries_only_go_on", what);
            }
        }
    }
    Ok(())
}

/// No two agents hold the same path, or one above or below the other's. Told after each command's last fact: those
/// of one command are committed, and shown, together.
pub(super) fn one_holder_per_path(model: &Model) -> Checked {
    let held: Vec<_> = model
        .rows()
        .filter_map(|(_, row)| if let Row::File(file) = row { Some((file, file.holder()?)) } else { None })
        .collect();
    for (one, holder) in &held {
        for (other, rival) in &held {
            if holder != rival && one.path.overlaps(&other.path) {
                let head = model.head();
                let what = format!("at {head}: {holder} holds {}, {rival} holds {}", one.path, other.path);
                return violated("one_holder_per_path", what);
            }
        }
    }
    Ok(())
}

/// A run counts its tasks rightly, and has ended if and only if none of them is open, unless it was given up.
/// Told after each command's last fact.
pub(super) fn runs_follow_their_tasks(model: &Model) -> Checked {
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
            // Somebody may have called it that before.
            RunStatus::Failed => tasks == 0 || unfinished > 0,
            _ => tasks == 0 || unfinished > failed,
        };
        if (run.tasks, run.unfinished, run.failed) != (tasks, unfinished, failed) || !follows {
            let what = format!("at {}: {} of {tasks} tasks are left of {run:?}", model.head(), unfinished);
            return violated("runs_follow_their_tasks", what);
        }
    }
    Ok(())
}

/// A change of lead starts from the one who holds the position. Told before the row is taken in.
pub(super) fn lead_changes_by_facts(model: &Model, row: &LogRow) -> Checked {
    let EventRef::LeadChosen(fact) = row.event.typed() else { return Ok(()) };
    let holder = lead(model);
    let asked = matches!(model.row(&Key::lead()), Some(Row::Lead(lead)) if lead.asked);
    let changes = fact.holder.as_ref() != holder || fact.asked != asked;
    if fact.previous.as_ref() == holder && changes {
        return Ok(());
    }
    let what = format!("at {}: from {:?} to {:?}, held by {holder:?}", row.seq, fact.previous, fact.holder);
    violated("lead_changes_by_facts", what)
}

fn lead(model: &Model) -> Option<&AgentId> {
    match model.row(&Key::lead()) {
        Some(Row::Lead(lead)) => lead.holder.as_ref(),
        _ => None,
    }
}

/// Somebody leads exactly if somebody is here, and it is one of those. Told after each command's last fact.
pub(super) fn lead_is_one_of_the_live(model: &Model) -> Checked {
    let live: Vec<&AgentId> = model
        .rows()
        .filter_map(|(_, row)| if let Row::Agent(agent) = row { agent.is_online().then_some(&agent.id) } else { None })
        .collect();
    match lead(model) {
        None if live.is_empty() => Ok(()),
        Some(lead) if live.contains(&lead) => Ok(()),
        lead => violated("lead_is_one_of_the_live", format!("at {}: {lead:?} of {live:?}", model.head())),
    }
}

/// Who holds something is here to be missed: else nothing would ever free it. Told after each command's last fact.
pub(super) fn holders_are_here(model: &Model) -> Checked {
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
                let what = format!("at {}: {key:?} is held by {holder}, who is not here", model.head());
                return violated("holders_are_here", what);
            }
        }
    }
    Ok(())
}

/// Each agent's count of tasks is the number of tasks that it holds.
pub(super) fn holdings_are_counted(model: &Model) -> Checked {
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
            let what = format!("{} counts {}, holds {:?}", agent.id, agent.holding, held.get(&agent.id));
            return violated("holdings_are_counted", what);
        }
    }
    Ok(())
}

/// What the world knows about the node that declared an agent offline.
#[derive(Debug)]
pub(super) struct OfflineEvidence {
    /// How long the node had been watching without a break when it looked, on its monotonic clock: it was there, able to,
    /// and had the duty.
    pub(super) clear_millis: u64,
    /// How long ago the node itself took a sign of life of the agent.
    pub(super) taken_millis_ago: Option<u64>,
    /// How long ago each other node did that has been there without a break since.
    pub(super) taken_elsewhere_millis_ago: Vec<u64>,
    /// How long ago any node wrote one down.
    pub(super) written_millis_ago: Option<u64>,
}

/// How long a sign of life may be on its way from one node to another.
const ON_ITS_WAY_MILLIS: u64 = 15_000;

/// Nobody is declared offline but after a full period of clear sight without a sign of life.
pub(super) fn expired_after_clear_sight(agent: &AgentId, evidence: &Evidence, sight: &OfflineEvidence) -> Checked {
    if evidence.source.is_none() {
        return Ok(());
    }
    let limit = evidence.limit_millis;
    let within = |ago: Option<u64>, limit: u64| ago.is_some_and(|ago| ago < limit);
    let told = |ago: &u64| (ON_ITS_WAY_MILLIS..limit).contains(ago);
    if sight.clear_millis < limit
        || within(sight.taken_millis_ago, limit)
        || sight.taken_elsewhere_millis_ago.iter().any(told)
        || within(sight.written_millis_ago, limit.saturating_sub(ON_ITS_WAY_MILLIS))
    {
        return violated("expired_after_clear_sight", format!("{agent} by {evidence:?} with {sight:?}"));
    }
    Ok(())
}

/// What is done out of a duty is done by the node that has it when it is committed: at every seq one epoch is in force.
/// Told with each new row, by the node that wrote it.
pub(super) fn duties_are_done_by_whoever_has_them(row: &LogRow, writer: &NodeId, database: &Database) -> Checked {
    let Some(duty) = out_of_duty(row) else { return Ok(()) };
    match database.posts().get(&duty) {
        Some(post) if post.node == *writer => Ok(()),
        post => {
            let what = format!("{} {} was written by {writer}, {post:?}", row.seq, row.event.kind());
            violated("duties_are_done_by_whoever_has_them", what)
        }
    }
}

/// The duty that leads to such a fact; only our own subscribers act as the system.
fn out_of_duty(row: &LogRow) -> Option<LeaderRole> {
    match row.event.typed() {
        _ if row.actor != Actor::System => None,
        EventRef::AgentWentOffline(_) => Some(LeaderRole::Sweeper),
        EventRef::ConflictEscalated(_)
        | EventRef::TaskTimedOut(_)
        | EventRef::RoutingResumed(_)
        | EventRef::DependentsUnblocked(_) => Some(LeaderRole::Timers),
        EventRef::TaskReleased(fact) if fact.because == ReleaseCause::NotAccepted => Some(LeaderRole::Timers),
        EventRef::IntentClosed(_) => Some(LeaderRole::Effects),
        EventRef::MessagesAcked(_) | EventRef::DeliveryAbandoned(_) => Some(LeaderRole::Courier),
        EventRef::RoutingDecided(_) | EventRef::RoutingFailed(_) | EventRef::TaskForwarded(_) => {
            Some(LeaderRole::Router)
        }
        _ => None,
    }
}

/// Some time after the faults have stopped, each duty is kept by a node that lives.
pub(super) fn every_duty_is_kept(database: &Database, now: Timestamp, alive: &[&NodeId]) -> Checked {
    let posts = database.posts();
    for duty in LeaderRole::ALL {
        match posts.get(&duty) {
            Some(post) if post.until > now && alive.contains(&&post.node) => {}
            post => return violated("every_duty_is_kept", format!("{} at {now:?}: {post:?}", duty.name())),
        }
    }
    Ok(())
}

/// What was acknowledged is what the log says at that place: the command, decided again there, has the same facts and
/// the same answer.
pub(super) fn reply_agrees_with_the_log(model: &Model, sent: &Sent, committed: &Committed) -> Checked {
    let check = "reply_agrees_with_the_log";
    if committed.at > model.head() {
        return violated(check, format!("{} was told {}, the log ends at {}", sent.id, committed.at, model.head()));
    }
    if committed.duplicate && was_redacted(model, &committed.reply, committed.at) {
        return Ok(());
    }
    // A refused claim did nothing; the same key may have been granted it after that.
    let refused = matches!(committed.reply, AnyReply::FileClaim(FileClaimOutcome::Refused { .. }));
    match model.carried_out(&sent.id).first().filter(|first| !refused || **first <= committed.at) {
        Some(first) => {
            let facts = model.decided_from(*first);
            let end = facts.last().map_or(*first, |row| row.seq);
            if !committed.duplicate && end != committed.at {
                return violated(check, format!("{} was told {}, it ended at {end}", sent.id, committed.at));
            }
            was_decided(model, sent, Seq(first.0 - 1), facts, &committed.reply)
        }
        None if committed.duplicate => {
            let mut places = (sent.since.0..=committed.at.0).rev().map(Seq);
            if places.any(|at| was_decided(model, sent, at, &[], &committed.reply).is_ok()) {
                return Ok(());
            }
            violated(check, format!("{} never had the answer {:?}", sent.id, committed.reply))
        }
        None => was_decided(model, sent, committed.at, &[], &committed.reply),
    }
}

/// A remembered answer whose row was touched by a redacted fact shows the row as it was after the redaction.
fn was_redacted(model: &Model, answer: &AnyReply, at: Seq) -> bool {
    let AnyReply::Row(key, shown) = answer else { return false };
    let touched = |seq: Seq| {
        let row = model.log().get((seq.0 - 1) as usize);
        row.is_some_and(|row| row.event.write_set(row.seq).contains(key))
    };
    let redactions = model.log().iter().filter_map(|row| match row.event.typed() {
        EventRef::LogRedacted(fact) if touched(fact.seq) => Some(row.seq),
        _ => None,
    });
    let mut after = redactions.flat_map(|seq| (seq.0..=at.0).map(Seq));
    after.any(|seq| model.row_at(key, seq) == Some(&shown.0))
}

fn was_decided(model: &Model, sent: &Sent, before: Seq, rows: &[LogRow], answer: &AnyReply) -> Checked {
    let check = "reply_agrees_with_the_log";
    let at = rows.first().map_or(Timestamp(0), |row| row.at);
    let decision = match model.decide_at(before, &sent.caller, &sent.command, at) {
        Redone::Decided(decision) => decision,
        other => {
            return violated(check, format!("{} ({}) after {before}: {other:?}", sent.id, sent.command.name()));
        }
    };
    if !decision.events.iter().eq(rows.iter().map(|row| &row.event)) {
        let what = format!("{} ({:?}) after {before} decides other facts than {rows:?}", sent.id, sent.command);
        return violated(check, what);
    }
    // A caller without a name acts as the holder of what it changes.
    let author = match (&sent.caller.actor, rows.first().and_then(|row| row.event.holder())) {
        (Actor::Anonymous, Some(holder)) => Actor::Agent(holder.clone()),
        (actor, _) => actor.clone(),
    };
    if let Some(row) = rows.iter().find(|row| row.actor != author) {
        return violated(check, format!("{} of {} stands as by {}", sent.id, sent.caller.actor, row.actor));
    }
    let end = rows.last().map_or(before, |row| row.seq);
    let expected = model.reply(decision.reply, before.next(), end);
    if expected != *answer {
        return violated(check, format!("{} was told {answer:?}, the log says {expected:?}", sent.id));
    }
    Ok(())
}

/// A refusal was right at some place of the log between asking and being told.
pub(super) fn refusal_is_justified(model: &Model, sent: &Sent, asked: Seq, refusal: &Rejection) -> Checked {
    let refused = |at: Seq| {
        let redone = model.decide_at(at, &sent.caller, &sent.command, Timestamp(0));
        matches!(redone, Redone::Refused(again) if again.code == refusal.code)
    };
    if (asked.0..=model.head().0).rev().map(Seq).any(refused) {
        return Ok(());
    }
    violated("refusal_is_justified", format!("{} ({:?}) was told {refusal:?}", sent.id, sent.command))
}

/// Who is told that nothing was done finds nothing done.
pub(super) fn failure_left_no_trace(model: &Model, sent: &Sent) -> Checked {
    if sent.keyed || model.carried_out(&sent.id).is_empty() {
        return Ok(());
    }
    violated("failure_left_no_trace", format!("{} was carried out at {:?}", sent.id, model.carried_out(&sent.id)))
}

/// A request is carried out once: those with a key however often they come, the others because they are sent once.
/// Told before the row is taken in.
pub(super) fn request_is_applied_once(model: &Model, row: &LogRow) -> Checked {
    let Some(request) = request_of(row) else { return Ok(()) };
    match model.carried_out(&request) {
        [] => Ok(()),
        before => violated("request_is_applied_once", format!("{request} at {before:?} and at {}", row.seq)),
    }
}

/// Whoever sends a key again is told what was told before, but for what was redacted meanwhile. A claim that was refused
/// did nothing, and may be granted later.
pub(super) fn key_has_one_answer(model: &mut Model, sent: &Sent, committed: &Committed) -> Checked {
    let answer = &committed.reply;
    if !sent.keyed || was_redacted(model, answer, committed.at) {
        return Ok(());
    }
    let done_before = model.carried_out(&sent.id).first().is_some_and(|first| *first <= committed.at);
    if matches!(answer, AnyReply::FileClaim(FileClaimOutcome::Refused { .. })) && !committed.duplicate && !done_before {
        return Ok(());
    }
    let first = model.answers.entry(sent.id.clone()).or_insert_with(|| answer.clone());
    if first == answer {
        return Ok(());
    }
    violated("key_has_one_answer", format!("{} was told {first:?}, then {answer:?}", sent.id))
}

/// Rows and tallies as stored are the fold of the log as stored.
pub(super) fn rows_are_the_fold_of_the_log(database: &Database) -> Checked {
    let mut fold = Fold::default();
    database.log().iter().for_each(|row| fold.add(row));
    let (rows, tallies) = database.stored();
    let differences = fold.differences(&rows, &tallies);
    if differences.is_empty() {
        return Ok(());
    }
    violated("rows_are_the_fold_of_the_log", differences.join("; "))
}

/// Every fact that ever stood in the log still does; a redaction takes its texts and nothing else.
pub(super) fn facts_never_change(model: &Model, database: &Database) -> Checked {
    let stored = database.log();
    if stored.len() != model.log().len() {
        return violated("facts_never_change", format!("{} rows of {}", stored.len(), model.log().len()));
    }
    let redacted: Vec<Seq> = model
        .log()
        .iter()
        .filter_map(|row| if let EventRef::LogRedacted(fact) = row.event.typed() { Some(fact.seq) } else { None })
        .collect();
    for (stored, written) in stored.iter().zip(model.log()) {
        let same = if redacted.contains(&stored.seq) {
            same_document(&stored.event.encode(), &written.event.blanked())
        } else {
            stored.event == written.event && stored.body == written.body
        };
        let placed = stored.seq == written.seq && stored.at == written.at && stored.actor == written.actor;
        if !same || !placed {
            let what = format!("{} was {:?} and is {:?}", written.seq, written.event, stored.event);
            return violated("facts_never_change", what);
        }
    }
    Ok(())
}

fn same_document(one: &[u8], other: &[u8]) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    read(one).is_some() && read(one) == read(other)
}

/// A subscriber is handed every row once and in order.
pub(super) fn stream_is_in_order(cursor: Seq, row: &LogRow) -> Checked {
    if row.seq == cursor.next() {
        return Ok(());
    }
    violated("stream_is_in_order", format!("{} came after {cursor}", row.seq))
}

/// A reader of a history that a restored backup replaced cannot go on as if nothing had happened.
pub(super) fn abandoned_position_is_refused(position: &Position, head: &LogHead) -> Checked {
    if subscribe::check(position, head).is_err() {
        return Ok(());
    }
    violated("abandoned_position_is_refused", format!("{position} is taken for a place in {head:?}"))
}

/// At rest nothing is left to be done: no intents, no timers that are due everywhere.
pub(super) fn nothing_is_left_open(model: &Model, earliest: Timestamp) -> Checked {
    let open = model.rows().find(|(_, row)| match row {
        Row::Intent(_) => true,
        Row::Timer(timer) => timer.due <= earliest,
        Row::Task(task) => task.clocks.due(earliest).is_some(),
        _ => false,
    });
    match open {
        None => Ok(()),
        Some((key, _)) => violated("nothing_is_left_open", format!("{key:?}")),
    }
}

/// At rest exactly those agents are here that still show signs of life, and did not leave on purpose.
pub(super) fn the_silent_are_offline(model: &Model, speaking: &[AgentId]) -> Checked {
    for (_, row) in model.rows() {
        let Row::Agent(agent) = row else { continue };
        if !agent.has_left() && agent.is_online() != speaking.contains(&agent.id) {
            return violated("the_silent_are_offline", format!("{} is {:?}", agent.id, agent.membership));
        }
    }
    Ok(())
}

/// Whether a row is the last of what one command decided, given what follows it.
pub(super) fn ends_a_command(next: Option<&LogRow>) -> bool {
    next.is_none_or(|next| next.part_index == 0)
}

/// A declaration by us, with its evidence.
pub(super) fn declaration(row: &LogRow) -> Option<(&AgentId, &Evidence)> {
    match row.event.typed() {
        EventRef::AgentWentOffline(fact) if row.actor == Actor::System => Some((&fact.agent, &fact.evidence)),
        _ => None,
    }
}
