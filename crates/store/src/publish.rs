//! What subscribers get: one publication for each committed batch, rendered at most once for each face.

use std::sync::{Arc, OnceLock};

use rookery_core::Seq;
use rookery_core::log::LogRow;

/// The faces that keep a rendering beside the rows, so that a thousand readers share one encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    Rest,
    Clutch,
}

#[derive(Debug)]
pub struct Published {
    rows: Vec<LogRow>,
    rendered: [OnceLock<Arc<[u8]>>; 2],
}

impl Published {
    pub fn new(rows: Vec<LogRow>) -> Published {
        Published { rows, rendered: Default::default() }
    }

    pub fn rows(&self) -> &[LogRow] {
        &self.rows
    }

    pub fn last(&self) -> Option<Seq> {
        self.rows.last().map(|row| row.seq)
    }

    /// The whole batch in a face's own form; rendered by whoever asks first.
    pub fn rendered(&self, slot: Slot, render: impl FnOnce(&[LogRow]) -> Vec<u8>) -> Arc<[u8]> {
        self.rendered[slot as usize].get_or_init(|| render(&self.rows).into()).clone()
    }
}
