//! Which log messages a client hears.

use std::sync::{Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{LoggingLevel, ProtocolVersion, SetLevelRequestMethod};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

use crate::wire::{failed, wire};

/// A session's level. Without a session every request says its own, and one that says none hears nothing.
pub struct Log(Mutex<LoggingLevel>);

impl Default for Log {
    fn default() -> Log {
        Log(Mutex::new(LoggingLevel::Debug))
    }
}

impl Log {
    pub fn set_level(&self, level: LoggingLevel, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if is_without_session(context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level;
        Ok(())
    }

    pub async fn info(&self, said: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let level = if is_without_session(context) {
            context.meta.log_level()
        } else {
            Some(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
        };
        // The levels are declared from the least to the most serious.
        if level.is_none_or(|level| level as u8 > LoggingLevel::Info as u8) {
            return Ok(());
        }
        let notice = wire(json!({"level": "info", "data": said}))?;
        context.peer.notify_logging_message(notice).await.map_err(failed)
    }
}

fn is_without_session(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}
