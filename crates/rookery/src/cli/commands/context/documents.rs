//! Documents.

use rookery_client::ClientError;
use serde_json::{Value, json};

use super::{Room, list, text, typed};
use crate::cli::output::{Table, TextStyle};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print a document
    Read {
        /// Which file; without it the one that the others are reached from
        file: Option<String>,

        /// The same
        #[arg(long = "file", value_name = "FILE", conflicts_with = "file")]
        named: Option<String>,
    },
    /// Replace the text of a document
    Write(Write),
    /// Add to the end of a document
    Append {
        /// What to add; - reads it from stdin
        #[arg(allow_hyphen_values = true)]
        content: String,

        /// Which file; without it the one that the others are reached from
        #[arg(long, value_name = "FILE")]
        file: Option<String>,
    },
    /// List the documents
    List,
    /// Make a document that is not there yet
    Create {
        /// Its path, such as findings/auth.md
        file: String,

        /// Its first text; - reads it from stdin
        #[arg(allow_hyphen_values = true)]
        content: String,
    },
    /// Delete a document; its versions stay
    Delete {
        /// Which file
        file: String,

        /// Only if this is still its version
        #[arg(long, value_name = "VERSION")]
        base: Option<u64>,
    },
    /// Show who changed a document when, or its text as it was
    History {
        /// Which file; without it the one that the others are reached from
        file: Option<String>,

        /// Print the text at this version
        #[arg(long, value_name = "VERSION")]
        at: Option<u64>,

        /// At most so many changes, the newest
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<u32>,
    },
}

#[derive(Debug, clap::Args)]
pub struct Write {
    /// The new text; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    content: String,

    /// Which file; without it the one that the others are reached from
    #[arg(long, value_name = "FILE")]
    file: Option<String>,

    /// Only if this is still its version; 0 if there is none yet
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
}

pub(super) async fn run(room: &Room<'_>, command: Command) -> anyhow::Result<()> {
    let changed = async |tool: &str, arguments: Value| {
        let file = arguments["file"].as_str().map(str::to_owned);
        let answer = room.call(tool, arguments).await.map_err(|error| outdated(error, file.as_deref()))?;
        room.said(&answer)
    };
    match command {
        Command::Read { file, named } => content(room, "document_read", json!({"file": file.or(named)})).await,
        Command::Write(Write { content, file, base }) => {
            let arguments = json!({"content": typed(content)?, "file": file, "base_version": base});
            changed("document_write", arguments).await
        }
        Command::Append { content, file } => {
            changed("document_append", json!({"content": typed(content)?, "file": file})).await
        }
        Command::Create { file, content } => {
            changed("document_create", json!({"file": file, "content": typed(content)?})).await
        }
        Command::Delete { file, base } => changed("document_delete", json!({"file": file, "base_version": base})).await,
        Command::History { file, at: Some(version), .. } => {
            content(room, "document_history", json!({"file": file, "version": version})).await
        }
        Command::History { file, at: None, limit } => history(room, json!({"file": file, "limit": limit})).await,
        Command::List => files(room).await,
    }
}

/// A refusal because somebody was faster tells who, and how to see what.
fn outdated(error: anyhow::Error, file: Option<&str>) -> anyhow::Error {
    match error.downcast::<ClientError>() {
        Ok(ClientError::Refused { status, error, code, detail: Some(detail), .. }) if detail.get("newer").is_some() => {
            let hint = Some(newer(&detail["newer"], file));
            ClientError::Refused { status, error, code, hint, detail: Some(detail) }.into()
        }
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

fn newer(newer: &Value, file: Option<&str>) -> String {
    let file = file.map(|file| format!(" {file}")).unwrap_or_default();
    match (newer["version"].as_u64(), newer["author"].as_str()) {
        (Some(version), Some(author)) => format!(
            "version {version} by {author} is newer: `rookery context doc read{file}` shows it, and --base {version} writes \
             over it"
        ),
        _ => format!("it was deleted meanwhile: `rookery context doc history{file}` shows by whom"),
    }
}

/// The text itself, and nothing else.
async fn content(room: &Room<'_>, tool: &str, arguments: Value) -> anyhow::Result<()> {
    let answer = room.call(tool, arguments).await?;
    room.show(&answer, || room.context.out.text(text(&answer.value["content"])))
}

async fn files(room: &Room<'_>) -> anyhow::Result<()> {
    let answer = room.call("document_list", json!({})).await?;
    room.show(&answer, || {
        let files = list(&answer.value["files"]);
        if files.is_empty() {
            room.context.out.note("no documents");
        }
        files.iter().try_for_each(|file| room.context.out.line(text(file), TextStyle::Plain))
    })
}

async fn history(room: &Room<'_>, arguments: Value) -> anyhow::Result<()> {
    let answer = room.call("document_history", arguments).await?;
    let row = |one: &Value| {
        vec![
            one["version"].to_string().into(),
            text(&one["change"]).into(),
            text(&one["author"]).into(),
            text(&one["timestamp"]).into(),
        ]
    };
    room.context.out.show(&answer.value, |_| {
        Ok(Table {
            headings: &["VERSION", "CHANGE", "AUTHOR", "TIME"],
            rows: list(&answer.value["versions"]).iter().map(row).collect(),
            empty: "it was never written",
        })
    })
}
