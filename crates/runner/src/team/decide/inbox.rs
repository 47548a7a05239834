//! Chooses the messages of a retry.

use std::collections::BTreeSet;

use crate::turn::TurnMessage;

/// Returns the messages of the previous attempt that the agent has not acknowledged itself. Leaves out messages that arrived
/// since.
pub(crate) fn still_open(before: &[TurnMessage], unread: &[TurnMessage]) -> Vec<TurnMessage> {
    let open: BTreeSet<&str> = unread.iter().map(|message| message.entry.id.as_str()).collect();
    before.iter().filter(|message| open.contains(message.entry.id.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str) -> TurnMessage {
        let entry = json!({"id": id, "timestamp": "t", "from": "a", "message": "m"});
        serde_json::from_value(json!({"entry": entry, "priority": "normal"})).unwrap()
    }

    #[test]
    fn retry_has_the_unacknowledged_messages_of_the_previous_attempt() {
        let [one, two, new] = ["1", "2", "3"].map(message);
        let before = [one.clone(), two.clone()];
        assert_eq!(still_open(&before, &[one.clone(), two.clone(), new.clone()]), before);
        assert_eq!(still_open(&before, &[new.clone(), two.clone()]), [two], "it acknowledged one itself");
        assert_eq!(still_open(&before, &[new]), [], "it acknowledged all");
    }
}
