//! What holds at the end of every batch, written down apart from the rules that make it so.

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
    log_is_complete(team, &log);
    rows_are_the_fold(team, &log);
    let agents: BTreeMap<&AgentId, &Agent> = rows
        .values()
        .filter_map(|row| if let Row::Agent(agent) = row { Some((&agent.id, agent)) } else { None })
        .collect();
    let tasks: BTreeMap<&TaskId, &Task> =
        rows.values().filter_map(|row| if let Row::Task(task) = row { Some((&task.id, task)) } else { None }).collect();
    let files: Vec<&File> =
        rows.values().filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).collect();
    one_holder_each(&files);
    holders_are_here(&agents, &tasks, &files);
    agents_know_what_they_hold(&agents, &tasks);
    tasks_wait_for_what_is_unfinished(&tasks);
    edges_are_the_dependencies_and_lead_nowhere_in_a_circle(&rows, &tasks);
    runs_follow_their_tasks(&rows, &tasks);
    checkpoints_are_counted(&rows, &tasks);
    timers_are_those_of_open_conflicts(&log, &rows, &files);
    clocks_go_for_what_goes_on(&tasks);
    an_attempt_ends_once(&log);
    one_lead_if_anybody_is_here(&agents, &rows);
    only_facts_change_holders(&log);
    crate::mail::check(&log, &rows);
    crate::teams::check(&log, &rows);
    crate::workspaces::check(&rows);
}

fn log_is_complete(team: &Team, log: &[LogRow]) {
    for (at, row) in log.iter().enumerate() {
        assert_eq!(row.seq, Seq(at as u64 + 1));
        assert!(row.cause.is_none_or(|cause| cause < row.seq));
        assert!(row.part_index == 0 || row.cause == Some(row.first()), "{row:?}");
    }
    assert_eq!(team.head(), Seq(log.len() as u64));
}

fn rows_are_the_fold(team: &Team, log: &[LogRow]) {
    let mut fold = Fold::default();
    log.iter().for_each(|row| fold.add(row));
    let (rows, tallies) = team.database.stored();
    assert_eq!(fold.differences(&rows, &tallies), Vec::<String>::new());
}

/// A path's folders and name. A path covers those that begin with its parts, with or without its slash.
fn parts(file: &File) -> Vec<&str> {
    file.path.key().split('/').filter(|part| !part.is_empty()).collect()
}

fn one_holder_each(files: &[&File]) {
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

fn holders_are_here(agents: &BTreeMap<&AgentId, &Agent>, tasks: &BTreeMap<&TaskId, &Task>, files: &[&File]) {
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

fn agents_know_what_they_hold(agents: &BTreeMap<&AgentId, &Agent>, tasks: &BTreeMap<&TaskId, &Task>) {
    for agent in agents.values() {
        let held = tasks.values().filter(|task| task.holder() == Some(&agent.id)).count();
        assert_eq!(agent.holding as usize, held, "{agent:?}");
        if let Some(current) = &agent.current_task {
            assert_eq!(tasks.get(current).and_then(|task| task.holder()), Some(&agent.id), "{agent:?}");
        }
        assert_eq!(agent.is_online(), agent.status.as_str() != "offline", "{agent:?}");
    }
}

fn tasks_wait_for_what_is_unfinished(tasks: &BTreeMap<&TaskId, &Task>) {
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

fn edges_are_the_dependencies_and_lead_nowhere_in_a_circle(
    rows: &BTreeMap<Key, Row>,
    tasks: &BTreeMap<&TaskId, &Task>,
) {
    let edges: BTreeSet<(TaskId, TaskId)> = rows
        .values()
        .filter_map(
            |row| if let Row::Dependency(edge) = row { Some((edge.task.clone(), edge.dep.clone())) } else { None },
        )
        .collect();
    let named = |task: &&Task| task.depends_on.iter().map(|dep| (task.id.clone(), dep.clone())).collect::<Vec<_>>();
    assert_eq!(edges, tasks.values().flat_map(named).collect());
    // Taking away, again and again, what depends on nothing must leave nothing.
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

/// Counts agree, and a run has ended if and only if none of its tasks is open, unless it was given up. It is completed if none
/// of them has failed.
fn runs_follow_their_tasks(rows: &BTreeMap<Key, Row>, tasks: &BTreeMap<&TaskId, &Task>) {
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
            // Somebody may have called it that before.
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

fn checkpoints_are_counted(rows: &BTreeMap<Key, Row>, tasks: &BTreeMap<&TaskId, &Task>) {
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

fn timers_are_those_of_open_conflicts(log: &[LogRow], rows: &BTreeMap<Key, Row>, files: &[&File]) {
    let (mut open, mut unescalated) = (BTreeSet::new(), BTreeSet::new());
    for row in log {
        match row.event.typed() {
            EventRef::ConflictDetected(fact) => {
                open.insert(fact.path.clone());
                unescalated.insert(conflict_timer_id(&fact.path));
            }
            EventRef::ConflictResolved(fact) => {
                open.remove(&fact.path);
                unescalated.remove(&conflict_timer_id(&fact.path));
            }
            EventRef::ConflictEscalated(fact) => {
                unescalated.remove(&conflict_timer_id(&fact.path));
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
    // A conflict is about a claim: without one on the path, above or below it, there is none.
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

/// No clock outlives what it is for, and nothing that has ended has one.
fn clocks_go_for_what_goes_on(tasks: &BTreeMap<&TaskId, &Task>) {
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

/// Between its opening and the next one, a task ends at most once. Only what failed may be given up after that.
fn an_attempt_ends_once(log: &[LogRow]) {
    let mut ended: BTreeMap<TaskId, u32> = BTreeMap::new();
    for row in log {
        let Some(task) = row.event.task().cloned() else { continue };
        match row.event.typed() {
            EventRef::TaskCreated(_) | EventRef::TaskRetried(_) | EventRef::TaskReopened(_) => {
                ended.insert(task, 0);
            }
            EventRef::TaskSkipped(fact) if fact.from == TaskState::Failed => {}
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

fn one_lead_if_anybody_is_here(agents: &BTreeMap<&AgentId, &Agent>, rows: &BTreeMap<Key, Row>) {
    let holder = match rows.get(&Key::lead()) {
        Some(Row::Lead(lead)) => lead.holder.as_ref(),
        _ => None,
    };
    match holder {
        Some(lead) => assert!(agents.get(lead).is_some_and(|agent| agent.is_online()), "{lead} leads and is not here"),
        None => assert!(!agents.values().any(|agent| agent.is_online()), "nobody leads"),
    }
}

/// At every seq, a change of holder is what the fact there says, and nobody loses a claim to a fact about another.
fn only_facts_change_holders(log: &[LogRow]) {
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    let holder = |row: Option<&Row>| match row {
        Some(Row::Task(task)) => task.holder().cloned(),
        Some(Row::File(file)) => file.holder().cloned(),
        _ => None,
    };
    for entry in log {
        for key in entry.event.write_set(entry.seq) {
            let old = rows.remove(&key);
            let before = holder(old.as_ref());
            let new = apply_row(old, &key, &entry.event, EventStamp { seq: entry.seq, at: entry.at });
            let after = holder(new.as_ref());
            if before != after {
                let (loser, winner) = changes(&entry.event);
                assert_eq!(before.as_ref(), loser, "{:?} by {:?}", key, entry.event);
                assert_eq!(after.as_ref(), winner, "{:?} by {:?}", key, entry.event);
            }
            if let Some(new) = new {
                rows.insert(key, new);
            }
        }
    }
}

/// Who loses and who gets a claim by a fact.
fn changes(fact: &AnyEvent) -> (Option<&AgentId>, Option<&AgentId>) {
    match fact.typed() {
        EventRef::TaskClaimed(fact) => (fact.from.as_ref(), Some(&fact.agent)),
        EventRef::TaskReleased(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskCompleted(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskFailed(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskTimedOut(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskCancelled(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskSkipped(fact) => (fact.holder.as_ref(), None),
        EventRef::TaskReopened(fact) => (fact.holder.as_ref(), None),
        EventRef::FileClaimed(fact) => (fact.from.as_ref(), Some(&fact.agent)),
        EventRef::FileReleased(fact) => (Some(&fact.holder), None),
        EventRef::ClaimForced(fact) => (Some(&fact.loser), None),
        EventRef::ConflictResolved(fact) => (Some(&fact.holder), fact.winner.as_ref()),
        _ => panic!("{} changes no holder", fact.kind()),
    }
}
