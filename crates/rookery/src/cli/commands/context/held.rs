//! Messages that wait for a person.

use serde_json::{Value, json};

use super::{list as entries, text};
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};

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

pub(super) async fn list(context: &Context) -> anyhow::Result<()> {
    let held = context.client().await?.get(&["admin", "messages", "held"], &[]).await?;
    if context.out.format() == Format::Json {
        return context.out.json(&held);
    }
    if entries(&held).is_empty() {
        context.out.note("no message is held");
    }
    entries(&held).iter().try_for_each(|message| {
        let field = |name: &str| text(&message[name]);
        let at = context.out.clock().local(message["at"].as_i64().unwrap_or_default());
        let heading = format!("### {at} [{}] {}: {}", field("from"), field("id"), field("reason"));
        context.out.line(&heading, TextStyle::Warning)?;
        let lines = message["subject"].as_str().into_iter().chain(field("text").lines());
        lines.chain([""]).try_for_each(|line| context.out.line(line, TextStyle::Plain))
    })
}

pub(super) async fn release(context: &Context, release: Release) -> anyhow::Result<()> {
    decide(context, &release.id, json!({"verdict": "deliver"}), "released").await
}

pub(super) async fn discard(context: &Context, discard: Discard) -> anyhow::Result<()> {
    decide(context, &discard.id, json!({"verdict": "discard", "reason": discard.reason}), "discarded").await
}

async fn decide(context: &Context, id: &str, decision: Value, word: &str) -> anyhow::Result<()> {
    let answer = context.client().await?.post(&["admin", "messages", id, "decision"], &decision).await?;
    context.out.done(&answer, word)
}
