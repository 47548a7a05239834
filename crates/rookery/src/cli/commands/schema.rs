//! `rookery schema`

use crate::cli::context::Context;
use crate::config;

/// Print a schema: of the HTTP face, of Clutch messages and cards, of workflow files, or of rookery.toml
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to describe
    #[arg(value_enum)]
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The HTTP face, as OpenAPI
    Openapi,
    /// The envelope of a Clutch message, as JSON Schema
    Envelope,
    /// The card of an agent, as JSON Schema
    Card,
    /// The settings file, as JSON Schema
    Config,
    /// The workflow file, as JSON Schema
    Workflow,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Card => context.out.json(&rookery_core::model::capabilities::Card::schema()),
        What::Config => context.out.json(&config::json_schema()),
        What::Envelope => context.out.json(&rookery_core::clutch::schema::envelope()),
        What::Workflow => context.out.json(&rookery_runner::file::schema()),
        What::Openapi => context.out.json(&rookery_surfaces::openapi::description()),
    }
}
