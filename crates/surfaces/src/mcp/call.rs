//! A tool call as every tool needs it: who calls, and one way to submit.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rookery_core::model::task::Task;
use rookery_core::{Actor, AgentId, Caller, Command, CommandReply, TaskId};
use rookery_engine::projections::unread::Unread;
use rookery_engine::{Committed, Engine, Request};
use tokio::sync::OnceCell;

use super::auto_join;
use super::error::ToolError;
use super::unread::unread;
use crate::http::App;
use crate::http::identity::Sender;

/// The agents that a session without a credential registered, the last one last.
#[derive(Clone, Debug, Default)]
pub struct Bound(Arc<Mutex<Vec<AgentId>>>);

/// The agents of one session that are kept. Beyond them the oldest must name themselves in their calls.
const BOUND_AGENTS: usize = 64;

impl Bound {
    /// The last agent that was registered: calls that name none come from it.
    pub fn last(&self) -> Option<AgentId> {
        self.lock().last().cloned()
    }

    pub fn add(&self, agent: AgentId) {
        let mut agents = self.lock();
        agents.retain(|known| *known != agent);
        if agents.len() == BOUND_AGENTS {
            agents.remove(0);
        }
        agents.push(agent);
    }

    pub fn remove(&self, agent: &AgentId) {
        self.lock().retain(|known| known != agent);
    }

    fn has_several(&self) -> bool {
        self.lock().len() > 1
    }

    fn contains(&self, agent: &AgentId) -> bool {
        self.lock().contains(agent)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AgentId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits for the caller, once somebody has counted it.
#[derive(Clone, Debug, Default)]
pub struct UnreadOnce(Arc<OnceCell<Unread>>);

impl UnreadOnce {
    pub fn get(&self) -> Option<Unread> {
        self.0.get().cloned()
    }
}

#[derive(Debug)]
pub struct Call {
    app: App,
    sender: Sender,
    bound: Bound,
    counted: UnreadOnce,
    tool: &'static str,
    /// The arguments as received.
    body: Vec<u8>,
    submitted: AtomicU32,
}

impl Call {
    pub fn new(app: App, sender: Sender, bound: Bound, tool: &'static str, body: Vec<u8>) -> Call {
        Call { app, sender, bound, counted: UnreadOnce::default(), tool, body, submitted: AtomicU32::new(0) }
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    pub fn engine(&self) -> &Engine {
        self.app.engine()
    }

    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The agent that an argument names. Where the caller is in an instance, a bare name is that of a member of it.
    pub fn named(&self, argument: Option<&str>) -> Option<AgentId> {
        named(&self.sender, argument)
    }

    /// The caller: by token, by header, by the agent that the arguments name, by what the session registered; or nobody.
    pub fn caller(&self, argument: Option<&str>) -> Result<Caller, ToolError> {
        identified(&self.app, &self.sender, &self.bound, argument)
    }

    /// What waits for a caller. Counted once: what the tool says of it and what is added to its result agree.
    pub async fn unread(&self, caller: &Caller) -> Unread {
        self.counted.0.get_or_init(|| unread(&self.app, caller)).await.clone()
    }

    pub fn counted(&self) -> &UnreadOnce {
        &self.counted
    }

    /// Whoever reads must be allowed to, and shows a sign of life by it. Nobody in particular may read too.
    pub async fn reader(&self) -> Result<Caller, ToolError> {
        self.reader_named(None).await
    }

    /// As [`Call::reader`], for a tool whose arguments may name its caller.
    pub async fn reader_named(&self, argument: Option<&str>) -> Result<Caller, ToolError> {
        let caller = self.caller(argument)?;
        self.engine().liveness().touch(&caller).await?;
        Ok(caller)
    }

    /// The caller of a tool that writes, and the agent it writes as: the one that the arguments name, else the caller.
    pub fn writer(&self, argument: Option<&str>) -> Result<(Caller, AgentId), ToolError> {
        named_worker(self.worker(argument)?)
    }

    /// As [`Call::writer`], where a caller without a name is no error: on a task it acts as the holder.
    ///
    /// This resolves names only. Whether the caller may act for another agent is decided with the command.
    pub fn worker(&self, argument: Option<&str>) -> Result<(Caller, Option<AgentId>), ToolError> {
        let caller = self.caller(argument)?;
        let own = caller.actor.agent().cloned();
        // An agent that names itself means itself, also where a bare name is that of a member.
        let itself = own.clone().filter(|own| argument == Some(own.as_str()));
        let named = itself.or_else(|| self.named(argument));
        let acting_for = named.clone().filter(|named| own.as_ref().is_some_and(|own| own != named));
        Ok((Caller { acting_for, ..caller }, named.or(own)))
    }

    /// As [`Call::worker`], for a tool about a task. Where the session registered several agents and the arguments name none,
    /// the caller is the agent among them that has the task, else the last one.
    pub async fn worker_on(
        &self,
        argument: Option<&str>,
        task: &TaskId,
    ) -> Result<(Caller, Option<AgentId>), ToolError> {
        if argument.is_some_and(|id| !id.is_empty()) || self.sender.is_known() || !self.bound.has_several() {
            return self.worker(argument);
        }
        // If the holder changes before the command is decided, the decision rejects it.
        let task = self.engine().query().task(task).await?.value;
        let holder = task.as_ref().and_then(Task::held_by).filter(|holder| self.bound.contains(holder));
        match holder {
            Some(holder) => Ok((self.sender.caller(&self.app, Some(holder.as_str()))?, Some(holder.clone()))),
            None => self.worker(argument),
        }
    }

    /// As [`Call::worker_on`], where a caller without a name is an error.
    pub async fn writer_on(&self, argument: Option<&str>, task: &TaskId) -> Result<(Caller, AgentId), ToolError> {
        named_worker(self.worker_on(argument, task).await?)
    }

    /// The caller of a tool whose command is the caller's own, by the same rule. People may too.
    pub fn author(&self, argument: Option<&str>) -> Result<Caller, ToolError> {
        match self.worker(argument)? {
            (Caller { actor: Actor::Anonymous, .. }, _) => Err(ToolError::anonymous()),
            (caller, _) => Ok(caller),
        }
    }

    /// Registers the agent that a caller speaks as if nobody knows it yet: whoever names itself is part of the team.
    pub async fn arrive(&self, caller: &Caller) -> Result<(), ToolError> {
        Ok(auto_join::arrive(&self.app, caller).await?)
    }

    pub async fn submit<C: Command>(&self, caller: Caller, command: C) -> Result<Committed<C::Reply>, ToolError> {
        Ok(self.engine().submit(self.request(caller, command)).await?)
    }

    pub fn request<C: Command>(&self, caller: Caller, command: C) -> Request<C::Reply> {
        self.marked(Request::new(caller, command))
    }

    /// A request with the call's key and its arguments as received.
    pub fn marked<R: CommandReply>(&self, request: Request<R>) -> Request<R> {
        // A tool may need several commands; each has its own place under the call's key.
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let arguments = || format!("tools/call {} {number}\n{}", self.tool, String::from_utf8_lossy(&self.body));
        let mut idempotency = self.sender.idempotency(arguments);
        if let Some(idempotency) = idempotency.as_mut().filter(|_| number > 0) {
            idempotency.key = format!("{} {number}", idempotency.key);
        }
        request.with_idempotency(idempotency).with_body(self.body.clone())
    }
}

fn named_worker(worker: (Caller, Option<AgentId>)) -> Result<(Caller, AgentId), ToolError> {
    match worker {
        (caller, Some(agent)) => Ok((caller, agent)),
        (_, None) => Err(ToolError::anonymous()),
    }
}

fn named(sender: &Sender, argument: Option<&str>) -> Option<AgentId> {
    argument.filter(|id| !id.is_empty()).map(|id| sender.instance().caller(id))
}

/// See [`Call::caller`].
pub fn identified(app: &App, sender: &Sender, bound: &Bound, argument: Option<&str>) -> Result<Caller, ToolError> {
    let named = named(sender, argument).or_else(|| bound.last());
    Ok(sender.caller(app, named.as_ref().map(AgentId::as_str))?)
}
