//! What one agent's model says, turn by turn.
//!
//! Which turn comes next is read off the conversation that the program sends: the id of a call names its turn. So a
//! request that is repeated gets the same answer, and nothing has to be kept but which faults have happened.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use serde_json::Value;

use super::talk::{Answer, Asked, Offered, ToolResult};

type Arguments = Box<dyn Fn(&Story<'_>) -> anyhow::Result<Value> + Send + Sync>;
type Enough = Box<dyn Fn(&Value) -> bool + Send + Sync>;

enum Turn {
    Call { tool: &'static str, arguments: Arguments, enough: Option<Enough> },
    Say(String),
    Fail { status: u16, message: &'static str },
    Hang,
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

    /// Says something, which ends what the program was asked to do.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Script {
        self.then(Turn::Say(text.into()))
    }

    /// Answers one request with an error; asked again, it goes on.
    #[must_use]
    pub fn fail(self, status: u16, message: &'static str) -> Script {
        self.then(Turn::Fail { status, message })
    }

    /// Leaves one request without an answer; asked again, it goes on.
    #[must_use]
    pub fn hang(self) -> Script {
        self.then(Turn::Hang)
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

/// The id of a call: which turn it is of, and how often that was tried before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallId {
    turn: usize,
    attempt: usize,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call_{}_{}", self.turn, self.attempt)
    }
}

impl FromStr for CallId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<CallId> {
        let parts = text.strip_prefix("call_").and_then(|rest| rest.split_once('_'));
        let (turn, attempt) = parts.with_context(|| format!("the call {text} is of no script"))?;
        Ok(CallId { turn: turn.parse()?, attempt: attempt.parse()? })
    }
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Answer(Answer),
    Fail { status: u16, message: &'static str },
    Hang,
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
            Some(Turn::Call { tool, .. }) => format!("a call of {tool}"),
            Some(Turn::Say(text)) => format!("saying {text:?}"),
            Some(Turn::Fail { status, .. }) => format!("failing with {status}"),
            Some(Turn::Hang) => "hanging".to_owned(),
            None => "its end".to_owned(),
        }
    }

    pub(super) fn next(&mut self, asked: &Asked) -> anyhow::Result<Step> {
        let id = self.place(asked)?;
        let turn = self.script.turns.get(id.turn).context("asked on after the last turn of the script")?;
        let step = match turn {
            Turn::Call { tool, arguments, .. } => {
                let arguments = arguments(&Story { results: &self.results(asked) })?;
                let tool = offered(asked, tool)?;
                Step::Answer(Answer::Call { id, tool, arguments })
            }
            Turn::Say(text) => Step::Answer(Answer::Text(text.clone())),
            Turn::Fail { status, message } => Step::Fail { status: *status, message },
            Turn::Hang => Step::Hang,
        };
        if !matches!(step, Step::Answer(_)) {
            self.spent.insert(id.turn);
        }
        self.reached = Some(id.turn);
        Ok(step)
    }

    /// The turn that a conversation has come to.
    fn place(&self, asked: &Asked) -> anyhow::Result<CallId> {
        let mut id = match asked.results.last() {
            None => CallId { turn: 0, attempt: 0 },
            Some(last) if self.is_enough(last)? => CallId { turn: last.call.turn + 1, attempt: 0 },
            Some(last) => CallId { attempt: last.call.attempt + 1, ..last.call },
        };
        while self.is_over(id.turn, asked) {
            id.turn += 1;
        }
        Ok(id)
    }

    fn is_enough(&self, result: &ToolResult) -> anyhow::Result<bool> {
        match self.script.turns.get(result.call.turn) {
            Some(Turn::Call { enough, .. }) => Ok(enough.as_ref().is_none_or(|enough| enough(&result.value()))),
            _ => bail!("a result of turn {}, which is no call", result.call.turn),
        }
    }

    /// Whether something that is no call has happened already.
    fn is_over(&self, turn: usize, asked: &Asked) -> bool {
        match self.script.turns.get(turn) {
            Some(Turn::Say(text)) => asked.said.contains(text),
            Some(Turn::Fail { .. } | Turn::Hang) => self.spent.contains(&turn),
            Some(Turn::Call { .. }) | None => false,
        }
    }

    fn results<'a>(&self, asked: &'a Asked) -> Vec<(&'static str, &'a ToolResult)> {
        let named = asked.results.iter().filter_map(|result| match self.script.turns.get(result.call.turn) {
            Some(Turn::Call { tool, .. }) => Some((*tool, result)),
            _ => None,
        });
        named.collect()
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
            results.iter().map(|(id, value)| ToolResult::read(&json!(id), &json!(value.to_string())).unwrap());
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
            Step::Answer(Answer::Call { id, tool, arguments }) => (id.to_string(), tool.name, arguments),
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
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Step::Answer(Answer::Text("done".into())));
        assert_eq!(playing.ended(), Ok(()));
        assert!(playing.next(&asked(&results, &["done"])).is_err());
    }

    #[test]
    fn a_fault_happens_once_in_its_place() {
        let mut playing =
            Playing::new(Script::new().fail(500, "sorry").call("next", |_| Ok(json!({}))).hang().say("bye"));
        assert_eq!(playing.next(&asked(&[], &[])).unwrap(), Step::Fail { status: 500, message: "sorry" });
        assert_eq!(called(playing.next(&asked(&[], &[])).unwrap()).0, "call_1_0");
        let results = [("call_1_0", json!({}))];
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Step::Hang);
        assert_eq!(playing.next(&asked(&results, &[])).unwrap(), Step::Answer(Answer::Text("bye".into())));
    }

    #[test]
    fn what_cannot_go_on_says_why() {
        let mut playing = Playing::new(Script::new().call("fly", |_| Ok(json!({}))));
        let error = playing.next(&asked(&[], &[])).unwrap_err().to_string();
        assert!(error.contains("fly is not among the tools") && error.contains("mcp__rookery__claim"), "{error}");
        let mut playing = Playing::new(Script::new().call("claim", |story| Ok(json!(story.text("next", "/id")?))));
        assert!(playing.next(&asked(&[], &[])).unwrap_err().to_string().contains("next was not called before"));
    }
}
