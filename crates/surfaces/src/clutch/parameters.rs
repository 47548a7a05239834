//! The parameters that each call takes, as its description names them. One that nobody knows is misspelt: to leave it out would be
//! to answer with everything where something was asked for.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Query};
use axum::http::Method;
use axum::http::request::Parts;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use super::{ClutchError, openapi};
use crate::http::openapi::operations;

/// By method and path.
static KNOWN: LazyLock<HashMap<(&'static str, String), Vec<String>>> = LazyLock::new(|| {
    let paths = openapi::document().paths.paths;
    let calls = paths.iter().flat_map(|(path, item)| {
        operations(item).into_iter().map(move |(method, operation)| ((method, path.clone()), named(operation)))
    });
    calls.collect()
});

fn named(operation: &Operation) -> Vec<String> {
    let all = operation.parameters.iter().flatten();
    let written = all.filter_map(|parameter| if let RefOr::T(parameter) = parameter { Some(parameter) } else { None });
    let of_query = written.filter(|parameter| parameter.parameter_in == ParameterIn::Query);
    of_query.map(|parameter| parameter.name.clone()).collect()
}

/// Refuses a request with a parameter that its call does not take.
pub(super) fn check(parts: &Parts) -> Result<(), ClutchError> {
    if parts.uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Some(path) = parts.extensions.get::<MatchedPath>() else { return Ok(()) };
    let Some(known) = KNOWN.get(&(described(&parts.method), path.as_str().to_owned())) else { return Ok(()) };
    // What cannot even be read is told by whoever reads it.
    let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) else { return Ok(()) };
    match given.into_iter().map(|(name, _)| name).find(|name| !known.contains(name)) {
        Some(unknown) => Err(is_unknown(&unknown, known)),
        None => Ok(()),
    }
}

/// How the description writes a method.
fn described(method: &Method) -> &'static str {
    const WRITTEN: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    WRITTEN.into_iter().find(|written| *written == method.as_str()).unwrap_or_default()
}

fn is_unknown(name: &str, known: &[String]) -> ClutchError {
    let hint = match known.is_empty() {
        true => "this call takes no parameters".to_owned(),
        false => format!("this call takes {}", known.join(", ")),
    };
    ClutchError::parameter(name, "is no parameter of this call").hint(hint)
}
