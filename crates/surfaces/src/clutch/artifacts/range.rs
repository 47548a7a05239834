//! What of an artifact a request asks for: conditions and ranges, as RFC 9110 has them.

use std::ops::Range;

use axum::http::{HeaderMap, HeaderName, header};
use http_range_header::{EndPosition, StartPosition, SyntacticallyCorrectRange, parse_range_header};

/// What is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestedRange {
    Whole,
    Part(Range<u64>),
}

/// Whether the client has it already.
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).map(str::trim).any(|known| known == "*" || weak(known) == tag)
}

fn weak(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The part that is asked for; all of it if several are, or if what the client has a part of is another artifact. Fails if
/// there is no such part.
pub fn wanted(headers: &HeaderMap, tag: &str, size: u64) -> Result<RequestedRange, ()> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // Other units than bytes are to be ignored.
    let Some(range) = text(header::RANGE).map(str::trim).filter(|range| is_of_bytes(range)) else {
        return Ok(RequestedRange::Whole);
    };
    if text(header::IF_RANGE).is_some_and(|known| known.trim() != tag) {
        return Ok(RequestedRange::Whole);
    }
    let parsed = parse_range_header(range).map_err(drop)?;
    match parsed.ranges.as_slice() {
        [one] => resolved(one, size).map(RequestedRange::Part).ok_or(()),
        _ => Ok(RequestedRange::Whole),
    }
}

fn is_of_bytes(range: &str) -> bool {
    range.split_once('=').is_some_and(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"))
}

/// The bytes of a range within so many; `None` if there are none.
fn resolved(range: &SyntacticallyCorrectRange, size: u64) -> Option<Range<u64>> {
    let start = match range.start {
        StartPosition::Index(start) => start,
        // A suffix that is longer than all there is means all there is.
        StartPosition::FromLast(length) => size.saturating_sub(length),
    };
    let end = match range.end {
        EndPosition::Index(last) => last.saturating_add(1).min(size),
        EndPosition::LastByte => size,
    };
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(HeaderName, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_range_is_resolved_against_the_size() {
        for (range, size, expected) in [
            ("bytes=0-0", 10, Ok(RequestedRange::Part(0..1))),
            ("bytes=2-5", 10, Ok(RequestedRange::Part(2..6))),
            ("bytes=5-", 10, Ok(RequestedRange::Part(5..10))),
            ("bytes=5-99", 10, Ok(RequestedRange::Part(5..10))),
            ("bytes=-3", 10, Ok(RequestedRange::Part(7..10))),
            ("bytes=-99", 10, Ok(RequestedRange::Part(0..10))),
            ("bytes=0-18446744073709551615", 10, Ok(RequestedRange::Part(0..10))),
            ("bytes=0-1,4-5", 10, Ok(RequestedRange::Whole)),
            ("lines=1-2", 10, Ok(RequestedRange::Whole)),
            ("nonsense", 10, Ok(RequestedRange::Whole)),
            ("bytes=10-", 10, Err(())),
            ("bytes=10-12", 10, Err(())),
            ("bytes=5-2", 10, Err(())),
            ("bytes=-0", 10, Err(())),
            ("bytes=", 10, Err(())),
            ("bytes=a-b", 10, Err(())),
            ("bytes=0-", 0, Err(())),
            ("bytes=-1", 0, Err(())),
        ] {
            assert_eq!(wanted(&headers(&[(header::RANGE, range)]), "\"t\"", size), expected, "{range} of {size}");
        }
        assert_eq!(wanted(&HeaderMap::new(), "\"t\"", 10), Ok(RequestedRange::Whole));
    }

    #[test]
    fn a_part_of_something_else_is_of_no_use() {
        let range =
            |known: &str| wanted(&headers(&[(header::RANGE, "bytes=1-2"), (header::IF_RANGE, known)]), "\"t\"", 10);
        assert_eq!(range("\"t\""), Ok(RequestedRange::Part(1..3)));
        for other in ["\"u\"", "W/\"t\"", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(range(other), Ok(RequestedRange::Whole), "{other}");
        }
    }

    #[test]
    fn what_the_client_has_is_recognised() {
        for (given, known) in [
            ("\"t\"", true),
            ("W/\"t\"", true),
            ("\"a\", \"t\"", true),
            ("*", true),
            ("\"a\"", false),
            ("t", false),
            ("", false),
        ] {
            assert_eq!(is_known(&headers(&[(header::IF_NONE_MATCH, given)]), "\"t\""), known, "{given}");
        }
    }
}
