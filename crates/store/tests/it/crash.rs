//! Crashes at any moment: acknowledged commands survive, and the rows are the fold of the remaining log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rookery_core::tasks::{CompleteTask, HeldByOther, Required, StartTask};
use rookery_core::traits::LogRow;
use rookery_core::{Caller, Seq};
use rookery_store::store::Health;
use rookery_store::{Store, Submission};

use crate::support::{
    claim_file, claim_task, create_task, database, open, register_agent, replay_matches, submit_ok, verify, whole_log,
    with_body, with_key,
};

const WAL_HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// The files of a store as a crash leaves them: the database and its write-ahead log.
struct CrashImage {
    database: Vec<u8>,
    wal: Vec<u8>,
}

impl CrashImage {
    fn of(path: &Path) -> CrashImage {
        // No checkpoint runs in the test, so the two files match.
        CrashImage { database: std::fs::read(path).unwrap(), wal: std::fs::read(wal(path)).unwrap() }
    }

    fn write_to(&self, path: &Path, wal_bytes: &[u8]) {
        drop(std::fs::remove_file(path.with_file_name("rookery.db-shm")));
        std::fs::write(path, &self.database).unwrap();
        std::fs::write(wal(path), wal_bytes).unwrap();
    }
}

fn wal(path: &Path) -> std::path::PathBuf {
    path.with_file_name("rookery.db-wal")
}

async fn record_run() -> (CrashImage, Vec<LogRow>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&database(&folder));
    for agent in ["a", "b"] {
        submit_ok(&store, register_agent(agent)).await;
    }
    for at in 0..5 {
        let id = format!("task_{at}");
        submit_ok(&store, with_key(with_body(create_task(&id, "t"), &vec![at; 6_000]), &id, "h")).await;
        submit_ok(&store, claim_task(&id, "a")).await;
        submit_ok(&store, claim_file(&format!("src/{at}.rs"), "a")).await;
        submit_ok(
            &store,
            Submission::new(
                Caller::asserted("a"),
                StartTask { task: id.as_str().into(), agent: None, held_by_other: HeldByOther::KeepHolder },
            ),
        )
        .await;
        let complete = CompleteTask {
            task: id.as_str().into(),
            agent: None,
            outcome: Default::default(),
            outcome_required: Required::No,
            contract: None,
        };
        submit_ok(&store, Submission::new(Caller::asserted("a"), complete)).await;
    }
    (CrashImage::of(&database(&folder)), whole_log(&store).await)
}

#[tokio::test]
async fn wal_cut_at_any_frame_opens_to_a_prefix_of_the_log() {
    let (remains, log) = record_run().await;
    let frames = (remains.wal.len() - WAL_HEADER) / FRAME;
    assert!(frames > 50 && remains.wal.len() == WAL_HEADER + frames * FRAME, "{frames} frames");
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let mut seen = 0;
    for frame in 0..=frames {
        let whole = WAL_HEADER + frame * FRAME;
        let mut reached = 0;
        for cut in [whole, whole + 1, whole + 24, whole + 2_000] {
            if cut > remains.wal.len() {
                continue;
            }
            remains.write_to(&path, &remains.wal[..cut]);
            let report = verify(&path, &mut |_| {}).unwrap();
            assert_eq!(report.differences, Vec::<String>::new(), "cut at {cut}");
            assert!(cut == whole || report.facts == reached, "cut at {cut}");
            reached = report.facts;
        }
        assert!(reached >= seen, "frame {frame}");
        if reached > seen || frame == 0 {
            assert_opens_to_prefix(&remains, &path, whole, &log[..usize::try_from(reached).unwrap()]).await;
        }
        seen = reached;
    }
    assert_eq!(seen, log.len() as u64);
}

async fn assert_opens_to_prefix(remains: &CrashImage, path: &Path, cut: usize, log: &[LogRow]) {
    remains.write_to(path, &remains.wal[..cut]);
    let store = open(path);
    assert_eq!(store.health(), Health::Writable);
    assert_eq!(whole_log(&store).await, log);
    // The store continues from there.
    assert_eq!(submit_ok(&store, create_task("task_after", "t")).await.at, Seq(log.len() as u64 + 1));
    replay_matches(&store).await;
    store.close().await;
}

#[tokio::test]
async fn wal_with_torn_frames_opens_to_a_prefix_of_the_log() {
    let (remains, log) = record_run().await;
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    for at in (WAL_HEADER..remains.wal.len()).step_by(FRAME * 7 + 1_313) {
        let mut torn = remains.wal.clone();
        torn[at] ^= 0x40;
        remains.write_to(&path, &torn);
        let report = verify(&path, &mut |_| {}).unwrap();
        assert_eq!(report.differences, Vec::<String>::new(), "torn at {at}");
        assert!(report.facts <= log.len() as u64);
        // The file was extended but its end never written.
        let mut zeroed = remains.wal.clone();
        zeroed[at..].fill(0);
        remains.write_to(&path, &zeroed);
        assert_eq!(verify(&path, &mut |_| {}).unwrap().facts, report.facts, "zeroes from {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_under_load_keeps_every_acknowledged_command() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&database(&folder)));
    let answered = Arc::new(AtomicU64::new(0));
    let submitters: Vec<_> = (0..4)
        .map(|submitter| {
            let (store, answered) = (store.clone(), answered.clone());
            tokio::spawn(async move {
                for at in 0..100 {
                    let created =
                        submit_ok(&*store, with_body(create_task(&format!("task_{submitter}_{at}"), "t"), &[1; 500]))
                            .await;
                    answered.fetch_max(created.at.0, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut crashes = Vec::new();
    while submitters.iter().any(|submitter| !submitter.is_finished()) {
        let before = answered.load(Ordering::SeqCst);
        if crashes.last().is_none_or(|(last, _)| before >= last + 40) {
            crashes.push((before, CrashImage::of(&database(&folder))));
        }
        tokio::task::yield_now().await;
    }
    for submitter in submitters {
        submitter.await.unwrap();
    }
    let log = whole_log(&*store).await;
    assert!(crashes.len() > 2);
    for (answered, remains) in crashes {
        let folder = tempfile::tempdir().unwrap();
        remains.write_to(&database(&folder), &remains.wal);
        let after = open(&database(&folder));
        let found = whole_log(&after).await;
        assert!(found.len() as u64 >= answered);
        assert_eq!(found, log[..found.len()]);
        replay_matches(&after).await;
        after.close().await;
    }
}
