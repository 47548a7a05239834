//! The one place that knows how many messages wait for a caller. Every result carries the number if it is not zero, so
//! that a busy agent notices.

use rookery_core::Caller;

use crate::app::App;

/// How many messages the caller has not read.
pub async fn unread(_app: &App, _caller: &Caller) -> u64 {
    0
}

/// What a model is told of them.
pub fn hint(unread: u64) -> String {
    let messages = if unread == 1 { "message" } else { "messages" };
    format!("You have {unread} unread {messages}. Read them (inbox_check) before you go on.")
}
