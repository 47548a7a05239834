//! Classifies the actions of an agent in a turn: whether it sent messages, and whether it did more than communicate.

/// Prefixes of tools for communication. All other tools are work.
const TALK: [&str; 5] = ["channel_", "inbox_", "coord_", "message_", "agent_"];

/// Whether an event kind stands for a message that the agent sent.
pub(crate) fn is_sent(kind: &str) -> bool {
    kind.starts_with("message.sent") || kind.starts_with("message.held")
}

/// Whether an event kind is more than communication.
pub(crate) fn is_work(kind: &str) -> bool {
    !kind.starts_with("message.") && !kind.starts_with("agent.")
}

/// Whether a tool does more than communicate. Programs add prefixes to our tools, as in `mcp__rookery__channel_send`.
pub(crate) fn is_work_tool(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    let own = own.strip_prefix("rookery_").or_else(|| own.strip_prefix("rookery.")).unwrap_or(own);
    !TALK.iter().any(|talk| own.starts_with(talk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talk_is_distinguished_from_work() {
        for talk in ["channel_send", "mcp__rookery__inbox_ack", "rookery_channel_read", "rookery.inbox_check"] {
            assert!(!is_work_tool(talk), "{talk}");
        }
        for work in ["Bash", "mcp__rookery__task_claim", "document_write", "edit"] {
            assert!(is_work_tool(work), "{work}");
        }
        assert!(is_sent("message.sent") && is_sent("message.held") && !is_sent("message.acked"));
        assert!(is_work("task.completed") && !is_work("message.read"));
    }
}
