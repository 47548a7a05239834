//! Interleaving: the compared parts are measured in slices, one after the other, round by round.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::rest::Rest;
use crate::sample::{Client, Slice, Spread, closed_loop};
use crate::{Plan, say};

/// The pause between two slices, for leftover work of the last one.
const GAP: Duration = Duration::from_millis(30);

/// A part of the comparison.
pub(crate) struct Runner<'a> {
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    run: Box<dyn FnMut(Duration) -> anyhow::Result<Slice> + 'a>,
    pub(crate) slices: Vec<Slice>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        name: &'static str,
        clients: usize,
        run: impl FnMut(Duration) -> anyhow::Result<Slice> + 'a,
    ) -> Runner<'a> {
        Runner { name, clients, run: Box::new(run), slices: vec![] }
    }

    /// Clients in a closed loop.
    pub(crate) fn crowd(name: &'static str, load: &'a Runtime, mut crowd: Vec<impl Client + 'a>) -> Runner<'a> {
        Runner::new(name, crowd.len(), move |length| load.block_on(closed_loop(&mut crowd, length)))
    }

    /// Clients of daemons in a closed loop.
    pub(crate) fn rest(name: &'static str, load: &'a Runtime, rest: &'a Rest, clients: usize) -> Runner<'a> {
        Runner::new(name, clients, move |length| load.block_on(rest.slice(clients, length)))
    }

    pub(crate) fn label(&self) -> String {
        match self.clients {
            1 => format!("{}, 1 client", self.name),
            clients => format!("{}, {clients} clients", self.name),
        }
    }

    pub(crate) fn spread(&self, of: impl Fn(&Slice) -> f64) -> Spread {
        Spread::of(self.slices.iter().map(of))
    }
}

/// Measures every part once in each round, which starts with another part each time.
pub(crate) fn rotate(runners: &mut [Runner<'_>], plan: &Plan) -> anyhow::Result<()> {
    for runner in runners.iter_mut() {
        // Warms up connections, caches and files.
        (runner.run)(plan.slice / 2)?;
    }
    let count = runners.len();
    for round in 0..plan.rounds {
        for turn in 0..count {
            let runner = &mut runners[(round * 5 + turn) % count];
            let slice = (runner.run)(plan.slice)?;
            runner.slices.push(slice);
            std::thread::sleep(GAP);
        }
        say::note(format_args!("round {} of {}", round + 1, plan.rounds));
    }
    Ok(())
}

/// The measurements of one part, by round.
pub(crate) fn slices<'r>(runners: &'r [Runner<'_>], name: &str, clients: usize) -> &'r [Slice] {
    runners.iter().find(|runner| runner.name == name && runner.clients == clients).map_or(&[], |found| &found.slices)
}

/// The ratio of two parts within each round.
pub(crate) fn ratio(one: &[Slice], other: &[Slice], of: fn(&Slice) -> f64) -> Spread {
    Spread::of(one.iter().zip(other).map(|(one, other)| of(one) / of(other)))
}

/// The rate of one part in percent of another's.
pub(crate) fn share(one: &[Slice], other: &[Slice]) -> Spread {
    let spread = ratio(one, other, |slice| slice.per_second);
    Spread { median: spread.median * 100.0, low: spread.low * 100.0, high: spread.high * 100.0 }
}
