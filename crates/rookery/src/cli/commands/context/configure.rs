//! `rookery context configure` and `rookery context where`

use rookery_client::wire;
use rookery_core::Instance;
use serde::Deserialize;
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::output::Table;

#[derive(Debug, clap::Args)]
pub struct Configure {
    /// What it is kept in
    #[arg(long, value_enum)]
    provider: Option<Provider>,

    /// Folder of the files, relative to the project
    #[arg(long, value_name = "FOLDER")]
    folder: Option<String>,

    /// File of the channel
    #[arg(long, value_name = "FILE")]
    channel: Option<String>,

    /// Document that is meant where none is named
    #[arg(long, value_name = "FILE")]
    document: Option<String>,

    /// Further documents, separated by commas
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    documents: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Provider {
    /// Files in a folder of the project
    File,
    /// The log alone, without files
    Memory,
    /// Nothing: there is no context
    Off,
}

impl Provider {
    fn as_str(self) -> &'static str {
        match self {
            Provider::File => "file",
            Provider::Memory => "memory",
            Provider::Off => "off",
        }
    }
}

/// A context as the daemon tells it.
#[derive(Debug, Deserialize)]
struct Told {
    instance: String,
    provider: String,
    dir: String,
    document: String,
    rendered: bool,
    socket: Option<String>,
}

pub(super) async fn configure(context: &Context, args: Configure, instance: Option<String>) -> anyhow::Result<()> {
    let instance = instance.unwrap_or_else(|| Instance::default().name().to_owned());
    let mut body = json!({});
    let mut say = |name: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    say("provider", args.provider.map(|provider| json!(provider.as_str())));
    say("dir", args.folder.map(Into::into));
    say("channel", args.channel.map(Into::into));
    say("document", args.document.map(Into::into));
    say("documents", args.documents.map(Into::into));
    let answer = context.client().await?.put(&["contexts", &instance], &body).await?;
    let told: Told = wire::read(&answer)?;
    context.out.done(&answer, &format!("the context of {} is kept in {}", told.instance, told.kept_in()))
}

pub(super) async fn tell(context: &Context, instance: Option<String>) -> anyhow::Result<()> {
    let client = context.client().await?;
    let answer = match &instance {
        Some(instance) => json!([client.get(&["contexts", instance], &[]).await?]),
        None => client.get(&["contexts"], &[]).await?,
    };
    context.out.show(&answer, |_| Ok(table(wire::read(&answer)?)))
}

fn table(contexts: Vec<Told>) -> Table {
    let row = |context: Told| {
        let kept_in = context.kept_in();
        let socket = context.socket.filter(|_| context.rendered).unwrap_or_else(|| "-".to_owned());
        vec![context.instance.into(), kept_in.into(), context.document.into(), socket.into()]
    };
    Table {
        headings: &["INSTANCE", "KEPT IN", "ENTRY", "SOCKET"],
        rows: contexts.into_iter().map(row).collect(),
        empty: "no instance has a context yet",
    }
}

impl Told {
    fn kept_in(&self) -> String {
        match self.provider.as_str() {
            "file" => self.dir.clone(),
            "memory" => "the log alone".to_owned(),
            _ => "nothing: it is turned off".to_owned(),
        }
    }
}
