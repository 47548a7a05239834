//! How the sender of a webhook proves that it knows the secret: HMAC-SHA256 over what it sends.
//!
//! Ours is over the time and the body, `SECONDS.BODY`, so that an old request is known as one. GitHub's is over the body.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rookery_core::Timestamp;
use sha2::Sha256;

use super::hook::Secret;

/// The header with our signature, `t=SECONDS,v1=HEX`; what else stands in it is left alone.
pub(super) const SIGNATURE: &str = "x-rookery-signature";
/// The header that tells one delivery from another.
pub const DELIVERY: &str = "x-rookery-delivery";
const GITHUB_SIGNATURE: &str = "x-hub-signature-256";
const GITHUB_DELIVERY: &str = "x-github-delivery";

/// How old a signature may be, or how far ahead of our clock, in seconds.
const WINDOW: i64 = 300;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme {
    #[default]
    Rookery,
    Github,
}

/// That a request was signed with the secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Vouched {
    /// The signed time, if the scheme has one.
    pub(super) time: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("the request is not signed: header {0} is missing")]
    Missing(&'static str),
    #[error("header {0} is not of the form {1}")]
    Malformed(&'static str, &'static str),
    #[error("the signature in header {0} is not of this body with the hook's secret")]
    Wrong(&'static str),
    #[error("the signature is from another time than now, by more than {WINDOW} seconds")]
    Old,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Rookery => "rookery",
            Scheme::Github => "github",
        })
    }
}

impl Scheme {
    pub(super) fn delivery_header(self) -> &'static str {
        match self {
            Scheme::Rookery => DELIVERY,
            Scheme::Github => GITHUB_DELIVERY,
        }
    }

    pub(super) fn verify(
        self,
        secret: &Secret,
        body: &[u8],
        header: &dyn Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<Vouched, SignatureError> {
        let (name, form) = match self {
            Scheme::Rookery => (SIGNATURE, "t=SECONDS,v1=HEX"),
            Scheme::Github => (GITHUB_SIGNATURE, "sha256=HEX"),
        };
        let given = header(name).ok_or(SignatureError::Missing(name))?;
        let malformed = || SignatureError::Malformed(name, form);
        let (time, signature) = match self {
            Scheme::Rookery => parts(&given).ok_or_else(malformed)?,
            Scheme::Github => ("", given.strip_prefix("sha256=").ok_or_else(malformed)?),
        };
        let signature = unhex(signature).ok_or_else(malformed)?;
        let sealed = match self {
            Scheme::Rookery => mac(secret.bytes(), &[time.as_bytes(), b".", body]),
            Scheme::Github => mac(secret.bytes(), &[body]),
        };
        // In the same time, however much of it is right.
        sealed.verify_slice(&signature).map_err(|_| SignatureError::Wrong(name))?;
        if self == Scheme::Rookery {
            let seconds: i64 = time.parse().map_err(|_| malformed())?;
            if seconds.abs_diff(now.0.div_euclid(1_000)) > WINDOW.unsigned_abs() {
                return Err(SignatureError::Old);
            }
        }
        Ok(Vouched { time: time.to_owned() })
    }
}

/// HMAC-SHA256 over `SECONDS.BODY`, in hexadecimal: what stands behind `v1=`.
pub fn seal(secret: &[u8], seconds: i64, body: &[u8]) -> String {
    let sealed = mac(secret, &[seconds.to_string().as_bytes(), b".", body]);
    rookery_core::kernel::hex::hex(&sealed.finalize().into_bytes())
}

fn mac(secret: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key of any length will do.
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(secret).unwrap_or_else(|_| unreachable!("HMAC takes any key"));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Time and signature.
fn parts(header: &str) -> Option<(&str, &str)> {
    let part = |name: &str| header.split(',').find_map(|part| part.trim().strip_prefix(name));
    Some((part("t=")?, part("v1=")?))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn verify(scheme: Scheme, header: Option<&str>, body: &[u8]) -> Result<Vouched, SignatureError> {
        let secret = Secret::new("It's a Secret to Everybody\n").unwrap();
        let given = |name: &str| {
            let own = if scheme == Scheme::Github { GITHUB_SIGNATURE } else { SIGNATURE };
            header.filter(|_| name == own).map(str::to_owned)
        };
        scheme.verify(&secret, body, &given, NOW)
    }

    /// The example of GitHub's documentation.
    #[test]
    fn githubs_own_example_is_taken() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(verify(Scheme::Github, Some(signature), b"Hello, World!").is_ok());
        let wrong = Err(SignatureError::Wrong(GITHUB_SIGNATURE));
        assert_eq!(verify(Scheme::Github, Some(signature), b"Hello, World?"), wrong);
        assert_eq!(verify(Scheme::Github, Some(&signature[..signature.len() - 2]), b"Hello, World!"), wrong);
        assert_eq!(verify(Scheme::Github, None, b""), Err(SignatureError::Missing(GITHUB_SIGNATURE)));
        for odd in ["", "sha256=", "sha256=xyz", "sha256=abc", "757107ea", "sha1=757107ea"] {
            let malformed = Err(SignatureError::Malformed(GITHUB_SIGNATURE, "sha256=HEX"));
            assert_eq!(verify(Scheme::Github, Some(odd), b""), malformed, "{odd}");
        }
    }

    #[test]
    fn ours_holds_the_time_too() {
        let secret = b"It's a Secret to Everybody";
        let header = |seconds: i64| format!("t={seconds},v1={}", seal(secret, seconds, b"{}"));
        let now = NOW.0 / 1_000;
        for seconds in [now, now - 300, now + 300] {
            let vouched = Vouched { time: seconds.to_string() };
            assert_eq!(verify(Scheme::Rookery, Some(&header(seconds)), b"{}"), Ok(vouched), "{seconds}");
        }
        for seconds in [now - 301, now + 301, 0, i64::MIN, i64::MAX] {
            assert_eq!(verify(Scheme::Rookery, Some(&header(seconds)), b"{}"), Err(SignatureError::Old), "{seconds}");
        }
        let wrong = Err(SignatureError::Wrong(SIGNATURE));
        assert_eq!(verify(Scheme::Rookery, Some(&header(now)), b"{ }"), wrong);
        let fresher = header(now - 1_000).replace(&format!("t={}", now - 1_000), &format!("t={now}"));
        assert_eq!(verify(Scheme::Rookery, Some(&fresher), b"{}"), wrong, "an old one does not become a new one");
        let more = header(now).replacen(',', ", kid=12ab34cd, ", 1);
        assert!(verify(Scheme::Rookery, Some(&more), b"{}").is_ok());
        assert_eq!(verify(Scheme::Rookery, None, b"{}"), Err(SignatureError::Missing(SIGNATURE)));
        for odd in ["", "t=1", "v1=ab", "t=1,v1=", "t=1,v1=a"] {
            let outcome = verify(Scheme::Rookery, Some(odd), b"{}");
            assert!(matches!(outcome, Err(SignatureError::Malformed(..))), "{odd}: {outcome:?}");
        }
    }
}
