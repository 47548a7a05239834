//! A short run of the fuzzer's question about step contracts.

#![expect(clippy::unwrap_used, reason = "a corpus that cannot be read fails its test")]

mod fuzz_one;
#[path = "../../../../fuzz/short_run.rs"]
mod short_run;

#[test]
fn step_contract_fuzz_corpus_is_read_or_refused() {
    short_run::run("step_contract", &[], 5_000, fuzz_one::fuzz_one);
}
