//! A tool: what a model sees of it, and the function that does it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Tool as Listed, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::argument_error;
use super::call::Call;
use super::error::ToolError;
use super::schema::{self, Object};
use super::toolset::Toolset;

/// What calling the tool does to the world; clients ask their user by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    Reads,
    /// Adds something with every call.
    Adds,
    /// Sets something; again with the same arguments changes nothing.
    Sets,
    /// Ends or gives away something.
    Ends,
}

impl Effect {
    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new().open_world(false);
        match self {
            Effect::Reads => hints.read_only(true),
            Effect::Adds => hints.read_only(false).destructive(false).idempotent(false),
            Effect::Sets => hints.read_only(false).destructive(false).idempotent(true),
            Effect::Ends => hints.read_only(false).destructive(true).idempotent(true),
        }
    }

    /// The same in short: what differs from what clients take for granted.
    fn told(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            Effect::Reads => hints.read_only(true),
            Effect::Adds => hints.destructive(false),
            Effect::Sets => hints.destructive(false).idempotent(true),
            Effect::Ends => hints.idempotent(true),
        }
    }
}

/// What a tool answers: a value, the text that a model reads if that is not simply the value as JSON, and what it should
/// notice besides.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolReply<T> {
    value: T,
    text: Option<String>,
    notes: Vec<String>,
}

impl<T> ToolReply<T> {
    pub fn new(value: T) -> ToolReply<T> {
        ToolReply { value, text: None, notes: vec![] }
    }

    pub fn with_text(text: impl Into<String>, value: T) -> ToolReply<T> {
        ToolReply { value, text: Some(text.into()), notes: vec![] }
    }

    /// Adds a text of its own after the first one, which stays as it is.
    #[must_use]
    pub fn with_note(mut self, note: Option<String>) -> ToolReply<T> {
        self.notes.extend(note);
        self
    }
}

/// The result of the function behind a tool.
pub type ToolAnswer<T> = Result<ToolReply<T>, ToolError>;

/// Whether a result says how many messages wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnreadReminder {
    /// If some are unread.
    Added,
    /// Also if all of them were read but some not acknowledged: whoever calls this begins afresh.
    OfAll,
    /// The tool has just shown them, and left them unread on purpose.
    LeftOut,
}

/// An answer on its way out.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolOutput {
    pub structured: Value,
    pub text: String,
    pub notes: Vec<String>,
}

type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type ToolFn = Box<dyn Fn(Call, Object) -> ToolFuture + Send + Sync>;

pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    pub effect: Effect,
    pub sets: &'static [Toolset],
    /// How long it may take, if longer than other requests: it waits for something.
    pub lasts: Option<Duration>,
    pub reminder: UnreadReminder,
    /// The arguments that name the caller, where nothing else does.
    caller_in: &'static [&'static str],
    input: Arc<Object>,
    short_input: Arc<Object>,
    output: Arc<Object>,
    run: ToolFn,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("effect", &self.effect).finish_non_exhaustive()
    }
}

impl Tool {
    /// A tool by its function. The description is for a model: what it does, when to call it, what comes next.
    pub fn new<A, T, F, R>(
        name: &'static str,
        effect: Effect,
        sets: &'static [Toolset],
        description: &'static str,
        run: F,
    ) -> Tool
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        T: Serialize + JsonSchema,
        F: Fn(Call, A) -> R + Send + Sync + Clone + 'static,
        R: Future<Output = ToolAnswer<T>> + Send + 'static,
    {
        let run: ToolFn = Box::new(move |call, arguments| {
            let run = run.clone();
            Box::pin(async move { answered(run(call, parse(arguments)?).await?) })
        });
        let input = schema::input::<A>();
        let has_agent_id = input.get("properties").and_then(|fields| fields.get("agent_id")).is_some();
        Tool {
            name,
            description,
            effect,
            sets,
            lasts: None,
            reminder: UnreadReminder::Added,
            // As an alias it may be the one who is asked about.
            caller_in: if has_agent_id { &["agent_id"] } else { &[] },
            input,
            short_input: schema::short_input::<A>(),
            output: schema::output::<T>(),
            run,
        }
    }

    /// For a tool that waits for something to happen.
    #[must_use]
    pub fn lasting(self, most: Duration) -> Tool {
        Tool { lasts: Some(most), ..self }
    }

    /// For a tool that shows what waits without marking it.
    #[must_use]
    pub fn peeking(self) -> Tool {
        Tool { reminder: UnreadReminder::LeftOut, ..self }
    }

    /// For a tool that calls its caller's id otherwise.
    #[must_use]
    pub fn naming_caller(self, caller_in: &'static [&'static str]) -> Tool {
        Tool { caller_in, ..self }
    }

    /// The agent that the arguments name as the caller.
    pub fn caller_named<'a>(&self, arguments: &'a Object) -> Option<&'a str> {
        self.caller_in.iter().find_map(|name| arguments.get(*name)?.as_str()).filter(|id| !id.is_empty())
    }

    /// For a tool that is called by somebody who knows nothing of what it did before.
    #[must_use]
    pub fn beginning(self) -> Tool {
        Tool { reminder: UnreadReminder::OfAll, ..self }
    }

    pub fn is_in(&self, set: Toolset) -> bool {
        set == Toolset::All || self.sets.contains(&set)
    }

    /// Whether it is about channel, inbox or documents, and of no use where an instance has none.
    pub fn is_of_context(&self) -> bool {
        self.sets.contains(&Toolset::Context) && !self.sets.contains(&Toolset::Coord)
    }

    /// Whether it only looks something up. Reading messages is more than that: it is noted.
    pub fn looks_up(&self) -> bool {
        let of_messages = [Toolset::Context, Toolset::Coord].iter().any(|set| self.sets.contains(set));
        self.effect == Effect::Reads && self.lasts.is_none() && !of_messages
    }

    pub fn listed(&self, set: Toolset) -> Listed {
        if set.is_small() {
            let listed = Listed::new(self.name, self.description, self.short_input.clone());
            return listed.with_annotations(self.effect.told());
        }
        let listed = Listed::new(self.name, self.description, self.input.clone());
        listed.with_annotations(self.effect.annotations()).with_raw_output_schema(self.output.clone())
    }

    pub fn run(&self, call: Call, arguments: Object) -> ToolFuture {
        (self.run)(call, arguments)
    }
}

/// Arguments that any tool may be given, whether or not it needs them.
const NEVER_ODD: [&str; 2] = ["agent_id", "session_id"];

/// A name that is not known is an error: what a caller meant by it would not happen, and it would not notice.
fn parse<A: DeserializeOwned + JsonSchema>(arguments: Object) -> Result<A, ToolError> {
    let again = "call the tool again with arguments as its input schema says";
    let mut odd = Vec::new();
    // What may be left out is a '?' in the path.
    let mut note = |path: serde_ignored::Path<'_>| odd.push(path.to_string().replace("?.", ""));
    let arguments = Value::Object(arguments);
    let watched = serde_ignored::Deserializer::new(&arguments, &mut note);
    let parsed = serde_path_to_error::deserialize(watched)
        .map_err(|error| ToolError::invalid(argument_error::about::<A>(&arguments, &error)).suggest(again))?;
    odd.retain(|path| !NEVER_ODD.contains(&path.as_str()));
    if odd.is_empty() {
        return Ok(parsed);
    }
    Err(ToolError::invalid(format!("there is no argument '{}'", odd.join("', '"))).suggest(again))
}

fn answered<T: Serialize>(reply: ToolReply<T>) -> Result<ToolOutput, ToolError> {
    let structured = serde_json::to_value(&reply.value).map_err(|error| {
        tracing::error!(%error, "a result cannot be written as JSON");
        ToolError::unexpected()
    })?;
    let text = reply.text.unwrap_or_else(|| structured.to_string());
    Ok(ToolOutput { structured, text, notes: reply.notes })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only whether it can be read is looked at")]
    struct Plan {
        #[serde(alias = "title")]
        name: String,
        steps: Option<Vec<Plan>>,
    }

    #[test]
    fn an_argument_that_is_not_known_is_named() {
        let parsed = |value: Value| parse::<Plan>(value.as_object().unwrap().clone()).map_err(|error| error.message);
        assert!(parsed(json!({"title": "a", "agent_id": "x", "session_id": "y"})).is_ok());
        let wrong = json!({"name": "a", "too": 1, "steps": [{"name": "b", "dependsOn": []}]});
        assert_eq!(parsed(wrong).unwrap_err(), "there is no argument 'steps.0.dependsOn', 'too'");
        assert_eq!(parsed(json!({"name": 1})).unwrap_err(), "argument 'name': must be a string, not the number 1");
    }
}
