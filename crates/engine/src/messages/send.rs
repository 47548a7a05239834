//! Sending a message.

use rookery_core::messages::{Ack, Addressees, Cause, SendMessage, What};
use rookery_core::model::Table;
use rookery_core::model::message::Message;
use rookery_core::{AgentId, Caller, Instance, Key, MessageId};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;
use sha2::{Digest, Sha256};

use super::{message_of, page};
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::query::{At, QueryHandle};
use crate::submit::Request;

/// A message as a surface hands it over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The author.
    pub from: AgentId,
    /// Where it is said.
    pub instance: Instance,
    pub what: What,
    pub text: String,
    pub reply_to: Option<MessageId>,
}

impl Post {
    /// An entry in the channel of the author's own instance.
    pub fn entry(from: &AgentId, text: impl Into<String>) -> Post {
        let instance = Instance::of(from);
        Post { from: from.clone(), instance, what: What::Entry, text: text.into(), reply_to: None }
    }

    pub fn direct(from: &AgentId, to: Vec<AgentId>, text: impl Into<String>) -> Post {
        Post { what: What::Direct { to }, ..Post::entry(from, text) }
    }

    pub fn coord(from: &AgentId, topic: &str, subject: &str, to: Addressees, text: impl Into<String>) -> Post {
        let what = What::Coord { topic: topic.to_owned(), subject: subject.to_owned(), to, ack: Ack::ByTopic };
        Post { what, ..Post::entry(from, text) }
    }
}

impl InboxHandle<'_> {
    /// Sends a message and tells what became of it: a held one is answered like a sent one, and says so.
    pub async fn send(&self, caller: &Caller, post: Post) -> Result<Message, EngineError> {
        Ok(self.engine.submit(Request::new(caller.clone(), self.compose(post))).await?.reply)
    }

    /// The command that sends a message, for surfaces that add a key or the body as received.
    pub fn compose(&self, post: Post) -> SendMessage {
        let thread = post.instance.thread();
        let id = match &post.what {
            What::Coord { .. } => self.mint_coord_message(),
            What::Entry | What::Notice | What::EntryFor { .. } | What::Chat { .. } | What::Direct { .. } => {
                self.mint_message()
            }
        };
        let cause = match (post.reply_to, self.engine.shown().newest(&post.from, &thread)) {
            (Some(message), _) => Cause::ReplyTo(message),
            (None, Some(message)) => Cause::Shown(message),
            (None, None) => Cause::Nothing,
        };
        SendMessage {
            id,
            run: post.instance.run(),
            thread,
            from: post.from,
            what: post.what,
            text: post.text,
            cause,
            people: vec![],
            guard: self.engine.config().storm_guard(),
        }
    }

    pub fn mint_message(&self) -> MessageId {
        MessageId::new(self.engine.mint("msg_"))
    }

    /// `msg-<epoch seconds>-<number>`, the form that coordination uses.
    pub fn mint_coord_message(&self) -> MessageId {
        let digest = Sha256::digest(self.engine.mint("n"));
        let number = digest.iter().take(4).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        MessageId::new(format!("msg-{}-{number}", self.engine.clock().now().0.div_euclid(1_000)))
    }
}

impl QueryHandle<'_> {
    pub async fn message(&self, id: &MessageId) -> Result<At<Option<Message>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![Key::Message(id.clone())]).await?;
        Ok(At { value: rows.pop().flatten().and_then(message_of), head })
    }

    /// Messages that wait for a person to decide, oldest first.
    pub async fn held_messages(&self, limit: Option<u32>) -> Result<At<Vec<Message>>, EngineError> {
        let query = RowQuery::all(Table::Messages)
            .with("held", ColumnTest::Present)
            .ordered_by("sent")
            .at_most(Some(page(limit)));
        let (rows, head) = self.engine.store().list(query).await?;
        Ok(At { value: rows.into_iter().filter_map(message_of).collect(), head })
    }
}
