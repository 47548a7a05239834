//! Another build of the daemon on the same server: whether a change is worth keeping.

use std::path::Path;

use super::{CLIENTS, Databases, MOST};
use crate::Plan;
use crate::report::{Figure, Report};
use crate::rest::Rest;
use crate::turns::{Runner, rotate, share, slices};

const OURS: &str = "this build";
const THEIRS: &str = "the other build";

pub(crate) fn run(plan: &Plan, program: &Path, report: &mut Report) -> anyhow::Result<()> {
    let databases = Databases::start()?;
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ours, theirs) = (databases.create("ours")?, databases.create("theirs")?);
    let ours = load.block_on(Rest::shared(scratch.path(), &ours, 1, MOST))?;
    let theirs = load.block_on(Rest::of(program, scratch.path(), &theirs, MOST))?;
    let mut runners = Vec::new();
    for clients in CLIENTS {
        runners.push(Runner::rest(OURS, &load, &ours, clients));
        runners.push(Runner::rest(THEIRS, &load, &theirs, clients));
    }
    rotate(&mut runners, plan)?;
    for runner in &runners {
        report.add(Figure::spread(runner.label(), runner.spread(|slice| slice.per_second), "/s"));
    }
    for clients in CLIENTS {
        let share = share(slices(&runners, OURS, clients), slices(&runners, THEIRS, clients));
        report.add(Figure::spread(format!("{OURS} / {THEIRS}, {clients} clients"), share, "%"));
    }
    Ok(())
}
