//! Output of a run: progress on stderr, the table on stdout.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the one place of this crate that prints")]

use std::fmt::Display;

pub(crate) fn note(text: impl Display) {
    eprintln!("{text}");
}

pub(crate) fn heading(text: impl Display) {
    eprintln!("\n── {text} ──");
}

pub(crate) fn data(text: impl Display) {
    println!("{text}");
}
