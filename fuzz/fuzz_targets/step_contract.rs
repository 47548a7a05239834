//! Untrusted step contracts. The checks are shared with the tests of `rookery-surfaces`.

#![no_main]

#[path = "../../crates/surfaces/tests/step_contracts/fuzz_one.rs"]
mod fuzz_one;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_one::fuzz_one(data));
