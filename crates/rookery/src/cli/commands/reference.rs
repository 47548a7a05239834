//! `rookery reference`

use super::mcp::Tools;
use crate::cli::context::Context;
use crate::cli::reference;

/// Print a reference as Markdown: of the command line, of the tools that agents can call, or of the error codes
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// What to describe
    #[arg(value_enum, default_value_t = What::Cli)]
    what: What,

    /// The toolset whose page is wanted; all for the page that lists them
    #[arg(long, value_name = "SET", value_enum, default_value_t = Tools::All)]
    tools: Tools,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The command line
    Cli,
    /// The tools
    Mcp,
    /// The error codes
    Errors,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let page = match args.what {
        What::Cli => reference::markdown(),
        What::Mcp => rookery_surfaces::mcp::reference::markdown(args.tools.set()),
        What::Errors => rookery_surfaces::error_page::markdown(),
    };
    context.out.raw(page.as_bytes())
}
