//! `cargo xtask rename`: applies the rows of `xtask/renames.tsv` to the workspace, group by group.
//!
//! Names are resolved through modules, imports and re-exports, so that two types of one name can get different new
//! names. Fields and methods need types to be told apart: one is edited where its name is unique in the workspace,
//! where it is reached through `self`, in literals and patterns of its type, and in the files that the row lists; other
//! places are printed.

mod apply;
mod compiler;
mod links;
mod modules;
mod resolve;
mod sites;
mod table;
mod text;

use anyhow::{Result, bail};
use clap::Args;

use self::apply::Session;
use self::table::Row;
use crate::process::Program;
use crate::say;
use crate::source::{SourceTree, tracked_files};
use crate::workspace::Workspace;

/// Rename identifiers, files and texts by the table xtask/renames.tsv
///
/// The table has the columns group, crate, kind, old, new, scope and flags, separated by tabs. Kinds: type, fn, field,
/// variant, const, module, file, text, test. Members are written `Owner::member`. The scope limits where `old` is
/// defined, as globs relative to the crate; for `text` rows it names the files to edit. Flags: `merge` (the new name
/// may exist), `text` (comments and strings that name `old` in backticks change too), `sites=GLOB` (in these files
/// every `.old` is meant).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask rename --dry-run            counts and clashes of every group
  cargo xtask rename --dry-run --sites agents
  cargo xtask rename agents               edits, formats and runs `cargo check`; commit the result
  cargo xtask rename agents --compiler    also edits fields and methods where the compiler misses them
  cargo xtask rename agents --finish      the same for a group that was applied before
  cargo xtask rename --list-tests         every test, as rows to fill in")]
pub(crate) struct Rename {
    /// The groups to apply, in the order of the table
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,

    /// Count edits and report problems; change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print every place that could not be decided
    #[arg(long)]
    sites: bool,

    /// Do not run `cargo check` after a group
    #[arg(long)]
    no_check: bool,

    /// After a group, let compiler errors show where renamed fields and methods are still used, and edit those places
    #[arg(long, conflicts_with_all = ["no_check", "dry_run"])]
    compiler: bool,

    /// Only let compiler errors show the remaining places of groups that were applied before; the work tree may have
    /// changes
    #[arg(long, conflicts_with_all = ["no_check", "dry_run", "compiler"])]
    finish: bool,

    /// Print all test functions as rows of the table, without new names
    #[arg(long, conflicts_with_all = ["dry_run", "compiler"])]
    list_tests: bool,
}

impl Rename {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let root = workspace.root();
        let tracked = tracked_files(root)?;
        if self.list_tests {
            list_tests(&SourceTree::read(root, &tracked)?);
            return Ok(());
        }
        let rows = table::read(root)?;
        let groups = self.selected(&rows)?;
        if self.finish {
            let rows: Vec<&Row> = rows.iter().filter(|row| groups.contains(&row.group)).collect();
            return compiler::finish(workspace, &rows);
        }
        if !self.dry_run {
            ensure_clean(workspace)?;
        }
        let mut session = Session::new(root, tracked)?;
        let mut problems = 0;
        for group in groups {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
            say::heading(format_args!("{group}: {} rows", rows.len()));
            problems += self.apply(workspace, &mut session, &rows)?;
        }
        if problems > 0 {
            bail!("{problems} rows cannot be applied; nothing of their groups was written");
        }
        Ok(())
    }

    fn selected(&self, rows: &[Row]) -> Result<Vec<String>> {
        let mut groups: Vec<String> = Vec::new();
        for row in rows {
            if !groups.contains(&row.group) {
                groups.push(row.group.clone());
            }
        }
        if let Some(unknown) = self.groups.iter().find(|group| !groups.contains(group)) {
            bail!("the table has no group `{unknown}`; it has {}", groups.join(", "));
        }
        if self.groups.is_empty() && !self.dry_run {
            bail!("name the groups to apply ({}), or add --dry-run", groups.join(", "));
        }
        groups.retain(|group| self.groups.is_empty() || self.groups.contains(group));
        Ok(groups)
    }

    /// Applies one group and returns the number of rows that could not be applied.
    fn apply(&self, workspace: &Workspace, session: &mut Session, rows: &[&Row]) -> Result<usize> {
        let mut problems = 0;
        for row in rows {
            let outcome = session.plan(row)?;
            if !outcome.is_found {
                say::note(format_args!("{}: {}: not found", row.line, row.title()));
                problems += 1;
                continue;
            }
            let json = if outcome.changes_json { ", changes JSON" } else { "" };
            let undecided = match outcome.undecided.len() {
                0 => String::new(),
                count => format!(", {count} undecided"),
            };
            let edits = outcome.edits.len() + outcome.other_edits;
            say::note(format_args!("{}: {}: {edits} edits{undecided}{json}", row.line, row.title()));
            for clash in &outcome.clashes {
                say::note(format_args!("    clash: {clash}"));
            }
            if self.sites || (!self.dry_run && !self.compiler) {
                outcome.undecided.iter().for_each(|place| say::note(format_args!("    undecided: {place}")));
            }
            problems += usize::from(!outcome.clashes.is_empty());
            session.accept(row, outcome);
        }
        if problems == 0 && !self.dry_run {
            session.write()?;
            workspace.cargo()?.args(["fmt", "--all"]).run()?;
            if self.compiler {
                compiler::finish(workspace, rows)?;
            } else if !self.no_check {
                workspace.cargo()?.args(["check", "--workspace", "--all-targets"]).run()?;
            }
            session.reload()?;
        }
        Ok(problems)
    }
}

fn ensure_clean(workspace: &Workspace) -> Result<()> {
    let status = Program::new("git").args(["status", "--porcelain"]).dir(workspace.root()).capture()?;
    if !status.trim().is_empty() {
        bail!(
            "the work tree has changes; commit or stash them first, so that the rename is a commit of its own\n{status}"
        );
    }
    Ok(())
}

fn list_tests(tree: &SourceTree) {
    for file in &tree.files {
        let base = match file.package.as_str() {
            package @ ("xtask" | "bench" | "fuzz") => format!("{package}/"),
            package => format!("crates/{package}/"),
        };
        let path = file.path.strip_prefix(&base).unwrap_or(&file.path);
        for test in file.items.items.iter().filter(|item| item.is_test) {
            say::data(format_args!("tests\t{}\ttest\t{}\t\t{path}", file.package, test.name));
        }
    }
}
