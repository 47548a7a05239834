//! Messages that were held because they looked like a storm: a person looks at them and decides.

use rookery_core::envelope::iso;
use rookery_core::message::{ReleaseHeld, Verdict};
use rookery_core::{Code, MessageId, Power, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::{Answer, held};
use crate::mcp::{Call, Effect, Reply, Tool, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "message_held",
            Reads,
            &[All],
            "For people: see the messages that were held because agents answered each other without end or sent too fast.",
            list,
        ),
        Tool::new(
            "message_release",
            Ends,
            &[All],
            "For people: let a held message go out as if it were sent now, or discard it for good.",
            decide,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Listing {
    /// At most so many, the oldest first. 100 unless said, 1000 at most.
    limit: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Held {
    messages: Vec<HeldMessage>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HeldMessage {
    id: String,
    from: String,
    timestamp: String,
    message: String,
    reason: String,
}

async fn list(call: Call, asked: Listing) -> Answer<Held> {
    if call.reader().await?.power < Power::Lead {
        return Err(Refusal::new(Code::Forbidden, "held messages are for the lead and people to see").into());
    }
    let messages = call.engine().held_messages(asked.limit).await?.value;
    let shown = messages.into_iter().map(|message| HeldMessage {
        id: message.id().to_string(),
        from: message.letter.header.from.to_string(),
        timestamp: iso(message.at),
        reason: held(&message).unwrap_or_default(),
        message: message.letter.text,
    });
    Ok(Reply::of(Held { messages: shown.collect() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Deciding {
    /// The message's id.
    id: String,
    /// True to discard it; nobody gets it then.
    discard: Option<bool>,
    /// Why it is discarded.
    reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Decided {
    success: bool,
    id: String,
}

async fn decide(call: Call, asked: Deciding) -> Answer<Decided> {
    let verdict = match asked.discard {
        Some(true) => Verdict::Discard { reason: asked.reason },
        _ => Verdict::Deliver,
    };
    let word = if verdict == Verdict::Deliver { "released" } else { "discarded" };
    let message = MessageId::new(asked.id.trim());
    call.submit(call.caller(None)?, ReleaseHeld { message: message.clone(), verdict }).await?;
    Ok(Reply::said(word, Decided { success: true, id: message.to_string() }))
}
