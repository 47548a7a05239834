//! `rookery envelope keygen`, and the file that a key is kept in.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context as _;
use rookery_core::clutch::SecretKey;
use rookery_core::kernel::limit;
use rookery_core::model::capabilities::SigningKey;
use serde::{Deserialize, Serialize};

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::project::random;

#[derive(Serialize, Deserialize)]
struct KeyFile {
    kid: String,
    public_key: String,
    secret_key: String,
}

pub(super) fn make(context: &Context, file: &Path, kid: &str) -> anyhow::Result<()> {
    context.out.json(&keep_new(file, kid)?)
}

/// Makes a key, keeps it in a new file, and tells what of it everybody may know.
pub fn keep_new(file: &Path, kid: &str) -> anyhow::Result<SigningKey> {
    if kid.is_empty() || kid.len() > limit::NAME_BYTES || kid.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Failure::usage(format!("'{kid}' is no name for a key")).hint("choose one like key_01").into());
    }
    let key = SecretKey::new(kid, random::<32>()?);
    let public = key.public();
    let kept = KeyFile { kid: kid.to_owned(), public_key: public.public_key.clone(), secret_key: key.secret() };
    let text = format!("{}\n", serde_json::to_string_pretty(&kept)?);
    write(file, text.as_bytes())?;
    Ok(public)
}

/// A new file that nobody else can read. A key that stands there is not written over: it cannot be made again.
fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut opened = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(format!("{} exists already", file.display())).hint("name another file").into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", file.display())),
    };
    let written = opened.write_all(bytes).and_then(|()| opened.sync_all());
    if written.is_err() {
        drop(std::fs::remove_file(file));
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}

pub(super) fn read(file: &Path) -> anyhow::Result<SecretKey> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let kept = serde_json::from_str::<KeyFile>(&text).ok();
    kept.and_then(|kept| SecretKey::read(kept.kid, &kept.secret_key)).ok_or_else(|| {
        Failure::new(format!("{} holds no key", file.display())).hint("`rookery envelope keygen` makes one").into()
    })
}
