//! A tool call as every tool needs it: who calls, and one way to submit.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rookery_core::{Actor, AgentId, AnyCommand, Authority, Caller, Code, Rejection, Row};
use rookery_engine::messages::Unread;
use rookery_engine::{AnyReply, Committed, Engine, Request};
use tokio::sync::OnceCell;

use super::arrival;
use super::error::ToolError;
use super::unread::unread;
use crate::app::App;
use crate::sender::Sender;

/// Whom a session turned out to be: the agent that it registered without having been known before.
#[derive(Clone, Debug, Default)]
pub struct Bound(Arc<Mutex<Option<AgentId>>>);

impl Bound {
    pub fn get(&self) -> Option<AgentId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, agent: Option<AgentId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = agent;
    }
}

/// What waits for the caller, once somebody has counted it.
#[derive(Clone, Debug, Default)]
pub struct Counted(Arc<OnceCell<Unread>>);

impl Counted {
    pub fn get(&self) -> Option<Unread> {
        self.0.get().cloned()
    }
}

#[derive(Debug)]
pub struct Call {
    app: App,
    sender: Sender,
    bound: Bound,
    counted: Counted,
    tool: &'static str,
    /// The arguments as received.
    body: Vec<u8>,
    submitted: AtomicU32,
}

impl Call {
    pub fn new(app: App, sender: Sender, bound: Bound, tool: &'static str, body: Vec<u8>) -> Call {
        Call { app, sender, bound, counted: Counted::default(), tool, body, submitted: AtomicU32::new(0) }
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

    pub fn counted(&self) -> &Counted {
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
    pub async fn writer(&self, argument: Option<&str>) -> Result<(Caller, AgentId), ToolError> {
        match self.worker(argument).await? {
            (caller, Some(agent)) => Ok((caller, agent)),
            (_, None) => Err(ToolError::anonymous()),
        }
    }

    /// As [`Call::writer`], for what is about a task: whoever gave no name acts as the task's holder.
    ///
    /// An agent acts as itself; the lead and people may act as another, but on their word alone not as one whose id is
    /// bound to a credential.
    pub async fn worker(&self, argument: Option<&str>) -> Result<(Caller, Option<AgentId>), ToolError> {
        let caller = self.caller(argument)?;
        // One that names itself means itself, also where a bare name is that of a member.
        let itself = caller.actor.agent().filter(|own| argument == Some(own.as_str())).cloned();
        let named = itself.or_else(|| self.named(argument));
        if let (Some(own), Some(named)) = (caller.actor.agent(), &named)
            && own != named
        {
            if !self.leads(&caller, own).await? {
                return Err(Rejection::new(Code::Forbidden, format!("'{own}' may not act as '{named}'"))
                    .hint("leave out agent_id, or name the agent that the call comes from")
                    .into());
            }
            if !caller.is_proven()
                && self.engine().query().agent(named).await?.value.is_some_and(|agent| agent.has_credential)
            {
                return Err(Rejection::sealed(named).into());
            }
        }
        let agent = named.or_else(|| caller.actor.agent().cloned());
        Ok((caller, agent))
    }

    /// The caller of a tool whose command is the caller's own, by the same rule. People may too.
    pub async fn author(&self, argument: Option<&str>) -> Result<Caller, ToolError> {
        match self.worker(argument).await? {
            (Caller { actor: Actor::Anonymous, .. }, _) => Err(ToolError::anonymous()),
            (caller, _) => Ok(caller),
        }
    }

    async fn leads(&self, caller: &Caller, agent: &AgentId) -> Result<bool, ToolError> {
        Ok(caller.power >= Authority::Lead || self.engine().query().totals().await?.value.1.as_ref() == Some(agent))
    }

    /// Registers the agent that a caller speaks as if nobody knows it yet: whoever names itself is part of the team.
    pub async fn arrive(&self, caller: &Caller) -> Result<(), ToolError> {
        Ok(arrival::arrive(&self.app, caller).await?)
    }

    pub async fn submit(&self, caller: Caller, command: impl Into<AnyCommand>) -> Result<Committed, ToolError> {
        Ok(self.engine().submit(self.request(caller, command)).await?)
    }

    pub fn request(&self, caller: Caller, command: impl Into<AnyCommand>) -> Request {
        self.marked(Request::new(caller, command))
    }

    /// A request with the call's key and its arguments as received.
    pub fn marked(&self, request: Request) -> Request {
        // A tool may need several commands; each has its own place under the call's key.
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let arguments = || format!("tools/call {} {number}\n{}", self.tool, String::from_utf8_lossy(&self.body));
        let mut idempotency = self.sender.idempotency(arguments);
        if let Some(idempotency) = idempotency.as_mut().filter(|_| number > 0) {
            idempotency.key = format!("{} {number}", idempotency.key);
        }
        Request { idempotency, body: Some(self.body.clone()), ..request }
    }
}

fn named(sender: &Sender, argument: Option<&str>) -> Option<AgentId> {
    argument.filter(|id| !id.is_empty()).map(|id| sender.instance().member(id))
}

/// See [`Call::caller`].
pub fn identified(app: &App, sender: &Sender, bound: &Bound, argument: Option<&str>) -> Result<Caller, ToolError> {
    let named = named(sender, argument).or_else(|| bound.get());
    Ok(sender.caller(app, named.as_ref().map(AgentId::as_str))?)
}

/// The row that a command answered with.
pub fn row_of(committed: &Committed) -> Option<Row> {
    match &committed.answer {
        AnyReply::Row(_, row) => Some(row.0.clone()),
        _ => None,
    }
}
