//! Where tools are called: who calls, what is checked before, and what every answer says besides.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, Extensions, MetaObject, Tool as Listed};
use rookery_core::{Actor, Caller, Code, Instance};
use rookery_engine::projections::unread::Unread;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::call::{self, Bound, Call, UnreadOnce};
use super::error::ToolError;
use super::schema::{NOTES, Object};
use super::tool::{Effect, Tool, ToolOutput, UnreadReminder};
use super::toolset::Toolset;
use super::unread::{count, hint, unread};
use crate::http::App;
use crate::http::identity::Sender;
use crate::http::limits::Account;

/// The name of the unread count in a result's `_meta`.
const UNREAD: &str = "rookery/unread";

/// Every tool, and how each toolset lists its own. Made once.
#[derive(Clone, Debug)]
pub struct Catalogue(Arc<CatalogueEntries>);

#[derive(Debug)]
struct CatalogueEntries {
    tools: HashMap<&'static str, Tool>,
    lists: Vec<(Toolset, Vec<Listed>)>,
}

impl Catalogue {
    pub fn new(tools: Vec<Tool>) -> Catalogue {
        let list = |set: Toolset| tools.iter().filter(|tool| tool.is_in(set)).map(|tool| tool.listed(set)).collect();
        let lists = Toolset::EVERY.into_iter().map(|set| (set, list(set))).collect();
        Catalogue(Arc::new(CatalogueEntries {
            lists,
            tools: tools.into_iter().map(|tool| (tool.name, tool)).collect(),
        }))
    }

    pub fn listed(&self, set: Toolset) -> &[Listed] {
        self.0.lists.iter().find(|(listed, _)| *listed == set).map_or(&[], |(_, tools)| tools)
    }

    pub fn tool(&self, set: Toolset, name: &str) -> Option<&Tool> {
        self.0.tools.get(name).filter(|tool| tool.is_in(set))
    }
}

/// The tools as one session, or one request without a session, can call them.
#[derive(Clone, Debug)]
pub struct SessionTools {
    app: App,
    catalogue: Catalogue,
    set: Toolset,
    bound: Bound,
}

impl SessionTools {
    pub fn new(app: App, catalogue: Catalogue, set: Toolset) -> SessionTools {
        SessionTools { app, catalogue, set, bound: Bound::default() }
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub fn set(&self) -> Toolset {
        self.set
    }

    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Whether calling this tool only looks something up, so that it can be answered where it arrives: it waits for
    /// nothing, and whoever loses the answer asks again.
    pub fn looks_up(&self, name: &str) -> bool {
        self.catalogue.tool(self.set, name).is_some_and(Tool::looks_up)
    }

    /// A call by the sender of a message.
    pub fn call(&self, extensions: &Extensions, name: &'static str, body: Vec<u8>) -> Result<Call, ToolError> {
        Ok(Call::new(self.app.clone(), sender(extensions)?, self.bound.clone(), name, body))
    }

    pub async fn answer(
        &self,
        request: CallToolRequestParams,
        extensions: &Extensions,
        gone: &CancellationToken,
    ) -> Result<CallToolResult, ErrorData> {
        let Some(tool) = self.catalogue.tool(self.set, &request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool '{}' here", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let named = tool.caller_named(&arguments).map(str::to_owned);
        // What only looks something up submits nothing that its arguments would be kept with.
        let body = if tool.looks_up() { vec![] } else { serde_json::to_vec(&arguments).unwrap_or_default() };
        let call = match self.call(extensions, tool.name, body) {
            Ok(call) => call,
            Err(error) => return Ok(failed(&error)),
        };
        let mut caller = call.caller(named.as_deref());
        let (counted, sender) = (call.counted().clone(), call.sender().clone());
        let answer = match &caller {
            Ok(caller) => self.run(tool, call, caller, arguments, gone).await,
            Err(error) => Err(error.clone()),
        };
        if tool.effect != Effect::Reads {
            // Asked again, because the call itself may have told who it is.
            caller = call::identified(&self.app, &sender, &self.bound, named.as_deref());
        }
        let result = match answer {
            Ok(answered) => succeeded(answered),
            Err(error) => failed(&error),
        };
        Ok(self.with_unread(result, caller.ok(), &counted, tool.reminder).await)
    }

    /// Runs a tool within its time and its caller's share of requests. One that waits ends when its client is gone.
    async fn run(
        &self,
        tool: &Tool,
        call: Call,
        caller: &Caller,
        arguments: Object,
        gone: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        if tool.is_of_context() && !goes_without_context(tool, caller, &arguments) {
            let agent = call.named(tool.caller_named(&arguments)).or(caller.actor.agent().cloned());
            let instance = agent.as_ref().map_or_else(|| call.sender().instance(), Instance::of);
            call.engine().contexts().require(&instance).await?;
        }
        let _place = self.app.requests().take(Account::of(caller)).map_err(|_| {
            ToolError::new(Code::TooManyRequests, "too many calls under way")
                .suggest("wait for the answers to earlier calls")
        })?;
        let most = tool.lasts.unwrap_or(self.app.limits().request_time);
        let running = tokio::time::timeout(most, tool.run(call, arguments));
        let in_time = match tool.lasts {
            None => running.await,
            Some(_) => tokio::select! {
                in_time = running => in_time,
                () = gone.cancelled() => return Err(ToolError::new(Code::Cancelled, "nobody waits for this any more")),
            },
        };
        in_time.unwrap_or_else(|_| {
            Err(ToolError::new(Code::Timeout, "the call took too long")
                .suggest("look whether it was done before you repeat it"))
        })
    }

    /// Adds what waits for the caller, so that a busy agent notices.
    async fn with_unread(
        &self,
        result: CallToolResult,
        caller: Option<Caller>,
        counted: &UnreadOnce,
        of: UnreadReminder,
    ) -> CallToolResult {
        match caller.filter(|_| of != UnreadReminder::LeftOut) {
            Some(caller) => {
                let unread = match counted.get() {
                    Some(counted) => counted,
                    None => unread(&self.app, &caller).await,
                };
                reminded(result, &unread, self.set, of)
            }
            None => result,
        }
    }
}

/// Who sent a message; [`super::http`] has read it from the headers already.
pub fn sender(extensions: &Extensions) -> Result<Sender, ToolError> {
    match extensions.get::<Parts>() {
        Some(parts) => match parts.extensions.get::<Sender>() {
            Some(sender) => Ok(sender.clone()),
            None => Ok(Sender::of_message(&parts.headers, &parts.extensions)?),
        },
        None => Ok(Sender::default()),
    }
}

fn failed(error: &ToolError) -> CallToolResult {
    let text = serde_json::to_string(error).unwrap_or_else(|_| error.message.clone());
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn succeeded(answered: ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answered.text)]);
    result.structured_content = Some(answered.structured);
    answered.notes.into_iter().fold(result, noted)
}

/// Adds a note, as a text of its own and in the structure: many programs show their model the one and not the other.
fn noted(mut result: CallToolResult, note: String) -> CallToolResult {
    if let Some(Value::Object(fields)) = &mut result.structured_content
        && let Value::Array(notes) = fields.entry(NOTES).or_insert_with(|| json!([]))
    {
        notes.push(note.clone().into());
    }
    result.content.push(ContentBlock::text(note));
    result
}

/// A result that says how many messages wait, if any do.
fn reminded(mut result: CallToolResult, unread: &Unread, set: Toolset, of: UnreadReminder) -> CallToolResult {
    if count(unread) > 0 {
        result.meta.get_or_insert_with(MetaObject::new).0.insert(UNREAD.to_owned(), count(unread).into());
    }
    hint(unread, set, of).into_iter().fold(result, noted)
}

/// Whether a call needs no context although its tool does: a person's word to one agent alone, and a look into an inbox by whoever
/// wakes its agent.
fn goes_without_context(tool: &Tool, caller: &Caller, arguments: &Object) -> bool {
    let says = |name: &str| arguments.get(name).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
    match tool.name {
        "inbox_peek" => says("on_behalf"),
        "channel_send" => says("to") && matches!(caller.actor, Actor::Person(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_what_waits_and_nothing_if_nothing_does() {
        let answered = ToolOutput { structured: json!({}), text: "{}".to_owned(), notes: vec![] };
        let result = || succeeded(answered.clone());
        let unread = |inbox| Unread { pending: 7, unseen: 5, inbox, ..Unread::default() };
        assert_eq!(reminded(result(), &unread(0), Toolset::All, UnreadReminder::Added), result());
        let reminded =
            serde_json::to_value(reminded(result(), &unread(3), Toolset::All, UnreadReminder::Added)).unwrap();
        assert_eq!(reminded["_meta"], json!({"rookery/unread": 3}));
        assert_eq!(reminded["content"].as_array().unwrap().len(), 2);
        assert!(reminded["content"][1]["text"].as_str().unwrap().contains("3 unread messages"));
        assert_eq!(reminded["structuredContent"]["notes"][0], reminded["content"][1]["text"]);
    }
}
