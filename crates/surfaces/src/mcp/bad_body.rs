//! What is answered to a body that is no message. The SDK calls it an unsupported media type, in plain text; a client of
//! JSON-RPC wants an error that it can read.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use serde_json::{Value, json};

/// The answer to this body; `None` if it is a message, so that something else is wrong with the request.
pub fn answer(body: &[u8]) -> Option<Response> {
    if serde_json::from_slice::<ClientJsonRpcMessage>(body).is_ok() {
        return None;
    }
    let (code, message, id) = match serde_json::from_slice::<Value>(body) {
        Err(error) => (ErrorCode::PARSE_ERROR, format!("the body is not JSON: {error}"), Value::Null),
        Ok(Value::Array(_)) => {
            let one = "the body is a list of messages; send each of them by itself";
            (ErrorCode::INVALID_REQUEST, one.to_owned(), Value::Null)
        }
        Ok(value) => {
            let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default();
            (ErrorCode::INVALID_REQUEST, "the body is not a message of JSON-RPC 2.0".to_owned(), id)
        }
    };
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}});
    Some((StatusCode::BAD_REQUEST, Json(error)).into_response())
}
