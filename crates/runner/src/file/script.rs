//! The script of a mock agent: its actions, turn by turn. It needs no model and no network, and always does the same.
//!
//! A script is a list of turns. A turn is one action, or several under `do`. Every time the agent is woken, including retries
//! after a failure, it takes the first turn that is not used up and whose `when` matches.

use std::time::Duration;

use super::cursor::{Argument, Field, FileReader, RecordKeys};
use super::fault::{FileFault, InFile, SourceLocation};
use super::near::nearest;
use super::setup;
use super::shape::{Record, Shape, ShapeKey, optional_key, required_key};
use super::template::TextTemplate;

/// The largest accepted number of repetitions.
const MAX_TIMES: u64 = 1_000_000;

pub(super) const SHAPE: Shape = Shape::Any(&[Shape::List(&TURN_SHAPE), Shape::Record(&RECORD)]);

const TURN_SHAPE: Shape = Shape::Any(&[BARE_ACTIONS, Shape::Record(&TURN)]);
/// Actions without arguments.
const BARE_ACTIONS: Shape = Shape::Choice(&["pass", "crash", "hang"]);

const RECORD: Record = Record {
    name: "script",
    about: "The turns of a mock agent, and its behaviour after the last one.",
    keys: &[
        required_key("turns", Shape::List(&TURN_SHAPE), "Its actions each time it is woken"),
        optional_key("then", Shape::Choice(&["pass", "repeat", "fail"]), "After the last turn; pass if absent"),
    ],
};

const SAY: ShapeKey = optional_key("say", Shape::Text, "Its last output, posted for it if it sent no message itself");
const SEND: ShapeKey = optional_key(
    "send",
    Shape::Any(&[Shape::Text, Shape::Record(&MESSAGE)]),
    "A message in the channel, @mentions as usual",
);
const CALL: ShapeKey = optional_key("call", Shape::Text, "A tool to call");
const WITH: ShapeKey = optional_key("with", Shape::Anything, "The arguments of `call`");
const AS: ShapeKey =
    optional_key("as", Shape::Form(setup::NAME), "The variable for the result of `call`: ${{ got.NAME.field }}");
const MAY_FAIL: ShapeKey =
    optional_key("may_fail", Shape::Flag, "Whether the turn continues if the tool fails; false if absent");
const WRITE: ShapeKey = optional_key(
    "write",
    Shape::Any(&[Shape::Text, Shape::Record(&DOCUMENT)]),
    "Replaces the entry document, or another one",
);
const APPEND: ShapeKey = optional_key(
    "append",
    Shape::Any(&[Shape::Text, Shape::Record(&DOCUMENT)]),
    "Adds to the entry document, or another one",
);
const SAVE: ShapeKey = optional_key("save", Shape::Record(&SAVED), "Writes a file in the agent's folder");
const WAIT: ShapeKey = optional_key("wait", Shape::Duration, "Waits this long");
const PRINT: ShapeKey = optional_key(
    "print",
    Shape::Any(&[Shape::Text, Shape::Record(&PRINTED)]),
    "A line of output that is not an answer",
);
const SPEND: ShapeKey = optional_key("spend", Shape::Record(&SPENT), "Tokens and cost to report for this turn");
const FAIL: ShapeKey = optional_key("fail", Shape::Text, "Ends the turn as failed, with this reason");
const EXIT: ShapeKey = optional_key("exit", Shape::Count(0, 255), "Exits with this code and without an answer");
const CRASH: ShapeKey = optional_key("crash", Shape::Only(true), "Crashes during the turn");
const HANG: ShapeKey = optional_key(
    "hang",
    Shape::Any(&[Shape::Only(true), Shape::Choice(&["stubborn"])]),
    "Never answers; stubborn: also ignores requests to end",
);
const PASS: ShapeKey = optional_key("pass", Shape::Only(true), "Does nothing and succeeds");

const ACTION: Record = Record {
    name: "action",
    about: "One action of a mock agent.",
    keys: &[
        SAY, SEND, CALL, WITH, AS, MAY_FAIL, WRITE, APPEND, SAVE, WAIT, PRINT, SPEND, FAIL, EXIT, CRASH, HANG, PASS,
    ],
};

const TURN: Record = Record {
    name: "turn",
    about: "The actions of a mock agent in one turn: one action, or several under `do`.",
    keys: &[
        optional_key(
            "when",
            Shape::Any(&[Shape::Text, Shape::Record(&CONDITION)]),
            "Only if a new message contains this",
        ),
        optional_key(
            "times",
            Shape::Any(&[Shape::Count(1, MAX_TIMES), Shape::Choice(&["always"])]),
            "Number of repetitions; 1 if absent",
        ),
        optional_key(
            "do",
            Shape::List(&Shape::Any(&[BARE_ACTIONS, Shape::Record(&ACTION)])),
            "Several actions, in this order",
        ),
        SAY,
        SEND,
        CALL,
        WITH,
        AS,
        MAY_FAIL,
        WRITE,
        APPEND,
        SAVE,
        WAIT,
        PRINT,
        SPEND,
        FAIL,
        EXIT,
        CRASH,
        HANG,
        PASS,
    ],
};

const CONDITION: Record = Record {
    name: "condition",
    about: "A condition for a new message; both keys must match.",
    keys: &[
        optional_key("from", Shape::Text, "Its sender"),
        optional_key("text", Shape::Text, "A text that it contains, ignoring case"),
    ],
};

const MESSAGE: Record = Record {
    name: "message",
    about: "A message to the channel or to one agent.",
    keys: &[required_key("text", Shape::Text, "Its text"), optional_key("to", Shape::Text, "The only recipient")],
};

const DOCUMENT: Record = Record {
    name: "document",
    about: "A document and a text for it.",
    keys: &[
        optional_key("file", Shape::Text, "The document; the entry document if absent"),
        required_key("text", Shape::Text, "The text"),
    ],
};

const SAVED: Record = Record {
    name: "file",
    about: "A file in the agent's folder.",
    keys: &[
        required_key("path", Shape::Text, "Its path, relative to the agent's folder"),
        required_key("text", Shape::Text, "Its text"),
    ],
};

const PRINTED: Record = Record {
    name: "output",
    about: "A line of output, optionally repeated.",
    keys: &[
        required_key("text", Shape::Text, "The line"),
        optional_key("times", Shape::Count(1, MAX_TIMES), "Number of repetitions; 1 if absent"),
    ],
};

const SPENT: Record = Record {
    name: "use",
    about: "The reported usage of a turn.",
    keys: &[
        optional_key("input_tokens", Shape::Count(0, u32::MAX as u64), "Input tokens"),
        optional_key("output_tokens", Shape::Count(0, u32::MAX as u64), "Output tokens"),
        optional_key("cost_usd", Shape::Amount, "Cost in US dollars"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    pub turns: Vec<ScriptTurn>,
    pub then: Then,
}

/// The behaviour of a mock agent when no turn is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Does nothing and succeeds.
    Pass,
    /// Starts over with the first turn.
    Repeat,
    /// Fails.
    Fail,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ScriptTurn {
    pub when: Option<When>,
    pub times: Times,
    pub actions: Vec<InFile<Action>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct When {
    pub from: Option<InFile<String>>,
    pub text: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    Count(u64),
    Always,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    Say(TextTemplate),
    Send { text: TextTemplate, to: Option<InFile<String>> },
    Call { tool: InFile<String>, with: Option<Argument>, keep: Option<InFile<String>>, may_fail: bool },
    Write { file: Option<TextTemplate>, text: TextTemplate },
    Append { file: Option<TextTemplate>, text: TextTemplate },
    Save { path: TextTemplate, text: TextTemplate },
    Wait(Duration),
    Print { text: TextTemplate, times: u64 },
    Spend { input_tokens: u64, output_tokens: u64, cost_usd: f64 },
    Fail(TextTemplate),
    Exit(u8),
    Crash,
    Hang { stubborn: bool },
    Pass,
}

impl Action {
    pub fn verb(&self) -> &'static str {
        match self {
            Action::Say(_) => "say",
            Action::Send { .. } => "send",
            Action::Call { .. } => "call",
            Action::Write { .. } => "write",
            Action::Append { .. } => "append",
            Action::Save { .. } => "save",
            Action::Wait(_) => "wait",
            Action::Print { .. } => "print",
            Action::Spend { .. } => "spend",
            Action::Fail(_) => "fail",
            Action::Exit(_) => "exit",
            Action::Crash => "crash",
            Action::Hang { .. } => "hang",
            Action::Pass => "pass",
        }
    }

    /// The texts that may have variables.
    pub fn templates(&self) -> Vec<&TextTemplate> {
        match self {
            Action::Say(text) | Action::Fail(text) | Action::Send { text, .. } | Action::Print { text, .. } => {
                vec![text]
            }
            Action::Write { file, text } | Action::Append { file, text } => file.iter().chain([text]).collect(),
            Action::Save { path, text } => vec![path, text],
            Action::Call { with, .. } => with.iter().flat_map(Argument::templates).collect(),
            Action::Wait(_)
            | Action::Spend { .. }
            | Action::Exit(_)
            | Action::Crash
            | Action::Hang { .. }
            | Action::Pass => Vec::new(),
        }
    }

    /// Whether it ends the turn.
    fn ends(&self) -> bool {
        matches!(self, Action::Fail(_) | Action::Exit(_) | Action::Crash | Action::Hang { .. })
    }
}

impl Script {
    pub(super) fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Script> {
        let (turns, then) = if field.is_map() {
            let keys = field.record(reader, &RECORD)?;
            let choices = [("pass", Then::Pass), ("repeat", Then::Repeat), ("fail", Then::Fail)];
            let then = keys.get("then").and_then(|field| field.choice(reader, &choices)).unwrap_or(Then::Pass);
            (keys.get("turns")?.clone(), then)
        } else {
            (field.clone(), Then::Pass)
        };
        let turns: Vec<ScriptTurn> =
            turns.list(reader).iter().filter_map(|item| ScriptTurn::read(item, reader)).collect();
        Some(Script { turns, then })
    }

    /// Every action, in the order of the file.
    pub fn actions(&self) -> impl Iterator<Item = &InFile<Action>> {
        self.turns.iter().flat_map(|turn| &turn.actions)
    }
}

impl ScriptTurn {
    fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<ScriptTurn> {
        if !field.is_map() {
            let action = bare_action(field, reader)?;
            return Some(ScriptTurn { when: None, times: Times::Count(1), actions: vec![action] });
        }
        let keys = field.record(reader, &TURN)?;
        let when = keys.get("when").and_then(|field| When::read(field, reader));
        let times = keys.get("times").and_then(|field| Times::read(field, reader)).unwrap_or(Times::Count(1));
        let verbs: Vec<_> = verbs(&keys).collect();
        let actions: Vec<InFile<Action>> = match keys.get("do") {
            Some(list) => {
                if let Some(key) = verbs.first().and_then(|verb| keys.key(verb)) {
                    reader.fault(FileFault::new(key, "cannot be combined with `do`").hint("move it into that list"));
                }
                list.list(reader).iter().filter_map(|item| action_of(item, reader)).collect()
            }
            None => action(&keys, &verbs, reader).into_iter().collect(),
        };
        check_reachable(&actions, reader);
        Some(ScriptTurn { when, times, actions })
    }
}

impl When {
    fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<When> {
        if !field.is_map() {
            return Some(When { from: None, text: Some(field.text(reader)?.value) });
        }
        let keys = field.record(reader, &CONDITION)?;
        let from = keys.get("from").and_then(|field| field.text(reader));
        let text = keys.get("text").and_then(|field| field.text(reader)).map(|text| text.value);
        Some(When { from, text })
    }
}

impl Times {
    fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Times> {
        match field.as_text() {
            Some("always") => Some(Times::Always),
            Some(_) => {
                field.wrong(reader, "must be a number or `always`");
                None
            }
            None => field.count(reader, 1, MAX_TIMES).map(Times::Count),
        }
    }
}

fn action_of(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<InFile<Action>> {
    if !field.is_map() {
        return bare_action(field, reader);
    }
    let keys = field.record(reader, &ACTION)?;
    let verbs: Vec<_> = verbs(&keys).collect();
    action(&keys, &verbs, reader)
}

/// Reads an action without arguments.
fn bare_action(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<InFile<Action>> {
    let value = match field.as_text() {
        Some("pass") => Action::Pass,
        Some("crash") => Action::Crash,
        Some("hang") => Action::Hang { stubborn: false },
        Some(text) => {
            let fault = FileFault::new(&field.place, "is not an action").found(field.describe(reader));
            reader.fault(match nearest(text, ["pass", "crash", "hang"]) {
                Some(meant) => fault.meant(Some(meant)),
                None => fault.hint("to make it the last output, write `say: …`; to post it, `send: …`"),
            });
            return None;
        }
        None => {
            field.wrong(reader, "must be an action, such as `say: …` or `call: …`");
            return None;
        }
    };
    Some(InFile { value, place: field.place.clone() })
}

/// The keys that name actions.
fn verbs<'k>(keys: &'k RecordKeys<'_>) -> impl Iterator<Item = &'static str> + 'k {
    keys.names().filter(|name| !matches!(*name, "when" | "times" | "do" | "with" | "as" | "may_fail"))
}

fn action(keys: &RecordKeys<'_>, verbs: &[&'static str], reader: &mut FileReader<'_>) -> Option<InFile<Action>> {
    let [verb] = verbs else {
        let place = verbs.get(1).and_then(|verb| keys.key(verb)).unwrap_or(&keys.place);
        let fault = FileFault::new(place, if verbs.is_empty() { "has no action" } else { "is a second action" });
        reader.fault(fault.hint("write one action, such as `say: …`, or several under `do`"));
        return None;
    };
    for beside in ["with", "as", "may_fail"].iter().filter(|_| *verb != "call") {
        if let Some(key) = keys.key(beside) {
            reader.fault(FileFault::new(key, format!("belongs to `call`, not to `{verb}`")));
        }
    }
    let field = keys.get(verb)?;
    let value = match *verb {
        "say" => Action::Say(field.template(reader)?),
        "send" => message(field, reader)?,
        "call" => call(field, keys, reader)?,
        "write" => document(field, reader).map(|(file, text)| Action::Write { file, text })?,
        "append" => document(field, reader).map(|(file, text)| Action::Append { file, text })?,
        "save" => save(field, reader)?,
        "wait" => Action::Wait(field.duration(reader)?),
        "print" => print(field, reader)?,
        "spend" => spend(field, reader)?,
        "fail" => Action::Fail(field.template(reader)?),
        "exit" => Action::Exit(field.count(reader, 0, 255).and_then(|code| u8::try_from(code).ok())?),
        "hang" => Action::Hang { stubborn: is_stubborn(field, reader)? },
        "crash" => only_true(field, reader).map(|()| Action::Crash)?,
        _ => only_true(field, reader).map(|()| Action::Pass)?,
    };
    Some(InFile { value, place: keys.key(verb).cloned().unwrap_or_else(|| field.place.clone()) })
}

fn is_stubborn(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<bool> {
    match (field.flag_value(), field.as_text()) {
        (Some(true), _) => Some(false),
        (_, Some("stubborn")) => Some(true),
        _ => {
            field.wrong(reader, "must be true or `stubborn`");
            None
        }
    }
}

fn only_true(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<()> {
    let is = field.flag_value() == Some(true);
    if !is {
        field.wrong(reader, "must be true");
    }
    is.then_some(())
}

fn message(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Action> {
    if !field.is_map() {
        return Some(Action::Send { text: field.template(reader)?, to: None });
    }
    let keys = field.record(reader, &MESSAGE)?;
    let to = keys.get("to").and_then(|field| field.text(reader));
    Some(Action::Send { text: keys.get("text")?.template(reader)?, to })
}

fn call(field: &Field<'_>, keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Option<Action> {
    let with = keys.get("with").and_then(|field| {
        if !field.is_map() {
            field.wrong(reader, "must be a mapping of arguments");
            return None;
        }
        field.argument(reader)
    });
    let keep = keys.get("as").and_then(|field| {
        let name = field.text(reader)?;
        if setup::is_name(&name.value) {
            return Some(name);
        }
        field.wrong(reader, "must consist of letters, digits and `_`, and not begin with a digit");
        None
    });
    let may_fail = keys.get("may_fail").and_then(|field| field.flag(reader)).unwrap_or(false);
    Some(Action::Call { tool: field.text(reader)?, with, keep, may_fail })
}

fn document(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<(Option<TextTemplate>, TextTemplate)> {
    if !field.is_map() {
        return Some((None, field.template(reader)?));
    }
    let keys = field.record(reader, &DOCUMENT)?;
    let file = keys.get("file").and_then(|field| field.template(reader));
    Some((file, keys.get("text")?.template(reader)?))
}

fn save(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Action> {
    let keys = field.record(reader, &SAVED)?;
    let path = keys.get("path").and_then(|field| field.template(reader));
    let text = keys.get("text").and_then(|field| field.template(reader));
    Some(Action::Save { path: path?, text: text? })
}

fn print(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Action> {
    if !field.is_map() {
        return Some(Action::Print { text: field.template(reader)?, times: 1 });
    }
    let keys = field.record(reader, &PRINTED)?;
    let times = keys.get("times").and_then(|field| field.count(reader, 1, MAX_TIMES)).unwrap_or(1);
    Some(Action::Print { text: keys.get("text")?.template(reader)?, times })
}

fn spend(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Action> {
    let keys = field.record(reader, &SPENT)?;
    let mut tokens = |name: &str| keys.get(name).and_then(|field| field.count(reader, 0, u32::MAX.into())).unwrap_or(0);
    let (input_tokens, output_tokens) = (tokens("input_tokens"), tokens("output_tokens"));
    let cost_usd = keys.get("cost_usd").and_then(|field| field.amount(reader)).unwrap_or(0.0);
    Some(Action::Spend { input_tokens, output_tokens, cost_usd })
}

/// Reports an action after one that ends the turn.
fn check_reachable(actions: &[InFile<Action>], reader: &mut FileReader<'_>) {
    if let Some(at) = actions.iter().position(|action| action.value.ends())
        && let Some(InFile { place, .. }) = actions.get(at + 1)
    {
        let place: &SourceLocation = place;
        reader.fault(FileFault::new(
            place,
            format!("is never run: `{}` ends the turn before it", actions[at].value.verb()),
        ));
    }
}
