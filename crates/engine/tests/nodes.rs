//! Several nodes over one database in memory, each with its own folder and all subscribers running.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

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
            // Watching begins once the tree has been walked; earlier changes are not noticed.
            tokio::time::timeout(TIMEOUT, coverage.wait_for(|coverage| coverage.is_watching())).await.unwrap().unwrap();
        }
        Daemon { engine, services, folder }
    }

    async fn register(&self, agent: &str) {
        let register = RegisterAgent::with_profile(agent.into(), worker());
        self.engine.submit(Request::new(Caller::asserted(agent), register)).await.unwrap();
    }

    async fn claim_file(&self, agent: &str, path: &str) {
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

    /// Changes a file in one step; returns the change that the watcher should report.
    fn write_file(&self, path: &str, before: &str, after: &str) -> Change {
        let aside = self.folder.path().join(".git");
        std::fs::create_dir_all(&aside).unwrap();
        std::fs::write(aside.join("new"), after).unwrap();
        std::fs::rename(aside.join("new"), self.folder.path().join(path)).unwrap();
        Change { site: self.site(), path: path.to_owned(), before: hash(before), after: hash(after) }
    }

    fn site(&self) -> String {
        self.engine.cluster().node().site.id.to_string()
    }

    fn holds(&self, role: LeaderRole) -> bool {
        self.engine.cluster().leader_epoch(role).is_some()
    }

    async fn stop(self) {
        self.services.stop(&self.engine).await;
    }
}

/// Polls until a condition holds.
async fn wait_until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap();
}

/// A change of a claimed file as reported by a watcher.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    site: String,
    path: String,
    before: String,
    after: String,
}

fn reported_changes(database: &Database) -> Vec<Change> {
    let rows = database.log().into_iter().filter_map(|row| match row.event.typed() {
        EventRef::FileModified(modified) if modified.source == ChangeSource::Watcher => Some(Change {
            site: modified.site.as_ref().unwrap().to_string(),
            path: modified.path.to_string(),
            before: modified.before.clone(),
            after: modified.after.clone(),
        }),
        _ => None,
    });
    rows.collect()
}

#[tokio::test]
async fn claimed_file_of_another_site_is_not_reported_as_changed() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::On, |_| {}).await;
    let other = Daemon::start(&database, "other", WatchMode::On, |_| {}).await;
    one.register("a").await;
    one.claim_file("a", "shared.txt").await;
    // The report of this change shows that the node has also checked the file claimed before.
    other.claim_file("a", "own.txt").await;
    let own = other.write_file("own.txt", "the copy of other", "changed");
    wait_until(|| reported_changes(&database).contains(&own)).await;
    assert_eq!(reported_changes(&database), [own]);

    let there = other.write_file("shared.txt", "the copy of other", "changed in the other folder");
    wait_until(|| reported_changes(&database).last() == Some(&there)).await;
    let here = one.write_file("shared.txt", "the copy of one", "changed in the one folder");
    wait_until(|| reported_changes(&database).last() == Some(&here)).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn change_before_the_claim_commits_is_reported_by_its_site() {
    let database = Database::new(LogId::from("log"));
    let one = Daemon::start(&database, "one", WatchMode::On, |_| {}).await;
    one.register("a").await;
    let before = hash_file(one.folder.path(), "shared.txt").await.unwrap();
    let expected = one.write_file("shared.txt", "the copy of one", "changed between the look and the claim");
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
    wait_until(|| reported_changes(&database).last() == Some(&expected)).await;
    one.stop().await;
}

#[tokio::test]
async fn token_revoked_on_one_node_is_rejected_on_all() {
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
    let identify = |daemon: &Daemon| {
        let credentials = Credentials { bearer: Some("secret"), ..Credentials::default() };
        daemon.engine.access().identify(&credentials, Timestamp(1)).map(|caller| caller.actor).map_err(|no| no.code)
    };
    one.engine.access().create_token(token).await.unwrap();
    wait_until(|| identify(&other) == Ok(Actor::Agent("a".into()))).await;
    assert!(one.engine.access().revoke_token("tok_1").await.unwrap());
    wait_until(|| identify(&other) == Err(Code::Unauthenticated)).await;
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
    wait_until(|| check(&other, 1) == Err(Code::Unauthenticated)).await;
    one.engine.submit(Request::new(Caller::person("anna"), start(2))).await.unwrap();
    assert_eq!((check(&one, 1), check(&one, 2)), (Err(Code::Unauthenticated), Ok(())));
    let third = Daemon::start(&database, "third", WatchMode::Off, |_| {}).await;
    assert_eq!(
        (check(&third, 1), check(&third, 2)),
        (Err(Code::Unauthenticated), Ok(())),
        "also on a node that starts later"
    );
    for daemon in [one, other, third] {
        daemon.stop().await;
    }
}

#[tokio::test]
async fn leader_roles_are_held_by_one_node_and_move_at_shutdown() {
    let database = Database::new(LogId::from("log"));
    let quick = |settings: &mut Settings| {
        settings.offline_after = Duration::from_millis(500);
        settings.call_only_offline_after = Duration::from_millis(500);
    };
    let one = Daemon::start(&database, "one", WatchMode::Off, quick).await;
    let other = Daemon::start(&database, "other", WatchMode::Off, quick).await;
    let roles = |daemon: &Daemon| LeaderRole::ALL.map(|role| daemon.holds(role));
    assert_eq!((roles(&one), roles(&other)), ([true; LeaderRole::ALL.len()], [false; LeaderRole::ALL.len()]));
    one.register("a").await;
    one.stop().await;
    wait_until(|| roles(&other) == [true; LeaderRole::ALL.len()]).await;
    // The new node declares the agent offline after its own full timeout.
    let offline = || database.log().iter().any(|row| matches!(row.event.typed(), EventRef::AgentWentOffline(_)));
    wait_until(offline).await;
    assert_eq!(other.engine.cluster().nodes().len(), 1, "a departed node is not listed");
    other.stop().await;
    assert!(database.posts().values().all(|post| post.until == Timestamp(i64::MIN)), "no lease is left to wait for");
}
