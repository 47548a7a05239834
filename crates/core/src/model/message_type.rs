//! What a message is about: the types of the protocol, and types of somebody's own, which begin with `x.`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::limit;
use crate::kernel::parse::{FaultCode, Flaw, quoted};

macro_rules! message_types {
    ($($name:ident = $text:literal),+ $(,)?) => {
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum MessageType {
            $($name,)+
            /// A type that the protocol does not know, `x.` and any name: kept, shown and delivered, with no effect.
            Extension(Arc<str>),
        }

        impl MessageType {
            /// The types that the protocol names.
            pub const KNOWN: &'static [MessageType] = &[$(MessageType::$name),+];

            pub fn as_str(&self) -> &str {
                match self {
                    $(MessageType::$name => $text,)+
                    MessageType::Extension(name) => name,
                }
            }
        }
    };
}

message_types! {
    TaskRequest = "task.request",
    TaskAccept = "task.accept",
    TaskProgress = "task.progress",
    TaskResult = "task.result",
    TaskError = "task.error",
    TaskCancel = "task.cancel",
    TaskTimeout = "task.timeout",
    ChatMessage = "chat.message",
    ChatSystem = "chat.system",
    ToolCall = "tool.call",
    ToolResult = "tool.result",
    ToolError = "tool.error",
    AgentRegister = "agent.register",
    AgentHeartbeat = "agent.heartbeat",
    AgentUpdate = "agent.update",
    RoutingDecision = "routing.decision",
    RoutingFailure = "routing.failure",
}

impl MessageType {
    pub fn parse(text: &str) -> Option<MessageType> {
        if let Some(known) = MessageType::KNOWN.iter().find(|known| known.as_str() == text) {
            return Some(known.clone());
        }
        is_extension(text).then(|| MessageType::Extension(text.into()))
    }

    /// Whether only the daemon sends it. Routing is its own account of what it decided. A task times out by its clock
    /// alone: an agent whose work took too long says so by `task.error`, or there would be two truths about a task.
    pub fn is_internal(&self) -> bool {
        matches!(self, MessageType::TaskTimeout | MessageType::RoutingDecision | MessageType::RoutingFailure)
    }
}

fn is_extension(text: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    text.len() <= limit::NAME_BYTES && text.strip_prefix("x.").is_some_and(|name| name.split('.').all(fits))
}

/// A type that somebody outside may send.
pub(crate) fn incoming(text: &str) -> Result<MessageType, Flaw> {
    match MessageType::parse(text) {
        Some(MessageType::TaskTimeout) => Err(reserved(
            "'task.timeout' is sent by the daemon, which keeps the time; an agent that ran out of it sends 'task.error'",
        )),
        Some(internal) if internal.is_internal() => {
            Err(reserved(format!("'{internal}' is sent by the daemon alone, which tells by it how work is assigned")))
        }
        Some(known) => Ok(known),
        None => Err(Flaw::new(FaultCode::UnknownType, unknown(text))),
    }
}

fn reserved(message: impl Into<String>) -> Flaw {
    Flaw::new(FaultCode::ReservedType, message)
}

fn unknown(text: &str) -> String {
    let known: Vec<_> =
        MessageType::KNOWN.iter().filter(|known| !known.is_internal()).map(MessageType::as_str).collect();
    format!(
        "{} is no type of the protocol: expected one of {}, or one of your own that begins with 'x.' (letters, digits, '_', '-' and single dots)",
        quoted(text),
        known.join(", ")
    )
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<MessageType> for String {
    fn from(message_type: MessageType) -> String {
        message_type.as_str().to_owned()
    }
}

impl TryFrom<String> for MessageType {
    type Error = String;

    fn try_from(text: String) -> Result<MessageType, String> {
        MessageType::parse(&text).ok_or_else(|| unknown(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_back_as_written() {
        for known in MessageType::KNOWN {
            assert_eq!(MessageType::parse(known.as_str()).as_ref(), Some(known));
            assert_eq!(incoming(known.as_str()).is_err(), known.is_internal(), "{known}");
        }
        assert_eq!(MessageType::KNOWN.len(), 17);
        for own in ["x.deploy", "x.acme.build-done.v2", "x.A_b"] {
            assert_eq!(incoming(own).unwrap().as_str(), own);
        }
    }

    #[test]
    fn other_types_are_unknown() {
        let long = format!("x.{}", "a".repeat(limit::NAME_BYTES));
        for text in
            ["", "x", "x.", "x..a", "x.a.", "X.a", "x.a b", "x.ä", "task", "task.requested", "TASK.REQUEST", &long]
        {
            assert_eq!(incoming(text).unwrap_err().code, FaultCode::UnknownType, "{text}");
        }
    }
}
