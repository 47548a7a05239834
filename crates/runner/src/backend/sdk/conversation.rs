//! What an agent and its model have said to each other: this turn, and what is remembered of the turns before it.
//!
//! It is kept as a file of the agent's own state, written whole when a turn is done. A turn that failed leaves no trace in
//! it: the next attempt is told by its prompt what happened.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::model::{Message, tokens};

/// What is remembered from one turn to the next, in tokens. Channel, inbox and documents are in every prompt anyway.
const REMEMBERED: usize = 32_000;
/// What a question may have in all.
const ASKED: usize = 120_000;
const FILE: &str = "conversation.json";
const VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct Conversation {
    /// Named after its first turn.
    id: String,
    messages: Vec<Message>,
    /// How many messages each earlier turn has, the oldest first.
    earlier: Vec<usize>,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    id: String,
    turns: Vec<Vec<Message>>,
}

/// Why an agent does not remember what it should.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Forgotten {
    #[error("there is no record of the conversation so far; it begins anew")]
    Gone,
    #[error("the record of the conversation so far is damaged and kept as {}; it begins anew", .kept.display())]
    Damaged { kept: PathBuf },
}

impl Conversation {
    pub(super) fn new(turn: &str) -> Conversation {
        Conversation { id: turn.to_owned(), messages: vec![], earlier: vec![] }
    }

    /// Goes on with a conversation, or begins one with this turn.
    pub(super) fn open(folder: &Path, wanted: Option<&str>, turn: &str) -> (Conversation, Option<Forgotten>) {
        let Some(wanted) = wanted else { return (Conversation::new(turn), None) };
        match read(&folder.join(FILE)) {
            Ok(Some(kept)) if kept.id == wanted => {
                let earlier = kept.turns.iter().map(Vec::len).collect();
                (Conversation { id: kept.id, messages: kept.turns.concat(), earlier }, None)
            }
            Ok(_) => (Conversation::new(turn), Some(Forgotten::Gone)),
            Err(kept) => (Conversation::new(turn), Some(Forgotten::Damaged { kept })),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What was said in this turn.
    pub(super) fn of_this_turn(&self) -> &[Message] {
        &self.messages[self.earlier.iter().sum()..]
    }

    pub(super) fn add(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Leaves out all that is not of this turn; false if there was nothing.
    pub(super) fn forget_earlier(&mut self) -> bool {
        let had = !self.earlier.is_empty();
        while self.forget_oldest() {}
        had
    }

    /// Makes it short enough to be asked: without the oldest turns, and if that is not enough, without what earlier calls of
    /// this one brought.
    pub(super) fn fit(&mut self) {
        self.fit_into(ASKED);
    }

    fn fit_into(&mut self, most: usize) {
        while self.size() > most && self.forget_oldest() {}
        let mut surplus = self.size().saturating_sub(most);
        let last = self.messages.len().saturating_sub(1);
        let results = self.messages[..last].iter_mut().filter_map(|message| match message {
            Message::Tools { results } => Some(results),
            Message::User { .. } | Message::Model { .. } => None,
        });
        for result in results.flatten() {
            if surplus == 0 {
                return;
            }
            let note =
                format!("(left out here for want of room: {} bytes; call it again if you need it)", result.text.len());
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

    /// Keeps it for the next turn. It is in the file whole, or the file is as it was.
    pub(super) fn keep(mut self, folder: &Path) -> io::Result<()> {
        self.earlier.push(self.of_this_turn().len());
        while self.earlier.len() > 1 && self.size() > REMEMBERED {
            self.forget_oldest();
        }
        let mut messages = self.messages.into_iter();
        let turns = self.earlier.iter().map(|length| messages.by_ref().take(*length).collect()).collect();
        let kept = Kept { version: VERSION, id: self.id, turns };
        let (path, new) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        fs::rename(new, path)
    }
}

fn size(message: &Message) -> usize {
    serde_json::to_string(message).map_or(0, |text| tokens(&text))
}

/// What is in the file. If that cannot be read, the file is put aside, and this is where.
fn read(path: &Path) -> Result<Option<Kept>, PathBuf> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(path.to_path_buf()),
    };
    let kept = serde_json::from_slice::<Kept>(&bytes).ok().filter(|kept| kept.version == VERSION);
    kept.map(Some).ok_or_else(|| {
        let aside = path.with_extension("damaged");
        // Where it stays does not matter much; that it is told does.
        if fs::rename(path, &aside).is_ok() { aside } else { path.to_path_buf() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sdk::model::CallResult;

    fn user(text: &str) -> Message {
        Message::User { text: text.to_owned() }
    }

    fn brought(text: String) -> Message {
        let result = CallResult { id: "1".into(), name: "read".into(), text, failed: false };
        Message::Tools { results: vec![result] }
    }

    fn kept(folder: &Path, turns: &[&str]) -> String {
        let (mut conversation, _) = Conversation::open(folder, None, "turn_1");
        let id = conversation.id().to_owned();
        for text in turns {
            conversation.add(user(text));
            conversation.keep(folder).unwrap();
            conversation = Conversation::open(folder, Some(&id), "turn_n").0;
        }
        id
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let id = kept(folder.path(), &["one", "two"]);
        let (mut conversation, forgotten) = Conversation::open(folder.path(), Some(&id), "turn_9");
        assert_eq!((conversation.id(), forgotten), ("turn_1", None));
        conversation.add(user("three"));
        assert_eq!(conversation.messages(), [user("one"), user("two"), user("three")]);
        assert_eq!(conversation.of_this_turn(), [user("three")]);
        assert!(conversation.forget_earlier() && !conversation.forget_earlier());
        assert_eq!(conversation.messages(), [user("three")]);
        let (new, forgotten) = Conversation::open(folder.path(), None, "turn_9");
        assert_eq!((new.id(), new.messages().len(), forgotten), ("turn_9", 0, None));
    }

    #[test]
    fn what_is_gone_or_torn_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (_, forgotten) = Conversation::open(folder.path(), Some("turn_1"), "turn_2");
        assert_eq!(forgotten, Some(Forgotten::Gone));
        let id = kept(folder.path(), &["one"]);
        assert_eq!(Conversation::open(folder.path(), Some("turn_7"), "turn_8").1, Some(Forgotten::Gone));
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (conversation, forgotten) = Conversation::open(folder.path(), Some(&id), "turn_2");
            let Some(Forgotten::Damaged { kept }) = forgotten else { panic!("{length} bytes are not enough") };
            assert_eq!((conversation.id(), fs::read(kept).unwrap().len()), ("turn_2", length));
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_by_whole_turns() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(REMEMBERED);
        let turns: Vec<&str> = std::iter::repeat_n(long.as_str(), 9).chain(["last"]).collect();
        let id = kept(folder.path(), &turns);
        let (conversation, _) = Conversation::open(folder.path(), Some(&id), "t");
        assert_eq!(conversation.messages().len(), 4, "three of a quarter each, and the last");
        assert_eq!(conversation.messages()[3], user("last"));
    }

    #[test]
    fn a_question_has_room_for_the_newest() {
        let mut conversation = Conversation::new("t");
        conversation.add(user("go"));
        for _ in 0..4 {
            conversation.add(brought("y".repeat(4000)));
        }
        conversation.fit_into(2500);
        let texts: Vec<usize> = conversation.messages()[1..]
            .iter()
            .map(|message| match message {
                Message::Tools { results } => results[0].text.len(),
                _ => 0,
            })
            .collect();
        assert!(texts[0] < 100 && texts[1] < 100 && texts[2] == 4000 && texts[3] == 4000, "{texts:?}");
    }
}
