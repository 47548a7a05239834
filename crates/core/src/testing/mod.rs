//! A world small enough for rule tests: rows in a map, commands decided one at a time, facts applied as they come.
//!
//! It loads what a rule asks for just as a store would, and fails the test if a rule asks more often than one may.

mod envelopes;
mod samples;
mod teams;

use std::collections::BTreeMap;

pub(crate) use envelopes::{ingest, route, sender, sends};
pub(crate) use samples::{blank_texts, samples};
pub(crate) use teams::{end, ends_turn, fails, kickoff, runs_in, starts, wakes};

use crate::agents::{CurrentTask, DeclareOffline, RegisterAgent, SetAgentStatus};
use crate::files::{ClaimFile, ClaimMode};
use crate::handoffs::OfferHandoff;
use crate::kernel::caller::{Auth, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, IntentId, MessageId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::instance::Instance;
use crate::kernel::rejection::Rejection;
use crate::messages::{Ack, AckMessages, Addressees, Cause, ReadMessages, SendMessage, Shown, StormGuard, What};
use crate::model::agent::{Agent, AgentRole, AgentStatus, Evidence, Lead, Profile};
use crate::model::document::{Document, DocumentId, text_of};
use crate::model::document_path::DocumentPath;
use crate::model::file::{File, FileClaimOutcome};
use crate::model::file_path::{Case, FilePath};
use crate::model::handoff::{Handoff, HandoffNote};
use crate::model::message::{Delivery, Message, Standing};
use crate::model::run::{Run, RunSpec, SourceType};
use crate::model::task::Task;
use crate::model::workspace::{Workspace, WorkspaceStatus};
use crate::model::{
    DeliveryId, EventStamp, Key, LifeSource, Presence, ReadItem, ReadSet, Row, Undecided, VersionId, View, task,
};
use crate::plans::{PlannedTask, SetRunPlan};
use crate::registry::decide;
use crate::runs::CreateRun;
use crate::tasks;
use crate::traits::{AnyCommand, AnyEvent, AnyReply, AnyReplySource, DecisionContext, LogRow, read_set};
use crate::workspaces::{BranchFate, BranchOrigin, ConcludeWorkspace, CreateWorkspace, Outcome, UpdateWorkspace};

/// How often a rule may ask for more: what a store allows.
const MAX_ROUNDS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct World {
    rows: BTreeMap<Key, Row>,
    presence: BTreeMap<AgentId, Presence>,
    pub(crate) log: Vec<LogRow>,
    pub(crate) now: i64,
}

impl World {
    /// A team of workers, the first of whom leads because nobody asked.
    pub(crate) fn of(agents: &[&str]) -> World {
        let mut world = World::default();
        for agent in agents {
            world.joins(agent, AgentRole::Worker);
        }
        world
    }

    pub(crate) fn run(
        &mut self,
        caller: &Caller,
        command: impl Into<AnyCommand>,
    ) -> Result<(Vec<AnyEvent>, AnyReplySource), Rejection> {
        let command = command.into();
        self.now += 1;
        let now = Timestamp(self.now);
        let next = Seq(self.log.len() as u64 + 1);
        let mut view = View::default();
        self.load(&mut view, read_set(caller, &command));
        for _ in 0..MAX_ROUNDS {
            match decide(&DecisionContext { view: &view, caller, now, next }, &command) {
                Err(Undecided::Missing(read_set)) => self.load(&mut view, read_set),
                Err(Undecided::Rejected(refusal)) => return Err(refusal),
                Ok(decision) => {
                    for fact in &decision.events {
                        self.append(caller, fact.clone());
                    }
                    for (seq, bytes) in decision.redacted {
                        let row = self.log.iter_mut().find(|row| row.seq == seq).unwrap();
                        row.event = AnyEvent::decode(row.event.kind(), row.event.version(), &bytes).unwrap();
                    }
                    return Ok((decision.events, decision.reply));
                }
            }
        }
        panic!("{} asked for more than {MAX_ROUNDS} times", command.name());
    }

    fn load(&self, view: &mut View, read_set: ReadSet) {
        let is_new = read_set.iter().any(|item| !view.is_loaded(item));
        assert!(is_new || read_set.is_empty(), "asked for what it has: {read_set:?}");
        for ask in read_set {
            match ask {
                ReadItem::Row(key) => view.load(key.clone(), self.rows.get(&key).cloned()),
                ReadItem::Rows(lookup) => {
                    let found = lookup.find_in(self.rows.iter());
                    view.load_all(lookup, found);
                }
                ReadItem::Presence(agent) => {
                    let presence = self.presence.get(&agent).copied();
                    view.load_presence(agent, presence);
                }
            }
        }
    }

    fn append(&mut self, caller: &Caller, fact: AnyEvent) {
        let (seq, at) = (Seq(self.log.len() as u64 + 1), Timestamp(self.now));
        fold(&mut self.rows, &fact, seq, at);
        self.log.push(LogRow {
            seq,
            at,
            run: None,
            thread: None,
            actor: caller.actor.clone(),
            auth: caller.auth,
            via: caller.acting_through.clone(),
            cause: None,
            part_index: 0,
            event: fact,
            body: None,
        });
    }

    /// The rows as the log alone would make them.
    pub(crate) fn rebuilt(&self) -> BTreeMap<Key, Row> {
        let mut rows = BTreeMap::new();
        for row in &self.log {
            fold(&mut rows, &row.event, row.seq, row.at);
        }
        rows
    }

    pub(crate) fn rows(&self) -> &BTreeMap<Key, Row> {
        &self.rows
    }

    /// Runs a command that must be done, and tells the kinds of its facts.
    pub(crate) fn does(&mut self, caller: &Caller, command: impl Into<AnyCommand>) -> Vec<&'static str> {
        let command = command.into();
        match self.run(caller, command.clone()) {
            Ok((facts, _)) => facts.iter().map(AnyEvent::kind).collect(),
            Err(refusal) => panic!("{command:?} by {} was refused: {refusal:?}", caller.actor),
        }
    }

    /// Runs a command that must be refused and leave no trace.
    pub(crate) fn refuses(&mut self, caller: &Caller, command: impl Into<AnyCommand>) -> Code {
        let command = command.into();
        let (rows, head) = (self.rows.clone(), self.log.len());
        match self.run(caller, command.clone()) {
            Ok((facts, _)) => panic!("{command:?} by {} was done: {facts:?}", caller.actor),
            Err(refusal) => {
                assert_eq!((&rows, head), (&self.rows, self.log.len()));
                assert!(!refusal.message.is_empty());
                refusal.code
            }
        }
    }

    pub(crate) fn joins(&mut self, agent: &str, role: AgentRole) -> Vec<&'static str> {
        self.does(&by(agent), register(agent, role))
    }

    pub(crate) fn creates(&mut self, task: &str, depends_on: &[&str]) -> Vec<&'static str> {
        self.does(&Caller::anonymous(), create(task, depends_on))
    }

    pub(crate) fn reserves(&mut self, task: &str, agent: &str) {
        self.does(&Caller::anonymous(), tasks::CreateTask { assigned_to: Some(agent.into()), ..create(task, &[]) });
    }

    pub(crate) fn claims(&mut self, agent: &str, task: &str) -> Vec<&'static str> {
        self.does(&by(agent), claim(agent, task))
    }

    pub(crate) fn starts(&mut self, agent: &str, task: &str) -> Vec<&'static str> {
        self.does(&by(agent), start(Some(agent), task))
    }

    /// Claims a path and tells whether it was granted, or to whom it belongs.
    pub(crate) fn claims_file(&mut self, agent: &str, path: &str) -> Result<Vec<AnyEvent>, Option<String>> {
        self.asks_file(&by(agent), claim_file(agent, path))
    }

    pub(crate) fn asks_file(&mut self, caller: &Caller, command: ClaimFile) -> Result<Vec<AnyEvent>, Option<String>> {
        match self.run(caller, command).unwrap() {
            (facts, AnyReplySource::Value(AnyReply::FileClaim(FileClaimOutcome::Granted))) => Ok(facts),
            (facts, AnyReplySource::Value(AnyReply::FileClaim(FileClaimOutcome::Refused { owner, .. }))) => {
                assert_eq!(facts, []);
                Err(owner.map(|owner| owner.to_string()))
            }
            other => panic!("not an answer to a claim: {other:?}"),
        }
    }

    pub(crate) fn saw(&mut self, agent: &str, at: i64) {
        self.presence.insert(agent.into(), Presence { last_seen: Timestamp(at), source: LifeSource::Call });
    }

    pub(crate) fn goes_offline(&mut self, agent: &str) -> Vec<&'static str> {
        self.does(&Caller::system(), offline(agent, self.now))
    }

    pub(crate) fn says(&mut self, agent: &str, status: AgentStatus) -> Vec<&'static str> {
        self.does(&by(agent), SetAgentStatus { agent: agent.into(), status, current_task: CurrentTask::AsBefore })
    }

    pub(crate) fn agent(&self, id: &str) -> &Agent {
        match self.rows.get(&Key::Agent(id.into())) {
            Some(Row::Agent(agent)) => agent,
            other => panic!("agent {id}: {other:?}"),
        }
    }

    pub(crate) fn task(&self, id: &str) -> &Task {
        match self.rows.get(&Key::Task(id.into())) {
            Some(Row::Task(task)) => task,
            other => panic!("task {id}: {other:?}"),
        }
    }

    pub(crate) fn run_row(&self, id: &str) -> &Run {
        match self.rows.get(&Key::Run(id.into())) {
            Some(Row::Run(run)) => run,
            other => panic!("run {id}: {other:?}"),
        }
    }

    /// A run with a plan: tasks by name, and what they depend on.
    pub(crate) fn plans(&mut self, run: &str, tasks: &[(&str, &[&str])]) {
        self.does(&anna(), create_run(run));
        self.does(&anna(), plan(run, tasks));
    }

    pub(crate) fn file(&self, at: &str) -> &File {
        match self.rows.get(&Key::file(&path(at))) {
            Some(Row::File(file)) => file,
            other => panic!("file {at}: {other:?}"),
        }
    }

    pub(crate) fn handoff(&self, id: &str) -> &Handoff {
        match self.rows.get(&Key::Handoff(id.into())) {
            Some(Row::Handoff(handoff)) => handoff,
            other => panic!("handoff {id}: {other:?}"),
        }
    }

    pub(crate) fn message(&self, id: &str) -> &Message {
        match self.rows.get(&Key::Message(id.into())) {
            Some(Row::Message(message)) => message,
            other => panic!("message {id}: {other:?}"),
        }
    }

    /// Where an agent stands with a message; `None` if it has no delivery.
    pub(crate) fn standing(&self, message: &str, agent: &str) -> Option<Standing> {
        match self.rows.get(&Key::Delivery(DeliveryId { message: message.into(), agent: agent.into() })) {
            Some(Row::Delivery(delivery)) => Some(delivery.standing),
            _ => None,
        }
    }

    /// What the index tells is pending for an agent.
    pub(crate) fn pending(&self, agent: &str) -> Vec<&str> {
        let pending = |row: &Row| row.columns().first() == Some(&agent.into());
        let mut found: Vec<&Delivery> = self
            .rows
            .values()
            .filter_map(|row| if let Row::Delivery(delivery) = row { pending(row).then_some(delivery) } else { None })
            .collect();
        found.sort_by_key(|delivery| delivery.sent);
        found.into_iter().map(|delivery| delivery.message.as_str()).collect()
    }

    pub(crate) fn reads(&mut self, agent: &str, messages: &[&str]) -> Vec<&'static str> {
        self.does(&by(agent), reads(agent, messages))
    }

    pub(crate) fn acks(&mut self, agent: &str, messages: &[&str]) -> Vec<&'static str> {
        self.does(&by(agent), acks(agent, messages))
    }

    pub(crate) fn document(&self, id: &DocumentId) -> &Document {
        match self.rows.get(&Key::Document(id.clone())) {
            Some(Row::Document(document)) => document,
            other => panic!("document {id:?}: {other:?}"),
        }
    }

    /// The text of a document at one of its versions.
    pub(crate) fn text(&self, id: &DocumentId, version: u64) -> String {
        let row = |version| match self.rows.get(&Key::Version(VersionId { document: id.clone(), version })) {
            Some(Row::Version(row)) => row,
            other => panic!("version {version} of {id:?}: {other:?}"),
        };
        text_of((row(version).base..=version).map(row))
    }

    pub(crate) fn workspace(&self, id: &str) -> &Workspace {
        match self.rows.get(&Key::Workspace(id.into())) {
            Some(Row::Workspace(workspace)) => workspace,
            other => panic!("workspace {id}: {other:?}"),
        }
    }

    pub(crate) fn holder(&self, task: &str) -> Option<&str> {
        self.task(task).holder().map(AgentId::as_str)
    }

    pub(crate) fn file_holder(&self, at: &str) -> Option<&str> {
        self.file(at).holder().map(AgentId::as_str)
    }

    pub(crate) fn lead(&self) -> Option<&str> {
        self.seat().and_then(|lead| lead.holder.as_ref()).map(AgentId::as_str)
    }

    pub(crate) fn seat(&self) -> Option<&Lead> {
        match self.rows.get(&Key::lead()) {
            Some(Row::Lead(lead)) => Some(lead),
            _ => None,
        }
    }
}

fn fold(rows: &mut BTreeMap<Key, Row>, event: &AnyEvent, seq: Seq, at: Timestamp) {
    event.apply(rows, EventStamp { seq, at });
    for key in event.write_set() {
        assert!(rows.get(&key).is_none_or(|row| row.table() == key.table()), "{key:?}");
    }
}

pub(crate) fn by(agent: &str) -> Caller {
    Caller::asserted(agent)
}

pub(crate) fn with_token(agent: &str) -> Caller {
    Caller { auth: Auth::Token, ..by(agent) }
}

pub(crate) fn anna() -> Caller {
    Caller::person("anna")
}

pub(crate) fn profile(role: AgentRole) -> Profile {
    Profile {
        tool: "claude-code".to_owned(),
        role,
        capabilities: vec!["code".to_owned()],
        name: None,
        workspace_path: None,
        metadata: serde_json::Map::new(),
        card: None,
        role_name: None,
        session_id: None,
    }
}

pub(crate) fn register(agent: &str, role: AgentRole) -> RegisterAgent {
    RegisterAgent::with_profile(agent.into(), profile(role))
}

pub(crate) fn offline(agent: &str, last_seen: i64) -> DeclareOffline {
    let evidence =
        Evidence { last_seen: Timestamp(last_seen), source: Some(LifeSource::Heartbeat), limit_millis: 60_000 };
    DeclareOffline { agent: agent.into(), evidence }
}

pub(crate) fn create(id: &str, depends_on: &[&str]) -> tasks::CreateTask {
    tasks::CreateTask {
        id: id.into(),
        run: RunId::project_default(),
        title: format!("do {id}"),
        description: String::new(),
        assigned_by: "somebody".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on: depends_on.iter().map(|dep| TaskId::from(*dep)).collect(),
    }
}

pub(crate) fn claim(agent: &str, task: &str) -> tasks::ClaimTask {
    tasks::ClaimTask { task: task.into(), agent: agent.into() }
}

pub(crate) fn start(agent: Option<&str>, task: &str) -> tasks::StartTask {
    let held_by_other = tasks::HeldByOther::KeepHolder;
    tasks::StartTask { task: task.into(), agent: agent.map(AgentId::from), held_by_other }
}

pub(crate) fn moves(task: &str, to: task::TaskState) -> tasks::SetTaskStep {
    tasks::SetTaskStep { task: task.into(), agent: None, to, reason: None, waiting_for: None }
}

pub(crate) fn release(task: &str) -> tasks::ReleaseTask {
    let (if_unclaimed, if_failed) = (tasks::IfUnclaimed::Succeed, tasks::IfFailed::Retry);
    tasks::ReleaseTask { task: task.into(), agent: None, reason: None, if_unclaimed, if_failed }
}

pub(crate) fn retry(task: &str) -> tasks::RetryTask {
    tasks::RetryTask { task: task.into(), agent: None }
}

pub(crate) fn complete(task: &str) -> tasks::CompleteTask {
    tasks::CompleteTask {
        task: task.into(),
        agent: None,
        outcome: task::Outcome::default(),
        outcome_required: tasks::Required::No,
        contract: None,
    }
}

pub(crate) fn fail(task: &str) -> tasks::FailTask {
    tasks::FailTask {
        task: task.into(),
        agent: None,
        error: Some("it broke".to_owned()),
        error_required: tasks::Required::No,
        retry: tasks::FailureRetry::Never,
    }
}

pub(crate) fn cancel(task: &str) -> tasks::CancelTask {
    tasks::CancelTask { task: task.into(), agent: None, reason: None, to: tasks::CancelTo::Cancelled }
}

pub(crate) fn skip(task: &str) -> tasks::CancelTask {
    tasks::CancelTask { to: tasks::CancelTo::Skipped, ..cancel(task) }
}

pub(crate) fn assign(task: &str, to: &str) -> tasks::AssignTask {
    tasks::AssignTask { task: task.into(), to: to.into() }
}

pub(crate) fn path(raw: &str) -> FilePath {
    FilePath::parse(raw, Case::Kept).unwrap()
}

pub(crate) fn claim_file(agent: &str, at: &str) -> ClaimFile {
    ClaimFile {
        path: path(at),
        agent: agent.into(),
        task: None,
        hash: "h0".to_owned(),
        site: None,
        insist: ClaimMode::Request,
    }
}

pub(crate) fn brief(title: &str) -> RunSpec {
    RunSpec {
        title: title.to_owned(),
        source_type: SourceType::Prompt,
        source_ref: None,
        source_content: "do it".to_owned(),
        repository_paths: vec![],
        max_parallel_tasks: 1,
        auto_create_workspaces: false,
        config: serde_json::Map::new(),
    }
}

pub(crate) fn create_run(id: &str) -> CreateRun {
    CreateRun { id: id.into(), brief: brief("a run") }
}

/// A task of a plan; its id is `tk_` and its name.
pub(crate) fn planned(name: &str, depends_on: &[&str]) -> PlannedTask {
    PlannedTask {
        id: TaskId::new(format!("tk_{name}")),
        title: name.to_owned(),
        description: String::new(),
        resources: vec![],
        depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        context_from: vec![],
        details: task::Details::default(),
    }
}

pub(crate) fn plan(run: &str, tasks: &[(&str, &[&str])]) -> SetRunPlan {
    let tasks = tasks.iter().map(|(name, depends_on)| planned(name, depends_on)).collect();
    SetRunPlan { run: run.into(), summary: "the plan".to_owned(), tasks }
}

pub(crate) fn hand_over(id: &str, from: &str, to: Option<&str>, task: &str) -> OfferHandoff {
    let note = HandoffNote { summary: "the half of it".to_owned(), ..HandoffNote::default() };
    OfferHandoff { id: id.into(), from: from.into(), to: to.map(AgentId::from), task: task.into(), note }
}

/// An entry in the channel of the author's own instance.
pub(crate) fn entry(id: &str, from: &str, text: &str) -> SendMessage {
    let instance = Instance::of(&from.into());
    SendMessage {
        id: id.into(),
        run: instance.run(),
        thread: instance.thread(),
        from: from.into(),
        what: What::Entry,
        text: text.to_owned(),
        cause: Cause::Nothing,
        people: vec![],
        guard: StormGuard::default(),
    }
}

pub(crate) fn direct(id: &str, from: &str, to: &[&str]) -> SendMessage {
    let to = to.iter().map(|agent| AgentId::from(*agent)).collect();
    SendMessage { what: What::Direct { to }, ..entry(id, from, "for you") }
}

/// A coordination message; to everybody if nobody is named.
pub(crate) fn coord(id: &str, from: &str, topic: &str, to: &[&str]) -> SendMessage {
    let named = to.iter().map(|agent| AgentId::from(*agent)).collect();
    let to = if to.is_empty() { Addressees::Everyone } else { Addressees::Agents(named) };
    let what = What::Coord { topic: topic.to_owned(), subject: "news".to_owned(), to, ack: Ack::ByTopic };
    SendMessage { what, ..entry(id, from, "") }
}

fn ids(messages: &[&str]) -> Vec<MessageId> {
    messages.iter().map(|message| MessageId::from(*message)).collect()
}

pub(crate) fn reads(agent: &str, messages: &[&str]) -> ReadMessages {
    ReadMessages { agent: agent.into(), messages: ids(messages) }
}

pub(crate) fn acks(agent: &str, messages: &[&str]) -> AckMessages {
    AckMessages { agent: agent.into(), messages: ids(messages), shown: Shown::Before }
}

pub(crate) fn document(path: &str) -> DocumentId {
    DocumentId::new(Instance::default().run(), DocumentPath::parse(path).unwrap())
}

/// A workspace in a folder that is there.
pub(crate) fn tells(id: &str, path: &str) -> CreateWorkspace {
    CreateWorkspace {
        id: id.into(),
        run: None,
        path: path.to_owned(),
        branch: "feature".to_owned(),
        base_branch: None,
        repo_path: None,
        tasks: vec![],
        config: serde_json::Map::new(),
        site: "site_1".into(),
        make: None,
    }
}

/// A workspace whose worktree is to be made, by an intent of the same name.
pub(crate) fn makes(id: &str, branch: &str) -> CreateWorkspace {
    CreateWorkspace {
        branch: branch.to_owned(),
        repo_path: Some("/r".to_owned()),
        make: Some(IntentId::new(format!("int_{id}"))),
        ..tells(id, &format!("/r-worktrees/{branch}"))
    }
}

/// What [`makes`] asked for is done.
pub(crate) fn made(id: &str) -> ConcludeWorkspace {
    let outcome = Outcome::Made { base_branch: "main".to_owned(), branch: BranchOrigin::Created };
    ConcludeWorkspace { workspace: id.into(), intent: IntentId::new(format!("int_{id}")), outcome }
}

pub(crate) fn sets(id: &str, status: WorkspaceStatus) -> UpdateWorkspace {
    UpdateWorkspace {
        workspace: id.into(),
        status: Some(status),
        merge_commit: (status == WorkspaceStatus::Merged).then(|| "abc123".to_owned()),
        pr_url: None,
        config: serde_json::Map::new(),
        remove: None,
    }
}

pub(crate) fn removes(id: &str, intent: &str) -> UpdateWorkspace {
    UpdateWorkspace { remove: Some(intent.into()), ..sets(id, WorkspaceStatus::Abandoned) }
}

/// What [`removes`] asked for is done.
pub(crate) fn removed(id: &str, intent: &str) -> ConcludeWorkspace {
    let outcome = Outcome::Removed { backup_ref: None, branch: BranchFate::Kept };
    ConcludeWorkspace { workspace: id.into(), intent: intent.into(), outcome }
}
