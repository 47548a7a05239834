//! Scheduled wakeups of an agent. An interval counts from the agent's last activity. A cron line follows the clock; times that
//! pass while the agent is busy cause one late wakeup.

use std::time::Duration;

use jiff::Zoned;

use crate::file::Wakeup;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RunnerAlarm {
    wakeup: Wakeup,
    /// The next time of a cron line.
    at: Option<Zoned>,
}

impl RunnerAlarm {
    pub(crate) fn set(wakeup: Wakeup, now: &Zoned) -> RunnerAlarm {
        let at = wakeup.next(now, 1).pop();
        RunnerAlarm { wakeup, at }
    }

    /// The time until the wakeup, zero if it is due. `idle` is the time since the agent's last activity.
    pub(crate) fn due_in(&self, idle: Duration, now: &Zoned) -> Duration {
        match (&self.wakeup, &self.at) {
            (Wakeup::Every(length), _) => length.saturating_sub(idle),
            (Wakeup::Cron { .. }, Some(at)) => Duration::try_from(now.duration_until(at)).unwrap_or_default(),
            // The cron line has no further times.
            (Wakeup::Cron { .. }, None) => Duration::MAX,
        }
    }

    /// Schedules the next time after a wakeup.
    pub(crate) fn reschedule(&mut self, now: &Zoned) {
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
    fn interval_counts_from_the_last_activity() {
        let alarm = RunnerAlarm::set(Wakeup::Every(Duration::from_secs(300)), &noon());
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(alarm.due_in(minutes(0), &noon()), minutes(5));
        assert_eq!(alarm.due_in(minutes(4), &later(100)), minutes(1));
        assert_eq!(alarm.due_in(minutes(9), &noon()), Duration::ZERO);
    }

    #[test]
    fn missed_cron_time_causes_one_late_wakeup() {
        let mut alarm = RunnerAlarm::set(every_half_hour(), &noon());
        let idle = Duration::ZERO;
        assert_eq!(alarm.due_in(idle, &later(10)), Duration::from_secs(20 * 60));
        assert_eq!(alarm.due_in(idle, &later(45)), Duration::ZERO, "it was busy at half past");
        alarm.reschedule(&later(45));
        assert_eq!(alarm.due_in(idle, &later(45)), Duration::from_secs(15 * 60));
    }
}
