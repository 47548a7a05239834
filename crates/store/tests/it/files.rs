//! Offline commands on the files of a store: verify, back up, restore, export, import.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rookery_core::redaction::{Redact, Target};
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{Caller, Seq, Timestamp};
use rookery_store::artifact::ArtifactDir;
use rookery_store::offline::{self, ExportReport, ImportReport, OfflineError};
use rookery_store::sqlite::OpenError;
use rookery_store::sqlite::offline::{Existing, backup, integrity, restore, sink, source};
use rookery_store::{Operation, Store, Submission};
use rusqlite::Connection;

use crate::support::{
    artifacts_of, claim_file, claim_task, create_task, database, open, register_agent, replay_matches, submit_ok,
    verify, whole_log, with_body, with_key,
};

pub(crate) struct StoreFolder {
    folder: tempfile::TempDir,
}

impl StoreFolder {
    pub(crate) fn new() -> StoreFolder {
        StoreFolder { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn database(&self) -> PathBuf {
        database(&self.folder)
    }

    pub(crate) fn artifacts(&self) -> ArtifactDir {
        artifacts_of(&self.database())
    }

    pub(crate) fn export(&self, out: &mut Vec<u8>) -> Result<ExportReport, OfflineError> {
        offline::export(&mut source(&self.database(), self.artifacts())?, out)
    }

    pub(crate) fn import(&self, mut lines: &[u8], log: &str) -> Result<ImportReport, OfflineError> {
        offline::import(&mut lines, &mut sink(&self.database(), self.artifacts()), &log.into())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Fills a store with bodies of every kind, closes it, and returns its log.
pub(crate) async fn filled_log(folder: &StoreFolder) -> Vec<LogRow> {
    let store = open(&folder.database());
    submit_ok(&store, register_agent("a")).await;
    for (at, body) in [&b"text \0"[..], b"\xff\xfe", br#"{"a":1,"a":2}"#, b""].into_iter().enumerate() {
        submit_ok(&store, with_key(with_body(create_task(&format!("task_{at}"), "t"), body), &at.to_string(), "h"))
            .await;
    }
    let secret = b"the secret ".repeat(5_000);
    submit_ok(&store, with_key(with_body(create_task("task_secret", "the secret"), &secret), "secret", "h")).await;
    let row = whole_log(&store).await.pop().unwrap();
    let target = Target { seq: row.seq, fact: row.event, artifact: None };
    submit_ok(&store, Submission::new(Caller::person("anna"), Redact { rows: vec![target] })).await;
    for bytes in [vec![3; 2_500_000], vec![b'x'; 100]] {
        let sha256 = folder.artifacts().put(&bytes).unwrap();
        let mut submission = create_task(&format!("task_{}", bytes.len()), "t");
        submission.body = Some(Body { sha256, bytes: BodyBytes::Artifact });
        submit_ok(&store, submission).await;
    }
    submit_ok(&store, claim_file("src/é.rs", "a")).await;
    let log = whole_log(&store).await;
    store.close().await;
    log
}

#[tokio::test]
async fn redacted_text_is_gone_from_the_file_even_if_overwritten_before() {
    let folder = StoreFolder::new();
    let store = open(&folder.database());
    let secret = "the secret ".repeat(200);
    for at in 0..20 {
        submit_ok(&store, with_key(create_task(&format!("task_{at}"), &secret), &at.to_string(), "h")).await;
    }
    // The remembered replies contain the secret too, and are forgotten before the redaction.
    store.operate(Operation::ForgetReplies { before: Timestamp(i64::MAX) }).await.unwrap();
    let target = |row: LogRow| Target { seq: row.seq, fact: row.event, artifact: None };
    let rows = whole_log(&store).await.into_iter().map(target).collect();
    submit_ok(&store, Submission::new(Caller::person("anna"), Redact { rows })).await;
    store.close().await;
    let bytes = std::fs::read(folder.database()).unwrap();
    assert!(!bytes.windows(10).any(|window| window == b"the secret"));
}

pub(crate) async fn read_log_and_id(path: &Path) -> (Vec<LogRow>, String) {
    let store = open(path);
    replay_matches(&store).await;
    let log = whole_log(&store).await;
    let (_, head) = store.rows(vec![]).await.unwrap();
    store.close().await;
    (log, head.log.to_string())
}

#[tokio::test]
async fn verification_finds_every_kind_of_tampering() {
    let folder = StoreFolder::new();
    let log = filled_log(&folder).await;
    let path = folder.database();
    let mut reported = Vec::new();
    let report = verify(&path, &mut |progress| reported.push(progress)).unwrap();
    assert_eq!((report.facts, report.differences.len()), (log.len() as u64, 0), "{:?}", report.differences);
    assert_eq!(reported.last().map(|progress| progress.done), Some(log.len() as u64));
    assert_eq!(integrity(&path).unwrap(), Vec::<String>::new());
    let sound = std::fs::read(&path).unwrap();
    for (tamper, finding) in [
        ("DELETE FROM tasks WHERE key = 'task_1'", "missing"),
        ("UPDATE tasks SET state = 'completed' WHERE key = 'task_1'", "columns"),
        ("UPDATE tasks SET doc = (SELECT doc FROM tasks WHERE key = 'task_2') WHERE key = 'task_1'", "differs"),
        ("INSERT INTO task_dependencies VALUES ('a>b', 'b', '{\"task\":\"a\",\"dep\":\"b\"}')", "should not be there"),
        ("UPDATE tallies SET n = n + 1 WHERE name = 'tasks'", "tally tasks"),
        ("UPDATE log SET body = x'00' WHERE seq = 3", "body of 3"),
        ("UPDATE log SET part_index = 5 WHERE seq = 3", "part_index of 3"),
        ("UPDATE log_head SET head = head + 1", "ends before"),
        ("DELETE FROM log WHERE seq = 4", "from 3 to 5"),
    ] {
        std::fs::write(&path, &sound).unwrap();
        let tampered = Connection::open(&path).unwrap();
        tampered.execute_batch(&tamper.replace("'{", "CAST('{").replace("}')", "}' AS BLOB))")).unwrap();
        drop(tampered);
        let found = verify(&path, &mut |_| {}).unwrap().differences.join("; ");
        assert!(found.contains(finding), "{tamper}: {found}");
    }
}

#[tokio::test]
async fn verification_of_a_long_log_keeps_few_rows_in_memory() {
    const LIMIT: usize = 50;
    let folder = StoreFolder::new();
    let store = open(&folder.database());
    submit_ok(&store, register_agent("a")).await;
    for at in 0..400 {
        submit_ok(&store, create_task(&format!("task_{at}"), "t")).await;
    }
    for at in 0..100 {
        submit_ok(&store, claim_task(&format!("task_{at}"), "a")).await;
    }
    store.close().await;
    let verified = || {
        let mut source = source(&folder.database(), folder.artifacts()).unwrap();
        offline::verify_within(LIMIT, &mut source, &mut |_| {}).unwrap()
    };
    let report = verified();
    assert_eq!((report.facts >= 500, report.differences.as_slice()), (true, [].as_slice()));
    assert!(report.rows > 8 * LIMIT as u64 && report.peak_rows <= LIMIT as u64 + 10, "{report:?}");
    let tampered = Connection::open(folder.database()).unwrap();
    tampered.execute_batch("DELETE FROM tasks WHERE key = 'task_7'").unwrap();
    drop(tampered);
    let differences = verified().differences;
    assert!(
        matches!(&differences[..], [line] if line.contains("task_7") && line.contains("missing")),
        "{differences:?}"
    );
}

#[tokio::test]
async fn redacted_text_is_gone_from_the_file() {
    let folder = StoreFolder::new();
    filled_log(&folder).await;
    let bytes = std::fs::read(folder.database()).unwrap();
    assert!(!bytes.windows(10).any(|window| window == b"the secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_under_load_restores_to_a_prefix_with_a_new_log_id() {
    let folder = StoreFolder::new();
    let before = filled_log(&folder).await;
    let store = Arc::new(open(&folder.database()));
    let submitters: Vec<_> = (0..2)
        .map(|submitter| {
            let store = store.clone();
            tokio::spawn(async move {
                for at in 0..60 {
                    submit_ok(&*store, with_body(create_task(&format!("task_{submitter}_{at}"), "t"), &[1; 2_000]))
                        .await;
                }
            })
        })
        .collect();
    let (path, artifacts, to) = (folder.database(), folder.artifacts(), folder.file("a.backup"));
    let report =
        tokio::task::spawn_blocking(move || backup(&path, &artifacts, &to, &mut |_| {})).await.unwrap().unwrap();
    for submitter in submitters {
        submitter.await.unwrap();
    }
    let log = whole_log(&*store).await;
    store.close().await;
    assert_eq!((report.artifacts, report.missing), (2, vec![]));
    let elsewhere = StoreFolder::new();
    let restored = restore(
        &folder.file("a.backup"),
        &elsewhere.database(),
        &elsewhere.artifacts(),
        &"log_b".into(),
        Existing::Kept,
    )
    .unwrap();
    assert_eq!((restored.head.head, restored.head.log.as_str()), (report.head.head, "log_b"));
    let (found, log_id) = read_log_and_id(&elsewhere.database()).await;
    assert!(found.len() >= before.len() && log_id == "log_b");
    assert_eq!(found, log[..found.len()]);
    assert_eq!(elsewhere.artifacts().list().unwrap(), folder.artifacts().list().unwrap());
    assert_eq!(verify(&elsewhere.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
}

#[tokio::test]
async fn restore_over_a_store_sets_it_aside_or_is_rejected() {
    let (folder, other) = (StoreFolder::new(), StoreFolder::new());
    let log = filled_log(&folder).await;
    let saved = folder.file("a.backup");
    backup(&folder.database(), &folder.artifacts(), &saved, &mut |_| {}).unwrap();
    let store = open(&other.database());
    submit_ok(&store, create_task("task_other", "t")).await;
    let again = |existing| restore(&saved, &other.database(), &other.artifacts(), &"log_b".into(), existing);
    assert!(matches!(again(Existing::SetAside), Err(OfflineError::Open(OpenError::Locked { .. }))));
    drop(store);
    assert!(matches!(again(Existing::Kept), Err(OfflineError::Exists { .. })));
    assert_eq!(read_log_and_id(&other.database()).await.0.len(), 1);
    for number in 1..3 {
        let report = again(Existing::SetAside).unwrap();
        assert_eq!(report.set_aside, Some(other.file(&format!("rookery.db.replaced-{number}"))));
        assert_eq!(read_log_and_id(&other.database()).await, (log.clone(), "log_b".to_owned()));
    }
    assert_eq!(read_log_and_id(&other.file("rookery.db.replaced-1")).await.0.len(), 1);
}

#[tokio::test]
async fn invalid_backup_is_rejected_before_any_change() {
    let (folder, other) = (StoreFolder::new(), StoreFolder::new());
    filled_log(&folder).await;
    let saved = folder.file("a.backup");
    backup(&folder.database(), &folder.artifacts(), &saved, &mut |_| {}).unwrap();
    let sound = std::fs::read(&saved).unwrap();
    open(&other.database()).close().await;
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2 / 4096 * 4096;
    damaged[middle..middle + 8 * 4096].fill(0xff);
    for bad in [damaged, sound[..sound.len() / 2].to_vec(), b"something else".repeat(1_000), vec![]] {
        std::fs::write(&saved, &bad).unwrap();
        let failed =
            restore(&saved, &other.database(), &other.artifacts(), &"log_b".into(), Existing::SetAside).unwrap_err();
        let is_rejected =
            matches!(failed, OfflineError::Damaged { .. } | OfflineError::NotABackup { .. } | OfflineError::Sql(_));
        assert!(is_rejected, "{failed:?}");
    }
    assert_eq!(read_log_and_id(&other.database()).await, (vec![], "log_test".to_owned()));
    assert!(!other.file("rookery.db.restoring").exists());
}

#[tokio::test]
async fn backup_lists_artifacts_that_it_could_not_copy() {
    let folder = StoreFolder::new();
    filled_log(&folder).await;
    let names = folder.artifacts().list().unwrap();
    folder.artifacts().erase(&names[0]).unwrap();
    std::fs::write(folder.artifacts().folder().join(&names[1]), b"other").unwrap();
    let report = backup(&folder.database(), &folder.artifacts(), &folder.file("a.backup"), &mut |_| {}).unwrap();
    assert_eq!((report.artifacts, report.missing), (0, names));
    let itself = backup(&folder.database(), &folder.artifacts(), &folder.database(), &mut |_| {});
    assert!(matches!(itself, Err(OfflineError::Exists { .. })));
}

#[tokio::test]
async fn export_imports_to_the_same_log() {
    let (folder, other) = (StoreFolder::new(), StoreFolder::new());
    let log = filled_log(&folder).await;
    let mut lines = Vec::new();
    let report = folder.export(&mut lines).unwrap();
    assert_eq!((report.rows, report.missing), (log.len() as u64, vec![]));
    let report = other.import(&lines, "log_b").unwrap();
    assert_eq!((report.rows, report.head.head), (log.len() as u64, Seq(log.len() as u64)));
    assert_eq!(read_log_and_id(&other.database()).await, (log, "log_b".to_owned()));
    assert_eq!(other.artifacts().list().unwrap(), folder.artifacts().list().unwrap());
    assert_eq!(verify(&other.database(), &mut |_| {}).unwrap().differences, Vec::<String>::new());
    let twice = other.import(&lines, "log_c");
    assert!(matches!(twice, Err(OfflineError::Exists { .. })));
    // The imported store exports the same rows.
    let mut again = Vec::new();
    other.export(&mut again).unwrap();
    let rows = |lines: &[u8]| lines.split(|byte| *byte == b'\n').skip(1).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (one, two) = (rows(&lines), rows(&again));
    assert_eq!(one[..one.len() - 2], two[..two.len() - 2]);
}

#[tokio::test]
async fn store_of_a_development_version_is_rejected_by_offline_commands() {
    let (folder, other) = (StoreFolder::new(), StoreFolder::new());
    filled_log(&folder).await;
    let development = "UPDATE schema_version SET name = 'initial'";
    Connection::open(folder.database()).unwrap().execute_batch(development).unwrap();
    let is_refused = |error: &OfflineError| matches!(error, OfflineError::Open(OpenError::Development { .. }));
    assert!(folder.export(&mut Vec::new()).is_err_and(|error| is_refused(&error)));
    assert!(verify(&folder.database(), &mut |_| {}).is_err_and(|error| is_refused(&error)));
    assert!(integrity(&folder.database()).is_err_and(|error| is_refused(&error)));
    let copy = backup(&folder.database(), &folder.artifacts(), &other.file("copy.db"), &mut |_| {});
    assert!(copy.is_err_and(|error| is_refused(&error)));
    let restored =
        restore(&folder.database(), &other.database(), &other.artifacts(), &"log_b".into(), Existing::SetAside);
    assert!(restored.is_err_and(|error| is_refused(&error)));
    assert!(!other.database().exists() && !other.file("copy.db").exists());
}

#[tokio::test]
async fn incomplete_export_is_rejected_by_import() {
    let (folder, other) = (StoreFolder::new(), StoreFolder::new());
    filled_log(&folder).await;
    let mut sound = Vec::new();
    folder.export(&mut sound).unwrap();
    let lines: Vec<&[u8]> = sound.split_inclusive(|byte| *byte == b'\n').collect();
    let mut bad: Vec<(String, Vec<u8>)> =
        (0..lines.len()).map(|count| (format!("the first {count} lines"), lines[..count].concat())).collect();
    bad.push(("cut within a line".to_owned(), sound[..sound.len() - 20].to_vec()));
    bad.push(("a line missing".to_owned(), [&lines[..3], &lines[4..]].concat().concat()));
    bad.push(("a line more".to_owned(), [sound.as_slice(), b"{}\n"].concat()));
    let text = String::from_utf8(sound.clone()).unwrap();
    bad.push(("another title".to_owned(), text.replace(r#""title":"t""#, r#""title":"u""#).into_bytes()));
    bad.push(("another body".to_owned(), text.replace(r#""data":"text"#, r#""data":"test"#).into_bytes()));
    bad.push(("an unknown kind".to_owned(), text.replace("task.created", "task.imagined").into_bytes()));
    bad.push(("another part_index".to_owned(), text.replace(r#""part_index":1"#, r#""part_index":2"#).into_bytes()));
    bad.push((
        "another version".to_owned(),
        text.replace(r#""rookery_export":1"#, r#""rookery_export":2"#).into_bytes(),
    ));
    for (case, lines) in bad {
        let failed = other.import(&lines, "log_b");
        assert!(matches!(failed, Err(OfflineError::Line { .. })), "{case}: {failed:?}");
        assert!(!other.database().exists() && other.artifacts().list().unwrap().is_empty(), "{case}");
        assert!(!other.file("rookery.db.importing").exists(), "{case}");
    }
}
