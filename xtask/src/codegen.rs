//! `cargo xtask codegen`: committed files that the program itself writes, so that they never say anything else than it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::Program;
use crate::workspace::Workspace;
use crate::{cargo, say};

/// Regenerate the committed files that are derived from the code
#[derive(Debug, Args)]
pub(crate) struct Codegen {
    /// Write nothing; fail and name the files that are out of date
    #[arg(long)]
    check: bool,
}

/// A file, relative to the root, and the arguments with which `rookery` prints it.
struct Generated {
    file: &'static str,
    arguments: &'static [&'static str],
}

const GENERATED: &[Generated] = &[
    Generated { file: "docs/reference/openapi.json", arguments: &["schema", "openapi"] },
    Generated { file: "docs/reference/card.schema.json", arguments: &["schema", "card"] },
    Generated { file: "docs/reference/envelope.schema.json", arguments: &["schema", "envelope"] },
    Generated { file: "docs/reference/rookery-toml.schema.json", arguments: &["schema", "config"] },
    Generated { file: "docs/reference/workflow.schema.json", arguments: &["schema", "workflow"] },
    Generated { file: "docs/errors.md", arguments: &["reference", "errors"] },
    Generated { file: "docs/reference/cli.md", arguments: &["reference"] },
    Generated { file: "docs/reference/mcp.md", arguments: &["reference", "mcp"] },
    Generated { file: "docs/reference/mcp-workflow.md", arguments: &["reference", "mcp", "--tools", "workflow"] },
    Generated { file: "docs/reference/mcp-context.md", arguments: &["reference", "mcp", "--tools", "context"] },
    Generated { file: "docs/reference/mcp-coord.md", arguments: &["reference", "mcp", "--tools", "coord"] },
    Generated { file: "docs/reference/mcp-team.md", arguments: &["reference", "mcp", "--tools", "team"] },
];

impl Codegen {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        if self.check { check(workspace) } else { write(workspace) }
    }
}

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut stale = Vec::new();
    for (file, fresh) in generate(workspace)? {
        if is_stale(&workspace.root().join(file), &fresh)? {
            stale.push(file);
        }
    }
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask codegen` and commit what it writes", stale.join(", "));
    }
    Ok(())
}

fn write(workspace: &Workspace) -> Result<()> {
    for (file, fresh) in generate(workspace)? {
        let path = workspace.root().join(file);
        if !is_stale(&path, &fresh)? {
            say::note(format_args!("unchanged: {file}"));
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create the folder of {file}"))?;
        }
        fs::write(&path, fresh).with_context(|| format!("cannot write {file}"))?;
        say::note(format_args!("written: {file}"));
    }
    Ok(())
}

fn generate(workspace: &Workspace) -> Result<Vec<(&'static str, String)>> {
    let rookery = cargo::debug_daemon(workspace)?;
    let print = |generated: &Generated| {
        // The width and colours of somebody's terminal must not get into a committed file.
        let text =
            Program::new(&rookery).args(generated.arguments).env("COLUMNS", "100").env("NO_COLOR", "1").capture()?;
        Ok((generated.file, with_final_newline(text)))
    };
    GENERATED.iter().map(print).collect()
}

fn is_stale(path: &Path, fresh: &str) -> Result<bool> {
    match fs::read(path) {
        Ok(committed) => Ok(committed != fresh.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn with_final_newline(mut text: String) -> String {
    text.truncate(text.trim_end_matches('\n').len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_or_different_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cli.md");
        assert!(is_stale(&file, "text\n").unwrap());
        fs::write(&file, "text").unwrap();
        assert!(is_stale(&file, "text\n").unwrap());
        fs::write(&file, "text\n").unwrap();
        assert!(!is_stale(&file, "text\n").unwrap());
    }

    #[test]
    fn a_file_ends_with_one_newline() {
        assert_eq!(with_final_newline("a\nb".to_owned()), "a\nb\n");
        assert_eq!(with_final_newline("a\n\n".to_owned()), "a\n");
    }
}
