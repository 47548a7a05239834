//! Samples of one slice, and statistics over many rounds.

use std::time::Duration;

use futures_util::future::join_all;

use crate::stopwatch::Stopwatch;

/// The measurement of one slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// The average number of events in a commit, if known.
    pub(crate) batch: Option<f64>,
}

impl Slice {
    pub(crate) fn of(mut nanos: Vec<u64>, elapsed: Duration) -> Slice {
        nanos.sort_unstable();
        Slice {
            per_second: nanos.len() as f64 / elapsed.as_secs_f64().max(f64::EPSILON),
            p50_ms: percentile(&nanos, 0.50) / 1e6,
            p99_ms: percentile(&nanos, 0.99) / 1e6,
            batch: None,
        }
    }
}

/// A client that waits for each answer before its next request.
pub(crate) trait Client {
    async fn act(&mut self) -> anyhow::Result<()>;
}

/// Runs all clients in a closed loop for the duration of the slice.
pub(crate) async fn closed_loop<C: Client>(clients: &mut [C], length: Duration) -> anyhow::Result<Slice> {
    let begun = Stopwatch::start();
    let clients = clients.iter_mut().map(|client| async move {
        let mut taken = Vec::with_capacity(1024);
        while begun.elapsed() < length {
            let asked = Stopwatch::start();
            client.act().await?;
            taken.push(asked.nanos());
        }
        anyhow::Ok(taken)
    });
    let mut all = Vec::new();
    for taken in join_all(clients).await {
        all.extend(taken?);
    }
    Ok(Slice::of(all, begun.elapsed()))
}

/// A percentile of the sorted samples, or 0 without samples.
pub(crate) fn percentile(sorted: &[u64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or_default() as f64
}

/// The median of some figures, with its quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| match sorted.len() {
            0 => f64::NAN,
            count => {
                let place = share * (count - 1) as f64;
                let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
                below + (above - below) * place.fract()
            }
        };
        Spread { median: at(0.5), low: at(0.25), high: at(0.75) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&sorted, 0.5), percentile(&sorted, 0.99)), (50.0, 99.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
        assert_eq!(percentile(&[7], 0.99), 7.0);
    }

    #[test]
    fn the_middle_lies_between_the_quartiles() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0, 4.0, 5.0]), Spread { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(Spread::of([1.0, 2.0]).median, 1.5);
        assert!(Spread::of([]).median.is_nan());
    }
}
