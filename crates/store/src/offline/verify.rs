//! Proving a store: its rows are the fold of its log, the log has no gap, bodies are what their hashes say.

use rookery_core::traits::BodyBytes;
use rookery_core::{Seq, Table};

use super::disk_fold::DiskFold;
use super::raw::{LogDigest, is_next_part};
use super::{CHUNK, OfflineError, Progress, RawRow, Source};
use crate::FORMAT;
use crate::artifact::sha256_hex;
use crate::query::LogHead;
use crate::replay::tally_differences;

/// How many derived rows are kept in memory while the log is folded; the others are in a temporary database.
const ROWS_IN_MEMORY: usize = 10_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyReport {
    pub head: LogHead,
    /// Rows of the log that were folded.
    pub facts: u64,
    /// Derived rows that were compared.
    pub rows: u64,
    /// The most derived rows that were in memory at once.
    pub peak_rows: u64,
    /// The hash of the log as it is stored, whichever engine stores it.
    pub log_sha256: String,
    /// What is not as it should be; empty if all is well.
    pub differences: Vec<String>,
}

/// Folds the whole log again and compares. The rows in memory are bounded, however long the log is.
pub fn verify(source: &mut dyn Source, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, OfflineError> {
    verify_within(ROWS_IN_MEMORY, source, progress)
}

/// The same with so many derived rows in memory, and those that one event changes.
pub fn verify_within(
    rows_in_memory: usize,
    source: &mut dyn Source,
    progress: &mut dyn FnMut(Progress),
) -> Result<VerifyReport, OfflineError> {
    let format = source.snapshot().format;
    if format != FORMAT {
        return Err(OfflineError::Unreadable(other_format(format)));
    }
    let head = source.snapshot().head.clone();
    let mut replay = Replay {
        fold: DiskFold::new(rows_in_memory)?,
        digest: LogDigest::default(),
        next: head.floor,
        part_index: None,
        differences: vec![],
    };
    loop {
        let rows = source.log(Seq(replay.next.0.saturating_sub(1)), CHUNK)?;
        if rows.is_empty() {
            break;
        }
        rows.into_iter().try_for_each(|row| replay.add(row))?;
        progress(Progress { done: replay.next.0.saturating_sub(1), total: head.head.0 });
    }
    if replay.next != head.head.next() {
        replay.differences.push(format!("the log ends before {} and its head is {}", replay.next, head.head));
    }
    replay.fold.write_out()?;
    let (rows, mut differences) = compare(source, &replay.fold)?;
    differences.splice(0..0, replay.differences);
    let facts = (head.head.0 + 1).saturating_sub(head.floor.0);
    let peak_rows = replay.fold.peak() as u64;
    Ok(VerifyReport { facts, head, rows, peak_rows, log_sha256: replay.digest.sha256(), differences })
}

pub(crate) fn other_format(format: u32) -> String {
    format!("its rows have format {format} and this program writes format {FORMAT}; use the program that made them")
}

struct Replay {
    fold: DiskFold,
    digest: LogDigest,
    next: Seq,
    part_index: Option<u32>,
    differences: Vec<String>,
}

impl Replay {
    fn add(&mut self, raw: RawRow) -> Result<(), OfflineError> {
        if raw.seq != self.next {
            self.differences.push(format!("the log goes from {} to {}", self.next.0.saturating_sub(1), raw.seq));
        }
        if !is_next_part(self.part_index.replace(raw.part_index), raw.part_index) {
            self.differences.push(format!("the part_index of {} does not follow", raw.seq));
        }
        if let Some(body) = &raw.body
            && let BodyBytes::Here(bytes) = &body.bytes
            && sha256_hex(bytes) != body.sha256
        {
            self.differences.push(format!("the body of {} is not what its hash says", raw.seq));
        }
        self.digest.add(&raw);
        let entry = raw.entry()?;
        self.fold.add(&entry.row)?;
        self.next = entry.row.seq.next();
        Ok(())
    }
}

/// Compares documents, the columns beside them, and tallies. Takes what it compares out of the fold.
fn compare(source: &mut dyn Source, fold: &DiskFold) -> Result<(u64, Vec<String>), OfflineError> {
    let mut differences = tally_differences(&fold.tallies()?, &source.tallies()?);
    let mut compared = 0;
    for table in Table::ALL {
        let mut after = None;
        loop {
            let found = source.rows(table, after.as_ref(), CHUNK)?;
            let Some(last) = found.last() else { break };
            after = Some(last.key.clone());
            for stored in found {
                compared += 1;
                if stored.columns != stored.row.columns() {
                    differences.push(format!("the columns of {:?} differ", stored.key));
                }
                match fold.remove(&stored.key)? {
                    Some(folded) if folded == stored.row => {}
                    Some(_) => differences.push(format!("{:?} differs", stored.key)),
                    None => differences.push(format!("{:?} should not be there", stored.key)),
                }
            }
        }
    }
    differences.extend(fold.keys()?.into_iter().map(|key| format!("{key:?} is missing")));
    differences.sort();
    Ok((compared, differences))
}
