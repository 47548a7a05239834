//! The private PostgreSQL server: what tests rely on when they start, stop and kill one.

#![expect(clippy::unwrap_used, reason = "a step that cannot be taken has failed")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rookery_testkit::postgres::{Schema, Server};
use tokio_postgres::{Client, NoTls};

/// Set for the process that starts a server and then waits to be killed.
const HOLD: &str = "ROOKERY_TEST_HOLD_SERVER";
const DEADLINE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn shown(client: &Client, setting: &str) -> String {
    client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn it_answers_by_tcp_and_by_its_socket() {
    let server = Server::start().unwrap();
    for url in [server.url(), server.socket_url()] {
        let client = connect(&url).await;
        assert_eq!(client.query_one("SELECT current_database()", &[]).await.unwrap().get::<_, String>(0), "rookery");
        assert_eq!(shown(&client, "server_encoding").await, "UTF8");
        assert_eq!(shown(&client, "fsync").await, "off");
        assert_eq!(shown(&client, "max_connections").await, "300");
    }
    assert_eq!(server.psql("SELECT 6 * 7").unwrap(), "42");
}

#[tokio::test]
async fn what_was_committed_survives_a_kill_and_the_port_stays() {
    let mut server = Server::durable().unwrap();
    let (url, port) = (server.url(), server.port());
    let client = connect(&url).await;
    assert_eq!(shown(&client, "fsync").await, "on");
    assert_eq!(shown(&client, "synchronous_commit").await, "on");
    client.batch_execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (2)").await.unwrap();

    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    client.batch_execute("COMMIT").await.unwrap_err();
    tokio_postgres::connect(&url, NoTls).await.err().unwrap();

    server.restart().unwrap();
    assert_eq!((server.port(), server.url()), (port, url.clone()));
    assert_eq!(server.psql("SELECT string_agg(n::text, ',') FROM kept").unwrap(), "1");
    assert!(server.log().contains("was not properly shut down"), "{}", server.log());
}

#[tokio::test]
async fn stopped_and_started_again_it_has_its_data() {
    let mut server = Server::start().unwrap();
    server.psql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    let _lingers = connect(&server.url()).await;
    server.stop().unwrap();
    server.stop().unwrap();
    server.restart().unwrap();
    server.restart().unwrap();
    assert_eq!(server.psql("SELECT n FROM kept").unwrap(), "7");
    assert!(!server.log().contains("was not properly shut down"), "{}", server.log());
}

#[test]
fn dropping_it_removes_process_and_folder() {
    let server = Server::start().unwrap();
    let (pid, folder) = (server.pid().unwrap(), folder_of(&server));
    assert!(Path::new(&folder).exists());
    drop(server);
    assert!(!Path::new(&folder).exists(), "{folder} is still there");
    assert!(!is_alive(pid));
}

#[test]
fn a_schema_goes_with_its_guard() {
    let server = Server::start().unwrap();
    let (one, other) = (Schema::at(server.url()), Schema::at(server.url()));
    for schema in [&one, &other] {
        server.psql(&format!("CREATE SCHEMA {}", schema.name())).unwrap();
        schema.psql("CREATE TABLE rows (n int)").unwrap();
    }
    let name = other.name().to_owned();
    drop(one);
    assert_eq!(server.psql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 't\\_%'").unwrap(), name);
}

/// The process that holds the server is this test again, with [`HOLD`] set.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_does_not_outlive_a_process_that_is_killed() {
    if std::env::var_os(HOLD).is_some() {
        let server = Server::start().unwrap();
        announce(&format!("held {} {}", server.pid().unwrap(), folder_of(&server)));
        return std::future::pending().await;
    }
    let mut holder = hold();
    let line = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = line.filter_map(|line| Some(line.split_once("held ")?.1.to_owned())).next().unwrap();
    let (pid, folder) = line.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    assert!(is_alive(pid) && Path::new(folder).exists());

    holder.kill().unwrap();
    holder.wait().unwrap();
    let gone = async {
        while is_alive(pid) || Path::new(folder).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "this test is about the end of another process")]
fn hold() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it_does_not_outlive_a_process_that_is_killed", "--nocapture"])
        .env(HOLD, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(clippy::print_stdout, reason = "how the process that holds the server tells which it is")]
fn announce(line: &str) {
    println!("{line}");
}

fn folder_of(server: &Server) -> String {
    let data = server.psql("SHOW data_directory").unwrap();
    data.strip_suffix("/data").unwrap().to_owned()
}

/// A process whose exit status nobody has collected yet is not alive.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}
