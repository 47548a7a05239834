//! Whoever keeps the files of one instance: what it knows from one round to the next, and the round itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rookery_core::Instance;
use rookery_core::model::context_settings::TeamContext;
use sha2::{Digest, Sha256};

use super::channel::Reel;
use super::documents::Seen;
use super::fault_points::Steps;
use super::instance_dir::{Content, FileId, PathState, Room, Stamp};
use super::recovered::Out;
use super::state::{Shelf, State};
use super::{Generated, RenderError};
use crate::engine::Engine;

/// How much of a file that is made from settings is looked at.
const LARGEST: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) instance: Instance,
    pub(super) context: TeamContext,
    pub(super) state: State,
    saved: State,
    shelf: Shelf,
    steps: Steps,
    /// Files that are made from settings alone.
    generated: Vec<Generated>,
    /// Files that are as we left them.
    pub(super) stamps: BTreeMap<String, Stamp>,
    /// Files that are not, until they have settled.
    pub(super) seen: BTreeMap<String, Seen>,
    /// Documents whose file is missing, and since when.
    pub(super) missing: BTreeMap<String, u64>,
    /// What came out of its place.
    pub(super) swaps: BTreeMap<String, Out>,
    pub(super) reel: Reel,
    /// Words may have been redacted: everything is compared with the log.
    pub(super) reread: bool,
    /// Something has to be looked at again soon.
    pub(super) again: bool,
    /// Something could not be done, and is tried again.
    failed: bool,
    troubles: BTreeSet<String>,
    told: BTreeSet<String>,
    /// The folder as of the last round.
    pub(super) folder: Option<FileId>,
    pub(super) now: u64,
    pub(super) wall: i64,
    /// The time as part of a file's name.
    pub(super) when: String,
}

/// What came of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// Something is unsettled and has to be looked at again soon.
    pub(super) again: bool,
    /// Everything that the log says is in the files.
    pub(super) whole: bool,
    /// What a person should know.
    pub(super) troubles: Vec<String>,
}

impl Keeper {
    pub(super) fn new(
        instance: Instance,
        context: TeamContext,
        generated: Vec<Generated>,
        log: &str,
        shelf: &Shelf,
    ) -> Keeper {
        let state = shelf.load(&instance, log, context.folder.as_str());
        Keeper {
            saved: state.clone(),
            state,
            instance,
            context,
            shelf: shelf.clone(),
            steps: shelf.steps().clone(),
            generated,
            stamps: BTreeMap::new(),
            seen: BTreeMap::new(),
            missing: BTreeMap::new(),
            swaps: BTreeMap::new(),
            reel: Reel::default(),
            reread: false,
            again: false,
            failed: false,
            troubles: BTreeSet::new(),
            told: BTreeSet::new(),
            folder: None,
            now: 0,
            wall: 0,
            when: String::new(),
        }
    }

    /// The folder that this one has files in, from now or from before.
    pub(super) fn has_folder(&self, root: &Path) -> Option<FileId> {
        let was_here = self.state.channel.is_some() || !self.state.documents.is_empty();
        self.folder.or_else(|| FileId::at(&root.join(self.context.folder.as_str())).filter(|_| was_here))
    }

    /// Brings the files and the log together once.
    pub(super) async fn round(&mut self, engine: &Engine) -> Result<Round, RenderError> {
        let clock = engine.clock();
        (self.now, self.wall) = (clock.monotonic(), clock.now().0);
        self.when = stamp_of(self.wall);
        (self.again, self.failed, self.troubles) = (false, false, BTreeSet::new());
        let done = self.work(engine).await;
        // Also of half a round: what was written was written.
        if self.state != self.saved {
            let saved = self.shelf.save(&self.instance, &self.state);
            saved.map_err(|source| RenderError::State { instance: self.instance.to_string(), source })?;
            self.saved = self.state.clone();
        }
        done?;
        self.reread &= self.failed;
        self.tell_news();
        Ok(Round { again: self.again, whole: !self.failed, troubles: self.troubles.iter().cloned().collect() })
    }

    /// Every kind of file by itself: one that makes trouble keeps no other from being brought up to date.
    async fn work(&mut self, engine: &Engine) -> Result<(), RenderError> {
        let room = Room::enter(&engine.config().root, &self.context.folder, self.steps.clone())?;
        let done = self.settle_swaps(engine, &room).await;
        self.bear("what was replaced is not looked at", done)?;
        let done = self.render_channel(engine, &room).await;
        self.bear("the channel is not written", done)?;
        let done = self.render_documents(engine, &room).await;
        self.bear("documents are not brought up to date", done)?;
        for generated in self.generated.clone() {
            let done = self.generate(engine, &room, &generated);
            self.bear(&format!("{} is not written", generated.name), done)?;
        }
        self.folder = Some(room.id()?);
        Ok(())
    }

    /// Makes what went wrong with a file something that a person should know, and says what does not happen because of
    /// it. What went wrong with the log concerns everything.
    pub(super) fn bear(&mut self, what: &str, done: Result<(), RenderError>) -> Result<(), RenderError> {
        match done {
            Err(error) if error.is_of_a_file() => {
                self.failed = true;
                self.trouble(format!("{what}: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Whether nobody has touched the files since the last round: only then there is nothing to do while the log is quiet.
    pub(super) fn is_quiet(&self, root: &Path, now: u64) -> bool {
        let quiet = || -> Result<bool, RenderError> {
            let room = Room::enter(root, &self.context.folder, self.steps.clone())?;
            let files = self.files(&room, std::iter::empty())?.found;
            let rendered = self.state.documents.values().filter(|state| state.hash.is_some()).count();
            let generated =
                |made: &Generated| Ok(room.read(&made.name, LARGEST)?.is_some_and(|c| c.bytes == made.text.as_bytes()));
            let all_made = self.generated.iter().map(generated).collect::<Result<Vec<bool>, RenderError>>()?;
            Ok(files == self.stamps
                && files.len() == rendered
                && self.channel_is_quiet(&room)?
                && all_made.into_iter().all(|made| made)
                && self.swaps_are_quiet(&room, now)?
                && Some(room.id()?) == self.folder)
        };
        quiet().unwrap_or(false)
    }

    /// Writes a file that is made from settings alone, if it is not there or says something else.
    fn generate(&mut self, engine: &Engine, room: &Room, generated: &Generated) -> Result<(), RenderError> {
        let Generated { name, text } = generated;
        let content = match room.look(name)? {
            PathState::Other => return Err(RenderError::InTheWay { path: self.shown(name) }),
            PathState::Nothing => None,
            PathState::File(_) => room.read(name, LARGEST)?,
        };
        let hash = hex_of(text.as_bytes());
        if content.as_ref().is_some_and(|content| content.whole && content.bytes == text.as_bytes()) {
            self.state.generated.insert(name.clone(), hash);
            return Ok(());
        }
        if let Some(content) = content
            && !self.is_generated(name, &content)
        {
            self.may_replace(name, self.state.generated.contains_key(name))?;
            if room.is_crowded(name)? {
                return Err(RenderError::Crowded { path: self.shown(name) });
            }
            if let Some(aside) = room.move_aside(name, &self.when)? {
                self.note(format!("{} was edited: it is kept as {aside} and was written anew", self.shown(name)));
            }
        }
        let mut draft = room.draft(&engine.mint(""))?;
        room.write(&mut draft, text.as_bytes())?;
        let swap = room.keep(draft, name)?;
        let before = self.state.generated.insert(name.clone(), hash);
        if room.exchange(&swap)? {
            self.came_out(&swap, before);
            self.again = true;
        } else if !room.place(&swap)? {
            self.again = true;
        }
        Ok(())
    }

    /// A file that was there before ours makes way only below `.workflow`, where nothing but contexts is. Elsewhere it belongs
    /// to the project.
    pub(super) fn may_replace(&self, path: &str, was_written: bool) -> Result<(), RenderError> {
        match was_written || self.context.folder.is_below_shared() {
            true => Ok(()),
            false => Err(RenderError::NotOurs { path: self.shown(path) }),
        }
    }

    /// Whether a file holds what we made last.
    pub(super) fn is_generated(&self, name: &str, content: &Content) -> bool {
        let is_new = |made: &&Generated| made.name == name && made.text.as_bytes() == content.bytes;
        let was_made = || self.state.generated.get(name).is_some_and(|hash| *hash == hex_of(&content.bytes));
        content.whole && (self.generated.iter().any(|made| is_new(&made)) || was_made())
    }

    pub(super) fn again_soon(&mut self) -> Result<(), RenderError> {
        self.again = true;
        Ok(())
    }

    /// How a file is called to a person: by its path in the project.
    pub(super) fn shown(&self, path: &str) -> String {
        format!("{}/{path}", self.context.folder.as_str())
    }

    /// Something that stays so until somebody does something about it.
    pub(super) fn trouble(&mut self, message: String) {
        self.troubles.insert(message);
    }

    /// Something that happened.
    pub(super) fn note(&self, message: String) {
        tracing::warn!(instance = %self.instance, "{message}");
    }

    /// Puts troubles into the daemon's log when they are new.
    fn tell_news(&mut self) {
        for trouble in self.troubles.difference(&self.told) {
            tracing::warn!(instance = %self.instance, "{trouble}");
        }
        self.told.clone_from(&self.troubles);
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn hex_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn stamp_of(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map(|at| at.strftime("%Y%m%dT%H%M%SZ").to_string())
        .unwrap_or_else(|_| millis.to_string())
}
