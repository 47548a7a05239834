//! The messages between an agent and its model: those of this turn, and those that are remembered from earlier turns.
//!
//! They are kept in a file of the agent's state, which is replaced atomically when a turn is done. A failed turn leaves no
//! trace in it; the prompt of the next attempt describes what happened.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::model::{ModelMessage, tokens};

/// Maximum tokens that are remembered between turns. Channel, inbox and documents are in every prompt anyway.
const MAX_REMEMBERED_TOKENS: usize = 32_000;
/// Maximum tokens of a request.
const MAX_REQUEST_TOKENS: usize = 120_000;
const FILE: &str = "conversation.json";
const VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct ModelConversation {
    /// The id of its first turn.
    id: String,
    messages: Vec<ModelMessage>,
    /// Number of messages in each earlier turn, the oldest first.
    earlier: Vec<usize>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct StoredConversation {
    version: u32,
    id: String,
    turns: Vec<Vec<ModelMessage>>,
}

/// The reason why a conversation could not be resumed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConversationLoss {
    #[error("there is no record of the conversation so far; a new one starts")]
    Gone,
    #[error("the record of the conversation so far is damaged and kept as {}; a new one starts", .kept.display())]
    Damaged { kept: PathBuf },
}

impl ModelConversation {
    pub(super) fn new(turn: &str) -> ModelConversation {
        ModelConversation { id: turn.to_owned(), messages: vec![], earlier: vec![] }
    }

    /// Resumes a conversation, or starts one with this turn.
    pub(super) fn open(
        folder: &Path,
        wanted: Option<&str>,
        turn: &str,
    ) -> (ModelConversation, Option<ConversationLoss>) {
        let Some(wanted) = wanted else { return (ModelConversation::new(turn), None) };
        match read(&folder.join(FILE)) {
            Ok(Some(kept)) if kept.id == wanted => {
                let earlier = kept.turns.iter().map(Vec::len).collect();
                (ModelConversation { id: kept.id, messages: kept.turns.concat(), earlier }, None)
            }
            Ok(_) => (ModelConversation::new(turn), Some(ConversationLoss::Gone)),
            Err(kept) => (ModelConversation::new(turn), Some(ConversationLoss::Damaged { kept })),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn messages(&self) -> &[ModelMessage] {
        &self.messages
    }

    /// The messages of this turn.
    pub(super) fn of_this_turn(&self) -> &[ModelMessage] {
        &self.messages[self.earlier.iter().sum()..]
    }

    pub(super) fn add(&mut self, message: ModelMessage) {
        self.messages.push(message);
    }

    /// Removes the messages of earlier turns. Returns whether there were any.
    pub(super) fn forget_earlier(&mut self) -> bool {
        let had = !self.earlier.is_empty();
        while self.forget_oldest() {}
        had
    }

    /// Makes the conversation short enough for a request: removes the oldest turns, and if that is not enough, results of
    /// earlier calls of this turn.
    pub(super) fn fit(&mut self) {
        self.fit_into(MAX_REQUEST_TOKENS);
    }

    fn fit_into(&mut self, most: usize) {
        while self.size() > most && self.forget_oldest() {}
        let mut surplus = self.size().saturating_sub(most);
        let last = self.messages.len().saturating_sub(1);
        let results = self.messages[..last].iter_mut().filter_map(|message| match message {
            ModelMessage::Tools { results } => Some(results),
            ModelMessage::User { .. } | ModelMessage::Model { .. } => None,
        });
        for result in results.flatten() {
            if surplus == 0 {
                return;
            }
            let note =
                format!("(left out here to save space: {} bytes; repeat the call if you need it)", result.text.len());
            if note.len() < result.text.len() {
                surplus = surplus.saturating_sub(tokens(&result.text) - tokens(&note));
                result.text = note;
            }
        }
    }

    fn size(&self) -> usize {
        self.messages.iter().map(size).sum()
    }

    fn forget_oldest(&mut self) -> bool {
        if self.earlier.is_empty() {
            return false;
        }
        let length = self.earlier.remove(0);
        self.messages.drain(..length);
        true
    }

    /// Saves the conversation for the next turn. Replaces the file atomically.
    pub(super) fn save(mut self, folder: &Path) -> io::Result<()> {
        self.earlier.push(self.of_this_turn().len());
        while self.earlier.len() > 1 && self.size() > MAX_REMEMBERED_TOKENS {
            self.forget_oldest();
        }
        let mut messages = self.messages.into_iter();
        let turns = self.earlier.iter().map(|length| messages.by_ref().take(*length).collect()).collect();
        let kept = StoredConversation { version: VERSION, id: self.id, turns };
        let (path, new) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        fs::rename(new, path)
    }
}

fn size(message: &ModelMessage) -> usize {
    serde_json::to_string(message).map_or(0, |text| tokens(&text))
}

/// Reads the file. An unreadable file is moved aside, and its new path is the error.
fn read(path: &Path) -> Result<Option<StoredConversation>, PathBuf> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(path.to_path_buf()),
    };
    let kept = serde_json::from_slice::<StoredConversation>(&bytes).ok().filter(|kept| kept.version == VERSION);
    kept.map(Some).ok_or_else(|| {
        let aside = path.with_extension("damaged");
        // If it cannot be moved, it is reported at its place.
        if fs::rename(path, &aside).is_ok() { aside } else { path.to_path_buf() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sdk::model::ModelCallResult;

    fn user(text: &str) -> ModelMessage {
        ModelMessage::User { text: text.to_owned() }
    }

    fn tool_result(text: String) -> ModelMessage {
        let result = ModelCallResult { id: "1".into(), name: "read".into(), text, failed: false };
        ModelMessage::Tools { results: vec![result] }
    }

    fn kept(folder: &Path, turns: &[&str]) -> String {
        let (mut conversation, _) = ModelConversation::open(folder, None, "turn_1");
        let id = conversation.id().to_owned();
        for text in turns {
            conversation.add(user(text));
            conversation.save(folder).unwrap();
            conversation = ModelConversation::open(folder, Some(&id), "turn_n").0;
        }
        id
    }

    #[test]
    fn conversation_resumes_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let id = kept(folder.path(), &["one", "two"]);
        let (mut conversation, loss) = ModelConversation::open(folder.path(), Some(&id), "turn_9");
        assert_eq!((conversation.id(), loss), ("turn_1", None));
        conversation.add(user("three"));
        assert_eq!(conversation.messages(), [user("one"), user("two"), user("three")]);
        assert_eq!(conversation.of_this_turn(), [user("three")]);
        assert!(conversation.forget_earlier() && !conversation.forget_earlier());
        assert_eq!(conversation.messages(), [user("three")]);
        let (new, loss) = ModelConversation::open(folder.path(), None, "turn_9");
        assert_eq!((new.id(), new.messages().len(), loss), ("turn_9", 0, None));
    }

    #[test]
    fn missing_or_damaged_conversation_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (_, loss) = ModelConversation::open(folder.path(), Some("turn_1"), "turn_2");
        assert_eq!(loss, Some(ConversationLoss::Gone));
        let id = kept(folder.path(), &["one"]);
        assert_eq!(ModelConversation::open(folder.path(), Some("turn_7"), "turn_8").1, Some(ConversationLoss::Gone));
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (conversation, loss) = ModelConversation::open(folder.path(), Some(&id), "turn_2");
            let Some(ConversationLoss::Damaged { kept }) = loss else { panic!("{length} bytes are not enough") };
            assert_eq!((conversation.id(), fs::read(kept).unwrap().len()), ("turn_2", length));
        }
    }

    #[test]
    fn remembered_turns_are_bounded_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(MAX_REMEMBERED_TOKENS);
        let turns: Vec<&str> = std::iter::repeat_n(long.as_str(), 9).chain(["last"]).collect();
        let id = kept(folder.path(), &turns);
        let (conversation, _) = ModelConversation::open(folder.path(), Some(&id), "t");
        assert_eq!(conversation.messages().len(), 4, "three of a quarter each, and the last");
        assert_eq!(conversation.messages()[3], user("last"));
    }

    #[test]
    fn long_conversation_keeps_the_newest_results() {
        let mut conversation = ModelConversation::new("t");
        conversation.add(user("go"));
        for _ in 0..4 {
            conversation.add(tool_result("y".repeat(4000)));
        }
        conversation.fit_into(2500);
        let texts: Vec<usize> = conversation.messages()[1..]
            .iter()
            .map(|message| match message {
                ModelMessage::Tools { results } => results[0].text.len(),
                _ => 0,
            })
            .collect();
        assert!(texts[0] < 100 && texts[1] < 100 && texts[2] == 4000 && texts[3] == 4000, "{texts:?}");
    }
}
