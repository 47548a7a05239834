//! Several nodes over one PostgreSQL: one order for all, lost commits, duties, what one does the others see.

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
    claim_task, create, done, node, refused, register, replay_matches, report, shared, whole_log, with_key,
};

async fn open(url: &str, node: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(shared(url, node)).await.unwrap())
}

/// Waits for something that is to happen by itself.
async fn eventually(what: &str, mut happened: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if happened().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not happen: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_find_one_log() {
    let schema = Schema::new().unwrap();
    let url = schema.url();
    let opening: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let mut options = shared(&url, name);
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
async fn one_order_for_all_nodes_and_one_winner_for_each_claim() {
    const TASKS: usize = 300;
    let schema = Schema::new().unwrap();
    let url = schema.url();
    let stores = [open(&url, "a").await, open(&url, "b").await, open(&url, "c").await];
    let mut feeds: Vec<_> = stores.iter().map(|store| store.published()).collect();
    for (at, store) in stores.iter().enumerate() {
        done(&**store, register(&format!("agent{at}"))).await;
    }
    let mut claims = Vec::new();
    for task in 0..TASKS {
        done(&*stores[task % 3], create(&format!("task_{task}"), "t")).await;
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
        let mut heard = Vec::new();
        while heard.len() < log.len() {
            let batch = tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap();
            heard.extend(batch.rows().iter().map(|row| row.seq));
        }
        assert_eq!(heard, log.iter().map(|row| row.seq).collect::<Vec<_>>());
    }
    replay_matches(&*stores[1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_settled_and_nothing_is_done_twice() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let (near, far) = (open(&schema.url(), "near").await, open(&schema.url_at(&proxy.url()), "far").await);
    let late = When::Meanwhile(Duration::from_secs(2));
    for (round, when) in [When::Before, When::After, late, When::After, When::Before].into_iter().enumerate() {
        done(&*far, report("a", &format!("before-{round}"))).await;
        proxy.cut_at_commit(when);
        let others = tokio::spawn({
            let near = near.clone();
            async move {
                for at in 0..10 {
                    done(&*near, report("b", &format!("meanwhile-{at}"))).await;
                }
            }
        });
        done(&*far, report("a", &format!("cut-{round}"))).await;
        others.await.unwrap();
        assert_eq!(proxy.commits_cut(), round as u64 + 1, "{when:?}");
    }
    let log = whole_log(&*near).await;
    assert_eq!(log.len(), 5 * 12);
    assert_eq!(whole_log(&*far).await, log);
    eventually("it is healthy", async || far.health() == Health::Writable).await;
    replay_matches(&*near).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_said_and_comes_back_by_itself() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let (near, far) = (open(&schema.url(), "near").await, open(&schema.url_at(&proxy.url()), "far").await);
    let mut feed = far.published();
    done(&*far, report("a", "one")).await;
    proxy.refuse(true);
    proxy.cut();
    assert!(matches!(far.submit(report("a", "lost")).await, Err(SubmitError::Unavailable { .. })));
    assert!(matches!(far.health(), Health::ReadOnly { .. }));
    assert!(far.tallies().await.is_err());
    done(&*near, report("b", "two")).await;
    proxy.refuse(false);
    eventually("it can be written again", async || far.health() == Health::Writable).await;
    done(&*far, with_key(report("a", "three"), "k", "h")).await;
    let mut heard = 0;
    while heard < 3 {
        heard += tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap().rows().len();
    }
    assert_eq!((heard, whole_log(&*far).await.len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_work_notices_that_the_database_is_back() {
    let schema = Schema::new().unwrap();
    let proxy = Proxy::start(&std::env::var("ROOKERY_TEST_POSTGRES").unwrap()).unwrap();
    let far = open(&schema.url_at(&proxy.url()), "far").await;
    done(&*far, report("a", "one")).await;
    for _ in 0..3 {
        proxy.cut();
        eventually("it says that it lost the connection", async || far.health() != Health::Writable).await;
        eventually("it says that it is back", async || far.health() == Health::Writable).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_write_leaves_its_duties_to_others() {
    let schema = Schema::new().unwrap();
    let (a, b) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    assert_eq!(a.renew_lease(node("a")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
    schema.psql("UPDATE log_head SET schema = 99").unwrap();
    assert!(matches!(a.submit(report("x", "late")).await, Err(SubmitError::Unavailable { .. })));
    let attendance = a.renew_lease(node("a")).await.unwrap();
    assert_eq!((attendance.tenures, attendance.nodes.len()), (vec![], 1), "it is here, and that is all");
    // The other one has not written since, and does not know better.
    assert_eq!(b.renew_lease(node("b")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duties_change_hands_and_old_epochs_are_refused() {
    let schema = Schema::new().unwrap();
    let (a, b) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    let first = a.renew_lease(node("a")).await.unwrap();
    assert_eq!(first.tenures.len(), LeaderRole::ALL.len());
    let second = b.renew_lease(node("b")).await.unwrap();
    assert_eq!((second.tenures.len(), second.nodes.len()), (0, 2));
    assert!(second.nodes.iter().all(|seen| seen.liveness == NodeLiveness::Online));
    done(&*a, report("x", "in-time").out_of(first.tenures[0])).await;
    // As if the first had been silent for longer than its lease.
    schema.psql("UPDATE duties SET until = 0; UPDATE nodes SET seen_at = seen_at - 60000 WHERE id = 'a'").unwrap();
    let third = b.renew_lease(node("b")).await.unwrap();
    assert_eq!(third.tenures.len(), LeaderRole::ALL.len());
    assert_eq!(third.tenures[0].epoch, first.tenures[0].epoch + 1);
    let away = third.nodes.iter().find(|seen| seen.node.id.as_str() == "a").unwrap();
    assert_eq!((away.liveness, away.leader_roles.len()), (NodeLiveness::Offline, 0));
    assert_eq!(refused(&*a, report("x", "late").out_of(first.tenures[0])).await, Code::Stale);
    done(&*b, report("x", "next").out_of(third.tenures[0])).await;
    assert_eq!(a.renew_lease(node("a")).await.unwrap().tenures, []);
    // Whoever leaves leaves its duties to the next.
    b.leave_cluster("b".into()).await.unwrap();
    let fourth = a.renew_lease(node("a")).await.unwrap();
    assert_eq!((fourth.tenures.len(), fourth.nodes.len()), (LeaderRole::ALL.len(), 1));
    // A node that is started again at the same site takes the place of the one before.
    let mut again = node("a2");
    again.site = node("a").site;
    let fifth = a.renew_lease(again).await.unwrap();
    assert_eq!(fifth.nodes.iter().map(|seen| seen.node.id.as_str()).collect::<Vec<_>>(), ["a2"]);
    assert_eq!(fifth.tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_artifacts_and_presence_are_everybodys() {
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
    // Stored again, it is whole again.
    drop(b.put_artifact(vec![1; 2_000_000]).await.unwrap());
    assert_eq!(a.artifact(sha256).await.unwrap(), vec![1; 2_000_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_broken_off_leaves_no_open_transaction() {
    let schema = Schema::new().unwrap();
    let store = PostgresStore::open(Options { connections: 1, ..shared(&schema.url(), "a") }).await.unwrap();
    let bytes = vec![7; 3_000_000];
    for millis in 0..40 {
        // Whoever sends it goes away at any moment.
        drop(tokio::time::timeout(Duration::from_millis(millis), store.put_artifact(bytes.clone())).await);
        store.tallies().await.unwrap();
    }
    let held = store.put_artifact(bytes.clone()).await.unwrap();
    assert_eq!(store.artifact(held.sha256.clone()).await.unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_node_stops_writing_and_says_so() {
    let schema = Schema::new().unwrap();
    for (change, says) in [
        ("UPDATE log_head SET schema = 99", "update this node"),
        ("UPDATE log_head SET format = 99", "update this node"),
        ("UPDATE log_head SET head = head - 1", "was set back"),
    ] {
        schema.psql("UPDATE log_head SET schema = 1, format = 1").ok();
        let store = open(&schema.url(), "a").await;
        done(&*store, report("a", "one")).await;
        let mark = schema.psql("SELECT head FROM log_head").unwrap();
        schema.psql(change).unwrap();
        let error = store.submit(report("a", "two")).await.unwrap_err();
        assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains(says)), "{error}");
        assert!(matches!(store.health(), Health::ReadOnly { reason } if reason.contains(says)));
        assert!(store.tallies().await.is_ok(), "reading goes on");
        schema.psql(&format!("UPDATE log_head SET head = {}", mark.trim().lines().last().unwrap())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_an_older_format_are_rebuilt_by_the_first_of_concurrent_nodes() {
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    for task in ["task_1", "task_2"] {
        done(&*store, create(task, "t")).await;
    }
    store.close().await;
    let older = "UPDATE log_head SET format = 0; DELETE FROM tasks WHERE key = 'task_1'; UPDATE tallies SET n = 77";
    schema.psql(older).unwrap();
    let url = schema.url();
    let (a, b) = tokio::join!(open(&url, "a"), open(&url, "b"));
    replay_matches(&*a).await;
    done(&*a, create("task_3", "t")).await;
    done(&*b, create("task_4", "t")).await;
    replay_matches(&*b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_of_a_development_version_is_refused() {
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    done(&*store, create("task_1", "t")).await;
    store.close().await;
    // Its first migration had another name, and more followed than there are now.
    let development = "UPDATE schema_version SET name = 'initial'; INSERT INTO schema_version VALUES (13, 'teams');
        UPDATE log_head SET schema = 13, format = 9";
    schema.psql(development).unwrap();
    let opened = PostgresStore::open(shared(&schema.url(), "a")).await;
    assert!(matches!(opened, Err(OpenError::Development { .. })), "{opened:?}");
    let address: Address = schema.url().parse().unwrap();
    let offline = tokio::task::spawn_blocking(move || {
        let read = source(address.clone()).map(drop);
        let moved = origin(address.clone()).map(drop);
        let beginning =
            Beginning { log: "log_b".into(), floor: Seq(1), project: ProjectName { id: None, name: "p".to_owned() } };
        let written = sink(address).and_then(|mut sink| sink.begin(&beginning));
        [read, moved, written]
    });
    for error in offline.await.unwrap().map(Result::unwrap_err) {
        let OfflineError::Database(error) = error else { panic!("{error}") };
        assert!(matches!(error.downcast_ref(), Some(OpenError::Development { .. })), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schemas_of_one_database_know_nothing_of_each_other() {
    let (one, other) = (Schema::new().unwrap(), Schema::new().unwrap());
    let (a, b) = (open(&one.url(), "a").await, open(&other.url(), "a").await);
    let mut feed = b.published();
    for at in 0..20 {
        done(&*a, report("x", &format!("{at}"))).await;
    }
    done(&*b, report("x", "alone")).await;
    assert_eq!((whole_log(&*a).await.len(), whole_log(&*b).await.len()), (20, 1));
    let heard = tokio::time::timeout(Duration::from_secs(5), feed.recv()).await.unwrap().unwrap();
    assert_eq!((heard.rows().len(), heard.last()), (1, Some(Seq(1))));
    assert_eq!(a.renew_lease(node("a")).await.unwrap().nodes.len(), 1);
    assert_eq!(b.renew_lease(node("a")).await.unwrap().tenures.len(), LeaderRole::ALL.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_something_else_are_left_alone() {
    let schema = Schema::new().unwrap();
    let name = schema.name();
    schema.psql(&format!("CREATE SCHEMA {name}; CREATE TABLE {name}.theirs (a integer)")).unwrap();
    let opened = PostgresStore::open(shared(&schema.url(), "a")).await;
    assert!(matches!(opened, Err(OpenError::Foreign { .. })));
    let nowhere = PostgresStore::open(shared("postgres://rookery@127.0.0.1:1/rookery", "a")).await;
    assert!(matches!(nowhere, Err(OpenError::Unreachable { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_certificate_is_looked_at_as_it_is_asked_for() {
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
        let opened = PostgresStore::open(shared(&url, "a")).await;
        assert_eq!(opened.is_ok(), opens, "{host} {options}: {:?}", opened.err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_grows_from_nothing_never_reads_whole_tables() {
    const TASKS: usize = 2_000;
    let schema = Schema::new().unwrap();
    let store = open(&schema.url(), "a").await;
    // All at once, so that a batch asks for many.
    let creating: Vec<_> = (0..TASKS).map(|task| store.submit(create(&format!("task_{task}"), "t"))).collect();
    for created in creating {
        created.await.unwrap();
    }
    store.close().await;
    // The server tells what a session did once that has ended.
    let told = format!(
        "SELECT seq_tup_read FROM pg_stat_user_tables
            WHERE schemaname = '{}' AND relname = 'tasks' AND n_tup_ins = {TASKS}",
        schema.name()
    );
    eventually("the server counts", async || !schema.psql(&told).unwrap().is_empty()).await;
    assert_eq!(schema.psql(&told).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_slept_through_a_move_leaves_the_old_store_alone() {
    let schema = Schema::new().unwrap();
    let (asleep, idle) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    done(&*asleep, report("a", "before")).await;
    schema.psql("UPDATE log_head SET moved_to = 'postgres://elsewhere'").unwrap();
    let error = asleep.submit(report("a", "after")).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains("moved to postgres://elsewhere")));
    eventually("the other one hears of it", async || idle.health() != Health::Writable).await;
    assert_eq!(whole_log(&*asleep).await.len(), 1);
    let again = PostgresStore::open(shared(&schema.url(), "c")).await;
    assert!(matches!(again, Err(OpenError::Moved { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_set_back_is_noticed_also_by_whoever_only_read_it() {
    let schema = Schema::new().unwrap();
    let (writer, reader) = (open(&schema.url(), "a").await, open(&schema.url(), "b").await);
    let mut feed = reader.published();
    for at in 0..10 {
        done(&*writer, report("a", &format!("step-{at}"))).await;
    }
    let mut heard = 0;
    while heard < 10 {
        heard += tokio::time::timeout(Duration::from_secs(10), feed.recv()).await.unwrap().unwrap().rows().len();
    }
    schema.psql("DELETE FROM log WHERE seq > 5; UPDATE log_head SET head = 5").unwrap();
    let error = reader.submit(report("b", "over-it")).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Unavailable { reason } if reason.contains("was set back")), "{error}");
    eventually("the other one notices by itself", async || writer.health() != Health::Writable).await;
    assert_eq!(whole_log(&*reader).await.len(), 5);
}
