//! `rookery open`

use serde_json::{Value, json};

use crate::cli::context::{self, Context};

/// Print an address that signs you in to the web UI
///
/// Open it in a browser of this machine, once and within 15 minutes. Without it the web UI only shows what goes on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name that agents mention you by; `local` unless said
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let answer = client.post(&["session", "launch"], &json!({ "person": args.name })).await?;
    let path = answer.get("path").and_then(Value::as_str).unwrap_or_default();
    let url = format!("{}{path}", context::find(&context.project()?).await?.file.url);
    context.out.done(&json!({ "url": url, "person": answer.get("person") }), &url)
}
