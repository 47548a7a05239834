//! `rookery envelope sign`

use std::path::Path;

use rookery_core::clutch::Envelope;
use serde_json::Value;

use super::{check, key, read};
use crate::cli::context::Context;

/// Signs what could be sent; what could not is told, and not signed.
pub(super) fn run(context: &Context, key: &Path, file: &Path) -> anyhow::Result<()> {
    let key = key::read(key)?;
    let bytes = read(file)?;
    let mut message = Envelope::read(&bytes).map_err(|faults| check::wrong(&faults))?.document().clone();
    key.sign(&mut message);
    // A signature makes some numbers wrong that were right without one.
    Envelope::read(&serde_json::to_vec(&message)?).map_err(|faults| check::wrong(&faults))?;
    context.out.json_line(&Value::Object(message))
}
