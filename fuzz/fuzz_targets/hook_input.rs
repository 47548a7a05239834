//! Untrusted webhook requests. The checks are shared with the tests of `rookery-engine`.

#![no_main]

#[path = "../../crates/engine/tests/hook_input/fuzz_one.rs"]
mod fuzz_one;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_one::fuzz_one(data));
