//! Times as the protocol writes them: RFC 3339, with a zone.

use crate::kernel::id::Timestamp;

/// The milliseconds since 1970 of a time such as `2026-02-01T13:20:11.123Z`; what is finer is cut off. A leap second is
/// the second after it.
pub fn parse(text: &str) -> Option<Timestamp> {
    let mut rest = text.as_bytes();
    let date = [digits(&mut rest, 4)?, after(&mut rest, b"-", 2)?, after(&mut rest, b"-", 2)?];
    let time = [after(&mut rest, b"Tt", 2)?, after(&mut rest, b":", 2)?, after(&mut rest, b":", 2)?];
    let millis = fraction(&mut rest)?;
    let offset = zone(&mut rest)?;
    let [year, month, day] = date;
    let [hour, minute, second] = time;
    let exists = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !exists || hour > 23 || minute > 59 || second > 60 || !rest.is_empty() {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    Some(Timestamp(seconds * 1_000 + millis))
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (number, after) = rest.split_at_checked(count)?;
    *rest = after;
    number.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// A number behind one of some marks.
fn after(rest: &mut &[u8], marks: &[u8], count: usize) -> Option<i64> {
    let (mark, number) = rest.split_first()?;
    *rest = number;
    marks.contains(mark).then(|| digits(rest, count))?
}

fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let Some(tail) = rest.strip_prefix(b".") else { return Some(0) };
    let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = tail.split_at(count);
    *rest = after;
    let digit = |index: usize| number.get(index).map_or(0, |byte| i64::from(byte - b'0'));
    (count > 0).then(|| digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// How many seconds a zone is ahead of UTC.
fn zone(rest: &mut &[u8]) -> Option<i64> {
    let (mark, tail) = rest.split_first()?;
    let sign = match mark {
        b'Z' | b'z' => {
            *rest = tail;
            return Some(0);
        }
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    *rest = tail;
    let (hours, minutes) = (digits(rest, 2)?, after(rest, b":", 2)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years begin in March here, so that the leap day is the last day of one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::time::iso;
    use proptest::prelude::*;

    #[test]
    fn times_with_a_zone_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-02-01T13:20:11.123Z", 1_769_952_011_123),
            ("2026-02-01t13:20:11.123z", 1_769_952_011_123),
            ("2026-02-01T15:20:11.123+02:00", 1_769_952_011_123),
            ("2026-02-01T07:50:11.123-05:30", 1_769_952_011_123),
            ("2026-02-01T13:20:11.123999999Z", 1_769_952_011_123),
            ("2026-02-01T13:20:11.1Z", 1_769_952_011_100),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ] {
            assert_eq!(parse(text), Some(Timestamp(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_not() {
        for text in [
            "",
            "now",
            "2026-02-01",
            "2026-02-01T13:20:11",
            "2026-02-01 13:20:11Z",
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00Zx",
            "2026-01-01T00:00:00+0200",
            "2026-01-01T00:00:00+24:00",
            "26-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00,5Z",
            "20260101T000000Z",
            "２026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_are_read_as_they_are_written(millis in -62_167_219_200_000_i64..253_402_300_800_000) {
            prop_assert_eq!(parse(&iso(Timestamp(millis))), Some(Timestamp(millis)));
        }
    }
}
