//! The protocol's own methods: what there is, calling it, reading it, following it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Extensions, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool as Listed, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use rookery_core::{AgentId, Caller, Instance};
use rookery_engine::Notice;
use rookery_engine::messages::Unread;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::call::{Bound, Call, Counted};
use super::error::ToolError;
use super::mentions::{self, Addressee, Hearing};
use super::notices::{Queue, SEND_TIME};
use super::resources::{self, Named};
use super::schema::{NOTES, Object};
use super::tool::{Answered, Reminder, Tool};
use super::toolset::Toolset;
use super::unread::{count, hint, unread};
use crate::app::App;
use crate::sender::Sender;

/// The header that names a session.
const SESSION_ID: &str = "mcp-session-id";
/// The name of the unread count in a result's `_meta`.
const UNREAD: &str = "rookery/unread";

/// Every tool, and how each toolset lists its own. Made once.
#[derive(Clone, Debug)]
pub struct Catalogue(Arc<Shelves>);

#[derive(Debug)]
struct Shelves {
    tools: HashMap<&'static str, Tool>,
    lists: Vec<(Toolset, Vec<Listed>)>,
}

impl Catalogue {
    pub fn new(tools: Vec<Tool>) -> Catalogue {
        let list = |set: Toolset| tools.iter().filter(|tool| tool.is_in(set)).map(|tool| tool.listed(set)).collect();
        let lists = Toolset::EVERY.into_iter().map(|set| (set, list(set))).collect();
        Catalogue(Arc::new(Shelves { lists, tools: tools.into_iter().map(|tool| (tool.name, tool)).collect() }))
    }

    pub fn listed(&self, set: Toolset) -> &[Listed] {
        self.0.lists.iter().find(|(listed, _)| *listed == set).map_or(&[], |(_, tools)| tools)
    }

    fn tool(&self, set: Toolset, name: &str) -> Option<&Tool> {
        self.0.tools.get(name).filter(|tool| tool.is_in(set))
    }
}

/// The server as one session, or one request without a session, sees it.
#[derive(Debug)]
pub struct Face {
    app: App,
    catalogue: Catalogue,
    set: Toolset,
    bound: Bound,
    queue: Arc<Queue>,
    /// What sends from the queue, once something is followed.
    sending: OnceLock<AbortHandle>,
    /// What tells the session's agent of its messages, once it is known.
    telling: Mutex<Option<Telling>>,
}

#[derive(Debug)]
struct Telling {
    agent: AgentId,
    task: AbortHandle,
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.get() {
            sending.abort();
        }
    }
}

impl Face {
    pub fn new(app: App, catalogue: Catalogue, set: Toolset) -> Face {
        let (bound, queue) = (Bound::default(), Arc::default());
        Face { app, catalogue, set, bound, queue, sending: OnceLock::new(), telling: Mutex::default() }
    }

    fn call(&self, context: &RequestContext<RoleServer>, name: &'static str, body: Vec<u8>) -> Result<Call, ToolError> {
        let sender = match context.extensions.get::<axum::http::request::Parts>() {
            Some(parts) => Sender::of(&parts.headers)?,
            None => Sender::default(),
        };
        Ok(Call::new(self.app.clone(), sender, self.bound.clone(), name, body))
    }

    /// Runs a tool within its time and its caller's share of requests. One that waits ends when its client is gone.
    async fn run(
        &self,
        tool: &Tool,
        call: Call,
        arguments: Object,
        gone: &CancellationToken,
    ) -> Result<Answered, ToolError> {
        let named = tool.caller_named(&arguments);
        let caller = call.caller(named)?;
        if tool.is_of_context() {
            let agent = call.named(named).or(caller.actor.agent().cloned());
            let instance = agent.as_ref().map_or_else(|| call.sender().instance(), Instance::of);
            call.engine().needs_context(&instance).await?;
        }
        let _place = match caller.actor.agent().map(|agent| self.app.enter(agent.as_str())) {
            Some(None) => {
                return Err(ToolError::recoverable("TOO_MANY_REQUESTS", "too many calls under way")
                    .suggest("wait for the answers to earlier calls"));
            }
            place => place.flatten(),
        };
        let most = tool.lasts.unwrap_or(self.app.limits().request_time);
        let running = tokio::time::timeout(most, tool.run(call, arguments));
        let in_time = match tool.lasts {
            None => running.await,
            Some(_) => tokio::select! {
                in_time = running => in_time,
                () = gone.cancelled() => return Err(ToolError::recoverable("CANCELLED", "nobody waits for this any more")),
            },
        };
        in_time.unwrap_or_else(|_| {
            Err(ToolError::fatal("TIMEOUT", "the call took too long")
                .suggest("look whether it was done before you repeat it"))
        })
    }

    /// Adds what waits for the caller, so that a busy agent notices.
    async fn with_unread(
        &self,
        result: CallToolResult,
        caller: Option<Caller>,
        counted: &Counted,
        of: Reminder,
    ) -> CallToolResult {
        match caller.filter(|_| of != Reminder::LeftOut) {
            Some(caller) => {
                let unread = match counted.get() {
                    Some(counted) => counted,
                    None => unread(&self.app, &caller).await,
                };
                reminded(result, unread, self.set, of)
            }
            None => result,
        }
    }

    /// What an address names, if the caller may see it.
    async fn named(&self, context: &RequestContext<RoleServer>, uri: &str) -> Result<(Call, Named), ErrorData> {
        let Some(named) = Named::of(uri) else {
            let data = Some(json!({"uri": uri}));
            return Err(ErrorData::resource_not_found(format!("there is no resource '{uri}'"), data));
        };
        let call = self.call(context, "resources", vec![]).map_err(refused)?;
        resources::may_see(&call, &named).await.map_err(refused)?;
        Ok((call, named))
    }

    /// Tells the session's agent of its messages from now on, if it is known who that is.
    fn attend(&self, extensions: &Extensions, peer: &Peer<RoleServer>) {
        let Some(headers) = extensions.get::<axum::http::request::Parts>().map(|parts| &parts.headers) else { return };
        let session = headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(streams) = session.and_then(|id| self.app.sessions().listening(id)) else { return };
        let Ok(sender) = Sender::of(headers) else { return };
        let Some(addressee) = Addressee::of(&self.app, sender, self.bound.clone()) else { return };
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = |telling: &Telling| telling.agent != *addressee.agent() || telling.task.is_finished();
        if telling.as_ref().is_none_or(ended) {
            let (agent, queue) = (addressee.agent().clone(), self.queue.clone());
            let remind = move |agent: &AgentId| queue.put(&resources::inbox(agent));
            let task = tokio::spawn(mentions::tell(addressee, peer.clone(), streams, remind)).abort_handle();
            *telling = Some(Telling { agent, task });
        }
    }

    /// Tells a client that listens what changed and what waits for its agent, until it is gone.
    async fn tell(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_place) = self.app.subscriptions().clone().try_acquire_owned() else {
            return Err(ErrorData::internal_error("no more streams can be opened here", None));
        };
        let request = context.request_context();
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.named(request, uri).await?;
        }
        let headers = request.extensions.get::<axum::http::request::Parts>().map(|parts| &parts.headers);
        let sender = headers.and_then(|headers| Sender::of(headers).ok());
        let addressee = sender.and_then(|sender| Addressee::of(&self.app, sender, self.bound.clone()));
        let mut hearing = match &addressee {
            Some(addressee) => Some(addressee.listen().await),
            None => None,
        };
        loop {
            let uri = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.app.stopping().cancelled() => return Ok(()),
                uri = self.queue.next() => uri,
                notice = heard(&mut hearing) => {
                    // Whoever is not that agent any more hears of nothing that is for it.
                    let Some(notice) = notice else { return Ok(()) };
                    self.queue.put(&resources::inbox(&notice.agent));
                    mentions::send(&request.peer, &notice).await;
                    continue;
                }
            };
            match tokio::time::timeout(SEND_TIME, context.sink().notify_resource_updated(uri)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a notice could not be sent"),
                Err(_) => tracing::debug!("a client does not take its notices"),
            }
        }
    }

    /// Starts what sends notices to this client, if it does not run yet.
    fn send_to(&self, peer: &Peer<RoleServer>) {
        self.sending.get_or_init(|| tokio::spawn(send(self.queue.clone(), peer.clone())).abort_handle());
    }
}

/// Sends what changed until the client is gone. One that does not read is left out this once, not waited for.
async fn send(queue: Arc<Queue>, peer: Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        let uri = queue.next().await;
        let notice = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri));
        match tokio::time::timeout(SEND_TIME, notice).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a notice could not be sent"),
            Err(_) => tracing::debug!("a client does not take its notices"),
        }
    }
}

/// Errors of methods that are not tools have no room for our shape but in their data.
fn refused(error: ToolError) -> ErrorData {
    ErrorData::invalid_params(error.message.clone(), serde_json::to_value(&error).ok())
}

fn failed(error: &ToolError) -> CallToolResult {
    let text = serde_json::to_string(error).unwrap_or_else(|_| error.message.clone());
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn succeeded(answered: Answered) -> CallToolResult {
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
fn reminded(mut result: CallToolResult, unread: Unread, set: Toolset, of: Reminder) -> CallToolResult {
    if count(unread) > 0 {
        result.meta.get_or_insert_with(MetaObject::new).0.insert(UNREAD.to_owned(), count(unread).into());
    }
    hint(unread, set, of).into_iter().fold(result, noted)
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.set.server_name(), self.app.about().version))
            .with_instructions(self.set.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.catalogue.listed(self.set).to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Listed> {
        self.catalogue.tool(self.set, name).map(|tool| tool.listed(self.set))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.catalogue.tool(self.set, &request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool '{}' here", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let body = serde_json::to_vec(&arguments).unwrap_or_default();
        let named = tool.caller_named(&arguments).map(str::to_owned);
        let mut counted = Counted::default();
        let (answer, caller) = match self.call(&context, tool.name, body) {
            Ok(call) => {
                counted = call.counted().clone();
                let answer = self.run(tool, call, arguments, &context.ct).await;
                // Asked again, because the call itself may have told who it is.
                let known = self.call(&context, tool.name, vec![]).and_then(|call| call.caller(named.as_deref()));
                self.attend(&context.extensions, &context.peer);
                (answer, known.ok())
            }
            Err(error) => (Err(error), None),
        };
        let result = match answer {
            Ok(answered) => succeeded(answered),
            Err(error) => failed(&error),
        };
        Ok(self.with_unread(result, caller, &counted, tool.reminder).await.into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let call = self.call(&context, "resources", vec![]).map_err(refused)?;
        let caller = call.reader().await.map_err(refused)?;
        let listed = resources::listed(&call, &caller).await.map_err(refused)?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (call, named) = self.named(&context, &request.uri).await?;
        let text = resources::read(&call, &named).await.map_err(refused)?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(named.mime_type());
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.named(&context, &request.uri).await?;
        let followed = self.app.notices().follow(&request.uri, &self.queue);
        followed.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        self.send_to(&context.peer);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.app.notices().leave(&request.uri, &self.queue);
        Ok(())
    }

    /// Follows what it accepts at once: after the acknowledgment, which comes next, a client must not miss a change.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let follow = |uri: &&String| Named::of(uri).is_some() && self.app.notices().follow(uri, &self.queue).is_ok();
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions =
            requested.resource_subscriptions.as_ref().map(|uris| uris.iter().filter(follow).cloned().collect());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let told = self.tell(&context).await;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.app.notices().leave(uri, &self.queue);
        }
        told
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.attend(&context.extensions, &context.peer);
    }
}

/// The next thing that waits for whoever listens; never, if nobody in particular does.
async fn heard(hearing: &mut Option<Hearing>) -> Option<Notice> {
    match hearing {
        Some(hearing) => hearing.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(set: Toolset) -> usize {
        let list = ListToolsResult::with_all_items(Catalogue::new(super::super::tools::all()).listed(set).to_vec());
        serde_json::to_string(&list).unwrap().chars().count().div_ceil(4)
    }

    #[test]
    fn the_set_for_daily_work_is_small() {
        let team = tokens(Toolset::Team);
        assert!(team < 2_000, "the team's tools take {team} tokens");
    }

    #[test]
    fn every_tool_is_explained_and_in_a_set() {
        for tool in super::super::tools::all() {
            assert!(!tool.sets.is_empty(), "{}", tool.name);
            assert!(tool.description.len() > 40, "{}", tool.name);
            let listed = tool.listed(Toolset::All);
            let fields = listed.input_schema.get("properties").and_then(Value::as_object).unwrap();
            for (name, field) in fields {
                assert!(field["description"].is_string(), "{name} of {} is not described", tool.name);
            }
            assert_eq!(listed.output_schema.unwrap()["type"], "object", "{}", tool.name);
        }
    }

    #[test]
    fn a_result_says_what_waits_and_nothing_if_nothing_does() {
        let answered = Answered { structured: json!({}), text: "{}".to_owned(), notes: vec![] };
        let result = || succeeded(answered.clone());
        let unread = |inbox| Unread { pending: 7, unseen: 5, inbox, ..Unread::default() };
        assert_eq!(reminded(result(), unread(0), Toolset::All, Reminder::Added), result());
        let reminded = serde_json::to_value(reminded(result(), unread(3), Toolset::All, Reminder::Added)).unwrap();
        assert_eq!(reminded["_meta"], json!({"rookery/unread": 3}));
        assert_eq!(reminded["content"].as_array().unwrap().len(), 2);
        assert!(reminded["content"][1]["text"].as_str().unwrap().contains("3 unread messages"));
        assert_eq!(reminded["structuredContent"]["notes"][0], reminded["content"][1]["text"]);
    }

    #[test]
    fn no_two_tools_have_one_name() {
        let mut names: Vec<_> = super::super::tools::all().iter().map(|tool| tool.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
