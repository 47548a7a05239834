//! Parts of the protocol, written as they go over the wire.

use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The smallest picture and the smallest sound.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
pub const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// A part of the protocol, written as it goes over the wire.
pub fn wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// A result; newer versions of the protocol want to hear that it is complete.
pub fn result<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = "complete".into();
    wire(value)
}

pub fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

pub fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

pub fn embedded(uri: &str, kind: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}})
}

pub fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
