//! The description of this face as OpenAPI 3.1, made from the handlers.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, OpenApi as Document, PathItem, Ref, RefOr, Response, ResponseBuilder};

use super::wire::{self, ErrorBody};
use super::{admin, agents, contexts, events, handoffs, held, resources, status, stream, tasks};
use crate::clutch::{self, ClutchErrorBody, artifacts};
use crate::ops;

#[derive(OpenApi)]
#[openapi(
    info(title = "Rookery", description = "Agents of any make work as one team: REST v0.1 and what belongs to it."),
    paths(
        status::status,
        status::state,
        agents::announce,
        agents::heartbeat,
        agents::set_status,
        agents::leave,
        agents::list,
        agents::get,
        resources::claim,
        resources::release,
        resources::resolve,
        resources::lock,
        resources::unlock,
        resources::list,
        resources::get,
        tasks::create,
        tasks::update,
        tasks::assign,
        tasks::retry,
        tasks::cancel,
        tasks::list,
        tasks::get,
        handoffs::create,
        handoffs::accept,
        handoffs::reject,
        handoffs::list,
        handoffs::get,
        events::list,
        events::get,
        events::report,
        stream::stream,
        contexts::list,
        contexts::get,
        contexts::configure,
        admin::info,
        admin::list_tokens,
        admin::create_token,
        admin::revoke_token,
        admin::redact,
        admin::collect_artifacts,
        held::list,
        held::decide,
        clutch::agents::register,
        clutch::agents::list,
        clutch::agents::get,
        clutch::agents::leave,
        clutch::agents::heartbeat,
        clutch::inbox::pull,
        clutch::inbox::ack,
        clutch::adapters::list,
        clutch::adapters::retry,
        clutch::adapters::let_go,
        clutch::deliveries::list,
        clutch::deliveries::retry,
        clutch::groups::list,
        clutch::groups::get,
        clutch::groups::set,
        clutch::groups::remove,
        clutch::schemas::list,
        clutch::schemas::get,
        clutch::schemas::register,
        clutch::workflows::list,
        clutch::workflows::get,
        clutch::workflows::define,
        ops::healthz,
        ops::readyz,
        ops::show_metrics,
        artifacts::upload,
        artifacts::list,
        artifacts::download,
        clutch::envelopes::ingest,
        clutch::envelopes::get,
        clutch::hooks::receive,
        clutch::messages::list,
        clutch::router::explain,
        clutch::runs::list,
        clutch::runs::tree,
        clutch::replay::replay,
        clutch::retry::retry,
        clutch::stream::stream,
    ),
    components(schemas(ErrorBody, ClutchErrorBody, wire::ResourceFilter, wire::TaskStatus, wire::HandoffStatus))
)]
struct Api;

/// What any call may be answered with, besides what it says itself.
const ERRORS: [(&str, &str); 12] = [
    ("400", "The request is not what is expected; the error names the field."),
    ("401", "A token is needed, or the one given is not valid."),
    ("403", "The caller may not do this, or the request came from elsewhere."),
    ("404", "There is nothing of that name."),
    ("408", "The request took too long."),
    ("409", "It does not fit what is so now: a claim, a state, an earlier answer."),
    ("413", "The body is too large."),
    ("415", "The body is not JSON."),
    ("421", "This daemon serves another project."),
    ("422", "The idempotency key was used for another request."),
    ("429", "Too many requests of this agent are under way."),
    ("503", "The store cannot take it right now; the code says whether anything was done."),
];

/// The whole description.
pub fn document() -> Document {
    let mut document = Api::openapi();
    for (path, item) in &mut document.paths.paths {
        let body = if path.starts_with(clutch::ROOT) { "ClutchErrorBody" } else { "ErrorBody" };
        for operation in operations_mut(item) {
            for (code, text) in ERRORS {
                operation.responses.responses.entry(code.to_owned()).or_insert_with(|| RefOr::T(error(text, body)));
            }
        }
    }
    document
}

fn error(text: &str, body: &str) -> Response {
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name(body))));
    ResponseBuilder::new().description(text).content("application/json", content).build()
}

pub async fn serve() -> Json<Document> {
    Json(document())
}

fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// The operations of a path with their methods.
pub fn operations(item: &PathItem) -> Vec<(&'static str, &Operation)> {
    let all = [
        ("GET", &item.get),
        ("POST", &item.post),
        ("PUT", &item.put),
        ("PATCH", &item.patch),
        ("DELETE", &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| operation.as_ref().map(|operation| (method, operation))).collect()
}
