//! When an agent is woken although nobody wrote to it. An interval counts from when the agent last did something; a cron line
//! goes by the clock, and a time that came while the agent was busy is made up for once.

use std::time::Duration;

use jiff::Zoned;

use crate::file::Wakeup;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RunnerAlarm {
    wakeup: Wakeup,
    /// The next time by the clock.
    at: Option<Zoned>,
}

impl RunnerAlarm {
    pub(crate) fn set(wakeup: Wakeup, now: &Zoned) -> RunnerAlarm {
        let at = wakeup.next(now, 1).pop();
        RunnerAlarm { wakeup, at }
    }

    /// How long until it rings, nothing if it does. `idle` is how long the agent has had nothing to do.
    pub(crate) fn rings_in(&self, idle: Duration, now: &Zoned) -> Duration {
        match (&self.wakeup, &self.at) {
            (Wakeup::Every(length), _) => length.saturating_sub(idle),
            (Wakeup::Cron { .. }, Some(at)) => Duration::try_from(now.duration_until(at)).unwrap_or_default(),
            // Its times are over.
            (Wakeup::Cron { .. }, None) => Duration::MAX,
        }
    }

    /// It rang and was heard.
    pub(crate) fn rang(&mut self, now: &Zoned) {
        self.at = self.wakeup.next(now, 1).pop();
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    fn every_half_hour() -> Wakeup {
        let line = "*/30 * * * *";
        Wakeup::Cron { line: line.to_owned(), cron: Box::new(line.parse().unwrap()) }
    }

    fn noon() -> Zoned {
        date(2026, 3, 1).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap()
    }

    fn later(minutes: i64) -> Zoned {
        noon().checked_add(jiff::SignedDuration::from_mins(minutes)).unwrap()
    }

    #[test]
    fn an_interval_counts_from_the_last_activity() {
        let alarm = RunnerAlarm::set(Wakeup::Every(Duration::from_secs(300)), &noon());
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(alarm.rings_in(minutes(0), &noon()), minutes(5));
        assert_eq!(alarm.rings_in(minutes(4), &later(100)), minutes(1));
        assert_eq!(alarm.rings_in(minutes(9), &noon()), Duration::ZERO);
    }

    #[test]
    fn a_time_by_the_clock_rings_once_also_if_it_is_heard_late() {
        let mut alarm = RunnerAlarm::set(every_half_hour(), &noon());
        let idle = Duration::ZERO;
        assert_eq!(alarm.rings_in(idle, &later(10)), Duration::from_secs(20 * 60));
        assert_eq!(alarm.rings_in(idle, &later(45)), Duration::ZERO, "it was busy at half past");
        alarm.rang(&later(45));
        assert_eq!(alarm.rings_in(idle, &later(45)), Duration::from_secs(15 * 60));
    }
}
