//! Reading a description in OpenAPI.

use utoipa::openapi::PathItem;
use utoipa::openapi::path::Operation;

/// The operations of a path with their methods.
pub fn operations(item: &PathItem) -> Vec<(&'static str, &Operation)> {
    let all = [
        ("GET", &item.get),
        ("HEAD", &item.head),
        ("POST", &item.post),
        ("PUT", &item.put),
        ("PATCH", &item.patch),
        ("DELETE", &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| operation.as_ref().map(|operation| (method, operation))).collect()
}
