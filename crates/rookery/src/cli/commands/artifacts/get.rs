//! `rookery artifacts get`: streamed from the daemon, verified, and in a file only if it is whole.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Method, Response};
use rookery_client::{Client, ClientError};
use rookery_store::offline::Progress;
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::time::timeout;

use super::{ARTIFACTS, differs, size};
use crate::cli::Failure;
use crate::cli::context::Context;

/// How long the daemon may be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn run(context: &Context, client: &Client, hash: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let Some(output) = output else { return print(context, client, hash).await };
    if output.exists() {
        let failure = Failure::new(format!("{} exists already", output.display()));
        return Err(failure.hint("name a new file").into());
    }
    let response = ask(client, hash).await?;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || format!("cannot write {}", output.display());
    let mut partial = NamedTempFile::new_in(folder).with_context(written)?;
    let bytes = receive(context, response, hash, |piece| partial.write_all(piece).with_context(written)).await?;
    partial.as_file().sync_all().with_context(written)?;
    let kept = partial.persist_noclobber(output).map_err(|error| error.error).with_context(written)?;
    drop(kept);
    let file: PathBuf = output.to_owned();
    let answer = json!({ "sha256": hash, "size": bytes, "file": file });
    context.out.done(&answer, &format!("{} in {}", size(bytes), output.display()))
}

async fn print(context: &Context, client: &Client, hash: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        let failure = Failure::usage("an artifact may be anything: it is not printed to a terminal");
        return Err(failure.hint("name a file with `-o FILE`, or pipe it into a program").into());
    }
    let response = ask(client, hash).await?;
    receive(context, response, hash, |piece| context.out.raw(piece)).await.map(drop)
}

async fn ask(client: &Client, hash: &str) -> anyhow::Result<Response> {
    let id = format!("sha256-{hash}");
    let path: Vec<&str> = ARTIFACTS.into_iter().chain([id.as_str()]).collect();
    Ok(client.send(client.request(Method::GET, &path, &[])).await?)
}

/// Hands over everything that comes; how much it was, if it is what its hash says.
async fn receive(
    context: &Context,
    mut response: Response,
    hash: &str,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let total = response.content_length().unwrap_or(0);
    let mut told = context.out.progress("downloading");
    let (mut digest, mut done) = (Sha256::new(), 0);
    loop {
        let piece = timeout(READ_TIMEOUT, response.chunk()).await.map_err(|_| ClientError::Cut)?;
        let Some(piece) = piece.map_err(|_| cut_off())? else { break };
        digest.update(&piece);
        take(&piece)?;
        done += piece.len() as u64;
        told(Progress { done, total });
    }
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == hash { Ok(done) } else { Err(differs("what came")) }
}

fn cut_off() -> Failure {
    let failure = Failure::new("the daemon ended its answer before all of the artifact had come");
    failure
        .hint("it may be damaged: the daemon's log is .rookery/log/daemon.log; uploading the same file again mends it")
}
