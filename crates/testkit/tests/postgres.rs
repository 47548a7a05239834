//! The private PostgreSQL server: starting, stopping, killing and cleaning up.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rookery_testkit::postgres::{Schema, Server};
use tokio_postgres::{Client, NoTls};

/// Set in the process that starts a server and then waits to be killed.
const HOLD: &str = "ROOKERY_TEST_HOLD_SERVER";
const DEADLINE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn setting_of(client: &Client, setting: &str) -> String {
    client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn server_answers_by_tcp_and_socket() {
    let server = Server::start().unwrap();
    for url in [server.url(), server.socket_url()] {
        let client = connect(&url).await;
        assert_eq!(client.query_one("SELECT current_database()", &[]).await.unwrap().get::<_, String>(0), "rookery");
        assert_eq!(setting_of(&client, "server_encoding").await, "UTF8");
        assert_eq!(setting_of(&client, "fsync").await, "off");
        assert_eq!(setting_of(&client, "max_connections").await, "300");
    }
    assert_eq!(server.psql("SELECT 6 * 7").unwrap(), "42");
}

#[tokio::test]
async fn commit_survives_crash_and_restart_keeps_port() {
    let mut server = Server::durable().unwrap();
    let (url, port) = (server.url(), server.port());
    let client = connect(&url).await;
    assert_eq!(setting_of(&client, "fsync").await, "on");
    assert_eq!(setting_of(&client, "synchronous_commit").await, "on");
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
async fn restart_keeps_data() {
    let mut server = Server::start().unwrap();
    server.psql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    let lingering_client = connect(&server.url()).await;
    server.stop().unwrap();
    server.stop().unwrap();
    drop(lingering_client);
    server.restart().unwrap();
    server.restart().unwrap();
    assert_eq!(server.psql("SELECT n FROM kept").unwrap(), "7");
    assert!(!server.log().contains("was not properly shut down"), "{}", server.log());
}

#[test]
fn dropped_server_leaves_no_process_or_folder() {
    let server = Server::start().unwrap();
    let (pid, folder) = (server.pid().unwrap(), folder_of(&server));
    assert!(Path::new(&folder).exists());
    drop(server);
    assert!(!Path::new(&folder).exists(), "{folder} is still there");
    assert!(!is_alive(pid));
}

#[test]
fn dropped_schema_is_removed_from_the_server() {
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

/// The test starts itself again with [`HOLD`] set, as the process that owns the server.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn server_ends_with_a_killed_owner() {
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
    let wait_until_gone = async {
        while is_alive(pid) || Path::new(folder).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait_until_gone).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "this test kills another process")]
fn hold() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_ends_with_a_killed_owner", "--nocapture"])
        .env(HOLD, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(clippy::print_stdout, reason = "the owner of the server reports its process id and folder")]
fn announce(line: &str) {
    println!("{line}");
}

fn folder_of(server: &Server) -> String {
    let data = server.psql("SHOW data_directory").unwrap();
    data.strip_suffix("/data").unwrap().to_owned()
}

/// Whether a process runs. A zombie does not count.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}
