//! The proxy that loses connections: what the client learns, and what the server has done.

#![expect(clippy::unwrap_used, reason = "a step that cannot be taken has failed")]

use std::time::Duration;

use futures_util::SinkExt;
use rookery_testkit::postgres::{Server, psql};
use rookery_testkit::proxy::{Proxy, When};
use tokio_postgres::{Client, NoTls};

const DEADLINE: Duration = Duration::from_secs(30);
/// Long enough to see that nothing comes.
const SILENCE: Duration = Duration::from_millis(300);
/// Long enough to look at the rows twice, also on a loaded machine.
const LATE: Duration = Duration::from_secs(2);

struct Bench {
    proxy: Proxy,
    server: Server,
}

impl Bench {
    fn new() -> Bench {
        let server = Server::start().unwrap();
        server.psql("CREATE TABLE rows (n int)").unwrap();
        Bench { proxy: Proxy::start(&server.url()).unwrap(), server }
    }

    async fn connect(&self) -> Client {
        connect(&self.proxy.url()).await.unwrap()
    }

    fn rows(&self) -> String {
        self.server.psql("SELECT coalesce(string_agg(n::text, ',' ORDER BY n), 'none') FROM rows").unwrap()
    }

    async fn rows_become(&self, wanted: &str) {
        eventually(|| self.rows() == wanted).await;
    }

    /// A row that is inserted and not yet committed.
    async fn open_batch(&self, n: i32) -> Client {
        let client = self.connect().await;
        client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(client.execute("INSERT INTO rows VALUES ($1)", &[&n]).await.unwrap(), 1);
        client
    }

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

async fn eventually(mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
}

/// The ways in which a client can say COMMIT.
#[derive(Clone, Copy, Debug)]
enum Way {
    Simple,
    Prepared,
    /// In one packet with what goes before.
    Pipelined,
}

const WAYS: [Way; 3] = [Way::Simple, Way::Prepared, Way::Pipelined];

impl Way {
    /// Inserts a row, with the proxy armed for the COMMIT; whether the client believes that it was committed.
    async fn commit(self, bench: &Bench, n: i32, when: When) -> Result<(), tokio_postgres::Error> {
        let client = bench.open_batch(n).await;
        let prepared = client.prepare("commit").await?;
        bench.proxy.cut_at_commit(when);
        match self {
            Way::Simple => client.batch_execute("COMMIT").await,
            Way::Prepared => client.execute(&prepared, &[]).await.map(drop),
            Way::Pipelined => {
                let more = client.batch_execute("INSERT INTO rows VALUES (100)");
                let commit = client.batch_execute("COMMIT");
                tokio::join!(more, commit).1
            }
        }
    }

    fn committed(self, n: i32) -> String {
        match self {
            Way::Simple | Way::Prepared => n.to_string(),
            Way::Pipelined => format!("{n},100"),
        }
    }
}

#[tokio::test]
async fn unharmed_everything_passes() {
    let bench = Bench::new();
    let client = bench.open_batch(1).await;
    let copy = client.copy_in::<_, bytes::Bytes>("COPY rows FROM STDIN").await.unwrap();
    tokio::pin!(copy);
    copy.send(bytes::Bytes::from_static(b"2\n3\n")).await.unwrap();
    assert_eq!(copy.finish().await.unwrap(), 2);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.rows(), "1,2,3");
    let long = client.query_one("SELECT repeat('x', 1000000)", &[]).await.unwrap().get::<_, String>(0);
    assert_eq!(long.len(), 1_000_000);
    client.batch_execute("SELEKT").await.unwrap_err();
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!((bench.proxy.strikes(), bench.proxy.connections()), (0, 1));
    drop(client);
    eventually(|| bench.proxy.connections() == 0).await;
}

/// `psql` asks for encryption first, which tokio-postgres without TLS does not.
#[test]
fn a_client_that_would_rather_encrypt_is_served_too() {
    let bench = Bench::new();
    assert_eq!(psql(&bench.proxy.url(), "SELECT 6 * 7").unwrap(), "42");
    bench.proxy.cut_at_commit(When::After);
    psql(&bench.proxy.url(), "BEGIN; INSERT INTO rows VALUES (1); COMMIT").unwrap_err();
    assert_eq!((bench.proxy.strikes(), bench.rows().as_str()), (1, "1"));
}

#[tokio::test]
async fn cut_before_the_commit_nothing_is_committed() {
    for way in WAYS {
        let bench = Bench::new();
        way.commit(&bench, 1, When::Before).await.unwrap_err();
        assert_eq!(bench.proxy.strikes(), 1, "{way:?}");
        eventually(|| bench.transactions() == "0").await;
        assert_eq!(bench.rows(), "none", "{way:?}");
    }
}

#[tokio::test]
async fn cut_after_the_commit_the_client_does_not_know_that_it_is_committed() {
    for way in WAYS {
        let bench = Bench::new();
        way.commit(&bench, 1, When::After).await.unwrap_err();
        assert_eq!((bench.proxy.strikes(), bench.rows()), (1, way.committed(1)), "{way:?}");
    }
}

#[tokio::test]
async fn cut_meanwhile_the_commit_comes_after_the_client_has_looked() {
    for way in WAYS {
        let bench = Bench::new();
        way.commit(&bench, 1, When::Meanwhile(LATE)).await.unwrap_err();
        assert_eq!((bench.proxy.strikes(), bench.rows().as_str()), (1, "none"), "{way:?}");
        assert_eq!(bench.transactions(), "1", "{way:?}: the batch is still open");
        bench.proxy.cut();
        bench.rows_become(&way.committed(1)).await;
    }
}

#[tokio::test]
async fn what_is_pipelined_before_a_commit_is_answered() {
    let bench = Bench::new();
    let client = bench.open_batch(1).await;
    bench.proxy.cut_at_commit(When::After);
    let (before, commit) = tokio::join!(client.simple_query("SELECT 1"), client.batch_execute("COMMIT"));
    before.unwrap();
    commit.unwrap_err();
}

#[tokio::test]
async fn a_copy_before_the_commit_does_not_confuse_it() {
    let bench = Bench::new();
    let client = bench.open_batch(1).await;
    let copy = client.copy_in::<_, bytes::Bytes>("COPY rows FROM STDIN").await.unwrap();
    tokio::pin!(copy);
    copy.send(bytes::Bytes::from_static(b"2\n")).await.unwrap();
    copy.finish().await.unwrap();
    bench.proxy.cut_at_commit(When::After);
    client.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!(bench.rows(), "1,2");
}

#[tokio::test]
async fn it_strikes_once() {
    let bench = Bench::new();
    bench.proxy.cut_at_commit(When::Before);
    bench.proxy.spare_commits();
    bench.open_batch(1).await.batch_execute("COMMIT").await.unwrap();
    bench.proxy.cut_at_commit(When::Before);
    bench.open_batch(2).await.batch_execute("COMMIT").await.unwrap_err();
    bench.open_batch(3).await.batch_execute("COMMIT").await.unwrap();
    assert_eq!((bench.proxy.strikes(), bench.rows().as_str()), (1, "1,3"));
}

#[tokio::test]
async fn it_spares_readers_and_those_of_other_names() {
    let bench = Bench::new();
    let named = connect(&format!("{}?application_name=the%20writer", bench.proxy.url())).await.unwrap();
    let reader = bench.connect().await;
    bench.proxy.cut_at_commit_of("writer", When::Before);
    bench.open_batch(1).await.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.proxy.strikes(), 0);
    for sql in ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "COMMIT"] {
        named.batch_execute(sql).await.unwrap();
    }
    bench.proxy.cut_at_commit(When::Before);
    for sql in ["BEGIN READ ONLY", "SELECT 1", "COMMIT"] {
        reader.batch_execute(sql).await.unwrap();
    }
    bench.proxy.cut_at_commit_of("writer", When::Before);
    named.batch_execute("BEGIN").await.unwrap();
    named.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!(bench.proxy.strikes(), 1);
}

#[tokio::test]
async fn a_cut_takes_all_that_are_open_and_none_that_come_later() {
    let bench = Bench::new();
    let clients = [bench.open_batch(1).await, bench.open_batch(2).await];
    bench.proxy.cut();
    assert_eq!(bench.proxy.connections(), 0);
    for client in &clients {
        client.batch_execute("COMMIT").await.unwrap_err();
    }
    bench.open_batch(3).await.batch_execute("COMMIT").await.unwrap();
    eventually(|| bench.transactions() == "0").await;
    assert_eq!(bench.rows(), "3");
}

#[tokio::test]
async fn refused_are_only_new_connections() {
    let bench = Bench::new();
    let client = bench.connect().await;
    bench.proxy.refuse(true);
    connect(&bench.proxy.url()).await.err().unwrap();
    client.batch_execute("SELECT 1").await.unwrap();
    bench.proxy.refuse(false);
    bench.connect().await;
}

#[tokio::test]
async fn frozen_it_says_nothing_and_afterwards_everything() {
    let bench = Bench::new();
    let client = bench.open_batch(1).await;
    bench.proxy.freeze(true);
    let commit = client.batch_execute("COMMIT");
    tokio::pin!(commit);
    tokio::time::timeout(SILENCE, &mut commit).await.unwrap_err();
    tokio::time::timeout(SILENCE, connect(&bench.proxy.url())).await.err().unwrap();
    assert_eq!(bench.rows(), "none");
    bench.proxy.freeze(false);
    commit.await.unwrap();
    assert_eq!(bench.rows(), "1");
    bench.proxy.freeze(true);
    bench.proxy.cut();
    client.batch_execute("SELECT 1").await.unwrap_err();
}

#[tokio::test]
async fn it_outlives_the_server() {
    let mut bench = Bench::new();
    let client = bench.connect().await;
    bench.server.kill().unwrap();
    client.batch_execute("SELECT 1").await.unwrap_err();
    connect(&bench.proxy.url()).await.err().unwrap();
    bench.server.restart().unwrap();
    bench.connect().await.batch_execute("SELECT 1").await.unwrap();
}
