//! How many messages wait for a caller. Every result says so if any do, so that a busy agent notices.

use rookery_core::{Caller, TaskId};
use rookery_engine::projections::unread::Unread;

use super::schema::NOTES;
use super::tool::UnreadReminder;
use super::toolset::Toolset;
use crate::http::App;

/// What waits for the caller. Answered from memory unless something changed.
pub async fn unread(app: &App, caller: &Caller) -> Unread {
    let Some(agent) = caller.actor.agent() else { return Unread::default() };
    app.engine().inbox().count_unread(agent).await.unwrap_or_else(|error| {
        tracing::debug!(%error, %agent, "what waits for an agent could not be counted");
        Unread::default()
    })
}

/// How many are unread, wherever that is told: those that want attention and were not shown to the caller.
pub fn count(unread: &Unread) -> usize {
    unread.inbox + unread.coord
}

/// What a model is told of what waits for it: first of tasks that it was given, for it loses them if it does not take them.
pub fn hint(unread: &Unread, set: Toolset, reminder: UnreadReminder) -> Option<String> {
    let hints: Vec<String> = given(unread, set).into_iter().chain(messages_hint(unread, set, reminder)).collect();
    (!hints.is_empty()).then(|| hints.join(" "))
}

/// The tasks that wait for the caller to take them, with the tool for it, or where to do it if a set has none.
fn given(unread: &Unread, set: Toolset) -> Option<String> {
    let named: Vec<&str> = unread.given.iter().map(TaskId::as_str).collect();
    let how = match set {
        Toolset::All | Toolset::Workflow | Toolset::Team => "task_claim",
        Toolset::Context | Toolset::Coord => "task_claim of the workflow tools",
    };
    match named.as_slice() {
        [] => None,
        [task] => Some(format!("Task {task} is given to you: claim it ({how}), or it goes to somebody else.")),
        tasks => {
            let tasks = tasks.join(", ");
            Some(format!("Tasks {tasks} are given to you: claim them ({how}), or they go to somebody else."))
        }
    }
}

/// The messages, with the tools that show them, or the command where a set has no such tool. What the caller has read and not
/// acknowledged it probably works on: that alone is told only to one that starts afresh.
fn messages_hint(unread: &Unread, set: Toolset, reminder: UnreadReminder) -> Option<String> {
    let (new, read) = (count(unread), unread.inbox_read + unread.coord_read);
    let (what, then) = match (new, read) {
        (0, 0) => return None,
        (0, _) if reminder != UnreadReminder::OfAll => return None,
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

fn ways(unread: &Unread, set: Toolset) -> Vec<&'static str> {
    let inbox = (unread.inbox + unread.inbox_read > 0).then_some(match set {
        Toolset::All | Toolset::Context | Toolset::Team => "inbox_check",
        Toolset::Workflow | Toolset::Coord => "run 'rookery context inbox'",
    });
    let coord = (unread.coord + unread.coord_read > 0).then_some(match set {
        Toolset::All | Toolset::Coord => "coord_check_messages",
        Toolset::Workflow | Toolset::Context | Toolset::Team => "run 'rookery context coord check'",
    });
    inbox.into_iter().chain(coord).collect()
}

/// How many characters a hint adds to a result at most, whichever set the caller is connected to.
pub fn longest_hint(unread: &Unread) -> usize {
    // As a field of the structure, which is more than as a text.
    let field = |hint: String| serde_json::json!({NOTES: [hint]}).to_string().chars().count();
    let hints = Toolset::EVERY.into_iter().filter_map(|set| hint(unread, set, UnreadReminder::Added));
    hints.map(field).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_what_shows_the_messages() {
        let unread = |inbox, coord| Unread { pending: 5, unseen: 5, inbox, coord, ..Unread::default() };
        for (inbox, coord, set, wanted) in [
            (1, 0, Toolset::Team, "You have 1 unread message. Read them (inbox_check) before you go on."),
            (2, 1, Toolset::All, "You have 3 unread messages. Read them (inbox_check, coord_check_messages) before"),
            (0, 1, Toolset::Team, "(run 'rookery context coord check')"),
            (1, 1, Toolset::Coord, "(run 'rookery context inbox', coord_check_messages)"),
        ] {
            let hint = hint(&unread(inbox, coord), set, UnreadReminder::Added).unwrap();
            assert!(hint.contains(wanted), "{hint}");
        }
    }

    #[test]
    fn a_task_that_is_given_is_named_until_it_is_taken() {
        let given = |tasks: &[&str], inbox| {
            let given = tasks.iter().map(|task| TaskId::from(*task)).collect();
            Unread { pending: 1, inbox, inbox_read: 1 - inbox, given, ..Unread::default() }
        };
        let told = |tasks: &[&str], inbox, set| hint(&given(tasks, inbox), set, UnreadReminder::Added).unwrap();
        let both = "Task t is given to you: claim it (task_claim), or it goes to somebody else. You have 1 unread message. \
                    Read them (inbox_check) before you go on.";
        assert_eq!(told(&["t"], 1, Toolset::Team), both);
        let read = "Tasks t, u are given to you: claim them (task_claim), or they go to somebody else.";
        assert_eq!(told(&["t", "u"], 0, Toolset::All), read, "also to one that has read of it");
        assert!(told(&["t"], 0, Toolset::Context).contains("task_claim of the workflow tools"));
    }

    #[test]
    fn what_was_read_is_told_beside_what_was_not_and_at_a_fresh_start() {
        let unread = |inbox| Unread { pending: 9, unseen: 5, inbox, inbox_read: 2, coord_read: 1, ..Unread::default() };
        let told = |inbox, reminder| hint(&unread(inbox), Toolset::All, reminder);
        let ways = "(inbox_check, coord_check_messages) before you go on.";
        let both = format!("You have 4 unread messages, and 3 read but not acknowledged. Read them {ways}");
        let read = format!("You have 3 messages read but not acknowledged. See whether they are done {ways}");
        assert_eq!((told(4, UnreadReminder::Added), told(4, UnreadReminder::OfAll)), (Some(both.clone()), Some(both)));
        assert_eq!((told(0, UnreadReminder::Added), told(0, UnreadReminder::OfAll)), (None, Some(read)));
    }
}
