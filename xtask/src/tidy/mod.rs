//! `cargo xtask tidy`: counts what the code should have less of, and compares it with `xtask/tidy.toml`.
//!
//! Every check is text over the files that git knows. A count may only go down: above its ceiling it is an error, and
//! below it too, until the ceiling is lowered. CONTRIBUTING.md describes the checks for people; the functions here
//! define them.

mod config;
mod cycles;
mod figures;
mod imports;
mod input;
mod lengths;
mod names;
mod phrases;
mod recipes;
mod registry;
mod tests_named;
mod unused;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use self::config::Config;
use self::figures::Figures;
use self::input::Input;
use crate::say;
use crate::workspace::Workspace;

/// Count what the code should have less of, and compare with the ceilings in xtask/tidy.toml
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask tidy                       the table; fails if a count differs from its ceiling
  cargo xtask tidy --list long-files     every place of one check, as file:line
  cargo xtask tidy --lower               writes lower ceilings after an improvement
  cargo xtask tidy --figures             sizes, cycles and registries, to compare before and after")]
pub(crate) struct Tidy {
    /// Print every place that a check counts
    #[arg(long, value_name = "CHECK", conflicts_with_all = ["lower", "figures"])]
    list: Option<String>,

    /// Write lower ceilings where counts went down
    #[arg(long)]
    lower: bool,

    /// Print figures about the code instead of the checks
    #[arg(long)]
    figures: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A place that a check counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The name or text that is counted.
    pub(crate) item: String,
}

impl Finding {
    pub(crate) fn new(file: &str, line: usize, item: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, item: item.into() }
    }
}

/// How places become a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Places,
    /// Places with the same item count once.
    Items,
}

/// The aim of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    AtMost(usize),
    /// So many per thousand of a total.
    PerThousand(usize),
}

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) places: Vec<Finding>,
    /// The number of all things that were looked at.
    pub(crate) total: Option<usize>,
}

impl From<Vec<Finding>> for Found {
    fn from(places: Vec<Finding>) -> Self {
        Self { places, total: None }
    }
}

struct Check {
    name: &'static str,
    counting: Counting,
    goal: Goal,
    find: fn(&Input) -> Found,
}

const fn places(name: &'static str, goal: usize, find: fn(&Input) -> Found) -> Check {
    Check { name, counting: Counting::Places, goal: Goal::AtMost(goal), find }
}

const fn items(name: &'static str, goal: Goal, find: fn(&Input) -> Found) -> Check {
    Check { name, counting: Counting::Items, goal, find }
}

/// Every check. The names are the keys of `xtask/tidy.toml`.
const CHECKS: &[Check] = &[
    places("crate-arrows", 0, imports::crate_arrows),
    places("store-in-surfaces", 0, imports::store_in_surfaces),
    places("protocol-crates", 0, imports::protocol_crates),
    places("protocol-names-in-core", 0, imports::protocol_names_in_core),
    places("cycle-core", 0, |input| cycles::largest(input, "core")),
    places("cycle-engine", 0, |input| cycles::largest(input, "engine")),
    places("cycle-surfaces", 0, |input| cycles::largest(input, "surfaces")),
    places("cycle-store", 5, |input| cycles::largest(input, "store")),
    places("cycle-client", 5, |input| cycles::largest(input, "client")),
    places("cycle-runner", 5, |input| cycles::largest(input, "runner")),
    places("cycle-rookery", 5, |input| cycles::largest(input, "rookery")),
    places("long-files", 0, lengths::long_files),
    places("long-functions", 0, lengths::long_functions),
    items("repeated-type-names", Goal::PerThousand(80), names::repeated_types),
    items("often-repeated-type-names", Goal::AtMost(0), names::often_repeated_types),
    places("participle-functions", 0, names::participles).per_thousand(30),
    places("doc-openers", 0, phrases::doc_openers),
    places("banned-phrases-in-comments", 0, phrases::in_comments).per_thousand(2),
    places("banned-phrases-in-strings", 0, phrases::in_strings),
    places("banned-phrases-in-docs", 0, phrases::in_docs),
    places("banned-phrases-in-ui", 0, phrases::in_ui),
    places("banned-names", 0, names::banned_names),
    places("underscore-variables", 0, names::underscore_variables),
    places("large-matches", 0, registry::large_matches),
    places("unregistered", 0, registry::unregistered),
    places("recipe-paths", 0, recipes::missing_paths),
    places("recipe-event-kind", 6, |input| recipes::files_of(input, "event-kind")),
    places("recipe-code", 2, |input| recipes::files_of(input, "code")),
    places("recipe-setting", 1, |input| recipes::files_of(input, "setting")),
    places("recipe-task-field", 8, |input| recipes::files_of(input, "task-field")),
    places("unused-dependencies", 0, unused::dependencies),
    places("own-file-only", 0, unused::own_file_only),
    places("engine-methods", 20, unused::engine_methods),
    places("named-tests", 0, tests_named::missing),
    places("test-names-repeated", 0, tests_named::repeated),
    places("test-names-long", 0, tests_named::long),
    places("test-names-banned", 0, tests_named::banned),
    places("test-subjects", 0, tests_named::rare_subjects),
];

impl Check {
    const fn per_thousand(mut self, share: usize) -> Self {
        self.goal = Goal::PerThousand(share);
        self
    }

    /// Runs the check and removes the places that an exception names. Returns the exceptions that were used.
    fn run(&self, input: &Input, config: &Config) -> (Row, Vec<Finding>, Vec<usize>) {
        let found = (self.find)(input);
        let mut used = Vec::new();
        let mut places = found.places;
        places.retain(|place| match config.exception_for(self.name, place) {
            Some(index) => {
                used.push(index);
                false
            }
            None => true,
        });
        let mut distinct: Vec<&str> = places.iter().map(|place| place.item.as_str()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let now = match self.counting {
            Counting::Places => places.len(),
            Counting::Items => distinct.len(),
        };
        let goal = match self.goal {
            Goal::AtMost(goal) => goal,
            Goal::PerThousand(share) => found.total.unwrap_or_default() * share / 1_000,
        };
        let ceiling = config.ceilings.get(self.name).copied();
        (Row { check: self.name, now, ceiling, goal, total: found.total }, places, used)
    }
}

/// A line of the table.
#[derive(Debug, Serialize)]
struct Row {
    check: &'static str,
    now: usize,
    ceiling: Option<usize>,
    goal: usize,
    /// The number of all things that were looked at.
    total: Option<usize>,
}

impl Row {
    fn problem(&self) -> Option<String> {
        let Self { check, now, .. } = self;
        match self.ceiling {
            None => Some(format!(
                "{check}: {now}, and {} has no ceiling for it; run `cargo xtask tidy --lower`",
                config::FILE
            )),
            Some(ceiling) if *now > ceiling => {
                Some(format!("{check}: {now} is above the ceiling of {ceiling}; see `cargo xtask tidy --list {check}`"))
            }
            Some(ceiling) if *now < ceiling => {
                Some(format!("{check}: {now} is below the ceiling of {ceiling}; run `cargo xtask tidy --lower`"))
            }
            Some(_) => None,
        }
    }

    fn line(&self) -> String {
        let ceiling = self.ceiling.map_or("-".to_owned(), |ceiling| ceiling.to_string());
        let share = match self.total {
            #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
            Some(total) if total > 0 => format!("  {:.1} % of {total}", self.now as f64 * 100.0 / total as f64),
            _ => String::new(),
        };
        format!("{:<28}{:>7}{:>9}{:>7}{share}", self.check, self.now, ceiling, self.goal)
    }
}

impl Tidy {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let config = Config::read(workspace.root())?;
        let input = Input::read(workspace.root(), config.witnesses.clone())?;
        if self.figures {
            return Figures::count(&input).print(self.json);
        }
        if let Some(name) = &self.list {
            return list(&input, &config, name, self.json);
        }
        let (rows, problems) = check_all(&input, &config);
        if self.lower {
            return self.write_lower(workspace, &rows, config);
        }
        if self.json {
            say::data(serde_json::to_string_pretty(&rows)?);
        } else {
            say::data(format_args!("{:<28}{:>7}{:>9}{:>7}", "check", "now", "ceiling", "goal"));
            rows.iter().for_each(|row| say::data(row.line()));
        }
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        Ok(())
    }

    fn write_lower(&self, workspace: &Workspace, rows: &[Row], config: Config) -> Result<()> {
        let now: BTreeMap<&str, usize> = rows.iter().map(|row| (row.check, row.now)).collect();
        for change in config.lower(workspace.root(), &now)? {
            say::note(change);
        }
        Ok(())
    }
}

/// Runs every check. The problems are counts that differ from their ceilings, and exceptions without use.
fn check_all(input: &Input, config: &Config) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut used = vec![false; config.exceptions.len()];
    let outcomes: Vec<(Row, Vec<usize>)> = thread::scope(|scope| {
        let run = |check: &'static Check| {
            let (row, _, exceptions) = check.run(input, config);
            (row, exceptions)
        };
        let running: Vec<_> = CHECKS.iter().map(|check| scope.spawn(move || run(check))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    for (row, exceptions) in outcomes {
        exceptions.into_iter().for_each(|index| used[index] = true);
        rows.push(row);
    }
    let mut problems: Vec<String> = rows.iter().filter_map(Row::problem).collect();
    for name in config.ceilings.keys().filter(|name| !CHECKS.iter().any(|check| check.name == name.as_str())) {
        problems.push(format!("{} has a ceiling for `{name}`, which is no check; remove it", config::FILE));
    }
    for recipe in input.witnesses.keys().filter(|recipe| recipes::files_of(input, recipe).places.is_empty()) {
        problems.push(format!("no file names a witness of `{recipe}`; give its new name in {}", config::FILE));
    }
    let unused = config.exceptions.iter().zip(used).filter(|(_, used)| !used);
    problems.extend(unused.map(|(exception, _)| format!("the exception {exception} is no longer needed; remove it")));
    (rows, problems)
}

fn list(input: &Input, config: &Config, name: &str, json: bool) -> Result<()> {
    let Some(check) = CHECKS.iter().find(|check| check.name == name) else {
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        bail!("there is no check `{name}`; there are {}", names.join(", "));
    };
    let (_, mut places, _) = check.run(input, config);
    places.sort();
    if json {
        say::data(serde_json::to_string_pretty(&places)?);
        return Ok(());
    }
    for place in places {
        say::data(format_args!("{}:{} {}", place.file, place.line, place.item));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn workspace_is_within_its_ceilings() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let config = Config::read(root).unwrap();
        let input = Input::read(root, config.witnesses.clone()).unwrap();
        let (_, problems) = check_all(&input, &config);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn count_must_equal_its_ceiling() {
        let problem = |now, ceiling| Row { check: "x", now, ceiling, goal: 0, total: None }.problem();
        assert_eq!(problem(3, Some(3)), None);
        assert!(problem(4, Some(3)).unwrap().contains("above the ceiling of 3"));
        assert!(problem(2, Some(3)).unwrap().contains("--lower"));
        assert!(problem(0, None).unwrap().contains("no ceiling"));
    }

    #[test]
    fn exception_without_use_is_a_problem() {
        let input = Input::of(&[("crates/core/src/a.rs", "fn f() { let _unused = 1; }")]);
        let mut config = Config::parse(
            "[[exceptions]]\ncheck = \"underscore-variables\"\nfile = \"crates/core/src/a.rs\"\nreason = \"r\"\n
             [[exceptions]]\ncheck = \"long-files\"\nfile = \"crates/core/src/b.rs\"\nreason = \"r\"\n",
        )
        .unwrap();
        let (rows, problems) = check_all(&input, &config);
        let row = rows.iter().find(|row| row.check == "underscore-variables").unwrap();
        assert_eq!(row.now, 0);
        assert!(
            problems.iter().any(|problem| problem.contains("long-files in crates/core/src/b.rs is no longer needed"))
        );
        config.ceilings.insert("nothing".to_owned(), 1);
        let (_, problems) = check_all(&input, &config);
        assert!(problems.iter().any(|problem| problem.contains("`nothing`, which is no check")));
    }
}
