//! What the simulation found, each as the shortest story that shows it.

#![expect(clippy::unwrap_used, reason = "a story that cannot be told has failed")]

use rookery_core::agent::{DeclareOffline, Evidence, LeadChosen, LeadReason, Profile, Register, Role};
use rookery_core::file::{
    Case, ChangeSource, ClaimFile, FilePath, FileReleased, Insist, NoteChange, ReleaseFile, ReleaseReason, Resolve,
};
use rookery_core::handoff::{Accept, Initiate, Note};
use rookery_core::view::{LifeSource, Presence};
use rookery_core::{Caller, Command, Fact, Key, LogId, Row, RunId, Timestamp, task};
use rookery_store::memory::Database;
use rookery_store::{PresenceBoard, Submission};

struct Team {
    database: Database,
    board: PresenceBoard,
}

impl Team {
    fn of(agents: &[&str]) -> Team {
        let team = Team { database: Database::new(LogId::from("log")), board: PresenceBoard::default() };
        agents.iter().for_each(|agent| team.register(agent, Role::Worker));
        team
    }

    fn by(&self, caller: Caller, command: impl Into<Command>) {
        let submission = Submission::new(caller, command);
        let outcome = self.database.run(vec![submission], Timestamp(1_000), &self.board, None).remove(0);
        outcome.unwrap();
    }

    fn person(&self, command: impl Into<Command>) {
        self.by(Caller::person("anna"), command);
    }

    fn register(&self, agent: &str, role: Role) {
        let profile = Profile {
            tool: "test".into(),
            role,
            capabilities: vec![],
            name: None,
            workspace_path: None,
            metadata: serde_json::Map::new(),
        };
        self.person(Register { id: agent.into(), profile });
    }

    fn goes_offline(&self, agent: &str) {
        let evidence = Evidence { last_seen: Timestamp(0), source: Some(LifeSource::Heartbeat), limit_millis: 60_000 };
        self.person(DeclareOffline { agent: agent.into(), evidence });
    }

    fn create(&self, id: &str) {
        self.person(task::Create {
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
        let insist = Insist::Ask;
        self.person(ClaimFile { path: path(file), agent: agent.into(), task, hash: String::new(), insist });
    }

    fn changed_by(&self, agent: &str, file: &str) {
        self.person(NoteChange {
            path: path(file),
            by: Some(agent.into()),
            before: None,
            after: Some("new".into()),
            source: ChangeSource::Report,
            task: None,
            metadata: serde_json::Map::new(),
            escalate_after_millis: 60_000,
        });
    }

    fn row(&self, key: &Key) -> Option<Row> {
        self.database.stored().0.get(key).cloned()
    }

    fn holder_of(&self, file: &str) -> Option<String> {
        match self.row(&Key::file(&path(file))) {
            Some(Row::File(file)) => file.holder().map(ToString::to_string),
            _ => None,
        }
    }

    fn is_here(&self, agent: &str) -> bool {
        matches!(self.row(&Key::Agent(agent.into())), Some(Row::Agent(agent)) if agent.is_live())
    }

    fn leads(&self) -> Vec<LeadChosen> {
        let chosen = |row: rookery_core::log::LogRow| match row.fact {
            Fact::LeadChosen(fact) => Some(fact),
            _ => None,
        };
        self.database.log().into_iter().filter_map(chosen).collect()
    }
}

fn path(text: &str) -> FilePath {
    FilePath::parse(text, Case::Kept).unwrap()
}

#[test]
fn a_redacted_fact_can_still_be_read_where_its_reason_is_a_code() {
    let facts = [
        Fact::FileReleased(FileReleased {
            path: path("a"),
            holder: "one".into(),
            reason: ReleaseReason::HolderOffline,
        }),
        Fact::LeadChosen(LeadChosen { holder: None, asked: false, previous: None, reason: LeadReason::Vacated }),
    ];
    for fact in facts {
        let left = Fact::decode(fact.kind(), fact.version(), &fact.blanked());
        assert_eq!(left.unwrap(), fact);
    }
}

#[test]
fn whoever_is_given_something_while_offline_is_here_again() {
    let team = Team::of(&["one", "two"]);
    team.create("t");
    team.goes_offline("one");
    team.person(task::Claim { task: "t".into(), agent: "one".into() });
    assert!(team.is_here("one"));

    let team = Team::of(&["one", "two"]);
    team.goes_offline("one");
    team.claims("one", "a", None);
    assert!(team.is_here("one"));

    let team = Team::of(&["one", "two"]);
    team.create("t");
    team.person(task::Claim { task: "t".into(), agent: "two".into() });
    let to = Some("one".into());
    team.person(Initiate {
        id: "h".into(),
        from: "two".into(),
        to,
        task: "t".into(),
        note: Note { summary: "go on".into(), ..Note::default() },
    });
    team.goes_offline("one");
    team.person(Accept { handoff: "h".into(), agent: "one".into() });
    assert!(team.is_here("one"));
}

#[test]
fn what_an_agent_lost_and_asks_for_again_is_given_once() {
    let team = Team::of(&["one", "two"]);
    team.create("t");
    team.person(task::Claim { task: "t".into(), agent: "one".into() });
    team.claims("one", "a", None);
    team.goes_offline("one");
    team.person(task::Claim { task: "t".into(), agent: "one".into() });
    team.claims("one", "a", None);
    let grants = team.database.log().iter().filter(|row| matches!(row.fact, Fact::TaskClaimed(_))).count();
    assert_eq!(grants, 2);
    assert_eq!(team.holder_of("a").as_deref(), Some("one"));
}

#[test]
fn registering_again_chooses_a_vacant_lead_once() {
    let team = Team::of(&["one"]);
    team.goes_offline("one");
    team.register("one", Role::Lead);
    let reasons: Vec<LeadReason> = team.leads().into_iter().map(|chosen| chosen.reason).collect();
    assert_eq!(reasons, [LeadReason::First, LeadReason::Vacated, LeadReason::Asked]);
}

#[test]
fn the_winner_of_a_conflict_shares_its_path_with_nobody() {
    let team = Team::of(&["one", "two"]);
    team.claims("one", "src/", None);
    team.claims("one", "src/a", None);
    team.changed_by("two", "src/a");
    team.person(Resolve { path: path("src/a"), winner: "two".into() });
    assert_eq!(team.holder_of("src/a").as_deref(), Some("two"));
    assert_eq!(team.holder_of("src/"), None);
}

#[test]
fn a_conflict_that_outlived_its_claim_takes_nothing_from_the_next_holder() {
    let team = Team::of(&["one", "two", "three"]);
    team.claims("one", "src/", None);
    team.changed_by("two", "src/a");
    team.person(ReleaseFile { path: path("src/"), agent: "one".into() });
    team.claims("three", "src/a", None);
    team.person(Resolve { path: path("src/a"), winner: "two".into() });
    assert_eq!(team.holder_of("src/a").as_deref(), Some("three"));
}

#[test]
fn a_handoff_moves_the_claims_that_overlap_with_those_of_the_task() {
    let team = Team::of(&["one", "two"]);
    team.create("t");
    team.person(task::Claim { task: "t".into(), agent: "one".into() });
    team.claims("one", "src/", Some("t"));
    team.claims("one", "src/a", None);
    team.claims("one", "docs/", None);
    let note = Note { summary: "go on".into(), ..Note::default() };
    team.person(Initiate { id: "h".into(), from: "one".into(), to: None, task: "t".into(), note });
    team.person(Accept { handoff: "h".into(), agent: "two".into() });
    assert_eq!(team.holder_of("src/").as_deref(), Some("two"));
    assert_eq!(team.holder_of("src/a").as_deref(), Some("two"));
    assert_eq!(team.holder_of("docs/").as_deref(), Some("one"));
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
        board.learn(vec![("one".into(), at(theirs))]);
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
