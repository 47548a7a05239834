//! What an envelope does: it is recorded, and the rules of every face decide what follows from it.

#[cfg(test)]
mod tests;

use super::tool::HeldTo;
use super::{EnvelopeReceived, Signing, SigningPolicy, ToolCall, signature};
use crate::agents::{KeyProof, RegisterAgent};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::event_id;
use crate::kernel::id::AgentId;
use crate::kernel::rejection::Rejection;
use crate::messages::{Cause, SendMessage, StormGuard, Tone, What};
use crate::model::addressee::Address;
use crate::model::agent::Agent;
use crate::model::contract::ContractCheck;
use crate::model::envelope::Filed;
use crate::model::message_type::MessageType;
use crate::model::notification::Audience;
use crate::model::task::{Outcome, Task, TaskState};
use crate::model::tool_call::Denial;
use crate::model::{Key, Lookup, ReadSet, Undecided, View, capabilities, group, task};
use crate::tasks;
use crate::tasks::{CancelTask, CancelTo, CompleteTask, FailTask, FailureRetry, HeldByOther, Required, StartTask};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, ReplySource};

/// Takes in an envelope. Sent again, it is answered as it was the first time.
#[derive(Clone, PartialEq, Debug)]
pub struct Ingest {
    pub received: EnvelopeReceived,
    pub from: Actor,
    pub act: Act,
    /// What was found about its signature.
    pub signing: Signing,
    /// Where its task is bound to a step of a workflow: what came of holding it against that.
    pub checked: Option<Box<ContractCheck>>,
}

/// What it asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    /// To be recorded and delivered, and nothing else.
    Record,
    Say {
        text: String,
        mentions: Vec<AgentId>,
        tone: Tone,
        cause: Cause,
        /// People that it names, as in [`SendMessage`].
        people: Vec<String>,
        guard: StormGuard,
    },
    /// By a card, or by a change to it.
    Register(Box<RegisterAgent>),
    Request(Box<tasks::Request>),
    Accept(AgentId),
    Progress,
    Complete(Outcome),
    Fail {
        error: String,
        retry: FailureRetry,
    },
    Cancel(Option<String>),
    Call(ToolCall),
}

impl Command for Ingest {
    const NAME: &'static str = "Ingest";

    type Reply = Filed;

    fn read_set(&self) -> ReadSet {
        let received = &self.received;
        let mut read_set: ReadSet =
            vec![Key::Envelope(received.message.clone()).into(), Key::Message(received.message.clone()).into()];
        read_set.extend(received.to.iter().filter_map(|address| match address {
            Address::Agent(id) => Some(Key::Agent(id.clone()).into()),
            Address::Group(name) => Some(group::read_set(name)),
            Address::Person(_) | Address::Server(_) | Address::Orchestrator => None,
        }));
        read_set.push(Key::Task(received.task.clone()).into());
        match &self.act {
            Act::Record | Act::Call(_) => {}
            Act::Say { .. } => read_set.extend(self.speech(vec![]).into_iter().flat_map(|speech| speech.read_set())),
            Act::Register(register) => read_set.extend(register.read_set()),
            Act::Request(request) => read_set.extend(request.read_set()),
            Act::Accept(_) | Act::Progress => read_set.push(Key::lead().into()),
            Act::Complete(_) | Act::Fail { .. } | Act::Cancel(_) => {
                read_set.push(Key::lead().into());
                read_set.push(Lookup::next_dependents(&received.task, None).into());
                read_set.push(Lookup::files_of_task(&received.task).into());
            }
        }
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Filed>, Undecided> {
        self.decided(cx).map_err(|halt| match halt {
            Undecided::Rejected(refusal) => Undecided::Rejected(self.placed(refusal)),
            Undecided::Missing(read_set) => Undecided::Missing(read_set),
        })
    }
}

impl Ingest {
    /// Every refusal says which field of the envelope it is about.
    fn placed(&self, refusal: Rejection) -> Rejection {
        let pointer = match refusal.code {
            Code::TaskNotFound | Code::InvalidTransition | Code::DependenciesUnfinished => "/task_id",
            Code::NotHolder | Code::ReservedForOther | Code::NotEligible | Code::AlreadyClaimed => "/from/agent_id",
            Code::AgentNotFound | Code::AgentOffline | Code::CredentialRequired | Code::Forbidden => "/from/agent_id",
            Code::AlreadyExists => "/id",
            Code::InvalidState => "/run_id",
            Code::SignatureRequired => "/security/auth",
            _ => "/payload",
        };
        refusal.about(pointer)
    }

    fn decided(&self, cx: &DecisionContext<'_>) -> Result<Decision<Filed>, Undecided> {
        let (view, caller) = (cx.view, cx.caller);
        if caller.actor != self.from {
            let message = format!("'{}' may not send as '{}'", caller.actor, self.from);
            return Err(Rejection::new(Code::Forbidden, message)
                .hint("send as the agent that the call comes from")
                .into());
        }
        self.needs_signature(view, caller)?;
        if let Some(known) = view.envelope(&self.received.message)? {
            if known.hash == self.received.hash {
                return Ok(Decision::duplicate(ReplySource::row(self.received.message.clone())));
            }
            return Err(self.says_something_else().into());
        }
        if event_id::is_reserved(&self.received.message) || view.find_message(&self.received.message)?.is_some() {
            return Err(self.says_something_else().into());
        }
        let reached = self.recipients(view)?;
        let denied = self.denied(view, &reached)?;
        let (delivered, followers) = match &self.act {
            Act::Say { mentions, .. } => {
                self.needs_known(view, mentions)?;
                (vec![], self.says(cx, reached)?)
            }
            Act::Register(register) => (vec![], register.decide_with_proof(view, caller, self.key_proof())?.events),
            // It is passed on to whoever shall do it.
            Act::Request(request) => (vec![], request.creates(view, caller)?),
            Act::Call(_) if denied.is_some() => (vec![], vec![]),
            Act::Record | Act::Call(_) => (reached, vec![]),
            Act::Accept(_) | Act::Progress => (reached, self.moves(cx)?),
            Act::Complete(_) | Act::Fail { .. } | Act::Cancel(_) => {
                let followers = self.moves(cx)?;
                (self.and_those_concerned(view, reached)?, followers)
            }
        };
        self.keeps_to_its_step(view)?;
        let signed_by = self.signing.by.as_ref().map(|key| key.kid.clone());
        let received = EnvelopeReceived { delivered, signed_by, denied, ..self.received.clone() };
        let mut facts = vec![AnyEvent::new(received)];
        facts.extend(followers);
        Ok(Decision::new(facts, ReplySource::row(self.received.message.clone())))
    }

    /// Whoever has keys, or must have, vouches for what it sends as far as the policy demands. The key that was found was
    /// one of the sender's then; it has to be one still.
    fn needs_signature(&self, view: &View, caller: &Caller) -> Result<(), Undecided> {
        // People show a token, and whoever speaks in an agent's name has shown one too.
        let Some(sender) = self.from.agent().filter(|_| self.signing.policy != SigningPolicy::Off) else {
            return Ok(());
        };
        let agent = view.find_agent(sender)?;
        let known = capabilities::keys_of(agent);
        match (&self.signing.by, &self.act) {
            // Whoever is new brings its keys along.
            (Some(key), Act::Register(register)) if known.is_empty() => {
                let brought = register.card().is_some_and(|card| card.security.keys.iter().any(|new| new.is(key)));
                if brought { Ok(()) } else { Err(signature::unknown_key(&key.kid, sender.as_str()).into()) }
            }
            (Some(key), _) if known.iter().any(|known| known.is(key)) => Ok(()),
            (Some(key), _) => Err(signature::unknown_key(&key.kid, sender.as_str()).into()),
            (None, _) if caller.acting_through.is_some() || !self.is_to_be_signed(view, agent)? => Ok(()),
            (None, _) => Err(signature::signature_required(self.received.message_type.as_str()).into()),
        }
    }

    fn is_to_be_signed(&self, view: &View, sender: Option<&Agent>) -> Result<bool, Undecided> {
        match self.signing.policy {
            SigningPolicy::Off => Ok(false),
            SigningPolicy::All => Ok(true),
            SigningPolicy::Sensitive if capabilities::keys_of(sender).is_empty() => Ok(false),
            SigningPolicy::Sensitive => match &self.act {
                Act::Call(call) => Ok(call.is_for_production(sender, &self.held_to(view)?)),
                _ => Ok(signature::is_sensitive(&self.received.message_type)),
            },
        }
    }

    fn key_proof(&self) -> KeyProof {
        if self.signing.by.is_some() { KeyProof::Signed } else { KeyProof::Unsigned }
    }

    /// Why a call of a tool comes to nothing. It is recorded, its sender is told, and nobody gets it.
    fn denied(&self, view: &View, reached: &[AgentId]) -> Result<Option<Denial>, Undecided> {
        let Act::Call(call) = &self.act else { return Ok(None) };
        let caller = match self.from.agent() {
            Some(agent) => view.find_agent(agent)?,
            None => None,
        };
        let forbidden = call.forbidden(caller, &self.held_to(view)?);
        let taken = !reached.is_empty() || self.received.to.iter().any(|to| matches!(to, Address::Person(_)));
        Ok(forbidden.or_else(|| call.unserved().filter(|_| !taken)))
    }

    fn held_to<'v>(&self, view: &'v View) -> Result<HeldTo<'v>, Undecided> {
        HeldTo::of(view, &self.from, &self.received.task)
    }

    /// What answers a request that is bound to a step of a workflow is what that expects.
    fn keeps_to_its_step(&self, view: &View) -> Result<(), Undecided> {
        match view.find_task(&self.received.task)? {
            Some(task) if !matches!(self.act, Act::Request(_)) => {
                ContractCheck::ensure_fulfils(self.checked.as_deref(), task, view)
            }
            _ => Ok(()),
        }
    }

    fn says_something_else(&self) -> Rejection {
        let message = format!("message '{}' exists and says something else", self.received.message);
        Rejection::new(Code::AlreadyExists, message).hint("give every message an id of its own").about("/id")
    }

    /// The agents that it is to, without its sender. Whoever nobody knows gets nothing, and so does everybody else.
    fn recipients(&self, view: &View) -> Result<Vec<AgentId>, Undecided> {
        let mut reached: Vec<AgentId> = Vec::new();
        for (index, address) in self.received.to.iter().enumerate() {
            let pointer = format!("/to/{index}/agent_id");
            match address {
                Address::Agent(id) if view.find_agent(id)?.is_some_and(|agent| !agent.has_left()) => {
                    reached.push(id.clone())
                }
                // Whoever asked for the task is told of it by this, even if it never registered.
                Address::Agent(id) if self.was_asked_by(view, id)? => {}
                Address::Group(name) => match group::members(view, name)? {
                    // Those on a list who are not here are none that can be reached.
                    Some(members) => {
                        view.ensure_loaded(members.iter().map(|id| Key::Agent(id.clone()).into()).collect())?;
                        for id in members {
                            if view.find_agent(&id)?.is_some_and(|agent| !agent.has_left()) {
                                reached.push(id);
                            }
                        }
                    }
                    None => return Err(unknown_recipient(address, "group").about(&pointer).into()),
                },
                Address::Agent(_) => return Err(unknown_recipient(address, "agent").about(&pointer).into()),
                Address::Server(_) if !self.takes_tools() => {
                    let message =
                        format!("'{address}' is a server of tools, and takes no '{}'", self.received.message_type);
                    return Err(Rejection::new(Code::UnknownRecipient, message).about(&pointer).into());
                }
                Address::Orchestrator => reached.extend(self.passed_on_to(view)?),
                Address::Server(_) | Address::Person(_) => {}
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        reached.retain(|agent| self.from.agent() != Some(agent) && seen.insert(agent.clone()));
        Ok(reached)
    }

    /// What an assignee tells the orchestrator about a task is for whoever asked for it, and that it is cancelled for whoever
    /// has it.
    fn passed_on_to(&self, view: &View) -> Result<Option<AgentId>, Undecided> {
        let Some(task) = view.find_task(&self.received.task)? else { return Ok(None) };
        let concerned = match &self.act {
            Act::Accept(_) | Act::Progress | Act::Complete(_) | Act::Fail { .. } => {
                match Actor::parse(&task.assigned_by) {
                    Actor::Agent(asker) => Some(asker),
                    _ => None,
                }
            }
            Act::Cancel(_) => task.held_by().cloned(),
            Act::Record | Act::Call(_) | Act::Say { .. } | Act::Register(_) | Act::Request(_) => None,
        };
        let Some(agent) = concerned else { return Ok(None) };
        Ok(view.find_agent(&agent)?.is_some_and(|known| !known.has_left()).then_some(agent))
    }

    /// Whomever it is to, that a task ends is told to whoever asked for it and whoever has it.
    fn and_those_concerned(&self, view: &View, mut reached: Vec<AgentId>) -> Result<Vec<AgentId>, Undecided> {
        let concerned = Audience::RequesterAndHolder.recipients(view, view.task(&self.received.task)?)?;
        let new = |agent: &AgentId| self.from.agent() != Some(agent) && !reached.contains(agent);
        let new: Vec<AgentId> = concerned.into_iter().filter(new).collect();
        reached.extend(new);
        Ok(reached)
    }

    fn takes_tools(&self) -> bool {
        matches!(self.received.message_type, MessageType::ToolCall | MessageType::Extension(_))
    }

    fn was_asked_by(&self, view: &View, agent: &AgentId) -> Result<bool, Undecided> {
        Ok(view.find_task(&self.received.task)?.is_some_and(|task| task.assigned_by == agent.as_str()))
    }

    fn speech(&self, to: Vec<AgentId>) -> Option<SendMessage> {
        let Act::Say { text, mentions, tone, cause, people, guard } = &self.act else { return None };
        Some(SendMessage {
            id: self.received.message.clone(),
            run: self.received.run.clone(),
            thread: self.received.thread.clone(),
            from: AgentId::new(self.from.to_string()),
            what: What::Chat { to, mentions: mentions.clone(), tone: *tone, about: self.received.task.clone() },
            text: text.clone(),
            cause: cause.clone(),
            people: people.clone(),
            guard: *guard,
        })
    }

    fn people(&self) -> &[String] {
        if let Act::Say { people, .. } = &self.act { people } else { &[] }
    }

    /// Whoever is mentioned by name is reached, or the sender is told that nobody of that name is.
    fn needs_known(&self, view: &View, mentions: &[AgentId]) -> Result<(), Undecided> {
        for (index, agent) in mentions.iter().enumerate() {
            let here = view.find_agent(agent)?.is_some_and(|known| !known.has_left());
            if !here && self.from.agent() != Some(agent) && view.person_named(self.people(), agent)?.is_none() {
                let unknown = unknown_recipient(&Address::Agent(agent.clone()), "agent");
                return Err(unknown.about(&format!("/payload/mentions/{index}")).into());
            }
        }
        Ok(())
    }

    fn says(&self, cx: &DecisionContext<'_>, to: Vec<AgentId>) -> Result<Vec<AnyEvent>, Undecided> {
        match self.speech(to) {
            Some(speech) => Ok(speech.decide(cx)?.events),
            None => Ok(vec![]),
        }
    }

    /// What becomes of the task that it is about.
    fn moves(&self, cx: &DecisionContext<'_>) -> Result<Vec<AnyEvent>, Undecided> {
        let view = cx.view;
        let task = view.task(&self.received.task)?;
        if task.run != self.received.run {
            let message = format!("task {} is in run {}", task.id, task.run);
            return Err(Rejection::new(Code::Invalid, message).about("/run_id").into());
        }
        match &self.act {
            Act::Accept(agent) => {
                let held_by_other = HeldByOther::Reject;
                let start = StartTask { task: task.id.clone(), agent: Some(agent.clone()), held_by_other };
                Ok(start.decide(cx)?.events)
            }
            Act::Progress => self.ensure_reports_progress(view, cx.caller, task).map(|()| vec![]),
            Act::Complete(outcome) => {
                let complete = CompleteTask {
                    task: task.id.clone(),
                    agent: None,
                    outcome: outcome.clone(),
                    outcome_required: Required::No,
                    contract: None,
                };
                complete.events(cx)
            }
            Act::Fail { error, retry } => {
                let fail = FailTask {
                    task: task.id.clone(),
                    agent: None,
                    error: Some(error.clone()),
                    error_required: Required::No,
                    retry: *retry,
                };
                Ok(fail.decide(cx)?.events)
            }
            Act::Cancel(reason) => {
                let to = CancelTo::Cancelled;
                let cancel = CancelTask { task: task.id.clone(), agent: None, reason: reason.clone(), to };
                Ok(cancel.decide(cx)?.events)
            }
            Act::Record | Act::Say { .. } | Act::Register(_) | Act::Request(_) | Act::Call(_) => Ok(vec![]),
        }
    }

    /// Only the holder of a task reports its progress, or the lead or a person for it.
    fn ensure_reports_progress(&self, view: &View, caller: &Caller, task: &Task) -> Result<(), Undecided> {
        if !task.state.is_open() {
            return Err(task::refuse_transition(task, TaskState::InProgress).into());
        }
        let holder = task.held_by();
        let is_own = holder.is_some() && holder == self.from.agent();
        if !is_own && !view.has_authority(caller)? {
            let whose = holder.map_or_else(|| "nobody yet".to_owned(), ToString::to_string);
            return Err(Rejection::new(Code::NotHolder, format!("task {} belongs to {whose}", task.id))
                .hint("only its assignee tells how a task goes; who asked for it can cancel it")
                .into());
        }
        if task.holder().is_none() {
            let refusal = task::refuse_transition(task, TaskState::InProgress);
            return Err(refusal.hint("accept the task first, by 'task.accept'").into());
        }
        Ok(())
    }
}

/// Whom a message is to is not known.
pub fn unknown_recipient(address: &Address, what: &str) -> Rejection {
    Rejection::new(Code::UnknownRecipient, format!("'{address}' is no {what} known here"))
        .hint("send to agents that are registered, to 'group:workers', or to 'agent:orchestrator', who chooses")
}
