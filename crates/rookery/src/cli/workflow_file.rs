//! Workflow files on the command line: reading one in the surroundings of this process, and telling what is wrong with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rookery_runner::file::{Faults, Ready, Refused, Source, Surroundings};

use super::context::Context;
use super::failure::Failure;
use super::output::{Format, TextStyle};

/// What is around the file in this process.
pub fn surroundings(context: &Context) -> Surroundings<'static> {
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Surroundings {
        env: env.collect(),
        tools: rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name.to_owned()).collect(),
        now: context.out.clock().zoned(),
        find_program: &find_program,
    }
}

/// Reads and checks a file for an instance, with what was said after `--`. What is wrong with it is told.
pub fn load(
    context: &Context,
    file: &Path,
    instance: &str,
    params: &[String],
    surroundings: &Surroundings<'_>,
) -> anyhow::Result<Ready> {
    let source = match Source::load(file) {
        Ok(source) => source,
        Err(faults) => return Err(tell(context, &faults)?),
    };
    match Ready::check(&source, instance, params, surroundings) {
        Ok(ready) => Ok(ready),
        Err(Refused::File(faults)) => Err(tell(context, &faults)?),
        Err(Refused::Argument(error)) => {
            let hint = format!("`params` in {} says which there are", file.display());
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        Err(Refused::Instance(message)) => {
            Err(Failure::usage(message).hint("an instance is one word, such as pr-123").into())
        }
    }
}

/// Every fault on a line of its own, and that there are some.
fn tell(context: &Context, faults: &Faults) -> anyhow::Result<anyhow::Error> {
    match context.out.format() {
        Format::Json => context.out.json(faults)?,
        Format::Human => faults.to_string().lines().try_for_each(|line| context.out.line(line, TextStyle::Bad))?,
    }
    let wrong = match faults.count() {
        1 => "one thing is wrong".to_owned(),
        count => format!("{count} things are wrong"),
    };
    Ok(Failure::usage(wrong).hint("`rookery schema workflow` describes the file for editors").into())
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
