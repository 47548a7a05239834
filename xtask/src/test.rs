//! `cargo xtask test`: everything that must hold before a change is merged. CI runs exactly this.

use anyhow::Result;
use clap::Args;

use crate::say;
use crate::step::{self, Step};
use crate::workspace::Workspace;

/// Install what the tests need, then run every check in order; stops at the first failure
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Run only these steps (several with commas); `--list` names them
    #[arg(long, value_name = "STEP", value_delimiter = ',', hide_possible_values = true)]
    only: Vec<Step>,

    /// List the steps and do nothing
    #[arg(long)]
    list: bool,
}

impl Test {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let steps = step::select(&self.only);
        if self.list {
            for step in steps {
                say::data(format_args!("{:<14}{}", step.name(), step.purpose()));
            }
            return Ok(());
        }
        step::run_all(workspace, &steps)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        test: Test,
    }

    fn only(arguments: &[&str]) -> Result<Vec<Step>, clap::Error> {
        let line = Line::try_parse_from(std::iter::once(&"test").chain(arguments))?;
        Ok(step::select(&line.test.only))
    }

    #[test]
    fn steps_are_named_with_commas_or_by_repeating_the_option() {
        let expected = [Step::Format, Step::Deny];
        assert_eq!(only(&["--only", "deny,format"]).unwrap(), expected);
        assert_eq!(only(&["--only", "deny", "--only", "format"]).unwrap(), expected);
    }

    #[test]
    fn an_unknown_step_is_refused_and_the_known_ones_are_named() {
        let error = only(&["--only", "linting"]).unwrap_err().to_string();
        assert!(error.contains("linting"), "{error}");
    }
}
