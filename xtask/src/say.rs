//! What the developer reads. All of it goes to stderr, except lists that were asked for.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the one place of this crate that prints")]

use std::fmt::Display;

/// A line of talk.
pub(crate) fn note(text: impl Display) {
    eprintln!("{text}");
}

/// A line of data that was asked for: stdout, so that it can be piped.
pub(crate) fn data(text: impl Display) {
    println!("{text}");
}

/// The heading above what a step prints.
pub(crate) fn heading(text: impl Display) {
    eprintln!("\n── {text} ──");
}

/// The error with its causes, once, as the last thing printed.
pub(crate) fn failure(error: &anyhow::Error) {
    eprintln!("\nerror: {error:#}");
}
