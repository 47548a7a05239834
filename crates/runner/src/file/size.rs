//! An amount of memory or disk: a number and its unit, as `512MiB` or `8GiB`.

pub(super) const PATTERN: &str = "^[0-9]+(KiB|MiB|GiB|TiB)$";
pub(super) const EXPECTED: &str = "must be a number with its unit, such as 512MiB, 8GiB or 1TiB";

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
/// The largest accepted size.
const MAX_SIZE_BYTES: u64 = 1 << 50;

/// Parses a size into bytes. Returns `None` if it is malformed, too large or zero.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = text[..digits].parse().ok()?;
    let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == &text[digits..])?;
    count.checked_mul(unit).filter(|bytes| (1..=MAX_SIZE_BYTES).contains(bytes))
}

/// Shows bytes in the largest unit that is exact.
pub(crate) fn show(bytes: u64) -> String {
    match UNITS.into_iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", bytes / size),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_needs_a_number_and_a_unit() {
        for (text, bytes) in [("1KiB", 1 << 10), ("512MiB", 512 << 20), ("8GiB", 8 << 30), ("1TiB", 1 << 40)] {
            assert_eq!(parse(text), Some(bytes), "{text}");
            assert_eq!(show(bytes), text);
        }
        for text in ["", "8", "GiB", "0GiB", "-1GiB", "1.5GiB", "8 GiB", "8GB", "8gib", "99999999TiB", "٣GiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(show(1_500), "1500 bytes");
    }
}
