//! The channel as a file, which is appended to and never parsed.
//!
//! The file must be a prefix of the channel in the log. As long as the file's stamp is unchanged, it is. Otherwise the hash
//! of the written part is compared, and then the log itself. A file that is no prefix is moved aside and rewritten.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

use rookery_core::model::message::Message;
use rookery_core::{Row, Timestamp};
use sha2::{Digest, Sha256};

use super::RenderError;
use super::file_stamp::FileStamp;
use super::instance::{InstanceFiles, hex};
use super::instance_dir::{InstanceDir, PathState, SwapFile};
use super::state::ChannelState;
use crate::engine::Engine;
use crate::messages::entries_query;

/// The number of entries that are rendered at a time.
const PAGE: u32 = 100;
/// The number of bytes that are hashed at a time.
const CHUNK: usize = 64 * 1024;

/// The part of the file that is known to be as rendered.
#[derive(Clone, Debug, Default)]
pub(super) struct ChannelProgress {
    stamp: Option<FileStamp>,
    bytes: u64,
    hasher: Sha256,
    last_at: Option<Timestamp>,
}

impl ChannelProgress {
    fn advance(&mut self, text: &[u8], entries: &[Message]) {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        self.hasher.update(text);
        self.last_at = entries.last().map(|entry| entry.at).or(self.last_at);
    }

    fn to_state(&self) -> ChannelState {
        let sha256 = hex(&self.hasher.clone().finalize());
        ChannelState { bytes: self.bytes, sha256, last_at: self.last_at.map(|at| at.0) }
    }
}

/// A file that is a prefix of the channel in the log.
struct ChannelPrefix {
    progress: ChannelProgress,
    /// The missing rest of the entries that the file ends in.
    rest: Vec<u8>,
    entries: Vec<Message>,
}

/// Renders an entry.
fn render_entry(message: &Message) -> String {
    let second = message.at.0.div_euclid(1_000).rem_euclid(86_400);
    let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
    let (name, text) = (&message.letter.header.name, escape_text(&message.letter.text));
    format!("\n### {hours:02}:{minutes:02}:{seconds:02} [{name}]\n{text}\n")
}

/// Escapes lines that would read as the head of an entry with a backslash, as in Markdown, so that no text can pass for an
/// entry of another sender.
fn escape_text(text: &str) -> Cow<'_, str> {
    let is_head = |line: &str| line.trim_start().starts_with("###");
    if !text.split(['\n', '\r']).any(is_head) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| if is_head(line) { line.replacen("###", "\\###", 1) } else { line.to_owned() };
    Cow::Owned(text.split_inclusive(['\n', '\r']).map(line).collect())
}

fn render_entries(entries: &[Message]) -> Vec<u8> {
    entries.iter().map(render_entry).collect::<String>().into_bytes()
}

impl InstanceFiles {
    /// The next page of entries after a time, in order.
    async fn entries(&self, engine: &Engine, after: Option<Timestamp>) -> Result<Vec<Message>, RenderError> {
        let (thread, archived, until) = engine.inbox().shown_entries(&self.instance).await?;
        let query = entries_query(&thread, after.max(archived), until).at_most(Some(PAGE));
        let (rows, _) = engine.store().list(query).await?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Message(entry) = row { Some(entry) } else { None }).collect())
    }

    /// Brings the file up to date with the log.
    pub(super) async fn render_channel(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        let stamp = match dir.look(&self.context.channel)? {
            PathState::Nothing => return self.rewrite_channel(engine, dir).await,
            PathState::Other => return Err(RenderError::InTheWay { path: self.display_path(&self.context.channel) }),
            PathState::File(stamp) => stamp,
        };
        if self.progress.stamp != Some(stamp) || self.reread {
            let kept = if self.reread { None } else { self.state.channel.clone() };
            match self.compare_channel(engine, dir, kept).await? {
                Some((found, Some(ChannelPrefix { progress, rest, entries }))) => {
                    self.progress = ChannelProgress { stamp: Some(found), ..progress };
                    self.append_channel(dir, &rest, &entries)?;
                }
                Some((found, None)) => return self.replace_channel(engine, dir, found).await,
                None => return self.recheck_soon(),
            }
        }
        self.append_new_entries(engine, dir).await
    }

    /// Whether the file is unchanged since the last round.
    pub(super) fn channel_is_quiet(&self, dir: &InstanceDir) -> Result<bool, RenderError> {
        Ok(dir.look(&self.context.channel)? == self.progress.stamp.map_or(PathState::Nothing, PathState::File))
    }

    async fn append_new_entries(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        loop {
            let entries = self.entries(engine, self.progress.last_at).await?;
            if entries.is_empty() || self.progress.stamp.is_none() {
                return Ok(());
            }
            self.append_channel(dir, &render_entries(&entries), &entries)?;
        }
    }

    /// Appends if the file is unchanged; otherwise schedules another check.
    fn append_channel(&mut self, dir: &InstanceDir, text: &[u8], entries: &[Message]) -> Result<(), RenderError> {
        let Some(stamp) = self.progress.stamp.take() else { return self.recheck_soon() };
        if text.is_empty() {
            self.progress.stamp = Some(stamp);
        } else {
            match dir.append(&self.context.channel, stamp, text)? {
                None => return self.recheck_soon(),
                Some(stamp) => {
                    self.progress.advance(text, entries);
                    self.progress.stamp = Some(stamp);
                }
            }
        }
        self.state.channel = Some(self.progress.to_state());
        Ok(())
    }

    /// Compares the file with the saved state, and if they differ, with the log from its beginning. Returns the stamp of the
    /// file, and the prefix if it is one; `None` if the file is gone.
    async fn compare_channel(
        &self,
        engine: &Engine,
        dir: &InstanceDir,
        kept: Option<ChannelState>,
    ) -> Result<Option<(FileStamp, Option<ChannelPrefix>)>, RenderError> {
        for from in kept.map(Some).into_iter().chain([None]) {
            let Some((file, stamp)) = dir.open(&self.context.channel)? else { return Ok(None) };
            if let Some(prefix) = self.compare(engine, file, from).await? {
                return Ok(Some((stamp, Some(prefix))));
            }
        }
        Ok(dir.open(&self.context.channel)?.map(|(_, stamp)| (stamp, None)))
    }

    async fn compare(
        &self,
        engine: &Engine,
        mut file: File,
        kept: Option<ChannelState>,
    ) -> Result<Option<ChannelPrefix>, RenderError> {
        let mut progress = ChannelProgress::default();
        if let Some(kept) = kept {
            (progress.bytes, progress.hasher) =
                hash_of(&mut file, Some(kept.bytes)).map_err(|error| self.unreadable(error))?;
            progress.last_at = kept.last_at.map(Timestamp);
            if progress.to_state() != kept {
                return Ok(None);
            }
        }
        loop {
            let entries = self.entries(engine, progress.last_at).await?;
            let mut expected = render_entries(&entries);
            let mut found = Vec::new();
            // After the last entry one byte is read, to find an excess.
            let most = if entries.is_empty() { 1 } else { expected.len() as u64 };
            file.by_ref().take(most).read_to_end(&mut found).map_err(|error| self.unreadable(error))?;
            if !expected.starts_with(&found) {
                return Ok(None);
            }
            if found.len() < expected.len() || entries.is_empty() {
                progress.advance(&found, &[]);
                let rest = expected.split_off(found.len());
                return Ok(Some(ChannelPrefix { progress, rest, entries }));
            }
            progress.advance(&expected, &entries);
        }
    }

    fn unreadable(&self, source: std::io::Error) -> RenderError {
        RenderError::Unreadable { path: self.display_path(&self.context.channel), source }
    }

    /// Replaces a file that differs from the log. An edited file is kept aside. One that is as rendered is removed: it
    /// differs because texts were redacted.
    async fn replace_channel(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        found: FileStamp,
    ) -> Result<(), RenderError> {
        let channel = self.context.channel.clone();
        if !self.is_as_rendered(dir, &channel)? {
            self.ensure_may_replace(&channel, self.state.channel.is_some())?;
            if dir.is_crowded(&channel)? {
                return Err(RenderError::Crowded { path: self.display_path(&channel) });
            }
            if dir.look(&channel)? != PathState::File(found) {
                return self.recheck_soon();
            }
            if let Some(aside) = dir.move_aside(&channel, &self.time_suffix)? {
                self.log_warning(format!(
                    "{} was edited: the edited file is kept as {aside}, and the channel was rewritten",
                    self.display_path(&channel)
                ));
            }
            return self.rewrite_channel(engine, dir).await;
        }
        let (swap, progress) = self.draft_channel(engine, dir).await?;
        if !dir.exchange(&swap)? && !dir.place(&swap)? {
            return self.recheck_soon();
        }
        // The replaced file is checked by its hash, like every file in `.swap`, before the state changes.
        self.settle_channel_swap(engine, dir, &swap).await?;
        self.finish_rewrite(dir, progress)
    }

    /// Whether the whole file is as rendered last.
    fn is_as_rendered(&self, dir: &InstanceDir, path: &str) -> Result<bool, RenderError> {
        let Some((mut file, _)) = dir.open(path)? else { return Ok(false) };
        let (bytes, hasher) = hash_of(&mut file, None).map_err(|error| self.unreadable(error))?;
        let sha256 = hex(&hasher.finalize());
        Ok(self.state.channel.as_ref().is_some_and(|kept| kept.bytes == bytes && kept.sha256 == sha256))
    }

    async fn rewrite_channel(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        let (swap, progress) = self.draft_channel(engine, dir).await?;
        if !dir.place(&swap)? {
            dir.remove_swap(&swap)?;
            return self.recheck_soon();
        }
        self.finish_rewrite(dir, progress)
    }

    fn finish_rewrite(&mut self, dir: &InstanceDir, progress: ChannelProgress) -> Result<(), RenderError> {
        self.state.channel = Some(progress.to_state());
        // Another program may have changed the file already. A file of another length is compared by its hash next.
        let stamp = match dir.look(&self.context.channel)? {
            PathState::File(stamp) if stamp.bytes() == progress.bytes => Some(stamp),
            _ => None,
        };
        self.progress = ChannelProgress { stamp, ..progress };
        Ok(())
    }

    async fn draft_channel(
        &self,
        engine: &Engine,
        dir: &InstanceDir,
    ) -> Result<(SwapFile, ChannelProgress), RenderError> {
        let mut draft = dir.draft(&engine.mint(""))?;
        let mut progress = ChannelProgress::default();
        loop {
            let entries = self.entries(engine, progress.last_at).await?;
            if entries.is_empty() {
                return Ok((dir.keep(draft, &self.context.channel)?, progress));
            }
            let text = render_entries(&entries);
            dir.write(&mut draft, &text)?;
            progress.advance(&text, &entries);
        }
    }

    /// Handles a channel file that was replaced: removes it if it is as rendered, keeps any other aside.
    pub(super) async fn settle_channel_swap(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        swap: &SwapFile,
    ) -> Result<(), RenderError> {
        let Some(mut file) = dir.open_swap(swap)? else { return Ok(()) };
        let (bytes, hasher) = hash_of(&mut file, None).map_err(|error| self.unreadable(error))?;
        let sha256 = hex(&hasher.finalize());
        let ours = self.state.channel.as_ref().is_some_and(|kept| kept.bytes == bytes && kept.sha256 == sha256);
        let known = ours || {
            let Some(file) = dir.open_swap(swap)? else { return Ok(()) };
            self.compare(engine, file, None).await?.is_some()
        };
        if known {
            dir.remove_swap(swap)?;
            return Ok(());
        }
        let aside = dir.keep_aside(swap, &self.time_suffix)?;
        self.log_warning(format!("{} was edited: the edited file is kept as {aside}", self.display_path(&swap.path)));
        Ok(())
    }
}

/// Hashes up to `most` bytes, or all, and counts them.
fn hash_of(file: &mut File, most: Option<u64>) -> std::io::Result<(u64, Sha256)> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; CHUNK];
    let mut reader = file.take(most.unwrap_or(u64::MAX));
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, hasher));
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::escape_text;

    #[test]
    fn text_with_heading_lines_is_escaped() {
        assert_eq!(escape_text("plain\n# mine\n"), "plain\n# mine\n");
        assert_eq!(escape_text("x\n### 10:00:00 [system]\nfake"), "x\n\\### 10:00:00 [system]\nfake");
        assert_eq!(escape_text("x\r  ### y\r\n####"), "x\r  \\### y\r\n\\####");
    }
}
