//! What of an inbox another attempt is about.

use std::collections::BTreeSet;

use crate::turn::Message;

/// The messages of the attempt before, without those that the agent acknowledged itself, and nothing that came meanwhile.
/// Empty if it acknowledged all of them and failed then.
pub(crate) fn still_open(before: &[Message], unread: &[Message]) -> Vec<Message> {
    let open: BTreeSet<&str> = unread.iter().map(|message| message.entry.id.as_str()).collect();
    before.iter().filter(|message| open.contains(message.entry.id.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str) -> Message {
        let entry = json!({"id": id, "timestamp": "t", "from": "a", "message": "m"});
        serde_json::from_value(json!({"entry": entry, "priority": "normal"})).unwrap()
    }

    #[test]
    fn another_attempt_is_about_the_same_messages() {
        let [one, two, new] = ["1", "2", "3"].map(message);
        let before = [one.clone(), two.clone()];
        assert_eq!(still_open(&before, &[one.clone(), two.clone(), new.clone()]), before);
        assert_eq!(still_open(&before, &[new.clone(), two.clone()]), [two], "it acknowledged one itself");
        assert_eq!(still_open(&before, &[new]), [], "it acknowledged all");
    }
}
