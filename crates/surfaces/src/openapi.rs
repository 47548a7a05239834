//! The description of all surfaces over HTTP as OpenAPI 3.1, made from their handlers, and the address that serves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use axum::http::{Method, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Content, OpenApi as Document, PathItem, Ref, RefOr, Response, ResponseBuilder};

use crate::http::error::ErrorBody;
use crate::http::{App, ops};
use crate::{clutch, rest};

#[derive(OpenApi)]
#[openapi(
    info(title = "Rookery", description = "Agents of any make work as one team: REST v0.1 and what belongs to it."),
    paths(ops::healthz, ops::readyz, ops::show_metrics),
    components(schemas(ErrorBody))
)]
struct Api;

pub fn routes() -> Router<App> {
    Router::new().route("/openapi.json", get(serve))
}

/// What any call may be answered with, besides what it says itself: a status, what it means, and its codes.
const ERRORS: [(&str, &str, &[&str]); 12] = [
    ("400", "The request is not what is expected; the error names the field.", &["INVALID"]),
    ("401", "A token is needed, or the one given is not valid.", &["UNAUTHENTICATED"]),
    (
        "403",
        "The caller may not do this, or the request came from elsewhere.",
        &["FORBIDDEN", "CREDENTIAL_REQUIRED", "FOREIGN_HOST", "FOREIGN_ORIGIN"],
    ),
    ("404", "There is nothing of that name.", &[]),
    ("408", "The request took too long.", &["TIMEOUT"]),
    ("409", "It does not fit what is so now: a claim, a state, an earlier answer.", &[]),
    ("413", "The body is too large.", &["TOO_LARGE"]),
    ("415", "The body is not JSON.", &["UNSUPPORTED_MEDIA_TYPE"]),
    ("421", "This daemon serves another project.", &["OTHER_PROJECT"]),
    ("422", "The idempotency key was used for another request.", &["IDEMPOTENCY_MISMATCH"]),
    ("429", "Too many requests of this agent are under way.", &["TOO_MANY_REQUESTS"]),
    (
        "503",
        "The store cannot take it right now; the code says whether anything was done.",
        &["BUSY", "STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "STOPPING"],
    ),
];

#[derive(Serialize)]
struct Description {
    #[serde(flatten)]
    document: Document,
    components: Parts,
}

#[derive(Serialize)]
struct Parts {
    schemas: BTreeMap<String, Part>,
}

/// Most schemas are made from types; some can say more than a type can.
#[derive(Serialize)]
#[serde(untagged)]
enum Part {
    OfType(Box<RefOr<Schema>>),
    Written(Value),
}

/// The whole description, as it is sent.
pub fn description() -> impl Serialize {
    let mut document = document();
    let parts = document.components.take().unwrap_or_default().schemas;
    let mut schemas: BTreeMap<String, Part> =
        parts.into_iter().map(|(name, schema)| (name, Part::OfType(Box::new(schema)))).collect();
    schemas
        .extend(clutch::openapi::schemas().into_iter().map(|(name, schema)| (name.to_owned(), Part::Written(schema))));
    Description { document, components: Parts { schemas } }
}

/// The calls, and the types of what they take and answer.
pub fn document() -> Document {
    let mut document = Api::openapi();
    document.merge(rest::openapi::document());
    document.merge(clutch::openapi::document());
    for (path, item) in &mut document.paths.paths {
        let body = if clutch::is_at(path) { "ClutchErrorBody" } else { "ErrorBody" };
        for operation in with_body_mut(item) {
            describe_errors(operation, Some(body));
        }
        if let Some(head) = &mut item.head {
            describe_errors(head, None);
        }
    }
    document
}

/// The names of the query parameters that a method of a route takes, if it is described.
pub fn query_parameters(method: &Method, route: &str) -> Option<&'static [String]> {
    static DESCRIBED: OnceLock<HashMap<(Method, String), Vec<String>>> = OnceLock::new();
    let described = DESCRIBED.get_or_init(|| {
        let paths = document().paths.paths.into_iter().filter(|(path, _)| !clutch::is_hook(path));
        let named = |(path, item): (String, PathItem)| {
            query_names(&item).map(move |(method, names)| ((method, path.clone()), names)).collect::<Vec<_>>()
        };
        paths.flat_map(named).collect()
    });
    // A route says that its last part may have slashes; a description cannot.
    described.get(&(method.clone(), route.replace("{*", "{"))).map(Vec::as_slice)
}

/// The names of the query parameters of each operation at a path. `HEAD` takes those of `GET`.
fn query_names(item: &PathItem) -> impl Iterator<Item = (Method, Vec<String>)> + use<> {
    let names = |operation: &Operation| -> Vec<String> {
        let name = |parameter: &RefOr<Parameter>| match parameter {
            RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
            _ => None,
        };
        operation.parameters.iter().flatten().filter_map(name).collect()
    };
    let operations = [
        (Method::GET, &item.get),
        (Method::HEAD, if item.head.is_some() { &item.head } else { &item.get }),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    operations.map(|(method, operation)| Some((method, names(operation.as_ref()?)))).into_iter().flatten()
}

/// Adds what any call may be answered with, and names the codes of each status.
fn describe_errors(operation: &mut Operation, body: Option<&str>) {
    let own = clutch::openapi::refusals(operation.operation_id.as_deref().unwrap_or_default());
    let responses = &mut operation.responses.responses;
    for (status, text, _) in ERRORS {
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(error(text, body)));
    }
    for (status, response) in responses {
        let RefOr::T(response) = response else { continue };
        let of_all = ERRORS.iter().filter(|(known, _, _)| known == status);
        let text = of_all.clone().map(|(_, text, _)| *text).next();
        let own = own.iter().filter(|(known, _)| known == status).flat_map(|(_, codes)| codes);
        let codes: Vec<String> =
            of_all.flat_map(|(_, _, codes)| *codes).chain(own).map(|code| format!("`{code}`")).collect();
        if response.description.is_empty() {
            let usual = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok()?.canonical_reason());
            text.or(usual).unwrap_or_default().clone_into(&mut response.description);
        }
        if !codes.is_empty() {
            response.description = format!("{} Codes: {}.", response.description, codes.join(", ")).trim().to_owned();
        }
    }
}

fn error(text: &str, body: Option<&str>) -> Response {
    let response = ResponseBuilder::new().description(text);
    match body {
        Some(body) => {
            let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name(body))));
            response.content("application/json", content).build()
        }
        None => response.build(),
    }
}

async fn serve() -> Json<impl Serialize> {
    Json(description())
}

fn with_body_mut(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_resolves() {
        let document = serde_json::to_value(description()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        let missing: Vec<&String> = found
            .iter()
            .filter(|reference| reference.strip_prefix('#').is_none_or(|pointer| document.pointer(pointer).is_none()))
            .collect();
        assert!(!found.is_empty() && missing.is_empty(), "{missing:?}");
    }
}
