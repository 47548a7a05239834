//! `rookery instructions`

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::Format;
use crate::project::replace_file;

/// What agents are told.
const TEXT: &str = include_str!("../texts/instructions.md");
const BEGIN: &str = "<!-- rookery: begin (written by `rookery instructions --into`) -->";
const END: &str = "<!-- rookery: end -->";

/// Print the text that tells agents how to work in the team, for a project's CLAUDE.md or AGENTS.md
///
/// With --into the text is put into a file, between two marks; again replaces what is between them. Everything else in the
/// file stays as it is, and the text gets the line endings that the file has.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Put the text into this file instead of printing it
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let Some(file) = args.into else {
        return match context.out.format() {
            Format::Json => context.out.json(&json!({ "text": TEXT })),
            Format::Human => context.out.raw(TEXT.as_bytes()),
        };
    };
    let shown = file.display();
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    let after = with_section(&before).map_err(|why| {
        let hint = "take both marks out of the file, or write both";
        Failure::new(format!("{shown}: {why}")).hint(hint)
    })?;
    let changed = after != before;
    if changed {
        let written = replace_file(&file, after.as_bytes());
        written.with_context(|| format!("cannot write {shown}"))?;
    }
    if context.out.format() == Format::Json {
        return context.out.json(&json!({ "file": file, "changed": changed }));
    }
    let told = if changed { "tells agents how to work in the team now" } else { "is up to date" };
    context.out.note(&format!("{shown} {told}"));
    Ok(())
}

/// The text of a file with our section in it: in the place of the old one, else at the end.
fn with_section(text: &str) -> Result<String, &'static str> {
    let (before, old, after) = match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            let after = &text[end + END.len()..];
            let after = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
            (&text[..begin], &text[begin..text.len() - after.len()], after)
        }
        (None, None) => (text, "", ""),
        _ => return Err("one of the two marks around the section is missing"),
    };
    // What is not ours tells the file's endings; where there is nothing else, what was written last does.
    let others = [before, after].concat();
    let ending = ending(if others.contains('\n') { &others } else { old });
    let gap = match before {
        _ if !old.is_empty() => String::new(),
        "" => String::new(),
        text if text.ends_with(&ending.repeat(2)) => String::new(),
        text if text.ends_with('\n') => ending.to_owned(),
        _ => ending.repeat(2),
    };
    let section = format!("{BEGIN}\n{TEXT}{END}\n").replace('\n', ending);
    Ok(format!("{before}{gap}{section}{after}"))
}

/// How most lines of a text end.
fn ending(text: &str) -> &'static str {
    let (all, windows) = (text.matches('\n').count(), text.matches("\r\n").count());
    if windows * 2 > all { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_added_once_and_replaced_where_it_stands() {
        let mine = "# My project\n\nBe nice.\n";
        let once = with_section(mine).unwrap();
        assert!(once.starts_with(mine) && once.ends_with(&format!("{END}\n")));
        assert_eq!(with_section(&once).unwrap(), once);
        let between = format!("{}\n## More of mine\n", once.replace("Working in a team", "Old words"));
        let fresh = with_section(&between).unwrap();
        assert_eq!(fresh, format!("{once}\n## More of mine\n"));
        assert_eq!(with_section("").unwrap(), format!("{BEGIN}\n{TEXT}{END}\n"));
        assert!(with_section(&format!("{mine}{END}")).is_err());
        assert!(with_section(&format!("{mine}{BEGIN}")).is_err());
    }

    #[test]
    fn the_file_keeps_its_line_endings() {
        let windows = |text: &str| text.replace('\n', "\r\n");
        for mine in ["# My project\n\nBe nice.\n", "# My project\n\n", "# My project\nno end"] {
            let once = with_section(mine).unwrap();
            assert_eq!(with_section(&windows(mine)).unwrap(), windows(&once), "{mine:?}");
            assert_eq!(with_section(&windows(&once)).unwrap(), windows(&once), "again changes nothing");
            // As an older version left it.
            let (others, ours) = once.split_at(once.find(BEGIN).unwrap());
            assert_eq!(with_section(&(windows(others) + ours)).unwrap(), windows(&once));
        }
        let alone = windows(&with_section("").unwrap());
        assert_eq!(with_section(&alone).unwrap(), alone);
    }

    #[test]
    fn it_names_only_tools_that_there_are() {
        let tools: Vec<_> = rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name).collect();
        let named = TEXT.split('`').skip(1).step_by(2).filter(|word| word.contains('_') && !word.contains(' '));
        let values = ["in_progress", "all_checkpoints", "reserved_for_you"];
        for name in named.filter(|name| !values.contains(name)) {
            assert!(tools.contains(&name), "{name}");
        }
    }
}
