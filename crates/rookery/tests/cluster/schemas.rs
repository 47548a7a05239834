//! Two projects in one database, each in its own schema.

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_store::node::LeaderRole;
use rookery_testkit::daemon::read;
use rookery_testkit::event_log::read_log;
use rookery_testkit::postgres::Schema;
use rookery_testkit::stream::Follower;
use rookery_testkit::wait::within;
use serde_json::json;

use crate::nodes::{announce, nodes_seen_by, note, send_as_person, setup, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn projects_in_one_database_are_isolated() -> anyhow::Result<()> {
    let (one, other) = (Schema::new()?, Schema::new()?);
    let a = setup().store(one.url()).start()?;
    let b = setup().store(other.url()).start()?;
    let mut stream = Follower::open(b.url(), "?after=0", None).await?;
    announce(&a, "anna").await?;
    announce(&b, "berta").await?;
    for number in 0..30 {
        ensure!(note(&a, "anna", &format!("of a {number}")).await?.status == 201);
    }
    ensure!(note(&b, "berta", "of b").await?.status == 201);

    // Events, by pages and by stream.
    let (of_a, of_b) = (read_log(&a).await?, read_log(&b).await?);
    ensure!(of_a.iter().all(|event| event["agent_id"] == "anna"), "{of_a:?}");
    ensure!(of_b.iter().all(|event| event["agent_id"] == "berta"), "{of_b:?}");
    for event in &of_b {
        let sent = within("the next event", stream.next()).await??.context("the stream ended")?;
        ensure!(sent.event()? == *event, "got {} instead of {event}", sent.data);
    }
    // Agents, nodes with all leader roles, the project.
    let mut projects = Vec::new();
    for (daemon, agent) in [(&a, "anna"), (&b, "berta")] {
        let agents = daemon.get("/agents").await?.body;
        ensure!(agents.as_array().map(Vec::len) == Some(1) && agents[0]["id"] == agent, "{agents}");
        let nodes = nodes_seen_by(daemon).await?;
        ensure!(nodes.len() == 1 && nodes[0]["pid"].as_u64() == daemon.pid().map(u64::from), "{nodes:?}");
        ensure!(nodes[0]["leader_roles"].as_array().map(Vec::len) == Some(LeaderRole::ALL.len()), "{nodes:?}");
        let info = daemon.get("/admin/info").await?.body;
        projects.push((text(&info["project_id"])?, text(&info["log"])?));
    }
    ensure!(projects[0].0 != projects[1].0 && projects[0].1 != projects[1].1, "{projects:?}");
    // Tokens.
    let made = send_as_person(&a, Method::POST, "/admin/tokens", Some(json!({"agent": "anna"}))).await?;
    let secret = text(&made.body["token"])?;
    for (daemon, status) in [(&a, 200), (&b, 401)] {
        let reply = read(daemon.request(Method::GET, "/agents").bearer_auth(&secret)).await?;
        ensure!(reply.status == status, "{reply:?}");
    }
    let listed = send_as_person(&b, Method::GET, "/admin/tokens", None).await?.body;
    ensure!(listed == json!([]), "{listed}");
    Ok(())
}
