//! A store moved or copied into another one.

use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, Authority, Seq, Timestamp};
use rookery_store::artifact::ArtifactError;
use rookery_store::offline::{self, OfflineError, Origin, RelocateReport, Source};
use rookery_store::sqlite::offline::{Existing, backup, origin, restore, sink, source};
use rookery_store::sqlite::{OpenError, SqliteStore};
use rookery_store::{DeadLetter, EndpointCursor, Operation, Store, Token};
use rusqlite::Connection;

use crate::files::{StoreFolder, filled, log_of};
use crate::support::{create, done, open, options, verify, whole_log, with_key};

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

/// A store with bodies of every kind and operational state, closed.
async fn lived_in() -> StoreFolder {
    let place = StoreFolder::new();
    filled(&place).await;
    let store = open(&place.database());
    for id in ["tok_b", "tok_a"] {
        store.operate(Operation::PutToken(token(id))).await.unwrap();
    }
    let seen = Presence { last_seen: Timestamp(77), source: LifeSource::Heartbeat };
    store.operate(Operation::WritePresence(vec![(AgentId::from("a"), seen)])).await.unwrap();
    let letter =
        DeadLetter { seq: Seq(2), attempts: 3, error: "it answered 500".into(), at: Timestamp(5), again: false };
    for (version, dead) in [(1, vec![]), (2, vec![letter])] {
        let outbox =
            EndpointCursor { adapter: "http:ci".into(), version, place: Seq(2), attempts: 0, failing: None, dead };
        store.operate(Operation::PutOutbox(outbox)).await.unwrap();
    }
    store.close().await;
    place
}

fn move_to(place: &StoreFolder, other: &StoreFolder) -> Result<RelocateReport, OfflineError> {
    move_as(place, other, TO)
}

fn move_as(place: &StoreFolder, other: &StoreFolder, to: &str) -> Result<RelocateReport, OfflineError> {
    let mut origin = origin(&place.database(), place.artifacts())?;
    offline::move_store(&mut origin, &mut sink(&other.database(), other.artifacts()), to, &mut |_| {})
}

fn copy_to(place: &StoreFolder, other: &StoreFolder) -> Result<RelocateReport, OfflineError> {
    let mut source = source(&place.database(), place.artifacts())?;
    offline::copy_store(&mut source, &mut sink(&other.database(), other.artifacts()), &"log_b".into(), &mut |_| {})
}

/// Everything that travels, in the bytes that are stored.
fn contents(place: &StoreFolder) -> impl PartialEq + std::fmt::Debug {
    let mut source = source(&place.database(), place.artifacts()).unwrap();
    let log = source.log(Seq::ZERO, u32::MAX).unwrap();
    let replies = source.replies(None, u32::MAX).unwrap();
    assert!(!log.is_empty() && !replies.is_empty());
    let operational = (source.tokens().unwrap(), source.outboxes().unwrap(), source.presence().unwrap(), replies);
    (log, operational, place.artifacts().list().unwrap(), source.snapshot().project.clone())
}

fn nothing_was_made(other: &StoreFolder) {
    let left: Vec<_> = std::fs::read_dir(other.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left: Vec<_> = left.into_iter().filter(|name| name != "rookery.db.lock" && name != "artifacts").collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
    assert_eq!(other.artifacts().list().unwrap(), Vec::<String>::new());
}

fn closed(place: &StoreFolder) -> bool {
    matches!(SqliteStore::open(options(&place.database())), Err(OpenError::Moved { to, .. }) if to == TO)
}

#[tokio::test]
async fn a_move_takes_everything_and_closes_what_it_left() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    let before = verify(&place.database(), &mut |_| {}).unwrap();
    let (log, log_id) = log_of(&place.database()).await;
    let report = move_to(&place, &other).unwrap();
    assert_eq!((report.head.clone(), report.events), (before.head, log.len() as u64));
    assert_eq!((report.artifacts, report.tokens, report.replies), (2, 2, 5));
    assert_eq!(report.log_sha256, before.log_sha256);
    assert_eq!(contents(&place), contents(&other));
    assert!(closed(&place));
    // What was left can be read.
    assert_eq!(verify(&place.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
    assert_eq!(place.export(&mut vec![]).unwrap().rows, log.len() as u64);
    // What arrived goes on: the same log, the same promises.
    assert_eq!(log_of(&other.database()).await, (log, log_id));
    let store = open(&other.database());
    let again = done(&store, with_key(create("task_secret", "the secret"), "secret", "h")).await;
    assert!(again.duplicate);
    done(&store, create("task_new", "t")).await;
    assert_eq!(whole_log(&store).await.len() as u64, report.events + 1);
    store.close().await;
}

#[tokio::test]
async fn a_copy_is_a_log_of_its_own_and_may_be_taken_beside_a_daemon() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    let store = open(&place.database());
    assert!(matches!(move_to(&place, &other), Err(OfflineError::Open(OpenError::Locked { .. }))));
    let report = copy_to(&place, &other).unwrap();
    assert_eq!(report.head.log.as_str(), "log_b");
    done(&store, create("task_new", "t")).await;
    store.close().await;
    assert_eq!(log_of(&other.database()).await.0.len() as u64, report.events);
    assert_eq!(log_of(&place.database()).await.0.len() as u64, report.events + 1);
}

#[tokio::test]
async fn only_an_empty_store_is_replaced() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    let store = open(&other.database());
    assert!(matches!(move_to(&place, &other), Err(OfflineError::Open(OpenError::Locked { .. }))));
    store.operate(Operation::PutToken(token("tok_1"))).await.unwrap();
    store.close().await;
    assert!(matches!(move_to(&place, &other), Err(OfflineError::Exists { .. })));
    let store = open(&other.database());
    store.operate(Operation::RevokeToken { id: "tok_1".to_owned() }).await.unwrap();
    store.close().await;
    move_to(&place, &other).unwrap();
    assert_eq!(contents(&place), contents(&other));

    let (full, place) = (StoreFolder::new(), lived_in().await);
    let store = open(&full.database());
    done(&store, create("task_1", "t")).await;
    store.close().await;
    assert!(matches!(move_to(&place, &full), Err(OfflineError::Exists { .. })));
    assert!(matches!(copy_to(&place, &full), Err(OfflineError::Exists { .. })));
    assert_eq!(log_of(&full.database()).await.0.len(), 1);
    std::fs::write(full.database(), b"something else").unwrap();
    assert!(matches!(move_to(&place, &full), Err(OfflineError::Exists { .. })));
    open(&place.database()).close().await;
}

#[tokio::test]
async fn what_cannot_be_moved_whole_stays_where_it_is() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    let absent = move_to(&other, &place);
    assert!(matches!(absent, Err(OfflineError::Open(OpenError::Absent { .. }))), "{absent:?}");
    let name = place.artifacts().list().unwrap().remove(0);
    let file = place.artifacts().folder().join(&name);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"other").unwrap();
    let damaged = move_to(&place, &other);
    assert!(matches!(damaged, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{damaged:?}");
    nothing_was_made(&other);
    std::fs::remove_file(&file).unwrap();
    let absent = move_to(&place, &other);
    assert!(matches!(absent, Err(OfflineError::Artifact(ArtifactError::Absent { .. }))), "{absent:?}");
    nothing_was_made(&other);
    std::fs::write(&file, bytes).unwrap();
    open(&place.database()).close().await;

    let sound = std::fs::read(place.database()).unwrap();
    for (tamper, told) in [
        ("DELETE FROM log WHERE seq = 4", "the log goes from 3 to 5"),
        ("DELETE FROM log WHERE seq = (SELECT head FROM log_head)", "the log goes from"),
        ("UPDATE log SET body = x'00' WHERE seq = 3", "the body of 3 is not what its hash says"),
        ("UPDATE log SET kind = 'task.imagined' WHERE seq = 3", "log row 3 is unreadable"),
        ("UPDATE log_head SET format = 99", "format 99"),
    ] {
        std::fs::write(place.database(), &sound).unwrap();
        Connection::open(place.database()).unwrap().execute_batch(tamper).unwrap();
        let failed = move_to(&place, &other).unwrap_err();
        assert!(failed.to_string().contains(told), "{tamper}: {failed}");
        nothing_was_made(&other);
        assert!(!closed(&place), "{tamper}");
    }
    std::fs::write(place.database(), &sound).unwrap();
    // Rows that are not the fold of the log do not travel.
    Connection::open(place.database()).unwrap().execute_batch("DELETE FROM tasks").unwrap();
    move_to(&place, &other).unwrap();
    assert_eq!(verify(&other.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
}

#[tokio::test]
async fn a_move_that_was_killed_is_repeated() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    // Killed while it wrote: what is left is in nobody's way.
    std::fs::write(other.file("rookery.db.importing"), b"half a store").unwrap();
    std::fs::write(other.file("rookery.db.importing-journal"), b"half a journal").unwrap();
    // Killed after the origin was closed and before the target appeared.
    origin(&place.database(), place.artifacts()).unwrap().leave(TO).unwrap();
    assert!(closed(&place));
    let elsewhere = move_as(&place, &other, "sqlite:somewhere");
    assert!(matches!(elsewhere, Err(OfflineError::Moved { to }) if to == TO));
    move_to(&place, &other).unwrap();
    assert!(closed(&place));
    assert_eq!(contents(&place), contents(&other));
    let again = move_to(&place, &other);
    assert!(matches!(again, Err(OfflineError::Moved { to }) if to == TO));
    assert!(!other.file("rookery.db.importing").exists());
}

#[tokio::test]
async fn a_target_that_does_not_appear_leaves_the_origin_open() {
    let (place, other) = (lived_in().await, StoreFolder::new());
    let mut target = sink(&other.database(), other.artifacts());
    let mut leaving = Obstructed { origin: origin(&place.database(), place.artifacts()).unwrap(), other: &other };
    let failed = offline::move_store(&mut leaving, &mut target, TO, &mut |_| {});
    assert!(matches!(failed, Err(OfflineError::File { .. } | OfflineError::Sql(_))), "{failed:?}");
    drop((leaving, target));
    assert!(other.artifacts().list().unwrap().is_empty() && !other.file("rookery.db.importing").exists());
    open(&place.database()).close().await;
}

/// At the last moment something stands in the way of the target.
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
async fn a_backup_of_what_has_moved_restores_to_a_store_that_takes_writes() {
    let (place, other, third) = (lived_in().await, StoreFolder::new(), StoreFolder::new());
    move_to(&place, &other).unwrap();
    let saved = place.file("a.backup");
    backup(&place.database(), &place.artifacts(), &saved, &mut |_| {}).unwrap();
    restore(&saved, &third.database(), &third.artifacts(), &"log_c".into(), Existing::Kept).unwrap();
    assert_eq!(log_of(&third.database()).await.1, "log_c");
}

/// The same from files into a database that others can have, and back.
mod postgres {
    use rookery_store::offline::Reply;
    use rookery_store::postgres::{OpenError as PostgresOpenError, PostgresStore, offline as shared_offline};
    use rookery_testkit::postgres::Schema;

    use super::*;
    use crate::support::{node, shared};

    /// What blocks runs where that is allowed, with a runtime around it.
    async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    async fn into_schema(place: &StoreFolder, schema: &Schema) -> Result<RelocateReport, OfflineError> {
        let (path, artifacts, url) = (place.database(), place.artifacts(), schema.url());
        blocking(move || {
            let mut target = shared_offline::sink(url.parse().unwrap())?;
            let mut leaving = origin(&path, artifacts)?.of_project(Some("shop-1"));
            offline::move_store(&mut leaving, &mut target, &url, &mut |_| {})
        })
        .await
    }

    async fn out_of_schema(schema: &Schema, place: &StoreFolder) -> Result<RelocateReport, OfflineError> {
        let (path, artifacts, url) = (place.database(), place.artifacts(), schema.url());
        blocking(move || {
            let mut leaving = shared_offline::origin(url.parse().unwrap())?;
            offline::move_store(&mut leaving, &mut sink(&path, artifacts), TO, &mut |_| {})
        })
        .await
    }

    async fn exported(schema: &Schema) -> Vec<u8> {
        let url = schema.url();
        blocking(move || {
            let mut lines = Vec::new();
            offline::export(&mut shared_offline::source(url.parse().unwrap()).unwrap(), &mut lines).unwrap();
            lines
        })
        .await
    }

    fn exported_from(place: &StoreFolder) -> Vec<u8> {
        let mut lines = Vec::new();
        place.export(&mut lines).unwrap();
        lines
    }

    /// What is not in an export: tokens, outboxes, signs of life without who saw them, replies.
    type Operational = (Vec<Token>, Vec<EndpointCursor>, Vec<(String, Presence)>, Vec<Reply>);

    fn operational(place: &StoreFolder) -> Operational {
        let mut source = source(&place.database(), place.artifacts()).unwrap();
        let mut tokens = source.tokens().unwrap();
        tokens.sort_by(|one, other| one.id.cmp(&other.id));
        let signs = source.presence().unwrap().into_iter().map(|sign| (sign.agent.to_string(), sign.presence));
        let outboxes = source.outboxes().unwrap();
        (tokens, outboxes, signs.collect(), source.replies(None, u32::MAX).unwrap())
    }

    fn tables(schema: &Schema) -> String {
        let sql = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", schema.name());
        schema.psql(&sql).unwrap().trim().to_owned()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn there_and_back_nothing_is_lost() {
        let (place, schema, third) = (lived_in().await, Schema::new().unwrap(), StoreFolder::new());
        let (lines, before) = (exported_from(&place), operational(&place));
        let there = into_schema(&place, &schema).await.unwrap();
        assert_eq!((there.artifacts, there.tokens, there.replies), (2, 2, 5));
        assert!(matches!(SqliteStore::open(options(&place.database())), Err(OpenError::Moved { .. })));
        assert_eq!(exported(&schema).await, lines);

        let back = out_of_schema(&schema, &third).await.unwrap();
        assert_eq!((&back.head, &back.log_sha256), (&there.head, &there.log_sha256));
        assert_eq!((exported_from(&third), operational(&third)), (lines.clone(), before));
        assert_eq!(third.artifacts().list().unwrap(), place.artifacts().list().unwrap());
        let project = source(&third.database(), third.artifacts()).unwrap().snapshot().project.clone();
        assert_eq!((project.id.as_deref(), project.name.as_str()), (Some("shop-1"), "test"));
        // What was left can be read, and nobody writes it.
        let refused = PostgresStore::open(shared(&schema.url(), "node_a")).await;
        assert!(matches!(refused, Err(PostgresOpenError::Moved { to, .. }) if to == TO));
        assert_eq!(exported(&schema).await, lines);
        assert!(out_of_schema(&schema, &StoreFolder::new()).await.is_ok(), "a move is repeated");
        let store = open(&third.database());
        done(&store, create("task_new", "t")).await;
        store.close().await;
        assert_eq!(verify(&third.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_arrived_is_served_and_does_not_leave_while_it_is() {
        let (place, schema) = (lived_in().await, Schema::new().unwrap());
        let there = into_schema(&place, &schema).await.unwrap();
        let store = PostgresStore::open(shared(&schema.url(), "node_a")).await.unwrap();
        let again = done(&store, with_key(create("task_secret", "the secret"), "secret", "h")).await;
        assert!(again.duplicate);
        done(&store, create("task_new", "t")).await;
        let log = whole_log(&store).await;
        assert_eq!(log.len() as u64, there.events + 1);
        store.renew_lease(node("node_a")).await.unwrap();
        let other = StoreFolder::new();
        let refused = out_of_schema(&schema, &other).await;
        assert!(matches!(&refused, Err(OfflineError::InUse { by }) if by.contains("process 1 on here")), "{refused:?}");
        nothing_was_made(&other);
        // It goes on as if nobody had asked.
        done(&store, create("task_more", "t")).await;
        store.leave_cluster("node_a".into()).await.unwrap();
        store.close().await;
        out_of_schema(&schema, &other).await.unwrap();
        assert_eq!(log_of(&other.database()).await.0.len(), log.len() + 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_cannot_be_moved_whole_leaves_the_schema_as_it_was() {
        let (place, schema) = (lived_in().await, Schema::new().unwrap());
        let name = place.artifacts().list().unwrap().remove(0);
        let file = place.artifacts().folder().join(&name);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, b"other").unwrap();
        let damaged = into_schema(&place, &schema).await;
        assert!(matches!(damaged, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{damaged:?}");
        assert_eq!(tables(&schema), "0");
        std::fs::write(&file, bytes).unwrap();

        // An empty store is replaced, one with something in it is not.
        let store = PostgresStore::open(shared(&schema.url(), "node_a")).await.unwrap();
        done(&store, create("task_other", "t")).await;
        store.close().await;
        assert!(matches!(into_schema(&place, &schema).await, Err(OfflineError::Exists { .. })));
        open(&place.database()).close().await;
        let empty = Schema::new().unwrap();
        PostgresStore::open(shared(&empty.url(), "node_a")).await.unwrap().close().await;
        into_schema(&place, &empty).await.unwrap();
        let again = into_schema(&place, &empty).await;
        assert!(matches!(&again, Err(OfflineError::Moved { to }) if *to == empty.url()), "{again:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_export_is_imported_and_proven() {
        let (place, schema) = (lived_in().await, Schema::new().unwrap());
        let lines = exported_from(&place);
        let (url, sound) = (schema.url(), lines.clone());
        let cut = lines[..lines.len() - 20].to_vec();
        let report = blocking(move || {
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
        assert_eq!(report.log_sha256, verify(&place.database(), &mut |_| {}).unwrap().log_sha256);
    }
}
