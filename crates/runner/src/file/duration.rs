//! Durations: a number with its unit, such as `30s`, `5m`, `2h` or `1d`.

use std::time::Duration;

/// The longest accepted duration.
const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(super) const PATTERN: &str = "^[0-9]+(ms|s|m|h|d)$";
pub(super) const EXPECTED: &str = "must be a number with its unit, such as 30s, 5m, 2h or 1d";

/// Parses a duration. Returns `None` if it is malformed, too long or zero.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = text[..digits].parse().ok()?;
    let millis = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let length = Duration::from_millis(count.checked_mul(millis)?);
    (!length.is_zero() && length <= MAX_DURATION).then_some(length)
}

/// Shows a duration in the largest unit that is exact.
pub(crate) fn show(length: Duration) -> String {
    let millis = length.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.into_iter().find(|(_, size)| millis.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_needs_a_number_and_a_unit() {
        for (text, seconds) in [("30s", 30), ("5m", 300), ("2h", 7_200), ("1d", 86_400), ("1000ms", 1)] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "s", "0s", "-1s", "1.5h", "5 m", "1w", "400d", "99999999999999999999s", "٣s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn duration_is_shown_as_written() {
        for text in ["30s", "5m", "2h", "1d", "1500ms", "90s"] {
            assert_eq!(parse(text).map(show).as_deref(), Some(text));
        }
    }
}
