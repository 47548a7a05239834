//! Replaced files: kept in `.swap` until their content is preserved elsewhere, and for some time longer.
//!
//! Another process may still have such a file open, even one that cannot be seen: of another user, in a container, on
//! another machine. A late save into it becomes a version like any other edit. So the file is kept for some time after its
//! last change, and is read once more before it is removed.

use rookery_core::model::document::DocumentId;
use rookery_core::model::document_path::DocumentPath;

use super::RenderError;
use super::documents::MAX_DOCUMENT_BYTES;
use super::file_stamp::FileStamp;
use super::instance::{InstanceFiles, hex_of};
use super::instance_dir::{FileContent, InstanceDir, SwapFile};
use super::writers::{ProcessVisibility, Writers};
use crate::engine::Engine;

/// How long a replaced file is kept where all processes are visible.
const RETENTION_MILLIS: u64 = 30_000;
/// The same where some processes are not visible.
const BLIND_RETENTION_MILLIS: u64 = 10 * 60_000;
/// How long a replaced file must be unchanged before it is read, where some processes are not visible.
const SETTLE_MILLIS: u64 = 1_000;
/// The most replaced files whose content is not preserved yet.
const MAX_UNPRESERVED: usize = 200;
/// The most replaced files whose content is preserved; beyond it, the oldest are removed early.
const MAX_PRESERVED: usize = 500;

/// A file that was replaced.
#[derive(Clone, Debug)]
pub(super) struct ReplacedFile {
    /// The hash of the content that is preserved elsewhere; at first, of the expected content.
    hash: Option<String>,
    /// The stamp of the file when its content was last known to be preserved.
    known: Option<FileStamp>,
    /// The stamp of the file at the last check, and since when it has it.
    stamp: Option<FileStamp>,
    since: u64,
    /// The time until which the file is kept, unless it changes.
    until: u64,
}

impl ReplacedFile {
    fn new(hash: Option<String>, now: u64) -> ReplacedFile {
        ReplacedFile { hash, known: None, stamp: None, since: now, until: now }
    }
}

impl InstanceFiles {
    /// Tracks a file that was replaced, with the hash of its expected content.
    pub(super) fn track_replaced(&mut self, swap: &SwapFile, hash: Option<String>) {
        if let Some(hash) = &hash {
            self.state.swaps.insert(swap.name.clone(), hash.clone());
        }
        self.swaps.insert(swap.name.clone(), ReplacedFile::new(hash, self.now));
    }

    /// Whether no file in `.swap` needs work now.
    pub(super) fn swaps_are_quiet(&self, dir: &InstanceDir, now: u64) -> Result<bool, RenderError> {
        for swap in dir.swaps()? {
            let stamp = dir.swap_stamp(&swap)?;
            let rests = |out: &ReplacedFile| out.known.is_some() && out.known == stamp && now < out.until;
            if !self.swaps.get(&swap.name).is_some_and(rests) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails while too many replaced files wait for other programs to close them.
    pub(super) async fn ensure_swap_capacity(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        let is_full =
            |files: &InstanceFiles| files.swaps.values().filter(|out| out.known.is_none()).count() >= MAX_UNPRESERVED;
        if is_full(self) {
            self.settle_swaps(engine, dir).await?;
        }
        if is_full(self) {
            return Err(RenderError::Stuck { path: dir.path().display().to_string() });
        }
        Ok(())
    }

    /// Checks all replaced files, and preserves content that is nowhere else.
    pub(super) async fn settle_swaps(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        let mut swaps = Vec::new();
        for swap in dir.swaps()? {
            if let Some(stamp) = dir.swap_stamp(&swap)? {
                swaps.push((swap, stamp));
            }
        }
        self.swaps.retain(|name, _| swaps.iter().any(|(swap, _)| swap.name == *name));
        self.state.swaps.retain(|name, _| swaps.iter().any(|(swap, _)| swap.name == *name));
        let writers = Writers::look(&swaps.iter().map(|(_, stamp)| stamp.id()).collect::<Vec<_>>());
        for (swap, stamp) in &swaps {
            let done = self.settle_swap(engine, dir, swap, *stamp, &writers).await;
            self.report_failure(&format!("the replaced file of {} is not checked", swap.path), done)?;
        }
        self.remove_oldest(engine, dir, &swaps, &writers).await
    }

    async fn settle_swap(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        swap: &SwapFile,
        stamp: FileStamp,
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let noted = self.state.swaps.get(&swap.name).cloned();
        let out = self.swaps.entry(swap.name.clone()).or_insert(ReplacedFile::new(noted, self.now));
        if out.stamp != Some(stamp) {
            (out.stamp, out.since) = (Some(stamp), self.now);
        }
        out.until = out.since + retention_millis(writers);
        let (is_known, rests, has_expired) =
            (out.known == Some(stamp), self.now.saturating_sub(out.since), self.now >= out.until);
        if writers.has_writer(stamp.id()) {
            // A file whose content is preserved can wait without another check.
            self.recheck |= !is_known;
            return Ok(());
        }
        if !is_known
            && writers.visibility() != ProcessVisibility::All
            && rests < SETTLE_MILLIS
            && self.differs(dir, swap)?
        {
            return self.recheck_soon();
        }
        if !is_known && !self.preserve(engine, dir, swap).await? {
            return Ok(());
        }
        // Redacted texts are removed at once.
        if self.reread || has_expired {
            self.remove_replaced(engine, dir, swap).await?;
        }
        Ok(())
    }

    /// Removes the oldest preserved files that no visible process writes to, down to the limit.
    async fn remove_oldest(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        swaps: &[(SwapFile, FileStamp)],
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let rests = |(swap, stamp): &&(SwapFile, FileStamp)| {
            !writers.has_writer(stamp.id()) && self.swaps.get(&swap.name).is_some_and(|out| out.known == Some(*stamp))
        };
        let mut resting: Vec<&SwapFile> = swaps.iter().filter(rests).map(|(swap, _)| swap).collect();
        resting.sort_by_key(|swap| self.swaps.get(&swap.name).map(|out| out.since));
        let too_many = resting.len().saturating_sub(MAX_PRESERVED);
        for swap in resting.into_iter().take(too_many) {
            self.remove_replaced(engine, dir, swap).await?;
        }
        Ok(())
    }

    /// Whether the content differs from the preserved one.
    fn differs(&self, dir: &InstanceDir, swap: &SwapFile) -> Result<bool, RenderError> {
        let known = self.swaps.get(&swap.name).and_then(|out| out.hash.clone());
        let content = dir.read_swap(swap, MAX_DOCUMENT_BYTES)?;
        Ok(content.is_some_and(|content| Some(hash_in(&content)) != known))
    }

    /// Removes a file, if its content is still the preserved one.
    async fn remove_replaced(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        swap: &SwapFile,
    ) -> Result<(), RenderError> {
        if swap.path != self.context.channel && self.differs(dir, swap)? {
            self.preserve(engine, dir, swap).await?;
            return self.recheck_soon();
        }
        dir.remove_swap(swap)?;
        self.swaps.remove(&swap.name);
        self.state.swaps.remove(&swap.name);
        Ok(())
    }

    /// Makes sure that the content is preserved elsewhere. Returns whether the file is still in `.swap`.
    async fn preserve(&mut self, engine: &Engine, dir: &InstanceDir, swap: &SwapFile) -> Result<bool, RenderError> {
        if swap.path == self.context.channel {
            self.settle_channel_swap(engine, dir, swap).await?;
            return Ok(false);
        }
        let Some(content) = dir.read_swap(swap, MAX_DOCUMENT_BYTES)? else { return Ok(false) };
        let hash = hash_in(&content);
        let before = self.swaps.get(&swap.name).and_then(|out| out.hash.clone());
        let as_it_was = content.complete && before.as_deref() == Some(hash.as_str());
        if !as_it_was
            && !self.is_generated(&swap.path, &content)
            && !self.save_if_new(engine, swap, &content, before.is_none()).await?
        {
            let aside = dir.keep_aside(swap, &self.time_suffix)?;
            self.log_warning(format!(
                "{} was edited: the edited file is kept as {aside}",
                self.display_path(&swap.path)
            ));
            return Ok(false);
        }
        self.state.swaps.insert(swap.name.clone(), hash.clone());
        if let Some(out) = self.swaps.get_mut(&swap.name) {
            (out.hash, out.known) = (Some(hash), Some(content.stamp));
        }
        Ok(true)
    }

    /// Whether the content is a version of the document, after saving it as one if it is an edit.
    async fn save_if_new(
        &mut self,
        engine: &Engine,
        swap: &SwapFile,
        content: &FileContent,
        after_a_crash: bool,
    ) -> Result<bool, RenderError> {
        let id = DocumentPath::parse(&swap.path).map(|path| DocumentId::new(self.instance.run(), path));
        let text = std::str::from_utf8(&content.bytes).ok().filter(|_| content.complete).map(str::to_owned);
        let (Ok(id), Some(text)) = (id, text) else { return Ok(false) };
        // Content that differs from the expected one is an edit. After a crash the expected content is unknown, and only
        // content that no version has is an edit.
        let known = engine.documents().text(&id).await?.is_some_and(|now| now.text == text)
            || (after_a_crash && self.version_with(engine, &id, 0, &hash_in(content)).await?.is_some());
        if known {
            return Ok(true);
        }
        self.recheck = true;
        Ok(self.save_version(engine, &id, text).await?.is_some())
    }
}

fn retention_millis(writers: &Writers) -> u64 {
    if writers.visibility() == ProcessVisibility::All { RETENTION_MILLIS } else { BLIND_RETENTION_MILLIS }
}

fn hash_in(content: &FileContent) -> String {
    hex_of(&content.bytes)
}
