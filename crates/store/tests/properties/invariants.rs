//! Invariants that hold after every batch, stated independently of the rules.

use rookery_core::model::{DependencyId, run};
use rookery_core::{AgentId, AnyEvent, EventRef, EventStamp, Key, Row, Seq, TaskId, TimerId, apply_row};
use std::collections::{BTreeMap, BTreeSet};

use rookery_core::model::agent::Agent;
use rookery_core::model::file::File;
use rookery_core::model::task::{AlarmKind, Task, TaskState};
use rookery_core::model::timer::conflict_timer_id;
use rookery_core::traits::LogRow;
use rookery_store::replay::Fold;

use crate::team::Team;

pub(crate) fn check(team: &Team) {
    let (log, rows) = (team.log(), team.rows());
    check_log_is_complete(team, &log);
    check_rows_are_the_fold(team, &log);
    let agents: BTreeMap<&AgentId, &Agent> = rows
        .values()
        .filter_map(|row| if let Row::Agent(agent) = row { Some((&agent.id, agent)) } else { None })
        .collect();
    let tasks: BTreeMap<&TaskId, &Task> =
        rows.values().filter_map(|row| if let Row::Task(task) = row { Some((&task.id, task)) } else { None }).collect();
    let files: Vec<&File> =
        rows.values().filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).collect();
    check_single_holders(&files);
    check_holders_are_online(&agents, &tasks, &files);
    check_agents_match_their_tasks(&agents, &tasks);
    check_tasks_wait_for_unfinished_dependencies(&tasks);
    check_dependencies_are_acyclic(&rows, &tasks);
    check_runs_follow_their_tasks(&rows, &tasks);
    check_checkpoint_counts(&rows, &tasks);
    check_conflict_timers(&log, &rows, &files);
    check_alarms_have_a_purpose(&tasks);
    check_attempts_end_once(&log);
    check_single_lead(&agents, &rows);
    check_holder_changes_follow_events(&log);
    crate::mail::check(&log, &rows);
    crate::teams::check(&log, &rows);
    crate::workspaces::check(&rows);
}

fn check_log_is_complete(team: &Team, log: &[LogRow]) {
    for (at, row) in log.iter().enumerate() {
        assert_eq!(row.seq, Seq(at as u64 + 1));
        assert!(row.cause.is_none_or(|cause| cause < row.seq));
        assert!(row.part_index == 0 || row.cause == Some(row.first()), "{row:?}");
    }
    assert_eq!(team.head(), Seq(log.len() as u64));
}

fn check_rows_are_the_fold(team: &Team, log: &[LogRow]) {
    let mut fold = Fold::default();
    log.iter().for_each(|row| fold.add(row));
    let (rows, tallies) = team.database.stored();
    assert_eq!(fold.differences(&rows, &tallies), Vec::<String>::new());
}

/// The folders and name of a path. A path covers all paths that begin with its parts.
fn parts(file: &File) -> Vec<&str> {
    file.path.key().split('/').filter(|part| !part.is_empty()).collect()
}

fn check_single_holders(files: &[&File]) {
    for (at, one) in files.iter().enumerate() {
        for other in &files[at + 1..] {
            let (short, long) = (parts(one), parts(other));
            let overlap = short.starts_with(&long) || long.starts_with(&short);
            if overlap && one.holder().is_some() && other.holder().is_some() {
                assert_eq!(one.holder(), other.holder(), "{} and {}", one.path, other.path);
            }
        }
    }
}

fn check_holders_are_online(agents: &BTreeMap<&AgentId, &Agent>, tasks: &BTreeMap<&TaskId, &Task>, files: &[&File]) {
    let live = |id: &AgentId| agents.get(id).is_some_and(|agent| agent.is_online());
    for task in tasks.values() {
        assert!(task.holder().is_none_or(live), "{task:?}");
        assert!(task.holder().is_none() || task.reserved_for.is_none(), "{task:?}");
        assert!(task.held_by().is_none() || task.state.is_open(), "{task:?}");
    }
    for file in files {
        assert!(file.holder().is_none_or(live), "{file:?}");
    }
}

fn check_agents_match_their_tasks(agents: &BTreeMap<&AgentId, &Agent>, tasks: &BTreeMap<&TaskId, &Task>) {
    for agent in agents.values() {
        let held = tasks.values().filter(|task| task.holder() == Some(&agent.id)).count();
        assert_eq!(agent.holding as usize, held, "{agent:?}");
        if let Some(current) = &agent.current_task {
            assert_eq!(tasks.get(current).and_then(|task| task.holder()), Some(&agent.id), "{agent:?}");
        }
        assert_eq!(agent.is_online(), agent.status.as_str() != "offline", "{agent:?}");
    }
}

fn check_tasks_wait_for_unfinished_dependencies(tasks: &BTreeMap<&TaskId, &Task>) {
    for task in tasks.values() {
        let unfinished = |dep: &&TaskId| tasks.get(dep).is_some_and(|dep| !dep.state.is_finished());
        let waits: BTreeSet<TaskId> = task.depends_on.iter().filter(unfinished).cloned().collect();
        let is_unblocked_later = |dep: &TaskId| {
            let end = tasks.get(dep).and_then(|dep| dep.unblocked_to.as_ref());
            end.is_some_and(|end| edge_id(&task.id, dep) > edge_id(end, dep))
        };
        let waiting_on: BTreeSet<TaskId> =
            task.waiting_on.iter().filter(|dep| !is_unblocked_later(dep)).cloned().collect();
        assert_eq!(waiting_on, waits, "{}", task.id);
        let begun = task.state.is_open() && !matches!(task.state.as_str(), "pending" | "planning");
        assert!(!begun || waits.is_empty(), "{task:?}");
    }
}

fn edge_id(task: &TaskId, dep: &TaskId) -> String {
    Key::Dependency(DependencyId { task: task.clone(), dep: dep.clone() }).id()
}

fn check_dependencies_are_acyclic(rows: &BTreeMap<Key, Row>, tasks: &BTreeMap<&TaskId, &Task>) {
    let edges: BTreeSet<(TaskId, TaskId)> = rows
        .values()
        .filter_map(
            |row| if let Row::Dependency(edge) = row { Some((edge.task.clone(), edge.dep.clone())) } else { None },
        )
        .collect();
    let named = |task: &&Task| task.depends_on.iter().map(|dep| (task.id.clone(), dep.clone())).collect::<Vec<_>>();
    assert_eq!(edges, tasks.values().flat_map(named).collect());
    // Repeatedly removing tasks without dependencies must leave none.
    let mut left: BTreeMap<&TaskId, BTreeSet<&TaskId>> =
        tasks.values().map(|task| (&task.id, task.depends_on.iter().collect())).collect();
    while let Some(free) = left.iter().find(|(_, deps)| deps.is_empty()).map(|(id, _)| *id) {
        left.remove(free);
        for deps in left.values_mut() {
            deps.remove(free);
        }
    }
    assert!(left.is_empty(), "these wait for each other: {left:?}");
}

/// Counts agree. A run has ended if and only if it has no open task, unless it was abandoned; it is completed if none
/// of its
/// tasks failed.
fn check_runs_follow_their_tasks(rows: &BTreeMap<Key, Row>, tasks: &BTreeMap<&TaskId, &Task>) {
    for row in rows.values() {
        let Row::Run(run) = row else { continue };
        let of_run: Vec<_> = tasks.values().filter(|task| task.run == run.id).collect();
        let unfinished = of_run.iter().filter(|task| !task.state.is_finished()).count();
        assert_eq!((run.tasks as usize, run.unfinished as usize), (of_run.len(), unfinished), "{run:?}");
        let failed = of_run.iter().filter(|task| task.state == TaskState::Failed).count();
        assert_eq!(run.failed as usize, failed, "{run:?}");
        let claimed = of_run.iter().any(|task| task.claim.is_some());
        match run.status {
            run::RunStatus::Abandoned => {}
            run::RunStatus::Completed => assert_eq!(unfinished, 0, "{run:?}"),
            // The status may have been set explicitly before.
            run::RunStatus::Failed => assert!(of_run.is_empty() || unfinished > 0, "{run:?}"),
            status => {
                assert!(of_run.is_empty() || unfinished > failed, "{run:?}");
                assert!(status != run::RunStatus::Ready || !claimed, "{run:?}");
            }
        }
    }
    for task in tasks.values().filter_map(|task| task.run_if_named()) {
        assert!(rows.contains_key(&Key::Run(task)));
    }
}

fn check_checkpoint_counts(rows: &BTreeMap<Key, Row>, tasks: &BTreeMap<&TaskId, &Task>) {
    let mut places: BTreeMap<&TaskId, BTreeSet<u32>> = BTreeMap::new();
    for row in rows.values() {
        if let Row::Checkpoint(checkpoint) = row {
            assert!(tasks.contains_key(&checkpoint.task), "{checkpoint:?}");
            assert!(places.entry(&checkpoint.task).or_default().insert(checkpoint.sequence), "{checkpoint:?}");
        }
    }
    for task in tasks.values() {
        let expected: BTreeSet<u32> = (1..=task.checkpoints).collect();
        assert_eq!(places.remove(&task.id).unwrap_or_default(), expected, "{}", task.id);
    }
}

fn check_conflict_timers(log: &[LogRow], rows: &BTreeMap<Key, Row>, files: &[&File]) {
    let (mut open, mut unescalated) = (BTreeSet::new(), BTreeSet::new());
    for row in log {
        match row.event.typed() {
            EventRef::ConflictDetected(event) => {
                open.insert(event.path.clone());
                unescalated.insert(conflict_timer_id(&event.path));
            }
            EventRef::ConflictResolved(event) => {
                open.remove(&event.path);
                unescalated.remove(&conflict_timer_id(&event.path));
            }
            EventRef::ConflictEscalated(event) => {
                unescalated.remove(&conflict_timer_id(&event.path));
            }
            _ => {}
        }
    }
    let conflicted: BTreeSet<_> =
        files.iter().filter(|file| file.conflict.is_some()).map(|file| file.path.clone()).collect();
    assert_eq!(conflicted, open);
    let timers: BTreeSet<TimerId> = rows
        .values()
        .filter_map(|row| if let Row::Timer(timer) = row { Some(timer.id.clone()) } else { None })
        .collect();
    assert_eq!(timers, unescalated);
    // A conflict needs a claim on the path, above or below it.
    for file in files.iter().filter(|file| file.conflict.is_some()) {
        let held = files.iter().any(|other| {
            other.holder().is_some() && {
                let (one, other) = (parts(file), parts(other));
                one.starts_with(&other) || other.starts_with(&one)
            }
        });
        assert!(held, "{file:?}");
    }
}

/// Every alarm has a purpose, and an ended task has none.
fn check_alarms_have_a_purpose(tasks: &BTreeMap<&TaskId, &Task>) {
    for task in tasks.values() {
        let unbegun = matches!(task.state, TaskState::Pending | TaskState::Planning);
        let free = unbegun && task.held_by().is_none();
        let terms = task.origin.terms.as_ref();
        for (clock, alarm) in task.clocks.iter() {
            assert!(task.state.is_open() || clock == AlarmKind::Unblock, "{task:?}");
            let right = match clock {
                AlarmKind::Unblock => task.state.is_finished() && task.unblocked_to.is_some(),
                AlarmKind::Deadline => terms.and_then(|terms| terms.deadline) == Some(alarm.due),
                AlarmKind::Accept => unbegun && task.reserved_for.is_some(),
                AlarmKind::Runtime => {
                    task.claim.is_some()
                        && matches!(task.state, TaskState::InProgress | TaskState::Review | TaskState::Paused)
                }
                AlarmKind::RetryBackoff | AlarmKind::Reroute => {
                    free && terms.is_some_and(|terms| terms.is_for_agents())
                }
            };
            assert!(right, "{clock:?} of {task:?}");
        }
    }
}

/// A task ends at most once per attempt. Only a failed task may be skipped afterwards.
fn check_attempts_end_once(log: &[LogRow]) {
    let mut ended: BTreeMap<TaskId, u32> = BTreeMap::new();
    for row in log {
        let Some(task) = row.event.task().cloned() else { continue };
        match row.event.typed() {
            EventRef::TaskCreated(_) | EventRef::TaskRetried(_) | EventRef::TaskReopened(_) => {
                ended.insert(task, 0);
            }
            EventRef::TaskSkipped(skipped) if skipped.from == TaskState::Failed => {}
            EventRef::TaskCompleted(_)
            | EventRef::TaskFailed(_)
            | EventRef::TaskTimedOut(_)
            | EventRef::TaskCancelled(_)
            | EventRef::TaskSkipped(_) => {
                let ends = ended.entry(task).or_default();
                *ends += 1;
                assert_eq!(*ends, 1, "{row:?}");
            }
            _ => {}
        }
    }
}

fn check_single_lead(agents: &BTreeMap<&AgentId, &Agent>, rows: &BTreeMap<Key, Row>) {
    let holder = match rows.get(&Key::lead()) {
        Some(Row::Lead(lead)) => lead.holder.as_ref(),
        _ => None,
    };
    match holder {
        Some(lead) => assert!(agents.get(lead).is_some_and(|agent| agent.is_online()), "{lead} leads and is offline"),
        None => assert!(!agents.values().any(|agent| agent.is_online()), "an online agent exists and no lead"),
    }
}

/// Every change of a holder is stated by the event that causes it.
fn check_holder_changes_follow_events(log: &[LogRow]) {
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    let holder = |row: Option<&Row>| match row {
        Some(Row::Task(task)) => task.holder().cloned(),
        Some(Row::File(file)) => file.holder().cloned(),
        _ => None,
    };
    for entry in log {
        for key in entry.event.write_set() {
            let old = rows.remove(&key);
            let before = holder(old.as_ref());
            let new = apply_row(old, &key, &entry.event, EventStamp { seq: entry.seq, at: entry.at });
            let after = holder(new.as_ref());
            if before != after {
                let (loser, winner) = holder_change(&entry.event);
                assert_eq!(before.as_ref(), loser, "{:?} by {:?}", key, entry.event);
                assert_eq!(after.as_ref(), winner, "{:?} by {:?}", key, entry.event);
            }
            if let Some(new) = new {
                rows.insert(key, new);
            }
        }
    }
}

/// The agents that lose and gain a claim by an event.
fn holder_change(event: &AnyEvent) -> (Option<&AgentId>, Option<&AgentId>) {
    match event.typed() {
        EventRef::TaskClaimed(event) => (event.from.as_ref(), Some(&event.agent)),
        EventRef::TaskReleased(event) => (event.holder.as_ref(), None),
        EventRef::TaskCompleted(event) => (event.holder.as_ref(), None),
        EventRef::TaskFailed(event) => (event.holder.as_ref(), None),
        EventRef::TaskTimedOut(event) => (event.holder.as_ref(), None),
        EventRef::TaskCancelled(event) => (event.holder.as_ref(), None),
        EventRef::TaskSkipped(event) => (event.holder.as_ref(), None),
        EventRef::TaskReopened(event) => (event.holder.as_ref(), None),
        EventRef::FileClaimed(event) => (event.from.as_ref(), Some(&event.agent)),
        EventRef::FileReleased(event) => (Some(&event.holder), None),
        EventRef::ClaimForced(event) => (Some(&event.loser), None),
        EventRef::ConflictResolved(event) => (Some(&event.holder), event.winner.as_ref()),
        _ => panic!("{} changes no holder", event.kind()),
    }
}
