//! The channel as a file: appended to, never parsed.
//!
//! The file must be the beginning of what the log says. Whether it is, its stamp tells while nobody else touches it; then
//! its hash up to where we wrote; and at last the log itself. One that is not is moved aside and written anew.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

use rookery_core::model::Table;
use rookery_core::model::message::Message;
use rookery_core::{Row, Timestamp};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;
use sha2::{Digest, Sha256};

use super::RenderError;
use super::instance::{Keeper, hex};
use super::instance_dir::{PathState, Room, Stamp, Swap};
use super::state::Written;
use crate::engine::Engine;

/// How many entries are rendered at a time.
const PAGE: u32 = 100;
/// How much of a file is hashed at a time.
const CHUNK: usize = 64 * 1024;

/// How far the file is known to be what we wrote.
#[derive(Clone, Debug, Default)]
pub(super) struct Reel {
    stamp: Option<Stamp>,
    bytes: u64,
    hasher: Sha256,
    last_at: Option<Timestamp>,
}

impl Reel {
    fn took(&mut self, text: &[u8], entries: &[Message]) {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        self.hasher.update(text);
        self.last_at = entries.last().map(|entry| entry.at).or(self.last_at);
    }

    fn written(&self) -> Written {
        let sha256 = hex(&self.hasher.clone().finalize());
        Written { bytes: self.bytes, sha256, last_at: self.last_at.map(|at| at.0) }
    }
}

/// A file that is the beginning of what the log says.
struct Beginning {
    reel: Reel,
    /// What comes next: the rest of the entries that it ends in.
    owed: Vec<u8>,
    entries: Vec<Message>,
}

/// An entry as the file has it.
fn entry(message: &Message) -> String {
    let second = message.at.0.div_euclid(1_000).rem_euclid(86_400);
    let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
    let (name, text) = (&message.letter.header.name, said(&message.letter.text));
    format!("\n### {hours:02}:{minutes:02}:{seconds:02} [{name}]\n{text}\n")
}

/// A text as it stands in the channel. A line of it that would read as the head of an entry gets a backslash, as Markdown
/// has it, so that nobody can put words into another's mouth.
fn said(text: &str) -> Cow<'_, str> {
    let is_head = |line: &str| line.trim_start().starts_with("###");
    if !text.split(['\n', '\r']).any(is_head) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| if is_head(line) { line.replacen("###", "\\###", 1) } else { line.to_owned() };
    Cow::Owned(text.split_inclusive(['\n', '\r']).map(line).collect())
}

fn rendered(entries: &[Message]) -> Vec<u8> {
    entries.iter().map(entry).collect::<String>().into_bytes()
}

impl Keeper {
    /// The next entries after a time, in order.
    async fn entries(&self, engine: &Engine, after: Option<Timestamp>) -> Result<Vec<Message>, RenderError> {
        let thread = self.instance.thread();
        let query = RowQuery::all(Table::Messages)
            .with("channel", ColumnTest::Is(thread.as_str().into()))
            .with("at", ColumnTest::Above(after.map_or(i64::MIN, |at| at.0)))
            .ordered_by("at")
            .at_most(Some(PAGE));
        let (rows, _) = engine.store().list(query).await?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Message(entry) = row { Some(entry) } else { None }).collect())
    }

    /// Brings the file up to what the log says.
    pub(super) async fn render_channel(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        let stamp = match room.look(&self.context.channel)? {
            PathState::Nothing => return self.write_channel_anew(engine, room).await,
            PathState::Other => return Err(RenderError::InTheWay { path: self.shown(&self.context.channel) }),
            PathState::File(stamp) => stamp,
        };
        if self.reel.stamp != Some(stamp) || self.reread {
            let kept = if self.reread { None } else { self.state.channel.clone() };
            match self.compare_channel(engine, room, kept).await? {
                Some((found, Some(Beginning { reel, owed, entries }))) => {
                    self.reel = Reel { stamp: Some(found), ..reel };
                    self.append_channel(room, &owed, &entries)?;
                }
                Some((found, None)) => return self.replace_channel(engine, room, found).await,
                None => return self.again_soon(),
            }
        }
        self.append_new_entries(engine, room).await
    }

    /// Whether the file is as we left it.
    pub(super) fn channel_is_quiet(&self, room: &Room) -> Result<bool, RenderError> {
        Ok(room.look(&self.context.channel)? == self.reel.stamp.map_or(PathState::Nothing, PathState::File))
    }

    async fn append_new_entries(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        loop {
            let entries = self.entries(engine, self.reel.last_at).await?;
            if entries.is_empty() || self.reel.stamp.is_none() {
                return Ok(());
            }
            self.append_channel(room, &rendered(&entries), &entries)?;
        }
    }

    /// Appends if the file is still as we know it; otherwise it is looked at again.
    fn append_channel(&mut self, room: &Room, text: &[u8], entries: &[Message]) -> Result<(), RenderError> {
        let Some(stamp) = self.reel.stamp.take() else { return self.again_soon() };
        if text.is_empty() {
            self.reel.stamp = Some(stamp);
        } else {
            match room.append(&self.context.channel, stamp, text)? {
                None => return self.again_soon(),
                Some(stamp) => {
                    self.reel.took(text, entries);
                    self.reel.stamp = Some(stamp);
                }
            }
        }
        self.state.channel = Some(self.reel.written());
        Ok(())
    }

    /// Compares the file with what we know of it, and if that does not fit, with the log from its beginning.
    async fn compare_channel(
        &self,
        engine: &Engine,
        room: &Room,
        kept: Option<Written>,
    ) -> Result<Option<(Stamp, Option<Beginning>)>, RenderError> {
        for from in kept.map(Some).into_iter().chain([None]) {
            let Some((file, stamp)) = room.open(&self.context.channel)? else { return Ok(None) };
            if let Some(ours) = self.compare(engine, file, from).await? {
                return Ok(Some((stamp, Some(ours))));
            }
        }
        Ok(room.open(&self.context.channel)?.map(|(_, stamp)| (stamp, None)))
    }

    async fn compare(
        &self,
        engine: &Engine,
        mut file: File,
        kept: Option<Written>,
    ) -> Result<Option<Beginning>, RenderError> {
        let mut reel = Reel::default();
        if let Some(kept) = kept {
            (reel.bytes, reel.hasher) = hash_of(&mut file, Some(kept.bytes)).map_err(|error| self.unreadable(error))?;
            reel.last_at = kept.last_at.map(Timestamp);
            if reel.written() != kept {
                return Ok(None);
            }
        }
        loop {
            let entries = self.entries(engine, reel.last_at).await?;
            let mut expected = rendered(&entries);
            let mut found = Vec::new();
            // One byte more than may be there, so that what is too much is seen.
            let most = if entries.is_empty() { 1 } else { expected.len() as u64 };
            file.by_ref().take(most).read_to_end(&mut found).map_err(|error| self.unreadable(error))?;
            if !expected.starts_with(&found) {
                return Ok(None);
            }
            if found.len() < expected.len() || entries.is_empty() {
                reel.took(&found, &[]);
                let owed = expected.split_off(found.len());
                return Ok(Some(Beginning { reel, owed, entries }));
            }
            reel.took(&expected, &entries);
        }
    }

    fn unreadable(&self, source: std::io::Error) -> RenderError {
        RenderError::Unreadable { path: self.shown(&self.context.channel), source }
    }

    /// Puts the channel as the log has it in the place of a file that says something else. That one is kept aside, unless
    /// it is wholly ours: then words were redacted, and shall go.
    async fn replace_channel(&mut self, engine: &Engine, room: &Room, found: Stamp) -> Result<(), RenderError> {
        let channel = self.context.channel.clone();
        if !self.is_ours(room, &channel)? {
            self.may_replace(&channel, self.state.channel.is_some())?;
            if room.is_crowded(&channel)? {
                return Err(RenderError::Crowded { path: self.shown(&channel) });
            }
            if room.look(&channel)? != PathState::File(found) {
                return self.again_soon();
            }
            if let Some(aside) = room.move_aside(&channel, &self.when)? {
                self.note(format!("{} was edited: it is kept as {aside} and was written anew", self.shown(&channel)));
            }
            return self.write_channel_anew(engine, room).await;
        }
        let (swap, reel) = self.draft_channel(engine, room).await?;
        if !room.exchange(&swap)? && !room.place(&swap)? {
            return self.again_soon();
        }
        // What came out is looked at by its hash, like every swap, before ours takes its place.
        self.settle_channel_swap(engine, room, &swap).await?;
        self.wrote_anew(room, reel)
    }

    /// Whether the whole file is what we wrote last.
    fn is_ours(&self, room: &Room, path: &str) -> Result<bool, RenderError> {
        let Some((mut file, _)) = room.open(path)? else { return Ok(false) };
        let (bytes, hasher) = hash_of(&mut file, None).map_err(|error| self.unreadable(error))?;
        let sha256 = hex(&hasher.finalize());
        Ok(self.state.channel.as_ref().is_some_and(|kept| kept.bytes == bytes && kept.sha256 == sha256))
    }

    async fn write_channel_anew(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        let (swap, reel) = self.draft_channel(engine, room).await?;
        if !room.place(&swap)? {
            room.remove_swap(&swap)?;
            return self.again_soon();
        }
        self.wrote_anew(room, reel)
    }

    fn wrote_anew(&mut self, room: &Room, reel: Reel) -> Result<(), RenderError> {
        self.state.channel = Some(reel.written());
        // Somebody may have changed it already: only a file as long as ours can be ours, and its hash is next.
        let stamp = match room.look(&self.context.channel)? {
            PathState::File(stamp) if stamp.bytes() == reel.bytes => Some(stamp),
            _ => None,
        };
        self.reel = Reel { stamp, ..reel };
        Ok(())
    }

    async fn draft_channel(&self, engine: &Engine, room: &Room) -> Result<(Swap, Reel), RenderError> {
        let mut draft = room.draft(&engine.mint(""))?;
        let mut reel = Reel::default();
        loop {
            let entries = self.entries(engine, reel.last_at).await?;
            if entries.is_empty() {
                return Ok((room.keep(draft, &self.context.channel)?, reel));
            }
            let text = rendered(&entries);
            room.write(&mut draft, &text)?;
            reel.took(&text, &entries);
        }
    }

    /// Decides about a channel that came out of its place: ours goes, anything else is kept aside.
    pub(super) async fn settle_channel_swap(
        &mut self,
        engine: &Engine,
        room: &Room,
        swap: &Swap,
    ) -> Result<(), RenderError> {
        let Some(mut file) = room.open_swap(swap)? else { return Ok(()) };
        let (bytes, hasher) = hash_of(&mut file, None).map_err(|error| self.unreadable(error))?;
        let sha256 = hex(&hasher.finalize());
        let ours = self.state.channel.as_ref().is_some_and(|kept| kept.bytes == bytes && kept.sha256 == sha256);
        let known = ours || {
            let Some(file) = room.open_swap(swap)? else { return Ok(()) };
            self.compare(engine, file, None).await?.is_some()
        };
        if known {
            room.remove_swap(swap)?;
            return Ok(());
        }
        let aside = room.keep_aside(swap, &self.when)?;
        self.note(format!("{} was edited: it is kept as {aside}", self.shown(&swap.path)));
        Ok(())
    }
}

/// The hash of so many bytes, or of all, and how many there were.
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
    use super::said;

    #[test]
    fn no_text_looks_like_an_entry_of_somebody_else() {
        assert_eq!(said("plain\n# mine\n"), "plain\n# mine\n");
        assert_eq!(said("x\n### 10:00:00 [system]\nfake"), "x\n\\### 10:00:00 [system]\nfake");
        assert_eq!(said("x\r  ### y\r\n####"), "x\r  \\### y\r\n\\####");
    }
}
