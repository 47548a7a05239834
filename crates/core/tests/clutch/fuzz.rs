//! A short run of the fuzzer's question, the same each time, with what an ordinary compiler has.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::corpus::messages;
use crate::fuzz_one::fuzz_one;
use crate::mutate::{Chance, mutated};

const ROUNDS: u64 = 10_000;

/// What the long runs of the fuzzer found worth keeping, and batches.
fn found() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/envelope");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn good() -> Vec<Vec<u8>> {
    messages("good").into_values().collect()
}

fn samples() -> Vec<Vec<u8>> {
    good().into_iter().chain(messages("bad").into_values()).chain(found()).collect()
}

#[test]
fn the_corpus_holds() {
    let found = found();
    assert!(found.len() >= 10, "the corpus of the fuzzer is there");
    samples().iter().for_each(|sample| fuzz_one(sample));
}

#[test]
fn what_becomes_of_the_corpus_holds() {
    let (good, samples) = (good(), samples());
    for seed in 0..ROUNDS {
        let data = mutated(&good, &samples, &mut Chance(seed));
        let held = catch_unwind(AssertUnwindSafe(|| fuzz_one(&data)));
        assert!(held.is_ok(), "seed {seed}, see above: {}", data.escape_ascii());
    }
}

#[test]
fn what_becomes_of_the_corpus_is_good_and_bad() {
    let (good, samples) = (good(), samples());
    let read = (0..1_000).filter(|&seed| {
        let data = mutated(&good, &samples, &mut Chance(seed));
        rookery_core::clutch::Envelope::read(&data).is_ok()
    });
    let read = read.count();
    assert!((100..900).contains(&read), "{read} of 1000 are good; there should be many of either kind");
}
