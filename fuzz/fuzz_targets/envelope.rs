//! Untrusted bytes for the Clutch envelope reader. The checks are shared with the tests of `rookery-core`.

#![no_main]

#[path = "../../crates/core/tests/clutch/fuzz_one.rs"]
mod fuzz_one;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_one::fuzz_one(data));
