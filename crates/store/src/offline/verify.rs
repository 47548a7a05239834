//! Proving a store: its rows are the fold of its log, the log has no gap, bodies are what their hashes say.

use std::collections::{BTreeSet, HashMap};

use rookery_core::traits::BodyBytes;
use rookery_core::{Key, Row, Seq, Table};

use super::raw::{LogDigest, is_next_part};
use super::{CHUNK, OfflineError, Progress, RawRow, Source};
use crate::FORMAT;
use crate::artifact::sha256_hex;
use crate::query::LogHead;
use crate::replay::Fold;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyReport {
    pub head: LogHead,
    /// Rows of the log that were folded.
    pub facts: u64,
    /// Derived rows that were compared.
    pub rows: u64,
    /// The hash of the log as it is stored, whichever engine stores it.
    pub log_sha256: String,
    /// What is not as it should be; empty if all is well.
    pub differences: Vec<String>,
}

/// Folds the whole log anew and compares.
pub fn verify(source: &mut dyn Source, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, OfflineError> {
    let format = source.snapshot().format;
    if format != FORMAT {
        return Err(OfflineError::Unreadable(other_format(format)));
    }
    let head = source.snapshot().head.clone();
    let mut replay = Replay {
        fold: Fold::default(),
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
    let (rows, mut differences) = compare(source, &replay.fold)?;
    differences.splice(0..0, replay.differences);
    let facts = (head.head.0 + 1).saturating_sub(head.floor.0);
    Ok(VerifyReport { facts, head, rows, log_sha256: replay.digest.sha256(), differences })
}

pub(crate) fn other_format(format: u32) -> String {
    format!("its rows have format {format} and this program writes format {FORMAT}; use the program that made them")
}

struct Replay {
    fold: Fold,
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
        self.fold.add(&entry.row);
        self.next = entry.row.seq.next();
        Ok(())
    }
}

/// Compares documents, the columns beside them, and tallies.
fn compare(source: &mut dyn Source, fold: &Fold) -> Result<(u64, Vec<String>), OfflineError> {
    let mut rows: HashMap<Key, Row> = HashMap::new();
    let mut columns_differ = BTreeSet::new();
    for table in Table::ALL {
        let mut after = None;
        loop {
            let found = source.rows(table, after.as_ref(), CHUNK)?;
            let Some(last) = found.last() else { break };
            after = Some(last.key.clone());
            for stored in found {
                if stored.columns != stored.row.columns() {
                    columns_differ.insert(format!("the columns of {:?} differ", stored.key));
                }
                rows.insert(stored.key, stored.row);
            }
        }
    }
    let mut differences = fold.differences(&rows, &source.tallies()?);
    differences.extend(columns_differ);
    Ok((rows.len() as u64, differences))
}
