//! The socket of an instance and the configuration file that leads programs to it.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use rookery_testkit::daemon::read;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{call, call_tool, call_with, configure_folder, instance_folder, setup, start, wait_for_socket};

#[tokio::test]
async fn context_socket_is_private_and_removed_at_shutdown() {
    let mut daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    let found = std::fs::metadata(&socket).unwrap();
    assert!(found.file_type().is_socket() && found.permissions().mode() & 0o777 == 0o600);
    let info = call(&socket, "/mcp", None, "server/discover", json!({})).await;
    assert_eq!(info["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "workflow-context", "{info}");
    let info = call(&socket, "/mcp/workflow", None, "server/discover", json!({})).await;
    assert_eq!(info["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "rookery", "{info}");
    daemon.kill().unwrap();
    assert!(socket.exists(), "a killed daemon leaves its socket");
    daemon.restart().unwrap();
    let socket = wait_for_socket(&daemon).await;
    eventually("the socket answers again", || async {
        Ok(reqwest::Client::builder()
            .no_proxy()
            .unix_socket(socket.clone())
            .build()?
            .get("http://localhost/mcp")
            .send()
            .await
            .ok()
            .map(drop))
    })
    .await
    .unwrap();
    daemon.stop().unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn bare_name_on_the_socket_is_a_member_of_the_instance() {
    let daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    assert_eq!(call_tool(&socket, "reviewer", "channel_send", json!({ "message": "hello" })).await.0, "sent");
    assert_eq!(call_tool(&socket, "coder@pr-2", "channel_send", json!({ "message": "elsewhere" })).await.0, "sent");
    // The same name as an argument, with and without the same name as the caller.
    let again = json!({ "message": "again", "agent_id": "reviewer" });
    assert_eq!(call_tool(&socket, "reviewer", "channel_send", again.clone()).await.0, "sent");
    call(&socket, "/mcp", None, "tools/call", json!({ "name": "channel_send", "arguments": again })).await;
    let agents = daemon.get("/agents").await.unwrap().body;
    let mut ids: Vec<&str> = agents.as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["coder@pr-2", "reviewer@pr-1"]);
    // A caller without a name reads the channel of the same instance.
    let read = json!({ "name": "channel_peek", "arguments": {} });
    let answer = call(&socket, "/mcp", None, "tools/call", read).await;
    let entries: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    let from: Vec<&Value> = entries.as_array().unwrap().iter().map(|entry| &entry["from"]).collect();
    assert_eq!(from, ["reviewer"; 3]);
}

#[tokio::test]
async fn token_on_the_socket_acts_only_as_its_agent() {
    let daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    let token = async |agent: &str, role: &str| {
        let request = daemon.request(Method::POST, "/admin/tokens").bearer_auth(daemon.person_key().unwrap());
        let created = read(request.json(&json!({ "agent": agent, "role": role }))).await.unwrap();
        HeaderMap::from_iter([(
            AUTHORIZATION,
            format!("Bearer {}", created.body["token"].as_str().unwrap()).parse().unwrap(),
        )])
    };
    let send = async |token: &HeaderMap, agent: Option<&str>, arguments: Value| {
        let params = json!({ "name": "channel_send", "arguments": arguments });
        call_with(&socket, "/mcp", token.clone(), agent, "tools/call", params).await
    };
    let (own, member) = (token("x", "agent").await, token("y@pr-1", "agent").await);
    let lead = token("boss", "lead").await;
    let hello = json!({ "message": "hello" });
    let named = |agent: &str| json!({ "message": "hello", "agent_id": agent });
    for (token, agent, arguments) in [
        // The first agent leads, and may act for others.
        (&lead, Some("boss"), hello.clone()),
        (&own, None, hello.clone()),
        (&own, Some("x"), hello.clone()),
        (&own, Some("x"), named("x")),
        (&own, None, named("x")),
        (&member, Some("y"), hello.clone()),
        (&member, Some("y@pr-1"), named("y")),
        (&lead, Some("z"), hello.clone()),
    ] {
        let answer = send(token, agent, arguments.clone()).await;
        assert_eq!(answer["result"]["content"][0]["text"], "sent", "{agent:?} {arguments}: {answer}");
    }
    for wrong in [Some("y"), Some("x@pr-1"), Some("x@default")] {
        assert_eq!(send(&own, wrong, hello.clone()).await["code"], "FORBIDDEN", "{wrong:?}");
    }
    assert_eq!(send(&own, None, named("y")).await["result"]["isError"], true);
    let agents = daemon.get("/agents").await.unwrap().body;
    let mut ids: Vec<&str> = agents.as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["boss", "x", "y@pr-1", "z@pr-1"]);
}

#[tokio::test]
async fn long_socket_path_is_replaced_by_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let run_time = tempfile::tempdir().unwrap();
    let daemon = setup().env("XDG_RUNTIME_DIR", run_time.path().to_str().unwrap()).start_at(&deep).unwrap();
    configure_folder(&daemon).await;
    let socket = daemon.root().join(".workflow/pr-1/context.sock");
    let link = || async { Ok(std::fs::read_link(&socket).ok()) };
    let far = eventually("the link", link).await.unwrap();
    assert!(far.starts_with(run_time.path()));
    let info = call(&far, "/mcp", None, "server/discover", json!({})).await;
    assert_eq!(info["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "workflow-context", "{info}");
    let shown = daemon.get("/contexts/pr-1").await.unwrap().body;
    assert_eq!(shown["socket"], far.to_str().unwrap());
}

#[tokio::test]
async fn mcp_configuration_file_is_unchanged_by_a_restart() {
    use std::os::unix::fs::MetadataExt;
    let mut daemon = start();
    configure_folder(&daemon).await;
    let file = instance_folder(&daemon).join("mcp.json");
    let before = (std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().ino());
    daemon.restart().unwrap();
    wait_for_socket(&daemon).await;
    eventually("the documents are rendered", || async {
        Ok(daemon.get("/contexts/pr-1").await?.body["rendered"].as_bool().filter(|r| *r))
    })
    .await
    .unwrap();
    assert_eq!((std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().ino()), before);
    let read: Value = serde_json::from_slice(&before.0).unwrap();
    let server = &read["mcpServers"]["workflow-context"];
    assert_eq!(server["type"], "stdio");
    assert_eq!(server["command"], env!("CARGO_BIN_EXE_rookery"));
    let root = daemon.root().to_str().unwrap();
    assert_eq!(server["args"], json!(["mcp", "--tools", "context", "--dir", root, "--instance", "pr-1"]));
}
