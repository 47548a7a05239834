//! `rookery check`

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rookery_runner::file::{Faults, Plan, Ready, Refused, Source, Surroundings};

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::{Format, Tone};

/// Check a workflow file and say what it would do, without doing it
///
/// Tells everything that is wrong with the file, each fault with its line and column. No daemon is needed. Exits with 2 if
/// something is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workflow file
    file: PathBuf,

    /// The instance to check it for
    #[arg(long, value_name = "NAME", default_value = "default")]
    instance: String,

    /// Values for the parameters of the file, as `--name value`
    #[arg(last = true, value_name = "PARAMS")]
    params: Vec<String>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let source = match Source::load(&args.file) {
        Ok(source) => source,
        Err(faults) => return tell(context, &faults),
    };
    let surroundings = Surroundings {
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        tools: rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name.to_owned()).collect(),
        now: context.out.clock().zoned(),
        find_program: &find_program,
    };
    match Ready::check(&source, &args.instance, &args.params, &surroundings) {
        Ok(ready) => show(context, &Plan::of(&ready, &surroundings)),
        Err(Refused::File(faults)) => tell(context, &faults),
        Err(Refused::Argument(error)) => {
            let hint = format!("`params` in {} says which there are", args.file.display());
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        Err(Refused::Instance(message)) => {
            Err(Failure::usage(message).hint("an instance is one word, such as pr-123").into())
        }
    }
}

fn show(context: &Context, plan: &Plan) -> anyhow::Result<()> {
    match context.out.format() {
        Format::Json => context.out.json(plan),
        Format::Human => plan.to_string().lines().try_for_each(|line| context.out.line(line, Tone::Plain)),
    }
}

/// Every fault on a line of its own, and that there are some.
fn tell(context: &Context, faults: &Faults) -> anyhow::Result<()> {
    match context.out.format() {
        Format::Json => context.out.json(faults)?,
        Format::Human => faults.to_string().lines().try_for_each(|line| context.out.line(line, Tone::Bad))?,
    }
    let wrong = match faults.count() {
        1 => "one thing is wrong".to_owned(),
        count => format!("{count} things are wrong"),
    };
    Err(Failure::usage(wrong).hint("`rookery schema workflow` describes the file for editors").into())
}

/// Where a program is that can be started: as a path from here, or by its name on the PATH.
fn find_program(name: &str) -> Option<PathBuf> {
    let can_be_started =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| can_be_started(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| can_be_started(path))
}
