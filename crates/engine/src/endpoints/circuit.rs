//! Sparing an endpoint that fails again and again: after some failures in a row nothing is sent to it for a while, then one
//! message tries whether it is back.

use std::time::Duration;

/// How far the pauses grow.
const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// When it opens, and for how long at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tolerance {
    pub(crate) failures: u32,
    pub(crate) pause: Duration,
}

/// Times are in milliseconds on a clock that never goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Circuit {
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: u64,
        pause: Duration,
    },
    /// One message is on its way to try.
    Probing {
        pause: Duration,
    },
}

impl Default for State {
    fn default() -> State {
        State::Closed { failures: 0 }
    }
}

/// What may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    Granted,
    /// One message, and nothing else until it is known what became of it.
    Once,
    NotBefore(u64),
    /// What is on its way decides.
    Wait,
}

impl Circuit {
    pub(crate) fn leave(self, now: u64) -> Leave {
        match self.state {
            State::Closed { .. } => Leave::Granted,
            State::Open { until, .. } if until > now => Leave::NotBefore(until),
            State::Open { .. } => Leave::Once,
            State::Probing { .. } => Leave::Wait,
        }
    }

    /// Something is sent by this leave.
    pub(crate) fn sends(&mut self) {
        if let State::Open { pause, .. } = self.state {
            self.state = State::Probing { pause };
        }
    }

    /// It answered: what it thinks of the message is another matter.
    pub(crate) fn answered(&mut self) {
        self.state = State::default();
    }

    /// Nothing was sent after all: the next one may try.
    pub(crate) fn untried(&mut self, now: u64) {
        if let State::Probing { pause } = self.state {
            self.state = State::Open { until: now, pause };
        }
    }

    pub(crate) fn failed(&mut self, now: u64, tolerance: Tolerance) {
        let open = |pause: Duration| {
            let pause = pause.min(MAX_BACKOFF);
            State::Open { until: now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)), pause }
        };
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < tolerance.failures => State::Closed { failures: failures + 1 },
            State::Closed { .. } => open(tolerance.pause),
            State::Probing { pause } => open(pause * 2),
            // Sent before it opened.
            State::Open { .. } => self.state,
        };
    }

    /// Until when nothing is sent.
    pub(crate) fn open_until(self) -> Option<u64> {
        if let State::Open { until, .. } = self.state { Some(until) } else { None }
    }

    pub(crate) fn is_open(self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { failures: 3, pause: Duration::from_millis(100) };

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_by_one_answer() {
        let mut circuit = Circuit::default();
        for _ in 0..2 {
            circuit.failed(0, TOLERANCE);
        }
        circuit.answered();
        for _ in 0..2 {
            circuit.failed(0, TOLERANCE);
            assert_eq!(circuit.leave(0), Leave::Granted);
        }
        circuit.failed(10, TOLERANCE);
        assert_eq!((circuit.leave(10), circuit.leave(109)), (Leave::NotBefore(110), Leave::NotBefore(110)));
        circuit.failed(50, TOLERANCE);
        assert_eq!(circuit.leave(110), Leave::Once, "what was under way does not put it off");
        circuit.sends();
        assert_eq!(circuit.leave(110), Leave::Wait);
        circuit.answered();
        assert_eq!((circuit.leave(110), circuit.is_open()), (Leave::Granted, false));
    }

    #[test]
    fn a_try_in_vain_makes_the_pause_longer_within_bounds() {
        let mut circuit = Circuit::default();
        (0..3).for_each(|_| circuit.failed(0, TOLERANCE));
        let mut now = 100;
        for pause in [200, 400, 800] {
            circuit.sends();
            circuit.failed(now, TOLERANCE);
            assert_eq!(circuit.leave(now), Leave::NotBefore(now + pause));
            now += pause;
        }
        for _ in 0..40 {
            circuit.sends();
            circuit.failed(now, TOLERANCE);
        }
        assert_eq!(circuit.leave(now), Leave::NotBefore(now + 300_000));
    }
}
