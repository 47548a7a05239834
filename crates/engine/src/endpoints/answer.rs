//! What the answer of an endpoint means for the message.

use std::time::Duration;

use super::client::HttpAnswer;

/// What an answer means.
pub(crate) enum Meaning {
    Taken,
    Never(String),
    NotNow(String, Option<Duration>),
}

/// Whether a message was taken, will never be, or is to be sent again.
pub(crate) fn meaning(answered: Result<HttpAnswer, String>) -> Meaning {
    let HttpAnswer { status, retry_after } = match answered {
        Ok(answered) => answered,
        Err(error) => return Meaning::NotNow(error, None),
    };
    let told = format!("it answered {status}");
    match status {
        200..=299 => Meaning::Taken,
        300..=399 => Meaning::NotNow(format!("{told}: redirects are not followed"), None),
        // Not there, not allowed or not now may pass; everything else of this kind is about the message.
        401 | 403 | 404 | 407 | 408 | 421 | 425 | 429 => Meaning::NotNow(told, retry_after),
        400..=499 => Meaning::Never(told),
        _ => Meaning::NotNow(told, retry_after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_means_for_the_message() {
        let word = |status: u16| match meaning(Ok(HttpAnswer { status, retry_after: None })) {
            Meaning::Taken => "taken",
            Meaning::Never(_) => "never",
            Meaning::NotNow(..) => "not now",
        };
        for (statuses, expected) in [
            (&[200, 201, 202, 204][..], "taken"),
            (&[400, 405, 409, 410, 413, 415, 422], "never"),
            (&[301, 307, 401, 403, 404, 408, 425, 429, 500, 502, 503, 504, 599, 101], "not now"),
        ] {
            for status in statuses {
                assert_eq!(word(*status), expected, "{status}");
            }
        }
    }
}
