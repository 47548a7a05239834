//! What belongs to a site is done there: a worktree is made and removed by the node of its folder, whoever asks.

use std::path::Path;

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::postgres::Schema;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::nodes::{Nodes, seen_by, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worktree_is_removed_by_the_node_of_its_site() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let mut nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let root = nodes[1].root().to_owned();
    git(&root, &["init", "--quiet", "--initial-branch=main"])?;
    git(&root, &["commit", "--quiet", "--allow-empty", "-m", "first"])?;
    let wanted = |branch: &str| json!({"branch": branch, "create_worktree": true, "repo_path": root});
    let mut made = vec![];
    for branch in ["one", "two"] {
        made.push(tool(&nodes[1], "workspace_create", wanted(branch)).await?);
    }
    for workspace in &made {
        std::fs::write(Path::new(&text(&workspace["path"])?).join("work.txt"), "precious")?;
    }
    let ends = |workspace: &Value| json!({"id": workspace["id"], "status": "abandoned", "cleanup_worktree": true});

    // The other node is asked; the folder is not its own, and it waits until the one that has it is done.
    let removed = tool(&nodes[0], "workspace_update", ends(&made[0])).await?;
    ensure!(removed["worktree_removed"] == true, "{removed}");
    let kept = format!("{}:work.txt", text(&removed["backup_ref"])?);
    ensure!(git(&root, &["show", &kept])? == "precious", "the bytes are kept where the folder was");

    nodes.kill(1)?;
    eventually("the node is missed", async || {
        Ok(seen_by(&nodes[0]).await?.iter().any(|node| node["state"] == "offline").then_some(()))
    })
    .await?;
    let refused = tool(&nodes[0], "workspace_update", ends(&made[1])).await.map_err(|error| error.to_string());
    nodes.restart(1)?;
    nodes.ready().await?;
    ensure!(
        refused.as_ref().is_err_and(|said| said.contains("SITE_OFFLINE") && said.contains("rookery up")),
        "{refused:?}"
    );
    eventually("the node is back", async || {
        let known = seen_by(&nodes[0]).await?;
        Ok((known.iter().filter(|node| node["state"] == "online").count() == 2).then_some(()))
    })
    .await?;
    let removed = tool(&nodes[0], "workspace_update", ends(&made[1])).await?;
    ensure!(removed["worktree_removed"] == true, "{removed}");
    nodes[0].replay_verify()
}

/// Calls a tool as a client does that has no session.
async fn tool(daemon: &Daemon, name: &str, arguments: Value) -> anyhow::Result<Value> {
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

#[expect(clippy::disallowed_methods, reason = "what git is asked for here is what a person would")]
fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output = std::process::Command::new("git").current_dir(folder).args(identity).args(arguments).output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
