//! The protocol's own methods: what there is, calling it, reading it, following it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Extensions, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter,
    Tool as Listed, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use rookery_core::AgentId;
use rookery_engine::Wake;
use serde_json::json;
use tokio::task::AbortHandle;

use super::Clients;
use super::call::Call;
use super::calls::{self, Catalogue, SessionTools};
use super::error::ToolError;
use super::resources::{self, ResourceAddress};
use super::subscriptions::{SEND_TIME, SubscriptionQueue};
use super::toolset::Toolset;
use super::wake::{self, NotifiedAgent, WakeStream};
use crate::http::App;
use crate::http::limits::Account;

/// The header that names a session.
const SESSION_ID: &str = "mcp-session-id";

/// The server as one session, or one request without a session, sees it.
#[derive(Debug)]
pub struct Protocol {
    tools: SessionTools,
    clients: Clients,
    queue: Arc<SubscriptionQueue>,
    /// What sends from the queue, once something is followed.
    sending: OnceLock<AbortHandle>,
    /// What tells the session's agent of its messages, once it is known.
    telling: Mutex<Option<WakeTask>>,
}

#[derive(Debug)]
struct WakeTask {
    agent: AgentId,
    task: AbortHandle,
}

impl Drop for WakeTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Protocol {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.get() {
            sending.abort();
        }
    }
}

impl Protocol {
    pub fn new(app: App, clients: Clients, catalogue: Catalogue, set: Toolset) -> Protocol {
        let tools = SessionTools::new(app, catalogue, set);
        Protocol { tools, clients, queue: Arc::default(), sending: OnceLock::new(), telling: Mutex::default() }
    }

    /// What an address names, if the caller may see it.
    async fn named(
        &self,
        context: &RequestContext<RoleServer>,
        uri: &str,
    ) -> Result<(Call, ResourceAddress), ErrorData> {
        let Some(named) = ResourceAddress::of(uri) else {
            let data = Some(json!({"uri": uri}));
            return Err(ErrorData::resource_not_found(format!("there is no resource '{uri}'"), data));
        };
        let call = self.tools.call(&context.extensions, "resources", vec![]).map_err(refused)?;
        resources::may_see(&call, &named).await.map_err(refused)?;
        Ok((call, named))
    }

    /// Tells the session's agent of its messages from now on, if it is known who that is.
    fn attend(&self, extensions: &Extensions, peer: &Peer<RoleServer>) {
        let Some(streams) = session(extensions).and_then(|id| self.clients.sessions.listening(id)) else { return };
        let Ok(sender) = calls::sender(extensions) else { return };
        let Some(addressee) = NotifiedAgent::of(self.tools.app(), sender, self.tools.bound().clone()) else { return };
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = |telling: &WakeTask| telling.agent != *addressee.agent() || telling.task.is_finished();
        if telling.as_ref().is_none_or(ended) {
            let (agent, queue) = (addressee.agent().clone(), self.queue.clone());
            let remind = move |agent: &AgentId| queue.put(&resources::inbox(agent));
            let task = tokio::spawn(wake::tell(addressee, peer.clone(), streams, remind)).abort_handle();
            *telling = Some(WakeTask { agent, task });
        }
    }

    /// The account that a listening client is charged to.
    fn account(&self, extensions: &Extensions) -> Account {
        let caller = calls::sender(extensions).ok().and_then(|sender| sender.caller(self.tools.app(), None).ok());
        caller.map_or(Account::Anonymous, |caller| Account::of(&caller))
    }

    /// Tells a client that listens what changed and what waits for its agent, until it is gone.
    async fn tell(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let Ok(_place) = self.tools.app().streams().take(self.account(&request.extensions)) else {
            return Err(ErrorData::internal_error("no more streams can be opened here", None));
        };
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.named(request, uri).await?;
        }
        let sender = calls::sender(&request.extensions).ok();
        let addressee =
            sender.and_then(|sender| NotifiedAgent::of(self.tools.app(), sender, self.tools.bound().clone()));
        let mut hearing = match &addressee {
            Some(addressee) => Some(addressee.listen().await),
            None => None,
        };
        loop {
            let uri = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.tools.app().stopping().cancelled() => return Ok(()),
                uri = self.queue.next() => uri,
                notice = heard(&mut hearing) => {
                    // Whoever is not that agent any more hears of nothing that is for it.
                    let Some(notice) = notice else { return Ok(()) };
                    self.queue.put(&resources::inbox(&notice.agent));
                    wake::send(&request.peer, &notice).await;
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
async fn send(queue: Arc<SubscriptionQueue>, peer: Peer<RoleServer>) {
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

impl ServerHandler for Protocol {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.tools.set().server_name(), self.tools.app().about().version))
            .with_instructions(self.tools.set().instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.catalogue().listed(self.tools.set()).to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Listed> {
        let set = self.tools.set();
        self.tools.catalogue().tool(set, name).map(|tool| tool.listed(set))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = self.tools.answer(request, &context.extensions, &context.ct).await;
        self.attend(&context.extensions, &context.peer);
        answer.map(CallToolResponse::from)
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
        let call = self.tools.call(&context.extensions, "resources", vec![]).map_err(refused)?;
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
        let followed = self.clients.subscriptions.follow(&request.uri, &self.queue);
        followed.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        self.send_to(&context.peer);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.clients.subscriptions.leave(&request.uri, &self.queue);
        Ok(())
    }

    /// Follows what it accepts at once: after the acknowledgment, which comes next, a client must not miss a change.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let follow = |uri: &&String| {
            ResourceAddress::of(uri).is_some() && self.clients.subscriptions.follow(uri, &self.queue).is_ok()
        };
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions =
            requested.resource_subscriptions.as_ref().map(|uris| uris.iter().filter(follow).cloned().collect());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let told = self.tell(&context).await;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.clients.subscriptions.leave(uri, &self.queue);
        }
        told
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Some(id) = session(&context.extensions) {
            self.clients.sessions.began(id, &self.tools);
        }
        self.attend(&context.extensions, &context.peer);
    }
}

/// The session that a message came in.
fn session(extensions: &Extensions) -> Option<&str> {
    extensions.get::<Parts>()?.headers.get(SESSION_ID)?.to_str().ok()
}

/// The next thing that waits for whoever listens; never, if nobody in particular does.
async fn heard(hearing: &mut Option<WakeStream>) -> Option<Wake> {
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
            let fields = listed.input_schema.get("properties").and_then(serde_json::Value::as_object).unwrap();
            for (name, field) in fields {
                assert!(field["description"].is_string(), "{name} of {} is not described", tool.name);
            }
            assert_eq!(listed.output_schema.unwrap()["type"], "object", "{}", tool.name);
        }
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
