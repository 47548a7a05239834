//! Invariants that no sequence of commands may break: random teams on the memory engine, with batches of any size.

mod contracts;
mod engines;
mod envelopes;
mod invariants;
mod mail;
mod steps;
mod team;
mod teams;
mod workspaces;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use rookery_core::kernel::caller::{Authority, Caller};
use rookery_core::kernel::limit;
use rookery_core::model::task::AlarmKind;
use rookery_core::tasks::{
    CancelTask, CancelTo, CreateTask, DependentsUnblocked, FireAlarm, HeldByOther, ReopenTask, StartTask,
};
use rookery_core::traits::Event;
use rookery_core::{AgentId, AnyCommand, EventStamp, Key, Row, RunId, Seq, TaskId, Timestamp, apply_row};
use rookery_store::Submission;
use rookery_store::replay::Fold;
use steps::{Step, steps};
use team::Team;

/// Few cases by default; `PROPTEST_CASES` sets more.
fn config(cases: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases, ..config } }
}

proptest! {
    #![proptest_config(config(64))]

    /// Every invariant holds after every batch of random commands.
    #[test]
    fn no_sequence_of_commands_breaks_an_invariant(
        steps in steps(160),
        sizes in prop::collection::vec(1_usize..12, 160),
    ) {
        let mut team = Team::new();
        let mut rest = steps.as_slice();
        for size in sizes {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            team.run(batch);
            rest = later;
            invariants::check(&team);
            if rest.is_empty() {
                break;
            }
        }
    }

    /// The sizes of batches do not change log, rows or replies.
    #[test]
    fn batch_sizes_do_not_change_log_rows_or_replies(steps in steps(100), size in 2_usize..60) {
        let mut one_by_one = Team::new();
        let mut submissions = Vec::new();
        let mut outcomes = Vec::new();
        for step in &steps {
            let submission = one_by_one.submission(step);
            outcomes.extend(one_by_one.submit(vec![submission.clone()]));
            submissions.push(submission);
        }
        let batched = Team::new();
        let batched_outcomes: Vec<_> = submissions.chunks(size).flat_map(|batch| batched.submit(batch.to_vec())).collect();
        prop_assert_eq!(one_by_one.log(), batched.log());
        prop_assert_eq!(one_by_one.rows(), batched.rows());
        prop_assert_eq!(outcomes, batched_outcomes);
    }

    /// A rejected command leaves no trace, and an accepted one commits at the position in its reply.
    #[test]
    fn rejected_command_leaves_no_trace(steps in steps(100)) {
        let mut team = Team::new();
        for step in &steps {
            let (head, rows) = (team.log().len() as u64, team.rows());
            let submission = team.submission(step);
            for outcome in team.submit(vec![submission]) {
                match outcome {
                    Ok(committed) => prop_assert_eq!(committed.at, Seq(team.log().len() as u64)),
                    Err(_) => {
                        prop_assert_eq!(team.log().len() as u64, head);
                        prop_assert_eq!(team.rows(), rows.clone());
                    }
                }
            }
        }
    }

    /// An event names every row that it changes.
    #[test]
    fn write_set_is_complete(steps in steps(100)) {
        let mut team = Team::new();
        team.play(&steps);
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        for entry in team.log() {
            let named = entry.event.write_set();
            for (key, row) in rows.iter().filter(|(key, _)| !named.contains(key)) {
                let after = apply_row(Some(row.clone()), key, &entry.event, EventStamp { seq: entry.seq, at: entry.at });
                prop_assert_eq!(after.as_ref(), Some(row), "{} changes {:?}", entry.event.kind(), key);
            }
            for key in named {
                let old = rows.remove(&key);
                if let Some(new) = apply_row(old, &key, &entry.event, EventStamp { seq: entry.seq, at: entry.at }) {
                    rows.insert(key, new);
                }
            }
        }
    }

    /// Events in any order, missing or duplicated, never fail to apply.
    #[test]
    fn apply_is_total(steps in steps(100), picks in prop::collection::vec(any::<Index>(), 0..200)) {
        let mut team = Team::new();
        team.play(&steps);
        let log = team.log();
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        for (at, pick) in picks.iter().enumerate() {
            let event = &pick.get(&log).event;
            for key in event.write_set() {
                let alone = apply_row(None, &key, event, EventStamp { seq: Seq(at as u64), at: Timestamp(0) });
                prop_assert!(alone.is_none_or(|row| row.table() == key.table()));
                let old = rows.remove(&key);
                if let Some(new) = apply_row(old, &key, event, EventStamp { seq: Seq(at as u64), at: Timestamp(0) }) {
                    let read = Row::decode(key.table(), &new.encode()).ok();
                    prop_assert_eq!(read.as_ref(), Some(&new), "{:?} reads back as written", key);
                    rows.insert(key, new);
                }
            }
        }
    }
}

/// The checks above would fail: a row changed behind the log's back is found.
#[test]
fn tampered_row_is_noticed() {
    let team = Team::new();
    let lead = Key::lead();
    team.database.tamper(&lead, None);
    let mut fold = Fold::default();
    team.log().iter().for_each(|row| fold.add(row));
    let (rows, tallies) = team.database.stored();
    assert_eq!(fold.differences(&rows, &tallies).len(), 1);
}

/// Random steps must not all be rejected: every kind of event occurs.
#[test]
fn random_steps_produce_every_event_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    for _ in 0..800 {
        let steps: Vec<Step> = steps(160).new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default();
        let mut team = Team::new();
        team.play(&steps);
        team.log().iter().for_each(|row| *seen.entry(row.event.kind()).or_default() += 1);
    }
    let unseen = rookery_core::AnyEvent::KINDS.iter().filter(|(kind, _)| !seen.contains_key(kind));
    // So many dependents occur only in the test below.
    let unseen: Vec<_> = unseen.filter(|(kind, _)| *kind != DependentsUnblocked::KIND).collect();
    assert!(unseen.is_empty(), "never came up: {unseen:?}\n{seen:?}");
}

/// Dependents of an ended task are unblocked in pages while other tasks start, end and are reopened.
#[test]
fn many_dependents_of_an_ended_task_break_no_invariant() {
    let person = || Caller { power: Authority::Person, ..Caller::asserted("anna") };
    let dependents: Vec<TaskId> =
        (0..limit::UNBLOCKED_AT_ONCE + 20).map(|index| TaskId::new(format!("t-{index}"))).collect();
    let task = |id: &TaskId, depends_on: Vec<TaskId>| CreateTask {
        id: id.clone(),
        run: RunId::project_default(),
        title: "many".to_owned(),
        description: String::new(),
        assigned_by: "somebody".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on,
    };
    let dep = TaskId::from("dep");
    let team = Team::new();
    let submit = |command: AnyCommand| {
        let submission = match &command {
            command if command.name() == "FireAlarm" => Submission::internal(Caller::system(), command.clone()),
            _ => Submission::new(person(), command),
        };
        team.submit(vec![submission]).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    };
    submit(task(&dep, vec![]).into());
    let creations = dependents.iter().map(|id| Submission::new(person(), task(id, vec![dep.clone()])));
    team.submit(creations.collect()).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    let fire = || {
        let rows = team.rows();
        let Some(Row::Task(task)) = rows.get(&Key::Task(dep.clone())) else { panic!("no task") };
        let alarm = task.clocks.get(AlarmKind::Unblock)?;
        Some(FireAlarm { task: dep.clone(), clock: AlarmKind::Unblock, set: alarm.set, backoff_millis: 0 })
    };
    let cancel = |id: &TaskId| CancelTask { task: id.clone(), agent: None, reason: None, to: CancelTo::Cancelled };
    submit(cancel(&dep).into());
    invariants::check(&team);
    submit(ReopenTask { run: RunId::project_default(), task: dep.clone() }.into());
    assert_eq!(fire(), None);
    submit(cancel(&dep).into());
    // A task that is still blocked starts, and another ends.
    let blocked_dependent = |team: &Team, nth: usize| {
        let waits = |row: Row| if let Row::Task(task) = row { task.is_blocked().then_some(task.id) } else { None };
        team.rows().into_values().filter_map(waits).filter(|id| dependents.contains(id)).nth(nth).unwrap()
    };
    let started = blocked_dependent(&team, 3);
    let agent = Some(AgentId::from(steps::AGENTS[0]));
    submit(StartTask { task: started, agent, held_by_other: HeldByOther::Reject }.into());
    submit(cancel(&blocked_dependent(&team, 5)).into());
    invariants::check(&team);
    while let Some(fire) = fire() {
        submit(fire.into());
    }
    invariants::check(&team);
    let is_blocked = |row: &Row| matches!(row, Row::Task(task) if dependents.contains(&task.id) && task.is_blocked());
    assert_eq!(team.rows().values().filter(|row| is_blocked(row)).count(), 0);
}
