//! The vocabulary of the table: who acts, from which situation, and which call is made.

/// An entry of the table.
#[derive(Clone, Debug)]
pub struct Act {
    /// Unique within its family.
    pub name: &'static str,
    /// The situation, built step by step before the act.
    pub given: Vec<Given>,
    pub by: Who,
    pub call: Call,
    /// Why the surfaces may disagree about this act for good.
    pub differs: Option<&'static str>,
}

impl Act {
    pub fn new(name: &'static str, given: &[Given], by: Who, call: impl Into<Call>) -> Act {
        Act { name, given: given.to_vec(), by, call: call.into(), differs: None }
    }

    /// The surfaces disagree by design, for this reason.
    #[must_use]
    pub fn differs(self, reason: &'static str) -> Act {
        Act { differs: Some(reason), ..self }
    }
}

/// The cast of every scene.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// A registered worker.
    Ada,
    /// Another registered worker.
    Ben,
    /// The lead of the project, the same for all scenes.
    Lead,
    /// An agent id that was never registered.
    Stranger,
    /// The owner of the project.
    Person,
}

/// A step towards the situation that an act starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// The scene's task: pending, unclaimed.
    Task,
    /// The scene's task, created with this assignee.
    TaskReservedFor(Who),
    /// The scene's task, which depends on an unfinished one.
    TaskBlocked,
    /// The scene's task, requested by an envelope in a run that has no other task.
    TaskRequestedBy(Who),
    /// A further task that depends on the scene's task.
    Dependent,
    Claimed(Who),
    Started(Who),
    Paused(Who),
    InReview(Who),
    Completed(Who),
    Failed(Who),
    Cancelled,
    /// A run with a plan of one task: the place where MCP adds tasks.
    RunWithPlan,
    FileClaimed(Who),
    FileLocked,
    /// The file is held by the first and was changed by the second.
    FileConflict(Who, Who),
    /// The scene's handoff of the scene's task: its sender and its recipient.
    HandoffOffered(Who, Option<Who>),
    HandoffAccepted(Who),
    AgentPaused(Who),
    AgentWorking(Who),
    AgentLeft(Who),
    /// The agent registered an agent card, so that it has an inbox for notifications.
    AgentCard(Who),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Task(TaskCall),
    Agent(AgentCall),
    File(FileCall),
    Handoff(HandoffCall),
    Message(MessageCall),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskCall {
    Claim,
    Start,
    Complete,
    CompleteWithoutOutcome,
    /// The same request twice: one idempotency key, or one message id.
    CompleteTwice,
    Fail,
    FailWithoutError,
    /// With the wish for another attempt.
    FailRetryable,
    Pause,
    PauseForInput,
    Review,
    Plan,
    Release,
    /// Sets the task back to pending, where a surface has a status for that beside its release.
    SetPending,
    Retry,
    Reopen,
    Cancel,
    Skip,
    Create(NewTask),
    Assign(Who),
    AddCheckpoint,
    SetPlan,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewTask {
    Plain,
    ReservedFor(Who),
    DependingOnTask,
    DependingOnUnknown,
    Untitled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentCall {
    /// The profile that the scene's agents already have.
    Register,
    RegisterWithOtherCapability,
    /// The caller registers itself under the name of another agent.
    RegisterWithNameOf(Who),
    /// The caller registers another agent.
    RegisterAs(Who),
    SetWorkspacePath,
    UpdateCapabilities,
    SetWorking(Who),
    SetIdle(Who),
    SetBlocked(Who),
    SetWorkingOnTask(Who),
    Heartbeat,
    Leave(Who),
    Pause(Who),
    Resume(Who),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileCall {
    Claim,
    ClaimFolderAbove,
    ForceClaim,
    Release,
    Lock,
    Unlock,
    ResolveFor(Who),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoffCall {
    Offer(Option<Who>),
    Accept,
    Reject,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageCall {
    /// In the channel, with a mention.
    SayMentioning(Who),
    Direct(Who),
    /// A coordination message.
    Publish(Who),
}

impl From<TaskCall> for Call {
    fn from(call: TaskCall) -> Call {
        Call::Task(call)
    }
}

impl From<AgentCall> for Call {
    fn from(call: AgentCall) -> Call {
        Call::Agent(call)
    }
}

impl From<FileCall> for Call {
    fn from(call: FileCall) -> Call {
        Call::File(call)
    }
}

impl From<HandoffCall> for Call {
    fn from(call: HandoffCall) -> Call {
        Call::Handoff(call)
    }
}

impl From<MessageCall> for Call {
    fn from(call: MessageCall) -> Call {
        Call::Message(call)
    }
}
