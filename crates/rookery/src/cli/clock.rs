//! Times for people: "3m ago", and the local time of an event.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The moment that ages are counted from.
#[derive(Debug, Clone)]
pub struct Clock {
    now: Timestamp,
    zone: TimeZone,
}

impl Clock {
    /// This machine's time and time zone.
    #[expect(clippy::disallowed_methods, reason = "ages on a screen decide nothing, so they need no injected clock")]
    pub fn system() -> Self {
        Self { now: Timestamp::now(), zone: TimeZone::system() }
    }

    #[cfg(test)]
    pub(crate) fn fixed(now_millis: i64) -> Self {
        Self { now: Timestamp::from_millisecond(now_millis).unwrap(), zone: TimeZone::UTC }
    }

    /// The moment itself, on this machine's clock.
    pub fn zoned(&self) -> Zoned {
        self.now.to_zoned(self.zone.clone())
    }

    /// A name for a session of a program that this process stands for: `session-<epoch>-<process>`.
    pub fn session_id(&self) -> String {
        format!("session-{}-{}", self.epoch_seconds(), std::process::id())
    }

    pub fn epoch_seconds(&self) -> i64 {
        self.now.as_second()
    }

    /// Now, in ISO 8601.
    pub fn moment(&self) -> String {
        self.now.to_string()
    }

    pub fn is_past(&self, millis: i64) -> bool {
        millis <= self.now.as_millisecond()
    }

    /// How long ago a moment was, in its largest unit.
    pub fn age(&self, millis: i64) -> String {
        let seconds = (self.now.as_millisecond() - millis).max(0) / 1_000;
        format!("{} ago", span(seconds))
    }

    /// How long ago a moment was that is told in ISO 8601, in its largest unit; none if it is none.
    pub fn since(&self, moment: &str) -> Option<String> {
        let then: Timestamp = moment.parse().ok()?;
        Some(span((self.now.as_second() - then.as_second()).max(0)))
    }

    /// How long it is until a moment that is told in ISO 8601; none if it is over or none.
    pub fn until(&self, moment: &str) -> Option<String> {
        let then: Timestamp = moment.parse().ok()?;
        let left = then.as_millisecond() - self.now.as_millisecond();
        (left > 0).then(|| millis(left))
    }

    /// Local date and time of a moment.
    pub fn local(&self, millis: i64) -> String {
        match Timestamp::from_millisecond(millis) {
            Ok(moment) => moment.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            Err(_) => millis.to_string(),
        }
    }
}

/// Milliseconds as people say it: exact while they are few.
pub fn millis(millis: i64) -> String {
    match millis {
        ..1_000 => format!("{millis}ms"),
        1_000..10_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => span(millis / 1_000),
    }
}

/// Seconds in their largest unit.
pub fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit_and_are_never_negative() {
        let clock = Clock::fixed(1_700_000_000_000);
        for (before, age) in
            [(-5, "0s ago"), (90, "90s ago"), (600, "10m ago"), (10_000, "2h ago"), (900_000, "10d ago")]
        {
            assert_eq!(clock.age(1_700_000_000_000 - before * 1_000), age);
        }
        assert_eq!(clock.local(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(clock.since("2023-11-14T22:12:50.000Z").as_deref(), Some("30s"));
        assert_eq!(clock.since("yesterday"), None);
    }

    #[test]
    fn durations_are_exact_while_they_are_short() {
        for (given, told) in [(0, "0ms"), (999, "999ms"), (1_234, "1.2s"), (59_999, "59s"), (600_000, "10m")] {
            assert_eq!(millis(given), told);
        }
    }
}
