//! A short, deterministic fuzzing run with an ordinary compiler: the committed corpus, then inputs that a seeded generator
//! makes from it. Included by the tests of the crates whose readers are fuzzed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Fragments with a meaning in one of the fuzzed formats.
const FRAGMENTS: [&[u8]; 28] = [
    b"",
    b"\0",
    b"\n",
    b"\n  ",
    b"\n- ",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"'",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!str ",
    b"---\n",
    b"${{ ",
    b" }}",
    b"null",
    b"-1",
    b"99999999999999999999",
    b"1e400",
    b"t=",
    b",v1=",
    b"sha256=",
    b"\xff\xfe",
    "é\u{1f426}".as_bytes(),
];

/// Runs the check with the corpus of a target, with `more` inputs, and with `rounds` inputs made from these.
pub fn run(target: &str, more: &[Vec<u8>], rounds: u64, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "the corpus of {target} is missing");
    let mut corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    corpus.extend_from_slice(more);
    corpus.iter().for_each(|input| check(input));
    for seed in 0..rounds {
        let input = mutate(&corpus, &mut Random(seed));
        let result = catch_unwind(AssertUnwindSafe(|| check(&input)));
        assert!(result.is_ok(), "seed {seed} failed, see above: {}", input.escape_ascii());
    }
}

/// The SplitMix64 generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap_or_default()
    }
}

/// Takes an input of the corpus and replaces parts, repeats them, or copies parts of another input.
fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(24)).min(bytes.len());
        let piece = match random.below(4) {
            0 => FRAGMENTS[random.below(FRAGMENTS.len())].to_vec(),
            1 => bytes[at..end].repeat(1 + random.below(3)),
            2 => vec![u8::try_from(random.below(256)).unwrap_or_default()],
            _ => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                other[from..(from + random.below(40)).min(other.len())].to_vec()
            }
        };
        bytes.splice(at..end, piece);
    }
    bytes
}
