//! Messages and documents of agents as files, with people editing them at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{
    call_tool, configure, configure_folder, instance_folder, read, start, wait_for_socket, wait_for_version,
};

async fn wait_for_file(daemon: &rookery_testkit::daemon::Daemon, path: &str, text: &str) {
    let file = instance_folder(daemon).join(path);
    let goal = format!("{path} is '{text}'");
    eventually(&goal, || async { Ok(read(&file).filter(|found| found == text).map(drop)) }).await.unwrap();
}

#[tokio::test]
async fn channel_file_shows_entries_verbatim_across_a_restart() {
    let mut daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    for (agent, text) in
        [("reviewer", "@coder found auth validation issue in line 42"), ("coder", "Fixed,\n@reviewer please verify")]
    {
        assert_eq!(
            call_tool(&socket, agent, "channel_send", json!({ "message": text })).await,
            ("sent".to_owned(), false)
        );
    }
    let entries = call_tool(&socket, "reviewer", "channel_peek", json!({})).await.0;
    let entries: Vec<Value> = serde_json::from_str(&entries).unwrap();
    let expected: String = entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            format!("\n### {} [{}]\n{}\n", &text("timestamp")[11..19], text("from"), text("message"))
        })
        .collect();
    assert!(expected.contains(" [reviewer]\n@coder found") && expected.ends_with("verify\n"), "{expected}");
    wait_for_file(&daemon, "channel.md", &expected).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let socket = wait_for_socket(&daemon).await;
    wait_until_answering(&socket).await;
    call_tool(&socket, "coder", "channel_send", json!({ "message": "after a restart" })).await;
    let file = instance_folder(&daemon).join("channel.md");
    let whole = || async { Ok(read(&file).filter(|text| text.ends_with("[coder]\nafter a restart\n"))) };
    let text = eventually("the entry after the restart", whole).await.unwrap();
    assert!(text.starts_with(&expected) && text.matches("### ").count() == 3, "{text}");
}

/// Waits until the socket answers; a restarted daemon may still replace it.
async fn wait_until_answering(socket: &std::path::Path) {
    let answers = || async {
        let client = reqwest::Client::builder().no_proxy().unix_socket(socket).build()?;
        Ok(client.get("http://localhost/mcp").send().await.ok().map(drop))
    };
    eventually("the socket answers", answers).await.unwrap();
}

#[tokio::test]
async fn agents_and_people_edit_one_document() {
    let daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    assert_eq!(call_tool(&socket, "ada", "document_read", json!({})).await, (String::new(), false));
    call_tool(&socket, "ada", "document_write", json!({ "content": "# Notes" })).await;
    call_tool(&socket, "ada", "document_create", json!({ "file": "findings/a.md", "content": "found" })).await;
    wait_for_file(&daemon, "notes.md", "# Notes").await;
    wait_for_file(&daemon, "findings/a.md", "found").await;
    std::fs::write(instance_folder(&daemon).join("notes.md"), "# Notes of a person").unwrap();
    wait_for_version(&daemon, "notes.md", "# Notes of a person").await;
    assert_eq!(call_tool(&socket, "ada", "document_read", json!({})).await.0, "# Notes of a person");
    call_tool(&socket, "ada", "document_append", json!({ "content": "\nand more" })).await;
    wait_for_file(&daemon, "notes.md", "# Notes of a person\nand more").await;
    call_tool(&socket, "ada", "document_delete", json!({ "file": "findings/a.md" })).await;
    let gone = || async { Ok((!instance_folder(&daemon).join("findings/a.md").exists()).then_some(())) };
    eventually("the file is gone", gone).await.unwrap();
}

#[tokio::test]
async fn context_tools_of_a_disabled_context_are_rejected() {
    let daemon = start();
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    let url = daemon.url().to_owned();
    assert_eq!(configure(&daemon, "pr-1", json!({ "provider": "off" })).await.status, 200);
    let gone = || async { Ok((!socket.exists()).then_some(())) };
    eventually("the socket is gone", gone).await.unwrap();
    for (name, arguments) in [
        ("channel_send", json!({ "message": "hello" })),
        ("channel_read", json!({})),
        ("channel_peek", json!({})),
        ("inbox_check", json!({})),
        ("document_read", json!({})),
        ("document_list", json!({})),
        ("document_write", json!({ "content": "x" })),
    ] {
        let (text, is_error) = crate::support::call_tool_by_http(&url, "ada@pr-1", name, arguments).await;
        assert!(is_error && text.contains("CONTEXT_DISABLED"), "{name}: {text}");
    }
    let (text, is_error) =
        crate::support::call_tool_by_http(&url, "ada", "channel_send", json!({ "message": "on" })).await;
    assert!(!is_error, "{text}");
    let agents = daemon.get("/agents").await.unwrap().body;
    assert_eq!(agents.as_array().unwrap().len(), 1, "no agent joined a disabled context");
}

#[tokio::test]
async fn memory_context_works_without_files() {
    let daemon = start();
    assert_eq!(configure(&daemon, "pr-1", json!({ "provider": "memory" })).await.status, 200);
    let url = daemon.url().to_owned();
    let call =
        |name: &'static str, arguments: Value| crate::support::call_tool_by_http(&url, "ada@pr-1", name, arguments);
    assert_eq!(call("channel_send", json!({ "message": "hello" })).await.0, "sent");
    assert_eq!(call("document_write", json!({ "content": "words" })).await.0, "written");
    assert_eq!(call("document_read", json!({})).await.0, "words");
    // The files of another instance exist by now, so the renderer had its chance.
    crate::support::call_tool_by_http(&url, "ada@pr-2", "channel_send", json!({ "message": "hello" })).await;
    let other = daemon.root().join(".workflow/pr-2/channel.md");
    eventually("files of another instance", || async { Ok(read(&other).filter(|text| !text.is_empty())) })
        .await
        .unwrap();
    assert!(!instance_folder(&daemon).exists());
}

/// A person saves repeatedly while an agent writes: every text of either is a version, and the last one is in the
/// file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_of_person_and_agent_are_all_kept() {
    let daemon = Arc::new(start());
    configure_folder(&daemon).await;
    let socket = wait_for_socket(&daemon).await;
    call_tool(&socket, "ada", "document_write", json!({ "content": "begin" })).await;
    wait_for_file(&daemon, "notes.md", "begin").await;
    let (done, agent_socket) = (Arc::new(AtomicBool::new(false)), socket.clone());
    let stop = done.clone();
    let agent = tokio::spawn(async move {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            let text = format!("agent {written}");
            let answer = call_tool(&agent_socket, "ada", "document_write", json!({ "content": text })).await;
            assert_eq!(answer, ("written".to_owned(), false));
            written += 1;
        }
        written
    });
    let file = instance_folder(&daemon).join("notes.md");
    for number in 0..12 {
        let text = format!("person {number}");
        if number % 2 == 0 {
            std::fs::write(&file, &text).unwrap();
        } else {
            let new = file.with_extension("tmp");
            std::fs::write(&new, &text).unwrap();
            std::fs::rename(new, &file).unwrap();
        }
        let kept = || async { Ok(document_texts(&daemon).await.contains(&text).then_some(())) };
        eventually(&format!("'{text}' is a version"), kept).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    let written = agent.await.unwrap();
    let known = document_texts(&daemon).await;
    assert!((0..written).all(|number| known.contains(&format!("agent {number}"))));
    let last = known.last().unwrap().clone();
    wait_for_file(&daemon, "notes.md", &last).await;
}

/// The daemon is killed at varying moments: every acknowledged or saved text is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_daemon_crashes_lose_no_saved_document() {
    let mut daemon = start();
    configure_folder(&daemon).await;
    let file = instance_folder(&daemon).join("notes.md");
    let mut expected = Vec::new();
    for number in 0_u64..8 {
        let socket = wait_for_socket(&daemon).await;
        wait_until_answering(&socket).await;
        for write in 0..4 {
            let text = format!("agent {number}.{write}");
            let answer = call_tool(&socket, "ada", "document_write", json!({ "content": text })).await;
            assert_eq!(answer, ("written".to_owned(), false));
            expected.push(text);
        }
        let message = json!({ "message": format!("round {number}") });
        assert_eq!(call_tool(&socket, "ada", "channel_send", message).await.0, "sent");
        // Killed during the work that follows, each time a little later.
        tokio::time::sleep(std::time::Duration::from_millis(number * 3)).await;
        daemon.kill().unwrap();
        // No daemon runs that could overwrite the person's text.
        let text = format!("person {number}");
        std::fs::write(&file, &text).unwrap();
        expected.push(text.clone());
        daemon.restart().unwrap();
        let kept = || async { Ok(document_texts(&daemon).await.contains(&text).then_some(())) };
        eventually(&format!("'{text}' is a version"), kept).await.unwrap();
    }
    let known = document_texts(&daemon).await;
    assert!(expected.iter().all(|text| known.contains(text)), "{expected:?} in {known:?}");
    assert!(known.iter().all(|text| expected.contains(text)), "a text without author: {known:?}");
    wait_for_file(&daemon, "notes.md", known.last().unwrap()).await;
    let channel = instance_folder(&daemon).join("channel.md");
    let whole = || async { Ok(read(&channel).filter(|text| text.ends_with("round 7\n"))) };
    let text = eventually("the whole channel", whole).await.unwrap();
    assert_eq!(text.matches("### ").count(), 8, "{text}");
    let entries = std::fs::read_dir(instance_folder(&daemon)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(entries.into_iter().all(|name| !name.to_string_lossy().contains("edited")));
}

/// Every text of the document, oldest first.
async fn document_texts(daemon: &rookery_testkit::daemon::Daemon) -> Vec<String> {
    crate::support::versions(daemon, "notes.md").await.into_iter().map(|(_, text)| text).collect()
}
