//! The protocol's own methods: what the suite expects to find.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, RequestStateError, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::changes::{Extras, Following};
use crate::logging::Log;
use crate::questions::{Asked, Interviewer, Outcome, script};
use crate::wire::{result, text, wire};
use crate::{prompts, resources, tools};

/// What all clients share.
pub struct Shared {
    pub extras: watch::Sender<Extras>,
    interviewer: Interviewer,
}

impl Shared {
    pub fn new() -> Result<Shared, RequestStateError> {
        Ok(Shared { extras: watch::Sender::default(), interviewer: Interviewer::new()? })
    }
}

/// The server as one session, or one request without a session, sees it.
pub struct Fixture {
    pub shared: Arc<Shared>,
    pub log: Log,
    /// From before the client hears anything, so that it misses no change.
    following: Following,
}

impl Fixture {
    pub fn new(shared: Arc<Shared>) -> Fixture {
        let following = Following::new(&shared.extras);
        Fixture { shared, log: Log::default(), following }
    }

    fn extras(&self) -> Extras {
        *self.shared.extras.borrow()
    }
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        result(json!({"tools": tools::listed(self.extras())}))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::listed(self.extras()).into_iter().find(|tool| tool["name"] == name).and_then(|tool| wire(tool).ok())
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let Some(script) = script(&call.name) else {
            return Ok(result::<CallToolResult>(self.run(&call.name, arguments, context).await?)?.into());
        };
        let (responses, state) = (call.input_responses, call.request_state);
        let client = context.client_capabilities().unwrap_or_default();
        let asked = Asked { name: call.name.into_owned(), arguments, responses, state, client };
        match self.shared.interviewer.proceed(&script, &asked)? {
            Outcome::Ask(questions) => Ok(questions.into()),
            Outcome::Answered(said) => Ok(result::<CallToolResult>(json!({"content": [text(said)]}))?.into()),
        }
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        result(prompts::listed(self.extras()))
    }

    async fn get_prompt(&self, call: GetPromptRequestParams, context: Context) -> Result<GetPromptResponse, ErrorData> {
        let mut arguments = serde_json::to_value(call.arguments.unwrap_or_default()).unwrap_or_default();
        if let Some(script) = script(&call.name) {
            let (name, responses, state) = (call.name.clone(), call.input_responses, call.request_state);
            let client = context.client_capabilities().unwrap_or_default();
            let asked = Asked { name, arguments: arguments.clone(), responses, state, client };
            match self.shared.interviewer.proceed(&script, &asked)? {
                Outcome::Ask(questions) => return Ok(questions.into()),
                Outcome::Answered(said) => arguments["said"] = said.into(),
            }
        }
        let found = prompts::found(&call.name, &arguments);
        let found = found.ok_or_else(|| ErrorData::invalid_params(format!("there is no '{}'", call.name), None))?;
        Ok(result::<GetPromptResult>(found)?.into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let named = |uri: &str, kind: &str| json!({"uri": uri, "name": uri, "description": uri, "mimeType": kind});
        result(json!({"resources": [
            named("test://static-text", "text/plain"),
            named("test://static-binary", "image/png"),
            named("test://watched-resource", "text/plain"),
        ]}))
    }

    async fn list_resource_templates(&self, _: Page, _: Context) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = json!({"uriTemplate": "test://template/{id}/data", "name": "template", "description": "by id",
            "mimeType": "application/json"});
        result(json!({"resourceTemplates": [template]}))
    }

    async fn read_resource(
        &self,
        asked: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = resources::found(&asked.uri);
        let found = found.ok_or_else(|| {
            ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": asked.uri})))
        })?;
        Ok(result::<ReadResourceResult>(found)?.into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // The SDK takes from it what the server does not offer.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut following = self.following.clone();
        loop {
            let news = tokio::select! {
                () = context.cancelled() => return Ok(()),
                news = following.next() => news,
            };
            let Some(news) = news else { return Ok(()) };
            for notice in news {
                // What the client did not ask for is refused here, and that is all right.
                if let Err(error) = context.sink().send(notice).await {
                    tracing::debug!(%error, "a change was not told");
                }
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (mut following, client) = (self.following.clone(), context.peer);
        tokio::spawn(async move {
            while let Some(news) = following.next().await {
                for notice in news {
                    if client.send_notification(notice).await.is_err() {
                        return;
                    }
                }
            }
        });
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(&self, asked: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        self.log.set_level(asked.level, &context)
    }
}
