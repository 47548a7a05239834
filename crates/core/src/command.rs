//! What can be asked of the system, and the one place where it is decided.

use serde::{Deserialize, Serialize};

use crate::actor::{Actor, Auth, Authority, Caller};
use crate::adapter::NoteDropped;
use crate::agent::{
    Agent, DeclareOffline, Join, Lead, LeaveTeam, PauseAgent, RegisterAgent, RegisterCard, ResumeAgent, ReturnAgent,
    SetAgentStatus, UpdateCard, UpdateProfile,
};
use crate::clutch::{AnswerCall, Filed, Ingest, NoteRejected};
use crate::code::Code;
use crate::contract::{DefineStepContracts, RegisterSchema};
use crate::document::{AppendDocument, CreateDocument, DeleteDocument, Document, DocumentId, WriteDocument};
use crate::fact::AnyEvent;
use crate::file::{
    ClaimFile, File, FileClaimOutcome, FilePath, LockFile, RecordChange, RecordUntracked, ReleaseFile, ResolveConflict,
    UnlockFile,
};
use crate::group::{RemoveGroup, SetGroup};
use crate::handoff::{AcceptHandoff, Handoff, OfferHandoff, RejectHandoff};
use crate::id::{AgentId, HandoffId, IntentId, MessageId, Seq, TaskId, ThreadId, TimerId, Timestamp};
use crate::instance::ConfigureContext;
use crate::intent::{CloseIntent, Intent};
use crate::key::{Ask, Key, Lookup};
use crate::message::{
    AckMessages, Delivery, GiveUpDelivery, Message, ReadMessages, ReleaseHeld, RetryDelivery, SendMessage, Sender,
    Thread,
};
use crate::redact::Redact;
use crate::refusal::Rejection;
use crate::report::Report;
use crate::routing::{OfferTask, RouteTask};
use crate::row::Row;
use crate::run::{AddRunTask, CreateRun, RemoveRunTask, ReplanRun, SetRunPlan, SetRunStatus};
use crate::task::{self, Dependency, Task};
use crate::team::{AnnounceToTeam, ConcludeTeamStart, EndTeam, KickOff, RequestTeamStart, RequestTeamStop, StartTeam};
use crate::template::{ApplyTemplate, CreateTemplate};
use crate::timer::{FireTimer, Timer};
use crate::told;
use crate::turn::{EndTurn, StartTurn};
use crate::view::View;
use crate::workspace::{ConcludeWorkspace, CreateWorkspace, MergeWorkspace, UpdateWorkspace};

macro_rules! commands {
    ($($name:ident($body:ty)),+ $(,)?) => {
        #[derive(Clone, PartialEq, Debug)]
        pub enum Command { $($name($body)),+ }

        $(impl From<$body> for Command {
            fn from(command: $body) -> Command {
                Command::$name(command)
            }
        })+

        impl Command {
            pub fn name(&self) -> &'static str {
                match self { $(Command::$name(_) => stringify!($name)),+ }
            }
        }
    };
}

commands! {
    RegisterAgent(RegisterAgent),
    Join(Join),
    UpdateProfile(UpdateProfile),
    RegisterCard(RegisterCard),
    UpdateCard(UpdateCard),
    SetAgentStatus(SetAgentStatus),
    PauseAgent(PauseAgent),
    ResumeAgent(ResumeAgent),
    LeaveTeam(LeaveTeam),
    DeclareOffline(DeclareOffline),
    ReturnAgent(ReturnAgent),
    CreateTask(task::CreateTask),
    ClaimTask(task::ClaimTask),
    StartTask(task::StartTask),
    SetTaskStep(task::SetTaskStep),
    ReleaseTask(task::ReleaseTask),
    RetryTask(task::RetryTask),
    AssignTask(task::AssignTask),
    CompleteTask(task::CompleteTask),
    FailTask(task::FailTask),
    CancelTask(task::CancelTask),
    SkipTask(task::Skip),
    ReopenTask(task::ReopenTask),
    FireAlarm(task::FireAlarm),
    ClaimFile(ClaimFile),
    ReleaseFile(ReleaseFile),
    LockFile(LockFile),
    UnlockFile(UnlockFile),
    ResolveConflict(ResolveConflict),
    RecordChange(RecordChange),
    RecordUntracked(RecordUntracked),
    OfferHandoff(OfferHandoff),
    AcceptHandoff(AcceptHandoff),
    RejectHandoff(RejectHandoff),
    AddReport(Report),
    FireTimer(FireTimer),
    CloseIntent(CloseIntent),
    Redact(Redact),
    CreateRun(CreateRun),
    SetRunPlan(SetRunPlan),
    AddRunTask(AddRunTask),
    RemoveRunTask(RemoveRunTask),
    ReplanRun(ReplanRun),
    SetRunStatus(SetRunStatus),
    CreateTemplate(CreateTemplate),
    ApplyTemplate(ApplyTemplate),
    SetTaskPlan(task::SetTaskPlan),
    ReplanTask(task::ReplanTask),
    UpdateTaskStatus(task::UpdateStatus),
    TakeUpTask(task::TakeUp),
    AddCheckpoint(task::AddCheckpoint),
    SendMessage(SendMessage),
    Ingest(Ingest),
    AnswerCall(AnswerCall),
    NoteRejected(NoteRejected),
    NoteDropped(NoteDropped),
    RouteTask(RouteTask),
    OfferTask(OfferTask),
    ReadMessages(ReadMessages),
    AckMessages(AckMessages),
    ReleaseHeld(ReleaseHeld),
    GiveUpDelivery(GiveUpDelivery),
    RetryDelivery(RetryDelivery),
    WriteDocument(WriteDocument),
    AppendDocument(AppendDocument),
    CreateDocument(CreateDocument),
    DeleteDocument(DeleteDocument),
    ConfigureContext(ConfigureContext),
    CreateWorkspace(CreateWorkspace),
    UpdateWorkspace(UpdateWorkspace),
    MergeWorkspace(MergeWorkspace),
    ConcludeWorkspace(ConcludeWorkspace),
    RegisterSchema(RegisterSchema),
    DefineStepContracts(DefineStepContracts),
    SetGroup(SetGroup),
    RemoveGroup(RemoveGroup),
    RequestTeamStart(RequestTeamStart),
    ConcludeTeamStart(ConcludeTeamStart),
    StartTeam(StartTeam),
    KickOff(KickOff),
    AnnounceToTeam(AnnounceToTeam),
    RequestTeamStop(RequestTeamStop),
    EndTeam(EndTeam),
    StartTurn(StartTurn),
    EndTurn(EndTurn),
}

/// The inputs to a decision that are neither rows nor the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    pub at: Timestamp,
}

/// Why a rule gave no decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Undecided {
    Rejected(Rejection),
    /// The rule must see these first.
    Missing(Vec<Ask>),
}

impl From<Rejection> for Undecided {
    fn from(refusal: Rejection) -> Undecided {
        Undecided::Rejected(refusal)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    pub events: Vec<AnyEvent>,
    pub reply: Reply,
    /// Facts in the log whose texts go, with what stays of them.
    pub redacted: Vec<(Seq, Vec<u8>)>,
}

impl Decision {
    pub fn new(facts: Vec<AnyEvent>, reply: Reply) -> Decision {
        Decision { events: facts, reply, redacted: vec![] }
    }

    pub fn nothing(reply: Reply) -> Decision {
        Decision::new(vec![], reply)
    }
}

/// What the caller is told. `Row` is answered with the row as the command left it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done,
    Row(Key),
    /// The same of something that was done before: this is a repetition, with the first one's answer.
    Known(Key),
    Claim(FileClaimOutcome),
    Released,
    NotReleased {
        reason: String,
    },
    /// The command's own fact is the answer: the first that it committed.
    Recorded,
}

/// What the command will probably need; a rule may still ask for more.
pub fn asks(caller: &Caller, command: &Command) -> Vec<Ask> {
    let mut asks = match command {
        Command::RegisterAgent(c) => c.asks(),
        Command::Join(c) => c.asks(),
        Command::UpdateProfile(c) => c.asks(),
        Command::RegisterCard(c) => c.asks(),
        Command::UpdateCard(c) => c.asks(),
        Command::SetAgentStatus(c) => c.asks(),
        Command::PauseAgent(c) => c.asks(),
        Command::ResumeAgent(c) => c.asks(),
        Command::LeaveTeam(c) => c.asks(),
        Command::DeclareOffline(c) => c.asks(),
        Command::ReturnAgent(c) => c.asks(),
        Command::CreateTask(c) => c.asks(),
        Command::ClaimTask(c) => c.asks(),
        Command::StartTask(c) => c.asks(),
        Command::SetTaskStep(c) => c.asks(),
        Command::ReleaseTask(c) => c.asks(),
        Command::RetryTask(c) => c.asks(),
        Command::AssignTask(c) => c.asks(),
        Command::CompleteTask(c) => c.asks(),
        Command::FailTask(c) => c.asks(),
        Command::CancelTask(c) => c.asks(),
        Command::SkipTask(c) => c.asks(),
        Command::ReopenTask(c) => c.asks(),
        Command::FireAlarm(c) => c.asks(),
        Command::ClaimFile(c) => c.asks(),
        Command::ReleaseFile(c) => c.asks(),
        Command::LockFile(c) => c.asks(),
        Command::UnlockFile(c) => c.asks(),
        Command::ResolveConflict(c) => c.asks(),
        Command::RecordChange(c) => c.asks(),
        Command::RecordUntracked(_) => vec![],
        Command::AddReport(c) => c.asks(),
        Command::OfferHandoff(c) => c.asks(),
        Command::AcceptHandoff(c) => c.asks(),
        Command::RejectHandoff(c) => c.asks(),
        Command::FireTimer(c) => c.asks(),
        Command::CloseIntent(c) => c.asks(),
        Command::Redact(c) => c.asks(),
        Command::CreateRun(c) => c.asks(),
        Command::SetRunPlan(c) => c.asks(),
        Command::AddRunTask(c) => c.asks(),
        Command::RemoveRunTask(c) => c.asks(),
        Command::ReplanRun(c) => c.asks(),
        Command::SetRunStatus(c) => c.asks(),
        Command::CreateTemplate(c) => c.asks(),
        Command::ApplyTemplate(c) => c.asks(),
        Command::SetTaskPlan(c) => c.asks(),
        Command::ReplanTask(c) => c.asks(),
        Command::UpdateTaskStatus(c) => c.asks(),
        Command::TakeUpTask(c) => c.asks(),
        Command::AddCheckpoint(c) => c.asks(),
        Command::SendMessage(c) => c.asks(),
        Command::Ingest(c) => c.asks(),
        Command::AnswerCall(c) => c.asks(),
        Command::NoteRejected(_) | Command::NoteDropped(_) => vec![],
        Command::RouteTask(c) => c.asks(),
        Command::OfferTask(c) => c.asks(),
        Command::ReadMessages(c) => c.asks(),
        Command::AckMessages(c) => c.asks(),
        Command::ReleaseHeld(c) => c.asks(),
        Command::GiveUpDelivery(c) => c.asks(),
        Command::RetryDelivery(c) => c.asks(),
        Command::WriteDocument(c) => c.asks(),
        Command::AppendDocument(c) => c.asks(),
        Command::CreateDocument(c) => c.asks(),
        Command::DeleteDocument(c) => c.asks(),
        Command::ConfigureContext(c) => c.asks(),
        Command::CreateWorkspace(c) => c.asks(),
        Command::UpdateWorkspace(c) => c.asks(),
        Command::MergeWorkspace(c) => c.asks(),
        Command::ConcludeWorkspace(c) => c.asks(),
        Command::RegisterSchema(c) => c.asks(),
        Command::DefineStepContracts(c) => c.asks(),
        Command::SetGroup(c) => c.asks(),
        Command::RemoveGroup(c) => c.asks(),
        Command::RequestTeamStart(c) => c.asks(),
        Command::ConcludeTeamStart(c) => c.asks(),
        Command::StartTeam(c) => c.asks(),
        Command::KickOff(c) => c.asks(),
        Command::AnnounceToTeam(c) => c.asks(),
        Command::RequestTeamStop(c) => c.asks(),
        Command::EndTeam(c) => c.asks(),
        Command::StartTurn(c) => c.asks(),
        Command::EndTurn(c) => c.asks(),
    };
    asks.extend(caller.actor.agent().map(|agent| Ask::Row(Key::Agent(agent.clone()))));
    let bound = caller.session.as_ref().and_then(|session| session.team.as_ref());
    asks.extend(bound.map(|bound| Ask::Row(Key::Team(bound.team.clone()))));
    asks
}

/// Whether the caller may change anything at all: observers may not, a session ends with its team, and an id that is bound
/// to a credential cannot merely be asserted.
pub fn ensure_may_write(view: &View, caller: &Caller) -> Result<(), Undecided> {
    if caller.power == Authority::Observer {
        return Err(Rejection::new(Code::Forbidden, "an observer may only read").into());
    }
    if let Some(session) = &caller.session {
        session.check_team(view)?;
    }
    if caller.auth == Auth::Asserted
        && let Actor::Agent(id) = &caller.actor
        && view.find_agent(id)?.is_some_and(|agent| agent.has_credential)
    {
        return Err(Rejection::sealed(id).into());
    }
    Ok(())
}

/// Decides a command over what is in view. Nothing happens but what the returned facts say.
pub fn decide(view: &View, caller: &Caller, command: &Command, now: &Now) -> Result<Decision, Undecided> {
    ensure_may_write(view, caller)?;
    let mut decision = decided(view, caller, command, now)?;
    told::address(view, caller, now, &mut decision.events)?;
    Ok(decision)
}

fn decided(view: &View, caller: &Caller, command: &Command, now: &Now) -> Result<Decision, Undecided> {
    match command {
        Command::RegisterAgent(c) => c.decide(view, caller),
        Command::Join(c) => c.decide(view, caller),
        Command::UpdateProfile(c) => c.decide(view, caller),
        Command::RegisterCard(c) => c.decide(view, caller),
        Command::UpdateCard(c) => c.decide(view, caller),
        Command::SetAgentStatus(c) => c.decide(view, caller),
        Command::PauseAgent(c) => c.decide(view, caller),
        Command::ResumeAgent(c) => c.decide(view, caller),
        Command::LeaveTeam(c) => c.decide(view, caller),
        Command::DeclareOffline(c) => c.decide(view, caller),
        Command::ReturnAgent(c) => c.decide(view, caller),
        Command::CreateTask(c) => c.decide(view, caller),
        Command::ClaimTask(c) => c.decide(view, caller),
        Command::StartTask(c) => c.decide(view, caller, now),
        Command::SetTaskStep(c) => c.decide(view, caller),
        Command::ReleaseTask(c) => c.decide(view, caller),
        Command::RetryTask(c) => c.decide(view, caller),
        Command::AssignTask(c) => c.decide(view, caller),
        Command::CompleteTask(c) => c.decide(view, caller),
        Command::FailTask(c) => c.decide(view, caller),
        Command::CancelTask(c) => c.decide(view, caller),
        Command::SkipTask(c) => c.decide(view, caller),
        Command::ReopenTask(c) => c.decide(view, caller),
        Command::FireAlarm(c) => c.decide(view, caller, now),
        Command::ClaimFile(c) => c.decide(view, caller),
        Command::ReleaseFile(c) => c.decide(view, caller),
        Command::LockFile(c) => c.decide(view, caller),
        Command::UnlockFile(c) => c.decide(view, caller),
        Command::ResolveConflict(c) => c.decide(view, caller),
        Command::RecordChange(c) => c.decide(view, caller, now),
        Command::RecordUntracked(c) => c.decide(),
        Command::OfferHandoff(c) => c.decide(view, caller),
        Command::AcceptHandoff(c) => c.decide(view, caller),
        Command::RejectHandoff(c) => c.decide(view, caller),
        Command::AddReport(c) => c.decide(view, caller),
        Command::FireTimer(c) => c.decide(view, now),
        Command::CloseIntent(c) => c.decide(view),
        Command::Redact(c) => c.decide(view, caller),
        Command::CreateRun(c) => c.decide(view, caller),
        Command::SetRunPlan(c) => c.decide(view, caller),
        Command::AddRunTask(c) => c.decide(view, caller),
        Command::RemoveRunTask(c) => c.decide(view, caller),
        Command::ReplanRun(c) => c.decide(view, caller, now),
        Command::SetRunStatus(c) => c.decide(view, caller),
        Command::CreateTemplate(c) => c.decide(view, caller),
        Command::ApplyTemplate(c) => c.decide(view, caller),
        Command::SetTaskPlan(c) => c.decide(view, caller),
        Command::ReplanTask(c) => c.decide(view, caller),
        Command::UpdateTaskStatus(c) => c.decide(view, caller, now),
        Command::TakeUpTask(c) => c.decide(view, caller),
        Command::AddCheckpoint(c) => c.decide(view, caller),
        Command::SendMessage(c) => c.decide(view, caller, now),
        Command::Ingest(c) => c.decide(view, caller, now),
        Command::AnswerCall(c) => c.decide(view, caller),
        Command::NoteRejected(c) => c.decide(caller),
        Command::NoteDropped(c) => c.decide(caller),
        Command::RouteTask(c) => c.decide(view, caller, now),
        Command::OfferTask(c) => c.decide(view, caller, now),
        Command::ReadMessages(c) => c.decide(view, caller),
        Command::AckMessages(c) => c.decide(view, caller),
        Command::ReleaseHeld(c) => c.decide(view, caller, now),
        Command::GiveUpDelivery(c) => c.decide(view, caller),
        Command::RetryDelivery(c) => c.decide(view, caller),
        Command::WriteDocument(c) => c.decide(view, caller),
        Command::AppendDocument(c) => c.decide(view, caller),
        Command::CreateDocument(c) => c.decide(view, caller),
        Command::DeleteDocument(c) => c.decide(view, caller),
        Command::ConfigureContext(c) => c.decide(view, caller),
        Command::CreateWorkspace(c) => c.decide(view, caller),
        Command::UpdateWorkspace(c) => c.decide(view, caller),
        Command::MergeWorkspace(c) => c.decide(view, caller),
        Command::ConcludeWorkspace(c) => c.decide(view, caller),
        Command::RegisterSchema(c) => c.decide(view, caller),
        Command::DefineStepContracts(c) => c.decide(view, caller),
        Command::SetGroup(c) => c.decide(view, caller),
        Command::RemoveGroup(c) => c.decide(view, caller),
        Command::RequestTeamStart(c) => c.decide(view, caller),
        Command::ConcludeTeamStart(c) => c.decide(view, caller),
        Command::StartTeam(c) => c.decide(view, caller),
        Command::KickOff(c) => c.decide(view, caller, now),
        Command::AnnounceToTeam(c) => c.decide(view, caller, now),
        Command::RequestTeamStop(c) => c.decide(view, caller),
        Command::EndTeam(c) => c.decide(view, caller),
        Command::StartTurn(c) => c.decide(view, caller),
        Command::EndTurn(c) => c.decide(view, caller, now),
    }
}

/// The typed doors to the view that the rules go through.
impl View {
    pub fn find_agent(&self, id: &AgentId) -> Result<Option<&Agent>, Undecided> {
        Ok(match self.get(&Key::Agent(id.clone()))? {
            Some(Row::Agent(agent)) => Some(agent),
            _ => None,
        })
    }

    pub(crate) fn agent_row(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        self.find_agent(id)?.ok_or_else(|| {
            Rejection::new(Code::AgentNotFound, "Agent not found").hint("register the agent first").into()
        })
    }

    /// Known and not gone; it may be offline.
    pub(crate) fn agent(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        let agent = self.agent_row(id)?;
        if agent.has_left() {
            return Err(Rejection::new(Code::AgentNotFound, format!("Agent not found: '{id}' has left the team"))
                .hint("register it again first")
                .into());
        }
        Ok(agent)
    }

    /// Here right now. Claims go to nobody else: only a fact about a live agent could end them again.
    pub(crate) fn online_agent(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        let agent = self.agent(id)?;
        if !agent.is_online() {
            return Err(Rejection::new(Code::AgentOffline, format!("agent '{id}' is offline"))
                .hint("it can take this when it shows signs of life again, by a heartbeat or any call")
                .into());
        }
        Ok(agent)
    }

    pub fn find_task(&self, id: &TaskId) -> Result<Option<&Task>, Undecided> {
        Ok(match self.get(&Key::Task(id.clone()))? {
            Some(Row::Task(task)) => Some(task),
            _ => None,
        })
    }

    pub(crate) fn task(&self, id: &TaskId) -> Result<&Task, Undecided> {
        self.find_task(id)?.ok_or_else(|| Rejection::new(Code::TaskNotFound, "Task not found").into())
    }

    pub fn find_file(&self, key: &str) -> Result<Option<&File>, Undecided> {
        Ok(match self.get(&Key::File(key.to_owned()))? {
            Some(Row::File(file)) => Some(file),
            _ => None,
        })
    }

    pub(crate) fn file(&self, path: &FilePath) -> Result<&File, Undecided> {
        self.find_file(path.key())?.ok_or_else(|| Rejection::not_tracked().into())
    }

    pub(crate) fn handoff(&self, id: &HandoffId) -> Result<Option<&Handoff>, Undecided> {
        Ok(match self.get(&Key::Handoff(id.clone()))? {
            Some(Row::Handoff(handoff)) => Some(handoff),
            _ => None,
        })
    }

    pub(crate) fn timer(&self, id: &TimerId) -> Result<Option<&Timer>, Undecided> {
        Ok(match self.get(&Key::Timer(id.clone()))? {
            Some(Row::Timer(timer)) => Some(timer),
            _ => None,
        })
    }

    pub(crate) fn intent(&self, id: &IntentId) -> Result<Option<&Intent>, Undecided> {
        Ok(match self.get(&Key::Intent(id.clone()))? {
            Some(Row::Intent(intent)) => Some(intent),
            _ => None,
        })
    }

    pub fn find_message(&self, id: &MessageId) -> Result<Option<&Message>, Undecided> {
        Ok(match self.get(&Key::Message(id.clone()))? {
            Some(Row::Message(message)) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn message(&self, id: &MessageId) -> Result<&Message, Undecided> {
        let missing = || Rejection::new(Code::MessageNotFound, format!("Message not found: '{id}'")).into();
        self.find_message(id)?.ok_or_else(missing)
    }

    pub(crate) fn delivery(&self, message: &MessageId, agent: &AgentId) -> Result<Option<&Delivery>, Undecided> {
        Ok(match self.get(&Key::Delivery { message: message.clone(), agent: agent.clone() })? {
            Some(Row::Delivery(delivery)) => Some(delivery),
            _ => None,
        })
    }

    pub(crate) fn thread(&self, id: &ThreadId) -> Result<Option<&Thread>, Undecided> {
        Ok(match self.get(&Key::Thread(id.clone()))? {
            Some(Row::Thread(thread)) => Some(thread),
            _ => None,
        })
    }

    pub(crate) fn sender(&self, id: &AgentId) -> Result<Option<&Sender>, Undecided> {
        Ok(match self.get(&Key::Sender(id.clone()))? {
            Some(Row::Sender(sender)) => Some(sender),
            _ => None,
        })
    }

    pub(crate) fn envelope(&self, id: &MessageId) -> Result<Option<&Filed>, Undecided> {
        Ok(match self.get(&Key::Envelope(id.clone()))? {
            Some(Row::Envelope(filed)) => Some(filed),
            _ => None,
        })
    }

    pub fn document(&self, id: &DocumentId) -> Result<Option<&Document>, Undecided> {
        Ok(match self.get(&Key::Document(id.clone()))? {
            Some(Row::Document(document)) => Some(document),
            _ => None,
        })
    }

    pub fn lead(&self) -> Result<Option<&Lead>, Undecided> {
        Ok(match self.get(&Key::Lead)? {
            Some(Row::Lead(lead)) => Some(lead),
            _ => None,
        })
    }

    pub(crate) fn live_agents(&self) -> Result<Vec<&Agent>, Undecided> {
        let rows = self.all(&Lookup::LiveAgents)?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None }).collect())
    }

    pub(crate) fn tasks_held_by(&self, agent: &AgentId) -> Result<Vec<&Task>, Undecided> {
        let rows = self.all(&Lookup::TasksHeldBy(agent.clone()))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect())
    }

    pub(crate) fn parts_of(&self, task: &TaskId) -> Result<Vec<&Task>, Undecided> {
        let rows = self.all(&Lookup::PartsOf(task.clone()))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect())
    }

    pub(crate) fn dependents(&self, task: &TaskId) -> Result<Vec<&Dependency>, Undecided> {
        let rows = self.all(&Lookup::Dependents(task.clone()))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Dependency(edge) = row { Some(edge) } else { None }).collect())
    }

    pub(crate) fn files_held_by(&self, agent: &AgentId) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::FilesHeldBy(agent.clone()))
    }

    pub(crate) fn files_of_task(&self, task: &TaskId) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::FilesOfTask(task.clone()))
    }

    pub(crate) fn files_held_under(&self, prefix: &str) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::HeldUnder(prefix.to_owned()))
    }

    fn files(&self, lookup: &Lookup) -> Result<Vec<&File>, Undecided> {
        let rows = self.all(lookup)?;
        Ok(rows.into_iter().filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).collect())
    }

    /// A person, or the holder of the lead's position.
    pub(crate) fn has_authority(&self, caller: &Caller) -> Result<bool, Undecided> {
        if caller.power >= Authority::Lead {
            return Ok(true);
        }
        let Some(agent) = caller.actor.agent() else { return Ok(false) };
        Ok(self.lead()?.and_then(|lead| lead.holder.as_ref()) == Some(agent))
    }

    pub(crate) fn ensure_authority(&self, caller: &Caller, what: &str) -> Result<(), Undecided> {
        if self.has_authority(caller)? {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("only the lead or a person may {what}"))
            .hint("ask the lead, or use the command line, which acts as a person")
            .into())
    }

    /// An identified caller speaks for itself; the lead and people may speak for others. A caller without a name may
    /// speak for whom it likes. But an id that is bound to a credential is spoken for by nobody on their word alone,
    /// not even by the lead.
    pub(crate) fn ensure_may_act_for(&self, caller: &Caller, agent: &AgentId) -> Result<(), Undecided> {
        match &caller.actor {
            Actor::Agent(id) if id != agent && !self.has_authority(caller)? => {
                Err(Rejection::new(Code::Forbidden, format!("'{id}' may not act as '{agent}'"))
                    .hint("leave out agent_id, or name the agent that the call comes from")
                    .into())
            }
            Actor::Agent(_) | Actor::Anonymous
                if !caller.is_proven() && self.find_agent(agent)?.is_some_and(|agent| agent.has_credential) =>
            {
                Err(Rejection::sealed(agent).into())
            }
            _ => Ok(()),
        }
    }

    /// As [`View::ensure_may_act_for`], for authors that need not be registered: no name of another kind may be borrowed.
    pub(crate) fn ensure_may_author_as(&self, caller: &Caller, author: &AgentId) -> Result<(), Undecided> {
        if Actor::is_reserved(author.as_str()) && caller.actor.to_string() != author.as_str() {
            return Err(Rejection::new(Code::Forbidden, format!("'{author}' is not the name of an agent")).into());
        }
        self.ensure_may_act_for(caller, author)
    }
}
