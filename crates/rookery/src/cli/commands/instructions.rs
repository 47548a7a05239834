//! `rookery instructions`

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::project::replace_file;

/// What agents are told.
const TEXT: &str = include_str!("../texts/instructions.md");
const BEGIN: &str = "<!-- rookery: begin (written by `rookery instructions --into`) -->\n";
const END: &str = "<!-- rookery: end -->\n";

/// Print the text that tells agents how to work in the team, for a project's CLAUDE.md or AGENTS.md
///
/// With --into the text is put into a file, between two marks; again replaces what is between them. Everything else in the
/// file stays as it is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Put the text into this file instead of printing it
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let Some(file) = args.into else { return context.out.raw(TEXT.as_bytes()) };
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
    if after == before {
        context.out.note(&format!("{shown} is up to date"));
        return Ok(());
    }
    let written = replace_file(&file, after.as_bytes());
    written.with_context(|| format!("cannot write {shown}"))?;
    context.out.note(&format!("{shown} tells agents how to work in the team now"));
    Ok(())
}

/// The text of a file with our section in it: in the place of the old one, else at the end.
fn with_section(text: &str) -> Result<String, &'static str> {
    let section = format!("{BEGIN}{TEXT}{END}");
    match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            Ok(format!("{}{section}{}", &text[..begin], &text[end + END.len()..]))
        }
        (None, None) => {
            let gap = match text {
                "" => "",
                text if text.ends_with("\n\n") => "",
                text if text.ends_with('\n') => "\n",
                _ => "\n\n",
            };
            Ok(format!("{text}{gap}{section}"))
        }
        _ => Err("one of the two marks around the section is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_added_once_and_replaced_where_it_stands() {
        let mine = "# My project\n\nBe nice.\n";
        let once = with_section(mine).unwrap();
        assert!(once.starts_with(mine) && once.ends_with(END));
        assert_eq!(with_section(&once).unwrap(), once);
        let between = format!("{}\n## More of mine\n", once.replace("Working in a team", "Old words"));
        let fresh = with_section(&between).unwrap();
        assert_eq!(fresh, format!("{once}\n## More of mine\n"));
        assert_eq!(with_section("").unwrap(), format!("{BEGIN}{TEXT}{END}"));
        assert!(with_section(&format!("{mine}{END}")).is_err());
        assert!(with_section(&format!("{mine}{BEGIN}")).is_err());
    }

    #[test]
    fn it_names_only_tools_that_there_are() {
        let tools: Vec<_> = rookery_surfaces::mcp::tools::all().iter().map(|tool| tool.name).collect();
        let named = TEXT.split('`').skip(1).step_by(2).filter(|word| word.contains('_') && !word.contains(' '));
        let values = ["in_progress", "all_checkpoints"];
        for name in named.filter(|name| !values.contains(name)) {
            assert!(tools.contains(&name), "{name}");
        }
    }
}
