//! Documents that several agents write.

use rmcp::model::{ReadResourceRequestParams, ResourceContents, SubscribeRequestParams, SubscriptionFilter};
use serde_json::{Value, json};

use crate::support::{Client, DEADLINE, Transport, connect_to, setup, text};

async fn connect_member(daemon: &rookery_testkit::daemon::Daemon, transport: Transport, agent: &str) -> Client {
    connect_to(daemon, transport, "context", Some(agent)).await
}

#[tokio::test]
async fn document_is_written_read_and_kept_in_history() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect_member(&daemon, Transport::Session, "a@x").await,
        connect_member(&daemon, Transport::Stateless, "b@x").await,
    );
    assert_eq!(a.call("document_read", json!({})).await, json!({"file": "notes.md", "content": "", "version": 0}));
    assert_eq!(a.call_text("document_write", json!({"content": "# Notes\n"})).await, "written");
    assert_eq!(b.call_text("document_append", json!({"content": "- one\n"})).await, "appended");
    assert_eq!(b.call_text("document_read", json!({})).await, "# Notes\n- one\n");
    let create = json!({"file": "findings/memory leak.md", "content": "# Leak"});
    assert_eq!(b.call_text("document_create", create.clone()).await, "created");
    assert_eq!(a.call_rejected("document_create", create).await["code"], "NAME_CONFLICT");
    assert_eq!(a.call_text("document_list", json!({})).await, r#"["findings/memory leak.md","notes.md"]"#);
    assert_eq!(a.call_text("document_delete", json!({"file": "findings/memory leak.md"})).await, "deleted");
    assert_eq!(a.call("document_list", json!({})).await, json!({"files": ["notes.md"]}));
    let gone = a.call_rejected("document_read", json!({"file": "findings/memory leak.md"})).await;
    assert_eq!(gone["code"], "DOCUMENT_NOT_FOUND");
    let before = json!({"file": "findings/memory leak.md", "version": 1});
    assert_eq!(a.call_text("document_history", before).await, "# Leak", "every version is kept");

    let history = a.call("document_history", json!({})).await["versions"].clone();
    let changes: Vec<_> =
        history.as_array().unwrap().iter().map(|one| (text(&one["author"]), text(&one["change"]))).collect();
    let expected =
        [("b@x", "appended"), ("a@x", "created")].map(|(author, change)| (author.to_owned(), change.to_owned()));
    assert_eq!(changes, expected);
    assert_eq!(a.call_text("document_history", json!({"version": 1})).await, "# Notes\n");
    assert_eq!(a.call_rejected("document_history", json!({"version": 9})).await["code"], "DOCUMENT_NOT_FOUND");
    let elsewhere = connect_member(&daemon, Transport::Socket, "a@y").await;
    assert_eq!(elsewhere.call("document_list", json!({})).await, json!({"files": []}));
}

#[tokio::test]
async fn concurrent_document_write_with_stale_base_is_rejected() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect_member(&daemon, Transport::Session, "a").await,
        connect_member(&daemon, Transport::Stateless, "b").await,
    );
    let new = a.call("document_write", json!({"content": "one", "base_version": 0})).await;
    assert_eq!(new, json!({"file": "notes.md", "version": 1}));
    b.call("document_write", json!({"content": "two", "base_version": 1})).await;
    let stale = a.call_rejected("document_write", json!({"content": "three", "base_version": 1})).await;
    assert_eq!((&stale["code"], &stale["recoverable"]), (&json!("STALE_VERSION"), &json!(true)));
    assert_eq!(stale["detail"]["newer"], json!({"version": 2, "author": "b", "content": "two"}));
    let merged = json!({"content": "two and three", "base_version": stale["detail"]["newer"]["version"]});
    assert_eq!(a.call("document_write", merged).await["version"], 3);
    let late = b.call_rejected("document_delete", json!({"file": "notes.md", "base_version": 2})).await;
    assert_eq!(late["detail"]["newer"]["content"], "two and three");
    b.call_text("document_delete", json!({"file": "notes.md", "base_version": 3})).await;
    let gone = a.call_rejected("document_write", json!({"content": "four", "base_version": 3})).await;
    assert_eq!((&gone["code"], &gone["detail"]["newer"]), (&json!("STALE_VERSION"), &Value::Null));
}

#[tokio::test]
async fn document_path_outside_its_folder_is_rejected() {
    let daemon = setup().start().unwrap();
    let a = connect_member(&daemon, Transport::Session, "a").await;
    for file in [
        "../notes.md",
        "/etc/notes.md",
        "a/../../b.md",
        "run.sh",
        "channel.md",
        ".git/x.md",
        "notes.md/x.md",
        "mcp.json/x.md",
    ] {
        let rejected = a.call_rejected("document_write", json!({"file": file, "content": "x"})).await;
        assert_eq!(rejected["code"], "INVALID_INPUT", "{file}");
    }
    assert_eq!(a.call_rejected("document_create", json!({"file": " ", "content": "x"})).await["code"], "INVALID_INPUT");
    assert_eq!(a.call("document_list", json!({})).await, json!({"files": []}));
}

#[tokio::test]
async fn document_is_a_resource_with_update_notifications() {
    let daemon = setup().start().unwrap();
    let (mut a, b) = (
        connect_member(&daemon, Transport::Session, "a@x").await,
        connect_member(&daemon, Transport::Stateless, "b@x").await,
    );
    let uri = "rookery://documents/x/sub/to%20do.md";
    b.call_text("document_create", json!({"file": "sub/to do.md", "content": "- [ ] one"})).await;
    let listed = a.service.list_all_resources().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.uri.as_str()).collect::<Vec<_>>(), ["rookery://agents/a@x/inbox", uri]);
    let read = async |client: &Client, uri: &str| {
        let read = client.service.read_resource(ReadResourceRequestParams::new(uri)).await?;
        match &read.contents[0] {
            ResourceContents::TextResourceContents { text, .. } => Ok::<_, rmcp::ServiceError>(text.clone()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read(&a, uri).await.unwrap(), "- [ ] one");
    assert!(read(&a, "rookery://documents/x/none.md").await.is_err());
    assert!(read(&a, "rookery://documents/x/..%2Fnotes.md").await.is_err());

    #[expect(deprecated, reason = "older clients subscribe this way")]
    a.service.subscribe(SubscribeRequestParams::new(uri)).await.unwrap();
    let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
    let mut listening = b.service.listen(filter).await.unwrap();
    b.call_text("document_append", json!({"file": "sub/to do.md", "content": "!"})).await;
    assert_eq!(a.next_resource_update().await, uri);
    let heard = tokio::time::timeout(DEADLINE, listening.next()).await.expect("no notification arrives").unwrap();
    assert!(matches!(heard, Some(rmcp::model::ServerNotification::ResourceUpdatedNotification(_))), "{heard:?}");
    assert_eq!(read(&a, uri).await.unwrap(), "- [ ] one!");
}
