//! Calls of tools: whether one is allowed, whether anybody can take it, and the answer to one that comes to nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Envelope;
use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, RunId, TaskId, ThreadId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::addressee::Address;
use crate::model::agent::Agent;
use crate::model::capabilities::{Card, tool_name};
use crate::model::envelope::Filed;
use crate::model::message::Delivery;
use crate::model::message_type::MessageType;
use crate::model::policy::{Policy, TrustLevel};
use crate::model::task::Task;
use crate::model::tool_call::{Denial, Restriction, ToolErrorCode};
use crate::model::trace::Trace;
use crate::model::{DeliveryId, EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// What a `tool.call` asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolCall {
    /// As allowlists name them: servers (`mcp:browser`), or whatever else the call says.
    tools: Vec<String>,
    policy: Policy,
}

impl ToolCall {
    pub(super) fn of(envelope: &Envelope) -> ToolCall {
        let servers = envelope.to.iter().filter_map(|address| match address {
            Address::Server(_) => Some(address.to_string()),
            _ => None,
        });
        let servers: Vec<String> = servers.collect();
        let named = envelope.payload().get("tool").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        let named = named.map(|name| &name[..name.floor_char_boundary(limit::NAME_BYTES)]);
        ToolCall { tools: called(servers, named), policy: envelope.security.policy.clone() }
    }

    /// Whether it is for production, by what any side of it says.
    pub(super) fn is_for_production(&self, caller: Option<&Agent>, held_to: &HeldTo<'_>) -> bool {
        let says = |policy: &Policy| policy.trust_level == Some(TrustLevel::Prod);
        let offers = |card: &Card| {
            let of_production = card.capabilities.iter().filter(|capability| capability.trust() == TrustLevel::Prod);
            let mut offered = of_production.flat_map(|capability| capability.offers());
            offered.any(|tool| self.tools.iter().any(|called| server(called) == tool))
        };
        says(&self.policy)
            || held_to.policies().any(|(_, policy)| says(policy))
            || caller.and_then(|agent| agent.profile.card.as_deref()).is_some_and(offers)
    }

    /// The first thing that it may not use.
    pub(super) fn forbidden(&self, caller: Option<&Agent>, held_to: &HeldTo<'_>) -> Option<Denial> {
        let card = caller.and_then(|agent| agent.profile.card.as_ref());
        let own = [
            (Restriction::Card, card.and_then(|card| card.security.tool_allowlist.as_ref())),
            (Restriction::Message, self.policy.tool_allowlist.as_ref()),
        ];
        let of_tasks = held_to.policies().map(|(by, policy)| (by, policy.tool_allowlist.as_ref()));
        let unnamed = [String::new()];
        let tools = if self.tools.is_empty() { &unnamed } else { self.tools.as_slice() };
        own.into_iter().chain(of_tasks).find_map(|(by, list)| {
            let list = list?;
            let tool = tools.iter().find(|tool| !list.iter().any(|entry| covers(entry, tool)))?;
            let tool = if tool.is_empty() { "a tool without a name".to_owned() } else { tool.clone() };
            Some(Denial { code: ToolErrorCode::ToolNotAllowed, tool, by: Some(by) })
        })
    }

    /// That nobody takes it.
    pub(super) fn unserved(&self) -> Option<Denial> {
        let tool = self.tools.first()?.clone();
        Some(Denial { code: ToolErrorCode::ToolUnavailable, tool, by: None })
    }
}

/// What a call uses. What it names is something of the server that it is to, unless it names another server.
fn called(servers: Vec<String>, named: Option<&str>) -> Vec<String> {
    match named {
        None => servers,
        Some(named) if named.starts_with("mcp:") || servers.is_empty() => {
            let others = servers.into_iter().filter(|addressed| tool_name(addressed) != server(named));
            others.chain([named.to_owned()]).collect()
        }
        Some(named) => servers.iter().map(|addressed| format!("{addressed}/{named}")).collect(),
    }
}

/// The tasks whose policies a call is held to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HeldTo<'v> {
    /// The one that it names, if there is one.
    named: Option<&'v Task>,
    /// All that its sender has, unless it has the one that it names from somebody else: nobody gets rid of a policy by naming
    /// something else, or by asking itself for something.
    held: Vec<&'v Task>,
}

impl<'v> HeldTo<'v> {
    pub(super) fn of(view: &'v View, sender: &Actor, task: &TaskId) -> Result<HeldTo<'v>, Undecided> {
        let named = view.find_task(task)?;
        let given = |agent: &AgentId, task: &Task| task.held_by() == Some(agent) && task.assigned_by != agent.as_str();
        let held = match sender.agent() {
            Some(agent) if !named.is_some_and(|task| given(agent, task)) => view.tasks_held_by(agent)?,
            _ => vec![],
        };
        Ok(HeldTo { named, held })
    }

    fn policies(&self) -> impl Iterator<Item = (Restriction, &'v Policy)> {
        let named = self.named.iter().map(|task| (Restriction::Task, *task));
        let all = named.chain(self.held.iter().map(|task| (Restriction::HeldTask, *task)));
        all.filter_map(|(by, task)| Some((by, &task.origin.terms.as_ref()?.policy)))
    }
}

/// An entry allows a server with all it has, or one thing of it: `mcp:files`, `mcp:files/read`.
fn covers(entry: &str, tool: &str) -> bool {
    tool_name(entry) == tool_name(tool) || tool_name(entry) == server(tool)
}

fn server(tool: &str) -> &str {
    let name = tool_name(tool);
    name.split_once('/').map_or(name, |(server, _)| server)
}

/// Answers a call that came to nothing. Done together with taking it in, so that each has one answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerCall {
    pub call: MessageId,
    /// The id of the answer.
    pub message: MessageId,
    pub to: Actor,
    pub run: RunId,
    pub thread: ThreadId,
    pub task: TaskId,
    pub trace: Trace,
}

/// A call came to nothing, and whoever called finds that in its inbox.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolDenied {
    pub call: MessageId,
    pub message: MessageId,
    /// Who called.
    pub to: String,
    pub run: RunId,
    pub thread: ThreadId,
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
    pub denial: Denial,
    /// Whether it is somebody with an inbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<AgentId>,
}

impl ToolDenied {
    pub(crate) fn keys(&self) -> Vec<Key> {
        let (message, call) = (Key::Envelope(self.message.clone()), Key::Envelope(self.call.clone()));
        let inbox = self
            .delivered
            .iter()
            .map(|agent| Key::Delivery(DeliveryId { message: self.message.clone(), agent: agent.clone() }));
        [call, message].into_iter().chain(inbox).collect()
    }
}

impl Event for ToolDenied {
    const KIND: &'static str = "tool.denied";

    fn subject(&self) -> Subject<'_> {
        let trace = Some(&self.trace).filter(|trace| !trace.is_none());
        Subject { thread: Some(&self.thread), trace, ..Subject::task(&self.task, Some(&self.run)) }
    }

    fn write_set(&self) -> Vec<Key> {
        self.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.call.clone(), |call: &mut Filed| call.denied = None);
        rows.put(self.message.clone(), Filed::own(&self.message, MessageType::ToolError, stamp.seq));
        if let Some(agent) = &self.delivered {
            let id = DeliveryId { message: self.message.clone(), agent: agent.clone() };
            Delivery::open_envelope(rows, id, Some(&self.task), stamp);
        }
    }
}

impl Command for AnswerCall {
    const NAME: &'static str = "AnswerCall";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        let keys =
            [Key::Envelope(self.call.clone()), Key::Envelope(self.message.clone()), Key::Message(self.message.clone())];
        keys.into_iter().chain(self.to.agent().map(|agent| Key::Agent(agent.clone()))).map(ReadItem::from).collect()
    }

    /// Nothing, if the call goes on or was answered before.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        if cx.caller.actor != Actor::System {
            return Err(Rejection::new(Code::Forbidden, "only the daemon answers for tools that are not there").into());
        }
        let Some(denial) = cx.view.envelope(&self.call)?.and_then(|filed| filed.denied.clone()) else {
            return Ok(Decision::unchanged(ReplySource::done()));
        };
        if cx.view.envelope(&self.message)?.is_some() || cx.view.find_message(&self.message)?.is_some() {
            return Err(Rejection::new(Code::Stale, "the id of the answer is taken").into());
        }
        let agent = match self.to.agent() {
            Some(agent) => cx.view.find_agent(agent)?.filter(|agent| !agent.has_left()),
            None => None,
        };
        let fact = ToolDenied {
            call: self.call.clone(),
            message: self.message.clone(),
            to: self.to.to_string(),
            run: self.run.clone(),
            thread: self.thread.clone(),
            task: self.task.clone(),
            trace: self.trace.clone(),
            denial,
            delivered: agent.map(|agent| agent.id.clone()),
        };
        Ok(Decision::new(vec![AnyEvent::new(fact)], ReplySource::done()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::{EndpointGrant, RegisterAgent};
    use crate::clutch::EnvelopeReceived;
    use crate::kernel::caller::Caller;
    use crate::model::message::Standing;
    use crate::testing::{World, by, ingest, sends};

    const BROWSER: &str = "mcp:browser";

    /// `ken`, who works on a task under these policies, and `smith`, an agent with tools of its own.
    fn world(card: Value, task: &Value) -> World {
        let mut w = World::of(&["lead", "smith"]);
        let mut said = json!({ "v": "clutch/0.1", "agent_id": "ken" });
        said["security"] = card;
        w.does(&by("ken"), RegisterAgent::with_card(Card::read(&said).unwrap(), EndpointGrant::Unchanged));
        sends(&mut w, "req", "task.request", "lead", &json!({ "security": { "policy": task } }));
        w
    }

    fn call(to: &str, tool: Option<&str>, policy: Value) -> Value {
        json!({ "to": [{ "agent_id": to }], "payload": { "tool": tool, "args": {} },
                "security": { "policy": policy }, "trace": { "trace_id": "tr_1" } })
    }

    fn answer(id: &str) -> AnswerCall {
        AnswerCall {
            call: id.into(),
            message: format!("answer-{id}").as_str().into(),
            to: Actor::Agent("ken".into()),
            run: "run_1".into(),
            thread: "thr_1".into(),
            task: "t".into(),
            trace: Trace { trace_id: Some("tr_1".to_owned()), span_id: None },
        }
    }

    /// What becomes of a call: the code and whose list it was, as the answer tells them.
    fn called(w: &mut World, said: &Value) -> Option<(&'static str, Option<Restriction>)> {
        assert_eq!(sends(w, "call", "tool.call", "ken", said), ["envelope.received"]);
        let events = w.run(&Caller::system(), answer("call")).unwrap().0;
        assert!(events.len() <= 1, "{events:?}");
        let denied = events.first().map(|event| event.get::<ToolDenied>().expect("a denial"))?;
        Some((denied.denial.code.as_str(), denied.denial.by))
    }

    #[test]
    fn every_allowlist_must_have_it_and_what_is_not_said_restricts_nothing() {
        let (none, has) = (json!({}), json!({ "tool_allowlist": ["mcp:files", "mcp:browser"] }));
        let lacks = json!({ "tool_allowlist": ["mcp:files"] });
        for (card, message, task, by) in [
            (&none, &none, &none, None),
            (&has, &has, &has, None),
            (&lacks, &has, &has, Some(Restriction::Card)),
            (&has, &lacks, &has, Some(Restriction::Message)),
            (&has, &has, &lacks, Some(Restriction::Task)),
            (&none, &none, &lacks, Some(Restriction::Task)),
            (&none, &lacks, &lacks, Some(Restriction::Message)),
        ] {
            for to in [BROWSER, "agent:smith", "agent:orchestrator"] {
                let mut w = world(card.clone(), task);
                let denied = called(&mut w, &call(to, Some(BROWSER), message.clone()));
                let expected = match by {
                    Some(by) => Some(("TOOL_NOT_ALLOWED", Some(by))),
                    None if to == "agent:smith" => None,
                    None => Some(("TOOL_UNAVAILABLE", None)),
                };
                assert_eq!(denied, expected, "to {to}, by {by:?}");
                let reached = w.standing("call", "smith");
                assert_eq!(reached.is_some(), to == "agent:smith" && by.is_none(), "nobody gets what is not allowed");
            }
        }
    }

    #[test]
    fn tools_are_known_by_their_server_and_by_their_own_name() {
        let only = json!({ "tool_allowlist": ["mcp:files/read", "tool:browser"] });
        for (to, tool, allowed) in [
            ("agent:smith", Some("mcp:browser"), true),
            ("agent:smith", Some("browser"), true),
            ("agent:smith", Some("mcp:browser/click"), true),
            ("agent:smith", Some("mcp:files/read"), true),
            ("agent:smith", Some("mcp:files/write"), false),
            ("agent:smith", Some("mcp:files"), false),
            ("agent:smith", None, false),
            ("agent:smith", Some(" "), false),
            (BROWSER, Some("click"), true),
            ("mcp:files", Some("mcp:files/read"), true),
            ("mcp:files", Some("read"), true),
            ("mcp:files", Some("mcp:files/write"), false),
            ("mcp:files", Some("write"), false),
            ("mcp:files", Some("mcp:files"), false),
            ("mcp:files", None, false),
            ("mcp:files", Some("mcp:browser/click"), false),
            ("mcp:shell", Some("mcp:files/read"), false),
            (BROWSER, Some("mcp:shell"), false),
            ("mcp:shell", Some("click"), false),
        ] {
            let denied = called(&mut world(only.clone(), &json!({})), &call(to, tool, json!({})));
            let forbidden = denied.is_some_and(|(code, _)| code == "TOOL_NOT_ALLOWED");
            assert_eq!(forbidden, !allowed, "{tool:?} to {to}");
        }
    }

    /// Whose list leaves out a tool that somebody calls for a task.
    fn denied_in(w: &mut World, from: &str, task: &str, tool: &str) -> Option<Option<Restriction>> {
        let mut said = call("agent:smith", Some(tool), json!({}));
        said["task_id"] = json!(task);
        let (id, caller) = (format!("call-{from}-{task}-{tool}"), crate::testing::sender(from));
        let events = w.run(&caller, ingest(&id, "tool.call", from, &said)).unwrap().0;
        assert_eq!(events.len(), 1, "{events:?}");
        let call = events[0].get::<EnvelopeReceived>().expect("an envelope");
        call.denied.as_ref().map(|denied| denied.by)
    }

    #[test]
    fn no_allowlist_is_got_rid_of_by_naming_another_task() {
        let under =
            |task: &str, list: Value| json!({ "task_id": task, "security": { "policy": { "tool_allowlist": list } } });
        // Two of ken's under a list each, one under none, one that waits for ken, and one that is nobody's.
        let mut w = World::of(&["lead", "smith", "ken"]);
        sends(&mut w, "r1", "task.request", "lead", &under("files", json!(["mcp:files", "mcp:git"])));
        sends(&mut w, "r2", "task.request", "lead", &under("web", json!(["mcp:browser", "mcp:git"])));
        sends(&mut w, "r3", "task.request", "lead", &json!({ "task_id": "free" }));
        sends(&mut w, "r4", "task.request", "lead", &under("waits", json!(["mcp:files", "mcp:git", "mcp:browser"])));
        sends(&mut w, "r5", "task.request", "lead", &under("others", json!(["mcp:browser", "mcp:shell"])));
        for task in ["files", "web", "free", "waits"] {
            w.does(&by("lead"), crate::testing::assign(task, "ken"));
        }
        for task in ["files", "web", "free"] {
            sends(&mut w, &format!("a-{task}"), "task.accept", "ken", &json!({ "task_id": task }));
        }
        let (task, held) = (Some(Some(Restriction::Task)), Some(Some(Restriction::HeldTask)));
        for (named, tool, expected) in [
            ("files", "mcp:files", None),
            ("files", "mcp:browser", task),
            ("web", "mcp:browser", None),
            ("free", "mcp:shell", None),
            ("waits", "mcp:browser", None),
            ("waits", "mcp:shell", task),
            ("ghost", "mcp:git", None),
            ("ghost", "mcp:files", held),
            ("ghost", "mcp:shell", held),
            ("others", "mcp:shell", held),
            ("others", "mcp:browser", held),
            ("others", "mcp:git", task),
        ] {
            assert_eq!(denied_in(&mut w, "ken", named, tool), expected, "{tool} for {named}");
        }
        sends(&mut w, "r6", "task.request", "ken", &json!({ "task_id": "own" }));
        w.does(&by("lead"), crate::testing::assign("own", "ken"));
        let mut denied = |from: &str, task: &str, tool: &str| denied_in(&mut w, from, task, tool);
        assert_eq!(denied("ken", "own", "mcp:shell"), held, "who asks itself for a task is held to the others");
        assert_eq!(denied("ken", "own", "mcp:git"), None);
        assert_eq!(denied("lead", "ghost", "mcp:shell"), None, "who has no tasks is held to none");
        assert_eq!(denied("lead", "files", "mcp:shell"), task, "what is said of a task holds for everybody");
        assert_eq!(denied("person:anna", "ghost", "mcp:shell"), None);
    }

    #[test]
    fn whoever_calls_is_answered_once() {
        let mut w = world(json!({}), &json!({}));
        let said = call(BROWSER, Some(BROWSER), json!({}));
        sends(&mut w, "call", "tool.call", "ken", &said);
        assert_eq!(w.does(&Caller::system(), answer("call")), ["tool.denied"]);
        assert_eq!(w.standing("answer-call", "ken"), Some(Standing::Queued));
        w.does(&by("ken"), ingest("call", "tool.call", "ken", &said));
        let again = AnswerCall { message: "again".into(), ..answer("call") };
        assert_eq!(w.does(&Caller::system(), again), [""; 0]);
        assert_eq!(w.does(&Caller::system(), answer("req")), [""; 0], "what is no call is not answered");
        assert_eq!(w.does(&Caller::system(), answer("unknown")), [""; 0]);
        assert_eq!(w.rebuilt(), *w.rows());
        for caller in [by("ken"), by("lead"), Caller::person("anna")] {
            assert_eq!(w.refuses(&caller, answer("call")), Code::Forbidden);
        }
    }

    #[test]
    fn strangers_and_people_are_told_too_and_have_no_inbox() {
        for from in ["stranger", "person:anna"] {
            let mut w = world(json!({}), &json!({}));
            sends(&mut w, "call", "tool.call", from, &call(BROWSER, None, json!({})));
            let told = AnswerCall { to: Actor::parse(from), ..answer("call") };
            let (facts, _) = w.run(&Caller::system(), told).unwrap();
            let Some(denied) = facts.first().and_then(AnyEvent::get::<ToolDenied>) else { panic!("{facts:?}") };
            assert_eq!((denied.to.as_str(), &denied.delivered), (from, &None));
        }
    }

    #[test]
    fn a_denial_is_told_in_the_protocols_form() {
        let denial = Denial { code: ToolErrorCode::ToolUnavailable, tool: BROWSER.to_owned(), by: None };
        let told = json!({ "code": "TOOL_UNAVAILABLE", "message": "nothing here serves mcp:browser", "retryable": true,
                           "details": { "tool": BROWSER, "call_id": "m" } });
        assert_eq!(denial.payload(&"m".into()), told);
        let by = Some(Restriction::Task);
        let told = Denial { code: ToolErrorCode::ToolNotAllowed, by, ..denial }.payload(&"m".into());
        assert_eq!((&told["retryable"], &told["details"]["allowlist"]), (&json!(false), &json!("task")));
    }
}
