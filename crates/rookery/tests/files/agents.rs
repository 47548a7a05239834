//! What agents say and write, as files and with people beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{configure, folder, read, socket_of, start, tool, until_version, with_folder};

async fn until_file(daemon: &rookery_testkit::daemon::Daemon, path: &str, text: &str) {
    let file = folder(daemon).join(path);
    let what = format!("{path} is '{text}'");
    eventually(&what, || async { Ok(read(&file).filter(|found| found == text).map(drop)) }).await.unwrap();
}

#[tokio::test]
async fn the_channel_stands_in_its_file_exactly_as_the_entries_are() {
    let mut daemon = start();
    with_folder(&daemon).await;
    let socket = socket_of(&daemon).await;
    for (agent, text) in
        [("reviewer", "@coder found auth validation issue in line 42"), ("coder", "Fixed,\n@reviewer please verify")]
    {
        assert_eq!(tool(&socket, agent, "channel_send", json!({ "message": text })).await, ("sent".to_owned(), false));
    }
    let entries = tool(&socket, "reviewer", "channel_peek", json!({})).await.0;
    let entries: Vec<Value> = serde_json::from_str(&entries).unwrap();
    let expected: String = entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            format!("\n### {} [{}]\n{}\n", &text("timestamp")[11..19], text("from"), text("message"))
        })
        .collect();
    assert!(expected.contains(" [reviewer]\n@coder found") && expected.ends_with("verify\n"), "{expected}");
    until_file(&daemon, "channel.md", &expected).await;
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    let socket = socket_of(&daemon).await;
    until_answering(&socket).await;
    tool(&socket, "coder", "channel_send", json!({ "message": "after a restart" })).await;
    let file = folder(&daemon).join("channel.md");
    let ended = || async { Ok(read(&file).filter(|text| text.ends_with("[coder]\nafter a restart\n"))) };
    let text = eventually("the entry after the restart", ended).await.unwrap();
    assert!(text.starts_with(&expected) && text.matches("### ").count() == 3, "{text}");
}

/// The socket of an earlier daemon may be replaced only now.
async fn until_answering(socket: &std::path::Path) {
    let asked = || async {
        let client = reqwest::Client::builder().no_proxy().unix_socket(socket).build()?;
        Ok(client.get("http://localhost/mcp").send().await.ok().map(drop))
    };
    eventually("the socket answers", asked).await.unwrap();
}

#[tokio::test]
async fn agents_and_people_write_one_document() {
    let daemon = start();
    with_folder(&daemon).await;
    let socket = socket_of(&daemon).await;
    assert_eq!(tool(&socket, "ada", "document_read", json!({})).await, (String::new(), false));
    tool(&socket, "ada", "document_write", json!({ "content": "# Notes" })).await;
    tool(&socket, "ada", "document_create", json!({ "file": "findings/a.md", "content": "found" })).await;
    until_file(&daemon, "notes.md", "# Notes").await;
    until_file(&daemon, "findings/a.md", "found").await;
    std::fs::write(folder(&daemon).join("notes.md"), "# Notes of a person").unwrap();
    until_version(&daemon, "notes.md", "# Notes of a person").await;
    assert_eq!(tool(&socket, "ada", "document_read", json!({})).await.0, "# Notes of a person");
    tool(&socket, "ada", "document_append", json!({ "content": "\nand more" })).await;
    until_file(&daemon, "notes.md", "# Notes of a person\nand more").await;
    tool(&socket, "ada", "document_delete", json!({ "file": "findings/a.md" })).await;
    let gone = || async { Ok((!folder(&daemon).join("findings/a.md").exists()).then_some(())) };
    eventually("the file is gone", gone).await.unwrap();
}

#[tokio::test]
async fn where_the_context_is_off_every_tool_of_it_says_so() {
    let daemon = start();
    with_folder(&daemon).await;
    let socket = socket_of(&daemon).await;
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
        let (text, is_error) = crate::support::tool_by_http(&url, "ada@pr-1", name, arguments).await;
        assert!(is_error && text.contains("CONTEXT_DISABLED"), "{name}: {text}");
    }
    let (text, is_error) = crate::support::tool_by_http(&url, "ada", "channel_send", json!({ "message": "on" })).await;
    assert!(!is_error, "{text}");
    let agents = daemon.get("/agents").await.unwrap().body;
    assert_eq!(agents.as_array().unwrap().len(), 1, "nobody joined where there is nothing to join");
}

#[tokio::test]
async fn in_memory_everything_works_but_there_are_no_files() {
    let daemon = start();
    assert_eq!(configure(&daemon, "pr-1", json!({ "provider": "memory" })).await.status, 200);
    let url = daemon.url().to_owned();
    let say = |name: &'static str, arguments: Value| crate::support::tool_by_http(&url, "ada@pr-1", name, arguments);
    assert_eq!(say("channel_send", json!({ "message": "hello" })).await.0, "sent");
    assert_eq!(say("document_write", json!({ "content": "words" })).await.0, "written");
    assert_eq!(say("document_read", json!({})).await.0, "words");
    // Another instance has its files by now: whoever makes them had the chance to.
    crate::support::tool_by_http(&url, "ada@pr-2", "channel_send", json!({ "message": "hello" })).await;
    let other = daemon.root().join(".workflow/pr-2/channel.md");
    eventually("files of another instance", || async { Ok(read(&other).filter(|text| !text.is_empty())) })
        .await
        .unwrap();
    assert!(!folder(&daemon).exists());
}

/// A person who saves again and again while an agent writes: every text of either is a version, and the last one stands in
/// the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_person_nor_an_agent_loses_a_word_to_the_other() {
    let daemon = Arc::new(start());
    with_folder(&daemon).await;
    let socket = socket_of(&daemon).await;
    tool(&socket, "ada", "document_write", json!({ "content": "begin" })).await;
    until_file(&daemon, "notes.md", "begin").await;
    let (done, place) = (Arc::new(AtomicBool::new(false)), socket.clone());
    let stop = done.clone();
    let agent = tokio::spawn(async move {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            let text = format!("agent {written}");
            let answer = tool(&place, "ada", "document_write", json!({ "content": text })).await;
            assert_eq!(answer, ("written".to_owned(), false));
            written += 1;
        }
        written
    });
    let file = folder(&daemon).join("notes.md");
    for number in 0..12 {
        let text = format!("person {number}");
        if number % 2 == 0 {
            std::fs::write(&file, &text).unwrap();
        } else {
            let new = file.with_extension("tmp");
            std::fs::write(&new, &text).unwrap();
            std::fs::rename(new, &file).unwrap();
        }
        let kept = || async { Ok(known(&daemon).await.contains(&text).then_some(())) };
        eventually(&format!("'{text}' is a version"), kept).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    let written = agent.await.unwrap();
    let known = known(&daemon).await;
    assert!((0..written).all(|number| known.contains(&format!("agent {number}"))));
    let last = known.last().unwrap().clone();
    until_file(&daemon, "notes.md", &last).await;
}

/// Ended at whatever moment, again and again: what was acknowledged to an agent and what a person saved is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_nothing_that_was_saved_is_lost() {
    let mut daemon = start();
    with_folder(&daemon).await;
    let file = folder(&daemon).join("notes.md");
    let mut expected = Vec::new();
    for number in 0_u64..8 {
        let socket = socket_of(&daemon).await;
        until_answering(&socket).await;
        for write in 0..4 {
            let text = format!("agent {number}.{write}");
            let answer = tool(&socket, "ada", "document_write", json!({ "content": text })).await;
            assert_eq!(answer, ("written".to_owned(), false));
            expected.push(text);
        }
        let said = json!({ "message": format!("round {number}") });
        assert_eq!(tool(&socket, "ada", "channel_send", said).await.0, "sent");
        // Somewhere in the middle of what follows from it, each time a little later.
        tokio::time::sleep(std::time::Duration::from_millis(number * 3)).await;
        daemon.kill().unwrap();
        // Nobody overwrites what the person saves now: whoever could is dead.
        let text = format!("person {number}");
        std::fs::write(&file, &text).unwrap();
        expected.push(text.clone());
        daemon.restart().unwrap();
        let kept = || async { Ok(known(&daemon).await.contains(&text).then_some(())) };
        eventually(&format!("'{text}' is a version"), kept).await.unwrap();
    }
    let known = known(&daemon).await;
    assert!(expected.iter().all(|text| known.contains(text)), "{expected:?} in {known:?}");
    assert!(known.iter().all(|text| expected.contains(text)), "what nobody wrote: {known:?}");
    until_file(&daemon, "notes.md", known.last().unwrap()).await;
    let channel = folder(&daemon).join("channel.md");
    let whole = || async { Ok(read(&channel).filter(|text| text.ends_with("round 7\n"))) };
    let text = eventually("the whole channel", whole).await.unwrap();
    assert_eq!(text.matches("### ").count(), 8, "{text}");
    let left = std::fs::read_dir(folder(&daemon)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("edited")));
}

/// Every text of the document, oldest first.
async fn known(daemon: &rookery_testkit::daemon::Daemon) -> Vec<String> {
    crate::support::versions(daemon, "notes.md").await.into_iter().map(|(_, text)| text).collect()
}
