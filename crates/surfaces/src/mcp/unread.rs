//! How many messages wait for a caller. Every result says so if any do, so that a busy agent notices.

use rookery_core::Caller;
use rookery_engine::messages::Unread;

use super::schema::NOTES;
use super::tool::Reminder;
use super::toolset::Toolset;
use crate::app::App;

/// What waits for the caller. Answered from memory unless something changed.
pub async fn unread(app: &App, caller: &Caller) -> Unread {
    let Some(agent) = caller.actor.agent() else { return Unread::default() };
    app.engine().unread(agent).await.unwrap_or_else(|error| {
        tracing::debug!(%error, %agent, "what waits for an agent could not be counted");
        Unread::default()
    })
}

/// How many are unread, wherever that is told: those that want attention and were not shown to the caller.
pub fn count(unread: Unread) -> usize {
    unread.inbox + unread.coord + unread.envelopes
}

/// What a model is told of them, with the tools that show them, or the command where a set has no such tool. What it has
/// read and not acknowledged it probably works on: that alone is told only to one that starts afresh.
pub fn hint(unread: Unread, set: Toolset, reminder: Reminder) -> Option<String> {
    let (new, read) = (count(unread), unread.inbox_read + unread.coord_read);
    let (what, then) = match (new, read) {
        (0, 0) => return None,
        (0, _) if reminder != Reminder::OfAll => return None,
        (0, read) => (format!("{} read but not acknowledged", messages(read, "")), "See whether they are done"),
        (new, 0) => (messages(new, "unread "), "Read them"),
        (new, read) => (format!("{}, and {read} read but not acknowledged", messages(new, "unread ")), "Read them"),
    };
    let ways = ways(unread, set).join(", ");
    Some(format!("You have {what}. {then} ({ways}) before you go on."))
}

fn messages(count: usize, kind: &str) -> String {
    format!("{count} {kind}{}", if count == 1 { "message" } else { "messages" })
}

fn ways(unread: Unread, set: Toolset) -> Vec<&'static str> {
    let inbox = (unread.inbox + unread.inbox_read > 0).then_some(match set {
        Toolset::All | Toolset::Context | Toolset::Team => "inbox_check",
        Toolset::Workflow | Toolset::Coord => "run 'rookery context inbox'",
    });
    let coord = (unread.coord + unread.coord_read > 0).then_some(match set {
        Toolset::All | Toolset::Coord => "coord_check_messages",
        Toolset::Workflow | Toolset::Context | Toolset::Team => "run 'rookery context coord check'",
    });
    let envelopes = (unread.envelopes > 0).then_some("run 'rookery deliveries'");
    inbox.into_iter().chain(coord).chain(envelopes).collect()
}

/// How many characters a hint adds to a result at most, whichever set the caller is connected to.
pub fn longest_hint(unread: Unread) -> usize {
    // As a field of the structure, which is more than as a text.
    let field = |hint: String| serde_json::json!({NOTES: [hint]}).to_string().chars().count();
    let hints = Toolset::EVERY.into_iter().filter_map(|set| hint(unread, set, Reminder::Added));
    hints.map(field).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_what_shows_the_messages() {
        let given = Unread { pending: 1, unseen: 1, envelopes: 1, ..Unread::default() };
        let told = hint(given, Toolset::Team, Reminder::Added).unwrap();
        assert!(told.contains("(run 'rookery deliveries')"), "{told}");
        let unread = |inbox, coord| Unread { pending: 5, unseen: 5, inbox, coord, ..Unread::default() };
        for (inbox, coord, set, wanted) in [
            (1, 0, Toolset::Team, "You have 1 unread message. Read them (inbox_check) before you go on."),
            (2, 1, Toolset::All, "You have 3 unread messages. Read them (inbox_check, coord_check_messages) before"),
            (0, 1, Toolset::Team, "(run 'rookery context coord check')"),
            (1, 1, Toolset::Coord, "(run 'rookery context inbox', coord_check_messages)"),
        ] {
            let hint = hint(unread(inbox, coord), set, Reminder::Added).unwrap();
            assert!(hint.contains(wanted), "{hint}");
        }
    }

    #[test]
    fn what_was_read_is_told_beside_what_was_not_and_at_a_fresh_start() {
        let unread = |inbox| Unread { pending: 9, unseen: 5, inbox, inbox_read: 2, coord_read: 1, ..Unread::default() };
        let told = |inbox, reminder| hint(unread(inbox), Toolset::All, reminder);
        let ways = "(inbox_check, coord_check_messages) before you go on.";
        let both = format!("You have 4 unread messages, and 3 read but not acknowledged. Read them {ways}");
        let read = format!("You have 3 messages read but not acknowledged. See whether they are done {ways}");
        assert_eq!((told(4, Reminder::Added), told(4, Reminder::OfAll)), (Some(both.clone()), Some(both)));
        assert_eq!((told(0, Reminder::Added), told(0, Reminder::OfAll)), (None, Some(read)));
    }
}
