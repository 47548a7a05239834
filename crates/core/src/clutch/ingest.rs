//! What an envelope does: it is recorded, and the rules of every face decide what follows from it.

use super::address::Address;
use super::message_type::MessageType;
use super::received::EnvelopeReceived;
use super::signature::{self, Signing, SigningPolicy};
use super::tool::{Denial, HeldTo, ToolCall};
use crate::actor::{Actor, Caller};
use crate::agent::{Agent, RegisterCard, UpdateCard, Vouched};
use crate::command::{Decision, Halt, Now, Reply};
use crate::contract::Checked;
use crate::envelope;
use crate::fact::Fact;
use crate::group;
use crate::id::AgentId;
use crate::key::{Ask, Key, Lookup};
use crate::limit;
use crate::message::{Cause, SendMessage, StormGuard, Tone, What};
use crate::refusal::{Code, Refusal};
use crate::run::{self, Ended};
use crate::task::{self, Complete, Fail, Outcome, Start, State, Task};
use crate::told;
use crate::view::View;

/// Takes in an envelope. Sent again, it is answered as it was the first time.
#[derive(Clone, PartialEq, Debug)]
pub struct Ingest {
    pub received: EnvelopeReceived,
    pub from: Actor,
    pub act: Act,
    /// What was found about its signature.
    pub signing: Signing,
    /// Where its task is bound to a step of a workflow: what came of holding it against that.
    pub checked: Option<Box<Checked>>,
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
        guard: StormGuard,
    },
    Register(Box<RegisterCard>),
    Update(UpdateCard),
    Request(Box<task::Request>),
    Accept(AgentId),
    Progress,
    Complete(Outcome),
    Fail {
        error: String,
        again: Again,
    },
    Cancel(Option<String>),
    Call(ToolCall),
}

/// Whether another attempt may mend an error, by the word of whoever tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    Never,
    /// After a pause, which is twice as long after each further attempt.
    After {
        backoff_millis: u64,
    },
}

impl Ingest {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let received = &self.received;
        let mut asks: Vec<Ask> =
            vec![Key::Envelope(received.message.clone()).into(), Key::Message(received.message.clone()).into()];
        asks.extend(received.to.iter().filter_map(|address| match address {
            Address::Agent(id) => Some(Key::Agent(id.clone()).into()),
            Address::Group(name) => Some(group::asks(name)),
            Address::Person(_) | Address::Server(_) | Address::Orchestrator => None,
        }));
        asks.push(Key::Task(received.task.clone()).into());
        match &self.act {
            Act::Record | Act::Call(_) => {}
            Act::Say { .. } => asks.extend(self.speech(vec![]).into_iter().flat_map(|speech| speech.asks())),
            Act::Register(register) => asks.extend(register.asks()),
            Act::Update(update) => asks.extend(update.asks()),
            Act::Request(request) => asks.extend(request.asks()),
            Act::Accept(_) | Act::Progress => asks.push(Key::Lead.into()),
            Act::Complete(_) | Act::Fail { .. } | Act::Cancel(_) => {
                asks.push(Key::Lead.into());
                asks.push(Lookup::Dependents(received.task.clone()).into());
                asks.push(Lookup::FilesOfTask(received.task.clone()).into());
            }
        }
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        self.decided(view, caller, now).map_err(|halt| match halt {
            Halt::Refused(refusal) => Halt::Refused(self.placed(refusal)),
            Halt::Missing(asks) => Halt::Missing(asks),
        })
    }

    /// Every refusal says which field of the envelope it is about.
    fn placed(&self, refusal: Refusal) -> Refusal {
        let pointer = match refusal.code {
            Code::TaskNotFound | Code::InvalidTransition | Code::DependenciesUnfinished => "/task_id",
            Code::NotHolder | Code::Reserved | Code::NotEligible | Code::AlreadyClaimed => "/from/agent_id",
            Code::AgentNotFound | Code::AgentOffline | Code::Sealed | Code::Forbidden => "/from/agent_id",
            Code::Exists => "/id",
            Code::InvalidState => "/run_id",
            Code::SignatureRequired => "/security/auth",
            _ => "/payload",
        };
        refusal.about(pointer)
    }

    fn decided(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        if caller.actor != self.from {
            let message = format!("'{}' may not send as '{}'", caller.actor, self.from);
            return Err(Refusal::new(Code::Forbidden, message)
                .hint("send as the agent that the call comes from")
                .into());
        }
        self.needs_signature(view, caller)?;
        let key = Key::Envelope(self.received.message.clone());
        if let Some(known) = view.envelope(&self.received.message)? {
            if known.hash == self.received.hash {
                return Ok(Decision::nothing(Reply::Known(key)));
            }
            return Err(self.says_something_else().into());
        }
        // What has no id of its own is told under one that is made from its place in the log.
        let is_ours = envelope::is_kept_for_the_log(&self.received.message);
        if is_ours || view.message(&self.received.message)?.is_some() {
            return Err(self.says_something_else().into());
        }
        let reached = self.recipients(view)?;
        let denied = self.denied(view, &reached)?;
        let (delivered, followers) = match &self.act {
            Act::Say { .. } => (vec![], self.says(view, caller, now, reached)?),
            Act::Register(register) => (vec![], register.announces(view, caller, self.vouched())?.facts),
            Act::Update(update) => (vec![], update.announces(view, caller, self.vouched())?.facts),
            // It is passed on to whoever shall do it.
            Act::Request(request) => (vec![], request.creates(view, caller)?),
            Act::Call(_) if denied.is_some() => (vec![], vec![]),
            Act::Record | Act::Call(_) => (reached, vec![]),
            Act::Accept(_) | Act::Progress => (reached, self.moves(view, caller, now)?),
            Act::Complete(_) | Act::Fail { .. } | Act::Cancel(_) => {
                let followers = self.moves(view, caller, now)?;
                (self.and_those_concerned(view, reached)?, followers)
            }
        };
        self.keeps_to_its_step(view)?;
        let signed_by = self.signing.by.as_ref().map(|key| key.kid.clone());
        let received = EnvelopeReceived { delivered, signed_by, denied, ..self.received.clone() };
        let mut facts = vec![Fact::EnvelopeReceived(received)];
        facts.extend(followers);
        Ok(Decision::new(facts, Reply::Row(key)))
    }

    /// Whoever has keys, or must have, vouches for what it sends as far as the policy demands. The key that was found was
    /// one of the sender's then; it has to be one still.
    fn needs_signature(&self, view: &View, caller: &Caller) -> Result<(), Halt> {
        // People show a token, and whoever speaks in an agent's name has shown one too.
        let Some(sender) = self.from.agent().filter(|_| self.signing.policy != SigningPolicy::Off) else {
            return Ok(());
        };
        let agent = view.agent(sender)?;
        let known = signature::keys_of(agent);
        match (&self.signing.by, &self.act) {
            // Whoever is new brings its keys along.
            (Some(key), Act::Register(register)) if known.is_empty() => {
                let brought = register.card.security.keys.iter().any(|brought| brought.is(key));
                if brought { Ok(()) } else { Err(signature::unknown_key(&key.kid, sender.as_str()).into()) }
            }
            (Some(key), _) if known.iter().any(|known| known.is(key)) => Ok(()),
            (Some(key), _) => Err(signature::unknown_key(&key.kid, sender.as_str()).into()),
            (None, _) if caller.by.is_some() || !self.is_to_be_signed(view, agent)? => Ok(()),
            (None, _) => Err(signature::signature_required(self.received.message_type.as_str()).into()),
        }
    }

    fn is_to_be_signed(&self, view: &View, sender: Option<&Agent>) -> Result<bool, Halt> {
        match self.signing.policy {
            SigningPolicy::Off => Ok(false),
            SigningPolicy::All => Ok(true),
            SigningPolicy::Sensitive if signature::keys_of(sender).is_empty() => Ok(false),
            SigningPolicy::Sensitive => match &self.act {
                Act::Call(call) => Ok(call.is_for_production(sender, &self.held_to(view)?)),
                _ => Ok(signature::is_sensitive(&self.received.message_type)),
            },
        }
    }

    fn vouched(&self) -> Vouched {
        if self.signing.by.is_some() { Vouched::ByKey } else { Vouched::ByNobody }
    }

    /// Why a call of a tool comes to nothing. It is recorded, its sender is told, and nobody gets it.
    fn denied(&self, view: &View, reached: &[AgentId]) -> Result<Option<Denial>, Halt> {
        let Act::Call(call) = &self.act else { return Ok(None) };
        let caller = match self.from.agent() {
            Some(agent) => view.agent(agent)?,
            None => None,
        };
        let forbidden = call.forbidden(caller, &self.held_to(view)?);
        let taken = !reached.is_empty() || self.received.to.iter().any(|to| matches!(to, Address::Person(_)));
        Ok(forbidden.or_else(|| call.unserved().filter(|_| !taken)))
    }

    fn held_to<'v>(&self, view: &'v View) -> Result<HeldTo<'v>, Halt> {
        HeldTo::of(view, &self.from, &self.received.task)
    }

    /// What answers a request that is bound to a step of a workflow is what that expects.
    fn keeps_to_its_step(&self, view: &View) -> Result<(), Halt> {
        match view.task(&self.received.task)? {
            Some(task) if !matches!(self.act, Act::Request(_)) => {
                Checked::keeps_to_its_step(self.checked.as_deref(), task, view)
            }
            _ => Ok(()),
        }
    }

    fn says_something_else(&self) -> Refusal {
        let message = format!("message '{}' exists and says something else", self.received.message);
        Refusal::new(Code::Exists, message).hint("give every message an id of its own").about("/id")
    }

    /// The agents that it is to, without its sender. Whoever nobody knows gets nothing, and so does everybody else.
    fn recipients(&self, view: &View) -> Result<Vec<AgentId>, Halt> {
        let mut reached: Vec<AgentId> = Vec::new();
        for (index, address) in self.received.to.iter().enumerate() {
            let pointer = format!("/to/{index}/agent_id");
            match address {
                Address::Agent(id) if view.agent(id)?.is_some_and(|agent| !agent.has_left()) => {
                    reached.push(id.clone())
                }
                // Whoever asked for the task is told of it by this, even if it never registered.
                Address::Agent(id) if self.was_asked_by(view, id)? => {}
                Address::Group(name) => match group::members(view, name)? {
                    // Those on a list who are not here are none that can be reached.
                    Some(members) => {
                        view.needs(members.iter().map(|id| Key::Agent(id.clone()).into()).collect())?;
                        for id in members {
                            if view.agent(&id)?.is_some_and(|agent| !agent.has_left()) {
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
                    return Err(Refusal::new(Code::UnknownRecipient, message).about(&pointer).into());
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
    fn passed_on_to(&self, view: &View) -> Result<Option<AgentId>, Halt> {
        let Some(task) = view.task(&self.received.task)? else { return Ok(None) };
        let concerned = match &self.act {
            Act::Accept(_) | Act::Progress | Act::Complete(_) | Act::Fail { .. } => {
                match Actor::parse(&task.assigned_by) {
                    Actor::Agent(asker) => Some(asker),
                    _ => None,
                }
            }
            Act::Cancel(_) => task.held_by().cloned(),
            Act::Record | Act::Call(_) | Act::Say { .. } | Act::Register(_) | Act::Update(_) | Act::Request(_) => None,
        };
        let Some(agent) = concerned else { return Ok(None) };
        Ok(view.agent(&agent)?.is_some_and(|known| !known.has_left()).then_some(agent))
    }

    /// Whomever it is to, that a task ends is told to whoever asked for it and whoever has it.
    fn and_those_concerned(&self, view: &View, mut reached: Vec<AgentId>) -> Result<Vec<AgentId>, Halt> {
        let concerned = told::of_its_end(view, view.task_known(&self.received.task)?)?;
        let new = |agent: &AgentId| self.from.agent() != Some(agent) && !reached.contains(agent);
        let new: Vec<AgentId> = concerned.into_iter().filter(new).collect();
        reached.extend(new);
        Ok(reached)
    }

    fn takes_tools(&self) -> bool {
        matches!(self.received.message_type, MessageType::ToolCall | MessageType::Extension(_))
    }

    fn was_asked_by(&self, view: &View, agent: &AgentId) -> Result<bool, Halt> {
        Ok(view.task(&self.received.task)?.is_some_and(|task| task.assigned_by == agent.as_str()))
    }

    fn speech(&self, to: Vec<AgentId>) -> Option<SendMessage> {
        let Act::Say { text, mentions, tone, cause, guard } = &self.act else { return None };
        Some(SendMessage {
            id: self.received.message.clone(),
            run: self.received.run.clone(),
            thread: self.received.thread.clone(),
            from: AgentId::new(self.from.to_string()),
            what: What::Chat { to, mentions: mentions.clone(), tone: *tone, about: self.received.task.clone() },
            text: text.clone(),
            cause: cause.clone(),
            guard: *guard,
        })
    }

    fn says(&self, view: &View, caller: &Caller, now: &Now, to: Vec<AgentId>) -> Result<Vec<Fact>, Halt> {
        match self.speech(to) {
            Some(speech) => Ok(speech.decide(view, caller, now)?.facts),
            None => Ok(vec![]),
        }
    }

    /// What becomes of the task that it is about.
    fn moves(&self, view: &View, caller: &Caller, now: &Now) -> Result<Vec<Fact>, Halt> {
        let task = view.task_known(&self.received.task)?;
        if task.run != self.received.run {
            let message = format!("task {} is in run {}", task.id, task.run);
            return Err(Refusal::new(Code::Invalid, message).about("/run_id").into());
        }
        match &self.act {
            Act::Accept(agent) => {
                self.needs_open(task, State::InProgress)?;
                self.needs_own(view, caller, task)?;
                let start = Start { task: task.id.clone(), agent: Some(agent.clone()) };
                Ok(start.decide(view, caller, now)?.facts)
            }
            Act::Progress => {
                self.needs_open(task, State::InProgress)?;
                self.needs_own(view, caller, task)?;
                match task.holder() {
                    Some(_) => Ok(vec![]),
                    None => Err(task::refuse_transition(task, State::InProgress)
                        .hint("accept the task first, by 'task.accept'")
                        .into()),
                }
            }
            Act::Complete(outcome) => {
                self.needs_open(task, State::Completed)?;
                self.needs_own(view, caller, task)?;
                let (begun, mut facts) = self.begun(view, caller, task, now)?;
                let complete = Complete { task: task.id.clone(), agent: None, outcome: outcome.clone(), checked: None };
                facts.extend(complete.completes(view, caller, &begun)?);
                Ok(facts)
            }
            Act::Fail { error, again } => {
                self.needs_open(task, State::Failed)?;
                self.needs_own(view, caller, task)?;
                let (begun, mut facts) = self.begun(view, caller, task, now)?;
                let fail = Fail { task: task.id.clone(), agent: None, error: Some(error.clone()) };
                facts.extend(fail.fails(view, caller, &begun)?);
                facts.extend(match again {
                    Again::After { backoff_millis } => task::tried_again(view, &begun, error, *backoff_millis, now)?,
                    Again::Never => run::ends(view, &begun, Ended::failed(0))?.into_iter().collect(),
                });
                Ok(facts)
            }
            Act::Cancel(reason) => {
                self.needs_open(task, State::Cancelled)?;
                limit::text("reason", reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
                if task.assigned_by != self.from.to_string() {
                    self.needs_own(view, caller, task)?;
                }
                task::cancelled(view, task, reason.as_deref())
            }
            Act::Record | Act::Say { .. } | Act::Register(_) | Act::Update(_) | Act::Request(_) | Act::Call(_) => {
                Ok(vec![])
            }
        }
    }

    /// A task that has ended answers the same, whoever asks.
    fn needs_open(&self, task: &Task, next: State) -> Result<(), Refusal> {
        if task.state.is_open() { Ok(()) } else { Err(task::refuse_transition(task, next)) }
    }

    /// Only whoever has the task tells how it goes, or the lead or a person for it.
    fn needs_own(&self, view: &View, caller: &Caller, task: &Task) -> Result<(), Halt> {
        let holder = task.held_by();
        let own = match &self.act {
            // One that belongs to nobody is there to be taken.
            Act::Accept(agent) => holder.is_none_or(|holder| holder == agent),
            _ => holder.is_some() && holder == self.from.agent(),
        };
        if own || (!matches!(self.act, Act::Accept(_)) && view.has_authority(caller)?) {
            return Ok(());
        }
        let whose = holder.map_or_else(|| "nobody yet".to_owned(), ToString::to_string);
        Err(Refusal::new(Code::NotHolder, format!("task {} belongs to {whose}", task.id))
            .hint("only its assignee tells how a task goes; who asked for it can cancel it")
            .into())
    }

    /// Whoever ends what it was given began it, though it did not say so.
    fn begun(&self, view: &View, caller: &Caller, task: &Task, now: &Now) -> Result<(Task, Vec<Fact>), Halt> {
        match self.from.agent() {
            Some(agent) => task::begun(view, caller, task, agent, now),
            None => Ok((task.clone(), vec![])),
        }
    }
}

/// Whom a message is to is not known.
pub fn unknown_recipient(address: &Address, what: &str) -> Refusal {
    Refusal::new(Code::UnknownRecipient, format!("'{address}' is no {what} known here"))
        .hint("send to agents that are registered, to 'group:workers', or to 'agent:orchestrator', who chooses")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clutch::card::SigningKey;
    use crate::clutch::{Card, PayloadType, SecretKey};
    use crate::contract::{BoundTo, DefineWorkflow, Expects, StepRule, Violations, missing};
    use crate::group::SetGroup;
    use crate::message::{Fate, Standing};
    use crate::run::Status;
    use crate::task::UpdateStatus;
    use crate::testing::{
        World, anna, by, claim, complete, create, ingest, sender as caller, sends, start, with_token,
    };

    fn refused(w: &mut World, id: &str, kind: &str, from: &str, more: &Value) -> (Code, String) {
        let head = w.log.len();
        let refusal = w.run(&caller(from), ingest(id, kind, from, more)).unwrap_err();
        assert_eq!(w.log.len(), head);
        (refusal.code, refusal.pointer.unwrap_or_default())
    }

    fn chat(text: &str) -> Value {
        json!({ "payload": { "text": text } })
    }

    #[test]
    fn sent_again_it_is_the_same_and_with_another_content_it_is_refused() {
        let mut w = World::of(&["ken"]);
        let first = ingest("m", "x.deploy", "ken", &json!({}));
        assert_eq!(w.does(&by("ken"), first.clone()), ["envelope.received"]);
        let again = ingest("m", "x.deploy", "ken", &json!({ "attempt": 2, "trace": { "trace_id": "t" } }));
        let (facts, reply) = w.run(&by("ken"), again).unwrap();
        assert_eq!((facts, reply), (vec![], Reply::Known(Key::Envelope("m".into()))));
        let other = json!({ "payload": { "more": 1 } });
        assert_eq!(refused(&mut w, "m", "x.deploy", "ken", &other), (Code::Exists, "/id".to_owned()));
        w.does(&by("ken"), crate::testing::entry("n", "ken", "hello"));
        assert_eq!(refused(&mut w, "n", "x.deploy", "ken", &json!({})), (Code::Exists, "/id".to_owned()));
    }

    #[test]
    fn nobody_sends_in_anothers_name() {
        let mut w = World::of(&["lead", "ken", "ada"]);
        for (caller, from) in [(by("ada"), "ken"), (by("lead"), "ken"), (anna(), "ken"), (by("ken"), "person:anna")] {
            let code = w.refuses(&caller, ingest("m", "x.y", from, &json!({})));
            assert_eq!(code, Code::Forbidden);
        }
        assert_eq!(sends(&mut w, "m", "x.y", "stranger", &json!({})), ["envelope.received"], "anybody may send");
        assert_eq!(sends(&mut w, "n", "x.y", "person:anna", &json!({})), ["envelope.received"]);
    }

    #[test]
    fn whoever_is_known_gets_it_and_nobody_does_if_one_is_not() {
        let mut w = World::of(&["lead", "ken", "ada"]);
        let to =
            |names: &[&str]| json!({ "to": names.iter().map(|name| json!({ "agent_id": name })).collect::<Value>() });
        sends(
            &mut w,
            "m",
            "x.y",
            "ken",
            &to(&["agent:ada", "ken", "person:anna", "agent:orchestrator", "mcp:browser"]),
        );
        assert_eq!((w.standing("m", "ada"), w.standing("m", "ken")), (Some(Standing::Queued), None));
        sends(&mut w, "n", "x.y", "ken", &to(&["group:workers", "ada"]));
        assert_eq!((w.pending("ada"), w.pending("lead")), (vec!["m", "n"], vec!["n"]));
        for (index, stranger) in ["agent:ghost", "group:ghosts"].into_iter().enumerate() {
            let mut names = vec!["agent:ada"; index + 1];
            names.truncate(1);
            names.push(stranger);
            let told = refused(&mut w, "o", "x.y", "ken", &to(&names));
            assert_eq!(told, (Code::UnknownRecipient, "/to/1/agent_id".to_owned()), "{stranger}");
        }
        let told = refused(&mut w, "o", "task.request", "ken", &to(&["mcp:browser"]));
        assert_eq!(told, (Code::UnknownRecipient, "/to/0/agent_id".to_owned()));
    }

    #[test]
    fn chat_stands_in_its_thread_and_reaches_whom_it_is_to_and_whom_it_mentions() {
        let mut w = World::of(&["lead", "ken", "ada", "bob"]);
        let said = json!({ "to": [{ "agent_id": "agent:ada" }],
                           "payload": { "text": "@bob look", "mentions": ["agent:lead", "bob"] }, "run_id": "run_2" });
        assert_eq!(sends(&mut w, "m", "chat.message", "ken", &said), ["envelope.received", "message.sent"]);
        let header = w.message("m").letter.header.clone();
        assert_eq!((header.thread.as_str(), header.run.as_str(), header.name.as_str()), ("thr_1", "run_2", "ken"));
        let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&header.mentions), ["bob", "lead"]);
        for agent in ["ada", "bob", "lead"] {
            assert_eq!(w.standing("m", agent), Some(Standing::Queued), "{agent}");
        }
        assert!(header.wakes);
        sends(
            &mut w,
            "n",
            "chat.system",
            "ken",
            &json!({ "to": [{ "agent_id": "ada" }], "payload": { "text": "up" } }),
        );
        assert!(!w.message("n").letter.header.wakes, "a notice wakes nobody");
        assert_eq!(w.message("n").letter.text, "up");
        sends(&mut w, "o", "chat.system", "ken", &json!({ "payload": { "load": 1 } }));
        assert_eq!(w.message("o").letter.text, r#"{"load":1}"#);
    }

    #[test]
    fn a_storm_of_chat_is_held() {
        let mut w = World::of(&["ken", "ada"]);
        let mut rushed = ingest("m", "chat.message", "ken", &chat("@ada"));
        if let Act::Say { guard, .. } = &mut rushed.act {
            guard.per_minute = 1;
        }
        let again =
            Ingest { received: EnvelopeReceived { message: "n".into(), ..rushed.received.clone() }, ..rushed.clone() };
        w.does(&by("ken"), rushed);
        assert_eq!(w.does(&by("ken"), again), ["envelope.received", "message.held"]);
        assert!(matches!(w.message("n").fate, Fate::Held(_)));
    }

    #[test]
    fn cards_come_in_by_envelopes_too() {
        let mut w = World::of(&["lead"]);
        let card = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [{ "id": "skill:law" }] });
        let facts = sends(&mut w, "m", "agent.register", "ken", &json!({ "payload": card }));
        assert_eq!(facts, ["envelope.received", "agent.registered"]);
        let change = json!({ "payload": { "limits": { "max_concurrency": 3 } } });
        assert_eq!(sends(&mut w, "n", "agent.update", "ken", &change), ["envelope.received", "agent.updated"]);
        assert_eq!(w.agent("ken").profile.capabilities, ["law"]);
        let stranger = json!({ "payload": { "card": card } });
        assert_eq!(
            refused(&mut w, "o", "agent.register", "ada", &stranger),
            (Code::Forbidden, "/from/agent_id".to_owned())
        );
    }

    /// A request by `ui`, as far along as the state says, with `ken` as its worker.
    fn requested(state: State) -> World {
        let mut w = World::of(&["lead", "ken", "ada"]);
        let facts = sends(&mut w, "req", "task.request", "ui", &json!({ "payload": { "title": "Find out" } }));
        assert_eq!(facts, ["envelope.received", "task.created"]);
        w.does(&by("lead"), crate::testing::assign("t", "ken"));
        if state != State::Pending {
            sends(&mut w, "acc", "task.accept", "ken", &json!({}));
        }
        match state {
            State::Completed => drop(sends(&mut w, "res", "task.result", "ken", &json!({}))),
            State::Failed => drop(sends(&mut w, "err", "task.error", "ken", &json!({}))),
            State::Cancelled => drop(sends(&mut w, "can", "task.cancel", "ui", &json!({}))),
            _ => {}
        }
        assert_eq!(w.task("t").state, state);
        w
    }

    #[test]
    fn every_type_by_everybody_in_every_state() {
        let no_code: Option<Code> = None;
        for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
            for state in [State::Pending, State::InProgress, State::Completed, State::Failed, State::Cancelled] {
                for from in ["ken", "ada", "lead", "ui", "stranger", "person:anna"] {
                    if kind == "task.accept" && from == "person:anna" {
                        continue; // Refused when it is read.
                    }
                    let expected = match (kind, from, state) {
                        (_, _, State::Completed | State::Failed | State::Cancelled) => Some(Code::InvalidTransition),
                        ("task.progress", "ken" | "lead" | "person:anna", State::Pending) => {
                            Some(Code::InvalidTransition)
                        }
                        (_, "ken", _) | ("task.cancel", "ui" | "lead" | "person:anna", _) => no_code,
                        // Nobody but its agent begins it, and what has not begun cannot end well or badly.
                        ("task.result" | "task.error", "lead" | "person:anna", State::Pending) => {
                            Some(Code::InvalidTransition)
                        }
                        ("task.progress" | "task.result" | "task.error", "lead" | "person:anna", _) => no_code,
                        _ => Some(Code::NotHolder),
                    };
                    let mut w = requested(state);
                    let outcome = w.run(&caller(from), ingest("m", kind, from, &json!({})));
                    let code = outcome.as_ref().err().map(|refusal| refusal.code);
                    assert_eq!(code, expected, "{kind} by {from}, {state:?}");
                    match outcome {
                        Ok((facts, _)) => assert_eq!(facts[0].kind(), "envelope.received"),
                        Err(refusal) => {
                            let pointer = if code == Some(Code::NotHolder) { "/from/agent_id" } else { "/task_id" };
                            assert_eq!(refusal.pointer.as_deref(), Some(pointer), "{kind} by {from}, {state:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_about_an_unknown_task_or_another_run_is_refused() {
        for kind in ["task.accept", "task.progress", "task.result", "task.error", "task.cancel"] {
            let mut w = requested(State::InProgress);
            let unknown = refused(&mut w, "m", kind, "ken", &json!({ "task_id": "ghost" }));
            assert_eq!(unknown, (Code::TaskNotFound, "/task_id".to_owned()), "{kind}");
            let elsewhere = refused(&mut w, "m", kind, "ken", &json!({ "run_id": "run_2" }));
            assert_eq!(elsewhere, (Code::Invalid, "/run_id".to_owned()), "{kind}");
        }
        let mut w = requested(State::InProgress);
        assert_eq!(refused(&mut w, "m", "task.request", "ui", &json!({})), (Code::Exists, "/task_id".to_owned()));
    }

    #[test]
    fn a_request_keeps_where_it_belongs_and_on_what_terms() {
        let mut w = World::of(&["ken"]);
        let said = json!({
            "payload": { "query": "who?", "deadline": "2026-02-01T13:20:11.123Z", "max_attempts": 2 },
            "limits": { "max_runtime_sec": 60 }, "requires": ["skill:law"], "domain": "law",
        });
        sends(&mut w, "m", "task.request", "ken", &said);
        let task = w.task("t");
        assert_eq!(
            (task.title.as_str(), task.description.as_str(), task.assigned_by.as_str()),
            ("who?", "who?", "ken")
        );
        let terms = task.origin.terms.as_ref().unwrap();
        assert_eq!((terms.max_runtime_sec, terms.max_attempts, terms.deadline.is_some()), (Some(60), Some(2), true));
        assert_eq!((terms.requires.len(), terms.domain.as_deref(), terms.request.as_str()), (1, Some("law"), "m"));
        assert_eq!(task.origin.thread.as_ref().map(|thread| thread.as_str()), Some("thr_1"));
        assert_eq!(w.run_row("run_1").status, Status::Ready);
    }

    #[test]
    fn results_and_errors_say_what_came_of_it() {
        let mut w = requested(State::InProgress);
        let payload = json!({ "title": "Done", "findings": ["a"] });
        let facts = sends(&mut w, "m", "task.result", "ken", &json!({ "payload": payload }));
        assert_eq!(facts, ["envelope.received", "task.completed", "run.status_set"]);
        let task = w.task("t");
        assert_eq!((task.outcome.as_deref(), task.outcome_detail.as_ref()), (Some("Done"), Some(&payload)));
        assert_eq!(w.run_row("run_1").status, Status::Completed);
        let mut w = requested(State::Pending);
        let failed = json!({ "payload": { "code": "TOOL_UNAVAILABLE", "message": "no browser", "retryable": true } });
        let facts = sends(&mut w, "m", "task.error", "ken", &failed);
        assert_eq!(facts[..4], ["envelope.received", "task.claimed", "run.status_set", "task.started"]);
        assert_eq!((&facts[4..], w.task("t").state), (&["task.failed", "task.retried"][..], State::Pending));
        assert_eq!(w.task("t").reason.as_deref(), Some("TOOL_UNAVAILABLE: no browser"));
        assert_eq!((w.task("t").worked_by.as_ref().map(AgentId::as_str), w.agent("ken").holding), (Some("ken"), 0));
    }

    #[test]
    fn tasks_of_other_faces_are_the_same_tasks() {
        let mut w = World::of(&["lead", "ken"]);
        w.does(&Caller::nobody(), create("t", &[]));
        let own = json!({ "run_id": "run_default" });
        assert_eq!(
            sends(&mut w, "m", "task.accept", "ken", &own),
            ["envelope.received", "task.claimed", "task.started"],
            "what belongs to nobody can be taken"
        );
        assert_eq!(sends(&mut w, "n", "task.result", "ken", &own), ["envelope.received", "task.completed"]);
        sends(&mut w, "o", "task.request", "ken", &json!({ "task_id": "u" }));
        assert_eq!(w.does(&by("lead"), claim("lead", "u"))[0], "task.claimed");
        w.does(&by("lead"), start(None, "u"));
        assert_eq!(w.does(&by("lead"), complete("u"))[0], "task.completed");
    }

    #[test]
    fn cancelling_takes_along_all_that_is_part_of_it() {
        let mut w = requested(State::InProgress);
        let part = |w: &mut World, id: &str, parent: &str| {
            let said = json!({ "task_id": id, "parent_task_id": parent });
            sends(w, &format!("m{id}"), "task.request", "ken", &said);
        };
        part(&mut w, "a", "t");
        part(&mut w, "b", "a");
        part(&mut w, "c", "b");
        part(&mut w, "d", "t");
        w.does(&by("ada"), start(Some("ada"), "b"));
        w.does(&by("lead"), start(Some("lead"), "d"));
        w.does(&by("lead"), complete("d"));
        assert_eq!(w.agent("ada").holding, 1);
        let facts = sends(&mut w, "m", "task.cancel", "ui", &json!({ "payload": { "reason": "enough" } }));
        assert_eq!(facts.iter().filter(|kind| **kind == "task.dropped").count(), 4);
        for id in ["t", "a", "b", "c"] {
            assert_eq!((w.task(id).state, w.task(id).reason.as_deref()), (State::Cancelled, Some("enough")), "{id}");
        }
        assert_eq!((w.task("d").state, w.agent("ada").holding), (State::Completed, 0));
        assert_eq!((w.run_row("run_1").status, w.run_row("run_1").unfinished), (Status::Completed, 0));
        assert_eq!(w.rebuilt(), *w.rows());
        let late = json!({ "task_id": "e", "parent_task_id": "t" });
        assert_eq!(
            refused(&mut w, "n", "task.request", "ken", &late),
            (Code::InvalidState, "/parent_task_id".to_owned())
        );
    }

    #[test]
    fn the_end_of_the_whole_ends_its_parts_and_that_of_a_part_does_not() {
        let mut w = requested(State::InProgress);
        for (id, parent) in [("a", "t"), ("b", "a")] {
            let said = json!({ "task_id": id, "parent_task_id": parent });
            sends(&mut w, id, "task.request", "ken", &said);
        }
        w.does(&by("ada"), start(Some("ada"), "a"));
        w.does(&by("ada"), complete("a"));
        assert_eq!(w.task("b").state, State::Pending);
        sends(&mut w, "m", "task.result", "ken", &json!({}));
        assert_eq!((w.task("b").state, w.run_row("run_1").status), (State::Cancelled, Status::Completed));
    }

    #[test]
    fn a_part_must_fit_into_the_whole() {
        let mut w = requested(State::InProgress);
        let under = |id: &str, parent: &str| json!({ "task_id": id, "parent_task_id": parent });
        let unknown = refused(&mut w, "m", "task.request", "ken", &under("a", "ghost"));
        assert_eq!(unknown, (Code::TaskNotFound, "/parent_task_id".to_owned()));
        let elsewhere = json!({ "task_id": "a", "parent_task_id": "t", "run_id": "run_2" });
        assert_eq!(refused(&mut w, "m", "task.request", "ken", &elsewhere), (Code::Invalid, "/run_id".to_owned()));
        let mut parent = "t".to_owned();
        for level in 1..=limit::TASK_LEVELS {
            let id = format!("l{level}");
            sends(&mut w, &id, "task.request", "ken", &under(&id, &parent));
            parent = id;
        }
        let deeper = refused(&mut w, "m", "task.request", "ken", &under("deep", &parent));
        assert_eq!(deeper, (Code::TooLarge, "/parent_task_id".to_owned()));
    }

    fn key(kid: &str, seed: u8) -> SigningKey {
        SecretKey::new(kid, [seed; 32]).public()
    }

    fn card(keys: &[SigningKey], more: Value) -> Value {
        let mut card = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "security": { "keys": keys } });
        card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        card
    }

    /// `ken` with these keys, and `ada` with none.
    fn keyed(keys: &[SigningKey]) -> World {
        let mut w = World::of(&["lead", "ada"]);
        sends(&mut w, "reg", "agent.register", "ken", &json!({ "payload": card(keys, json!({})) }));
        w
    }

    /// An envelope whose signature was found to be by this key.
    fn signed(policy: SigningPolicy, by: Option<&SigningKey>, kind: &str, from: &str, more: &Value) -> Ingest {
        Ingest { signing: Signing { policy, by: by.cloned() }, ..ingest("m", kind, from, more) }
    }

    #[test]
    fn what_must_be_signed_depends_on_the_policy_and_on_whether_there_are_keys() {
        use SigningPolicy::{All, Off, Sensitive};
        let own = key("k1", 1);
        let update = json!({ "payload": { "limits": { "max_concurrency": 1 } } });
        let prod = json!({ "security": { "policy": { "trust_level": "prod" } }, "to": [{ "agent_id": "mcp:x" }] });
        let plain = json!({});
        for (kind, more, sensitive) in [
            ("agent.register", &json!({ "payload": card(std::slice::from_ref(&own), json!({})) }), true),
            ("agent.update", &update, true),
            ("task.cancel", &plain, true),
            ("x.handoff", &plain, true),
            ("x.handoff.accept", &plain, true),
            ("tool.call", &prod, true),
            ("tool.call", &json!({ "to": [{ "agent_id": "mcp:x" }] }), false),
            ("x.handoffs", &plain, false),
            ("chat.message", &chat("hi"), false),
            ("task.request", &json!({ "task_id": "new" }), false),
        ] {
            for (policy, from, demanded) in [
                (Off, "ken", false),
                (Sensitive, "ken", sensitive),
                (Sensitive, "ada", false),
                (All, "ken", true),
                (All, "ada", true),
                (All, "stranger", true),
                (All, "person:anna", false),
            ] {
                let mut w = keyed(std::slice::from_ref(&own));
                let command = signed(policy, None, kind, "ken", more);
                let command = Ingest { from: Actor::parse(from), ..command };
                let refusal = w.run(&caller(from), command).err();
                let told = refusal.map(|refusal| (refusal.code, refusal.pointer.unwrap()));
                let unsigned = told == Some((Code::SignatureRequired, "/security/auth".to_owned()));
                assert_eq!(unsigned, demanded, "{kind} from {from}, {policy:?}: {told:?}");
                if from == "ken" {
                    let mut w = keyed(std::slice::from_ref(&own));
                    let outcome = w.run(&caller(from), signed(policy, Some(&own), kind, from, more));
                    let code = outcome.err().map(|refusal| refusal.code);
                    assert_ne!(code, Some(Code::SignatureRequired), "{kind} is signed");
                }
            }
        }
    }

    #[test]
    fn a_call_is_for_production_by_what_any_side_says() {
        let own = key("k1", 1);
        let call = json!({ "to": [{ "agent_id": "mcp:deploy" }] });
        let needs = |w: &mut World| {
            let outcome = w.run(&by("ken"), signed(SigningPolicy::Sensitive, None, "tool.call", "ken", &call));
            outcome.err().map(|refusal| refusal.code) == Some(Code::SignatureRequired)
        };
        let mut w = keyed(std::slice::from_ref(&own));
        assert!(!needs(&mut w));
        let mut w = keyed(std::slice::from_ref(&own));
        sends(&mut w, "r", "task.request", "lead", &json!({ "security": { "policy": { "trust_level": "prod" } } }));
        assert!(needs(&mut w), "the task's");
        let mut w = keyed(std::slice::from_ref(&own));
        let live = json!({ "task_id": "live", "security": { "policy": { "trust_level": "prod" } } });
        sends(&mut w, "r", "task.request", "lead", &live);
        assert!(!needs(&mut w), "that of a task which is not ken's and is not named");
        let mut w = keyed(std::slice::from_ref(&own));
        sends(&mut w, "r", "task.request", "lead", &live);
        w.does(&by("lead"), crate::testing::assign("live", "ken"));
        assert!(needs(&mut w), "that of a task that ken has, though the call names another");
        let tools = json!([{ "id": "skill:ship", "tools": ["mcp:deploy"], "trust_level": "prod" }]);
        let mut w = World::of(&["lead"]);
        let said = json!({ "payload": card(&[own], json!({ "capabilities": tools })) });
        sends(&mut w, "reg", "agent.register", "ken", &said);
        assert!(needs(&mut w), "the capability's");
    }

    #[test]
    fn a_key_that_is_not_the_senders_any_more_vouches_for_nothing() {
        let (old, new) = (key("k1", 1), key("k2", 2));
        for policy in [SigningPolicy::Sensitive, SigningPolicy::All] {
            let mut w = keyed(std::slice::from_ref(&new));
            for (by, from) in [(&old, "ken"), (&new, "ada"), (&key("k2", 3), "ken"), (&key("k3", 2), "ken")] {
                let refusal = w.run(&caller(from), signed(policy, Some(by), "x.y", from, &json!({}))).unwrap_err();
                assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::UnknownKey, Some("/security/auth/kid")));
            }
            assert_eq!(w.does(&by("ken"), signed(policy, Some(&new), "x.y", "ken", &json!({}))), ["envelope.received"]);
        }
    }

    #[test]
    fn whoever_is_new_vouches_with_the_keys_that_it_brings() {
        let (own, other) = (key("k1", 1), key("k2", 2));
        let said = json!({ "payload": card(std::slice::from_ref(&own), json!({})) });
        for policy in [SigningPolicy::Sensitive, SigningPolicy::All] {
            let mut w = World::of(&["lead"]);
            let refusal = w.run(&by("ken"), signed(policy, Some(&other), "agent.register", "ken", &said)).unwrap_err();
            assert_eq!(refusal.code, Code::UnknownKey);
            let facts = w.does(&by("ken"), signed(policy, Some(&own), "agent.register", "ken", &said));
            assert_eq!(facts, ["envelope.received", "agent.registered"]);
        }
    }

    #[test]
    fn keys_are_replaced_by_whoever_has_one_of_them_or_by_lead_and_people() {
        let (old, new) = (key("k1", 1), key("k2", 2));
        let change = json!({ "payload": { "security": { "keys": [&old, &new] } } });
        let replaced = json!({ "payload": card(std::slice::from_ref(&new), json!({})) });
        let sensitive = SigningPolicy::Sensitive;
        let mut w = keyed(std::slice::from_ref(&old));
        for kind in ["agent.update", "agent.register"] {
            let said = if kind == "agent.update" { &change } else { &replaced };
            for policy in [SigningPolicy::Off, sensitive, SigningPolicy::All] {
                let refusal = w.run(&by("ken"), signed(policy, None, kind, "ken", said)).unwrap_err();
                assert_eq!(
                    (refusal.code, refusal.pointer.as_deref()),
                    (Code::SignatureRequired, Some("/security/auth"))
                );
            }
            let by_new = w.run(&by("ken"), signed(sensitive, Some(&new), kind, "ken", said)).unwrap_err();
            assert_eq!(by_new.code, Code::UnknownKey, "a new key does not vouch for itself");
        }
        let facts = w.does(&by("ken"), signed(sensitive, Some(&old), "agent.update", "ken", &change));
        assert_eq!(facts, ["envelope.received", "agent.updated"]);
        let last = Ingest {
            received: EnvelopeReceived {
                message: "n".into(),
                ..ingest("n", "agent.register", "ken", &replaced).received
            },
            ..signed(sensitive, Some(&new), "agent.register", "ken", &replaced)
        };
        assert_eq!(w.does(&by("ken"), last), ["envelope.received", "agent.updated"], "rotated: the second is enough");
        let registers = |keys: &[SigningKey]| RegisterCard { card: Card::read(&card(keys, json!({}))).unwrap() };
        for caller in [by("ken"), with_token("ken"), by("lead"), by("ada"), Caller::nobody()] {
            let refusal = w.run(&caller, registers(std::slice::from_ref(&old))).unwrap_err();
            let forbidden = [Code::SignatureRequired, Code::Forbidden].contains(&refusal.code);
            assert!(forbidden, "{:?}: {refusal}", caller.actor);
        }
        assert_eq!(w.does(&anna(), registers(std::slice::from_ref(&old))), ["agent.updated"]);
        assert_eq!(w.does(&with_token("lead"), registers(&[])), ["agent.updated"], "the lead may take them away");
    }

    #[test]
    fn leaving_and_coming_back_does_not_shake_off_the_keys() {
        let own = key("k1", 1);
        let mut w = keyed(std::slice::from_ref(&own));
        w.does(&by("ken"), crate::agent::Leave { agent: "ken".into() });
        let other = RegisterCard { card: Card::read(&card(&[key("k2", 2)], json!({}))).unwrap() };
        assert_eq!(w.refuses(&by("ken"), other), Code::SignatureRequired);
        w.joins("ken", crate::agent::Role::Worker);
        assert!(signature::same_keys(&Card::of(w.agent("ken")).security.keys, &[own]));
    }

    /// A task whose answers are bound to a step, in a workflow that expects something there.
    fn bound() -> World {
        let mut w = World::of(&["lead", "ken"]);
        defines(&mut w, "findings");
        let said = json!({ "meta": { "workflow": "w", "step": "s" } });
        sends(&mut w, "req", "task.request", "ui", &said);
        w.does(&by("lead"), crate::testing::assign("t", "ken"));
        w
    }

    fn defines(w: &mut World, required: &str) {
        let payload_type = PayloadType::parse("research.summary.v1").unwrap();
        let required = vec![required.to_owned()];
        let expects = Expects { message_type: MessageType::TaskResult, payload_type, required };
        let rules = vec![StepRule { id: "s".to_owned(), expects }];
        w.does(&anna(), DefineWorkflow { workflow: "w".to_owned(), rules });
    }

    fn result(w: &World, checked: bool, violations: Violations) -> Ingest {
        let defined = match w.rows().get(&Key::Workflow("w".to_owned())) {
            Some(crate::row::Row::Workflow(workflow)) => Some(workflow.defined),
            _ => None,
        };
        let bound = BoundTo { workflow: "w".to_owned(), step: "s".to_owned() };
        let checked = checked.then(|| Box::new(Checked { bound, defined, violations }));
        Ingest { checked, ..ingest("res", "task.result", "ken", &json!({ "payload": { "a": 1 } })) }
    }

    #[test]
    fn what_is_bound_to_a_step_is_held_against_it_as_it_is_now() {
        let mut w = bound();
        assert_eq!(w.refuses(&by("ken"), result(&w, false, Violations::default())), Code::Stale);
        let before = result(&w, true, Violations::default());
        defines(&mut w, "citations");
        assert_eq!(w.refuses(&by("ken"), before), Code::Stale, "it was held against what holds no more");
        let wrong = Violations::of([missing("/payload", "citations")]);
        let refusal = w.run(&by("ken"), result(&w, true, wrong)).unwrap_err();
        assert_eq!((refusal.code, refusal.pointer.as_deref()), (Code::SchemaViolation, Some("/payload/citations")));
        assert_eq!(w.task("t").state, State::Pending, "the step is open still");
        let again = result(&w, true, Violations::default());
        assert!(w.does(&by("ken"), again.clone()).contains(&"task.completed"));
        defines(&mut w, "findings");
        assert_eq!(w.does(&by("ken"), again), [""; 0], "sent again, it is answered as it was");
    }

    #[test]
    fn completing_it_without_a_message_is_held_against_the_step_too() {
        let mut w = bound();
        w.claims("ken", "t");
        w.does(&by("ken"), start(None, "t"));
        let checked = |w: &World, violations| result(w, true, violations).checked.map(|checked| *checked);
        let wrong = Violations::of([missing("/outcome_detail", "citations")]);
        assert_eq!(w.refuses(&by("ken"), complete("t")), Code::Stale);
        let by_update = |checked| UpdateStatus {
            task: "t".into(),
            agent: None,
            to: State::Completed,
            outcome: Outcome { text: Some("done".to_owned()), detail: None },
            error: None,
            reason: None,
            waiting_for: None,
            checked,
        };
        assert_eq!(w.refuses(&by("ken"), by_update(None)), Code::Stale);
        assert_eq!(w.refuses(&by("ken"), by_update(checked(&w, wrong.clone()))), Code::SchemaViolation);
        let wrongly = Complete { checked: checked(&w, wrong), ..complete("t") };
        assert_eq!(w.refuses(&by("ada"), wrongly.clone()), Code::NotHolder);
        assert_eq!(w.refuses(&by("ken"), wrongly), Code::SchemaViolation);
        let rightly = Complete { checked: checked(&w, Violations::default()), ..complete("t") };
        assert!(w.does(&by("ken"), rightly).contains(&"task.completed"));
    }

    #[test]
    fn whoever_may_not_answer_is_told_that_first() {
        let mut w = bound();
        let wrong = Violations::of([missing("/payload", "citations")]);
        let by_another = Ingest { from: Actor::Agent("ada".into()), ..result(&w, true, wrong) };
        assert_eq!(w.refuses(&by("ada"), by_another), Code::NotHolder);
    }

    #[test]
    fn a_list_of_agents_is_reached_as_far_as_they_are_known() {
        let mut w = World::of(&["lead", "ken", "ada"]);
        let members = vec!["ada".into(), "lead".into(), "ghost".into()];
        w.does(&anna(), SetGroup { group: "team".to_owned(), members });
        let to = json!({ "to": [{ "agent_id": "group:team" }] });
        sends(&mut w, "m", "x.y", "ken", &to);
        assert_eq!((w.pending("ada"), w.pending("lead"), w.pending("ken")), (vec!["m"], vec!["m"], vec![]));
        sends(&mut w, "req", "task.request", "ui", &to);
        let members = &w.task("t").origin.terms.as_ref().unwrap().members;
        assert_eq!(members.iter().map(AgentId::as_str).collect::<Vec<_>>(), ["ada", "ghost", "lead"]);
    }
}
