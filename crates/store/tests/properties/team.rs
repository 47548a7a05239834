//! A team on the memory engine, which turns steps into submissions and runs them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rookery_core::agents::RegisterAgent;
use rookery_core::effects::CloseIntent;
use rookery_core::files::FireTimer;
use rookery_core::kernel::caller::Caller;
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_core::model::timer::conflict_timer_id;
use rookery_core::model::{LifeSource, Presence};
use rookery_core::redaction::{Erase, Redact, Target};
use rookery_core::tasks::CreateTask;
use rookery_core::traits::LogRow;
use rookery_core::{IntentId, Key, LogId, Row, RunId, Seq, TaskId, Timestamp};
use rookery_store::batch::Outcome;
use rookery_store::memory::Database;
use rookery_store::{Idempotency, PresenceBoard, Submission};

use crate::steps::{AGENTS, STALE, Step, TASKS};

/// One time for all commands, so that batching cannot change any time.
pub(crate) const NOW: Timestamp = Timestamp(1_000);

/// The presence of some agents.
pub(crate) fn board() -> PresenceBoard {
    let board = PresenceBoard::default();
    for (agent, last_seen) in AGENTS.into_iter().zip([0, 2]) {
        board.saw(&agent.into(), Presence { last_seen: Timestamp(last_seen), source: LifeSource::Call });
    }
    board
}

#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) database: Database,
    board: PresenceBoard,
    intents: u32,
    /// All submissions so far, in order.
    asked: RefCell<Vec<Submission>>,
}

impl Team {
    /// Three workers and four tasks, the second depending on the first. The presence of the agents makes some evidence
    /// stale.
    pub(crate) fn new() -> Team {
        let team = Team {
            database: Database::new(LogId::from("log_p")),
            board: board(),
            intents: 0,
            asked: RefCell::default(),
        };
        for agent in &AGENTS[..3] {
            let profile = Profile {
                tool: "tool".to_owned(),
                role: AgentRole::Worker,
                capabilities: vec![],
                name: None,
                workspace_path: None,
                metadata: serde_json::Map::new(),
                card: None,
                role_name: None,
                session_id: None,
            };
            team.submit_first(Submission::new(
                Caller::asserted(*agent),
                RegisterAgent::with_profile((*agent).into(), profile),
            ));
        }
        for (at, task) in TASKS[..4].iter().enumerate() {
            let depends_on: Vec<TaskId> = if at == 1 { vec![TASKS[0].into()] } else { vec![] };
            let create = CreateTask {
                id: (*task).into(),
                run: RunId::project_default(),
                title: format!("do {task}"),
                description: String::new(),
                assigned_by: "somebody".to_owned(),
                assigned_to: None,
                resources: vec!["src/lib/".to_owned()],
                depends_on,
            };
            team.submit_first(Submission::new(Caller::anonymous(), create));
        }
        team
    }

    fn submit_first(&self, submission: Submission) {
        let outcomes = self.submit(vec![submission]);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }

    /// Runs the steps in batches of three.
    pub(crate) fn play(&mut self, steps: &[Step]) {
        steps.chunks(3).for_each(|steps| self.run(steps));
    }

    /// Runs the steps as one batch.
    pub(crate) fn run(&mut self, steps: &[Step]) {
        let submissions = steps.iter().map(|step| self.submission(step)).collect();
        self.submit(submissions);
    }

    pub(crate) fn asked(&self) -> Vec<Submission> {
        self.asked.borrow().clone()
    }

    pub(crate) fn submit(&self, submissions: Vec<Submission>) -> Vec<Outcome> {
        self.asked.borrow_mut().extend(submissions.iter().cloned());
        self.database.run(submissions, NOW, &self.board, None)
    }

    /// The submission of a step in the current state.
    pub(crate) fn submission(&mut self, step: &Step) -> Submission {
        match step {
            Step::Ask { caller, command, key } => {
                let mut command = command.clone();
                crate::contracts::attach_contract_check(&mut command, &self.rows());
                crate::teams::fit_to_team(&mut command, &self.rows());
                let mut submission = Submission::new(caller.clone(), command.clone());
                submission.idempotency = key.map(|key| Idempotency {
                    scope: caller.actor.to_string(),
                    key: format!("key {key}"),
                    hash: format!("{command:?}"),
                    keep_until: 2_000,
                });
                submission
            }
            Step::Fire { path, late } => {
                let timer = conflict_timer_id(path);
                let version = match self.rows().get(&Key::Timer(timer.clone())) {
                    Some(Row::Timer(timer)) if !late => timer.version,
                    _ => STALE,
                };
                Submission::new(Caller::system(), FireTimer { timer, version })
            }
            Step::Redact { pick, on_disk } => {
                let log = self.log();
                let row = pick.get(&log);
                self.intents += 1;
                let intent = IntentId::new(format!("int_{}", self.intents));
                let artifact = on_disk.then(|| Erase { intent, sha256: "ab".to_owned() });
                let target = Target { seq: row.seq, fact: row.event.clone(), artifact };
                Submission::new(Caller::person("anna"), Redact { rows: vec![target] })
            }
            Step::Close { pick } => {
                let number = pick.index(usize::try_from(self.intents).unwrap_or(0) + 1);
                let intent = IntentId::new(format!("int_{number}"));
                Submission::new(Caller::system(), CloseIntent { intent, failed: None })
            }
            Step::Route { pick } => {
                let (route, forward) = crate::envelopes::route(&self.log(), &self.rows(), pick);
                let mut submission = Submission::new(Caller::system(), route);
                submission.others.extend(forward.map(|forward| Submission::new(Caller::system(), forward)));
                submission
            }
            Step::Clock { pick, late } => {
                Submission::new(Caller::system(), crate::envelopes::alarm_command(&self.rows(), pick, *late))
            }
            Step::Settle { pick, well } => {
                Submission::new(Caller::system(), crate::workspaces::conclusion_of_pending(&self.rows(), pick, *well))
            }
            Step::Fenced { caller, command, task, stale } => {
                let fence = match self.rows().get(&Key::Task(task.clone())) {
                    Some(Row::Task(task)) if !stale => task.claim.as_ref().map(|claim| claim.fence),
                    _ => Some(STALE),
                };
                Submission::new(Caller { fence, ..caller.clone() }, command.clone())
            }
        }
    }

    pub(crate) fn log(&self) -> Vec<LogRow> {
        self.database.log()
    }

    pub(crate) fn rows(&self) -> BTreeMap<Key, Row> {
        self.database.stored().0.into_iter().collect()
    }

    pub(crate) fn head(&self) -> Seq {
        self.database.head()
    }
}
