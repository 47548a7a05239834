//! Stores moved or copied into another store.

use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, Authority, Seq, Timestamp};
use rookery_store::artifact::ArtifactError;
use rookery_store::offline::{self, OfflineError, Origin, RelocateReport, Source};
use rookery_store::sqlite::offline::{Existing, backup, origin, restore, sink, source};
use rookery_store::sqlite::{OpenError, SqliteStore};
use rookery_store::{DeadLetter, EndpointCursor, Operation, Store, Token};
use rusqlite::Connection;

use crate::files::{StoreFolder, filled_log, read_log_and_id};
use crate::support::{create_task, open, options, submit_ok, verify, whole_log, with_key};

const TO: &str = "sqlite:elsewhere";

fn token(id: &str) -> Token {
    Token {
        id: id.to_owned(),
        hash: "h".to_owned(),
        subject: "a".to_owned(),
        power: Authority::Agent,
        created_at: Timestamp(1),
        expires_at: None,
        label: None,
        browser: None,
    }
}

/// A closed store with bodies of every kind and operational state.
async fn filled_store() -> StoreFolder {
    let folder = StoreFolder::new();
    filled_log(&folder).await;
    let store = open(&folder.database());
    for id in ["tok_b", "tok_a"] {
        store.operate(Operation::PutToken(token(id))).await.unwrap();
    }
    let seen = Presence { last_seen: Timestamp(77), source: LifeSource::Heartbeat };
    store.operate(Operation::WritePresence(vec![(AgentId::from("a"), seen)])).await.unwrap();
    let dead_letter =
        DeadLetter { seq: Seq(2), attempts: 3, error: "it answered 500".into(), at: Timestamp(5), again: false };
    for (version, dead) in [(1, vec![]), (2, vec![dead_letter])] {
        let outbox =
            EndpointCursor { adapter: "http:ci".into(), version, place: Seq(2), attempts: 0, failing: None, dead };
        store.operate(Operation::PutOutbox(outbox)).await.unwrap();
    }
    store.close().await;
    folder
}

fn move_to(folder: &StoreFolder, other: &StoreFolder) -> Result<RelocateReport, OfflineError> {
    move_as(folder, other, TO)
}

fn move_as(folder: &StoreFolder, other: &StoreFolder, to: &str) -> Result<RelocateReport, OfflineError> {
    let mut origin = origin(&folder.database(), folder.artifacts())?;
    offline::move_store(&mut origin, &mut sink(&other.database(), other.artifacts()), to, &mut |_| {})
}

fn copy_to(folder: &StoreFolder, other: &StoreFolder) -> Result<RelocateReport, OfflineError> {
    let mut source = source(&folder.database(), folder.artifacts())?;
    offline::copy_store(&mut source, &mut sink(&other.database(), other.artifacts()), &"log_b".into(), &mut |_| {})
}

/// Everything that a migration carries over, in the stored bytes.
fn travelling_contents(folder: &StoreFolder) -> impl PartialEq + std::fmt::Debug {
    let mut source = source(&folder.database(), folder.artifacts()).unwrap();
    let log = source.log(Seq::ZERO, u32::MAX).unwrap();
    let replies = source.replies(None, u32::MAX).unwrap();
    assert!(!log.is_empty() && !replies.is_empty());
    let operational = (source.tokens().unwrap(), source.outboxes().unwrap(), source.presence().unwrap(), replies);
    (log, operational, folder.artifacts().list().unwrap(), source.snapshot().project.clone())
}

fn assert_nothing_created(other: &StoreFolder) {
    let entries: Vec<_> = std::fs::read_dir(other.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let entries: Vec<_> = entries.into_iter().filter(|name| name != "rookery.db.lock" && name != "artifacts").collect();
    assert_eq!(entries, Vec::<std::ffi::OsString>::new());
    assert_eq!(other.artifacts().list().unwrap(), Vec::<String>::new());
}

fn is_closed(folder: &StoreFolder) -> bool {
    matches!(SqliteStore::open(options(&folder.database())), Err(OpenError::Moved { to, .. }) if to == TO)
}

#[tokio::test]
async fn migration_moves_everything_and_closes_the_old_store() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    let before = verify(&folder.database(), &mut |_| {}).unwrap();
    let (log, log_id) = read_log_and_id(&folder.database()).await;
    let report = move_to(&folder, &other).unwrap();
    assert_eq!((report.head.clone(), report.events), (before.head, log.len() as u64));
    assert_eq!((report.artifacts, report.tokens, report.replies), (2, 2, 5));
    assert_eq!(report.log_sha256, before.log_sha256);
    assert_eq!(travelling_contents(&folder), travelling_contents(&other));
    assert!(is_closed(&folder));
    // The old store can be read.
    assert_eq!(verify(&folder.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
    assert_eq!(folder.export(&mut vec![]).unwrap().rows, log.len() as u64);
    // The new store continues the same log with the same remembered replies.
    assert_eq!(read_log_and_id(&other.database()).await, (log, log_id));
    let store = open(&other.database());
    let again = submit_ok(&store, with_key(create_task("task_secret", "the secret"), "secret", "h")).await;
    assert!(again.duplicate);
    submit_ok(&store, create_task("task_new", "t")).await;
    assert_eq!(whole_log(&store).await.len() as u64, report.events + 1);
    store.close().await;
}

#[tokio::test]
async fn copy_has_its_own_log_id_and_may_run_beside_a_daemon() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    let store = open(&folder.database());
    assert!(matches!(move_to(&folder, &other), Err(OfflineError::Open(OpenError::Locked { .. }))));
    let report = copy_to(&folder, &other).unwrap();
    assert_eq!(report.head.log.as_str(), "log_b");
    submit_ok(&store, create_task("task_new", "t")).await;
    store.close().await;
    assert_eq!(read_log_and_id(&other.database()).await.0.len() as u64, report.events);
    assert_eq!(read_log_and_id(&folder.database()).await.0.len() as u64, report.events + 1);
}

#[tokio::test]
async fn migration_replaces_only_an_empty_store() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    let store = open(&other.database());
    assert!(matches!(move_to(&folder, &other), Err(OfflineError::Open(OpenError::Locked { .. }))));
    store.operate(Operation::PutToken(token("tok_1"))).await.unwrap();
    store.close().await;
    assert!(matches!(move_to(&folder, &other), Err(OfflineError::Exists { .. })));
    let store = open(&other.database());
    store.operate(Operation::RevokeToken { id: "tok_1".to_owned() }).await.unwrap();
    store.close().await;
    move_to(&folder, &other).unwrap();
    assert_eq!(travelling_contents(&folder), travelling_contents(&other));

    let (full, folder) = (StoreFolder::new(), filled_store().await);
    let store = open(&full.database());
    submit_ok(&store, create_task("task_1", "t")).await;
    store.close().await;
    assert!(matches!(move_to(&folder, &full), Err(OfflineError::Exists { .. })));
    assert!(matches!(copy_to(&folder, &full), Err(OfflineError::Exists { .. })));
    assert_eq!(read_log_and_id(&full.database()).await.0.len(), 1);
    std::fs::write(full.database(), b"something else").unwrap();
    assert!(matches!(move_to(&folder, &full), Err(OfflineError::Exists { .. })));
    open(&folder.database()).close().await;
}

#[tokio::test]
async fn failed_migration_leaves_the_old_store_in_use() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    let absent = move_to(&other, &folder);
    assert!(matches!(absent, Err(OfflineError::Open(OpenError::Absent { .. }))), "{absent:?}");
    let name = folder.artifacts().list().unwrap().remove(0);
    let file = folder.artifacts().folder().join(&name);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"other").unwrap();
    let damaged = move_to(&folder, &other);
    assert!(matches!(damaged, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{damaged:?}");
    assert_nothing_created(&other);
    std::fs::remove_file(&file).unwrap();
    let absent = move_to(&folder, &other);
    assert!(matches!(absent, Err(OfflineError::Artifact(ArtifactError::Absent { .. }))), "{absent:?}");
    assert_nothing_created(&other);
    std::fs::write(&file, bytes).unwrap();
    open(&folder.database()).close().await;

    let sound = std::fs::read(folder.database()).unwrap();
    for (tamper, expected) in [
        ("DELETE FROM log WHERE seq = 4", "the log goes from 3 to 5"),
        ("DELETE FROM log WHERE seq = (SELECT head FROM log_head)", "the log goes from"),
        ("UPDATE log SET body = x'00' WHERE seq = 3", "the body of 3 is not what its hash says"),
        ("UPDATE log SET kind = 'task.imagined' WHERE seq = 3", "log row 3 is unreadable"),
        ("UPDATE log_head SET format = 99", "format 99"),
    ] {
        std::fs::write(folder.database(), &sound).unwrap();
        Connection::open(folder.database()).unwrap().execute_batch(tamper).unwrap();
        let failed = move_to(&folder, &other).unwrap_err();
        assert!(failed.to_string().contains(expected), "{tamper}: {failed}");
        assert_nothing_created(&other);
        assert!(!is_closed(&folder), "{tamper}");
    }
    std::fs::write(folder.database(), &sound).unwrap();
    // Rows are rebuilt from the log, not copied.
    Connection::open(folder.database()).unwrap().execute_batch("DELETE FROM tasks").unwrap();
    move_to(&folder, &other).unwrap();
    assert_eq!(verify(&other.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
}

#[tokio::test]
async fn killed_migration_can_be_repeated() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    // Killed during the copy: the leftovers do not disturb the next try.
    std::fs::write(other.file("rookery.db.importing"), b"half a store").unwrap();
    std::fs::write(other.file("rookery.db.importing-journal"), b"half a journal").unwrap();
    // Killed after the old store was closed and before the new one was visible.
    origin(&folder.database(), folder.artifacts()).unwrap().leave(TO).unwrap();
    assert!(is_closed(&folder));
    let elsewhere = move_as(&folder, &other, "sqlite:somewhere");
    assert!(matches!(elsewhere, Err(OfflineError::Moved { to }) if to == TO));
    move_to(&folder, &other).unwrap();
    assert!(is_closed(&folder));
    assert_eq!(travelling_contents(&folder), travelling_contents(&other));
    let again = move_to(&folder, &other);
    assert!(matches!(again, Err(OfflineError::Moved { to }) if to == TO));
    assert!(!other.file("rookery.db.importing").exists());
}

#[tokio::test]
async fn migration_without_a_visible_target_keeps_the_origin_open() {
    let (folder, other) = (filled_store().await, StoreFolder::new());
    let mut target = sink(&other.database(), other.artifacts());
    let mut leaving = Obstructed { origin: origin(&folder.database(), folder.artifacts()).unwrap(), other: &other };
    let failed = offline::move_store(&mut leaving, &mut target, TO, &mut |_| {});
    assert!(matches!(failed, Err(OfflineError::File { .. } | OfflineError::Sql(_))), "{failed:?}");
    drop((leaving, target));
    assert!(other.artifacts().list().unwrap().is_empty() && !other.file("rookery.db.importing").exists());
    open(&folder.database()).close().await;
}

/// Blocks the path of the target just before it becomes visible.
struct Obstructed<'a, O> {
    origin: O,
    other: &'a StoreFolder,
}

impl<O: Origin> Origin for Obstructed<'_, O> {
    fn source(&mut self) -> &mut dyn Source {
        self.origin.source()
    }

    fn leave(&mut self, to: &str) -> Result<(), OfflineError> {
        std::fs::create_dir(self.other.database()).unwrap();
        self.origin.leave(to)
    }

    fn stay(&mut self) -> Result<(), OfflineError> {
        self.origin.stay()
    }
}

#[tokio::test]
async fn backup_of_a_moved_store_restores_to_a_writable_store() {
    let (folder, other, third) = (filled_store().await, StoreFolder::new(), StoreFolder::new());
    move_to(&folder, &other).unwrap();
    let saved = folder.file("a.backup");
    backup(&folder.database(), &folder.artifacts(), &saved, &mut |_| {}).unwrap();
    restore(&saved, &third.database(), &third.artifacts(), &"log_c".into(), Existing::Kept).unwrap();
    assert_eq!(read_log_and_id(&third.database()).await.1, "log_c");
}

/// Migrations from files into PostgreSQL and back.
mod postgres {
    use rookery_store::offline::Reply;
    use rookery_store::postgres::{OpenError as PostgresOpenError, PostgresStore, offline as shared_offline};
    use rookery_testkit::postgres::Schema;

    use super::*;
    use crate::support::{node, postgres_options};

    /// Runs blocking work on a thread that permits it.
    async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    async fn into_schema(folder: &StoreFolder, schema: &Schema) -> Result<RelocateReport, OfflineError> {
        let (path, artifacts, url) = (folder.database(), folder.artifacts(), schema.url());
        run_blocking(move || {
            let mut target = shared_offline::sink(url.parse().unwrap())?;
            let mut leaving = origin(&path, artifacts)?.of_project(Some("shop-1"));
            offline::move_store(&mut leaving, &mut target, &url, &mut |_| {})
        })
        .await
    }

    async fn out_of_schema(schema: &Schema, folder: &StoreFolder) -> Result<RelocateReport, OfflineError> {
        let (path, artifacts, url) = (folder.database(), folder.artifacts(), schema.url());
        run_blocking(move || {
            let mut leaving = shared_offline::origin(url.parse().unwrap())?;
            offline::move_store(&mut leaving, &mut sink(&path, artifacts), TO, &mut |_| {})
        })
        .await
    }

    async fn export_schema(schema: &Schema) -> Vec<u8> {
        let url = schema.url();
        run_blocking(move || {
            let mut lines = Vec::new();
            offline::export(&mut shared_offline::source(url.parse().unwrap()).unwrap(), &mut lines).unwrap();
            lines
        })
        .await
    }

    fn export_folder(folder: &StoreFolder) -> Vec<u8> {
        let mut lines = Vec::new();
        folder.export(&mut lines).unwrap();
        lines
    }

    /// State that is not in an export: tokens, outboxes, presence and replies.
    type Operational = (Vec<Token>, Vec<EndpointCursor>, Vec<(String, Presence)>, Vec<Reply>);

    fn operational_state(folder: &StoreFolder) -> Operational {
        let mut source = source(&folder.database(), folder.artifacts()).unwrap();
        let mut tokens = source.tokens().unwrap();
        tokens.sort_by(|one, other| one.id.cmp(&other.id));
        let signs = source.presence().unwrap().into_iter().map(|sign| (sign.agent.to_string(), sign.presence));
        let outboxes = source.outboxes().unwrap();
        (tokens, outboxes, signs.collect(), source.replies(None, u32::MAX).unwrap())
    }

    fn count_tables(schema: &Schema) -> String {
        let sql = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", schema.name());
        schema.psql(&sql).unwrap().trim().to_owned()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn migration_to_postgres_and_back_loses_nothing() {
        let (folder, schema, third) = (filled_store().await, Schema::new().unwrap(), StoreFolder::new());
        let (lines, before) = (export_folder(&folder), operational_state(&folder));
        let there = into_schema(&folder, &schema).await.unwrap();
        assert_eq!((there.artifacts, there.tokens, there.replies), (2, 2, 5));
        assert!(matches!(SqliteStore::open(options(&folder.database())), Err(OpenError::Moved { .. })));
        assert_eq!(export_schema(&schema).await, lines);

        let back = out_of_schema(&schema, &third).await.unwrap();
        assert_eq!((&back.head, &back.log_sha256), (&there.head, &there.log_sha256));
        assert_eq!((export_folder(&third), operational_state(&third)), (lines.clone(), before));
        assert_eq!(third.artifacts().list().unwrap(), folder.artifacts().list().unwrap());
        let project = source(&third.database(), third.artifacts()).unwrap().snapshot().project.clone();
        assert_eq!((project.id.as_deref(), project.name.as_str()), (Some("shop-1"), "test"));
        // The old store can be read and not written.
        let rejected = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await;
        assert!(matches!(rejected, Err(PostgresOpenError::Moved { to, .. }) if to == TO));
        assert_eq!(export_schema(&schema).await, lines);
        assert!(out_of_schema(&schema, &StoreFolder::new()).await.is_ok(), "a move is repeated");
        let store = open(&third.database());
        submit_ok(&store, create_task("task_new", "t")).await;
        store.close().await;
        assert_eq!(verify(&third.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn store_in_use_by_a_node_cannot_be_migrated_away() {
        let (folder, schema) = (filled_store().await, Schema::new().unwrap());
        let there = into_schema(&folder, &schema).await.unwrap();
        let store = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await.unwrap();
        let again = submit_ok(&store, with_key(create_task("task_secret", "the secret"), "secret", "h")).await;
        assert!(again.duplicate);
        submit_ok(&store, create_task("task_new", "t")).await;
        let log = whole_log(&store).await;
        assert_eq!(log.len() as u64, there.events + 1);
        store.renew_lease(node("node_a")).await.unwrap();
        let other = StoreFolder::new();
        let rejected = out_of_schema(&schema, &other).await;
        assert!(
            matches!(&rejected, Err(OfflineError::InUse { by }) if by.contains("process 1 on here")),
            "{rejected:?}"
        );
        assert_nothing_created(&other);
        // The node continues undisturbed.
        submit_ok(&store, create_task("task_more", "t")).await;
        store.leave_cluster("node_a".into()).await.unwrap();
        store.close().await;
        out_of_schema(&schema, &other).await.unwrap();
        assert_eq!(read_log_and_id(&other.database()).await.0.len(), log.len() + 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failed_migration_leaves_the_schema_unchanged() {
        let (folder, schema) = (filled_store().await, Schema::new().unwrap());
        let name = folder.artifacts().list().unwrap().remove(0);
        let file = folder.artifacts().folder().join(&name);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, b"other").unwrap();
        let damaged = into_schema(&folder, &schema).await;
        assert!(matches!(damaged, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{damaged:?}");
        assert_eq!(count_tables(&schema), "0");
        std::fs::write(&file, bytes).unwrap();

        // An empty store is replaced, one with rows is not.
        let store = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await.unwrap();
        submit_ok(&store, create_task("task_other", "t")).await;
        store.close().await;
        assert!(matches!(into_schema(&folder, &schema).await, Err(OfflineError::Exists { .. })));
        open(&folder.database()).close().await;
        let empty = Schema::new().unwrap();
        PostgresStore::open(postgres_options(&empty.url(), "node_a")).await.unwrap().close().await;
        into_schema(&folder, &empty).await.unwrap();
        let again = into_schema(&folder, &empty).await;
        assert!(matches!(&again, Err(OfflineError::Moved { to }) if *to == empty.url()), "{again:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn export_is_imported_into_postgres_and_verified() {
        let (folder, schema) = (filled_store().await, Schema::new().unwrap());
        let lines = export_folder(&folder);
        let (url, sound) = (schema.url(), lines.clone());
        let cut = lines[..lines.len() - 20].to_vec();
        let report = run_blocking(move || {
            let import = |mut lines: &[u8]| {
                offline::import(&mut lines, &mut shared_offline::sink(url.parse().unwrap())?, &"log_b".into())
            };
            assert!(matches!(import(&cut), Err(OfflineError::Line { .. })));
            import(&sound).unwrap();
            assert!(matches!(import(&sound), Err(OfflineError::Exists { .. })));
            offline::verify(&mut shared_offline::source(url.parse().unwrap()).unwrap(), &mut |_| {}).unwrap()
        })
        .await;
        assert_eq!((report.head.log.as_str(), report.differences), ("log_b", vec![]));
        assert_eq!(report.log_sha256, verify(&folder.database(), &mut |_| {}).unwrap().log_sha256);
    }
}
