//! Runs seeds of the simulation: `sim --seeds 0..1000 [--sabotage NAME] [--steps N]`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Context, bail};
use rookery_testkit::sim::{self, Plan, STEPS, Sabotage};

#[derive(Debug)]
struct Arguments {
    seeds: Range<u64>,
    steps: u32,
    sabotage: Option<Sabotage>,
}

#[expect(clippy::print_stdout, reason = "a command line program tells what it found")]
fn main() -> anyhow::Result<ExitCode> {
    let Arguments { seeds, steps, sabotage } = parse(std::env::args().skip(1))?;
    let (mut ran, mut failed, mut events, mut posts) = (0, 0, 0, 0);
    let mut digest = DefaultHasher::new();
    for seed in seeds {
        ran += 1;
        match sim::run(Plan { seed, steps, sabotage }) {
            Ok(summary) => {
                events += summary.facts;
                posts += summary.posts;
                summary.digest.hash(&mut digest);
            }
            Err(failure) => {
                failed += 1;
                println!("{failure}");
            }
        }
    }
    println!("{ran} seeds, {failed} failed, {events} events and {posts} posts in those that passed");
    // A change that must not change what is decided leaves this number as it is.
    println!("digest of their logs: {:016x}", digest.finish());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let mut parsed = Arguments { seeds: 0..100, steps: STEPS, sabotage: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--seeds" => {
                let (from, to) = value.split_once("..").context("--seeds takes a range such as 0..100")?;
                parsed.seeds = from.parse()?..to.parse()?;
            }
            "--steps" => parsed.steps = value.parse()?,
            "--sabotage" => {
                let names = Sabotage::ALL.map(Sabotage::name).join(", ");
                parsed.sabotage =
                    Some(Sabotage::parse(&value).with_context(|| format!("--sabotage is one of {names}"))?);
            }
            other => bail!("{other} is not an option; there are --seeds A..B, --steps N and --sabotage NAME"),
        }
    }
    Ok(parsed)
}
