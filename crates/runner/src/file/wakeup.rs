//! Scheduled wakeups of an agent: after a time without activity, or at times of the clock.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::Zoned;
use jiff::civil::date;
use jiff::tz::TimeZone;

use super::cursor::{Field, FileReader};
use super::duration;
use super::fault::FileFault;
use super::shape::Shape;

pub(super) const SHAPE: Shape = Shape::Text;

/// The shortest accepted interval.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, Debug)]
pub enum Wakeup {
    /// This long after the agent's last activity.
    Every(Duration),
    /// At these times of the clock of the machine that runs the agent.
    Cron { line: String, cron: Box<Cron> },
}

impl Wakeup {
    pub(super) fn read(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<Wakeup> {
        let text = field.as_text().unwrap_or_default();
        match parse(text.trim()) {
            Ok(wakeup) => Some(wakeup),
            Err(why) => {
                let expected = "must be an interval such as 30s, 5m, 2h or 1d, or a cron line such as `0 3 * * *`";
                let fault = FileFault::new(&field.place, expected).found(field.describe(reader));
                // For a single term, the reason why it is no cron line does not help.
                let is_near = text.contains(' ') || duration::parse(text.trim()).is_some();
                reader.fault(if is_near { fault.hint(why.trim_end_matches('.')) } else { fault });
                None
            }
        }
    }

    /// The next times of a cron line; empty for an interval, whose times are unknown beforehand.
    pub fn next(&self, now: &Zoned, count: usize) -> Vec<Zoned> {
        match self {
            Wakeup::Every(_) => Vec::new(),
            Wakeup::Cron { cron, .. } => cron.iter_after(now.clone()).take(count).collect(),
        }
    }

    pub fn show(&self) -> String {
        match self {
            Wakeup::Every(length) => duration::show(*length),
            Wakeup::Cron { line, .. } => line.clone(),
        }
    }
}

fn parse(text: &str) -> Result<Wakeup, String> {
    if let Some(length) = duration::parse(text) {
        return if length < MIN_INTERVAL {
            Err("the shortest interval is 1s".to_owned())
        } else {
            Ok(Wakeup::Every(length))
        };
    }
    let cron = CronParser::builder().seconds(Seconds::Disallowed).build().parse(text).map_err(|e| e.to_string())?;
    // A 30th of February is valid syntax but never occurs. The search spans leap years, so that any start will do.
    let some_day = date(2026, 1, 1).to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    cron.find_next_occurrence(&some_day, false).map_err(|_| "this time never comes".to_owned())?;
    Ok(Wakeup::Cron { line: text.to_owned(), cron: Box::new(cron) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_cron_lines_are_parsed() {
        assert_eq!(parse("5m"), Ok(Wakeup::Every(Duration::from_secs(300))));
        for good in ["0 3 * * *", "*/15 9-17 * * MON-FRI", "@daily", "0 0 29 2 *"] {
            assert!(matches!(parse(good), Ok(Wakeup::Cron { .. })), "{good}");
        }
        for bad in ["", "soon", "500ms", "* * * *", "0 0 3 * * *", "61 * * * *", "0 0 30 2 *", "5"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cron_line_has_next_times_and_interval_has_none() {
        let now = date(2026, 3, 1).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap();
        let times: Vec<_> = parse("0 3 * * *").unwrap().next(&now, 2).iter().map(|at| at.date()).collect();
        assert_eq!(times, [date(2026, 3, 2), date(2026, 3, 3)]);
        assert!(parse("5m").unwrap().next(&now, 2).is_empty());
    }
}
