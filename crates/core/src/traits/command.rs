//! The [`Command`] trait: a request to change something, the rows that it reads, and the decision about it.
//!
//! Each command implements the trait in the file of its name and has one line in `registry.rs`. Nothing here names one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::AnyEvent;
use super::reply::{AnyReplySource, CommandReply, ReplySource};
use crate::kernel::caller::{Actor, Auth, Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, Timestamp};
use crate::kernel::rejection::Rejection;
use crate::model::{Key, ReadItem, ReadSet, Undecided, View};

/// A request to change something. It is decided over the rows in view, and appends events or is rejected.
pub trait Command: Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// What the caller is answered.
    type Reply: CommandReply;

    /// Whether it decides itself if an agent that is offline takes part again.
    const SETTLES_MEMBERSHIP: bool = false;

    /// The rows that the decision will probably need; it may ask for more by [`Undecided::Missing`].
    fn read_set(&self) -> ReadSet;

    /// Decides over the rows in view. Nothing happens except what the returned events say.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Self::Reply>, Undecided>;

    /// The bytes that it keeps in memory while it is queued, beyond those of the request's body.
    fn queued_bytes(&self) -> usize {
        0
    }
}

/// The inputs of a decision besides the command itself.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    pub view: &'a View,
    pub caller: &'a Caller,
    pub now: Timestamp,
    /// The position of the command's first event, if it appends one.
    pub next: Seq,
}

/// The events that a command appends, and its reply.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision<R> {
    pub events: Vec<AnyEvent>,
    pub reply: ReplySource<R>,
    /// An earlier command did the same and gave this reply.
    pub is_duplicate: bool,
    /// The reply is not kept for the request's idempotency key: a repeated request is decided again.
    pub is_forgettable: bool,
    /// Events in the log that lose their texts, with the bytes that remain of each.
    pub redacted: Vec<(Seq, Vec<u8>)>,
}

impl<R> Decision<R> {
    pub fn new(events: Vec<AnyEvent>, reply: ReplySource<R>) -> Decision<R> {
        Decision { events, reply, is_duplicate: false, is_forgettable: false, redacted: vec![] }
    }

    /// Appends nothing.
    pub fn unchanged(reply: ReplySource<R>) -> Decision<R> {
        Decision::new(vec![], reply)
    }

    /// Appends nothing, because an earlier command did the same.
    pub fn duplicate(reply: ReplySource<R>) -> Decision<R> {
        Decision { is_duplicate: true, ..Decision::unchanged(reply) }
    }

    /// The same decision, whose reply is not kept for the request's idempotency key.
    #[must_use]
    pub fn forgettable(self) -> Decision<R> {
        Decision { is_forgettable: true, ..self }
    }

    fn into_untyped(self) -> UntypedDecision {
        let Decision { events, reply, is_duplicate, is_forgettable, redacted } = self;
        UntypedDecision { events, reply: reply.into_any(), is_duplicate, is_forgettable, redacted }
    }
}

/// A decision about a command of any type.
#[derive(Clone, PartialEq, Debug)]
pub struct UntypedDecision {
    pub events: Vec<AnyEvent>,
    pub reply: AnyReplySource,
    pub is_duplicate: bool,
    pub is_forgettable: bool,
    pub redacted: Vec<(Seq, Vec<u8>)>,
}

/// A command of any type.
#[derive(Clone)]
pub struct AnyCommand(Arc<dyn ErasedCommand>);

impl AnyCommand {
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    pub fn settles_membership(&self) -> bool {
        self.0.settles_membership()
    }

    pub fn queued_bytes(&self) -> usize {
        self.0.queued_bytes()
    }

    pub(crate) fn decide(&self, cx: &DecisionContext<'_>) -> Result<UntypedDecision, Undecided> {
        self.0.decide(cx)
    }

    /// The command, if it is of this type.
    pub fn get<C: Command>(&self) -> Option<&C> {
        self.0.as_any().downcast_ref()
    }

    /// The command to change it, if it is of this type. Other handles to it keep it as it was.
    pub fn get_mut<C: Command>(&mut self) -> Option<&mut C> {
        self.get::<C>()?;
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = self.0.clone_erased();
        }
        Arc::get_mut(&mut self.0)?.as_any_mut().downcast_mut()
    }
}

impl<C: Command> From<C> for AnyCommand {
    fn from(command: C) -> AnyCommand {
        AnyCommand(Arc::new(command))
    }
}

impl PartialEq for AnyCommand {
    fn eq(&self, other: &AnyCommand) -> bool {
        self.0.equals(other.0.as_any())
    }
}

impl fmt::Debug for AnyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

trait ErasedCommand: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn settles_membership(&self) -> bool;
    fn read_set(&self) -> ReadSet;
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<UntypedDecision, Undecided>;
    fn queued_bytes(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn clone_erased(&self) -> Arc<dyn ErasedCommand>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<C: Command> ErasedCommand for C {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn settles_membership(&self) -> bool {
        C::SETTLES_MEMBERSHIP
    }

    fn read_set(&self) -> ReadSet {
        Command::read_set(self)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<UntypedDecision, Undecided> {
        Command::decide(self, cx).map(Decision::into_untyped)
    }

    fn queued_bytes(&self) -> usize {
        Command::queued_bytes(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn clone_erased(&self) -> Arc<dyn ErasedCommand> {
        Arc::new(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<C>() == Some(self)
    }
}

/// The rows that a command will probably need, together with those that every caller's authority depends on.
pub fn read_set(caller: &Caller, command: &AnyCommand) -> ReadSet {
    let mut read_set = command.0.read_set();
    read_set.extend(caller.actor.agent().map(|agent| ReadItem::Row(Key::Agent(agent.clone()))));
    if let Some(agent) = &caller.acting_for {
        read_set.extend([Key::lead(), Key::Agent(agent.clone())].map(ReadItem::Row));
    }
    let bound = caller.session.as_ref().and_then(|session| session.team.as_ref());
    read_set.extend(bound.map(|bound| ReadItem::Row(Key::Team(bound.team.clone()))));
    read_set
}

/// Ensures that the caller may change anything at all: observers may not, a session ends with its team, an id that is
/// bound to a credential cannot merely be asserted, and only the lead and people act for another agent.
pub fn ensure_may_write(view: &View, caller: &Caller) -> Result<(), Undecided> {
    if caller.power == Authority::Observer {
        return Err(Rejection::new(Code::Forbidden, "an observer may only read").into());
    }
    if let Some(session) = &caller.session {
        session.check_team(view)?;
    }
    if caller.auth == Auth::Asserted
        && let Actor::Agent(id) = &caller.actor
        && !caller.may_speak_as_bound(id)
        && view.find_agent(id)?.is_some_and(|agent| agent.has_credential)
    {
        return Err(Rejection::sealed(id).into());
    }
    match &caller.acting_for {
        Some(agent) => view.ensure_may_act_for(caller, agent),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::AgentRole;
    use crate::testing::{World, anna, by, register, release, with_token};

    #[test]
    fn command_by_caller_acting_for_other_agent_is_for_lead_and_people() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.does(&with_token("sealed"), register("sealed", AgentRole::Worker));
        w.creates("t", &[]);
        let acting = |caller: Caller, agent: &str| Caller { acting_for: Some(agent.into()), ..caller };
        assert_eq!(w.refuses(&acting(by("a"), "b"), release("t")), Code::Forbidden);
        assert_eq!(w.refuses(&acting(by("a"), "stranger"), release("t")), Code::Forbidden);
        assert_eq!(w.refuses(&acting(by("lead"), "sealed"), release("t")), Code::CredentialRequired);
        for caller in [acting(by("lead"), "b"), acting(anna(), "sealed"), acting(by("a"), "a")] {
            assert_eq!(w.does(&caller, release("t")), [""; 0], "{:?}", caller.actor);
        }
    }
}
