//! Messages and documents on every engine: found by their columns, in order, and cleared by a redaction.

use rookery_core::documents::{AppendDocument, Writer};
use rookery_core::messages::{Ack, AckMessages, Addressees, Cause, ReadMessages, SendMessage, Shown, StormGuard, What};
use rookery_core::model::document::{DocumentId, Version, text_of};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::redaction::{REDACTED, Redact, Target};
use rookery_core::{Caller, Code, EventRef, Instance, Key, MessageId, Row, Seq, Table};
use rookery_store::query::{ColumnTest, Order};
use rookery_store::{LogQuery, RowQuery, Submission};

use crate::support::{World, register_agent, submit_ok, submit_rejected, whole_log};

fn send(id: &str, from: &str, what: What, text: &str) -> Submission {
    let instance = Instance::of(&from.into());
    let message = SendMessage {
        id: id.into(),
        run: instance.run(),
        thread: instance.thread(),
        from: from.into(),
        what,
        text: text.to_owned(),
        cause: Cause::Nothing,
        people: vec![],
        guard: StormGuard { per_minute: 10, hops: 20 },
    };
    Submission::new(Caller::asserted(from), message)
}

fn broadcast(id: &str, from: &str) -> Submission {
    let (topic, subject) = ("GENERAL".to_owned(), "news".to_owned());
    send(id, from, What::Coord { topic, subject, to: Addressees::Everyone, ack: Ack::ByTopic }, "")
}

fn ids(messages: &[&str]) -> Vec<MessageId> {
    messages.iter().map(|id| MessageId::from(*id)).collect()
}

async fn list_names(world: &World, query: RowQuery) -> Vec<String> {
    let (rows, _) = world.store.list(query).await.unwrap();
    let name = |row: Row| match row {
        Row::Message(message) => message.id().to_string(),
        Row::Delivery(delivery) => delivery.message.to_string(),
        Row::Version(version) => version.version.to_string(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(name).collect()
}

pub(crate) async fn messages_are_found_by_channel_recipient_and_audience(world: &World) {
    let store = &*world.store;
    for agent in ["a", "b", "b@x"] {
        submit_ok(store, register_agent(agent)).await;
    }
    for at in 0..4 {
        submit_ok(store, send(&format!("m{at}"), "a", What::Entry, "@b and @b@x, look")).await;
    }
    submit_ok(store, broadcast("all", "a")).await;
    submit_ok(store, send("other", "b@x", What::Entry, "elsewhere")).await;
    let pending = |agent: &str| {
        RowQuery::all(Table::Deliveries)
            .with("pending", ColumnTest::Is(agent.into()))
            .ordered_by("sent")
            .at_most(Some(3))
    };
    assert_eq!(list_names(world, pending("b")).await, ["m0", "m1", "m2"]);
    let read = ReadMessages { agent: "b".into(), messages: ids(&["m1", "m2", "all"]) };
    submit_ok(store, Submission::new(Caller::asserted("b"), read)).await;
    let ack = |messages: &[&str]| {
        let ack = AckMessages { agent: "b".into(), messages: ids(messages), shown: Shown::Before };
        Submission::new(Caller::asserted("b"), ack)
    };
    assert_eq!(submit_rejected(store, ack(&["m1", "m3"])).await, Code::NotDelivered);
    assert_eq!(submit_rejected(store, ack(&["other"])).await, Code::MessageNotFound);
    let acked = submit_ok(store, ack(&["m1", "all"])).await;
    assert_eq!(submit_ok(store, ack(&["m1"])).await.at, acked.at, "a repeated acknowledgement appends nothing");
    assert_eq!(list_names(world, pending("b")).await, ["m0", "m2", "m3"]);
    assert_eq!(list_names(world, pending("b@x")).await, ["m0", "m1", "m2"]);
    let mut newest = RowQuery::all(Table::Messages)
        .with("channel", ColumnTest::Is("thr_default".into()))
        .ordered_by("at")
        .at_most(Some(2));
    newest.order = Order::Descending;
    assert_eq!(list_names(world, newest).await, ["m3", "m2"]);
    let everyone =
        RowQuery::all(Table::Messages).with("audience", ColumnTest::Is("everyone".into())).ordered_by("sent");
    assert_eq!(list_names(world, everyone).await, ["all"]);
    let in_thread = LogQuery { thread: Some("thr_x".to_owned()), ..LogQuery::newest(10) };
    let (rows, _) = store.log(in_thread).await.unwrap();
    assert!(matches!(&rows[..], [row] if matches!(row.event.typed(), EventRef::MessageSent(_)) && row.run.is_some()));
}

pub(crate) async fn message_storm_is_held_and_listed(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    for at in 0..14 {
        submit_ok(store, send(&format!("m{at:02}"), "a", What::Entry, "again")).await;
    }
    let held = RowQuery::all(Table::Messages).with("held", ColumnTest::Present).ordered_by("sent");
    assert_eq!(list_names(world, held).await, ["m10", "m11", "m12", "m13"]);
}

pub(crate) async fn document_is_built_from_its_versions_and_redacted_by_version(world: &World) {
    let store = &*world.store;
    submit_ok(store, register_agent("a")).await;
    let id = DocumentId::new("run_x".into(), DocumentPath::parse("my notes.md").unwrap());
    for text in ["one\n", "secret\n", "three\0\n"] {
        let append = AppendDocument { id: id.clone(), text: text.to_owned(), writer: Writer::Named("a".into()) };
        submit_ok(store, Submission::new(Caller::asserted("a"), append)).await;
    }
    let pieces =
        || RowQuery::all(Table::Versions).with("base", ColumnTest::Is(Version::base_text(&id, 1).as_str().into()));
    let text = || async {
        let (rows, _) = store.list(pieces()).await.unwrap();
        let versions: Vec<Version> = rows
            .into_iter()
            .filter_map(|row| if let Row::Version(version) = row { Some(version) } else { None })
            .collect();
        text_of(&versions)
    };
    assert_eq!(text().await, "one\nsecret\nthree\0\n");
    let mut history = RowQuery::all(Table::Versions)
        .with("document", ColumnTest::Is(id.text().as_str().into()))
        .ordered_by("version");
    history.order = Order::Descending;
    assert_eq!(list_names(world, history).await, ["3", "2", "1"]);
    let log = whole_log(store).await;
    let row = log
        .iter()
        .find(|row| matches!(row.event.typed(), EventRef::DocumentWritten(written) if written.version == 2))
        .unwrap();
    let target = Target { seq: row.seq, fact: row.event.clone(), artifact: None };
    submit_ok(store, Submission::new(Caller::person("anna"), Redact { rows: vec![target] })).await;
    assert_eq!(text().await, format!("one\n{REDACTED}three\0\n"));
    let (rows, head) = store.rows(vec![Key::Document(id)]).await.unwrap();
    assert!(matches!(&rows[..], [Some(Row::Document(document))] if document.version == 3) && head.head > Seq(3));
}
