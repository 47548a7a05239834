//! What the simulation found, each as the shortest story that shows it.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

use rookery_core::agents::RegisterAgent;
use rookery_core::files::{ChangeSource, ClaimFile, ClaimMode, RecordChange, ResolveConflict};
use rookery_core::handoffs::{AcceptHandoff, OfferHandoff};
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_core::model::file_path::{Case, FilePath};
use rookery_core::model::handoff::HandoffNote;
use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AnyCommand, AnyEvent, Caller, EventRef, LogId, RunId, Timestamp, tasks};
use rookery_store::memory::Database;
use rookery_store::{PresenceBoard, Submission};

struct Team {
    database: Database,
    board: PresenceBoard,
}

impl Team {
    fn of(agents: &[&str]) -> Team {
        let team = Team { database: Database::new(LogId::from("log")), board: PresenceBoard::default() };
        agents.iter().for_each(|agent| team.register(agent, AgentRole::Worker));
        team
    }

    fn by(&self, caller: Caller, command: impl Into<AnyCommand>) {
        let submission = Submission::new(caller, command);
        let outcome = self.database.run(vec![submission], Timestamp(1_000), &self.board, None).remove(0);
        outcome.unwrap();
    }

    fn person(&self, command: impl Into<AnyCommand>) {
        self.by(Caller::person("anna"), command);
    }

    fn register(&self, agent: &str, role: AgentRole) {
        let profile = Profile {
            tool: "test".into(),
            role,
            capabilities: vec![],
            name: None,
            workspace_path: None,
            metadata: serde_json::Map::new(),
            card: None,
            role_name: None,
            session_id: None,
        };
        self.person(RegisterAgent::with_profile(agent.into(), profile));
    }

    fn create(&self, id: &str) {
        self.person(tasks::CreateTask {
            id: id.into(),
            run: RunId::project_default(),
            title: "a task".into(),
            description: String::new(),
            assigned_by: "anna".into(),
            assigned_to: None,
            resources: vec![],
            depends_on: vec![],
        });
    }

    fn claims(&self, agent: &str, file: &str, task: Option<&str>) {
        let task = task.map(Into::into);
        let insist = ClaimMode::Request;
        self.person(ClaimFile { path: path(file), agent: agent.into(), task, hash: String::new(), site: None, insist });
    }

    fn changed_by(&self, agent: &str, file: &str) {
        self.person(RecordChange {
            path: path(file),
            by: Some(agent.into()),
            before: None,
            after: Some("new".into()),
            source: ChangeSource::Report,
            task: None,
            metadata: serde_json::Map::new(),
            site: None,
            escalate_after_millis: 60_000,
        });
    }
}

fn path(text: &str) -> FilePath {
    FilePath::parse(text, Case::Kept).unwrap()
}

#[test]
fn a_resolved_conflict_names_the_one_who_loses_the_path() {
    let team = Team::of(&["one", "two", "three"]);
    team.create("t");
    team.person(tasks::ClaimTask { task: "t".into(), agent: "one".into() });
    team.claims("one", "a", Some("t"));
    team.changed_by("two", "a");
    let note = HandoffNote { summary: "go on".into(), ..HandoffNote::default() };
    team.person(OfferHandoff { id: "h".into(), from: "one".into(), to: None, task: "t".into(), note });
    team.person(AcceptHandoff { handoff: "h".into(), agent: "three".into() });
    team.person(ResolveConflict { path: path("a"), winner: "two".into() });
    let losers: Vec<String> = team.database.log().into_iter().filter_map(|row| loser(&row.event)).collect();
    assert_eq!(losers, ["three"]);
}

fn loser(fact: &AnyEvent) -> Option<String> {
    match fact.typed() {
        EventRef::ConflictResolved(fact) => Some(fact.holder.to_string()),
        _ => None,
    }
}

#[test]
fn a_sign_of_life_is_news_on_a_clock_that_went_back() {
    let board = PresenceBoard::default();
    let at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    board.saw(&"one".into(), at(5_000));
    let before = board.get(&"one".into()).unwrap();
    board.saw(&"one".into(), at(1_000));
    assert!(board.get(&"one".into()).unwrap().last_seen > before.last_seen);
}

#[test]
fn what_was_seen_here_stays_news_beside_what_others_saw() {
    let at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    for theirs in [5_000, 9_000] {
        let board = PresenceBoard::default();
        board.saw(&"one".into(), at(5_000));
        board.learn(vec![rookery_store::PresenceRecord { agent: "one".into(), presence: at(theirs), by: None }]);
        assert_eq!(board.unwritten(), [("one".into(), at(theirs + 1))]);
    }
}

#[test]
fn an_older_sign_of_life_does_not_replace_a_newer_one() {
    let team = Team::of(&[]);
    let at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    team.database.write_presence(&[("one".into(), at(5_000))]);
    team.database.write_presence(&[("one".into(), at(1_000))]);
    assert_eq!(team.database.read_presence(), [("one".into(), at(5_000))]);
}
