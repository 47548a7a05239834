//! `rookery artifacts`

mod get;
mod put;

use std::path::PathBuf;
use std::time::Duration;

use rookery_client::Client;
use rookery_client::wire::{self, StoredArtifact};
use rookery_core::artifacts::{is_sha256, referred};
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};
use crate::config::parse_duration;

/// Where the daemon keeps artifacts.
const ARTIFACTS: [&str; 3] = ["clutch", "v0", "artifacts"];
/// How many are asked for in one go.
const PAGE: u32 = 1_000;

/// Upload, download and list artifacts: files that agents refer to by their content
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Upload a file and print how to refer to it
    Put {
        /// The file, or - for what comes in
        file: PathBuf,
    },
    /// Download an artifact and verify it
    Get {
        /// What `put` printed: artifact:sha256-…, with or without what is before the hash
        #[arg(value_name = "REF", value_parser = hash)]
        hash: String,

        /// The file to write, which must not exist; otherwise the content is printed
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the artifacts and whether something names them
    List,
    /// Remove artifacts that nothing names
    ///
    /// The daemon does so by itself every hour. What a task, a checkpoint or a message has attached stays in any case.
    Gc {
        /// Only those last uploaded so long ago, such as 0s or 7d; as long as the daemon keeps them if not given
        #[arg(long, value_name = "TIME", value_parser = time)]
        older_than: Option<Duration>,

        /// Only tell what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

/// How old something is: anything may be as young as one likes.
fn time(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).ok_or_else(|| "write a time such as 12h or 7d".into())
}

/// The hash in a reference, however much of it is given.
fn hash(text: &str) -> Result<String, String> {
    let hash = referred(text).unwrap_or_else(|| text.strip_prefix("sha256-").unwrap_or(text));
    if is_sha256(hash) {
        return Ok(hash.to_owned());
    }
    Err("a reference is artifact:sha256- and 64 hexadecimal digits".into())
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    match args.command {
        Command::Put { file } => put::run(context, &client, &file).await,
        Command::Get { hash, output } => get::run(context, &client, &hash, output.as_deref()).await,
        Command::List => list(context, &client).await,
        Command::Gc { older_than, dry_run } => collect(context, &client, older_than, dry_run).await,
    }
}

async fn list(context: &Context, client: &Client) -> anyhow::Result<()> {
    let (mut artifacts, mut after) = (Vec::new(), None);
    loop {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(after.map(|after| ("after", after)));
        let mut page = client.get(&ARTIFACTS, &query).await?;
        if let Value::Array(more) = page["artifacts"].take() {
            artifacts.extend(more);
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    let answer = json!({ "artifacts": artifacts });
    context.out.show(&answer, |clock| Ok(table(wire::read(&answer["artifacts"])?, clock)))
}

fn table(artifacts: Vec<StoredArtifact>, clock: &Clock) -> Table {
    let row = |artifact: StoredArtifact| {
        let named = if artifact.named { Cell::new("yes", TextStyle::Good) } else { Cell::new("no", TextStyle::Dim) };
        vec![artifact.reference.into(), size(artifact.size).into(), clock.age(artifact.stored_at).into(), named]
    };
    Table {
        headings: &["ARTIFACT", "SIZE", "UPLOADED", "NAMED"],
        rows: artifacts.into_iter().map(row).collect(),
        empty: "no artifacts",
    }
}

/// Removes until there is nothing more: the daemon removes a bounded number at a time.
async fn collect(
    context: &Context,
    client: &Client,
    older_than: Option<Duration>,
    dry_run: bool,
) -> anyhow::Result<()> {
    let body = json!({ "older_than_seconds": older_than.map(|age| age.as_secs()), "dry_run": dry_run });
    let (mut removed, mut bytes) = (0, 0);
    let young = loop {
        let answer = client.post(&["admin", "artifacts", "collect"], &body).await?;
        let number = |field: &str| answer[field].as_u64().unwrap_or(0);
        removed += number("removed");
        bytes += number("bytes");
        if answer["more"] != true {
            break number("young");
        }
    };
    let done = if dry_run { "would remove" } else { "removed" };
    let text = format!("{done} {removed} artifacts of {}; {young} are too young", size(bytes));
    context.out.done(&json!({ "removed": removed, "bytes": bytes, "young": young, "dry_run": dry_run }), &text)
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// What was sent or received is not what it should be.
fn differs(what: &str) -> anyhow::Error {
    Failure::new(format!("{what} is not what its hash says"))
        .hint("try again; `rookery doctor` checks the store")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_may_be_given_in_full_or_as_its_hash() {
        let known = "0123456789abcdef".repeat(4);
        for text in [known.clone(), format!("sha256-{known}"), format!("artifact:sha256-{known}")] {
            assert_eq!(hash(&text).unwrap(), known);
        }
        for text in ["", "artifact:report", "../x", &known.to_uppercase(), &known[1..]] {
            assert!(hash(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_told_for_people() {
        let told = [0, 1_023, 1_024, 1_536, 5 << 20, 3 << 30].map(size);
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
    }
}
