//! What one agent's model says, turn by turn.
//!
//! Which turn comes next is read off the conversation that the program sends: the id of a call names its turn. So a
//! request that is repeated gets the same answer, and nothing has to be kept but which faults have happened.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::exchange::{Answer, Asked, Call, Offered, ToolResult};

type Arguments = Box<dyn Fn(&Story<'_>) -> anyhow::Result<Value> + Send + Sync>;
type Enough = Box<dyn Fn(&Value) -> bool + Send + Sync>;

enum Turn {
    Call {
        tool: &'static str,
        arguments: Arguments,
        enough: Option<Enough>,
    },
    /// Arguments that are no JSON.
    CallBroken {
        tool: &'static str,
        arguments: &'static str,
    },
    CallAll {
        text: String,
        calls: Vec<(&'static str, Value)>,
    },
    Say {
        text: String,
        pause: Duration,
    },
    Fault {
        fault: Fault,
        times: Times,
    },
}

/// How a request is not answered as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Status {
        status: u16,
        message: &'static str,
        retry_after: Option<u64>,
    },
    /// No answer at all.
    Hang,
    /// An answer that begins and then stays away.
    Stall,
    /// An answer that begins and whose connection then ends.
    Cut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    Always,
}

/// The turns of one model. A program that asks on after the last one has misunderstood something.
#[derive(Default)]
pub struct Script {
    turns: Vec<Turn>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("turns", &self.turns.len()).finish_non_exhaustive()
    }
}

impl Script {
    pub fn new() -> Script {
        Script::default()
    }

    /// Calls a tool, by the name that its server gave it, with arguments that may depend on what was answered before.
    #[must_use]
    pub fn call(
        self,
        tool: &'static str,
        arguments: impl Fn(&Story<'_>) -> anyhow::Result<Value> + Send + Sync + 'static,
    ) -> Script {
        self.then(Turn::Call { tool, arguments: Box::new(arguments), enough: None })
    }

    /// Calls a tool again and again until it answers what is waited for.
    #[must_use]
    pub fn call_until(
        self,
        tool: &'static str,
        arguments: impl Fn(&Story<'_>) -> anyhow::Result<Value> + Send + Sync + 'static,
        enough: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Script {
        self.then(Turn::Call { tool, arguments: Box::new(arguments), enough: Some(Box::new(enough)) })
    }

    /// Calls a tool with arguments that are not JSON, as models do now and then.
    #[must_use]
    pub fn call_broken(self, tool: &'static str, arguments: &'static str) -> Script {
        self.then(Turn::CallBroken { tool, arguments })
    }

    /// Says something and calls several tools at once.
    #[must_use]
    pub fn call_all(self, text: impl Into<String>, calls: impl IntoIterator<Item = (&'static str, Value)>) -> Script {
        self.then(Turn::CallAll { text: text.into(), calls: calls.into_iter().collect() })
    }

    /// Says something, which ends what the program was asked to do.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Script {
        self.say_slowly(text, Duration::ZERO)
    }

    /// Says something with a pause before each piece of it.
    #[must_use]
    pub fn say_slowly(self, text: impl Into<String>, pause: Duration) -> Script {
        self.then(Turn::Say { text: text.into(), pause })
    }

    /// Answers one request with an error; asked again, it goes on.
    #[must_use]
    pub fn fail(self, status: u16, message: &'static str) -> Script {
        self.once(Fault::Status { status, message, retry_after: None })
    }

    /// Answers one request with 429, and how many seconds nobody should ask; asked again, it goes on.
    #[must_use]
    pub fn limit(self, retry_after: u64) -> Script {
        let message = "too many requests";
        self.once(Fault::Status { status: 429, message, retry_after: Some(retry_after) })
    }

    /// Answers every request from here on with an error.
    #[must_use]
    pub fn fail_for_good(self, status: u16, message: &'static str) -> Script {
        let fault = Fault::Status { status, message, retry_after: None };
        self.then(Turn::Fault { fault, times: Times::Always })
    }

    /// Leaves one request without an answer; asked again, it goes on.
    #[must_use]
    pub fn hang(self) -> Script {
        self.once(Fault::Hang)
    }

    /// Begins to answer one request and then sends nothing more; asked again, it goes on.
    #[must_use]
    pub fn stall(self) -> Script {
        self.once(Fault::Stall)
    }

    /// Begins to answer one request and then ends the connection; asked again, it goes on.
    #[must_use]
    pub fn cut(self) -> Script {
        self.once(Fault::Cut)
    }

    fn once(self, fault: Fault) -> Script {
        self.then(Turn::Fault { fault, times: Times::Once })
    }

    fn then(mut self, turn: Turn) -> Script {
        self.turns.push(turn);
        self
    }
}

/// What the earlier turns of a script brought.
#[derive(Clone, Copy, Debug)]
pub struct Story<'a> {
    results: &'a [(&'static str, &'a ToolResult)],
}

impl Story<'_> {
    /// What a tool answered last.
    pub fn result(&self, tool: &str) -> anyhow::Result<Value> {
        let last = self.results.iter().rev().find(|(called, _)| *called == tool);
        Ok(last.with_context(|| format!("{tool} was not called before"))?.1.value())
    }

    /// One text of what a tool answered last, by its place as in `/tasks/0/id`.
    pub fn text(&self, tool: &str, place: &str) -> anyhow::Result<String> {
        let result = self.result(tool)?;
        let text = result.pointer(place).and_then(Value::as_str);
        Ok(text.with_context(|| format!("{tool} answered no text at {place}: {result}"))?.to_owned())
    }
}

/// The id of a call: which turn it is of, how often that was tried before, and which of its calls it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CallId {
    turn: usize,
    attempt: usize,
    part: usize,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call_{}_{}", self.turn, self.attempt)?;
        match self.part {
            0 => Ok(()),
            part => write!(f, "_{part}"),
        }
    }
}

impl FromStr for CallId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<CallId> {
        let numbers = text.strip_prefix("call_").map(|rest| rest.split('_').map(str::parse).collect());
        let numbers: Option<Result<Vec<usize>, _>> = numbers;
        match numbers.with_context(|| format!("the call {text} is of no script"))??.as_slice() {
            [turn, attempt] => Ok(CallId { turn: *turn, attempt: *attempt, part: 0 }),
            [turn, attempt, part] => Ok(CallId { turn: *turn, attempt: *attempt, part: *part }),
            _ => bail!("the call {text} is of no script"),
        }
    }
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Answer { answer: Answer, pause: Duration },
    Fault(Fault),
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Step {
        Step::Answer { answer, pause: Duration::ZERO }
    }
}

/// A script in the middle of its being played.
#[derive(Debug)]
pub(super) struct Playing {
    script: Script,
    /// The faults that have happened; each does once.
    spent: BTreeSet<usize>,
    /// The turn that was played last.
    reached: Option<usize>,
}

impl Playing {
    pub(super) fn new(script: Script) -> Playing {
        Playing { script, spent: BTreeSet::new(), reached: None }
    }

    /// Whether the last turn was played; otherwise where it stopped.
    pub(super) fn ended(&self) -> Result<(), String> {
        let all = self.script.turns.len();
        match self.reached {
            Some(turn) if turn + 1 == all => Ok(()),
            Some(turn) => Err(format!("the script stopped after turn {} of {all}, {}", turn + 1, self.name(turn))),
            None => Err("the script never began".to_owned()),
        }
    }

    fn name(&self, turn: usize) -> String {
        match self.script.turns.get(turn) {
            Some(Turn::Call { tool, .. } | Turn::CallBroken { tool, .. }) => format!("a call of {tool}"),
            Some(Turn::CallAll { calls, .. }) => format!("{} calls at once", calls.len()),
            Some(Turn::Say { text, .. }) => format!("saying {text:?}"),
            Some(Turn::Fault { fault, .. }) => format!("{fault:?}"),
            None => "its end".to_owned(),
        }
    }

    pub(super) fn next(&mut self, asked: &Asked) -> anyhow::Result<Step> {
        let results = self.placed(asked)?;
        let id = self.place(asked, results.last())?;
        let turn = self.script.turns.get(id.turn).context("asked on after the last turn of the script")?;
        let call =
            |id: CallId, tool: &str, arguments: String| anyhow::Ok(Call { id, tool: offered(asked, tool)?, arguments });
        let calls = |calls: Vec<Call>| Answer { text: None, calls };
        let step = match turn {
            Turn::Call { tool, arguments, .. } => {
                let arguments = arguments(&Story { results: &self.named(&results) })?;
                calls(vec![call(id, tool, arguments.to_string())?]).into()
            }
            Turn::CallBroken { tool, arguments } => calls(vec![call(id, tool, (*arguments).to_owned())?]).into(),
            Turn::CallAll { text, calls } => {
                let parts = calls.iter().enumerate();
                let calls =
                    parts.map(|(part, (tool, arguments))| call(CallId { part, ..id }, tool, arguments.to_string()));
                Answer { text: Some(text.clone()), calls: calls.collect::<anyhow::Result<_>>()? }.into()
            }
            Turn::Say { text, pause } => Step::Answer { answer: Answer::text(text), pause: *pause },
            Turn::Fault { fault, .. } => Step::Fault(*fault),
        };
        if matches!(turn, Turn::Fault { times: Times::Once, .. }) {
            self.spent.insert(id.turn);
        }
        self.reached = Some(id.turn);
        Ok(step)
    }

    /// The results with the calls that they are of. One that does not name its call follows the one before it.
    fn placed<'a>(&self, asked: &'a Asked) -> anyhow::Result<Vec<(CallId, &'a ToolResult)>> {
        let mut placed: Vec<(CallId, &ToolResult)> = Vec::new();
        for result in &asked.results {
            let id = match (result.call, placed.last()) {
                (Some(id), _) => id,
                (None, Some((last, before))) => self.call_after(*last, before)?,
                (None, None) => self.call_from(0)?,
            };
            placed.push((id, result));
        }
        Ok(placed)
    }

    fn call_after(&self, last: CallId, result: &ToolResult) -> anyhow::Result<CallId> {
        match self.script.turns.get(last.turn) {
            Some(Turn::CallAll { calls, .. }) if last.part + 1 < calls.len() => {
                Ok(CallId { part: last.part + 1, ..last })
            }
            _ if self.is_enough(last, result)? => self.call_from(last.turn + 1),
            _ => Ok(CallId { attempt: last.attempt + 1, ..last }),
        }
    }

    fn call_from(&self, turn: usize) -> anyhow::Result<CallId> {
        let is_call = |turn: &Turn| !matches!(turn, Turn::Say { .. } | Turn::Fault { .. });
        let calls = self.script.turns.iter().enumerate().skip(turn);
        let next = calls.filter(|(_, turn)| is_call(turn)).map(|(turn, _)| turn).next();
        Ok(CallId { turn: next.context("more results than the script has calls")?, ..CallId::default() })
    }

    /// The turn that a conversation has come to.
    fn place(&self, asked: &Asked, last: Option<&(CallId, &ToolResult)>) -> anyhow::Result<CallId> {
        let mut id = match last {
            None => CallId::default(),
            Some((last, result)) if self.is_enough(*last, result)? => {
                CallId { turn: last.turn + 1, ..CallId::default() }
            }
            Some((last, _)) => CallId { attempt: last.attempt + 1, ..*last },
        };
        while self.is_over(id.turn, asked) {
            id.turn += 1;
        }
        Ok(id)
    }

    fn is_enough(&self, call: CallId, result: &ToolResult) -> anyhow::Result<bool> {
        match self.script.turns.get(call.turn) {
            Some(Turn::Call { enough, .. }) => Ok(enough.as_ref().is_none_or(|enough| enough(&result.value()))),
            Some(Turn::CallBroken { .. } | Turn::CallAll { .. }) => Ok(true),
            _ => bail!("a result of turn {}, which is no call", call.turn),
        }
    }

    /// Whether something that is no call has happened already.
    fn is_over(&self, turn: usize, asked: &Asked) -> bool {
        match self.script.turns.get(turn) {
            Some(Turn::Say { text, .. }) => asked.said.contains(text),
            Some(Turn::Fault { .. }) => self.spent.contains(&turn),
            Some(Turn::Call { .. } | Turn::CallBroken { .. } | Turn::CallAll { .. }) | None => false,
        }
    }

    /// The results by the tools that were called.
    fn named<'a>(&self, results: &[(CallId, &'a ToolResult)]) -> Vec<(&'static str, &'a ToolResult)> {
        let tool = |id: &CallId| match self.script.turns.get(id.turn) {
            Some(Turn::Call { tool, .. } | Turn::CallBroken { tool, .. }) => Some(*tool),
            Some(Turn::CallAll { calls, .. }) => calls.get(id.part).map(|(tool, _)| *tool),
            _ => None,
        };
        results.iter().filter_map(|(id, result)| Some((tool(id)?, *result))).collect()
    }
}

fn offered(asked: &Asked, tool: &str) -> anyhow::Result<Offered> {
    let found = asked.tools.iter().find(|offered| offered.is(tool));
    found.cloned().with_context(|| {
        let names: Vec<_> = asked.tools.iter().map(|offered| offered.name.as_str()).collect();
        format!("{tool} is not among the tools that are offered: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(results: &[(&str, Value)], said: &[&str]) -> Asked {
        let results =
            results.iter().map(|(id, value)| ToolResult::read(Some(&json!(id)), &json!(value.to_string())).unwrap());
        let tool = |name: &str| Offered { namespace: None, name: format!("mcp__rookery__{name}") };
        Asked {
            system: String::new(),
            model: String::new(),
            tools: vec![tool("next"), tool("claim")],
            results: results.collect(),
            said: said.iter().map(ToString::to_string).collect(),
            body: Value::Null,
        }
    }

    fn called(step: Step) -> (String, String, Value) {
        match step {
            Step::Answer { answer, .. } if answer.calls.len() == 1 => {
                let call = &answer.calls[0];
                (call.id.to_string(), call.tool.name.clone(), call.input())
            }
            other => panic!("{other:?} is no call"),
        }
    }

    #[test]
    fn a_call_uses_what_was_answered_before() {
        let mut playing = Playing::new(
            Script::new()
                .call_until("next", |_| Ok(json!({})), |answer| answer["id"].is_string())
                .call("claim", |story| Ok(json!({"task": story.text("next", "/id")?})))
                .say("done"),
        );
        let first = called(playing.next(&asked(&[], &[])).unwrap());
        assert_eq!(first, ("call_0_0".into(), "mcp__rookery__next".into(), json!({})));
        let again = called(playing.next(&asked(&[("call_0_0", json!({}))], &[])).unwrap());
        assert_eq!(again.0, "call_0_1");
        let results = [("call_0_0", json!({})), ("call_0_1", json!({"id": "t"}))];
        // Asked twice, it says the same twice.
        for _ in 0..2 {
            let claim = called(playing.next(&asked(&results, &[])).unwrap());
            assert_eq!(claim, ("call_1_0".into(), "mcp__rookery__claim".into(), json!({"task": "t"})));
        }
        assert!(playing.ended().unwrap_err().contains("turn 2 of 3, a call of claim"));
        let results = [results.as_slice(), &[("call_1_0", json!({}))]].concat();
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Answer::text("done").into());
        assert_eq!(playing.ended(), Ok(()));
        assert!(playing.next(&asked(&results, &["done"])).is_err());
    }

    #[test]
    fn a_fault_happens_once_in_its_place() {
        let mut playing =
            Playing::new(Script::new().fail(500, "sorry").call("next", |_| Ok(json!({}))).hang().say("bye"));
        let sorry = Fault::Status { status: 500, message: "sorry", retry_after: None };
        assert_eq!(playing.next(&asked(&[], &[])).unwrap(), Step::Fault(sorry));
        assert_eq!(called(playing.next(&asked(&[], &[])).unwrap()).0, "call_1_0");
        let results = [("call_1_0", json!({}))];
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Step::Fault(Fault::Hang));
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Answer::text("bye").into());
    }

    #[test]
    fn what_cannot_go_on_says_why() {
        let mut playing = Playing::new(Script::new().call("fly", |_| Ok(json!({}))));
        let error = playing.next(&asked(&[], &[])).unwrap_err().to_string();
        assert!(error.contains("fly is not among the tools") && error.contains("mcp__rookery__claim"), "{error}");
        let mut playing = Playing::new(Script::new().call("claim", |story| Ok(json!(story.text("next", "/id")?))));
        assert!(playing.next(&asked(&[], &[])).unwrap_err().to_string().contains("next was not called before"));
    }

    #[test]
    fn a_fault_for_good_stays() {
        let mut playing = Playing::new(Script::new().fail_for_good(401, "who are you?").say("bye"));
        for _ in 0..3 {
            assert!(matches!(playing.next(&asked(&[], &[])).unwrap(), Step::Fault(Fault::Status { status: 401, .. })));
        }
    }

    #[test]
    fn several_calls_are_told_apart_also_where_results_name_no_call() {
        let script = || {
            let both = [("next", json!({})), ("claim", json!({"a": 1}))];
            Script::new()
                .call_all("both", both)
                .call("claim", |story| Ok(json!(story.text("claim", "/id")?)))
                .call_broken("next", "{")
        };
        let mut playing = Playing::new(script());
        let Step::Answer { answer, .. } = playing.next(&asked(&[], &[])).unwrap() else { panic!() };
        let ids: Vec<String> = answer.calls.iter().map(|call| call.id.to_string()).collect();
        assert_eq!((answer.text.as_deref(), ids.join(" ").as_str()), (Some("both"), "call_0_0 call_0_0_1"));
        let mut request =
            asked(&[("call_0_0", json!({})), ("call_0_0_1", json!({"id": "t"})), ("call_1_0", json!({}))], &["both"]);
        assert_eq!(called(playing.next(&request).unwrap()).2, json!("{"));
        request.results.iter_mut().for_each(|result| result.call = None);
        assert_eq!(called(Playing::new(script()).next(&request).unwrap()).0, "call_2_0");
        request.results.pop();
        assert_eq!(called(Playing::new(script()).next(&request).unwrap()).2, json!("t"));
    }
}
