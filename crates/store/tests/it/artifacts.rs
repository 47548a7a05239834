//! Artifacts of any length on every engine: in and out piece by piece, kept while something names them, and carried along.

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
use crate::support::{World, claim_task, create, done, open, register, replay_matches, shared, whole_log};

/// The size of a piece in a database, and what is about as long as one or several.
const PIECE: usize = 512 * 1024;
const HOUR: Duration = Duration::from_secs(3_600);

/// Bytes that differ everywhere, and from those of another seed.
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

async fn whole(store: &dyn Store, sha256: &str) -> Result<Vec<u8>, ArtifactError> {
    download(store, sha256, 0..u64::MAX).await
}

/// A task that ends with these artifacts attached. Needs agent `a`.
async fn attach(store: &dyn Store, task: &str, hashes: &[&str]) {
    let entry = |sha256: &&str| json!({ "kind": "artifact_ref", "ref": reference(sha256) });
    let detail = json!({ "attachments": hashes.iter().map(entry).collect::<Vec<_>>() });
    let outcome = Outcome { text: Some("done".to_owned()), detail: Some(detail) };
    done(store, create(task, "t")).await;
    done(store, claim_task(task, "a")).await;
    let by = || Caller::asserted("a");
    done(
        store,
        Submission::new(by(), StartTask { task: task.into(), agent: None, held_by_other: HeldByOther::KeepHolder }),
    )
    .await;
    done(
        store,
        Submission::new(
            by(),
            CompleteTask { task: task.into(), agent: None, outcome, outcome_required: Required::No, contract: None },
        ),
    )
    .await;
}

/// Takes the outcome of the last task that ended out of the log.
async fn redact_last(store: &dyn Store) {
    let log = whole_log(store).await;
    let row = log.into_iter().rev().find(|row| matches!(row.event.typed(), EventRef::TaskCompleted(_))).unwrap();
    let target = Target { seq: row.seq, fact: row.event, artifact: None };
    done(store, Submission::new(Caller::person("anna"), Redact { rows: vec![target] })).await;
}

async fn collect(store: &dyn Store, sha256: &str, age: Duration) -> Erased {
    store.collect_artifact(sha256.to_owned(), age).await.unwrap()
}

async fn names(store: &dyn Store) -> Vec<String> {
    store.artifacts(None, 1_000).await.unwrap().into_iter().map(|artifact| artifact.sha256).collect()
}

pub(crate) async fn an_artifact_comes_in_and_goes_out_piece_by_piece(world: &World) {
    let store = &*world.store;
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3_000_007] {
        let sent = bytes(length, 1);
        let stored = upload(store, &sent, 70_001).await;
        assert_eq!(stored, Stored { sha256: sha256_hex(&sent), size: length as u64 });
        assert_eq!(store.artifact_size(stored.sha256.clone()).await.unwrap(), length as u64);
        assert_eq!(whole(store, &stored.sha256).await.unwrap(), sent);
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

pub(crate) async fn what_is_no_artifact_is_absent(world: &World) {
    let store = &*world.store;
    for name in ["", "../rookery.db", "..", "ab", &"AB".repeat(32), &"ab".repeat(32), &format!("{}/", "a".repeat(63))] {
        let absent = |error: ArtifactError| matches!(error, ArtifactError::Absent { .. });
        assert!(store.artifact_size(name.to_owned()).await.is_err_and(absent), "{name}");
        assert!(whole(store, name).await.is_err_and(absent), "{name}");
        assert_eq!(collect(store, name, Duration::ZERO).await, Erased::Gone, "{name}");
    }
}

pub(crate) async fn the_same_content_at_once_is_one_artifact(world: &World) {
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
    assert_eq!(names(&*world.store).await, [sha256_hex(&sent)]);
    assert_eq!(whole(&*world.store, &sha256_hex(&sent)).await.unwrap(), *sent);
}

pub(crate) async fn only_what_is_old_and_unnamed_is_collected(world: &World) {
    let store = &*world.store;
    done(store, register("a")).await;
    let (kept, other) = (upload(store, b"kept", 1).await.sha256, upload(store, b"other", 1).await.sha256);
    attach(store, "task_1", &[&kept, &kept]).await;
    attach(store, "task_2", &[&kept]).await;
    assert_eq!(collect(store, &other, HOUR).await, Erased::Young);
    assert_eq!(whole(store, &other).await.unwrap(), b"other");
    assert_eq!(collect(store, &other, Duration::ZERO).await, Erased::Gone);
    assert!(matches!(whole(store, &other).await, Err(ArtifactError::Absent { .. })));
    assert_eq!(collect(store, &kept, Duration::ZERO).await, Erased::Named);
    assert_eq!(store.erase_artifact(kept.clone()).await.unwrap(), Erased::Named);
    redact_last(store).await;
    assert_eq!(collect(store, &kept, Duration::ZERO).await, Erased::Named, "task_1 names it");
    assert_eq!(whole(store, &kept).await.unwrap(), b"kept");
}

pub(crate) async fn what_nothing_names_any_more_can_go(world: &World) {
    let store = &*world.store;
    done(store, register("a")).await;
    // What is named before it is there is kept from the moment it comes.
    let later = sha256_hex(b"later");
    attach(store, "task_1", &[&later]).await;
    assert_eq!(upload(store, b"later", 2).await.sha256, later);
    assert_eq!(collect(store, &later, Duration::ZERO).await, Erased::Named);
    redact_last(store).await;
    assert_eq!(collect(store, &later, HOUR).await, Erased::Young);
    assert_eq!(collect(store, &later, Duration::ZERO).await, Erased::Gone);
}

pub(crate) async fn letting_go_takes_nothing_that_somebody_else_stored(world: &World) {
    let store = &*world.store;
    let held = store.put_artifact(b"twice".to_vec()).await.unwrap();
    let sha256 = upload(store, b"twice", 3).await.sha256;
    assert_eq!(store.release_hold(held).await.unwrap(), Erased::Young);
    let again = store.put_artifact(b"twice".to_vec()).await.unwrap();
    assert_eq!(store.release_hold(again).await.unwrap(), Erased::Young);
    assert_eq!(whole(store, &sha256).await.unwrap(), b"twice");
    assert_eq!(collect(store, &sha256, HOUR).await, Erased::Young);
}

pub(crate) async fn artifacts_are_listed_page_by_page(world: &World) {
    let store = &*world.store;
    done(store, register("a")).await;
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

/// References are made while artifacts are collected: what something names in the end is there.
pub(crate) async fn nothing_goes_that_is_named_at_the_same_time(world: &World) {
    let store = &*world.store;
    done(store, register("a")).await;
    for round in 0..12 {
        let sha256 = upload(store, format!("round {round}").as_bytes(), 5).await.sha256;
        let collecting = tokio::spawn({
            let (store, sha256) = (world.store.clone(), sha256.clone());
            async move { collect(&*store, &sha256, Duration::ZERO).await }
        });
        attach(store, &format!("task_{round}"), &[&sha256]).await;
        match collecting.await.unwrap() {
            Erased::Named => assert!(whole(store, &sha256).await.is_ok(), "round {round}"),
            // It was gone before anything named it, and whoever named it finds that out.
            Erased::Gone => assert!(whole(store, &sha256).await.is_err(), "round {round}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_leaves_no_file() {
    let place = StoreFolder::new();
    let store = open(&place.database());
    let mut incoming = store.receive_artifact().await.unwrap();
    incoming.write(bytes(3_000_000, 1).into()).await.unwrap();
    let files = || std::fs::read_dir(place.artifacts().folder()).unwrap().count();
    assert_eq!((files(), names(&store).await.len()), (1, 0));
    drop(incoming);
    assert_eq!(files(), 0);
    // A process that is killed drops nothing: the next one clears it away.
    let mut killed = store.receive_artifact().await.unwrap();
    killed.write(bytes(3_000_000, 1).into()).await.unwrap();
    std::mem::forget(killed);
    let kept = upload(&store, b"kept", 4).await.sha256;
    store.close().await;
    assert_eq!(files(), 2);
    let store = open(&place.database());
    assert_eq!((files(), names(&store).await), (1, vec![kept]));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_not_passed_off_as_whole() {
    let place = StoreFolder::new();
    let store = open(&place.database());
    let sent = bytes(1_500_000, 3);
    let sha256 = upload(&store, &sent, 100_000).await.sha256;
    let file = place.artifacts().folder().join(&sha256);
    let damaged = |error: ArtifactError| matches!(error, ArtifactError::Damaged { .. });
    let mut other = sent.clone();
    other[1_400_000] ^= 1;
    for damage in [&other[..], &sent[..1_000_000], b""] {
        std::fs::write(&file, damage).unwrap();
        assert!(whole(&store, &sha256).await.is_err_and(damaged));
        // Neither is the part of it that is as it was.
        assert!(download(&store, &sha256, 0..10).await.is_err_and(damaged));
        assert_eq!(upload(&store, &sent, 1_000_000).await.sha256, sha256);
        assert_eq!(download(&store, &sha256, 0..10).await.unwrap(), sent[..10]);
        assert_eq!(whole(&store, &sha256).await.unwrap(), sent);
    }
    // One that is damaged while it is read, by somebody who leaves no trace, ends without its last bytes.
    let mut outgoing = store.read_artifact(sha256.clone(), 0..u64::MAX).await.unwrap();
    let mut got = outgoing.next().await.unwrap().unwrap().to_vec();
    let touched = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, &other).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(touched).unwrap();
    let ended = loop {
        match outgoing.next().await {
            Ok(Some(piece)) => got.extend_from_slice(&piece),
            ended => break ended,
        }
    };
    assert!(ended.is_err_and(damaged) && got.len() < sent.len());
    store.close().await;
}

/// A store with an artifact that is named by a fact, one that nothing names, and one that was named and is redacted.
async fn attached(store: &dyn Store) -> [String; 2] {
    done(store, register("a")).await;
    let (named, unnamed) = (bytes(3 * PIECE + 5, 4), bytes(1_000, 5));
    let gone = upload(store, b"redacted", 8).await.sha256;
    attach(store, "task_2", &[&gone]).await;
    redact_last(store).await;
    assert_eq!(collect(store, &gone, Duration::ZERO).await, Erased::Gone);
    let named = upload(store, &named, 100_000).await.sha256;
    let unnamed = upload(store, &unnamed, 100_000).await.sha256;
    // One that never came is no reason to refuse anything.
    attach(store, "task_1", &[&named, &"0".repeat(64)]).await;
    [named, unnamed]
}

async fn place_with_attached() -> (StoreFolder, [String; 2]) {
    let place = StoreFolder::new();
    let store = open(&place.database());
    let names = attached(&store).await;
    store.close().await;
    (place, names)
}

/// Opens what was made and looks whether these are there, whole, and the first of them named.
async fn holds(place: &StoreFolder, wanted: &[String]) {
    let store = open(&place.database());
    replay_matches(&store).await;
    let mut wanted = wanted.to_vec();
    let named = wanted[0].clone();
    wanted.sort();
    assert_eq!(names(&store).await, wanted);
    for sha256 in &wanted {
        assert_eq!(sha256_hex(&whole(&store, sha256).await.unwrap()), *sha256);
        let expected = if *sha256 == named { Erased::Named } else { Erased::Young };
        assert_eq!(collect(&store, sha256, HOUR * 24 * 365 * 100).await, expected);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_what_is_named_and_what_may_yet_be() {
    let (place, wanted) = place_with_attached().await;
    let (saved, other) = (place.file("a.backup"), StoreFolder::new());
    let report = backup(&place.database(), &place.artifacts(), &saved, &mut |_| {}).unwrap();
    assert_eq!((report.artifacts, report.missing), (2, vec!["0".repeat(64)]));
    let restored = restore(&saved, &other.database(), &other.artifacts(), &"log_b".into(), Existing::Kept).unwrap();
    assert_eq!(restored.artifacts, 2);
    holds(&other, &wanted).await;
}

/// Two stores of one project share its artifacts: neither collects what the other names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_store_beside_this_one_names_is_not_collected() {
    let (place, wanted) = place_with_attached().await;
    let saved = place.file("a.backup");
    let young = StoreFolder::new();
    backup(&young.database(), &young.artifacts(), &saved, &mut |_| {}).unwrap_err();
    let store = open(&young.database());
    done(&store, register("b")).await;
    store.close().await;
    backup(&young.database(), &young.artifacts(), &saved, &mut |_| {}).unwrap();
    // The store that was here is set aside, and the one in its place knows nothing of the artifacts.
    let restored = restore(&saved, &place.database(), &place.artifacts(), &"log_b".into(), Existing::SetAside).unwrap();
    let aside = restored.set_aside.unwrap();
    let store = open(&place.database());
    assert_eq!(names(&store).await.len(), 2);
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Named);
    assert_eq!(collect(&store, &wanted[1], Duration::ZERO).await, Erased::Gone);
    std::fs::remove_file(aside).unwrap();
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Gone);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_what_facts_refer_to() {
    let (place, wanted) = place_with_attached().await;
    let other = StoreFolder::new();
    let mut lines = Vec::new();
    let report = place.export(&mut lines).unwrap();
    assert_eq!((report.artifacts, report.missing), (1, vec!["0".repeat(64)]));
    assert_eq!(other.import(&lines, "log_b").unwrap().artifacts, 1);
    holds(&other, &wanted[..1]).await;

    let text = String::from_utf8(lines.clone()).unwrap();
    let parts: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"artifact\":")).collect();
    assert!(parts.len() > 2);
    for (tampered, what) in [
        (text.replacen(&format!("{}\n", parts[1]), "", 1), "a part is missing"),
        (text.replacen(parts[1], &parts[1].replacen("\"data\":\"", "\"data\":\"AAAA", 1), 1), "a part has more"),
        (text.replacen(&format!("{}\n", parts[parts.len() - 1]), "", 1), "the last part is missing"),
    ] {
        let broken = StoreFolder::new();
        let refused = broken.import(tampered.as_bytes(), "log_b");
        assert!(matches!(refused, Err(OfflineError::Line { .. })), "{what}: {refused:?}");
        assert!(!broken.database().exists(), "{what}");
        assert_eq!(broken.artifacts().list().unwrap(), Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_takes_what_is_named_and_what_may_yet_be() {
    let (place, wanted) = place_with_attached().await;
    let damaged = place.artifacts().folder().join(&wanted[1]);
    let sound = std::fs::read(&damaged).unwrap();
    let moved = |place: &StoreFolder, other: &StoreFolder| {
        let mut leaving = origin(&place.database(), place.artifacts())?;
        let mut target = sink(&other.database(), other.artifacts());
        offline::move_store(&mut leaving, &mut target, "sqlite:elsewhere", &mut |_| {})
    };
    // What nothing names and is damaged is not missed; what is named and damaged keeps everything where it is.
    let named = place.artifacts().folder().join(&wanted[0]);
    let whole = std::fs::read(&named).unwrap();
    std::fs::write(&named, b"other").unwrap();
    let refused = moved(&place, &StoreFolder::new());
    assert!(matches!(refused, Err(OfflineError::Artifact(ArtifactError::Damaged { .. }))), "{refused:?}");
    std::fs::write(&named, whole).unwrap();
    std::fs::write(&damaged, b"other").unwrap();
    let copied = StoreFolder::new();
    let mut from = source(&place.database(), place.artifacts()).unwrap();
    let mut to = sink(&copied.database(), copied.artifacts());
    offline::copy_store(&mut from, &mut to, &"log_c".into(), &mut |_| {}).unwrap();
    holds(&copied, &wanted[..1]).await;
    std::fs::write(&damaged, sound).unwrap();
    let other = StoreFolder::new();
    let report = moved(&place, &other).unwrap();
    assert_eq!((report.artifacts, report.missing), (2, vec!["0".repeat(64)]));
    holds(&other, &wanted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_into_a_database_and_out_of_it_keeps_artifacts() {
    let (place, wanted) = place_with_attached().await;
    let (schema, back) = (Schema::new().unwrap(), StoreFolder::new());
    let (path, artifacts, url) = (place.database(), place.artifacts(), schema.url());
    let into = move || {
        let mut leaving = origin(&path, artifacts)?;
        let mut target = postgres::sink(url.parse().unwrap())?;
        offline::move_store(&mut leaving, &mut target, "postgres:there", &mut |_| {})
    };
    let report = tokio::task::spawn_blocking(into).await.unwrap().unwrap();
    assert_eq!(report.artifacts, 2);
    let store = PostgresStore::open(shared(&schema.url(), "node_a")).await.unwrap();
    for sha256 in &wanted {
        assert_eq!(sha256_hex(&whole(&store, sha256).await.unwrap()), *sha256);
    }
    assert_eq!(collect(&store, &wanted[0], Duration::ZERO).await, Erased::Named);
    store.close().await;
    let (path, artifacts, url) = (back.database(), back.artifacts(), schema.url());
    let out = move || {
        let mut from = postgres::source(url.parse().unwrap())?;
        offline::copy_store(&mut from, &mut sink(&path, artifacts), &"log_b".into(), &mut |_| {})
    };
    tokio::task::spawn_blocking(out).await.unwrap().unwrap();
    holds(&back, &wanted).await;
}

/// How many pieces and unfinished blobs a schema has.
fn left(schema: &Schema) -> String {
    schema
        .psql("SELECT (SELECT count(*) FROM artifact_chunks) || ' ' || (SELECT count(*) FROM artifact_blobs)")
        .unwrap()
}

async fn becomes(schema: &Schema, wanted: &str) {
    eventually(wanted, async || Ok((left(schema).trim() == wanted).then_some(()))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_leaves_nothing_in_a_database() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(shared(&schema.url(), "node_a")).await.unwrap();
    let mut incoming = store.receive_artifact().await.unwrap();
    incoming.write(bytes(2 * PIECE + 1, 1).into()).await.unwrap();
    assert_eq!((left(&schema).trim(), names(&store).await.len()), ("2 1", 0));
    drop(incoming);
    becomes(&schema, "0 0").await;
    // A node that is killed drops nothing: whoever has the duty clears it away when its time is over.
    let mut killed = store.receive_artifact().await.unwrap();
    killed.write(bytes(2 * PIECE + 1, 1).into()).await.unwrap();
    assert_eq!((store.tidy_artifacts().await.unwrap(), left(&schema).trim()), (0, "2 1"));
    schema.psql("UPDATE artifact_blobs SET until = 1").unwrap();
    assert_eq!((store.tidy_artifacts().await.unwrap(), left(&schema).trim()), (1, "0 0"));
    // One that was only slow is told so, and makes no artifact of what is left.
    let late = killed.write(bytes(PIECE, 1).into()).await;
    assert!(matches!(late, Err(ArtifactError::Unavailable { .. })), "{late:?}");
    drop(killed);
    // Storing the same again leaves one blob of it, and none when it is removed.
    let sent = bytes(2 * PIECE, 7);
    let sha256 = upload(&store, &sent, PIECE).await.sha256;
    upload(&store, &sent, 100_000).await;
    becomes(&schema, "2 0").await;
    assert_eq!(collect(&store, &sha256, Duration::ZERO).await, Erased::Gone);
    assert_eq!(left(&schema).trim(), "0 0");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_piece_is_not_passed_off_as_whole() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(shared(&schema.url(), "node_a")).await.unwrap();
    let sent = bytes(2 * PIECE + 100, 6);
    let sha256 = upload(&store, &sent, PIECE).await.sha256;
    let damaged = |error: ArtifactError| matches!(error, ArtifactError::Damaged { .. });
    for damage in [
        "UPDATE artifact_chunks SET data = set_byte(data, 9, (get_byte(data, 9) + 1) % 256) WHERE n = 1",
        "UPDATE artifact_chunks SET data = '', hash = sha256('') WHERE n = 1",
        "DELETE FROM artifact_chunks WHERE n = 1",
    ] {
        schema.psql(damage).unwrap();
        assert!(whole(&store, &sha256).await.is_err_and(damaged), "{damage}");
        let (first, second) = (0..10, PIECE as u64..PIECE as u64 + 10);
        assert_eq!(download(&store, &sha256, first.clone()).await.unwrap(), sent[..10], "this part is as it was");
        assert!(download(&store, &sha256, second).await.is_err_and(damaged), "{damage}");
        upload(&store, &sent, PIECE).await;
        assert_eq!(whole(&store, &sha256).await.unwrap(), sent, "{damage}");
    }
    store.close().await;
}
