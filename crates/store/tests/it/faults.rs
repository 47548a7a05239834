//! A faulty disk: no false acknowledgement, reads keep working, and no restart is needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_core::files::RecordUntracked;
use rookery_core::{Caller, Key, Seq};
use rookery_store::sqlite::{Faults, Options, SqliteStore, Step};
use rookery_store::store::{Health, ReadOnlyCause};
use rookery_store::{Operation, RowQuery, Store, Submission, SubmitError};
use rusqlite::Connection;

use crate::support::{
    create_task, database, open, options, register_agent, replay_matches, report, submit_ok, submit_rejected,
    whole_log, with_body, with_key,
};

const FULL: i32 = 13;
const IO: i32 = 10;
const READ_ONLY: i32 = 8;
const CORRUPT: i32 = 11;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Code(i32),
    Panic,
}

/// Raises each armed fault whenever its step comes; the gate holds the writer at its next transaction.
#[derive(Debug, Default)]
struct Trap {
    armed: Mutex<HashMap<Step, Fault>>,
    /// The fault that the first raised fault arms.
    next: Mutex<Option<(Step, Fault)>>,
    gate: Mutex<()>,
    full: Mutex<bool>,
}

impl Trap {
    fn arm(&self, faults: impl IntoIterator<Item = (Step, Fault)>) {
        *self.armed.lock().unwrap() = faults.into_iter().collect();
    }
}

impl Faults for Trap {
    fn before(&self, step: Step, connection: &Connection) -> rusqlite::Result<()> {
        if step == Step::Begin {
            drop(self.gate.lock().unwrap());
            let most = if *self.full.lock().unwrap() { 1 } else { 4_294_967_294_i64 };
            // SQLite never goes below the present size, so no further page fits.
            connection.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()))?;
        }
        let armed = self.armed.lock().unwrap().get(&step).copied();
        if armed.is_some() {
            self.armed.lock().unwrap().extend(self.next.lock().unwrap().take());
        }
        match armed {
            Some(Fault::Code(code)) => Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)),
            Some(Fault::Panic) => panic!("a trap at {step:?}"),
            None => Ok(()),
        }
    }
}

struct StoreWithTrap {
    trap: Arc<Trap>,
    store: SqliteStore,
    folder: tempfile::TempDir,
}

fn store_with_trap(change: impl FnOnce(&mut Options)) -> StoreWithTrap {
    let folder = tempfile::tempdir().unwrap();
    let trap = Arc::new(Trap::default());
    let mut options = options(&database(&folder));
    options.faults = Some(trap.clone());
    options.upkeep.probe = Duration::from_secs(3_600);
    change(&mut options);
    StoreWithTrap { trap, store: SqliteStore::open(options).unwrap(), folder }
}

const WRITING: [Step; 7] = [Step::Begin, Step::Load, Step::Log, Step::Rows, Step::Tallies, Step::Replies, Step::Commit];

#[tokio::test]
async fn fault_at_any_step_is_unavailable_and_needs_no_restart() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    submit_ok(&store, create_task("task_0", "before")).await;
    for (at, (step, code)) in
        WRITING.into_iter().flat_map(|step| [FULL, IO, READ_ONLY].map(|code| (step, code))).enumerate()
    {
        let before = whole_log(&store).await;
        trap.arm([(step, Fault::Code(code))]);
        let submission =
            || with_key(with_body(create_task(&format!("task_{}", at + 1), "t"), b"body"), &at.to_string(), "h");
        let failed = store.submit(submission()).await;
        assert!(matches!(failed, Err(SubmitError::Unavailable { .. })), "{step:?} {code}: {failed:?}");
        assert!(matches!(store.health(), Health::ReadOnly { .. }), "{step:?} {code}");
        assert_eq!(whole_log(&store).await, before, "{step:?} {code}");
        trap.arm([]);
        let written = submit_ok(&store, submission()).await;
        assert!(!written.duplicate, "{step:?} {code}");
        assert_eq!(store.health(), Health::Writable);
    }
    replay_matches(&store).await;
    store.close().await;
}

#[tokio::test]
async fn commit_with_lost_answer_is_recognized_as_committed() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    let mut published = store.published();
    trap.arm([(Step::Committed, Fault::Code(IO))]);
    assert_eq!(submit_ok(&store, create_task("task_1", "t")).await.at, Seq(1));
    assert_eq!(published.try_recv().unwrap().last(), Some(Seq(1)));
    trap.arm([]);
    replay_matches(&store).await;
}

#[tokio::test]
async fn unsynced_commit_is_not_acknowledged() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    let mut published = store.published();
    trap.arm([(Step::Committed, Fault::Code(IO))]);
    *trap.next.lock().unwrap() = Some((Step::Begin, Fault::Code(IO)));
    let unknown = store.submit(create_task("task_1", "t")).await;
    assert!(matches!(unknown, Err(SubmitError::OutcomeUnknown { .. })), "{unknown:?}");
    assert!(published.try_recv().is_err());
    trap.arm([]);
    assert_eq!(submit_ok(&store, create_task("task_2", "t")).await.at, Seq(2));
    assert_eq!(published.try_recv().unwrap().last(), Some(Seq(1)));
    replay_matches(&store).await;
}

#[tokio::test]
async fn undeterminable_commit_outcome_is_reported_as_unknown() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    let mut published = store.published();
    for step in [Step::Commit, Step::Committed] {
        trap.arm([(step, Fault::Code(IO)), (Step::Compare, Fault::Code(IO))]);
        let unknown = store.submit(create_task(&format!("task_{step:?}"), "t")).await;
        assert!(matches!(unknown, Err(SubmitError::OutcomeUnknown { .. })), "{unknown:?}");
    }
    trap.arm([]);
    // The second command did commit: subscribers get it before the next one.
    assert_eq!(submit_ok(&store, create_task("task_next", "t")).await.at, Seq(2));
    let batches = [published.try_recv().unwrap(), published.try_recv().unwrap()];
    assert_eq!(batches.map(|batch| batch.last().unwrap()), [Seq(1), Seq(2)]);
    let (rows, _) =
        store.rows(vec![Key::Task("task_Commit".into()), Key::Task("task_Committed".into())]).await.unwrap();
    assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    replay_matches(&store).await;
}

#[tokio::test]
async fn poisonous_command_fails_alone() {
    let StoreWithTrap { trap, store, folder } = store_with_trap(|_| {});
    let beside = Connection::open(database(&folder)).unwrap();
    beside
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON log WHEN new.actor = 'poison'
             BEGIN SELECT RAISE(ABORT, 'poison'); END",
        )
        .unwrap();
    let gate = trap.gate.lock().unwrap();
    let pending: Vec<_> = (0..21)
        .map(|at| store.submit(if at == 10 { report("poison", "x") } else { create_task(&format!("task_{at}"), "t") }))
        .collect();
    drop(gate);
    let mut broken = Vec::new();
    for (at, pending) in pending.into_iter().enumerate() {
        match pending.await {
            Ok(_) => {}
            Err(SubmitError::Broken { reason }) => broken.push((at, reason)),
            Err(other) => panic!("{at}: {other}"),
        }
    }
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].0 == 10 && broken[0].1.contains("poison"), "{broken:?}");
    assert_eq!(store.health(), Health::Writable);
    assert_eq!(whole_log(&store).await.len(), 20);
    replay_matches(&store).await;
}

#[tokio::test]
async fn panic_fails_the_command_and_not_the_writer() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    for step in WRITING {
        trap.arm([(step, Fault::Panic)]);
        let broken = store.submit(create_task("task_1", "t")).await;
        assert!(matches!(&broken, Err(SubmitError::Broken { reason }) if reason.contains("trap")), "{broken:?}");
        assert!(whole_log(&store).await.is_empty(), "{step:?}");
    }
    trap.arm([]);
    submit_ok(&store, create_task("task_1", "t")).await;
    replay_matches(&store).await;
}

#[tokio::test]
async fn damaged_store_is_read_only_until_it_is_opened_again() {
    let StoreWithTrap { trap, store, folder } =
        store_with_trap(|options| options.upkeep.probe = Duration::from_millis(5));
    trap.arm([(Step::Load, Fault::Code(CORRUPT))]);
    let gate = trap.gate.lock().unwrap();
    let loading = store.submit(create_task("task_1", "t"));
    // A command that would not touch the damage is rejected too.
    let other = || Submission::new(Caller::watcher(), RecordUntracked { changed: 1, sample: vec![], site: None });
    let beside = store.submit(other());
    drop(gate);
    assert!(matches!(loading.await, Err(SubmitError::Unavailable { .. })));
    assert!(matches!(beside.await, Err(SubmitError::Unavailable { .. })));
    trap.arm([]);
    for _ in 0..3 {
        let rejected = store.submit(other()).await;
        assert!(
            matches!(&rejected, Err(SubmitError::Unavailable { reason }) if reason.contains("damaged")),
            "{rejected:?}"
        );
    }
    let Health::ReadOnly { reason, .. } = store.health() else { panic!("the store takes writes") };
    assert!(reason.contains("restore a backup"), "{reason}");
    assert_eq!(whole_log(&store).await.len(), 0);
    store.close().await;
    let again = open(&database(&folder));
    submit_ok(&again, other()).await;
    replay_matches(&again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_is_reported_and_recovery_is_noticed() {
    let StoreWithTrap { trap, store, folder: _folder } =
        store_with_trap(|options| options.upkeep.probe = Duration::from_millis(5));
    submit_ok(&store, register_agent("a")).await;
    *trap.full.lock().unwrap() = true;
    let large = || with_body(create_task("task_large", "t"), &vec![7; 300_000]);
    let failed = store.submit(large()).await;
    assert!(matches!(&failed, Err(SubmitError::Unavailable { reason }) if reason.contains("full")), "{failed:?}");
    assert!(matches!(store.health(), Health::ReadOnly { cause: ReadOnlyCause::Interruption, .. }));
    // Reads go on, and so do refusals: neither needs room.
    assert_eq!(store.list(RowQuery::all(rookery_core::Table::Agents)).await.unwrap().0.len(), 1);
    assert_eq!(submit_rejected(&store, create_task("task_2", "")).await, rookery_core::Code::Invalid);
    assert!(matches!(store.health(), Health::ReadOnly { .. }));
    *trap.full.lock().unwrap() = false;
    while store.health() != Health::Writable {
        tokio::task::yield_now().await;
    }
    submit_ok(&store, large()).await;
    replay_matches(&store).await;
    store.close().await;
}

#[tokio::test]
async fn failed_operational_write_is_reported() {
    let StoreWithTrap { trap, store, folder: _folder } = store_with_trap(|_| {});
    trap.arm([(Step::Begin, Fault::Code(FULL))]);
    let revoke = || Operation::RevokeToken { id: "x".to_owned() };
    let failed = store.operate(revoke()).await;
    assert!(matches!(failed, Err(SubmitError::Unavailable { .. })), "{failed:?}");
    trap.arm([(Step::Begin, Fault::Panic)]);
    assert!(matches!(store.operate(revoke()).await, Err(SubmitError::Broken { .. })));
    trap.arm([(Step::Commit, Fault::Code(IO))]);
    assert!(matches!(store.operate(revoke()).await, Err(SubmitError::OutcomeUnknown { .. })));
    trap.arm([]);
    store.operate(revoke()).await.unwrap();
    assert_eq!(store.health(), Health::Writable);
}

#[tokio::test]
async fn removed_database_file_rejects_writes() {
    let StoreWithTrap { trap: _, store, folder } = store_with_trap(|_| {});
    submit_ok(&store, create_task("task_1", "t")).await;
    let (path, kept) = (database(&folder), folder.path().join("kept"));
    std::fs::hard_link(&path, &kept).unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        let failed = store.submit(create_task("task_2", "t")).await;
        assert!(
            matches!(&failed, Err(SubmitError::Unavailable { reason }) if reason.contains("removed")),
            "{failed:?}"
        );
    }
    assert!(matches!(store.health(), Health::ReadOnly { .. }) && !path.exists());
    // Another file in its place is not used either.
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(store.submit(create_task("task_2", "t")).await, Err(SubmitError::Unavailable { .. })));
    std::fs::rename(&kept, &path).unwrap();
    submit_ok(&store, create_task("task_2", "t")).await;
    replay_matches(&store).await;
}
