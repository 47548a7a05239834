//! Two builds of the daemon side by side: whether a change costs speed, start time, memory or instructions.
//!
//! Both run at the same time, each on its own store, and take turns in short slices. Ratios are taken within a round.

mod instructions;
mod speed;
mod start;

use std::path::{Path, PathBuf};

use crate::daemon::{self, Daemon};
use crate::report::{Figure, Report};
use crate::sample::Spread;
use crate::{Plan, say};

/// No rate may fall, and no time or size grow, by more than this many percent.
const TOLERATED: f64 = 5.0;

/// A program to compare, with its name in the figures.
#[derive(Debug)]
struct Build {
    name: &'static str,
    program: PathBuf,
}

/// The build that this program belongs to, then the other one.
type Builds = [Build; 2];

pub(crate) fn run(plan: &Plan, other: &Path, report: &mut Report) -> anyhow::Result<()> {
    let builds = builds(other)?;
    say::heading("speed of two builds");
    speed::run(plan, &builds, report)?;
    say::heading("start and memory of two builds");
    start::run(plan, &builds, report)
}

/// Counts instructions instead of time, which gives the same result on a busy machine.
pub(crate) fn count_instructions(plan: &Plan, other: &Path, report: &mut Report) -> anyhow::Result<()> {
    instructions::run(plan, &builds(other)?, report)
}

fn builds(other: &Path) -> anyhow::Result<Builds> {
    let other = other.canonicalize()?;
    Ok([
        Build { name: "this build", program: daemon::sibling("rookery")? },
        Build { name: "the other build", program: other },
    ])
}

impl Build {
    /// Starts the daemon on SQLite in a folder below `folder` named after `purpose`.
    async fn start(&self, folder: &Path, purpose: &str) -> anyhow::Result<Daemon> {
        Daemon::start_with(&self.program, &self.root(folder, purpose)?, &[]).await
    }

    fn root(&self, folder: &Path, purpose: &str) -> anyhow::Result<PathBuf> {
        let root = folder.join(format!("{purpose}, {}", self.name).replace([' ', ','], "-"));
        std::fs::create_dir_all(&root)?;
        Ok(root)
    }
}

/// Adds the figures of each build, and the ratio of both within each round, in percent.
fn compare(name: &str, unit: &'static str, builds: &Builds, rounds: &[[f64; 2]], report: &mut Report) -> Spread {
    for (at, build) in builds.iter().enumerate() {
        let spread = Spread::of(rounds.iter().map(|round| round[at]));
        report.add(Figure::spread(format!("{name}, {}", build.name), spread, unit));
    }
    Spread::of(rounds.iter().map(|[ours, theirs]| ours / theirs * 100.0))
}
