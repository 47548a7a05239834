//! Messages that wait for a person.

use serde_json::json;

use super::{Room, list as entries, text};

/// Let a held message go out as if it were sent now
#[derive(Debug, clap::Args)]
pub struct Release {
    /// The message's id
    id: String,
}

/// Discard a held message: nobody gets it
#[derive(Debug, clap::Args)]
pub struct Discard {
    /// The message's id
    id: String,

    /// Why, for whoever looks at it later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) async fn list(room: &Room<'_>) -> anyhow::Result<()> {
    let answer = room.call("message_held", json!({})).await?;
    room.show(&answer, || {
        let messages = entries(&answer.value["messages"]);
        if messages.is_empty() {
            room.context.out.note("no message is held");
        }
        messages.iter().try_for_each(|message| {
            let field = |name: &str| text(&message[name]);
            let heading = format!("### {} [{}] {} {}", field("timestamp"), field("from"), field("id"), field("reason"));
            room.block(&heading, field("message"))
        })
    })
}

pub(super) async fn release(room: &Room<'_>, release: Release) -> anyhow::Result<()> {
    room.said(&room.call("message_release", json!({"id": release.id})).await?)
}

pub(super) async fn discard(room: &Room<'_>, discard: Discard) -> anyhow::Result<()> {
    let arguments = json!({"id": discard.id, "discard": true, "reason": discard.reason});
    room.said(&room.call("message_release", arguments).await?)
}
