//! Several nodes over one PostgreSQL: one order for all, lost commits, leader roles, and writes seen by other nodes.

use std::sync::Arc;
use std::time::Duration;

use rookery_core::{Code, Seq};
use rookery_store::artifact::{ArtifactError, Erased};
use rookery_store::node::NodeLiveness;
use rookery_store::offline::{Beginning, OfflineError, ProjectName, Sink};
use rookery_store::postgres::offline::{origin, sink, source};
use rookery_store::postgres::{Address, OpenError, Options, PostgresStore};
use rookery_store::store::Health;
use rookery_store::{LeaderRole, Operation, Store, SubmitError, Token};
use rookery_testkit::postgres::Schema;
use rookery_testkit::proxy::{Proxy, When};

use crate::support::{
    claim_task, create_task, node, postgres_options, register_agent, replay_matches, report, submit_ok,
    submit_rejected, whole_log, with_key,
};

async fn open(url: &str, node: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(postgres_options(url, node)).await.unwrap())
}

/// Polls until a condition holds.
async fn eventually(goal: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("timed out waiting for: {goal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_first_starts_agree_on_one_log() {
    let schema = Schema::new().unwrap();
    let url = schema.url();
    let opening: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let mut options = postgres_options(&url, name);
            options.birth.log_id = format!("log_{name}").as_str().into();
            options.birth.project_id = format!("project-{name}");
            tokio::spawn(PostgresStore::open(options))
        })
        .into_iter()
        .collect();
    let mut stores = Vec::new();
    for opened in opening {
        stores.push(opened.await.unwrap().unwrap());
    }
    let mut logs = Vec::new();
    for store in &stores {
        logs.push((store.tallies().await.unwrap().1.log, store.adopted().project_id.clone()));
    }
    assert!(logs.iter().all(|log| *log == logs[0]), "{logs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_nodes_share_one_order_and_one_claim_winner() {
    const TASKS: usize = 300;
    let schema = Schema::new().unwrap();
    let url = schema.url();
    let stores = [open(&url, "a").await, open(&url, "b").await, open(&url, "c").await];
    let mut feeds: Vec<_> = stores.iter().map(|store| store.published()).collect();
    for (at, store) in stores.iter().enumerate() {
        submit_ok(&**store, register_agent(&format!("agent{at}"))).await;
    }
    let mut claims = Vec::new();
    for task in 0..TASKS {
        submit_ok(&*stores[task % 3], create_task(&format!("task_{task}"), "t")).await;
        for (at, store) in stores.iter().enumerate() {
            let (store, claim) = (store.clone(), claim_task(&format!("task_{task}"), &format!("agent{at}")));
            claims.push((task, tokio::spawn(async move { store.submit(claim).await })));
        }
    }
    let mut winners = vec![0; TASKS];
    for (task, claim) in claims {
        match claim.await.unwrap() {
            Ok(_) => winners[task] += 1,
            Err(SubmitError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(winners.iter().all(|winners| *winners == 1), "{winners:?}");
    let log = whole_log(&*stores[0]).await;
    for (store, feed) in stores.iter().zip(&mut feeds) {
        assert_eq!(whole_log(&**store).await, log);
        let mut published = Vec::new();
        while published.len() < log.len() {
            let batch = tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap();
            published.extend(batch.rows().iter().map(|row| row.seq));
        }
        assert_eq!(published, log.iter().map(|row| row.seq).collect::<Vec<_>>());
    }
    replay_matches(&*stores[1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_with_lost_answer_is_settled_without_duplicates() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let (near, far) = (open(&schema.url(), "near").await, open(&schema.url_at(&proxy.url()), "far").await);
    let late = When::Meanwhile(Duration::from_secs(2));
    for (round, when) in [When::Before, When::After, late, When::After, When::Before].into_iter().enumerate() {
        submit_ok(&*far, report("a", &format!("before-{round}"))).await;
        proxy.cut_at_commit(when);
        let others = tokio::spawn({
            let near = near.clone();
            async move {
                for at in 0..10 {
                    submit_ok(&*near, report("b", &format!("meanwhile-{at}"))).await;
                }
            }
        });
        submit_ok(&*far, report("a", &format!("cut-{round}"))).await;
        others.await.unwrap();
        assert_eq!(proxy.commits_cut(), round as u64 + 1, "{when:?}");
    }
    let log = whole_log(&*near).await;
    assert_eq!(log.len(), 5 * 12);
    assert_eq!(whole_log(&*far).await, log);
    eventually("the node is healthy", async || far.health() == Health::Writable).await;
    replay_matches(&*near).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_database_is_reported_and_reconnected() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let (near, far) = (open(&schema.url(), "near").await, open(&schema.url_at(&proxy.url()), "far").await);
    let mut feed = far.published();
    submit_ok(&*far, report("a", "one")).await;
    proxy.refuse(true);
    proxy.cut();
    assert!(matches!(far.submit(report("a", "lost")).await, Err(SubmitError::Unavailable { .. })));
    assert!(matches!(far.health(), Health::ReadOnly { .. }));
    assert!(far.tallies().await.is_err());
    submit_ok(&*near, report("b", "two")).await;
    proxy.refuse(false);
    eventually("the store is writable again", async || far.health() == Health::Writable).await;
    submit_ok(&*far, with_key(report("a", "three"), "k", "h")).await;
    let mut published = 0;
    while published < 3 {
        published += tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap().rows().len();
    }
    assert_eq!((published, whole_log(&*far).await.len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_node_notices_the_returned_database() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let far = open(&schema.url_at(&proxy.url()), "far").await;
    submit_ok(&*far, report("a", "one")).await;
    for _ in 0..3 {
        proxy.cut();
        eventually("the lost connection is reported", async || far.health() != Health::Writable).await;
        eventually("the new connection is reported", async || far.health() == Health::Writable).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_node_gives_up_its_leader_roles() {
    let schema = Schema::new().unwrap();
    let (a, b) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    assert_eq!(a.renew_lease(node("a")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
    schema.psql("UPDATE log_head SET schema = 99").unwrap();
    assert!(matches!(a.submit(report("x", "late")).await, Err(SubmitError::Unavailable { .. })));
    let lease = a.renew_lease(node("a")).await.unwrap();
    assert_eq!((lease.tenures, lease.nodes.len()), (vec![], 1), "the node is listed without roles");
    // The other node has not written since, and has not noticed.
    assert_eq!(b.renew_lease(node("b")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_roles_move_and_outdated_epochs_are_rejected() {
    let schema = Schema::new().unwrap();
    let (a, b) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    let first = a.renew_lease(node("a")).await.unwrap();
    assert_eq!(first.tenures.len(), LeaderRole::ALL.len());
    let second = b.renew_lease(node("b")).await.unwrap();
    assert_eq!((second.tenures.len(), second.nodes.len()), (0, 2));
    assert!(second.nodes.iter().all(|seen| seen.liveness == NodeLiveness::Online));
    submit_ok(&*a, report("x", "in-time").out_of(first.tenures[0])).await;
    // The first node appears to have been silent for longer than its lease.
    schema.psql("UPDATE duties SET until = 0; UPDATE nodes SET seen_at = seen_at - 60000 WHERE id = 'a'").unwrap();
    let third = b.renew_lease(node("b")).await.unwrap();
    assert_eq!(third.tenures.len(), LeaderRole::ALL.len());
    assert_eq!(third.tenures[0].epoch, first.tenures[0].epoch + 1);
    let away = third.nodes.iter().find(|seen| seen.node.id.as_str() == "a").unwrap();
    assert_eq!((away.liveness, away.leader_roles.len()), (NodeLiveness::Offline, 0));
    assert_eq!(submit_rejected(&*a, report("x", "late").out_of(first.tenures[0])).await, Code::Stale);
    submit_ok(&*b, report("x", "next").out_of(third.tenures[0])).await;
    assert_eq!(a.renew_lease(node("a")).await.unwrap().tenures, []);
    // A node that leaves gives up its roles.
    b.leave_cluster("b".into()).await.unwrap();
    let fourth = a.renew_lease(node("a")).await.unwrap();
    assert_eq!((fourth.tenures.len(), fourth.nodes.len()), (LeaderRole::ALL.len(), 1));
    // A node restarted at the same site replaces the previous one.
    let mut again = node("a2");
    again.site = node("a").site;
    let fifth = a.renew_lease(again).await.unwrap();
    assert_eq!(fifth.nodes.iter().map(|seen| seen.node.id.as_str()).collect::<Vec<_>>(), ["a2"]);
    assert_eq!(fifth.tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_artifacts_are_shared_by_all_nodes() {
    let schema = Schema::new().unwrap();
    let (a, b) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    let mut changed = b.tokens_changed();
    let token = Token {
        id: "tok_1".to_owned(),
        hash: "h".to_owned(),
        subject: "x".to_owned(),
        power: rookery_core::kernel::caller::Authority::Agent,
        created_at: rookery_core::Timestamp(1),
        expires_at: None,
        label: None,
        browser: None,
    };
    a.operate(Operation::PutToken(token.clone())).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), changed.changed()).await.unwrap().unwrap();
    assert_eq!(b.tokens().await.unwrap(), [token]);
    let held = a.put_artifact(vec![1; 2_000_000]).await.unwrap();
    let sha256 = held.sha256.clone();
    assert_eq!(b.artifact(sha256.clone()).await.unwrap(), vec![1; 2_000_000]);
    assert_eq!(b.erase_artifact(sha256.clone()).await.unwrap(), Erased::Held);
    schema.psql("UPDATE artifact_chunks SET data = '\\x00' WHERE n = 1").unwrap();
    assert_eq!(b.artifact(sha256.clone()).await.unwrap_err(), ArtifactError::Damaged { sha256: sha256.clone() });
    // A repeated upload repairs the artifact.
    drop(b.put_artifact(vec![1; 2_000_000]).await.unwrap());
    assert_eq!(a.artifact(sha256).await.unwrap(), vec![1; 2_000_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_upload_leaves_no_open_transaction() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(Options { connections: 1, ..postgres_options(&schema.url(), "a") }).await.unwrap();
    let bytes = vec![7; 3_000_000];
    for millis in 0..40 {
        // The uploader goes away at varying moments.
        drop(tokio::time::timeout(Duration::from_millis(millis), store.put_artifact(bytes.clone())).await);
        store.tallies().await.unwrap();
    }
    let held = store.put_artifact(bytes.clone()).await.unwrap();
    assert_eq!(store.artifact(held.sha256.clone()).await.unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outdated_node_becomes_read_only_with_a_reason() {
    let schema = Schema::new().unwrap();
    for (change, expected) in [
        ("UPDATE log_head SET schema = 99", "update this node"),
        ("UPDATE log_head SET format = 99", "update this node"),
        ("UPDATE log_head SET head = head - 1", "was set back"),
    ] {
        schema.psql("UPDATE log_head SET schema = 1, format = 1").ok();
        let store = open(&schema.url(), "a").await;
        submit_ok(&*store, report("a", "one")).await;
        let mark = schema.psql("SELECT head FROM log_head").unwrap();
        schema.psql(change).unwrap();
        let error = store.submit(report("a", "two")).await.unwrap_err();
        assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains(expected)), "{error}");
        assert!(matches!(store.health(), Health::ReadOnly { reason, .. } if reason.contains(expected)));
        assert!(store.tallies().await.is_ok(), "reading goes on");
        schema.psql(&format!("UPDATE log_head SET head = {}", mark.trim().lines().last().unwrap())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_an_older_format_are_rebuilt_by_the_first_of_concurrent_nodes() {
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    for task in ["task_1", "task_2"] {
        submit_ok(&*store, create_task(task, "t")).await;
    }
    store.close().await;
    let older = "UPDATE log_head SET format = 0; DELETE FROM tasks WHERE key = 'task_1'; UPDATE tallies SET n = 77";
    schema.psql(older).unwrap();
    let url = schema.url();
    let (a, b) = tokio::join!(open(&url, "a"), open(&url, "b"));
    replay_matches(&*a).await;
    submit_ok(&*a, create_task("task_3", "t")).await;
    submit_ok(&*b, create_task("task_4", "t")).await;
    replay_matches(&*b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_of_a_development_version_is_rejected() {
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    submit_ok(&*store, create_task("task_1", "t")).await;
    store.close().await;
    // A development version had another first migration, and more migrations.
    let development = "UPDATE schema_version SET name = 'initial'; INSERT INTO schema_version VALUES (13, 'teams');
        UPDATE log_head SET schema = 13, format = 9";
    schema.psql(development).unwrap();
    let opened = PostgresStore::open(postgres_options(&schema.url(), "a")).await;
    assert!(matches!(opened, Err(OpenError::Development { .. })), "{opened:?}");
    let address: Address = schema.url().parse().unwrap();
    let offline_results = tokio::task::spawn_blocking(move || {
        let read = source(address.clone()).map(drop);
        let moved = origin(address.clone()).map(drop);
        let beginning =
            Beginning { log: "log_b".into(), floor: Seq(1), project: ProjectName { id: None, name: "p".to_owned() } };
        let written = sink(address).and_then(|mut sink| sink.begin(&beginning));
        [read, moved, written]
    });
    for error in offline_results.await.unwrap().map(Result::unwrap_err) {
        let OfflineError::Database(error) = error else { panic!("{error}") };
        assert!(matches!(error.downcast_ref(), Some(OpenError::Development { .. })), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schemas_of_one_database_are_independent() {
    let (one, other) = (Schema::new().unwrap(), Schema::new().unwrap());
    let (a, b) = (open(&one.url(), "a").await, open(&other.url(), "a").await);
    let mut feed = b.published();
    for at in 0..20 {
        submit_ok(&*a, report("x", &format!("{at}"))).await;
    }
    submit_ok(&*b, report("x", "alone")).await;
    assert_eq!((whole_log(&*a).await.len(), whole_log(&*b).await.len()), (20, 1));
    let batch = tokio::time::timeout(Duration::from_secs(5), feed.recv()).await.unwrap().unwrap();
    assert_eq!((batch.rows().len(), batch.last()), (1, Some(Seq(1))));
    assert_eq!(a.renew_lease(node("a")).await.unwrap().nodes.len(), 1);
    assert_eq!(b.renew_lease(node("a")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_with_foreign_tables_is_left_alone() {
    let schema = Schema::new().unwrap();
    let name = schema.name();
    schema.psql(&format!("CREATE SCHEMA {name}; CREATE TABLE {name}.theirs (a integer)")).unwrap();
    let opened = PostgresStore::open(postgres_options(&schema.url(), "a")).await;
    assert!(matches!(opened, Err(OpenError::Foreign { .. })));
    let nowhere = PostgresStore::open(postgres_options("postgres://rookery@127.0.0.1:1/rookery", "a")).await;
    assert!(matches!(nowhere, Err(OpenError::Unreachable { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_certificate_is_checked_as_sslmode_requires() {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut of_authority = rcgen::CertificateParams::new(vec![]).unwrap();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = of_authority.self_signed(&authority).unwrap();
    let issuer = rcgen::Issuer::new(of_authority, authority);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let server = rookery_testdb::Options::fast()
        .file("own.pem", &own.pem())
        .file("own.key", &key.serialize_pem())
        .file("pg_hba.conf", "local all all trust\nhostssl all all all trust\n")
        .setting("ssl", "on")
        .setting("ssl_cert_file", "own.pem")
        .setting("ssl_key_file", "own.key")
        .start()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("root.pem");
    std::fs::write(&authorities, root.pem()).unwrap();
    let known = format!("sslrootcert={}", authorities.display());
    for (host, options, opens) in [
        ("localhost", "sslmode=disable".to_owned(), false),
        ("localhost", "sslmode=prefer".to_owned(), true),
        ("localhost", "sslmode=require".to_owned(), true),
        ("localhost", "sslmode=verify-full".to_owned(), false),
        ("localhost", format!("sslmode=verify-full&{known}"), true),
        ("127.0.0.1", format!("sslmode=require&{known}"), false),
    ] {
        let url = format!("postgres://rookery@{host}:{}/rookery?{options}", server.port());
        let opened = PostgresStore::open(postgres_options(&url, "a")).await;
        assert_eq!(opened.is_ok(), opens, "{host} {options}: {:?}", opened.err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growing_store_never_scans_whole_tables() {
    const TASKS: usize = 2_000;
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    // All at once, so that batches are large.
    let creating: Vec<_> = (0..TASKS).map(|task| store.submit(create_task(&format!("task_{task}"), "t"))).collect();
    for created in creating {
        created.await.unwrap();
    }
    store.close().await;
    // The server publishes the statistics of a session after its end.
    let statistics = format!(
        "SELECT seq_tup_read FROM pg_stat_user_tables
            WHERE schemaname = '{}' AND relname = 'tasks' AND n_tup_ins = {TASKS}",
        schema.name()
    );
    eventually("the statistics are published", async || !schema.psql(&statistics).unwrap().is_empty()).await;
    assert_eq!(schema.psql(&statistics).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_missed_a_migration_does_not_write_the_old_store() {
    let schema = Schema::new().unwrap();
    let (asleep, idle) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    submit_ok(&*asleep, report("a", "before")).await;
    schema.psql("UPDATE log_head SET moved_to = 'postgres://elsewhere'").unwrap();
    let error = asleep.submit(report("a", "after")).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains("moved to postgres://elsewhere")));
    eventually("the other node notices the migration", async || idle.health() != Health::Writable).await;
    assert_eq!(whole_log(&*asleep).await.len(), 1);
    let again = PostgresStore::open(postgres_options(&schema.url(), "c")).await;
    assert!(matches!(again, Err(OpenError::Moved { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_rollback_is_noticed_by_reading_nodes_too() {
    let schema = Schema::new().unwrap();
    let (writer, reader) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    let mut feed = reader.published();
    for at in 0..10 {
        submit_ok(&*writer, report("a", &format!("step-{at}"))).await;
    }
    let mut published = 0;
    while published < 10 {
        published += tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap().rows().len();
    }
    schema.psql("DELETE FROM log WHERE seq > 5; UPDATE log_head SET head = 5").unwrap();
    let error = reader.submit(report("b", "over-it")).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains("was set back")), "{error}");
    eventually("the writing node notices the rollback", async || writer.health() != Health::Writable).await;
    assert_eq!(whole_log(&*reader).await.len(), 5);
}
