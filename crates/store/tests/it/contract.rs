//! The store contract. Each scenario runs on all engines, and afterwards the rows must be the fold of the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rookery_core::kernel::caller::Authority;
use rookery_core::kernel::limit;
use rookery_core::model::task::{AlarmKind, Outcome};
use rookery_core::model::{ColumnValue, LifeSource, Presence};
use rookery_core::plans::RemoveRunTask;
use rookery_core::redaction::{Redact, Target};
use rookery_core::tasks::{
    CancelTask, CancelTo, CompleteTask, CreateTask, FireAlarm, HeldByOther, Required, StartTask,
};
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{
    AgentId, AnyReply, Caller, Code, EventRef, Key, Row, RunId, Seq, Table, TaskId, ThreadId, Timestamp,
};
use rookery_store::artifact::{ArtifactError, Erased, sha256_hex};
use rookery_store::query::{Bodies, ColumnTest, Condition, Order};
use rookery_store::store::RowVisitor;
use rookery_store::{
    EndpointCursor, LeaderEpoch, LeaderRole, LogHead, LogQuery, Operation, RowQuery, Store, Submission, SubmitError,
    Token,
};

use crate::artifacts::{
    artifact_is_collected_after_its_last_reference_is_redacted, artifact_is_uploaded_and_downloaded_in_pieces,
    artifact_named_during_concurrent_collection_is_kept, artifacts_are_listed_in_pages,
    concurrent_uploads_of_duplicate_content_are_one_artifact, invalid_artifact_name_is_absent,
    only_old_unnamed_artifacts_are_collected, released_hold_keeps_artifact_stored_by_another_upload,
};
use crate::mail::{
    document_is_built_from_its_versions_and_redacted_by_version, message_storm_is_held_and_listed,
    messages_are_found_by_channel_recipient_and_audience,
};
use crate::support::{
    World, claim_file, claim_task, create_run, create_task, new_task, node, plan, register_agent, report, submit_ok,
    submit_rejected, whole_log, with_body, with_key,
};

macro_rules! contract {
    ($($scenario:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $scenario() {
                let world = crate::support::World::memory();
                super::$scenario(&world).await;
                world.end().await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = crate::support::World::postgres().await;
                super::$scenario(&world).await;
                world.end().await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = crate::support::World::sqlite();
                super::$scenario(&world).await;
                world.end().await;
            })+
        }
    };
}

contract![
    command_returns_the_row_that_it_changed,
    rejected_command_leaves_no_trace,
    duplicate_command_gets_the_first_reply,
    joined_submissions_commit_together_or_not_at_all,
    forgotten_reply_permits_the_command_again,
    replies_of_a_run_are_kept_until_a_day_after_its_end,
    rows_are_read_by_key_and_listed,
    rows_are_visited_in_the_order_of_their_lists,
    visited_rows_are_of_one_position_while_others_write,
    rows_are_found_by_their_current_columns,
    query_conditions_agree_on_every_engine,
    log_is_queried_by_every_condition,
    path_prefixes_are_compared_bytewise,
    unusual_texts_and_bodies_are_returned_unchanged,
    large_body_is_returned_unchanged,
    failure_within_a_batch_rejects_only_its_command,
    concurrent_submitters_leave_no_gap,
    publications_follow_log_order,
    redacted_row_keeps_its_place_and_hash,
    operational_state_is_stored_and_not_logged,
    decisions_read_current_presence,
    log_page_ends_at_its_byte_limit,
    artifact_is_kept_while_held_or_named,
    artifact_is_uploaded_and_downloaded_in_pieces,
    invalid_artifact_name_is_absent,
    concurrent_uploads_of_duplicate_content_are_one_artifact,
    only_old_unnamed_artifacts_are_collected,
    artifact_is_collected_after_its_last_reference_is_redacted,
    released_hold_keeps_artifact_stored_by_another_upload,
    artifacts_are_listed_in_pages,
    artifact_named_during_concurrent_collection_is_kept,
    leader_command_with_outdated_epoch_is_rejected,
    workflow_is_planned_listed_and_completed,
    messages_are_found_by_channel_recipient_and_audience,
    message_storm_is_held_and_listed,
    document_is_built_from_its_versions_and_redacted_by_version,
    dependents_of_an_ended_task_are_unblocked_in_pages,
];

async fn command_returns_the_row_that_it_changed(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let created = submit_ok(store, create_task("task_1", "one")).await;
    let AnyReply::Row(key, row) = created.reply else { panic!("{:?}", created.reply) };
    assert_eq!(key, Key::Task("task_1".into()));
    let (stored, head) = store.rows(vec![key]).await.unwrap();
    assert_eq!(stored, [Some(row.0)]);
    assert_eq!((head.head, head.floor, head.log.as_str()), (created.at, Seq(1), "log_test"));
    let claimed = submit_ok(store, claim_task("task_1", "a")).await;
    assert!(claimed.at > created.at && !claimed.duplicate);
}

async fn workflow_is_planned_listed_and_completed(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    submit_ok(store, create_run("wf_1")).await;
    submit_ok(store, create_run("wf_2")).await;
    assert_eq!(
        submit_rejected(store, plan("wf_1", &[("one", &["two"]), ("two", &["one"])])).await,
        Code::DependencyCycle
    );
    submit_ok(store, plan("wf_1", &[("one", &[]), ("two", &["one"]), ("three", &["two"])])).await;
    let removed = RemoveRunTask { run: "wf_1".into(), task: "tk_two".into() };
    submit_ok(store, Submission::new(Caller::asserted("a"), removed)).await;
    let status = |status: &str| ColumnTest::Is(ColumnValue::Text(status.to_owned()));
    let listed = |query: RowQuery| async {
        let (rows, _) = store.list(RowQuery { order: Order::Descending, ..query.ordered_by("created") }).await.unwrap();
        rows.iter().map(|row| if let Row::Run(run) = row { run.id.to_string() } else { panic!() }).collect::<Vec<_>>()
    };
    assert_eq!(listed(RowQuery::all(Table::Runs)).await, ["wf_2", "wf_1"]);
    assert_eq!(listed(RowQuery::all(Table::Runs).with("status", status("ready"))).await, ["wf_1"]);
    for task in ["tk_one", "tk_three"] {
        submit_ok(store, claim_task(task, "a")).await;
        let by = || Caller::asserted("a");
        submit_ok(
            store,
            Submission::new(by(), StartTask { task: task.into(), agent: None, held_by_other: HeldByOther::KeepHolder }),
        )
        .await;
        submit_ok(
            store,
            Submission::new(
                by(),
                CompleteTask {
                    task: task.into(),
                    agent: None,
                    outcome: Outcome::default(),
                    outcome_required: Required::No,
                    contract: None,
                },
            ),
        )
        .await;
    }
    assert_eq!(listed(RowQuery::all(Table::Runs).with("status", status("completed"))).await, ["wf_1"]);
    let (tallies, _) = store.tallies().await.unwrap();
    assert_eq!((tallies.get("runs"), tallies.get("runs.completed")), (Some(&2), Some(&1)));
    let of_run = LogQuery { run: Some("wf_1".to_owned()), ..LogQuery::after(Seq::ZERO, 100) };
    let kinds: Vec<_> = store.log(of_run).await.unwrap().0.iter().map(|row| row.event.kind()).collect();
    assert!(kinds.contains(&"task.started") && kinds.last() == Some(&"run.status_set"), "{kinds:?}");
}

/// The ids have prefixes of each other, which sort differently as texts than as parts.
async fn dependents_of_an_ended_task_are_unblocked_in_pages(world: &World) {
    let store = world.store.as_ref();
    submit_ok(store, register_agent("a")).await;
    submit_ok(store, create_task("dep", "first")).await;
    let dependents: BTreeSet<TaskId> =
        (0..=2 * limit::UNBLOCKED_AT_ONCE).map(|index| TaskId::new(format!("t-{index}"))).collect();
    for id in &dependents {
        let waits = CreateTask { depends_on: vec!["dep".into()], ..new_task(id.as_str(), "next") };
        submit_ok(store, Submission::new(Caller::anonymous(), waits)).await;
    }
    let end = CancelTask { task: "dep".into(), agent: None, reason: None, to: CancelTo::Cancelled };
    submit_ok(store, Submission::new(Caller::anonymous(), end)).await;
    let mut pages = 1;
    loop {
        let (rows, _) = store.rows(vec![Key::Task("dep".into())]).await.unwrap();
        let [Some(Row::Task(dep))] = &rows[..] else { panic!("{rows:?}") };
        let Some(alarm) = dep.clocks.get(AlarmKind::Unblock) else { break };
        let fire = FireAlarm { task: "dep".into(), clock: AlarmKind::Unblock, set: alarm.set, backoff_millis: 0 };
        submit_ok(store, Submission::internal(Caller::system(), fire)).await;
        pages += 1;
    }
    assert_eq!(pages, 3);
    let mut unblocked = vec![];
    for row in whole_log(store).await {
        unblocked.extend(match row.event.typed() {
            EventRef::TaskCancelled(event) => event.unblocks.clone(),
            EventRef::DependentsUnblocked(event) => event.unblocks.clone(),
            _ => vec![],
        });
    }
    assert_eq!(unblocked.len(), dependents.len());
    assert_eq!(BTreeSet::from_iter(unblocked), dependents);
}

async fn rejected_command_leaves_no_trace(world: &World) {
    let store = &*world.store;
    submit_ok(store, create_task("task_1", "one")).await;
    let before = (whole_log(store).await, store.tallies().await.unwrap());
    assert_eq!(submit_rejected(store, create_task("task_1", "again")).await, Code::AlreadyExists);
    assert_eq!(submit_rejected(store, with_key(create_task("task_2", ""), "k", "h")).await, Code::Invalid);
    assert_eq!((whole_log(store).await, store.tallies().await.unwrap()), before);
    // A rejection is not remembered: the key may be used for a corrected request.
    let created = submit_ok(store, with_key(create_task("task_2", "two"), "k", "h2")).await;
    assert!(!created.duplicate);
}

async fn joined_submissions_commit_together_or_not_at_all(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    submit_ok(store, create_task("task_0", "before")).await;
    let before = (whole_log(store).await, store.tallies().await.unwrap());
    let together = |mut parts: Vec<Submission>| {
        let mut first = parts.remove(0);
        first.others = parts;
        first
    };
    let good = || {
        let keyed = with_key(with_body(create_task("task_1", "one"), b"body one"), "k", "h");
        vec![
            keyed,
            with_body(create_task("task_2", "two"), b"body two"),
            claim_task("task_1", "a"),
            claim_task("task_0", "a"),
        ]
    };
    let mut bad = good();
    bad.push(create_task("task_0", "again"));
    let (one, joined) = tokio::join!(store.submit(create_task("task_9", "beside")), store.submit(together(bad)));
    assert!(one.is_ok(), "other submissions of the batch commit");
    match joined {
        Err(SubmitError::RefusedOne { place: 4, refusal }) => assert_eq!(refusal.code, Code::AlreadyExists),
        other => panic!("{other:?}"),
    }
    let (rows, _) = store.rows(vec![Key::Task("task_1".into()), Key::Task("task_2".into())]).await.unwrap();
    assert_eq!(rows, [None, None]);
    let log = whole_log(store).await;
    assert_eq!(log.len(), before.0.len() + 1, "only the other submission");
    let committed = submit_ok(store, together(good())).await;
    assert_eq!((committed.duplicate, committed.others.len()), (false, 3), "no key was remembered");
    let log = whole_log(store).await;
    let bodies: Vec<&LogRow> = log.iter().filter(|row| row.body.is_some()).collect();
    assert_eq!(bodies.len(), 2, "each has its own body");
    assert_eq!(bodies.iter().map(|row| row.cause).collect::<Vec<_>>(), [None, None]);
    let again = submit_ok(
        store,
        together(vec![create_task("task_3", "three"), with_key(create_task("task_1", "one"), "k", "h")]),
    )
    .await;
    assert_eq!((again.duplicate, again.others[0].duplicate), (false, true));
}

async fn duplicate_command_gets_the_first_reply(world: &World) {
    let store = &*world.store;
    let first = submit_ok(store, with_key(create_task("task_1", "one"), "k", "h")).await;
    submit_ok(store, create_task("task_2", "two")).await;
    // With another id, as surfaces generate one per request.
    let second = submit_ok(store, with_key(create_task("task_3", "one"), "k", "h")).await;
    assert_eq!((second.reply, second.duplicate), (first.reply, true));
    assert_eq!(
        submit_rejected(store, with_key(create_task("task_4", "other"), "k", "other")).await,
        Code::IdempotencyMismatch
    );
    assert_eq!(whole_log(store).await.len(), 2);
}

async fn forgotten_reply_permits_the_command_again(world: &World) {
    let store = &*world.store;
    submit_ok(store, with_key(create_task("task_1", "one"), "k", "h")).await;
    assert_eq!(store.operate(Operation::ForgetReplies { before: Timestamp(1_000) }).await, Ok(0));
    assert!(submit_ok(store, with_key(create_task("task_2", "one"), "k", "h")).await.duplicate);
    assert_eq!(store.operate(Operation::ForgetReplies { before: Timestamp(1_001) }).await, Ok(1));
    assert!(!submit_ok(store, with_key(create_task("task_2", "one"), "k", "h")).await.duplicate);
}

async fn replies_of_a_run_are_kept_until_a_day_after_its_end(world: &World) {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let within = |run: &str, task: &str, key: &str| {
        let created = CreateTask { run: run.into(), ..new_task(task, "one") };
        let mut keyed = with_key(Submission::new(Caller::asserted("a"), created), key, "h");
        if let Some(idempotency) = &mut keyed.idempotency {
            idempotency.scope = format!("{run} a");
        }
        keyed
    };
    for number in 0..3 {
        submit_ok(store, within("run_1", &format!("t{number}"), &format!("k{number}"))).await;
    }
    submit_ok(store, within("run_2", "u", "k")).await;
    submit_ok(store, with_key(create_task("task_1", "one"), "k", "h")).await;
    let forget = async |before: i64| store.operate(Operation::ForgetReplies { before: Timestamp(before) }).await;
    let is_known = async |run: &str, task: &str, key: &str| submit_ok(store, within(run, task, key)).await.duplicate;
    // Replies of the open runs are kept longer, the one of the default run is forgotten.
    assert_eq!((forget(5_000).await, forget(5_000).await), (Ok(5), Ok(0)));
    assert!(is_known("run_1", "t9", "k0").await && is_known("run_2", "t9", "k").await);
    assert!(!submit_ok(store, with_key(create_task("task_2", "one"), "k", "h")).await.duplicate);
    assert_eq!(forget(5_000).await, Ok(1));
    for number in 0..3 {
        let cancel =
            CancelTask { task: TaskId::new(format!("t{number}")), agent: None, reason: None, to: CancelTo::Cancelled };
        submit_ok(store, Submission::new(Caller::person("anna"), cancel)).await;
    }
    let (rows, _) = store.rows(vec![Key::Run("run_1".into())]).await.unwrap();
    let Some(Row::Run(run)) = &rows[0] else { panic!("{rows:?}") };
    let ended = run.ended_at.unwrap().0;
    assert_eq!(forget(ended + DAY - 1).await, Ok(4), "kept for another day, open runs likewise");
    assert!(is_known("run_1", "t9", "k0").await);
    assert_eq!(forget(ended + DAY).await, Ok(0));
    assert_eq!(forget(ended + DAY + 1).await, Ok(3));
    // The run resumes with this task.
    assert!(!is_known("run_1", "t9", "k0").await && is_known("run_2", "t9", "k").await);
    assert_eq!(forget(ended + 3 * DAY).await, Ok(2), "both are kept longer");
    assert!(is_known("run_1", "t9", "k0").await && is_known("run_2", "t9", "k").await);
}

async fn rows_are_read_by_key_and_listed(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    for id in ["task_b", "task_a", "task_c"] {
        submit_ok(store, create_task(id, id)).await;
    }
    submit_ok(store, claim_task("task_a", "a")).await;
    let keys = vec![Key::Task("task_a".into()), Key::Task("nothing".into()), Key::Agent("a".into()), Key::lead()];
    let (rows, _) = store.rows(keys).await.unwrap();
    assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(ids(store, RowQuery::all(Table::Tasks)).await, ["task_a", "task_b", "task_c"]);
    let by_creation = RowQuery::all(Table::Tasks).ordered_by("created");
    assert_eq!(ids(store, by_creation.clone()).await, ["task_b", "task_a", "task_c"]);
    let newest = RowQuery { order: Order::Descending, ..by_creation.clone().at_most(Some(2)) };
    assert_eq!(ids(store, newest).await, ["task_c", "task_a"]);
    let (lists, head) = store.lists(vec![by_creation, RowQuery::all(Table::Agents)]).await.unwrap();
    assert_eq!((lists[0].len(), lists[1].len()), (3, 1));
    let (tallies, same) = store.tallies().await.unwrap();
    assert_eq!((tallies["tasks"], same), (3, head));
}

#[derive(Default)]
struct Visited(Vec<Row>);

impl RowVisitor for Visited {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn visit(&mut self, row: Row) {
        self.0.push(row);
    }
}

/// Visits the rows of lists, of which there were some before.
async fn visited(store: &dyn Store, queries: Vec<RowQuery>) -> (Vec<Row>, LogHead) {
    let leftover = store.list(RowQuery::all(Table::Agents)).await.unwrap().0;
    let visitor = Arc::new(Mutex::new(Visited(leftover)));
    let ((), head) = store.visit(queries, visitor.clone()).await.unwrap();
    (std::mem::take(&mut visitor.lock().unwrap().0), head)
}

async fn rows_are_visited_in_the_order_of_their_lists(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    for id in ["task_b", "task_a", "task_c"] {
        submit_ok(store, create_task(id, id)).await;
    }
    let by_creation = RowQuery::all(Table::Tasks).ordered_by("created");
    let newest = RowQuery { order: Order::Descending, ..by_creation.clone().at_most(Some(2)) };
    let queries = vec![by_creation, RowQuery::all(Table::Agents), RowQuery::all(Table::Files), newest];
    let (lists, head) = store.lists(queries.clone()).await.unwrap();
    assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 0, 2]);
    assert_eq!(visited(store, queries).await, (lists.into_iter().flatten().collect(), head.clone()));
    assert_eq!(visited(store, vec![]).await, (vec![], head));
}

async fn visited_rows_are_of_one_position_while_others_write(world: &World) {
    const WRITERS: usize = 4;
    const EACH: usize = 40;
    let store = &*world.store;
    let before = submit_ok(store, register_agent("a")).await.at.0;
    let write = async |writer: usize| {
        for number in 0..EACH {
            submit_ok(store, create_task(&format!("task_{writer}_{number}"), "one")).await;
            tokio::task::yield_now().await;
        }
    };
    let writing = futures_util::future::join_all((0..WRITERS).map(write));
    let read = async {
        let by_creation = RowQuery::all(Table::Tasks).ordered_by("created");
        let newest_first = RowQuery { order: Order::Descending, ..by_creation.clone() };
        loop {
            let (mut rows, head) = visited(store, vec![by_creation.clone(), newest_first.clone()]).await;
            let tasks = usize::try_from(head.head.0 - before).unwrap();
            assert_eq!(rows.len(), 2 * tasks, "both lists have the tasks of all events up to the head");
            let mut second = rows.split_off(tasks);
            second.reverse();
            assert_eq!(rows, second);
            if tasks == WRITERS * EACH {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writing, read);
}

async fn rows_are_found_by_their_current_columns(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let by = |command: rookery_core::AnyCommand| Submission::new(Caller::asserted("a"), command);
    let (task, agent) = (|| "task_1".into(), None);
    let steps: [(Submission, &str, Option<&str>); 4] = [
        (create_task("task_1", "one"), "pending", None),
        (claim_task("task_1", "a"), "pending", Some("a")),
        (
            by(StartTask { task: task(), agent: agent.clone(), held_by_other: HeldByOther::KeepHolder }.into()),
            "in_progress",
            Some("a"),
        ),
        (
            by(CompleteTask {
                task: task(),
                agent,
                outcome: Default::default(),
                outcome_required: Required::No,
                contract: None,
            }
            .into()),
            "completed",
            None,
        ),
    ];
    for (submission, state, holder) in steps {
        submit_ok(store, submission).await;
        for other in ["pending", "in_progress", "completed"] {
            let found = ids(store, RowQuery::all(Table::Tasks).with("state", ColumnTest::Is(other.into()))).await;
            assert_eq!(found.len(), usize::from(other == state), "{other} while it is {state}");
        }
        let held = ids(store, RowQuery::all(Table::Tasks).with("held_by", ColumnTest::Is("a".into()))).await;
        assert_eq!(held.len(), usize::from(holder.is_some()), "held while it is {state}");
    }
}

async fn query_conditions_agree_on_every_engine(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    for id in ["task_1", "task_2", "task_3"] {
        submit_ok(store, create_task(id, id)).await;
    }
    submit_ok(store, claim_task("task_2", "a")).await;
    let text = |text: &str| ColumnValue::Text(text.to_owned());
    let cases: Vec<(&'static str, ColumnTest, &[&str])> = vec![
        ("held_by", ColumnTest::Is(text("a")), &["task_2"]),
        ("held_by", ColumnTest::Is(ColumnValue::Null), &["task_1", "task_3"]),
        ("held_by", ColumnTest::IsNot(text("a")), &["task_1", "task_3"]),
        ("held_by", ColumnTest::IsNot(ColumnValue::Null), &["task_2"]),
        ("held_by", ColumnTest::Present, &["task_2"]),
        ("held_by", ColumnTest::In(vec![]), &[]),
        ("held_by", ColumnTest::In(vec![text("b"), ColumnValue::Null]), &["task_1", "task_3"]),
        ("held_by", ColumnTest::In(vec![text("b"), text("a")]), &["task_2"]),
        ("held_by", ColumnTest::Is(ColumnValue::Integer(1)), &[]),
        ("held_by", ColumnTest::IsNot(ColumnValue::Integer(1)), &["task_1", "task_2", "task_3"]),
        ("held_by", ColumnTest::Above(0), &[]),
        ("key", ColumnTest::After("task_1".to_owned()), &["task_2", "task_3"]),
        ("created", ColumnTest::After("1".to_owned()), &[]),
        ("created", ColumnTest::Above(3), &["task_2", "task_3"]),
        ("created", ColumnTest::AtMost(3), &["task_1"]),
        ("created", ColumnTest::Is(text("3")), &[]),
        ("no_such_column", ColumnTest::Present, &[]),
        ("key", ColumnTest::Is(text("task_2")), &["task_2"]),
        ("key", ColumnTest::In(vec![text("task_3"), text("task_x"), text("task_1")]), &["task_1", "task_3"]),
    ];
    for (column, test, wanted) in cases {
        let found = ids(store, RowQuery::all(Table::Tasks).with(column, test.clone())).await;
        assert_eq!(found, wanted, "{column} {test:?}");
    }
    let both = RowQuery::all(Table::Tasks)
        .with("created", ColumnTest::Above(3))
        .with("held_by", ColumnTest::Is(ColumnValue::Null));
    assert_eq!(ids(store, both).await, ["task_3"]);
    let condition = |column, test| Condition { column, test };
    let held = || condition("held_by", ColumnTest::Present);
    let early = || condition("created", ColumnTest::AtMost(3));
    let cases: Vec<(Vec<Vec<Condition>>, &[&str])> = vec![
        (vec![], &["task_1", "task_2", "task_3"]),
        (vec![vec![held()]], &["task_2"]),
        (vec![vec![held()], vec![early()]], &["task_1", "task_2"]),
        (vec![vec![held(), early()]], &[]),
        (vec![vec![held()], vec![]], &["task_1", "task_2", "task_3"]),
    ];
    for (alternatives, wanted) in cases {
        let query = RowQuery::all(Table::Tasks).with_any_of(alternatives.clone());
        assert_eq!(ids(store, query.clone()).await, wanted, "{alternatives:?}");
        let later = query.with("created", ColumnTest::Above(3));
        let wanted: Vec<&str> = wanted.iter().copied().filter(|id| *id != "task_1").collect();
        assert_eq!(ids(store, later).await, wanted, "{alternatives:?}");
    }
}

async fn ids(store: &dyn Store, query: RowQuery) -> Vec<String> {
    let (rows, _) = store.list(query).await.unwrap();
    let id = |row: Row| match row {
        Row::Task(task) => task.id.to_string(),
        Row::File(file) => file.path.to_string(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(id).collect()
}

async fn log_is_queried_by_every_condition(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await; // 1 registered, 2 lead chosen
    submit_ok(store, create_task("task_1", "one")).await; // 3
    let mut elsewhere = report("b", "built");
    elsewhere.run = Some(RunId::from("run_x"));
    elsewhere.thread = Some(ThreadId::from("thr_x"));
    elsewhere.cause = Some(Seq(3));
    submit_ok(store, elsewhere).await; // 4
    submit_ok(store, claim_task("task_1", "a")).await; // 5
    submit_ok(store, claim_file("src/a.rs", "a")).await; // 6
    let mut by_default = report("b", "tested");
    by_default.run = Some(RunId::project_default());
    by_default.thread = Some(ThreadId::project_default());
    submit_ok(store, by_default).await; // 7
    let all = || LogQuery::newest(100);
    let some = |text: &str| Some(text.to_owned());
    let kinds = |kinds: &[&str]| Some(kinds.iter().map(|kind| (*kind).to_owned()).collect());
    let at = whole_log(store).await[4].at.0;
    let cases: Vec<(&str, LogQuery, &[u64])> = vec![
        ("everything", all(), &[7, 6, 5, 4, 3, 2, 1]),
        ("the newest", LogQuery::newest(2), &[7, 6]),
        ("a page", LogQuery::after(Seq(2), 3), &[3, 4, 5]),
        ("one", LogQuery::one(Seq(4)), &[4]),
        ("places", LogQuery::at(vec![Seq(7), Seq(4), Seq(4_000)]), &[4, 7]),
        ("no places", LogQuery::at(vec![]), &[]),
        ("a kind at places", LogQuery { kinds: kinds(&["report.added"]), ..LogQuery::at(vec![Seq(4), Seq(5)]) }, &[4]),
        ("none", LogQuery::newest(0), &[]),
        ("since", LogQuery { since: Some(at), ..all() }, &[7, 6]),
        ("run", LogQuery { run: some("run_x"), ..all() }, &[4]),
        ("default run", LogQuery { run: some("run_default"), ..all() }, &[7, 6, 5, 3, 2, 1]),
        ("thread", LogQuery { thread: some("thr_x"), ..all() }, &[4]),
        ("default thread", LogQuery { thread: some("thr_default"), ..LogQuery::newest(2) }, &[7, 6]),
        ("actor", LogQuery { actor: some("a"), ..all() }, &[6, 5, 2, 1]),
        ("anonymous", LogQuery { actor: some("anonymous"), ..all() }, &[3]),
        ("concerned", LogQuery { concerns: some("b"), ..all() }, &[7, 4]),
        ("anonymous concerned", LogQuery { concerns: some("anonymous"), ..all() }, &[3]),
        ("kinds of one concerned", LogQuery { kinds: kinds(&["report.added"]), concerns: some("a"), ..all() }, &[]),
        ("task", LogQuery { task: some("task_1"), ..all() }, &[5, 3]),
        ("path", LogQuery { path: some("src/a.rs"), ..all() }, &[6]),
        ("kind", LogQuery { kinds: kinds(&["report.added"]), ..all() }, &[7, 4]),
        ("kinds", LogQuery { kinds: kinds(&["report.added", "task.claimed"]), ..all() }, &[7, 5, 4]),
        ("some of kinds", LogQuery { kinds: kinds(&["report.added", "task.claimed"]), ..LogQuery::newest(2) }, &[7, 5]),
        (
            "kinds upwards",
            LogQuery { kinds: kinds(&["task.claimed", "task.created", "report.added"]), ..LogQuery::after(Seq(3), 2) },
            &[4, 5],
        ),
        ("kinds of an actor", LogQuery { kinds: kinds(&["task.claimed", "x"]), actor: some("a"), ..all() }, &[5]),
        ("no kinds", LogQuery { kinds: kinds(&[]), ..all() }, &[]),
        ("up to", LogQuery { upto: Some(Seq(2)), ..all() }, &[2, 1]),
    ];
    for (case, query, wanted) in cases {
        let (rows, head) = store.log(query).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.seq.0).collect::<Vec<_>>(), wanted, "{case}");
        assert_eq!(head.head, Seq(7));
    }
    let log = whole_log(store).await;
    assert_eq!((log[3].cause, log[1].cause, log[6].run.clone()), (Some(Seq(3)), Some(Seq(1)), None));
    // A cause named by the request does not make the event a part of it.
    assert_eq!((log[3].part_index, log[3].first(), log[1].part_index, log[1].first()), (0, Seq(4), 1, Seq(1)));
}

async fn path_prefixes_are_compared_bytewise(world: &World) {
    let store = &*world.store;
    for agent in ["a", "b"] {
        submit_ok(store, register_agent(agent)).await;
    }
    let paths =
        ["src/B.rs", "src/a.rs", "src/é.rs", "src.rs", "src-old/x", "SRC/a.rs", "src/\u{10ffff}/x", "src%/x", "src_/x"];
    for path in paths {
        let granted = submit_ok(store, claim_file(path, "a")).await.reply;
        assert_eq!(granted, AnyReply::FileClaim(rookery_core::model::file::FileClaimOutcome::Granted), "{path}");
    }
    let mut sorted: Vec<&str> = paths.to_vec();
    sorted.sort_unstable();
    assert_eq!(ids(store, RowQuery::all(Table::Files)).await, sorted);
    // A subtree contains only the paths below it, not those that merely begin alike.
    for (subtree, free) in [("src/", false), ("src-old/", false), ("src%/", false), ("srca/", true), ("lib/", true)] {
        let answer = submit_ok(store, claim_file(subtree, "b")).await.reply;
        let granted = answer == AnyReply::FileClaim(rookery_core::model::file::FileClaimOutcome::Granted);
        assert_eq!(granted, free, "{subtree}");
    }
}

async fn unusual_texts_and_bodies_are_returned_unchanged(world: &World) {
    let store = &*world.store;
    let title = "nul \0, quote ' \" and \u{10ffff}";
    let bodies: [&[u8]; 6] = [
        br#"{"a":1,"a":2}"#,
        br#"{"text":"\ud800 \u0000"}"#,
        b"\xff\xfe not UTF-8",
        b"nul \0 in the middle",
        b"",
        "{ \"spaces\" :  1.0 }\r\n".as_bytes(),
    ];
    for (at, body) in bodies.iter().enumerate() {
        submit_ok(store, with_body(create_task(&format!("task_{at}"), title), body)).await;
    }
    let log = whole_log(store).await;
    for (row, body) in log.iter().zip(bodies) {
        let stored = row.body.as_ref().unwrap();
        assert_eq!(stored.bytes, BodyBytes::Here(body.to_vec()));
    }
    let (rows, _) = store.rows(vec![Key::Task("task_0".into())]).await.unwrap();
    assert!(matches!(&rows[0], Some(Row::Task(task)) if task.title == title));
    let (without, _) = store.log(LogQuery::after(Seq::ZERO, 10)).await.unwrap();
    assert!(without.iter().all(|row| row.body.is_none()));
    // An id with a NUL is one id, not only the part before it.
    submit_ok(store, create_task("task_nul\0a", "a")).await;
    submit_ok(store, create_task("task_nul\0b", "b")).await;
    let about = LogQuery { task: Some("task_nul\0a".to_owned()), ..LogQuery::newest(10) };
    assert_eq!(store.log(about).await.unwrap().0.len(), 1);
}

async fn large_body_is_returned_unchanged(world: &World) {
    let store = &*world.store;
    let body: Vec<u8> = (0..1024 * 1024_u32).map(|at| (at % 251) as u8).collect();
    for at in 0..3 {
        submit_ok(store, with_body(create_task(&format!("task_{at}"), "large"), &body)).await;
    }
    let query = LogQuery { bodies: Bodies::Read, ..LogQuery::newest(1) };
    let (rows, _) = store.log(query).await.unwrap();
    assert_eq!(rows[0].body.as_ref().unwrap().bytes, BodyBytes::Here(body));
}

async fn failure_within_a_batch_rejects_only_its_command(world: &World) {
    let store = &*world.store;
    let submissions = (0..512).map(|at| create_task(&format!("task_{}", if at == 256 { 255 } else { at }), "t"));
    let pending: Vec<_> = submissions.map(|submission| store.submit(submission)).collect();
    let mut rejected = Vec::new();
    for (at, pending) in pending.into_iter().enumerate() {
        match pending.await {
            Ok(_) => {}
            Err(SubmitError::Refused(refusal)) => rejected.push((at, refusal.code)),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(rejected, [(256, Code::AlreadyExists)]);
    assert_eq!(store.tallies().await.unwrap().0["tasks"], 511);
}

async fn concurrent_submitters_leave_no_gap(world: &World) {
    let mut submitters = Vec::new();
    for submitter in 0..8 {
        let store = world.store.clone();
        submitters.push(tokio::spawn(async move {
            let mut last = Seq::ZERO;
            for at in 0..25 {
                let created = submit_ok(&*store, create_task(&format!("task_{submitter}_{at}"), "t")).await;
                assert!(created.at > last);
                last = created.at;
                // A submitter reads its own write.
                let (rows, head) = store.log(LogQuery::one(created.at)).await.unwrap();
                assert!(head.head >= created.at && rows.len() == 1);
            }
        }));
    }
    for submitter in submitters {
        submitter.await.unwrap();
    }
    assert_eq!(whole_log(&*world.store).await.len(), 200);
}

async fn publications_follow_log_order(world: &World) {
    let mut published = world.store.published();
    let store = world.store.clone();
    let submitting = tokio::spawn(async move {
        let pending: Vec<_> = (0..300).map(|at| store.submit(create_task(&format!("task_{at}"), "t"))).collect();
        for pending in pending {
            pending.await.unwrap();
        }
    });
    let mut next = 1;
    while next <= 300 {
        let batch = published.recv().await.unwrap();
        for row in batch.rows() {
            assert_eq!(row.seq, Seq(next));
            next += 1;
        }
    }
    submitting.await.unwrap();
    // An acknowledged command has been published.
    submit_ok(&*world.store, create_task("task_last", "t")).await;
    assert_eq!(published.try_recv().unwrap().last(), Some(Seq(301)));
}

async fn redacted_row_keeps_its_place_and_hash(world: &World) {
    let store = &*world.store;
    let secret = || with_key(with_body(create_task("task_1", "the secret"), b"the secret"), "k", "h");
    submit_ok(store, secret()).await;
    let row = whole_log(store).await.remove(0);
    let hash = row.body.as_ref().unwrap().sha256.clone();
    let target = Target { seq: row.seq, fact: row.event.clone(), artifact: None };
    submit_ok(store, Submission::new(Caller::person("anna"), Redact { rows: vec![target] })).await;
    let log = whole_log(store).await;
    let body = log[0].body.clone().unwrap();
    assert_eq!((body.sha256, body.bytes), (hash, BodyBytes::Gone));
    assert!(!String::from_utf8(log[0].event.encode()).unwrap().contains("secret"));
    let (rows, _) = store.rows(vec![Key::Task("task_1".into())]).await.unwrap();
    assert!(matches!(&rows[0], Some(Row::Task(task)) if task.title == "[redacted]"));
    // A remembered reply is redacted too.
    let again = submit_ok(store, secret()).await;
    assert!(again.duplicate && !format!("{:?}", again.reply).contains("secret"), "{again:?}");
}

async fn operational_state_is_stored_and_not_logged(world: &World) {
    let store = &*world.store;
    let seen = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Call };
    let entries: Vec<(AgentId, Presence)> = vec![("a".into(), seen(1)), ("b".into(), seen(2))];
    store.operate(Operation::WritePresence(entries)).await.unwrap();
    store.operate(Operation::WritePresence(vec![("a".into(), seen(3))])).await.unwrap();
    let signs = store.presence().await.unwrap();
    let signs: Vec<(&str, Presence)> = signs.iter().map(|sign| (sign.agent.as_str(), sign.presence)).collect();
    assert_eq!(signs, [("a", seen(3)), ("b", seen(2))]);
    let token = |id: &str, label: &str| Token {
        id: id.to_owned(),
        hash: "h".to_owned(),
        subject: "a".to_owned(),
        power: Authority::Agent,
        created_at: Timestamp(1),
        expires_at: None,
        label: Some(label.to_owned()),
        browser: None,
    };
    for operation in [
        Operation::PutToken(token("one", "first")),
        Operation::PutToken(token("two", "second")),
        Operation::RenewToken(token("one", "changed")),
        Operation::RevokeToken { id: "two".to_owned() },
        Operation::RevokeToken { id: "none".to_owned() },
        // Renewing a revoked token does not restore it.
        Operation::RenewToken(token("two", "renewed")),
    ] {
        store.operate(operation).await.unwrap();
    }
    assert_eq!(store.tokens().await.unwrap(), [token("one", "changed")]);
    let outbox = |adapter: &str, version: u64, place: u64| EndpointCursor {
        adapter: adapter.to_owned(),
        version,
        place: Seq(place),
        attempts: 1,
        failing: None,
        dead: vec![],
    };
    let mut put = vec![];
    for (adapter, version, place) in [("b", 1, 7), ("a", 1, 3), ("a", 2, 4), ("a", 2, 9), ("a", 4, 9), ("a", 3, 5)] {
        put.push(store.operate(Operation::PutOutbox(outbox(adapter, version, place))).await.unwrap());
    }
    assert_eq!(put, [1, 1, 1, 0, 0, 1], "only over the previous version");
    assert_eq!(store.outboxes().await.unwrap(), [outbox("a", 3, 5), outbox("b", 1, 7)]);
    assert!(whole_log(store).await.is_empty());
}

async fn decisions_read_current_presence(world: &World) {
    use rookery_core::agents::DeclareOffline;
    use rookery_core::model::agent::Evidence;
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let offline = |last_seen| {
        let evidence =
            Evidence { last_seen: Timestamp(last_seen), source: Some(LifeSource::Call), limit_millis: 1_000 };
        Submission::new(Caller::system(), DeclareOffline { agent: "a".into(), evidence })
    };
    let seen = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Call };
    store.operate(Operation::WritePresence(vec![("a".into(), seen(50))])).await.unwrap();
    assert_eq!(submit_rejected(store, offline(40)).await, Code::Stale);
    world.board.saw(&"a".into(), seen(60));
    assert_eq!(submit_rejected(store, offline(50)).await, Code::Stale);
    submit_ok(store, offline(60)).await;
}

async fn artifact_is_kept_while_held_or_named(world: &World) {
    let store = &*world.store;
    for bytes in [b"".to_vec(), b"small".to_vec(), vec![7; 3 * 512 * 1024 + 1]] {
        let held = store.put_artifact(bytes.clone()).await.unwrap();
        let sha256 = held.sha256.clone();
        assert_eq!(sha256, sha256_hex(&bytes));
        assert_eq!(store.artifact(sha256.clone()).await.unwrap(), bytes);
        assert_eq!(store.release_hold(held).await.unwrap(), Erased::Gone);
        assert_eq!(store.artifact(sha256.clone()).await.unwrap_err(), ArtifactError::Absent { sha256: sha256.clone() });
        assert_eq!(store.erase_artifact(sha256).await.unwrap(), Erased::Gone);
    }
    let held = store.put_artifact(b"named".to_vec()).await.unwrap();
    let sha256 = held.sha256.clone();
    let mut naming = report("a", "built");
    naming.body = Some(Body { sha256: sha256.clone(), bytes: BodyBytes::Artifact });
    submit_ok(store, naming).await;
    assert_eq!(store.release_hold(held).await.unwrap(), Erased::Named);
    assert_eq!(store.erase_artifact(sha256.clone()).await.unwrap(), Erased::Named);
    assert_eq!(store.artifact(sha256).await.unwrap(), b"named");
    assert!(matches!(store.artifact("../x".to_owned()).await, Err(ArtifactError::Absent { .. })));
}

async fn leader_command_with_outdated_epoch_is_rejected(world: &World) {
    let store = &*world.store;
    let lease = store.renew_lease(node("node_a")).await.unwrap();
    assert_eq!(lease.tenures.len(), LeaderRole::ALL.len());
    assert_eq!(lease.nodes.iter().map(|seen| seen.node.id.as_str()).collect::<Vec<_>>(), ["node_a"]);
    let tenure = lease.tenures[0];
    submit_ok(store, report("a", "one").out_of(tenure)).await;
    let old = LeaderEpoch { epoch: tenure.epoch + 1, ..tenure };
    assert_eq!(submit_rejected(store, report("a", "two").out_of(old)).await, Code::Stale);
    assert_eq!(whole_log(store).await.len(), 1);
}

async fn log_page_ends_at_its_byte_limit(world: &World) {
    let store = &*world.store;
    for at in 0..6 {
        submit_ok(store, create_task(&format!("task_{at}"), &"t".repeat(400))).await;
    }
    for (bytes, count) in [(0, 0), (1, 1), (400, 1), (900, 2), (1_000_000, 6), (usize::MAX, 6)] {
        for (query, first) in [(LogQuery::after(Seq::ZERO, 6), 1), (LogQuery::newest(6), 6)] {
            let (rows, _) = store.log(LogQuery { bytes, ..query.clone() }).await.unwrap();
            assert_eq!(rows.len(), count, "{bytes} bytes from {first}");
            assert!(rows.first().is_none_or(|row| row.seq == Seq(first)));
        }
    }
}
