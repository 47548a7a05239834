//! The machine's floor: a durable append of 4 KiB.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::sample::Slice;
use crate::stopwatch::Stopwatch;

#[derive(Debug)]
pub(super) struct Floor {
    file: File,
}

impl Floor {
    pub(super) fn open(folder: &Path) -> anyhow::Result<Floor> {
        Ok(Floor { file: File::create(folder.join("floor"))? })
    }

    pub(super) fn slice(&mut self, length: Duration) -> anyhow::Result<Slice> {
        let page = [7; 4096];
        let begun = Stopwatch::start();
        let mut taken = Vec::new();
        while begun.elapsed() < length {
            let asked = Stopwatch::start();
            self.file.write_all(&page)?;
            self.file.sync_data()?;
            taken.push(asked.nanos());
        }
        Ok(Slice::of(taken, begun.elapsed()))
    }
}
