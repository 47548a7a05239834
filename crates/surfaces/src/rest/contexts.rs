//! Contexts of instances: what each is kept in, and configuring it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::contexts::ConfigureContext;
use rookery_core::kernel::instance::Instance;
use rookery_core::model::context_settings::{ContextSettings, Provider, Scope};
use rookery_engine::At;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{Call, JsonBody, Segment};

/// The context of an instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ContextInfo {
    pub instance: String,
    /// file, memory or off.
    pub provider: String,
    /// The folder of the files, relative to the project.
    pub dir: String,
    pub channel: String,
    /// The entry point.
    pub document: String,
    pub documents: Vec<String>,
    /// The site whose folder holds the files, if one was named.
    pub site: Option<String>,
    /// Whether files are kept here right now.
    pub rendered: bool,
    /// Where its socket is while files are kept here.
    pub socket: Option<String>,
}

/// What to configure; what is not said is as the project's defaults have it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextRequest {
    /// file, memory or off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Relative to the project; `${{ instance }}` stands for the instance's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<String>>,
}

impl ContextRequest {
    fn settings(&self) -> Result<ContextSettings, HttpError> {
        let provider = match self.provider.as_deref() {
            None => None,
            Some(text) => {
                Some(Provider::parse(text).ok_or_else(|| HttpError::invalid("provider must be file, memory or off"))?)
            }
        };
        let ContextRequest { dir, channel, document, documents, .. } = self.clone();
        Ok(ContextSettings { provider, dir, channel, document, documents })
    }
}

/// The contexts that were configured or have files here.
#[utoipa::path(get, path = "/contexts", tag = "contexts", responses((status = 200, body = Vec<ContextInfo>)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let mut instances = app.engine().contexts().list_instances().await?;
    instances.extend(app.about().rendered.borrow().folders.iter().map(|folder| folder.instance.clone()));
    instances.sort();
    instances.dedup();
    let mut shown = Vec::new();
    for instance in instances {
        shown.push(info(&app, &instance).await?);
    }
    let head = app.engine().query().tallies().await?.head;
    Ok(answer::at(At { value: shown, head }))
}

/// The context of an instance.
#[utoipa::path(get, path = "/contexts/{instance}", tag = "contexts", params(("instance" = String, Path)),
    responses((status = 200, body = ContextInfo)))]
pub async fn get(State(app): State<App>, call: Call, Segment(name): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let value = info(&app, &Instance::new(name)).await?;
    let head = app.engine().query().tallies().await?.head;
    Ok(answer::at(At { value, head }))
}

/// Configure the context of an instance. For the lead and people.
#[utoipa::path(put, path = "/contexts/{instance}", tag = "contexts", params(("instance" = String, Path)),
    request_body = ContextRequest, responses((status = 200, body = ContextInfo)))]
pub async fn configure(
    call: Call,
    Segment(name): Segment,
    body: JsonBody<ContextRequest>,
) -> Result<Response, HttpError> {
    let instance = Instance::new(name);
    let engine = call.app().engine();
    let command = ConfigureContext {
        scope: Scope::of(&instance),
        settings: body.value.settings()?,
        // Where folders differ, the files are in that of the node that was asked.
        site: engine.cluster().site(),
    };
    let committed = call.submit(call.caller(None)?, command, &body.bytes).await?;
    let shown = info(call.app(), &instance).await?;
    Ok(answer::written(StatusCode::OK, &committed, shown))
}

async fn info(app: &App, instance: &Instance) -> Result<ContextInfo, HttpError> {
    let context = app.engine().contexts().get(instance).await?;
    let rendered = app.about().rendered.borrow().clone();
    let here = rendered.folders.iter().find(|folder| folder.instance == *instance);
    let socket = here.map(|here| app.sockets().at(&here.path).display().to_string());
    Ok(ContextInfo {
        instance: instance.to_string(),
        provider: context.provider.as_str().to_owned(),
        dir: context.folder.as_str().to_owned(),
        channel: context.channel,
        document: context.document.to_string(),
        documents: context.documents.iter().map(ToString::to_string).collect(),
        site: context.site.map(|site| site.to_string()),
        rendered: here.is_some(),
        socket,
    })
}
