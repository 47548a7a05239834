//! `rookery artifacts put`: a file, or what comes in, streamed to the daemon.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures_util::{Stream, stream};
use reqwest::{Body, Method, header};
use rookery_client::Client;
use rookery_store::offline::Progress;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{ARTIFACTS, differs};
use crate::cli::context::Context;

/// How much is read in one go.
const PIECE_BYTES: usize = 256 * 1024;

pub(super) async fn run(context: &Context, client: &Client, file: &Path) -> anyhow::Result<()> {
    let hashing = Hashing::default();
    let request = client.request(Method::POST, &ARTIFACTS, &[]);
    let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
    let request = if file == Path::new("-") {
        request.body(Body::wrap_stream(pieces(tokio::io::stdin(), hashing.clone(), |_| {})))
    } else {
        let opened = File::open(file).await.with_context(|| format!("cannot read {}", file.display()))?;
        let total = opened.metadata().await.with_context(|| format!("cannot read {}", file.display()))?.len();
        let mut told = context.out.progress("uploading");
        let body = Body::wrap_stream(pieces(opened, hashing.clone(), move |done| told(Progress { done, total })));
        // Known from the beginning, so that what is too large is refused before it is sent.
        request.header(header::CONTENT_LENGTH, total).body(body)
    };
    let answer: Value = client.json_of(request).await?;
    if answer["sha256"].as_str() != Some(&hashing.hex()) {
        return Err(differs("what arrived"));
    }
    let text = answer["ref"].as_str().unwrap_or_default().to_owned();
    context.out.done(&answer, &text)
}

/// The hash of what was sent so far.
#[derive(Clone, Default)]
struct Hashing(Arc<Mutex<Sha256>>);

impl Hashing {
    fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
    }

    fn hex(&self) -> String {
        let digest = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Everything there is to read, piece by piece; `told` hears how much that was so far.
fn pieces(
    from: impl AsyncRead + Unpin + Send + 'static,
    hashing: Hashing,
    told: impl FnMut(u64) + Send + 'static,
) -> impl Stream<Item = std::io::Result<Vec<u8>>> + Send {
    stream::try_unfold((from, told, 0), move |(mut from, mut told, sent)| {
        let hashing = hashing.clone();
        async move {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&mut from).take(PIECE_BYTES as u64).read_to_end(&mut piece).await?;
            if piece.is_empty() {
                return Ok(None);
            }
            hashing.add(&piece);
            let sent = sent + piece.len() as u64;
            told(sent);
            Ok(Some((piece, (from, told, sent))))
        }
    })
}
