//! Runs seeds of the simulation: `sim --seeds 0..1000 [--sabotage NAME] [--steps N]`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Context, bail};
use rookery_testkit::sim::{self, Plan, STEPS, Sabotage};

#[derive(Debug)]
struct Args {
    seeds: Range<u64>,
    steps: u32,
    sabotage: Option<Sabotage>,
}

#[expect(clippy::print_stdout, reason = "a command line program prints its result")]
fn main() -> anyhow::Result<ExitCode> {
    let Args { seeds, steps, sabotage } = parse(std::env::args().skip(1))?;
    let (mut ran, mut failed, mut events, mut posts) = (0, 0, 0, 0);
    let mut digest = DefaultHasher::new();
    for seed in seeds {
        ran += 1;
        match sim::run(Plan { seed, steps, sabotage }) {
            Ok(summary) => {
                events += summary.events;
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
    // Stays the same under a change that must not affect decisions.
    println!("digest of their logs: {:016x}", digest.finish());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Args> {
    let mut parsed = Args { seeds: 0..100, steps: STEPS, sabotage: None };
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
                    Some(Sabotage::parse(&value).with_context(|| format!("unknown sabotage; use one of {names}"))?);
            }
            other => bail!("unknown option {other}; use --seeds A..B, --steps N or --sabotage NAME"),
        }
    }
    Ok(parsed)
}
