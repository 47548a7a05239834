//! `rookery open`

use serde_json::{Value, json};

use crate::cli::context::{self, Context};
use crate::cli::output::Format;

/// Print a link that signs you in to the web UI
///
/// Open it in a browser on this machine, once and within 15 minutes. Without it the web UI is read only. The link is
/// printed to a terminal; elsewhere it has to be asked for with --print or --json.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name that agents mention you by; `local` unless said
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Print the link even if the output is not a terminal
    #[arg(long)]
    print: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let url = context::find(&context.project()?).await?.file.url;
    if !args.print && context.out.format() == Format::Human && !context.out.is_terminal() {
        context.out.note("the sign-in link is printed to terminals only; `rookery open --print` prints it anywhere");
        return context.out.done(&json!({ "url": url }), &url);
    }
    let answer = client.post(&["session", "sign-in-links"], &json!({ "person": args.name })).await?;
    let path = answer.get("path").and_then(Value::as_str).unwrap_or_default();
    let link = format!("{url}{path}");
    context.out.done(&json!({ "url": link, "person": answer.get("person") }), &link)
}
