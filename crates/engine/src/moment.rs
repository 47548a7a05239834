//! Times as agents write them: ISO 8601 of any precision, each of which stands for a whole unit.
//!
//! `2026-02-05T10:00Z` is a minute, `2026-02-05` a day. What is acknowledged up to a moment includes all of it. What came
//! since a minute, an hour or a day includes it too; since a second or less it is what came after, so that one can go on
//! from a time as it was shown. A time without an offset is in UTC.

use rookery_core::Timestamp;

/// The first and the last millisecond that a text stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub first: Timestamp,
    pub last: Timestamp,
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

impl Moment {
    pub fn parse(text: &str) -> Option<Moment> {
        let text = text.trim();
        let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
        let date: jiff::civil::Date = date.parse().ok()?;
        let (time, offset_minutes) = offset(rest)?;
        let (millis, unit) = time_of_day(time)?;
        let days = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
        let first = days.checked_add(millis)?.checked_sub(offset_minutes * MINUTE)?;
        Some(Moment { first: Timestamp(first), last: Timestamp(first.checked_add(unit - 1)?) })
    }

    /// What came since this moment came after that time.
    pub fn since(self) -> Timestamp {
        let coarse = self.last.0.saturating_sub(self.first.0) >= SECOND;
        if coarse { Timestamp(self.first.0.saturating_sub(1)) } else { self.last }
    }
}

/// A time of day without its offset, and the offset in minutes.
fn offset(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (time, offset) = text.split_at(at);
    let (sign, digits) = offset.split_at(1);
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at(2),
        None => (digits, "0"),
    };
    let minutes = number(hours, 14)? * 60 + number(minutes, 59)?;
    Some((time, if sign == "-" { -minutes } else { minutes }))
}

/// Milliseconds since midnight, and how many of them the text leaves open.
fn time_of_day(text: &str) -> Option<(i64, i64)> {
    if text.is_empty() {
        return Some((0, DAY));
    }
    let mut parts = text.split(':');
    let hours = number(parts.next()?, 23)? * HOUR;
    let Some(minutes) = parts.next() else { return Some((hours, HOUR)) };
    let minutes = hours + number(minutes, 59)? * MINUTE;
    let Some(seconds) = parts.next() else { return Some((minutes, MINUTE)) };
    if parts.next().is_some() {
        return None;
    }
    let (seconds, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
    let seconds = minutes + number(seconds, 60)?.min(59) * SECOND;
    if fraction.is_empty() {
        return Some((seconds, SECOND));
    }
    // Finer than a millisecond is the same to us.
    let digits: String = fraction.chars().take(3).collect();
    let unit = [100, 10, 1].get(digits.len().checked_sub(1)?).copied()?;
    is_digits(fraction).then_some((seconds + number(&digits, 999)? * unit, unit))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str, most: i64) -> Option<i64> {
    let number = if is_digits(text) { text.parse().ok()? } else { return None };
    (number <= most).then_some(number)
}

#[cfg(test)]
mod tests {
    use rookery_core::kernel::time::iso;

    use super::*;

    #[test]
    fn a_time_stands_for_its_whole_unit() {
        for (text, first, last) in [
            ("2024-01-15T10:05:00.120Z", "2024-01-15T10:05:00.120Z", "2024-01-15T10:05:00.120Z"),
            ("2024-01-15T10:05:00.123456Z", "2024-01-15T10:05:00.123Z", "2024-01-15T10:05:00.123Z"),
            ("2024-01-15T10:05:00.1Z", "2024-01-15T10:05:00.100Z", "2024-01-15T10:05:00.199Z"),
            ("2024-01-15T10:05:00Z", "2024-01-15T10:05:00.000Z", "2024-01-15T10:05:00.999Z"),
            ("2024-01-15T10:05Z", "2024-01-15T10:05:00.000Z", "2024-01-15T10:05:59.999Z"),
            ("2024-01-15T10", "2024-01-15T10:00:00.000Z", "2024-01-15T10:59:59.999Z"),
            ("2024-01-15", "2024-01-15T00:00:00.000Z", "2024-01-15T23:59:59.999Z"),
            ("2024-01-15 12:05:00+02:00", "2024-01-15T10:05:00.000Z", "2024-01-15T10:05:00.999Z"),
            ("2024-01-15T05:05:00-0500", "2024-01-15T10:05:00.000Z", "2024-01-15T10:05:00.999Z"),
        ] {
            let moment = Moment::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((iso(moment.first), iso(moment.last)), (first.to_owned(), last.to_owned()), "{text}");
        }
    }

    #[test]
    fn since_a_day_includes_it_and_since_a_second_does_not() {
        for (text, after) in [
            ("2024-01-15", "2024-01-14T23:59:59.999Z"),
            ("2024-01-15T10", "2024-01-15T09:59:59.999Z"),
            ("2024-01-15T10:05Z", "2024-01-15T10:04:59.999Z"),
            ("2024-01-15T10:05:00Z", "2024-01-15T10:05:00.999Z"),
            ("2024-01-15T10:05:00.120Z", "2024-01-15T10:05:00.120Z"),
        ] {
            assert_eq!(iso(Moment::parse(text).unwrap().since()), after, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in
            ["", "yesterday", "2024-13-01", "2024-01-15T25:00", "2024-01-15T10:61", "2024-01-15T10:00:00.x", "12"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
