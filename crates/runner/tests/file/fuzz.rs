//! A short run of the fuzzer on workflow files.

use crate::corpus::files;
use crate::fuzz_one::fuzz_one;

#[path = "../../../../fuzz/short_run.rs"]
mod short_run;

#[test]
fn workflow_file_fuzz_corpus_is_read_or_refused() {
    let more: Vec<Vec<u8>> =
        files("good").into_values().chain(files("bad").into_values()).map(String::into_bytes).collect();
    short_run::run("workflow_file", &more, 3_000, fuzz_one);
}
