//! Versions of capabilities: what a card states, what a requirement asks for, and when the two fit.
//!
//! A card states one version (`1.0` and `1` mean 1.0.0), a range (`^1.2`, `>=1, <3`, `1.x`), or nothing. A requirement
//! asks for a range (`skill:research@^1.0`; a bare `1.0` there is `^1.0`, as in Cargo) or for any version.
//!
//! | a card states | fits a range that is asked for if |
//! |---|---|
//! | one version | the range holds it; a pre-release only if the range names one of the same version |
//! | a range | the two overlap: some released version is in both |
//! | nothing | never: what nobody stated cannot be relied on |

use semver::{Comparator, Op, Prerelease, Version, VersionReq};

/// What a card says of a capability's version, read once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CapabilityVersion {
    Nothing,
    Version(Version),
    Range(Span),
}

impl CapabilityVersion {
    /// Reads what a card says. `Err` tells what is wrong with it.
    pub fn parse(text: &str) -> Result<CapabilityVersion, String> {
        let text = text.trim();
        if let Some(version) = version(text) {
            return Ok(CapabilityVersion::Version(version));
        }
        let request = VersionReq::parse(text)
            .map_err(|error| format!("'{text}' is neither a version nor a range of versions: {error}"))?;
        Span::of(&request).map(CapabilityVersion::Range).ok_or_else(|| format!("no version is within '{text}'"))
    }

    pub fn fits(&self, asked: &Range) -> bool {
        match self {
            CapabilityVersion::Nothing => false,
            CapabilityVersion::Version(version) => asked.request.matches(version),
            CapabilityVersion::Range(span) => asked.span.is_some_and(|asked| span.overlaps(&asked)),
        }
    }
}

/// A version with up to two parts left out; they are zero.
fn version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts = text.split('.').count();
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match parts {
        1 | 2 if numeric => Version::parse(&format!("{text}{}", ".0".repeat(3 - parts))).ok(),
        _ => Version::parse(text).ok(),
    }
}

/// The versions that a requirement takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    request: VersionReq,
    /// Nothing if no version is within it.
    span: Option<Span>,
}

impl From<VersionReq> for Range {
    fn from(request: VersionReq) -> Range {
        Range { span: Span::of(&request), request }
    }
}

/// The released versions of a range: from the first to just below the last. Every comparator is such a span, and so is
/// what several have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    from: Triple,
    below: Triple,
}

type Triple = (u64, u64, u64);

const FIRST: Triple = (0, 0, 0);

const END: Triple = (u64::MAX, u64::MAX, u64::MAX);

impl Span {
    /// `None` if no version is within all comparators.
    fn of(request: &VersionReq) -> Option<Span> {
        let all = Span { from: FIRST, below: END };
        let span = request
            .comparators
            .iter()
            .map(Span::of_comparator)
            .fold(all, |span, next| Span { from: span.from.max(next.from), below: span.below.min(next.below) });
        (span.from < span.below).then_some(span)
    }

    fn of_comparator(comparator: &Comparator) -> Span {
        let at = (comparator.major, comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
        // A range that begins with a pre-release begins, among released versions, with the release.
        let after = if comparator.pre == Prerelease::EMPTY { past(comparator) } else { at };
        match comparator.op {
            Op::Greater => Span { from: after, below: END },
            Op::GreaterEq => Span { from: at, below: END },
            Op::Less => Span { from: FIRST, below: at },
            Op::LessEq => Span { from: FIRST, below: after },
            Op::Tilde => Span { from: at, below: past(&Comparator { patch: None, ..comparator.clone() }) },
            Op::Caret => Span { from: at, below: past_compatible(comparator) },
            // Exact and wildcard: whatever begins with the parts that are given.
            _ => Span { from: at, below: past(comparator) },
        }
    }

    fn overlaps(&self, other: &Span) -> bool {
        self.from.max(other.from) < self.below.min(other.below)
    }
}

/// The first version beyond everything that begins with the parts that are given.
fn past(comparator: &Comparator) -> Triple {
    match (comparator.minor, comparator.patch) {
        (Some(minor), Some(patch)) => (comparator.major, minor, patch.saturating_add(1)),
        (Some(minor), None) => (comparator.major, minor.saturating_add(1), 0),
        (None, _) => (comparator.major.saturating_add(1), 0, 0),
    }
}

/// The first version that may break what relies on this one: the leftmost part that is not zero goes up.
fn past_compatible(comparator: &Comparator) -> Triple {
    match (comparator.major, comparator.minor, comparator.patch) {
        (0, Some(0), Some(_)) => past(comparator),
        (0, Some(_), _) => past(&Comparator { patch: None, ..comparator.clone() }),
        (major, _, _) => (major.saturating_add(1), 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(stated: &str, asked: &str) -> bool {
        CapabilityVersion::parse(stated).unwrap().fits(&range(asked))
    }

    fn range(text: &str) -> Range {
        VersionReq::parse(text).unwrap().into()
    }

    #[test]
    fn one_version_fits_the_ranges_that_hold_it() {
        for (stated, asked, fit) in [
            ("1.0", "^1.0", true),
            ("1", "^1.0", true),
            ("1.0.0", "1.0", true),
            ("v1.4", "^1.0", true),
            ("1.9.3", "1", true),
            ("2.0", "^1.0", false),
            ("1.0", "^1.1", false),
            ("1.2.3", "=1.2.3", true),
            ("1.2.4", "=1.2.3", false),
            ("1.2.4", "~1.2", true),
            ("1.3.0", "~1.2", false),
            ("0.3.1", "^0.3", true),
            ("0.4.0", "^0.3", false),
            ("5.1", ">=2, <6", true),
            ("7", "*", true),
            ("1.0.0-beta.1", "^1.0", false),
            ("1.0.0-beta.2", ">=1.0.0-beta.1", true),
        ] {
            assert_eq!(fits(stated, asked), fit, "{stated} in {asked}");
        }
    }

    #[test]
    fn a_range_fits_the_ranges_that_it_overlaps() {
        for (stated, asked, fit) in [
            ("^1.0", "^1.5", true),
            ("^1.0", "^2.0", false),
            (">=1, <3", "^2.4", true),
            (">=1, <3", ">=3", false),
            ("<=3", ">=3", true),
            (">1.2.3", "=1.2.3", false),
            (">1.2.3", "<=1.2.4", true),
            (">1", "<2", false),
            ("1.x", "~1.7", true),
            ("~1.2", "^1.3", false),
            ("^0.0.3", "=0.0.4", false),
            ("^0.0.3", "=0.0.3", true),
            ("^0.2", "^0.3", false),
            ("^0", ">=0.9", true),
            ("*", "=9.9.9", true),
            (">=1.0.0-beta", "=1.0.0", true),
        ] {
            assert_eq!(fits(stated, asked), fit, "{stated} and {asked}");
            assert_eq!(fits(asked, stated), fit, "overlap has no direction: {stated} and {asked}");
        }
    }

    #[test]
    fn what_is_not_stated_fits_no_range() {
        assert!(!CapabilityVersion::Nothing.fits(&range("*")));
    }

    #[test]
    fn nothing_fits_a_range_without_versions() {
        for stated in ["1.5", "^1.0", "*"] {
            assert!(!fits(stated, ">2, <1"), "{stated}");
        }
    }

    #[test]
    fn what_is_no_version_is_said_so() {
        for text in ["", "one", "1.2.3.4", "^", "1..2", "1.0 beta", ">2, <1", "99999999999999999999999"] {
            assert!(CapabilityVersion::parse(text).is_err(), "{text:?}");
        }
    }
}
