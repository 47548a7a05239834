//! Opening and closing: one daemon per store, older and newer stores, damage, and upkeep of the write-ahead log.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_core::{Key, Row, Seq, Table};
use rookery_store::offline::OfflineError;
use rookery_store::sqlite::{OpenError, Reader, SqliteStore, Upkeep, holder, offline};
use rookery_store::store::{Health, ReadOnlyCause, RowVisitor};
use rookery_store::{FORMAT, LogQuery, ReadError, RowQuery, Store, SubmitError};
use rusqlite::Connection;

use crate::support::{
    artifacts_of, create_task, database, open, options, register_agent, replay_matches, submit_ok, verify, whole_log,
    with_body, with_key,
};

fn execute_sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn second_open_fails_at_once_and_names_the_first_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&path);
    let second = SqliteStore::open(options(&path)).unwrap_err();
    assert!(matches!(second, OpenError::Locked { pid: Some(pid), url: None } if pid == std::process::id()));
    store.announce("http://127.0.0.1:4700").unwrap();
    let second = SqliteStore::open(options(&path)).unwrap_err().to_string();
    assert!(second.contains(&std::process::id().to_string()) && second.contains("http://127.0.0.1:4700"), "{second}");
    assert_eq!(holder(&path).unwrap().url.as_deref(), Some("http://127.0.0.1:4700"));
    // A reader needs no lock.
    submit_ok(&store, create_task("task_1", "t")).await;
    let reader = Reader::open(&path, 2).unwrap();
    assert_eq!(reader.log(LogQuery::newest(10)).await.unwrap().0.len(), 1);
    store.close().await;
    assert_eq!(holder(&path), None);
    open(&path).close().await;
}

#[tokio::test]
async fn reopened_store_returns_its_log_and_replies() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&path);
    submit_ok(&store, register_agent("a")).await;
    let first = submit_ok(&store, with_key(create_task("task_1", "t"), "k", "h")).await;
    let log = whole_log(&store).await;
    store.close().await;
    assert_eq!(store.submit(create_task("task_2", "t")).await.unwrap_err(), SubmitError::Stopped);
    assert!(store.log(LogQuery::newest(1)).await.is_err());
    let mut again = options(&path);
    again.log_id = "log_other".into();
    let store = SqliteStore::open(again).unwrap();
    assert_eq!(whole_log(&store).await, log);
    let repeated = submit_ok(&store, with_key(create_task("task_9", "t"), "k", "h")).await;
    assert_eq!((repeated.reply, repeated.duplicate), (first.reply, true));
    let (_, head) = store.rows(vec![]).await.unwrap();
    assert_eq!((head.log.as_str(), head.head), ("log_test", Seq(3)));
    replay_matches(&store).await;
}

#[tokio::test]
async fn shutdown_completes_queued_submissions() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&database(&folder));
    let pending: Vec<_> = (0..100).map(|at| store.submit(create_task(&format!("task_{at}"), "t"))).collect();
    store.close().await;
    for pending in pending {
        pending.await.unwrap();
    }
    assert_eq!(verify(&database(&folder), &mut |_| {}).unwrap().facts, 100);
}

#[tokio::test]
async fn rows_of_an_older_format_are_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&path);
    submit_ok(&store, register_agent("a")).await;
    for at in 0..5 {
        submit_ok(&store, create_task(&format!("task_{at}"), "t")).await;
    }
    store.close().await;
    execute_sql(
        &path,
        "UPDATE log_head SET format = 0; DELETE FROM tasks WHERE key = 'task_1'; UPDATE tallies SET n = 77;
         UPDATE tasks SET doc = x'00' WHERE key = 'task_2'; INSERT INTO leadership VALUES ('old', x'7b7d')",
    );
    let store = open(&path);
    replay_matches(&store).await;
    store.close().await;
    assert_eq!(verify(&path, &mut |_| {}).unwrap().differences, Vec::<String>::new());
}

#[tokio::test]
async fn store_of_a_newer_program_is_read_only() {
    for newer in [
        format!("UPDATE log_head SET format = {}", FORMAT + 1),
        "INSERT INTO schema_version (version, name) VALUES (99, 'future')".to_owned(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = database(&folder);
        let store = open(&path);
        submit_ok(&store, create_task("task_1", "t")).await;
        store.close().await;
        execute_sql(&path, &newer);
        let store = open(&path);
        assert!(matches!(store.health(), Health::ReadOnly { cause: ReadOnlyCause::Unfit, .. }), "{newer}");
        let refused = store.submit(create_task("task_2", "t")).await.unwrap_err();
        assert!(matches!(&refused, SubmitError::Unavailable { reason } if reason.contains("program")), "{refused}");
        assert_eq!(store.rows(vec![Key::Task("task_1".into())]).await.unwrap().0.iter().flatten().count(), 1);
        store.close().await;
    }
}

#[tokio::test]
async fn store_of_a_development_version_is_rejected_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&path);
    submit_ok(&store, create_task("task_1", "t")).await;
    store.close().await;
    // A development version had another first migration, and more migrations.
    let development = "UPDATE schema_version SET name = 'initial'; INSERT INTO schema_version VALUES (13, 'teams');
        UPDATE log_head SET format = 9; UPDATE log SET version = 4";
    execute_sql(&path, development);
    let before = std::fs::read(&path).unwrap();
    let rejected = SqliteStore::open(options(&path)).unwrap_err();
    assert!(matches!(&rejected, OpenError::Development { path: found } if *found == path), "{rejected}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn store_upgraded_while_open_rejects_writes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&database(&folder));
    submit_ok(&store, create_task("task_1", "t")).await;
    execute_sql(&database(&folder), &format!("UPDATE log_head SET format = {}", FORMAT + 1));
    assert!(matches!(store.submit(create_task("task_2", "t")).await, Err(SubmitError::Unavailable { .. })));
    execute_sql(&database(&folder), &format!("UPDATE log_head SET format = {FORMAT}"));
    submit_ok(&store, create_task("task_2", "t")).await;
    assert_eq!(store.health(), Health::Writable);
}

#[tokio::test]
async fn database_of_another_program_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    execute_sql(&path, "CREATE TABLE theirs (a INTEGER)");
    assert!(matches!(SqliteStore::open(options(&path)), Err(OpenError::Foreign { .. })));
    std::fs::write(&path, b"not a database at all, but long enough to be looked at".repeat(100)).unwrap();
    assert!(matches!(SqliteStore::open(options(&path)), Err(OpenError::Sql { .. })));
    assert!(matches!(Reader::open(&folder.path().join("none.db"), 1), Err(OpenError::Absent { .. })));
}

#[tokio::test]
async fn damaged_file_is_found_after_an_unclean_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&path);
    for at in 0..50 {
        submit_ok(&store, with_body(create_task(&format!("task_{at}"), "t"), &[1; 3_000])).await;
    }
    store.close().await;
    let mut bytes = std::fs::read(&path).unwrap();
    // Far enough back that the beginning of the log is intact.
    let behind = bytes.len() / 4 * 3 / 4096 * 4096;
    bytes[behind..behind + 4 * 4096].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    execute_sql(&path, "UPDATE meta SET value = '0' WHERE name = 'clean'");
    let store = open(&path);
    let Health::ReadOnly { reason, cause } = store.health() else { panic!("the damage was not found") };
    assert!(reason.contains("damaged") && cause == ReadOnlyCause::Damage, "{reason}, {cause:?}");
    assert!(matches!(store.submit(create_task("task_x", "t")).await, Err(SubmitError::Unavailable { .. })));
    assert!(store.log(LogQuery::after(Seq::ZERO, 1)).await.is_ok());
    store.close().await;
}

/// A store with a damaged task index, and an intact log and head.
async fn damage_task_index(path: &Path) {
    let store = open(path);
    for at in 0..200 {
        submit_ok(&store, with_body(create_task(&format!("task_{at}"), "t"), &[1; 3_000])).await;
    }
    store.close().await;
    let connection = Connection::open(path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'";
    let page: u32 = connection.query_row(root, [], |row| row.get(0)).unwrap();
    let page = page as usize;
    drop(connection);
    let mut bytes = std::fs::read(path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn store_is_read_only_after_a_read_meets_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    damage_task_index(&path).await;
    let store = open(&path);
    assert_eq!(store.health(), Health::Writable, "no damaged page was read yet");
    let read = store.list(RowQuery::all(Table::Tasks)).await;
    assert!(matches!(read, Err(ReadError::Corrupt { .. })), "{read:?}");
    let Health::ReadOnly { reason, cause } = store.health() else { panic!("the store takes writes") };
    assert_eq!(cause, ReadOnlyCause::Damage);
    assert!(reason.contains("damaged") && reason.contains("restore a backup"), "{reason}");
    let rejected = store.submit(register_agent("a")).await;
    assert!(
        matches!(&rejected, Err(SubmitError::Unavailable { reason }) if reason.contains("damaged")),
        "{rejected:?}"
    );
    assert!(store.log(LogQuery::after(Seq::ZERO, 1)).await.is_ok(), "intact rows can be read");
    store.close().await;
}

#[tokio::test]
async fn backup_of_a_damaged_store_fails_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    damage_task_index(&path).await;
    let to = folder.path().join("backup.db");
    let report = offline::backup(&path, &artifacts_of(&path), &to, &mut |_| {});
    assert!(matches!(&report, Err(OfflineError::Damaged { .. })), "{report:?}");
    assert!(!to.exists());
}

#[test]
fn empty_file_is_no_new_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, b"").unwrap();
    let opened = SqliteStore::open(options(&path));
    assert!(matches!(&opened, Err(OpenError::Empty { .. })), "{opened:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

/// Waits at the first row until it is told to resume.
struct Pausing {
    rows: usize,
    paused: Option<tokio::sync::oneshot::Sender<()>>,
    resume: std::sync::mpsc::Receiver<()>,
}

impl RowVisitor for Pausing {
    fn begin(&mut self) {}

    fn visit(&mut self, _: Row) {
        self.rows += 1;
        if let Some(paused) = self.paused.take() {
            paused.send(()).unwrap();
            self.resume.recv().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_committed_during_a_visit_are_not_visited() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&database(&folder)));
    submit_ok(&*store, create_task("task_1", "one")).await;
    let before = submit_ok(&*store, create_task("task_2", "two")).await.at;
    let ((pause, paused), (resume, resumed)) = (tokio::sync::oneshot::channel(), std::sync::mpsc::channel());
    let visitor = Arc::new(Mutex::new(Pausing { rows: 0, paused: Some(pause), resume: resumed }));
    let visiting = tokio::spawn({
        let (store, visitor) = (store.clone(), visitor.clone());
        async move { store.visit(vec![RowQuery::all(Table::Tasks)], visitor).await }
    });
    paused.await.unwrap();
    submit_ok(&*store, create_task("task_3", "three")).await;
    resume.send(()).unwrap();
    let ((), head) = visiting.await.unwrap().unwrap();
    assert_eq!((visitor.lock().unwrap().rows, head.head), (2, before));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_upkeep_does_not_disturb_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let mut eager = options(&path);
    let millis = Duration::from_millis;
    eager.upkeep = Upkeep {
        every: millis(1),
        above_bytes: 0,
        bound_bytes: 200_000,
        idle: millis(1),
        idle_after_redaction: millis(1),
        probe: millis(1),
    };
    let store = Arc::new(SqliteStore::open(eager).unwrap());
    let submitters: Vec<_> = (0..4)
        .map(|submitter| {
            let store = store.clone();
            tokio::spawn(async move {
                for at in 0..50 {
                    let id = format!("task_{submitter}_{at}");
                    submit_ok(&*store, with_body(create_task(&id, "t"), &[1; 2_000])).await;
                    let (rows, _) = store.list(RowQuery::all(Table::Tasks)).await.unwrap();
                    assert!(rows.len() > at);
                }
            })
        })
        .collect();
    for submitter in submitters {
        submitter.await.unwrap();
    }
    replay_matches(&*store).await;
    // The write-ahead log is reset once the store is idle.
    while std::fs::metadata(path.with_file_name("rookery.db-wal")).unwrap().len() > 0 {
        tokio::task::yield_now().await;
    }
    store.close().await;
    assert_eq!(verify(&path, &mut |_| {}).unwrap().facts, 200);
}
