//! `rookery mock-agent`

use std::io::Read as _;

use anyhow::Context as _;
use rookery_runner::backend::mock::misbehave::{Misbehaviour, misbehave};

/// Misbehave as standard input says; for scripted agents
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {}

pub(super) async fn run(_: Args) -> anyhow::Result<()> {
    let mut told = String::new();
    std::io::stdin().lock().read_to_string(&mut told).context("cannot read what to do")?;
    let told: Misbehaviour = serde_json::from_str(&told).context("standard input does not say what to do")?;
    std::process::exit(misbehave(&told).await?)
}
