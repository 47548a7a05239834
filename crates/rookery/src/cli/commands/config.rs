//! `rookery config`

use serde_json::{Map, Value, json};

use super::up::Set;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};
use crate::config::{Flags, Origin, ProjectSettings};

/// Show every setting, its value, and where that came from
///
/// A flag wins over the environment, which wins over rookery.toml in the project's root, which wins over the default.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    set: Set,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let project = context.project()?;
    let mut flags = Flags::default();
    args.set.apply(&mut flags)?;
    let entries = ProjectSettings::load(&project, &flags)?.entries();
    let json: Map<String, Value> = entries
        .iter()
        .map(|entry| (entry.name.into(), json!({ "value": entry.json, "origin": entry.origin.to_string() })))
        .collect();
    let rows = entries.into_iter().map(|entry| {
        let tone = if entry.origin == Origin::Default { TextStyle::Dim } else { TextStyle::Plain };
        let text = if entry.text.is_empty() { "-".into() } else { entry.text };
        vec![Cell::from(entry.name), Cell::from(text), Cell::new(entry.origin.to_string(), tone)]
    });
    let table = Table { headings: &["SETTING", "VALUE", "FROM"], rows: rows.collect(), empty: "" };
    context.out.show(&json, |_| Ok(table))
}
