//! Work on a site's files runs at that site: the node of the folder makes and removes a worktree, whichever node is asked.

use std::path::Path;

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::nodes::{Nodes, nodes_seen_by, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worktree_is_removed_by_the_node_of_its_site() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let mut nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let root = nodes[1].root().to_owned();
    git(&root, &["init", "--quiet", "--initial-branch=main"])?;
    git(&root, &["commit", "--quiet", "--allow-empty", "-m", "first"])?;
    let wanted = |branch: &str| json!({"branch": branch, "create_worktree": true, "repo_path": root});
    let mut made = vec![];
    for branch in ["one", "two"] {
        made.push(call_tool(&nodes[1], "workspace_create", wanted(branch)).await?);
    }
    for workspace in &made {
        std::fs::write(Path::new(&text(&workspace["path"])?).join("work.txt"), "precious")?;
    }
    let ends = |workspace: &Value| json!({"id": workspace["id"], "status": "abandoned", "cleanup_worktree": true});

    // The request goes to the other node, which waits until the node of the folder is done.
    let removed = call_tool(&nodes[0], "workspace_update", ends(&made[0])).await?;
    ensure!(removed["worktree_removed"] == true, "{removed}");
    let kept = format!("{}:work.txt", text(&removed["backup_ref"])?);
    ensure!(git(&root, &["show", &kept])? == "precious", "the work must be kept in the repository");

    nodes.kill(1)?;
    eventually("the node to be offline", async || {
        Ok(nodes_seen_by(&nodes[0]).await?.iter().any(|node| node["state"] == "offline").then_some(()))
    })
    .await?;
    let rejected = call_tool(&nodes[0], "workspace_update", ends(&made[1])).await.map_err(|error| error.to_string());
    nodes.restart(1)?;
    nodes.wait_until_ready().await?;
    ensure!(
        rejected.as_ref().is_err_and(|error| error.contains("SITE_OFFLINE") && error.contains("rookery up")),
        "{rejected:?}"
    );
    eventually("the node to be online", async || {
        let known = nodes_seen_by(&nodes[0]).await?;
        Ok((known.iter().filter(|node| node["state"] == "online").count() == 2).then_some(()))
    })
    .await?;
    let removed = call_tool(&nodes[0], "workspace_update", ends(&made[1])).await?;
    ensure!(removed["worktree_removed"] == true, "{removed}");
    nodes[0].replay_verify()
}

/// Calls an MCP tool without a session.
async fn call_tool(daemon: &Daemon, name: &str, arguments: Value) -> anyhow::Result<Value> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    let request = daemon
        .request(Method::POST, "/mcp")
        .header("x-agent-id", "lead")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let reply = read(request).await?;
    let result = &reply.body["result"];
    ensure!(result["isError"] != true, "{}", result["content"][0]["text"]);
    result.get("structuredContent").cloned().with_context(|| format!("{name}: {reply:?}"))
}

#[expect(clippy::disallowed_methods, reason = "runs git as a person would")]
fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output = std::process::Command::new("git").current_dir(folder).args(identity).args(arguments).output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
