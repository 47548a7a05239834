//! How many messages wait for a caller. Every result says so if any do, so that a busy agent notices.

use rookery_core::Caller;
use rookery_engine::messages::Unread;

use super::schema::NOTES;
use super::toolset::Toolset;
use crate::app::App;

/// What waits for the caller and was not shown to it. Answered from memory unless something changed.
pub async fn unread(app: &App, caller: &Caller) -> Unread {
    let Some(agent) = caller.actor.agent() else { return Unread::default() };
    app.engine().unread(agent).await.unwrap_or_else(|error| {
        tracing::debug!(%error, %agent, "what waits for an agent could not be counted");
        Unread::default()
    })
}

/// How many of them want attention.
pub fn count(unread: Unread) -> usize {
    unread.inbox + unread.coord
}

/// What a model is told of them, with the tools that show them, or the command where a set has no such tool.
pub fn hint(unread: Unread, set: Toolset) -> String {
    let count = count(unread);
    let messages = if count == 1 { "message" } else { "messages" };
    let inbox = (unread.inbox > 0).then_some(match set {
        Toolset::All | Toolset::Context | Toolset::Team => "inbox_check",
        Toolset::Workflow | Toolset::Coord => "run 'rookery context inbox'",
    });
    let coord = (unread.coord > 0).then_some(match set {
        Toolset::All | Toolset::Coord => "coord_check_messages",
        Toolset::Workflow | Toolset::Context | Toolset::Team => "run 'rookery context coord check'",
    });
    let ways: Vec<&str> = inbox.into_iter().chain(coord).collect();
    format!("You have {count} unread {messages}. Read them ({}) before you go on.", ways.join(", "))
}

/// How many characters a hint adds to a result at most, whichever set the caller is connected to.
pub fn longest_hint(unread: Unread) -> usize {
    if count(unread) == 0 {
        return 0;
    }
    // As a field of the structure, which is more than as a text.
    let field = |set| serde_json::json!({NOTES: [hint(unread, set)]}).to_string().chars().count();
    Toolset::EVERY.into_iter().map(field).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_what_shows_the_messages() {
        let unread = |inbox, coord| Unread { pending: 5, unseen: 5, inbox, coord };
        for (inbox, coord, set, wanted) in [
            (1, 0, Toolset::Team, "You have 1 unread message. Read them (inbox_check) before you go on."),
            (2, 1, Toolset::All, "You have 3 unread messages. Read them (inbox_check, coord_check_messages) before"),
            (0, 1, Toolset::Team, "(run 'rookery context coord check')"),
            (1, 1, Toolset::Coord, "(run 'rookery context inbox', coord_check_messages)"),
        ] {
            assert!(hint(unread(inbox, coord), set).contains(wanted), "{}", hint(unread(inbox, coord), set));
        }
    }
}
