//! Several nodes over one database in memory, each with a folder of its own and all of its subscribers running.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

mod support;

use rookery_core::{Actor, Authority, Caller, Code, EventRef, LogId, Timestamp};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::agents::RegisterAgent;
use rookery_core::files::{ChangeSource, ClaimFile, ClaimMode};
use rookery_core::kernel::session_key::{Session, TeamSession, hash};
use rookery_core::model::team::{Conclusion, Mode, Runner, StartTime};
use rookery_core::teams::{EndTeam, NewMember, StartTeam, Takeover};
use rookery_engine::settings::Settings;
use rookery_engine::watcher::WatchMode;
use rookery_engine::watcher::hash_file;
use rookery_engine::{Config, Credentials, Engine, Request, Services, SystemClock};
use rookery_store::memory::Database;
use rookery_store::{LeaderRole, Token};
use tempfile::TempDir;

use support::{TIMEOUT, engine, node, worker};

struct Daemon {
    engine: Engine,
    services: Services,
    folder: TempDir,
}

impl Daemon {
    async fn start(database: &Database, name: &str, watching: WatchMode, settings: impl Fn(&mut Settings)) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        for path in ["shared.txt", "own.txt"] {
            std::fs::write(folder.path().join(path), format!("the copy of {name}")).unwrap();
        }
        let node = node(name, folder.path());
        let mut chosen = Settings::default();
        settings(&mut chosen);
        let chosen = Config { shared: true, ..Config::new("test", folder.path(), chosen) };
        let engine = engine(database, Arc::new(SystemClock::default()), node, chosen);
        let services = Services::start(&engine, watching).await.unwrap();
        let mut coverage = services.watch_coverage();
        if watching == WatchMode::On {
            // Watching begins once the tree has been walked; changes before that are not seen to happen.
            tokio::time::timeout(TIMEOUT, coverage.wait_for(|coverage| coverage.is_watching())).await.unwrap().unwrap();
        }
        Daemon { engine, services, folder }
    }

    async fn register(&self, agent: &str) {
        let register = RegisterAgent::with_profile(agent.into(), worker());
        self.engine.submit(Request::new(Caller::asserted(agent), register)).await.unwrap();
    }

    async fn claims(&self, agent: &str, path: &str) {
        let hash = hash_file(self.folder.path(), path).await.unwrap();
        let path = self.engine.paths().parse(path).unwrap();
        let claim = ClaimFile {
            path,
            agent: agent.into(),
            task: None,
            hash,
            site: self.engine.cluster().site(),
            insist: ClaimMode::Request,
        };
        self.engine.submit(Request::new(Caller::asserted(agent), claim)).await.unwrap();
    }

    /// Changes a file in one step; what the watcher should say of it.
    fn writes(&self, path: &str, before: &str, after: &str) -> Change {
        let aside = self.folder.path().join(".git");
        std::fs::create_dir_all(&aside).unwrap();
        std::fs::write(aside.join("new"), after).unwrap();
        std::fs::rename(aside.join("new"), self.folder.path().join(path)).unwrap();
        Change { site: self.site(), path: path.to_owned(), before: hash(before), after: hash(after) }
    }

    fn site(&self) -> String {
        self.engine.cluster().node().site.id.to_string()
    }

    fn has(&self, duty: LeaderRole) -> bool {
        self.engine.cluster().leader_epoch(duty).is_some()
    }

    async fn stop(self) {
        self.services.stop(&self.engine).await;
    }
}

/// Looks again and again until it is so.
async fn until(mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap();
}

/// What a watcher reported of a claimed file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    site: String,
    path: String,
    before: String,
    after: String,
}

fn seen(database: &Database) -> Vec<Change> {
    let rows = database.log().into_iter().filter_map(|row| match row.event.typed() {
        EventRef::FileModified(fact) if fact.source == ChangeSource::Watcher => Some(Change {
            site: fact.site.as_ref().unwrap().to_string(),
            path: fact.path.to_string(),
            before: fact.before.clone(),
            after: fact.after.clone(),
        }),
        _ => None,
    });
    rows.collect()
}

#[tokio::test]
async fn another_folders_copy_of_a_claimed_file_is_no_change() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::On, |_| {}).await;
    let other = Daemon::start(&database, "other", WatchMode::On, |_| {}).await;
    one.register("a").await;
    one.claims("a", "shared.txt").await;
    // Whoever reports this change has looked at the file that was claimed before.
    other.claims("a", "own.txt").await;
    let own = other.writes("own.txt", "the copy of other", "changed");
    until(|| seen(&database).contains(&own)).await;
    assert_eq!(seen(&database), [own]);

    let there = other.writes("shared.txt", "the copy of other", "changed in the other folder");
    until(|| seen(&database).last() == Some(&there)).await;
    let here = one.writes("shared.txt", "the copy of one", "changed in the one folder");
    until(|| seen(&database).last() == Some(&here)).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_change_right_after_the_claim_is_seen_in_the_folder_where_it_was_made() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::On, |_| {}).await;
    one.register("a").await;
    let before = hash_file(one.folder.path(), "shared.txt").await.unwrap();
    let expected = one.writes("shared.txt", "the copy of one", "changed between the look and the claim");
    let path = one.engine.paths().parse("shared.txt").unwrap();
    let claim = ClaimFile {
        path,
        agent: "a".into(),
        task: None,
        hash: before,
        site: one.engine.cluster().site(),
        insist: ClaimMode::Request,
    };
    one.engine.submit(Request::new(Caller::asserted("a"), claim)).await.unwrap();
    until(|| seen(&database).last() == Some(&expected)).await;
    one.stop().await;
}

#[tokio::test]
async fn a_token_that_is_revoked_on_one_node_is_refused_on_all() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::Off, |_| {}).await;
    let other = Daemon::start(&database, "other", WatchMode::Off, |_| {}).await;
    let token = Token {
        id: "tok_1".to_owned(),
        hash: hash("secret"),
        subject: "a".to_owned(),
        power: Authority::Agent,
        created_at: Timestamp(0),
        expires_at: None,
        label: None,
        browser: None,
    };
    let who = |daemon: &Daemon| {
        let credentials = Credentials { bearer: Some("secret"), ..Credentials::default() };
        daemon.engine.access().identify(&credentials, Timestamp(1)).map(|caller| caller.actor).map_err(|no| no.code)
    };
    one.engine.access().create_token(token).await.unwrap();
    until(|| who(&other) == Ok(Actor::Agent("a".into()))).await;
    assert!(one.engine.access().revoke_token("tok_1").await.unwrap());
    until(|| who(&other) == Err(Code::Unauthenticated)).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn session_of_a_team_that_ends_on_one_node_is_rejected_on_all() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::Off, |_| {}).await;
    let other = Daemon::start(&database, "other", WatchMode::Off, |_| {}).await;
    let check = |daemon: &Daemon, generation| {
        let team = Some(TeamSession { team: "@pr-1".into(), generation });
        let session = Session { agent: "a@pr-1".into(), until: Timestamp(i64::MAX), team, sandbox: None };
        daemon.engine.access().team_sessions().check(&session).map_err(|refusal| refusal.code)
    };
    let runner = |pid| Runner {
        host: "laptop".to_owned(),
        boot_id: "boot".to_owned(),
        pid,
        started_at: StartTime::Ticks(u64::from(pid)),
        site: None,
    };
    let start = |pid| StartTeam {
        team: "@pr-1".into(),
        workflow: "w".to_owned(),
        file: None,
        mode: Mode::Run,
        agents: vec![NewMember { agent: "a@pr-1".into(), backend: "mock".to_owned(), model: None }],
        runner: runner(pid),
        takeover: Takeover::Refused,
    };
    let end = EndTeam { team: "@pr-1".into(), generation: 1, how: Conclusion::Completed, reason: None };
    one.engine.submit(Request::new(Caller::person("anna"), start(1))).await.unwrap();
    assert_eq!((check(&one, 1), check(&other, 1)), (Ok(()), Ok(())));
    one.engine.submit(Request::new(Caller::person("anna"), end)).await.unwrap();
    assert_eq!(check(&one, 1), Err(Code::Unauthenticated), "from the next request on");
    until(|| check(&other, 1) == Err(Code::Unauthenticated)).await;
    one.engine.submit(Request::new(Caller::person("anna"), start(2))).await.unwrap();
    assert_eq!((check(&one, 1), check(&one, 2)), (Err(Code::Unauthenticated), Ok(())));
    let third = Daemon::start(&database, "third", WatchMode::Off, |_| {}).await;
    assert_eq!(
        (check(&third, 1), check(&third, 2)),
        (Err(Code::Unauthenticated), Ok(())),
        "also on a node that starts"
    );
    for daemon in [one, other, third] {
        daemon.stop().await;
    }
}

#[tokio::test]
async fn duties_are_had_by_one_node_and_go_over_when_it_stops() {
    let database = Database::new(LogId::from("log"));
    let quick = |settings: &mut Settings| {
        settings.offline_after = Duration::from_millis(500);
        settings.call_only_offline_after = Duration::from_millis(500);
    };
    let one = Daemon::start(&database, "one", WatchMode::Off, quick).await;
    let other = Daemon::start(&database, "other", WatchMode::Off, quick).await;
    let has = |daemon: &Daemon| LeaderRole::ALL.map(|duty| daemon.has(duty));
    assert_eq!((has(&one), has(&other)), ([true; LeaderRole::ALL.len()], [false; LeaderRole::ALL.len()]));
    one.register("a").await;
    one.stop().await;
    until(|| has(&other) == [true; LeaderRole::ALL.len()]).await;
    // The new node misses whom only the other one saw, after a full period and no sooner.
    let offline = || database.log().iter().any(|row| matches!(row.event.typed(), EventRef::AgentWentOffline(_)));
    until(offline).await;
    assert_eq!(other.engine.cluster().nodes().len(), 1, "who departs is not missed");
    other.stop().await;
    assert!(database.posts().values().all(|post| post.until == Timestamp(i64::MIN)), "nobody is waited for");
}
