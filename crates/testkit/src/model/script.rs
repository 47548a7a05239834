//! Scripts: the turns of one agent's model.
//!
//! The conversation in a request determines the next turn, since the id of a call contains its turn. So a repeated request
//! gets the same answer, and the only state is which faults have occurred.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::exchange::{ModelAnswer, ModelRequest, OfferedTool, ToolCall, ToolResult};

type Arguments = Box<dyn Fn(&ToolHistory<'_>) -> anyhow::Result<Value> + Send + Sync>;
type IsEnough = Box<dyn Fn(&Value) -> bool + Send + Sync>;

enum Turn {
    Call {
        tool: &'static str,
        arguments: Arguments,
        enough: Option<IsEnough>,
    },
    /// A call with arguments that are not JSON.
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

/// A fault in place of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Status {
        status: u16,
        message: &'static str,
        retry_after: Option<u64>,
    },
    /// No answer.
    Hang,
    /// An answer that begins and never continues.
    Stall,
    /// An answer that begins and ends with a closed connection.
    Cut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    Always,
}

/// The turns of one model. A request after the last turn is an error.
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

    /// Calls a tool by its server's name for it. The arguments may depend on earlier results.
    #[must_use]
    pub fn call(
        self,
        tool: &'static str,
        arguments: impl Fn(&ToolHistory<'_>) -> anyhow::Result<Value> + Send + Sync + 'static,
    ) -> Script {
        self.then(Turn::Call { tool, arguments: Box::new(arguments), enough: None })
    }

    /// Calls a tool until its result is enough.
    #[must_use]
    pub fn call_until(
        self,
        tool: &'static str,
        arguments: impl Fn(&ToolHistory<'_>) -> anyhow::Result<Value> + Send + Sync + 'static,
        enough: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Script {
        self.then(Turn::Call { tool, arguments: Box::new(arguments), enough: Some(Box::new(enough)) })
    }

    /// Calls a tool with arguments that are not JSON, as models sometimes do.
    #[must_use]
    pub fn call_broken(self, tool: &'static str, arguments: &'static str) -> Script {
        self.then(Turn::CallBroken { tool, arguments })
    }

    /// Says a text and calls several tools at once.
    #[must_use]
    pub fn call_all(self, text: impl Into<String>, calls: impl IntoIterator<Item = (&'static str, Value)>) -> Script {
        self.then(Turn::CallAll { text: text.into(), calls: calls.into_iter().collect() })
    }

    /// Says a text, which ends the program's turn.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Script {
        self.say_slowly(text, Duration::ZERO)
    }

    /// Says a text with a pause before each piece.
    #[must_use]
    pub fn say_slowly(self, text: impl Into<String>, pause: Duration) -> Script {
        self.then(Turn::Say { text: text.into(), pause })
    }

    /// Answers one request with an error; the retry continues the script.
    #[must_use]
    pub fn fail(self, status: u16, message: &'static str) -> Script {
        self.once(Fault::Status { status, message, retry_after: None })
    }

    /// Answers one request with 429 and `Retry-After`; the retry continues the script.
    #[must_use]
    pub fn limit(self, retry_after: u64) -> Script {
        let message = "too many requests";
        self.once(Fault::Status { status: 429, message, retry_after: Some(retry_after) })
    }

    /// Answers every request from this turn on with an error.
    #[must_use]
    pub fn fail_for_good(self, status: u16, message: &'static str) -> Script {
        let fault = Fault::Status { status, message, retry_after: None };
        self.then(Turn::Fault { fault, times: Times::Always })
    }

    /// Leaves one request without an answer; the retry continues the script.
    #[must_use]
    pub fn hang(self) -> Script {
        self.once(Fault::Hang)
    }

    /// Begins to answer one request and then sends nothing more; the retry continues the script.
    #[must_use]
    pub fn stall(self) -> Script {
        self.once(Fault::Stall)
    }

    /// Begins to answer one request and then closes the connection; the retry continues the script.
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

/// The tool results of the earlier turns of a script.
#[derive(Clone, Copy, Debug)]
pub struct ToolHistory<'a> {
    results: &'a [(&'static str, &'a ToolResult)],
}

impl ToolHistory<'_> {
    /// The last result of a tool.
    pub fn result(&self, tool: &str) -> anyhow::Result<Value> {
        let last = self.results.iter().rev().find(|(name, _)| *name == tool);
        Ok(last.with_context(|| format!("{tool} was not called before"))?.1.value())
    }

    /// A text in the last result of a tool, by a JSON pointer such as `/tasks/0/id`.
    pub fn text(&self, tool: &str, pointer: &str) -> anyhow::Result<String> {
        let result = self.result(tool)?;
        let text = result.pointer(pointer).and_then(Value::as_str);
        Ok(text.with_context(|| format!("the result of {tool} has no text at {pointer}: {result}"))?.to_owned())
    }
}

/// The id of a call: its turn, the number of earlier attempts of the turn, and its index among the calls of the turn.
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
        match numbers.with_context(|| format!("{text} is not the id of a scripted call"))??.as_slice() {
            [turn, attempt] => Ok(CallId { turn: *turn, attempt: *attempt, part: 0 }),
            [turn, attempt, part] => Ok(CallId { turn: *turn, attempt: *attempt, part: *part }),
            _ => bail!("{text} is not the id of a scripted call"),
        }
    }
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Answer { answer: ModelAnswer, pause: Duration },
    Fault(Fault),
}

impl From<ModelAnswer> for Step {
    fn from(answer: ModelAnswer) -> Step {
        Step::Answer { answer, pause: Duration::ZERO }
    }
}

/// The progress of a script.
#[derive(Debug)]
pub(super) struct Playback {
    script: Script,
    /// The turns of the one-time faults that have occurred.
    spent: BTreeSet<usize>,
    /// The last turn that was answered.
    last_turn: Option<usize>,
}

impl Playback {
    pub(super) fn new(script: Script) -> Playback {
        Playback { script, spent: BTreeSet::new(), last_turn: None }
    }

    /// Fails unless the last turn was answered. The error says where the script stopped.
    pub(super) fn check_finished(&self) -> Result<(), String> {
        let all = self.script.turns.len();
        match self.last_turn {
            Some(turn) if turn + 1 == all => Ok(()),
            Some(turn) => Err(format!("the script stopped after turn {} of {all}, {}", turn + 1, self.describe(turn))),
            None => Err("the script never began".to_owned()),
        }
    }

    fn describe(&self, turn: usize) -> String {
        match self.script.turns.get(turn) {
            Some(Turn::Call { tool, .. } | Turn::CallBroken { tool, .. }) => format!("a call of {tool}"),
            Some(Turn::CallAll { calls, .. }) => format!("{} calls at once", calls.len()),
            Some(Turn::Say { text, .. }) => format!("saying {text:?}"),
            Some(Turn::Fault { fault, .. }) => format!("{fault:?}"),
            None => "the end".to_owned(),
        }
    }

    /// Decides the answer to a request.
    pub(super) fn next(&mut self, request: &ModelRequest) -> anyhow::Result<Step> {
        let results = self.match_results(request)?;
        let id = self.next_call(request, results.last())?;
        let turn = self.script.turns.get(id.turn).context("the script has no turn for this request")?;
        let call = |id: CallId, tool: &str, arguments: String| {
            anyhow::Ok(ToolCall { id, tool: find_tool(request, tool)?, arguments })
        };
        let calls = |calls: Vec<ToolCall>| ModelAnswer { text: None, calls };
        let step = match turn {
            Turn::Call { tool, arguments, .. } => {
                let arguments = arguments(&ToolHistory { results: &self.results_by_tool(&results) })?;
                calls(vec![call(id, tool, arguments.to_string())?]).into()
            }
            Turn::CallBroken { tool, arguments } => calls(vec![call(id, tool, (*arguments).to_owned())?]).into(),
            Turn::CallAll { text, calls } => {
                let parts = calls.iter().enumerate();
                let calls =
                    parts.map(|(part, (tool, arguments))| call(CallId { part, ..id }, tool, arguments.to_string()));
                ModelAnswer { text: Some(text.clone()), calls: calls.collect::<anyhow::Result<_>>()? }.into()
            }
            Turn::Say { text, pause } => Step::Answer { answer: ModelAnswer::text(text), pause: *pause },
            Turn::Fault { fault, .. } => Step::Fault(*fault),
        };
        if matches!(turn, Turn::Fault { times: Times::Once, .. }) {
            self.spent.insert(id.turn);
        }
        self.last_turn = Some(id.turn);
        Ok(step)
    }

    /// Pairs each result with its call. A result without the id of its call belongs to the call after the previous one.
    fn match_results<'a>(&self, request: &'a ModelRequest) -> anyhow::Result<Vec<(CallId, &'a ToolResult)>> {
        let mut matched: Vec<(CallId, &ToolResult)> = Vec::new();
        for result in &request.results {
            let id = match (result.call, matched.last()) {
                (Some(id), _) => id,
                (None, Some((last, before))) => self.call_after(*last, before)?,
                (None, None) => self.first_call_from(0)?,
            };
            matched.push((id, result));
        }
        Ok(matched)
    }

    fn call_after(&self, last: CallId, result: &ToolResult) -> anyhow::Result<CallId> {
        match self.script.turns.get(last.turn) {
            Some(Turn::CallAll { calls, .. }) if last.part + 1 < calls.len() => {
                Ok(CallId { part: last.part + 1, ..last })
            }
            _ if self.is_enough(last, result)? => self.first_call_from(last.turn + 1),
            _ => Ok(CallId { attempt: last.attempt + 1, ..last }),
        }
    }

    fn first_call_from(&self, turn: usize) -> anyhow::Result<CallId> {
        let is_call = |turn: &Turn| !matches!(turn, Turn::Say { .. } | Turn::Fault { .. });
        let calls = self.script.turns.iter().enumerate().skip(turn);
        let next = calls.filter(|(_, turn)| is_call(turn)).map(|(turn, _)| turn).next();
        Ok(CallId { turn: next.context("more results than the script has calls")?, ..CallId::default() })
    }

    /// The turn and attempt that follow the conversation of a request.
    fn next_call(&self, request: &ModelRequest, last: Option<&(CallId, &ToolResult)>) -> anyhow::Result<CallId> {
        let mut id = match last {
            None => CallId::default(),
            Some((last, result)) if self.is_enough(*last, result)? => {
                CallId { turn: last.turn + 1, ..CallId::default() }
            }
            Some((last, _)) => CallId { attempt: last.attempt + 1, ..*last },
        };
        while self.is_done(id.turn, request) {
            id.turn += 1;
        }
        Ok(id)
    }

    fn is_enough(&self, call: CallId, result: &ToolResult) -> anyhow::Result<bool> {
        match self.script.turns.get(call.turn) {
            Some(Turn::Call { enough, .. }) => Ok(enough.as_ref().is_none_or(|enough| enough(&result.value()))),
            Some(Turn::CallBroken { .. } | Turn::CallAll { .. }) => Ok(true),
            _ => bail!("turn {} has a result but is not a call", call.turn),
        }
    }

    /// Whether a turn that is not a call was answered already.
    fn is_done(&self, turn: usize, request: &ModelRequest) -> bool {
        match self.script.turns.get(turn) {
            Some(Turn::Say { text, .. }) => request.said.contains(text),
            Some(Turn::Fault { .. }) => self.spent.contains(&turn),
            Some(Turn::Call { .. } | Turn::CallBroken { .. } | Turn::CallAll { .. }) | None => false,
        }
    }

    /// Pairs each result with the name of its tool.
    fn results_by_tool<'a>(&self, results: &[(CallId, &'a ToolResult)]) -> Vec<(&'static str, &'a ToolResult)> {
        let tool = |id: &CallId| match self.script.turns.get(id.turn) {
            Some(Turn::Call { tool, .. } | Turn::CallBroken { tool, .. }) => Some(*tool),
            Some(Turn::CallAll { calls, .. }) => calls.get(id.part).map(|(tool, _)| *tool),
            _ => None,
        };
        results.iter().filter_map(|(id, result)| Some((tool(id)?, *result))).collect()
    }
}

fn find_tool(request: &ModelRequest, tool: &str) -> anyhow::Result<OfferedTool> {
    let found = request.tools.iter().find(|offered| offered.is(tool));
    found.cloned().with_context(|| {
        let names: Vec<_> = request.tools.iter().map(|offered| offered.name.as_str()).collect();
        format!("{tool} is not among the offered tools: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(results: &[(&str, Value)], said: &[&str]) -> ModelRequest {
        let results =
            results.iter().map(|(id, value)| ToolResult::read(Some(&json!(id)), &json!(value.to_string())).unwrap());
        let tool = |name: &str| OfferedTool { namespace: None, name: format!("mcp__rookery__{name}") };
        ModelRequest {
            system: String::new(),
            model: String::new(),
            tools: vec![tool("next"), tool("claim")],
            results: results.collect(),
            said: said.iter().map(ToString::to_string).collect(),
            body: Value::Null,
        }
    }

    fn call_of(step: Step) -> (String, String, Value) {
        match step {
            Step::Answer { answer, .. } if answer.calls.len() == 1 => {
                let call = &answer.calls[0];
                (call.id.to_string(), call.tool.name.clone(), call.input())
            }
            other => panic!("{other:?} is not a call"),
        }
    }

    #[test]
    fn call_arguments_use_earlier_results() {
        let mut playback = Playback::new(
            Script::new()
                .call_until("next", |_| Ok(json!({})), |answer| answer["id"].is_string())
                .call("claim", |story| Ok(json!({"task": story.text("next", "/id")?})))
                .say("done"),
        );
        let first = call_of(playback.next(&request(&[], &[])).unwrap());
        assert_eq!(first, ("call_0_0".into(), "mcp__rookery__next".into(), json!({})));
        let again = call_of(playback.next(&request(&[("call_0_0", json!({}))], &[])).unwrap());
        assert_eq!(again.0, "call_0_1");
        let results = [("call_0_0", json!({})), ("call_0_1", json!({"id": "t"}))];
        // A repeated request gets the same answer.
        for _ in 0..2 {
            let claim = call_of(playback.next(&request(&results, &[])).unwrap());
            assert_eq!(claim, ("call_1_0".into(), "mcp__rookery__claim".into(), json!({"task": "t"})));
        }
        assert!(playback.check_finished().unwrap_err().contains("turn 2 of 3, a call of claim"));
        let results = [results.as_slice(), &[("call_1_0", json!({}))]].concat();
        assert_eq!(playback.next(&request(&results, &[])).unwrap(), ModelAnswer::text("done").into());
        assert_eq!(playback.check_finished(), Ok(()));
        assert!(playback.next(&request(&results, &["done"])).is_err());
    }

    #[test]
    fn fault_occurs_once_and_retry_continues() {
        let mut playback =
            Playback::new(Script::new().fail(500, "sorry").call("next", |_| Ok(json!({}))).hang().say("bye"));
        let sorry = Fault::Status { status: 500, message: "sorry", retry_after: None };
        assert_eq!(playback.next(&request(&[], &[])).unwrap(), Step::Fault(sorry));
        assert_eq!(call_of(playback.next(&request(&[], &[])).unwrap()).0, "call_1_0");
        let results = [("call_1_0", json!({}))];
        assert_eq!(playback.next(&request(&results, &[])).unwrap(), Step::Fault(Fault::Hang));
        assert_eq!(playback.next(&request(&results, &[])).unwrap(), ModelAnswer::text("bye").into());
    }

    #[test]
    fn missing_tool_or_result_is_reported() {
        let mut playback = Playback::new(Script::new().call("fly", |_| Ok(json!({}))));
        let error = playback.next(&request(&[], &[])).unwrap_err().to_string();
        assert!(
            error.contains("fly is not among the offered tools") && error.contains("mcp__rookery__claim"),
            "{error}"
        );
        let mut playback = Playback::new(Script::new().call("claim", |story| Ok(json!(story.text("next", "/id")?))));
        assert!(playback.next(&request(&[], &[])).unwrap_err().to_string().contains("next was not called before"));
    }

    #[test]
    fn permanent_fault_repeats() {
        let mut playback = Playback::new(Script::new().fail_for_good(401, "who are you?").say("bye"));
        for _ in 0..3 {
            assert!(matches!(
                playback.next(&request(&[], &[])).unwrap(),
                Step::Fault(Fault::Status { status: 401, .. })
            ));
        }
    }

    #[test]
    fn parallel_calls_are_matched_without_call_ids() {
        let script = || {
            let both = [("next", json!({})), ("claim", json!({"a": 1}))];
            Script::new()
                .call_all("both", both)
                .call("claim", |story| Ok(json!(story.text("claim", "/id")?)))
                .call_broken("next", "{")
        };
        let mut playback = Playback::new(script());
        let Step::Answer { answer, .. } = playback.next(&request(&[], &[])).unwrap() else { panic!() };
        let ids: Vec<String> = answer.calls.iter().map(|call| call.id.to_string()).collect();
        assert_eq!((answer.text.as_deref(), ids.join(" ").as_str()), (Some("both"), "call_0_0 call_0_0_1"));
        let mut later =
            request(&[("call_0_0", json!({})), ("call_0_0_1", json!({"id": "t"})), ("call_1_0", json!({}))], &["both"]);
        assert_eq!(call_of(playback.next(&later).unwrap()).2, json!("{"));
        later.results.iter_mut().for_each(|result| result.call = None);
        assert_eq!(call_of(Playback::new(script()).next(&later).unwrap()).0, "call_2_0");
        later.results.pop();
        assert_eq!(call_of(Playback::new(script()).next(&later).unwrap()).2, json!("t"));
    }
}
