//! A short, deterministic run of the fuzzer on request heads of the sandbox's proxy.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod fuzz_one;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fuzz_one::fuzz_one;
use rookery_runner::sandbox::proxy_head;

const ROUNDS: u64 = 20_000;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/proxy_head");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn proxy_head_corpus_holds() {
    let corpus = corpus();
    assert!(corpus.len() >= 10, "the corpus is there");
    corpus.iter().for_each(|head| fuzz_one(head));
    let read = corpus.iter().filter(|head| proxy_head(head).is_some()).count();
    assert!(read > 3 && corpus.len() - read > 3, "{read} of {} are good", corpus.len());
}

#[test]
fn mutations_of_the_proxy_head_corpus_hold() {
    let corpus = corpus();
    for seed in 0..ROUNDS {
        let head = mutated(&corpus, &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        let held = catch_unwind(AssertUnwindSafe(|| fuzz_one(&head)));
        assert!(held.is_ok(), "seed {seed}, see above: {}", head.escape_ascii());
    }
}

/// Parts that change what a head means.
const PARTS: [&[u8]; 16] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"@",
    b"#",
    b"[::1]",
    b"0x7f.1",
    b"%25",
    b"Host: b.invalid\r\n",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"http://",
];

fn mutated(corpus: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut head = corpus[numbers.below(corpus.len())].clone();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(head.len() + 1);
        match numbers.below(4) {
            0 => drop(head.splice(at..at, PARTS[numbers.below(PARTS.len())].iter().copied())),
            1 if at < head.len() => head[at] = u8::try_from(numbers.below(256)).unwrap(),
            2 if at < head.len() => drop(head.drain(at..(at + 1 + numbers.below(4)).min(head.len()))),
            _ => {
                let other = &corpus[numbers.below(corpus.len())];
                let from = numbers.below(other.len() + 1);
                head.truncate(at);
                head.extend(&other[from..]);
            }
        }
    }
    head
}

/// Deterministic random numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}
