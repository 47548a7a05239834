//! Artifacts of any length on every engine: streamed in pieces, kept while named, included in backups and migrations.

use rookery_core::{Caller, EventRef};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rookery_core::artifacts::reference;
use rookery_core::model::task::Outcome;
use rookery_core::redaction::{Redact, Target};
use rookery_core::tasks::{CompleteTask, HeldByOther, Required, StartTask};
use rookery_store::artifact::{ArtifactError, Erased, Stored, sha256_hex};
use rookery_store::offline::{self, OfflineError};
use rookery_store::postgres::{PostgresStore, offline as postgres};
use rookery_store::sqlite::offline::{Existing, backup, origin, restore, sink, source};
use rookery_store::{Store, Submission};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::json;

use crate::files::StoreFolder;
use crate::support::{
    World, claim_task, create_task, open, postgres_options, register_agent, replay_matches, submit_ok, whole_log,
};

/// The size of a piece in a database. The lengths below lie around it.
const PIECE: usize = 512 * 1024;
const HOUR: Duration = Duration::from_secs(3_600);

/// Pseudo-random bytes that differ by seed.
fn bytes(length: usize, seed: u32) -> Vec<u8> {
    (0..length).map(|at| ((at as u32 ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn upload(store: &dyn Store, bytes: &[u8], piece: usize) -> Stored {
    let mut incoming = store.receive_artifact().await.unwrap();
    for piece in bytes.chunks(piece) {
        incoming.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    incoming.finish().await.unwrap()
}

async fn download(store: &dyn Store, sha256: &str, span: std::ops::Range<u64>) -> Result<Vec<u8>, ArtifactError> {
    let mut outgoing = store.read_artifact(sha256.to_owned(), span).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = outgoing.next().await? {
        assert!(!piece.is_empty() && piece.len() <= PIECE);
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

async fn read_whole(store: &dyn Store, sha256: &str) -> Result<Vec<u8>, ArtifactError> {
    download(store, sha256, 0..u64::MAX).await
}

/// Completes a task with these artifacts attached. Needs agent `a`.
async fn attach(store: &dyn Store, task: &str, hashes: &[&str]) {
    let entry = |sha256: &&str| json!({ "kind": "artifact_ref", "ref": reference(sha256) });
    let detail = json!({ "attachments": hashes.iter().map(entry).collect::<Vec<_>>() });
    let outcome = Outcome { text: Some("done".to_owned()), detail: Some(detail) };
    submit_ok(store, create_task(task, "t")).await;
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
            CompleteTask { task: task.into(), agent: None, outcome, outcome_required: Required::No, contract: None },
        ),
    )
    .await;
}

/// Redacts the outcome of the last completed task.
async fn redact_last(store: &dyn Store) {
    let log = whole_log(store).await;
    let row = log.into_iter().rev().find(|row| matches!(row.event.typed(), EventRef::TaskCompleted(_))).unwrap();
    let target = Target { seq: row.seq, fact: row.event, artifact: None };
    submit_ok(store, Submission::new(Caller::person("anna"), Redact { rows: vec![target] })).await;
}

async fn collect(store: &dyn Store, sha256: &str, age: Duration) -> Erased {
    store.collect_artifact(sha256.to_owned(), age).await.unwrap()
}

async fn artifact_names(store: &dyn Store) -> Vec<String> {
    store.artifacts(None, 1_000).await.unwrap().into_iter().map(|artifact| artifact.sha256).collect()
}

pub(crate) async fn artifact_is_uploaded_and_downloaded_in_pieces(world: &World) {
    let store = &*world.store;
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3_000_007] {
        let sent = bytes(length, 1);
        let stored = upload(store, &sent, 70_001).await;
        assert_eq!(stored, Stored { sha256: sha256_hex(&sent), size: length as u64 });
        assert_eq!(store.artifact_size(stored.sha256.clone()).await.unwrap(), length as u64);
        assert_eq!(read_whole(store, &stored.sha256).await.unwrap(), sent);
        assert_eq!(store.artifact(stored.sha256.clone()).await.unwrap(), sent);
        let places = [0, 1, PIECE - 1, PIECE, PIECE + 1, length / 2, length.saturating_sub(1), length];
        for (from, to) in places.iter().flat_map(|from| places.map(|to| (*from, to))) {
            if from <= to && to <= length {
                let part = download(store, &stored.sha256, from as u64..to as u64).await.unwrap();
                assert!(part == sent[from..to], "{from}..{to} of {length}");
            }
        }
        assert_eq!(download(store, &stored.sha256, length as u64..u64::MAX).await.unwrap(), b"");
    }
}

pub(crate) async fn invalid_artifact_name_is_absent(world: &World) {
    let store = &*world.store;
    for name in ["", "../rookery.db", "..", "ab", &"AB".repeat(32), &"ab".repeat(32), &format!("{}/", "a".repeat(63))] {
        let absent = |error: ArtifactError| matches!(error, ArtifactError::Absent { .. });
        assert!(store.artifact_size(name.to_owned()).await.is_err_and(absent), "{name}");
        assert!(read_whole(store, name).await.is_err_and(absent), "{name}");
        assert_eq!(collect(store, name, Duration::ZERO).await, Erased::Gone, "{name}");
    }
}

pub(crate) async fn concurrent_uploads_of_duplicate_content_are_one_artifact(world: &World) {
    let sent = Arc::new(bytes(2 * PIECE + 9, 2));
    let uploads: Vec<_> = (0..6)
        .map(|at| {
            let (store, sent) = (world.store.clone(), sent.clone());
            tokio::spawn(async move { upload(&*store, &sent, 90_000 + at).await })
        })
        .collect();
    for uploaded in uploads {
        assert_eq!(uploaded.await.unwrap().sha256, sha256_hex(&sent));
    }
    assert_eq!(artifact_names(&*world.store).await, [sha256_hex(&sent)]);
    assert_eq!(read_whole(&*world.store, &sha256_hex(&sent)).await.unwrap(), *sent);
}

pub(crate) async fn only_old_unnamed_artifacts_are_collected(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let (kept, other) = (upload(store, b"kept", 1).await.sha256, upload(store, b"other", 1).await.sha256);
    attach(store, "task_1", &[&kept, &kept]).await;
    attach(store, "task_2", &[&kept]).await;
    assert_eq!(collect(store, &other, HOUR).await, Erased::Young);
    assert_eq!(read_whole(store, &other).await.unwrap(), b"other");
    assert_eq!(collect(store, &other, Duration::ZERO).await, Erased::Gone);
    assert!(matches!(read_whole(store, &other).await, Err(ArtifactError::Absent { .. })));
    assert_eq!(collect(store, &kept, Duration::ZERO).await, Erased::Named);
    assert_eq!(store.erase_artifact(kept.clone()).await.unwrap(), Erased::Named);
    redact_last(store).await;
    assert_eq!(collect(store, &kept, Duration::ZERO).await, Erased::Named, "task_1 names it");
    assert_eq!(read_whole(store, &kept).await.unwrap(), b"kept");
}

pub(crate) async fn artifact_is_collected_after_its_last_reference_is_redacted(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    // An artifact that is named before its upload is kept from its first moment.
    let later = sha256_hex(b"later");
    attach(store, "task_1", &[&later]).await;
    assert_eq!(upload(store, b"later", 2).await.sha256, later);
    assert_eq!(collect(store, &later, Duration::ZERO).await, Erased::Named);
    redact_last(store).await;
    assert_eq!(collect(store, &later, HOUR).await, Erased::Young);
    assert_eq!(collect(store, &later, Duration::ZERO).await, Erased::Gone);
}

pub(crate) async fn released_hold_keeps_artifact_stored_by_another_upload(world: &World) {
    let store = &*world.store;
    let held = store.put_artifact(b"twice".to_vec()).await.unwrap();
    let sha256 = upload(store, b"twice", 3).await.sha256;
    assert_eq!(store.release_hold(held).await.unwrap(), Erased::Young);
    let again = store.put_artifact(b"twice".to_vec()).await.unwrap();
    assert_eq!(store.release_hold(again).await.unwrap(), Erased::Young);
    assert_eq!(read_whole(store, &sha256).await.unwrap(), b"twice");
    assert_eq!(collect(store, &sha256, HOUR).await, Erased::Young);
}

pub(crate) async fn artifacts_are_listed_in_pages(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let mut all = Vec::new();
    for number in 0..7_u8 {
        all.push(upload(store, &[number; 10], 10).await.sha256);
    }
    all.sort();
    attach(store, "task_1", &[&all[4]]).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.artifacts(after, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.sha256.clone());
        found.extend(page);
    }
    assert_eq!(found.iter().map(|artifact| artifact.sha256.clone()).collect::<Vec<_>>(), all);
    let named: Vec<_> = found.iter().filter(|artifact| artifact.named).map(|artifact| &artifact.sha256).collect();
    assert_eq!(named, [&all[4]]);
    assert!(found.iter().all(|artifact| artifact.size == 10 && artifact.stored_at.0 > 0));
}

/// Events name artifacts during collections: an artifact named at the end still exists.
pub(crate) async fn artifact_named_during_concurrent_collection_is_kept(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    for round in 0..12 {
        let sha256 = upload(store, format!("round {round}").as_bytes(), 5).await.sha256;
        let collecting = tokio::spawn({
            let (store, sha256) = (world.store.clone(), sha256.clone());
            async move { collect(&*store, &sha256, Duration::ZERO).await }
        });
        attach(store, &format!("task_{round}"), &[&sha256]).await;
        match collecting.await.unwrap() {
            Erased::Named => assert!(read_whole(store, &sha256).await.is_ok(), "round {round}"),
            // Collected before the event: the reader of the event finds it absent.
            Erased::Gone => assert!(read_whole(store, &sha256).await.is_err(), "round {round}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_upload_leaves_no_file() {
    let folder = StoreFolder::new();
    let store = open(&folder.database());
    let mut incoming = store.receive_artifact().await.unwrap();
    incoming.write(bytes(3_000_000, 1).into()).await.unwrap();
    let files = || std::fs::read_dir(folder.artifacts().folder()).unwrap().count();
    assert_eq!((files(), artifact_names(&store).await.len()), (1, 0));
    drop(incoming);
    assert_eq!(files(), 0);
    // A killed process removes nothing; the next open does.
    let mut killed = store.receive_artifact().await.unwrap();
    killed.write(bytes(3_000_000, 1).into()).await.unwrap();
    std::mem::forget(killed);
    let kept = upload(&store, b"kept", 4).await.sha256;
    store.close().await;
    assert_eq!(files(), 2);
    let store = open(&folder.database());
    assert_eq!((files(), artifact_names(&store).await), (1, vec![kept]));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_artifact_file_is_never_served_as_whole() {
    let folder = StoreFolder::new();
    let store = open(&folder.database());
    let sent = bytes(1_500_000, 3);
    let sha256 = upload(&store, &sent, 100_000).await.sha256;
    let file = folder.artifacts().folder().join(&sha256);
    let damaged = |error: ArtifactError| matches!(error, ArtifactError::Damaged { .. });
    let mut other = sent.clone();
    other[1_400_000] ^= 1;
    for damage in [&other[..], &sent[..1_000_000], b""] {
        std::fs::write(&file, damage).unwrap();
        assert!(read_whole(&store, &sha256).await.is_err_and(damaged));
        // The undamaged part of it is not served either.
        assert!(download(&store, &sha256, 0..10).await.is_err_and(damaged));
        assert_eq!(upload(&store, &sent, 1_000_000).await.sha256, sha256);
        assert_eq!(download(&store, &sha256, 0..10).await.unwrap(), sent[..10]);
        assert_eq!(read_whole(&store, &sha256).await.unwrap(), sent);
    }
    // An artifact damaged during a read without a trace ends in an error before its last bytes.
    let mut outgoing = store.read_artifact(sha256.clone(), 0..u64::MAX).await.unwrap();
    let mut got = outgoing.next().await.unwrap().unwrap().to_vec();
    let touched = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, &other).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(touched).unwrap();
    let last = loop {
        match outgoing.next().await {
            Ok(Some(piece)) => got.extend_from_slice(&piece),
            last => break last,
        }
    };
    assert!(last.is_err_and(damaged) && got.len() < sent.len());
    store.close().await;
}

/// Fills a store with a named artifact, an unnamed one, and one whose reference was redacted.
async fn store_with_artifacts(store: &dyn Store) -> [String; 2] {
    submit_ok(store, register_agent("a")).await;
    let (named, unnamed) = (bytes(3 * PIECE + 5, 4), bytes(1_000, 5));
    let gone = upload(store, b"redacted", 8).await.sha256;
    attach(store, "task_2", &[&gone]).await;
    redact_last(store).await;
    assert_eq!(collect(store, &gone, Duration::ZERO).await, Erased::Gone);
    let named = upload(store, &named, 100_000).await.sha256;
    let unnamed = upload(store, &unnamed, 100_000).await.sha256;
    // A named artifact that was never uploaded prevents nothing.
    attach(store, "task_1", &[&named, &"0".repeat(64)]).await;
    [named, unnamed]
}

async fn folder_with_artifacts() -> (StoreFolder, [String; 2]) {
    let folder = StoreFolder::new();
    let store = open(&folder.database());
    let names = store_with_artifacts(&store).await;
    store.close().await;
    (folder, names)
}

/// Opens a store and checks that it has exactly these artifacts, whole, the first of them named.
async fn assert_holds(folder: &StoreFolder, wanted: &[String]) {
    let store = open(&folder.database());
    replay_matches(&store).await;
    let mut wanted = wanted.to_vec();
    let named = wanted[0].clone();
    wanted.sort();
    assert_eq!(artifact_names(&store).await, wanted);
    for sha256 in &wanted {
        assert_eq!(sha256_hex(&read_whole(&store, sha256).await.unwrap()), *sha256);
        let expected = if *sha256 == named { Erased::Named } else { Erased::Young };
        assert_eq!(collect(&store, sha256, HOUR * 24 * 365 * 100).await, expected);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_contains_named_and_young_artifacts() {
    let (folder, wanted) = folder_with_artifacts().await;
    let (saved, other) = (folder.file("a.backup"), StoreFolder::new());
    let report = backup(&folder.database(), &folder.artifacts(), &saved, &mut |_| {}).unwrap();
    assert_eq!((report.artifacts, report.missing), (2, vec!["0".repeat(64)]));
    let restored = restore(&saved, &other.database(), &other.artifacts(), &"log_b".into(), Existing::Kept).unwrap();
    assert_eq!(restored.artifacts, 2);
    assert_holds(&other, &wanted).await;
}

/// Two stores of one project share its artifacts: neither collects an artifact that the other names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifact_named_by_a_neighbouring_store_is_not_collected() {
    let (folder, wanted) = folder_with_artifacts().await;
    let saved = folder.file("a.backup");
    let young = StoreFolder::new();
    backup(&young.database(), &young.artifacts(), &saved, &mut |_| {}).unwrap_err();
    let store = open(&young.database());
    submit_ok(&store, register_agent("b")).await;
    store.close().await;
    backup(&young.database(), &young.artifacts(), &saved, &mut |_| {}).unwrap();
    // The old store is set aside; the one in its place does not name the artifacts.
    let restored =
        restore(&saved, &folder.database(), &folder.artifacts(), &"log_b".into(), Existing::SetAside).unwrap();
    let aside = restored.set_aside.unwrap();
    let store = open(&folder.database());
    assert_eq!(artifact_names(&store).await.len(), 2);
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Named);
    assert_eq!(collect(&store, &wanted[1], Duration::ZERO).await, Erased::Gone);
    std::fs::remove_file(aside).unwrap();
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Gone);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_contains_artifacts_that_events_refer_to() {
    let (folder, wanted) = folder_with_artifacts().await;
    let other = StoreFolder::new();
    let mut lines = Vec::new();
    let report = folder.export(&mut lines).unwrap();
    assert_eq!((report.artifacts, report.missing), (1, vec!["0".repeat(64)]));
    assert_eq!(other.import(&lines, "log_b").unwrap().artifacts, 1);
    assert_holds(&other, &wanted[..1]).await;

    let text = String::from_utf8(lines.clone()).unwrap();
    let parts: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"artifact\":")).collect();
    assert!(parts.len() > 2);
    for (tampered, case) in [
        (text.replacen(&format!("{}\n", parts[1]), "", 1), "a part is missing"),
        (text.replacen(parts[1], &parts[1].replacen("\"data\":\"", "\"data\":\"AAAA", 1), 1), "a part has more"),
        (text.replacen(&format!("{}\n", parts[parts.len() - 1]), "", 1), "the last part is missing"),
    ] {
        let broken = StoreFolder::new();
        let rejected = broken.import(tampered.as_bytes(), "log_b");
        assert!(matches!(rejected, Err(OfflineError::Line { .. })), "{case}: {rejected:?}");
        assert!(!broken.database().exists(), "{case}");
        assert_eq!(broken.artifacts().list().unwrap(), Vec::<String>::new(), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_moves_named_and_young_artifacts() {
    let (folder, wanted) = folder_with_artifacts().await;
    let damaged = folder.artifacts().folder().join(&wanted[1]);
    let sound = std::fs::read(&damaged).unwrap();
    let move_to = |folder: &StoreFolder, other: &StoreFolder| {
        let mut leaving = origin(&folder.database(), folder.artifacts())?;
        let mut target = sink(&other.database(), other.artifacts());
        offline::move_store(&mut leaving, &mut target, "sqlite:elsewhere", &mut |_| {})
    };
    // A damaged unnamed artifact is left out; a damaged named one stops the migration.
    let named = folder.artifacts().folder().join(&wanted[0]);
    let whole = std::fs::read(&named).unwrap();
    std::fs::write(&named, b"other").unwrap();
    let rejected = move_to(&folder, &StoreFolder::new());
    assert!(matches!(rejected, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{rejected:?}");
    std::fs::write(&named, whole).unwrap();
    std::fs::write(&damaged, b"other").unwrap();
    let copied = StoreFolder::new();
    let mut from = source(&folder.database(), folder.artifacts()).unwrap();
    let mut to = sink(&copied.database(), copied.artifacts());
    offline::copy_store(&mut from, &mut to, &"log_c".into(), &mut |_| {}).unwrap();
    assert_holds(&copied, &wanted[..1]).await;
    std::fs::write(&damaged, sound).unwrap();
    let other = StoreFolder::new();
    let report = move_to(&folder, &other).unwrap();
    assert_eq!((report.artifacts, report.missing), (2, vec!["0".repeat(64)]));
    assert_holds(&other, &wanted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_to_postgres_and_back_keeps_artifacts() {
    let (folder, wanted) = folder_with_artifacts().await;
    let (schema, back) = (Schema::new().unwrap(), StoreFolder::new());
    let (path, artifacts, url) = (folder.database(), folder.artifacts(), schema.url());
    let into = move || {
        let mut leaving = origin(&path, artifacts)?;
        let mut target = postgres::sink(url.parse().unwrap())?;
        offline::move_store(&mut leaving, &mut target, "postgres:there", &mut |_| {})
    };
    let report = tokio::task::spawn_blocking(into).await.unwrap().unwrap();
    assert_eq!(report.artifacts, 2);
    let store = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await.unwrap();
    for sha256 in &wanted {
        assert_eq!(sha256_hex(&read_whole(&store, sha256).await.unwrap()), *sha256);
    }
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Named);
    store.close().await;
    let (path, artifacts, url) = (back.database(), back.artifacts(), schema.url());
    let out = move || {
        let mut from = postgres::source(url.parse().unwrap())?;
        offline::copy_store(&mut from, &mut sink(&path, artifacts), &"log_b".into(), &mut |_| {})
    };
    tokio::task::spawn_blocking(out).await.unwrap().unwrap();
    assert_holds(&back, &wanted).await;
}

/// The numbers of pieces and unfinished blobs in a schema.
fn count_pieces(schema: &Schema) -> String {
    schema
        .psql("SELECT (SELECT count(*) FROM artifact_chunks) || ' ' || (SELECT count(*) FROM artifact_blobs)")
        .unwrap()
}

async fn wait_for_pieces(schema: &Schema, wanted: &str) {
    eventually(wanted, async || Ok((count_pieces(schema).trim() == wanted).then_some(()))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_upload_leaves_nothing_in_postgres() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await.unwrap();
    let mut incoming = store.receive_artifact().await.unwrap();
    incoming.write(bytes(2 * PIECE + 1, 1).into()).await.unwrap();
    assert_eq!((count_pieces(&schema).trim(), artifact_names(&store).await.len()), ("2 1", 0));
    drop(incoming);
    wait_for_pieces(&schema, "0 0").await;
    // A killed node removes nothing; the leader clears the blob after its time.
    let mut killed = store.receive_artifact().await.unwrap();
    killed.write(bytes(2 * PIECE + 1, 1).into()).await.unwrap();
    assert_eq!((store.tidy_artifacts().await.unwrap(), count_pieces(&schema).trim()), (0, "2 1"));
    schema.psql("UPDATE artifact_blobs SET until = 1").unwrap();
    assert_eq!((store.tidy_artifacts().await.unwrap(), count_pieces(&schema).trim()), (1, "0 0"));
    // An upload that was only slow fails, and creates no artifact from the rest.
    let late = killed.write(bytes(PIECE, 1).into()).await;
    assert!(matches!(late, Err(ArtifactError::Unavailable { .. })), "{late:?}");
    drop(killed);
    // A repeated upload leaves one blob, and none after its removal.
    let sent = bytes(2 * PIECE, 7);
    let sha256 = upload(&store, &sent, PIECE).await.sha256;
    upload(&store, &sent, 100_000).await;
    wait_for_pieces(&schema, "2 0").await;
    assert_eq!(collect(&store, &sha256, Duration::ZERO).await, Erased::Gone);
    assert_eq!(count_pieces(&schema).trim(), "0 0");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_artifact_piece_is_never_served_as_whole() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(postgres_options(&schema.url(), "node_a")).await.unwrap();
    let sent = bytes(2 * PIECE + 100, 6);
    let sha256 = upload(&store, &sent, PIECE).await.sha256;
    let damaged = |error: ArtifactError| matches!(error, ArtifactError::Damaged { .. });
    for damage in [
        "UPDATE artifact_chunks SET data = set_byte(data, 9, (get_byte(data, 9) + 1) % 256) WHERE n = 1",
        "UPDATE artifact_chunks SET data = '', hash = sha256('') WHERE n = 1",
        "DELETE FROM artifact_chunks WHERE n = 1",
    ] {
        schema.psql(damage).unwrap();
        assert!(read_whole(&store, &sha256).await.is_err_and(damaged), "{damage}");
        let (first, second) = (0..10, PIECE as u64..PIECE as u64 + 10);
        assert_eq!(download(&store, &sha256, first.clone()).await.unwrap(), sent[..10], "the first part is intact");
        assert!(download(&store, &sha256, second).await.is_err_and(damaged), "{damage}");
        upload(&store, &sent, PIECE).await;
        assert_eq!(read_whole(&store, &sha256).await.unwrap(), sent, "{damage}");
    }
    store.close().await;
}
