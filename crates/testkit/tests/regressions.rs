//! Regressions that the simulation found, each as a minimal scenario.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

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

    fn submit(&self, caller: Caller, command: impl Into<AnyCommand>) {
        let submission = Submission::new(caller, command);
        let outcome = self.database.run(vec![submission], Timestamp(1_000), &self.board, None).remove(0);
        outcome.unwrap();
    }

    fn submit_as_person(&self, command: impl Into<AnyCommand>) {
        self.submit(Caller::person("anna"), command);
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
        self.submit_as_person(RegisterAgent::with_profile(agent.into(), profile));
    }

    fn create(&self, id: &str) {
        self.submit_as_person(tasks::CreateTask {
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

    fn claim_file(&self, agent: &str, file: &str, task: Option<&str>) {
        let task = task.map(Into::into);
        let insist = ClaimMode::Request;
        self.submit_as_person(ClaimFile {
            path: path(file),
            agent: agent.into(),
            task,
            hash: String::new(),
            site: None,
            insist,
        });
    }

    fn record_change(&self, agent: &str, file: &str) {
        self.submit_as_person(RecordChange {
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
fn resolved_conflict_names_the_current_holder() {
    let team = Team::of(&["one", "two", "three"]);
    team.create("t");
    team.submit_as_person(tasks::ClaimTask { task: "t".into(), agent: "one".into() });
    team.claim_file("one", "a", Some("t"));
    team.record_change("two", "a");
    let note = HandoffNote { summary: "go on".into(), ..HandoffNote::default() };
    team.submit_as_person(OfferHandoff { id: "h".into(), from: "one".into(), to: None, task: "t".into(), note });
    team.submit_as_person(AcceptHandoff { handoff: "h".into(), agent: "three".into() });
    team.submit_as_person(ResolveConflict { path: path("a"), winner: "two".into() });
    let losers: Vec<String> = team.database.log().into_iter().filter_map(|row| loser(&row.event)).collect();
    assert_eq!(losers, ["three"]);
}

fn loser(event: &AnyEvent) -> Option<String> {
    match event.typed() {
        EventRef::ConflictResolved(resolved) => Some(resolved.holder.to_string()),
        _ => None,
    }
}

#[test]
fn heartbeat_counts_after_clock_jumped_back() {
    let board = PresenceBoard::default();
    let presence_at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    board.saw(&"one".into(), presence_at(5_000));
    let before = board.get(&"one".into()).unwrap();
    board.saw(&"one".into(), presence_at(1_000));
    assert!(board.get(&"one".into()).unwrap().last_seen > before.last_seen);
}

#[test]
fn own_presence_stays_unwritten_after_learning_from_others() {
    let presence_at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    for theirs in [5_000, 9_000] {
        let board = PresenceBoard::default();
        board.saw(&"one".into(), presence_at(5_000));
        board.learn(vec![rookery_store::PresenceRecord {
            agent: "one".into(),
            presence: presence_at(theirs),
            by: None,
        }]);
        assert_eq!(board.unwritten(), [("one".into(), presence_at(theirs + 1))]);
    }
}

#[test]
fn older_presence_does_not_replace_newer() {
    let team = Team::of(&[]);
    let presence_at = |millis| Presence { last_seen: Timestamp(millis), source: LifeSource::Heartbeat };
    team.database.write_presence(&[("one".into(), presence_at(5_000))]);
    team.database.write_presence(&[("one".into(), presence_at(1_000))]);
    assert_eq!(team.database.read_presence(), [("one".into(), presence_at(5_000))]);
}
