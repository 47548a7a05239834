//! Documents as files, in both directions: what the log says is written, what a person saves becomes a version.
//!
//! A file is replaced only by changing places with it, and what comes out is kept until it is known: as what we wrote,
//! as a version, or as one that it has become. So nothing that ever stood in a file is lost, whenever we are ended.

use std::collections::BTreeMap;

use rookery_core::documents::{Base, WriteDocument, Writer};
use rookery_core::kernel::limit;
use rookery_core::model::Table;
use rookery_core::model::document::{Document, DocumentId, Version, hash_of};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::{Caller, Row};
use rookery_store::query::ColumnTest;
use rookery_store::{RowQuery, Submission, SubmitError};

use super::RenderError;
use super::instance::Keeper;
use super::instance_dir::{Content, FileId, PathState, Room, Stamp, WALK_ENTRIES, Walk};
use super::state::RenderedDocument;
use super::writers::{Sees, Writers};
use crate::engine::Engine;
use crate::error::EngineError;

/// How long a file must be left alone before it is read.
const SETTLE_MILLIS: u64 = 150;
/// The same where nobody can tell whether it is still being written.
const SETTLE_BLINDLY_MILLIS: u64 = 1_000;
/// How long a file that somebody saves again and again is waited for.
const MAX_RESTLESS_MILLIS: u64 = 3_000;
/// How long a file that somebody keeps open is waited for.
const MAX_OPEN_MILLIS: u64 = 10_000;
/// How long a file must be missing before it is written anew: editors save by taking it away for a moment.
const MISSING_MILLIS: u64 = 2_000;
/// A stamp younger than this may stand for two contents.
const YOUNG_MILLIS: i64 = 100;
/// How many versions are looked through at a time.
const VERSIONS: u32 = 20;

pub(super) const MAX_DOCUMENT_BYTES: u64 = limit::DOCUMENT_BYTES as u64;

/// A file that is not as we left it: since when that is so, and since when it is as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    stamp: Stamp,
    first: u64,
    since: u64,
}

/// The files that may be documents.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) found: BTreeMap<String, Stamp>,
    /// Whether there are not more.
    whole: bool,
    /// Documents that have no file of their own, because the disk does not tell their name from that of another.
    twins: BTreeMap<String, String>,
}

impl Files {
    /// Adds a file that is there under a name that the folder does not show.
    fn add(&mut self, path: &str, stamp: Stamp) {
        let is_twin = |(other, found): &(&String, &Stamp)| {
            found.id() == stamp.id() && other.to_lowercase() == path.to_lowercase()
        };
        match self.found.iter().find(is_twin) {
            Some((twin, _)) => drop(self.twins.insert(path.to_owned(), twin.clone())),
            None => drop(self.found.insert(path.to_owned(), stamp)),
        }
    }
}

/// Whose words stand in a file.
enum FileAuthor {
    /// Ours, of this version.
    Ours(u64),
    /// Somebody's who edited it.
    Edit,
}

impl Keeper {
    /// Brings files and documents together, each where the other has changed.
    pub(super) async fn render_documents(&mut self, engine: &Engine, room: &Room) -> Result<(), RenderError> {
        let documents = engine.documents().list(&self.instance.run()).await?.value;
        let live: BTreeMap<String, Document> =
            documents.into_iter().map(|document| (document.id.path.to_string(), document)).collect();
        let Files { found: files, whole, twins } = self.files(room, live.keys())?;
        if !whole {
            self.trouble(format!(
                "there are more than {WALK_ENTRIES} files in {}: new ones do not become documents until there are fewer",
                self.context.folder.as_str()
            ));
        }
        self.seen.retain(|path, _| files.contains_key(path));
        self.missing.retain(|path, _| !files.contains_key(path));
        let writers = self.writers(&files);
        let mut paths: Vec<&String> = live.keys().chain(files.keys()).chain(self.rendered()).collect();
        paths.sort();
        paths.dedup();
        for path in paths.into_iter().cloned().collect::<Vec<_>>() {
            let Ok(name) = DocumentPath::parse(&path) else { continue };
            if let Some(twin) = twins.get(&path) {
                self.trouble(format!("{path} and {twin} are one file on this disk: document {path} is not written"));
                continue;
            }
            let id = DocumentId::new(self.instance.run(), name);
            let known = live.get(&path).cloned();
            let done = match files.get(&path) {
                Some(stamp) => self.meet(engine, room, &id, known, *stamp, &writers).await,
                None => self.miss(engine, room, &id, known).await,
            };
            self.bear(&format!("document {path} is not brought up to date"), done)?;
        }
        self.settle_swaps(engine, room).await
    }

    /// The files that may be documents: what is found in the folder, and those of documents that we know, wherever in it
    /// they are.
    pub(super) fn files<'a>(
        &'a self,
        room: &Room,
        known: impl Iterator<Item = &'a String>,
    ) -> Result<Files, RenderError> {
        let Walk { mut found, whole } = room.walk()?;
        let is_document = |path: &String| DocumentPath::parse(path).is_ok_and(|path| !self.context.is_channel(&path));
        found.retain(|path, _| is_document(path));
        let mut files = Files { found, whole, twins: BTreeMap::new() };
        for path in known.chain(self.rendered()) {
            if !files.found.contains_key(path)
                && let Ok(PathState::File(stamp)) = room.look(path)
            {
                files.add(path, stamp);
            }
        }
        Ok(files)
    }

    /// The documents whose files we wrote.
    fn rendered(&self) -> impl Iterator<Item = &String> {
        self.state.documents.iter().filter(|(_, state)| state.hash.is_some()).map(|(path, _)| path)
    }

    /// Who writes to those files that are not as we left them.
    fn writers(&self, files: &BTreeMap<String, Stamp>) -> Writers {
        let changed = files.iter().filter(|(path, stamp)| self.stamps.get(*path) != Some(*stamp));
        let changed: Vec<FileId> = changed.map(|(_, stamp)| stamp.id()).collect();
        Writers::look(&changed)
    }

    /// A file that is there.
    async fn meet(
        &mut self,
        engine: &Engine,
        room: &Room,
        id: &DocumentId,
        known: Option<Document>,
        stamp: Stamp,
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let path = id.path.as_str();
        let mut known = known;
        if self.stamps.get(path) != Some(&stamp) {
            if !self.has_settled(path, stamp, writers) {
                return self.again_soon();
            }
            let Some(content) = room.read(path, MAX_DOCUMENT_BYTES)?.filter(|content| content.stamp == stamp) else {
                return self.again_soon();
            };
            let Some(text) = self.fit(id, &content) else { return Ok(()) };
            let hash = hash_of(&text);
            let version = match self.whose(engine, id, known.as_ref(), &hash).await? {
                FileAuthor::Ours(version) => version,
                FileAuthor::Edit => match self.take_in(engine, id, text).await? {
                    Some(document) => {
                        let version = document.version;
                        known = Some(document);
                        version
                    }
                    None => return Ok(()),
                },
            };
            self.state.documents.insert(path.to_owned(), RenderedDocument { version, hash: Some(hash) });
            self.seen.remove(path);
            self.trust(path, stamp);
        }
        match known {
            Some(document) => self.refresh(engine, room, id, &document).await,
            None => self.withdraw(engine, room, id).await,
        }
    }

    /// A file that is not there.
    async fn miss(
        &mut self,
        engine: &Engine,
        room: &Room,
        id: &DocumentId,
        known: Option<Document>,
    ) -> Result<(), RenderError> {
        let path = id.path.as_str();
        self.stamps.remove(path);
        match room.look(path)? {
            PathState::Nothing => {}
            PathState::Other => {
                self.trouble(format!("{} is a link or a folder: the document is not written there", self.shown(path)));
                return Ok(());
            }
            // Put there in this moment, maybe by us and under another name; it is met in the next round.
            PathState::File(_) => return self.again_soon(),
        }
        if known.is_none() {
            let deleted = engine.documents().get(id).await?.value;
            self.gone(path, deleted.as_ref());
            return Ok(());
        }
        let was_there = self.state.documents.get(path).is_some_and(|state| state.hash.is_some());
        let since = *self.missing.entry(path.to_owned()).or_insert(self.now);
        if was_there && self.now.saturating_sub(since) < MISSING_MILLIS {
            return self.again_soon();
        }
        self.write(engine, room, id).await
    }

    /// Whether a file that is not as we left it has been left alone for long enough, or has not been for too long.
    fn has_settled(&mut self, path: &str, stamp: Stamp, writers: &Writers) -> bool {
        let now = self.now;
        let seen = self.seen.entry(path.to_owned()).or_insert(Seen { stamp, first: now, since: now });
        if seen.stamp != stamp {
            *seen = Seen { stamp, first: seen.first, since: now };
        }
        let (quiet, waited) = (now.saturating_sub(seen.since), now.saturating_sub(seen.first));
        if writers.write_to(stamp.id()) {
            return waited >= MAX_OPEN_MILLIS;
        }
        // Half of what somebody writes whom we do not see is at worst a version too many.
        let enough = match writers.sees() {
            Sees::All | Sees::Some => SETTLE_MILLIS,
            Sees::Nothing => SETTLE_BLINDLY_MILLIS,
        };
        quiet >= enough || waited >= MAX_RESTLESS_MILLIS
    }

    /// Remembers a file by its stamp, unless that is so young that another content may get the same.
    fn trust(&mut self, path: &str, stamp: Stamp) {
        if self.wall.abs_diff(stamp.changed_millis()) > YOUNG_MILLIS.unsigned_abs() {
            self.stamps.insert(path.to_owned(), stamp);
        } else {
            self.again = true;
        }
    }

    /// The text of a file, if it can be a document's. One that cannot is left alone.
    fn fit(&mut self, id: &DocumentId, content: &Content) -> Option<String> {
        let why = if !content.whole {
            format!("it is larger than {} bytes", limit::DOCUMENT_BYTES)
        } else {
            match std::str::from_utf8(&content.bytes) {
                Ok(text) => return Some(text.to_owned()),
                Err(_) => "it is not UTF-8 text".to_owned(),
            }
        };
        self.trouble(format!("{} is left alone: {why}", self.shown(id.path.as_str())));
        None
    }

    /// Tells our own words from somebody's. What stands in a version that came after the one that we know to have
    /// written is ours too: we were ended before we could note it.
    async fn whose(
        &self,
        engine: &Engine,
        id: &DocumentId,
        known: Option<&Document>,
        hash: &str,
    ) -> Result<FileAuthor, RenderError> {
        let state = self.state.documents.get(id.path.as_str());
        if let Some(state) = state.filter(|state| state.hash.as_deref() == Some(hash)) {
            return Ok(FileAuthor::Ours(state.version));
        }
        if let Some(document) = known.filter(|document| document.hash == hash) {
            return Ok(FileAuthor::Ours(document.version));
        }
        let after = state.map_or(0, |state| state.version);
        Ok(self.version_with(engine, id, after, hash).await?.map_or(FileAuthor::Edit, FileAuthor::Ours))
    }

    /// The first version after one that has this text.
    pub(super) async fn version_with(
        &self,
        engine: &Engine,
        id: &DocumentId,
        mut after: u64,
        hash: &str,
    ) -> Result<Option<u64>, RenderError> {
        loop {
            let query = RowQuery::all(Table::Versions)
                .with("document", ColumnTest::Is(id.text().as_str().into()))
                .with("version", ColumnTest::Above(i64::try_from(after).unwrap_or(i64::MAX)))
                .ordered_by("version")
                .at_most(Some(VERSIONS));
            let (rows, _) = engine.store().list(query).await?;
            let versions: Vec<Version> = rows
                .into_iter()
                .filter_map(|row| if let Row::Version(version) = row { Some(version) } else { None })
                .collect();
            if let Some(found) = versions.iter().find(|version| version.hash.as_deref() == Some(hash)) {
                return Ok(Some(found.version));
            }
            match versions.last() {
                Some(last) => after = last.version,
                None => return Ok(None),
            }
        }
    }

    /// Makes what a person saved a version; none if the rules refuse it.
    pub(super) async fn take_in(
        &mut self,
        engine: &Engine,
        id: &DocumentId,
        text: String,
    ) -> Result<Option<Document>, RenderError> {
        let command = WriteDocument { id: id.clone(), text, writer: Writer::External, base: Base::Unsaid };
        match engine.commit(Submission::internal(Caller::watcher(), command)).await {
            Ok(committed) => Ok(committed.typed().map(|committed| committed.reply)),
            Err(SubmitError::Refused(refusal)) => {
                self.trouble(format!("{} is left alone: {refusal}", self.shown(id.path.as_str())));
                Ok(None)
            }
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    /// Writes a newer version into a file that is as we left it.
    async fn refresh(
        &mut self,
        engine: &Engine,
        room: &Room,
        id: &DocumentId,
        document: &Document,
    ) -> Result<(), RenderError> {
        let state = self.state.documents.get(id.path.as_str()).cloned();
        let up_to_date = state.as_ref().is_some_and(|state| state.version == document.version);
        if up_to_date && !self.reread {
            return Ok(());
        }
        if up_to_date {
            // Words of it may have been redacted.
            let text = engine.documents().text(id).await?;
            let hash = text.map(|text| hash_of(&text.text));
            if hash.is_none() || hash == state.and_then(|state| state.hash) {
                return Ok(());
            }
        }
        self.write(engine, room, id).await
    }

    async fn write(&mut self, engine: &Engine, room: &Room, id: &DocumentId) -> Result<(), RenderError> {
        let Some(text) = engine.documents().text(id).await? else { return self.again_soon() };
        self.needs_room_for_swaps(engine, room).await?;
        let path = id.path.as_str();
        let mut draft = room.draft(&engine.mint(""))?;
        room.write(&mut draft, text.text.as_bytes())?;
        let swap = room.keep(draft, path)?;
        let before = self.state.documents.get(path).and_then(|state| state.hash.clone());
        if room.exchange(&swap)? {
            self.came_out(&swap, before);
        } else if !room.place(&swap)? {
            // Somebody put a file there in this moment; it is met in the next round.
            room.remove_swap(&swap)?;
            return self.again_soon();
        }
        self.stamps.remove(path);
        self.missing.remove(path);
        let state = RenderedDocument { version: text.version.version, hash: Some(hash_of(&text.text)) };
        self.state.documents.insert(path.to_owned(), state);
        self.again_soon()
    }

    /// Takes the file of a deleted document away.
    async fn withdraw(&mut self, engine: &Engine, room: &Room, id: &DocumentId) -> Result<(), RenderError> {
        let path = id.path.as_str();
        let deleted = engine.documents().get(id).await?.value;
        if deleted.as_ref().is_some_and(Document::is_here) {
            return self.again_soon();
        }
        let before = self.state.documents.get(path).and_then(|state| state.hash.clone());
        if let Some(swap) = room.take_away(&engine.mint(""), path)? {
            self.came_out(&swap, before);
        }
        self.stamps.remove(path);
        self.gone(path, deleted.as_ref());
        Ok(())
    }

    fn gone(&mut self, path: &str, deleted: Option<&Document>) {
        match deleted {
            Some(document) => {
                let state = RenderedDocument { version: document.version, hash: None };
                self.state.documents.insert(path.to_owned(), state);
            }
            None => drop(self.state.documents.remove(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_disk_does_not_tell_from_another_is_no_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let inside =
            rookery_core::model::context_settings::TeamContext::of(&rookery_core::Instance::new("x"), None, None)
                .folder;
        let room = Room::enter(folder.path(), &inside, Default::default()).unwrap();
        for name in ["Notes.md", "other.md"] {
            std::fs::write(room.path().join(name), "x").unwrap();
        }
        let Walk { found, whole } = room.walk().unwrap();
        let (notes, other) = (found["Notes.md"], found["other.md"]);
        let mut files = Files { found, whole, twins: BTreeMap::new() };
        files.add("notes.md", notes);
        files.add("deep.md", other);
        assert_eq!(files.twins, BTreeMap::from([("notes.md".to_owned(), "Notes.md".to_owned())]));
        assert_eq!(files.found.keys().collect::<Vec<_>>(), ["Notes.md", "deep.md", "other.md"]);
    }
}
