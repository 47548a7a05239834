//! `rookery redact`

use serde_json::json;

use crate::cli::Failure;
use crate::cli::context::Context;

/// Take a secret out of the log, for good
///
/// Clears the texts and bodies of the events; that they happened, their order and their hashes stay.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// The numbers of the events, as `rookery log` shows them
    #[arg(value_name = "SEQ")]
    seqs: Vec<u64>,

    /// Every event whose text matches this regular expression
    #[arg(long = "match", value_name = "RE")]
    pattern: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let body = match &args.pattern {
        Some(pattern) => {
            check(pattern)?;
            json!({ "match": pattern })
        }
        None => json!({ "seqs": args.seqs }),
    };
    let client = context.client().await?;
    let mut redacted: Vec<u64> = Vec::new();
    let remaining = loop {
        let answer = client.post(&["admin", "redact"], &body).await?;
        let numbers = |field: &str| serde_json::from_value::<Vec<u64>>(answer[field].clone()).unwrap_or_default();
        let more = numbers("redacted");
        // The daemon clears a bounded number at a time; what is cleared does not match again.
        let new = more.iter().any(|seq| !redacted.contains(seq));
        redacted.extend(&more);
        if args.pattern.is_none() || !new {
            break numbers("remaining");
        }
    };
    if !remaining.is_empty() {
        let text = format!("{} still show it, in a name, an id or a path that cannot be cleared", list(&remaining));
        context.out.note(&text);
    }
    let text = if redacted.is_empty() { "nothing to redact".into() } else { format!("redacted {}", list(&redacted)) };
    context.out.done(&json!({ "redacted": redacted, "remaining": remaining }), &text)
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Refuses a pattern that is none, or that would clear the whole log.
fn check(pattern: &str) -> anyhow::Result<()> {
    let failure = match regex::Regex::new(pattern) {
        Ok(regex) if !regex.is_match("") => return Ok(()),
        Ok(_) => Failure::usage(format!("`{pattern}` matches every event")).hint("write a narrower expression"),
        Err(error) => Failure::usage(format!("`{pattern}` is no regular expression: {error}"))
            .hint("escape characters that are meant literally with \\"),
    };
    Err(failure.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_would_clear_the_log_is_refused() {
        check("sk-[a-z0-9]+").unwrap();
        for pattern in ["", ".*", "x?", "("] {
            assert!(check(pattern).is_err(), "{pattern}");
        }
    }
}
