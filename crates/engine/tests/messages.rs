//! Messages of a team: channels, inboxes, broadcasts, documents and notifications, with a store in memory.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rookery_core::agents::{CurrentTask, LeaveTeam, RegisterAgent, SetAgentStatus};
use rookery_core::documents::{AppendDocument, Base, WriteDocument, Writer};
use rookery_core::messages::{Addressees, ReleaseHeld, StormGuard, Verdict};
use rookery_core::model::agent::AgentStatus;
use rookery_core::model::document::DocumentId;
use rookery_core::model::document_path::DocumentPath;
use rookery_core::model::message::{Fate, Message, Standing};
use rookery_core::{AgentId, Caller, Code, Instance, LogId, MessageId, Timestamp};
use rookery_engine::documents::Changed;
use rookery_engine::messages::{Pending, Post, PresenceWord, Reached, Span, Until};
use rookery_engine::projections::unread::Unread;
use rookery_engine::settings::Settings;
use rookery_engine::watcher::WatchMode;
use rookery_engine::{Config, Engine, EngineError, Request, Services, delivery};
use rookery_store::memory::Database;
use rookery_store::{Clock, SubmitError};

use support::{TIMEOUT, worker};

const HOUR: i64 = 3_600_000;
#[derive(Debug)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> u64 {
        self.0.load(Ordering::Relaxed).unsigned_abs()
    }
}

struct Team {
    engine: Engine,
    clock: Arc<ManualClock>,
}

impl Team {
    async fn of(agents: &[&str]) -> Team {
        let team = Team::on(&Database::new(LogId::from("log_m")), "one", StormGuard::default());
        for agent in agents {
            team.register_agent(agent).await;
        }
        team
    }

    fn on(database: &Database, name: &str, storm_guard: StormGuard) -> Team {
        let clock = Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000)));
        let settings = Settings {
            messages_per_minute: storm_guard.per_minute,
            message_hops: storm_guard.hops,
            ..Settings::default()
        };
        let config = Config::new("test", "/nowhere", settings);
        let engine = support::engine(database, clock.clone(), support::node(name, Path::new("/nowhere")), config);
        Team { engine, clock }
    }

    async fn register_agent(&self, agent: &str) {
        let register = RegisterAgent::with_profile(agent.into(), worker());
        self.engine.submit(Request::new(by(agent), register)).await.unwrap();
    }

    fn advance_clock(&self, millis: i64) {
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    async fn send_mention(&self, agent: &str, text: &str) -> Message {
        self.engine.inbox().send(&by(agent), Post::entry(&agent.into(), text)).await.unwrap()
    }

    async fn publish(&self, agent: &str, topic: &str, to: &[&str]) -> Message {
        let named = to.iter().map(|agent| AgentId::from(*agent)).collect();
        let to = if to.is_empty() { Addressees::Everyone } else { Addressees::Agents(named) };
        self.engine.inbox().send(&by(agent), Post::coord(&agent.into(), topic, "news", to, "")).await.unwrap()
    }

    async fn inbox(&self, agent: &str) -> Vec<String> {
        texts(&self.engine.inbox().check(&by(agent), &agent.into(), None).await.unwrap().pending)
    }

    async fn coord(&self, agent: &str) -> Vec<MessageId> {
        ids(&self.engine.inbox().check_coord(&by(agent), &agent.into(), None).await.unwrap().pending)
    }

    async fn unread(&self, agent: &str) -> (usize, usize) {
        let Unread { pending, unseen, .. } = self.engine.inbox().count_unread(&agent.into()).await.unwrap();
        (pending, unseen)
    }

    async fn reached(&self, message: &Message, agent: &str) -> Reached {
        let status = self.engine.inbox().message_status(message.id()).await.unwrap().unwrap();
        status.recipients.into_iter().find(|one| one.agent == agent.into()).unwrap().reached
    }
}

fn by(agent: &str) -> Caller {
    Caller::asserted(agent)
}

fn ids(pending: &[Pending]) -> Vec<MessageId> {
    pending.iter().map(|pending| pending.message.id().clone()).collect()
}

fn texts(pending: &[Pending]) -> Vec<String> {
    pending.iter().map(|pending| pending.message.letter.text.clone()).collect()
}

fn code(error: EngineError) -> Code {
    match error {
        EngineError::Submit(SubmitError::Refused(refusal)) => refusal.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn mention_stays_in_the_inbox_until_acknowledged() {
    let team = Team::of(&["reviewer", "coder"]).await;
    let first = team.send_mention("reviewer", "@coder fix the auth issue").await;
    assert_eq!(team.unread("coder").await, (1, 1));
    assert_eq!(team.inbox("coder").await, ["@coder fix the auth issue"]);
    assert_eq!(team.unread("coder").await, (1, 0));
    assert_eq!(team.inbox("coder").await.len(), 1, "checking does not acknowledge");
    let second = team.send_mention("reviewer", "@coder and the other one").await;
    let until = Until::Time(Timestamp(second.at.0 + 1_000));
    let covered = team.engine.inbox().ack_until(&by("coder"), &"coder".into(), until).await.unwrap();
    assert_eq!(covered, [first.id().clone()], "a message that was not shown is not acknowledged");
    assert_eq!(team.inbox("coder").await, ["@coder and the other one"]);
    let until = Until::Message(second.id().clone());
    team.engine.inbox().ack_until(&by("coder"), &"coder".into(), until).await.unwrap();
    assert_eq!((team.inbox("coder").await.len(), team.unread("coder").await), (0, (0, 0)));
    let unknown = Until::Message("msg_x".into());
    assert_eq!(
        code(team.engine.inbox().ack_until(&by("coder"), &"coder".into(), unknown).await.unwrap_err()),
        Code::MessageNotFound
    );
}

#[tokio::test]
async fn peek_leaves_messages_unread_and_permits_acknowledgement() {
    let team = Team::of(&["a", "b"]).await;
    let message = team.send_mention("a", "@b look").await;
    let (b, caller) = (AgentId::from("b"), by("b"));
    let inbox = team.engine.inbox();
    let ack = || inbox.ack(&caller, &b, vec![message.id().clone()]);
    assert_eq!(code(ack().await.unwrap_err()), Code::NotDelivered);
    assert_eq!(team.engine.inbox().peek(&b, None).await.unwrap().count(), 1);
    assert_eq!((team.unread("b").await, team.reached(&message, "b").await), ((1, 1), Reached::Queued));
    ack().await.unwrap();
    ack().await.unwrap();
    assert_eq!(team.reached(&message, "b").await, Reached::Acked);
}

#[tokio::test]
async fn message_read_on_one_node_is_acknowledged_on_another() {
    let database = Database::new(LogId::from("log_m"));
    let one = Team::on(&database, "one", StormGuard::default());
    for agent in ["a", "b"] {
        one.register_agent(agent).await;
    }
    let (first, second) = (one.send_mention("a", "@b first").await, one.send_mention("a", "@b second").await);
    let news = one.publish("a", "GENERAL", &[]).await;
    assert_eq!((one.inbox("b").await.len(), one.coord("b").await.len()), (2, 1));
    let third = one.send_mention("a", "@b third").await;
    one.engine.inbox().peek(&"b".into(), None).await.unwrap();

    // Another node, or the same after a restart: it knows only the log.
    let other = Team::on(&database, "other", StormGuard::default());
    let (b, caller) = (AgentId::from("b"), by("b"));
    other.engine.inbox().ack(&caller, &b, vec![first.id().clone(), news.id().clone()]).await.unwrap();
    let upto = Until::Message(third.id().clone());
    assert_eq!(other.engine.inbox().ack_until(&caller, &b, upto).await.unwrap(), [second.id().clone()]);
    let peeked = other.engine.inbox().ack(&caller, &b, vec![third.id().clone()]).await;
    assert_eq!(code(peeked.unwrap_err()), Code::NotDelivered, "a peek leaves no trace on other nodes");
    assert_eq!(other.inbox("b").await, ["@b third"]);
    other.engine.inbox().ack(&caller, &b, vec![third.id().clone()]).await.unwrap();
    assert_eq!(one.inbox("b").await, [""; 0]);
}

#[tokio::test]
async fn channel_read_acknowledges_exactly_the_returned_entries() {
    let team = Team::of(&["a", "b"]).await;
    let mut sent = vec![];
    for at in 0..5 {
        sent.push(team.send_mention("a", &format!("@b number {at}")).await);
    }
    team.send_mention("b", "nothing for anybody").await;
    let read = |span: Span| {
        let team = &team;
        async move {
            let entries =
                team.engine.inbox().read_channel(&by("b"), &"b".into(), &Instance::default(), span).await.unwrap();
            entries.value.into_iter().map(|entry| entry.letter.text).collect::<Vec<_>>()
        }
    };
    let last = Span { limit: Some(2), ..Span::default() };
    assert_eq!(read(last).await, ["@b number 4", "nothing for anybody"]);
    assert_eq!(team.unread("b").await, (4, 4));
    let since = Span { since: Some(sent[1].at), limit: Some(2), before: None };
    assert_eq!(read(since).await, ["@b number 4", "nothing for anybody"], "the last entries after a time");
    let since = Span { since: Some(sent[1].at), ..Span::default() };
    assert_eq!(read(since).await.len(), 4, "the time itself is excluded");
    assert_eq!(team.inbox("b").await, ["@b number 0", "@b number 1"]);
    let peeked = team.engine.inbox().peek_channel(&"b".into(), &Instance::default(), Span::default()).await.unwrap();
    assert_eq!((peeked.value.len(), team.unread("b").await), (6, (2, 0)));
}

#[tokio::test]
async fn instances_have_separate_channels() {
    let team = Team::of(&["coder", "coder@pr-1", "lead@pr-1"]).await;
    team.send_mention("lead@pr-1", "@coder here").await;
    assert_eq!((team.inbox("coder@pr-1").await.len(), team.inbox("coder").await.len()), (1, 0));
    let entries = |instance: Instance| {
        let team = &team;
        async move { team.engine.inbox().channel(&instance, Span::default()).await.unwrap().value.len() }
    };
    assert_eq!((entries(Instance::new("pr-1")).await, entries(Instance::default()).await), (1, 0));
    assert_eq!(team.engine.inbox().mint_coord_message().as_str().split('-').count(), 3);
}

#[tokio::test]
async fn broadcast_stays_pending_for_each_agent_until_acknowledged() {
    let team = Team::of(&["a", "b", "c"]).await;
    let one = team.publish("a", "STATUS_UPDATE", &[]).await;
    let two = team.publish("a", "GENERAL", &["b"]).await;
    assert_eq!(team.coord("b").await, [one.id().clone(), two.id().clone()]);
    assert_eq!((team.coord("c").await, team.coord("a").await), (vec![one.id().clone()], vec![]));
    team.engine.inbox().ack(&by("b"), &"b".into(), vec![one.id().clone()]).await.unwrap();
    assert_eq!((team.coord("b").await, team.coord("c").await.len()), (vec![two.id().clone()], 1));
    assert_eq!((team.reached(&one, "b").await, team.reached(&one, "c").await), (Reached::Acked, Reached::Read));
    let three = team.publish("c", "GENERAL", &[]).await;
    assert_eq!(
        team.coord("b").await,
        [two.id().clone(), three.id().clone()],
        "an acknowledged broadcast is not shown again"
    );
    assert_eq!(team.unread("b").await, (2, 0));
}

#[tokio::test]
async fn new_messages_are_shown_despite_many_old_ones() {
    let team = Team::of(&["a", "b"]).await;
    for _ in 0..105 {
        team.publish("a", "SESSION_START", &[]).await;
        team.send_mention("a", "@b old").await;
    }
    let issue = team.publish("a", "BLOCKING_ISSUE", &[]).await;
    let first = team.coord("b").await;
    assert_eq!((first.len(), first.last()), (100, Some(issue.id())), "before session messages");
    assert_eq!(team.inbox("b").await.len(), 100);
    let general = team.publish("a", "GENERAL", &["b"]).await;
    let second = team.coord("b").await;
    assert_eq!((second.contains(issue.id()), second.last()), (true, Some(general.id())));
    let last = team.send_mention("a", "@b new").await;
    let waiting = team.engine.inbox().check(&by("b"), &"b".into(), Some(6)).await.unwrap();
    assert_eq!((waiting.has_news(), waiting.more, ids(&waiting.pending).last()), (true, 100, Some(last.id())));
    let waiting = team.engine.inbox().check(&by("b"), &"b".into(), Some(6)).await.unwrap();
    assert_eq!((waiting.has_news(), waiting.count()), (false, 106));
    let unread = team.engine.inbox().count_unread(&"b".into()).await.unwrap();
    assert_eq!((unread.inbox, unread.coord, unread.inbox_read, unread.coord_read), (0, 0, 106, 2));
    // Messages that were not shown do not prevent the acknowledgement of those that were.
    for _ in 0..1_000 {
        team.advance_clock(1_000);
        team.send_mention("a", "@b later").await;
    }
    let until = Until::Message(last.id().clone());
    assert_eq!(team.engine.inbox().ack_until(&by("b"), &"b".into(), until).await.unwrap().len(), 106);
    assert_eq!(team.engine.inbox().list(&"b".into(), Some(1)).await.unwrap().count(), 1_000);
}

#[tokio::test]
async fn late_joiner_gets_recent_unacknowledged_broadcasts() {
    let team = Team::of(&["a"]).await;
    team.publish("a", "GENERAL", &[]).await;
    team.advance_clock(25 * HOUR);
    let recent = team.publish("a", "BLOCKING_ISSUE", &[]).await;
    team.publish("a", "SESSION_START", &[]).await;
    team.register_agent("late").await;
    let after = team.publish("a", "SESSION_END", &[]).await;
    assert_eq!(team.coord("late").await, [recent.id().clone(), after.id().clone()]);
    team.advance_clock(25 * HOUR);
    assert_eq!(team.coord("late").await, [recent.id().clone()], "session messages expire after a day");
    assert_eq!(team.reached(&after, "late").await, Reached::Acked);
    for _ in 0..120 {
        team.publish("a", "GENERAL", &[]).await;
    }
    team.register_agent("later").await;
    assert_eq!(team.engine.inbox().list_coord(&"later".into(), Some(1_000)).await.unwrap().pending.len(), 100);
    assert_eq!(team.engine.inbox().list_coord(&"late".into(), Some(1_000)).await.unwrap().pending.len(), 121);
}

#[tokio::test]
async fn message_to_unknown_agent_expires_after_a_day() {
    let team = Team::of(&["a"]).await;
    let message = team.publish("a", "GENERAL", &["soon", "too-late"]).await;
    assert!(matches!(team.reached(&message, "soon").await, Reached::Awaited { .. }));
    team.advance_clock(23 * HOUR);
    team.register_agent("soon").await;
    team.advance_clock(2 * HOUR);
    team.register_agent("too-late").await;
    assert_eq!((team.coord("soon").await.len(), team.coord("too-late").await.len()), (1, 0));
    assert_eq!(
        (team.reached(&message, "soon").await, team.reached(&message, "too-late").await),
        (Reached::Read, Reached::Expired)
    );
}

#[tokio::test]
async fn reply_loop_is_held_until_a_person_releases_it() {
    let team = Team::of(&["a", "b"]).await;
    let mut held = None;
    for at in 0..60 {
        let (from, to) = if at % 2 == 0 { ("a", "b") } else { ("b", "a") };
        team.inbox(from).await;
        let message = team.send_mention(from, &format!("@{to} your turn")).await;
        if message.fate != Fate::Sent {
            held = Some((at, message));
            break;
        }
    }
    let (at, message) = held.unwrap();
    assert_eq!((at, team.engine.query().held_messages(None).await.unwrap().value), (21, vec![message.clone()]));
    assert_eq!(team.reached(&message, "a").await, Reached::Held);
    let release = ReleaseHeld { message: message.id().clone(), verdict: Verdict::Deliver };
    team.engine.submit(Request::new(Caller::person("anna"), release)).await.unwrap();
    assert_eq!(
        (team.reached(&message, "a").await, team.engine.query().held_messages(None).await.unwrap().value.len()),
        (Reached::Queued, 0)
    );
    team.inbox("a").await;
    assert_eq!(team.send_mention("a", "@b thanks").await.letter.header.hops, 1);
}

#[tokio::test]
async fn presence_uses_coordination_statuses() {
    let team = Team::of(&["a", "b"]).await;
    let statuses = || async {
        let found = team.engine.inbox().instance_presence().await.unwrap();
        found.into_iter().map(|one| (one.agent.to_string(), one.status)).collect::<Vec<_>>()
    };
    let offline =
        SetAgentStatus { agent: "b".into(), status: AgentStatus::Offline, current_task: CurrentTask::AsBefore };
    team.engine.submit(Request::new(by("b"), offline)).await.unwrap();
    assert_eq!(statuses().await, [("a".to_owned(), PresenceWord::Active), ("b".to_owned(), PresenceWord::Stale)]);
    team.advance_clock(15 * 60_000);
    assert_eq!(statuses().await[1].1, PresenceWord::Offline);
    team.engine.submit(Request::new(by("b"), LeaveTeam { agent: "b".into() })).await.unwrap();
    assert_eq!(statuses().await[1].1, PresenceWord::Offline, "a departed agent is listed for a day");
    team.advance_clock(24 * 60 * 60_000);
    assert_eq!(statuses().await.len(), 1);
}

#[tokio::test]
async fn concurrent_document_write_with_stale_base_is_rejected() {
    let team = Team::of(&["a", "b"]).await;
    let id = DocumentId::new(Instance::default().run(), DocumentPath::parse("notes.md").unwrap());
    let write = |agent: &str, text: &str, base: Base| WriteDocument {
        id: id.clone(),
        text: text.to_owned(),
        writer: Writer::Named(agent.into()),
        base,
    };
    let engine = &team.engine;
    assert_eq!(engine.documents().text(&id).await.unwrap(), None);
    engine.documents().write(&by("a"), write("a", "one\n", Base::Version(0))).await.unwrap();
    let append = AppendDocument { id: id.clone(), text: "two\n".to_owned(), writer: Writer::Named("b".into()) };
    engine.documents().append(&by("b"), append).await.unwrap();
    let stale = engine.documents().write(&by("a"), write("a", "mine\n", Base::Version(1))).await.unwrap();
    let Changed::Stale { refusal, newer: Some(newer) } = stale else { panic!("{stale:?}") };
    assert_eq!((refusal.code, newer.text.as_str(), newer.version.version), (Code::StaleVersion, "one\ntwo\n", 2));
    let done = engine.documents().write(&by("a"), write("a", "one\ntwo\nmine\n", Base::Version(2))).await.unwrap();
    assert!(matches!(done, Changed::Done(document) if document.version == 3));
    let history = engine.documents().history(&id, None).await.unwrap().value;
    let versions: Vec<_> = history.iter().map(|version| (version.version, version.author.as_str())).collect();
    assert_eq!(versions, [(3, "a"), (2, "b"), (1, "a")]);
    assert_eq!(engine.documents().text_at(&id, 2).await.unwrap().unwrap().text, "one\ntwo\n");
    assert_eq!(engine.documents().text_at(&id, 9).await.unwrap(), None);
    assert_eq!(engine.documents().list(&id.run).await.unwrap().value.len(), 1);
}

#[tokio::test]
async fn agent_is_notified_until_it_reads() {
    let team = Team::of(&["a", "b"]).await;
    rookery_engine::roster_follower::load_state(&team.engine).await.unwrap();
    let message = team.send_mention("a", "@b before you listened").await;
    let mut listener = team.engine.dispatcher().wakes().listen(&"b".into());
    let mut following = team.engine.subscribe(None).await.unwrap();
    for attempt in 1..=3 {
        delivery::look_up(&team.engine).await;
        delivery::ring(&team.engine).unwrap();
        let notice = listener.try_next().unwrap();
        assert_eq!((&notice.message, notice.attempt, notice.from.as_str()), (message.id(), attempt, "a"));
        team.advance_clock(5_000);
    }
    let status = team.engine.inbox().message_status(message.id()).await.unwrap().unwrap();
    assert_eq!((status.recipients[0].notified, status.recipients[0].reached), (3, Reached::Queued));
    team.inbox("b").await;
    following.next().await.unwrap().rows().iter().for_each(|row| delivery::note(&team.engine, row));
    team.advance_clock(500_000);
    assert_eq!((delivery::ring(&team.engine), listener.try_next()), (None, None));
    let waiting = team.engine.inbox().list(&"b".into(), None).await.unwrap();
    assert_eq!(waiting.pending[0].standing, Standing::Read);
}

#[tokio::test]
async fn every_node_notifies_its_own_listeners() {
    let database = Database::new(LogId::from("log_m"));
    let one = Team::on(&database, "one", StormGuard::default());
    let two = Team::on(&database, "two", StormGuard::default());
    let services = [
        Services::start(&one.engine, WatchMode::Off).await.unwrap(),
        Services::start(&two.engine, WatchMode::Off).await.unwrap(),
    ];
    for agent in ["a", "b", "c"] {
        one.register_agent(agent).await;
    }
    let mut there = two.engine.dispatcher().wakes().listen(&"b".into());
    let mut here = one.engine.dispatcher().wakes().listen(&"c".into());
    one.send_mention("a", "@b and @c, look").await;
    for listener in [&mut there, &mut here] {
        let notice = tokio::time::timeout(TIMEOUT, listener.next()).await.unwrap();
        assert_eq!(notice.excerpt, "@b and @c, look");
    }
    assert_eq!((one.unread("b").await, one.unread("a").await), ((1, 1), (0, 0)));
    one.inbox("b").await;
    assert_eq!(one.unread("b").await, (1, 0), "a node knows its own writes at once");
    let broadcast = one.publish("b", "BLOCKING_ISSUE", &[]).await;
    assert_eq!((one.unread("a").await, one.unread("b").await), ((1, 1), (1, 0)));
    let notice = tokio::time::timeout(TIMEOUT, here.next()).await.unwrap();
    assert_eq!((&notice.message, notice.excerpt.as_str()), (broadcast.id(), "news"));
    one.publish("a", "SESSION_START", &[]).await;
    let last = one.send_mention("a", "@c last").await;
    loop {
        let notice = tokio::time::timeout(TIMEOUT, here.next()).await.unwrap();
        assert_ne!(notice.excerpt, "SESSION_START");
        if notice.message == *last.id() {
            break;
        }
    }
    for (service, team) in services.into_iter().zip([&one, &two]) {
        service.stop(&team.engine).await;
    }
}
