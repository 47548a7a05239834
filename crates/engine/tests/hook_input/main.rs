//! A short run of the fuzz target for incoming webhooks.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a corpus that cannot be read fails its test")]

mod fuzz_one;
#[path = "../../../../fuzz/short_run.rs"]
mod short_run;

#[test]
fn hook_input_fuzz_corpus_is_accepted_or_rejected() {
    short_run::run("hook_input", &[], 10_000, fuzz_one::fuzz_one);
}
