//! The proxy that cuts connections: the outcome for the client and for the server.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::Duration;

use futures_util::SinkExt;
use rookery_testkit::postgres::{Server, psql};
use rookery_testkit::proxy::{Proxy, When};
use tokio_postgres::{Client, NoTls};

const DEADLINE: Duration = Duration::from_secs(30);
/// Long enough to see that nothing arrives.
const SILENCE: Duration = Duration::from_millis(300);
/// Long enough to read the rows twice, even on a loaded machine.
const COMMIT_DELAY: Duration = Duration::from_secs(2);

struct Stage {
    proxy: Proxy,
    server: Server,
}

impl Stage {
    fn new() -> Stage {
        let server = Server::start().unwrap();
        server.psql("CREATE TABLE rows (n int)").unwrap();
        Stage { proxy: Proxy::start(&server.url()).unwrap(), server }
    }

    async fn connect(&self) -> Client {
        connect(&self.proxy.url()).await.unwrap()
    }

    fn rows(&self) -> String {
        self.server.psql("SELECT coalesce(string_agg(n::text, ',' ORDER BY n), 'none') FROM rows").unwrap()
    }

    async fn wait_for_rows(&self, wanted: &str) {
        wait_until(|| self.rows() == wanted).await;
    }

    /// Opens a transaction and inserts a row.
    async fn begin_insert(&self, n: i32) -> Client {
        let client = self.connect().await;
        client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(client.execute("INSERT INTO rows VALUES ($1)", &[&n]).await.unwrap(), 1);
        client
    }

    /// The number of open transactions.
    fn transactions(&self) -> String {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() \
                   AND backend_type = 'client backend'";
        self.server.psql(sql).unwrap()
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn wait_until(mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
}

/// The ways in which a client can send COMMIT.
#[derive(Clone, Copy, Debug)]
enum CommitForm {
    Simple,
    Prepared,
    /// In one packet with an earlier statement.
    Pipelined,
}

const FORMS: [CommitForm; 3] = [CommitForm::Simple, CommitForm::Prepared, CommitForm::Pipelined];

impl CommitForm {
    /// Inserts a row and commits with the proxy armed. Returns the outcome that the client sees.
    async fn commit(self, stage: &Stage, n: i32, when: When) -> Result<(), tokio_postgres::Error> {
        let client = stage.begin_insert(n).await;
        let prepared = client.prepare("commit").await?;
        stage.proxy.cut_at_commit(when);
        match self {
            CommitForm::Simple => client.batch_execute("COMMIT").await,
            CommitForm::Prepared => client.execute(&prepared, &[]).await.map(drop),
            CommitForm::Pipelined => {
                let more = client.batch_execute("INSERT INTO rows VALUES (100)");
                let commit = client.batch_execute("COMMIT");
                tokio::join!(more, commit).1
            }
        }
    }

    fn committed_rows(self, n: i32) -> String {
        match self {
            CommitForm::Simple | CommitForm::Prepared => n.to_string(),
            CommitForm::Pipelined => format!("{n},100"),
        }
    }
}

#[tokio::test]
async fn proxy_without_faults_forwards_everything() {
    let stage = Stage::new();
    let client = stage.begin_insert(1).await;
    let copy = client.copy_in::<_, bytes::Bytes>("COPY rows FROM STDIN").await.unwrap();
    tokio::pin!(copy);
    copy.send(bytes::Bytes::from_static(b"2\n3\n")).await.unwrap();
    assert_eq!(copy.finish().await.unwrap(), 2);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(stage.rows(), "1,2,3");
    let long = client.query_one("SELECT repeat('x', 1000000)", &[]).await.unwrap().get::<_, String>(0);
    assert_eq!(long.len(), 1_000_000);
    client.batch_execute("SELEKT").await.unwrap_err();
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!((stage.proxy.commits_cut(), stage.proxy.connections()), (0, 1));
    drop(client);
    wait_until(|| stage.proxy.connections() == 0).await;
}

/// `psql` requests encryption first; tokio-postgres without TLS does not.
#[test]
fn client_that_requests_encryption_is_served() {
    let stage = Stage::new();
    assert_eq!(psql(&stage.proxy.url(), "SELECT 6 * 7").unwrap(), "42");
    stage.proxy.cut_at_commit(When::After);
    psql(&stage.proxy.url(), "BEGIN; INSERT INTO rows VALUES (1); COMMIT").unwrap_err();
    assert_eq!((stage.proxy.commits_cut(), stage.rows().as_str()), (1, "1"));
}

#[tokio::test]
async fn cut_before_commit_rolls_back() {
    for form in FORMS {
        let stage = Stage::new();
        form.commit(&stage, 1, When::Before).await.unwrap_err();
        assert_eq!(stage.proxy.commits_cut(), 1, "{form:?}");
        wait_until(|| stage.transactions() == "0").await;
        assert_eq!(stage.rows(), "none", "{form:?}");
    }
}

#[tokio::test]
async fn cut_after_commit_loses_the_answer() {
    for form in FORMS {
        let stage = Stage::new();
        form.commit(&stage, 1, When::After).await.unwrap_err();
        assert_eq!((stage.proxy.commits_cut(), stage.rows()), (1, form.committed_rows(1)), "{form:?}");
    }
}

#[tokio::test]
async fn cut_meanwhile_commits_after_a_delay() {
    for form in FORMS {
        let stage = Stage::new();
        form.commit(&stage, 1, When::Meanwhile(COMMIT_DELAY)).await.unwrap_err();
        assert_eq!((stage.proxy.commits_cut(), stage.rows().as_str()), (1, "none"), "{form:?}");
        assert_eq!(stage.transactions(), "1", "{form:?}: the transaction is still open");
        stage.proxy.cut();
        stage.wait_for_rows(&form.committed_rows(1)).await;
    }
}

#[tokio::test]
async fn statement_pipelined_before_cut_commit_is_answered() {
    let stage = Stage::new();
    let client = stage.begin_insert(1).await;
    stage.proxy.cut_at_commit(When::After);
    let (before, commit) = tokio::join!(client.simple_query("SELECT 1"), client.batch_execute("COMMIT"));
    before.unwrap();
    commit.unwrap_err();
}

#[tokio::test]
async fn copy_before_cut_commit_is_tracked() {
    let stage = Stage::new();
    let client = stage.begin_insert(1).await;
    let copy = client.copy_in::<_, bytes::Bytes>("COPY rows FROM STDIN").await.unwrap();
    tokio::pin!(copy);
    copy.send(bytes::Bytes::from_static(b"2\n")).await.unwrap();
    copy.finish().await.unwrap();
    stage.proxy.cut_at_commit(When::After);
    client.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!(stage.rows(), "1,2");
}

#[tokio::test]
async fn cut_at_commit_happens_once() {
    let stage = Stage::new();
    stage.proxy.cut_at_commit(When::Before);
    stage.proxy.cancel_cut_at_commit();
    stage.begin_insert(1).await.batch_execute("COMMIT").await.unwrap();
    stage.proxy.cut_at_commit(When::Before);
    stage.begin_insert(2).await.batch_execute("COMMIT").await.unwrap_err();
    stage.begin_insert(3).await.batch_execute("COMMIT").await.unwrap();
    assert_eq!((stage.proxy.commits_cut(), stage.rows().as_str()), (1, "1,3"));
}

#[tokio::test]
async fn cut_at_commit_spares_readers_and_other_applications() {
    let stage = Stage::new();
    let named = connect(&format!("{}?application_name=the%20writer", stage.proxy.url())).await.unwrap();
    let reader = stage.connect().await;
    stage.proxy.cut_at_commit_of("writer", When::Before);
    stage.begin_insert(1).await.batch_execute("COMMIT").await.unwrap();
    assert_eq!(stage.proxy.commits_cut(), 0);
    for sql in ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "COMMIT"] {
        named.batch_execute(sql).await.unwrap();
    }
    stage.proxy.cut_at_commit(When::Before);
    for sql in ["BEGIN READ ONLY", "SELECT 1", "COMMIT"] {
        reader.batch_execute(sql).await.unwrap();
    }
    stage.proxy.cut_at_commit_of("writer", When::Before);
    named.batch_execute("BEGIN").await.unwrap();
    named.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!(stage.proxy.commits_cut(), 1);
}

#[tokio::test]
async fn cut_closes_open_connections_and_no_later_ones() {
    let stage = Stage::new();
    let clients = [stage.begin_insert(1).await, stage.begin_insert(2).await];
    stage.proxy.cut();
    assert_eq!(stage.proxy.connections(), 0);
    for client in &clients {
        client.batch_execute("COMMIT").await.unwrap_err();
    }
    stage.begin_insert(3).await.batch_execute("COMMIT").await.unwrap();
    wait_until(|| stage.transactions() == "0").await;
    assert_eq!(stage.rows(), "3");
}

#[tokio::test]
async fn refuse_closes_only_new_connections() {
    let stage = Stage::new();
    let client = stage.connect().await;
    stage.proxy.refuse(true);
    connect(&stage.proxy.url()).await.err().unwrap();
    client.batch_execute("SELECT 1").await.unwrap();
    stage.proxy.refuse(false);
    stage.connect().await;
}

#[tokio::test]
async fn frozen_proxy_forwards_after_thaw() {
    let stage = Stage::new();
    let client = stage.begin_insert(1).await;
    stage.proxy.freeze(true);
    let commit = client.batch_execute("COMMIT");
    tokio::pin!(commit);
    tokio::time::timeout(SILENCE, &mut commit).await.unwrap_err();
    tokio::time::timeout(SILENCE, connect(&stage.proxy.url())).await.err().unwrap();
    assert_eq!(stage.rows(), "none");
    stage.proxy.freeze(false);
    commit.await.unwrap();
    assert_eq!(stage.rows(), "1");
    stage.proxy.freeze(true);
    stage.proxy.cut();
    client.batch_execute("SELECT 1").await.unwrap_err();
}

#[tokio::test]
async fn proxy_survives_restart_of_the_server() {
    let mut stage = Stage::new();
    let client = stage.connect().await;
    stage.server.kill().unwrap();
    client.batch_execute("SELECT 1").await.unwrap_err();
    connect(&stage.proxy.url()).await.err().unwrap();
    stage.server.restart().unwrap();
    stage.connect().await.batch_execute("SELECT 1").await.unwrap();
}
