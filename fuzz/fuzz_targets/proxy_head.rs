//! The head of a request from a sandboxed program to the proxy. The checks are shared with the tests of `rookery-runner`.

#![no_main]

#[path = "../../crates/runner/tests/proxy_head/fuzz_one.rs"]
mod fuzz_one;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_one::fuzz_one(data));
