//! Times as text (RFC 3339).

use super::id::Timestamp;

/// ISO 8601 in UTC with milliseconds. The calendar is computed here because core has no clock library.
pub fn iso(at: Timestamp) -> String {
    let (days, millis) = (at.0.div_euclid(86_400_000), at.0.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (seconds, millis) = (millis / 1000, millis % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar: years begin in March, so that the leap day is
/// the last day of one, and 400 of them are an era.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
