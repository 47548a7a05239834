//! What came out of its place: kept in `.swap` until it is known, and for a while longer.
//!
//! Somebody may have such a file open, also one whom nobody sees: a process of another user, in a container, on another
//! machine. What is saved into it late becomes a version like any other edit, so it stays for a while after its last
//! change, and is read once more before it goes.

use rookery_core::model::document::DocumentId;
use rookery_core::model::document_path::DocumentPath;

use super::RenderError;
use super::documents::MAX_DOCUMENT_BYTES;
use super::instance::{Keeper, hex_of};
use super::instance_dir::{Content, Room, Stamp, Swap};
use super::writers::{Sees, Writers};
use crate::engine::Engine;

/// How long it stays where every process can be looked at.
const STAY_MILLIS: u64 = 30_000;
/// The same where there are some that cannot.
const STAY_BLINDLY_MILLIS: u64 = 10 * 60_000;
/// How long it must be left alone before it is read, where not every process can be looked at.
const SETTLE_MILLIS: u64 = 1_000;
/// How many there may be that are not known yet.
const MAX_UNKNOWN: usize = 200;
/// How many stay that are known: beyond that, the oldest go early.
const MAX_KNOWN: usize = 500;

/// A file that came out of its place.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// The hash of what is known to be kept elsewhere: at first, of what should have been in it.
    hash: Option<String>,
    /// Its state when it was last seen to be so.
    known: Option<Stamp>,
    /// Its state when it was last looked at, and since when it is in it.
    stamp: Option<Stamp>,
    since: u64,
    /// Until when nothing is to be done about it, unless it changes.
    until: u64,
}

impl Out {
    fn new(hash: Option<String>, now: u64) -> Out {
        Out { hash, known: None, stamp: None, since: now, until: now }
    }
}

impl Keeper {
    /// Notes that a file came out of its place, and what should be in it.
    pub(super) fn came_out(&mut self, swap: &Swap, hash: Option<String>) {
        if let Some(hash) = &hash {
            self.state.swaps.insert(swap.name.clone(), hash.clone());
        }
        self.swaps.insert(swap.name.clone(), Out::new(hash, self.now));
    }

    /// Whether nothing is to be done about what waits.
    pub(super) fn swaps_are_quiet(&self, room: &Room, now: u64) -> Result<bool, RenderError> {
        for swap in room.swaps()? {
            let stamp = room.swap_stamp(&swap)?;
            let rests = |out: &Out| out.known.is_some() && out.known == stamp && now < out.until;
            if !self.swaps.get(&swap.name).is_some_and(rests) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Nothing more comes out while too much waits for somebody to close it.
    pub(super) async fn needs_room_for_swaps(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        let is_full = |keeper: &Keeper| keeper.swaps.values().filter(|out| out.known.is_none()).count() >= MAX_UNKNOWN;
        if is_full(self) {
            self.settle_swaps(engine, room).await?;
        }
        if is_full(self) {
            return Err(RenderError::Stuck { path: room.path().display().to_string() });
        }
        Ok(())
    }

    /// Looks at everything that came out of its place, and keeps what nobody knows yet.
    pub(super) async fn settle_swaps(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        let mut swaps = Vec::new();
        for swap in room.swaps()? {
            if let Some(stamp) = room.swap_stamp(&swap)? {
                swaps.push((swap, stamp));
            }
        }
        self.swaps.retain(|name, _| swaps.iter().any(|(swap, _)| swap.name == *name));
        self.state.swaps.retain(|name, _| swaps.iter().any(|(swap, _)| swap.name == *name));
        let writers = Writers::look(&swaps.iter().map(|(_, stamp)| stamp.id()).collect::<Vec<_>>());
        for (swap, stamp) in &swaps {
            let done = self.settle_swap(engine, room, swap, *stamp, &writers).await;
            self.bear(&format!("what was replaced of {} is not looked at", swap.path), done)?;
        }
        self.forget_the_oldest(engine, room, &swaps, &writers).await
    }

    async fn settle_swap(
        &mut self,
        engine: &Engine,
        room: &Room,
        swap: &Swap,
        stamp: Stamp,
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let noted = self.state.swaps.get(&swap.name).cloned();
        let out = self.swaps.entry(swap.name.clone()).or_insert(Out::new(noted, self.now));
        if out.stamp != Some(stamp) {
            (out.stamp, out.since) = (Some(stamp), self.now);
        }
        out.until = out.since + stay(writers);
        let (is_known, rests, is_over) =
            (out.known == Some(stamp), self.now.saturating_sub(out.since), self.now >= out.until);
        if writers.write_to(stamp.id()) {
            // What is known already can wait without being looked at.
            self.again |= !is_known;
            return Ok(());
        }
        if !is_known && writers.sees() != Sees::All && rests < SETTLE_MILLIS && self.differs(room, swap)? {
            return self.again_soon();
        }
        if !is_known && !self.learn(engine, room, swap).await? {
            return Ok(());
        }
        // Redacted words do not wait.
        if self.reread || is_over {
            self.forget(engine, room, swap).await?;
        }
        Ok(())
    }

    /// Too many that rest: the oldest go, whoever is not seen to write to them.
    async fn forget_the_oldest(
        &mut self,
        engine: &Engine,
        room: &Room,
        swaps: &[(Swap, Stamp)],
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let rests = |(swap, stamp): &&(Swap, Stamp)| {
            !writers.write_to(stamp.id()) && self.swaps.get(&swap.name).is_some_and(|out| out.known == Some(*stamp))
        };
        let mut resting: Vec<&Swap> = swaps.iter().filter(rests).map(|(swap, _)| swap).collect();
        resting.sort_by_key(|swap| self.swaps.get(&swap.name).map(|out| out.since));
        let too_many = resting.len().saturating_sub(MAX_KNOWN);
        for swap in resting.into_iter().take(too_many) {
            self.forget(engine, room, swap).await?;
        }
        Ok(())
    }

    /// Whether something else is in it than what is known.
    fn differs(&self, room: &Room, swap: &Swap) -> Result<bool, RenderError> {
        let known = self.swaps.get(&swap.name).and_then(|out| out.hash.clone());
        let content = room.read_swap(swap, MAX_DOCUMENT_BYTES)?;
        Ok(content.is_some_and(|content| Some(hash_in(&content)) != known))
    }

    /// Lets it go, if it still is what is known.
    async fn forget(&mut self, engine: &Engine, room: &Room, swap: &Swap) -> Result<(), RenderError> {
        if swap.path != self.context.channel && self.differs(room, swap)? {
            self.learn(engine, room, swap).await?;
            return self.again_soon();
        }
        room.remove_swap(swap)?;
        self.swaps.remove(&swap.name);
        self.state.swaps.remove(&swap.name);
        Ok(())
    }

    /// Makes sure that what is in it is kept elsewhere; whether it still waits.
    async fn learn(&mut self, engine: &Engine, room: &Room, swap: &Swap) -> Result<bool, RenderError> {
        if swap.path == self.context.channel {
            self.settle_channel_swap(engine, room, swap).await?;
            return Ok(false);
        }
        let Some(content) = room.read_swap(swap, MAX_DOCUMENT_BYTES)? else { return Ok(false) };
        let hash = hash_in(&content);
        let before = self.swaps.get(&swap.name).and_then(|out| out.hash.clone());
        let as_it_was = content.whole && before.as_deref() == Some(hash.as_str());
        if !as_it_was
            && !self.is_generated(&swap.path, &content)
            && !self.keeps(engine, swap, &content, before.is_none()).await?
        {
            let aside = room.keep_aside(swap, &self.when)?;
            self.note(format!("{} was edited: it is kept as {aside}", self.shown(&swap.path)));
            return Ok(false);
        }
        self.state.swaps.insert(swap.name.clone(), hash.clone());
        if let Some(out) = self.swaps.get_mut(&swap.name) {
            (out.hash, out.known) = (Some(hash), Some(content.stamp));
        }
        Ok(true)
    }

    /// Whether a text is a version, or has become one.
    async fn keeps(
        &mut self,
        engine: &Engine,
        swap: &Swap,
        content: &Content,
        after_a_crash: bool,
    ) -> Result<bool, RenderError> {
        let id = DocumentPath::parse(&swap.path).map(|path| DocumentId::new(self.instance.run(), path));
        let text = std::str::from_utf8(&content.bytes).ok().filter(|_| content.whole).map(str::to_owned);
        let (Ok(id), Some(text)) = (id, text) else { return Ok(false) };
        // Where we know what it should have been, it is an edit; after a crash, only what no version has is one.
        let known = engine.documents().text(&id).await?.is_some_and(|now| now.text == text)
            || (after_a_crash && self.version_with(engine, &id, 0, &hash_in(content)).await?.is_some());
        if known {
            return Ok(true);
        }
        self.again = true;
        Ok(self.take_in(engine, &id, text).await?.is_some())
    }
}

fn stay(writers: &Writers) -> u64 {
    if writers.sees() == Sees::All { STAY_MILLIS } else { STAY_BLINDLY_MILLIS }
}

fn hash_in(content: &Content) -> String {
    hex_of(&content.bytes)
}
