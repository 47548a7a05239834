//! Documents as files, in both directions: versions of the log are written, edits of people become versions.
//!
//! A file is replaced only by exchanging it with a new one, and the replaced file is kept until its content is known to be
//! rendered text or a version, or was saved as one. So no content of a file is lost, whenever the daemon is killed.

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
use super::file_stamp::{FileId, FileStamp};
use super::instance::InstanceFiles;
use super::instance_dir::{DirListing, FileContent, InstanceDir, PathState, WALK_ENTRIES};
use super::state::RenderedDocument;
use super::writers::{ProcessVisibility, Writers};
use crate::engine::Engine;
use crate::error::EngineError;

/// How long a file must be unchanged before it is read.
const SETTLE_MILLIS: u64 = 150;
/// The same where no process is visible that might still write to it.
const BLIND_SETTLE_MILLIS: u64 = 1_000;
/// The longest wait for a file that is saved again and again.
const MAX_CHANGING_MILLIS: u64 = 3_000;
/// The longest wait for a file that a process keeps open.
const MAX_OPEN_MILLIS: u64 = 10_000;
/// How long a file must be missing before it is rewritten: editors remove a file for a moment while they save it.
const MISSING_MILLIS: u64 = 2_000;
/// A stamp younger than this may belong to two contents.
const MIN_STAMP_AGE_MILLIS: i64 = 100;
/// The number of versions that are searched at a time.
const VERSIONS_PER_PAGE: u32 = 20;

pub(super) const MAX_DOCUMENT_BYTES: u64 = limit::DOCUMENT_BYTES as u64;

/// A changed file: when the change was first seen, and since when it has its present stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsettledFile {
    stamp: FileStamp,
    first: u64,
    since: u64,
}

/// The files that may be documents.
#[derive(Debug)]
pub(super) struct DocumentFiles {
    pub(super) found: BTreeMap<String, FileStamp>,
    /// Whether these are all files.
    complete: bool,
    /// Documents without a separate file, because the disk does not distinguish their name from that of another, by path.
    twins: BTreeMap<String, String>,
}

impl DocumentFiles {
    /// Adds a file that exists under a name that the folder's listing does not have.
    fn add(&mut self, path: &str, stamp: FileStamp) {
        let is_twin = |(other, found): &(&String, &FileStamp)| {
            found.id() == stamp.id() && other.to_lowercase() == path.to_lowercase()
        };
        match self.found.iter().find(is_twin) {
            Some((twin, _)) => drop(self.twins.insert(path.to_owned(), twin.clone())),
            None => drop(self.found.insert(path.to_owned(), stamp)),
        }
    }
}

/// The author of a file's content.
enum FileAuthor {
    /// The renderer, which wrote this version.
    Renderer(u64),
    /// A person or program that edited the file.
    Edit,
}

impl InstanceFiles {
    /// Reconciles files and documents, each where the other has changed.
    pub(super) async fn render_documents(&mut self, engine: &Engine, dir: &InstanceDir) -> Result<(), RenderError> {
        let documents = engine.documents().list(&self.instance.run()).await?.value;
        let live: BTreeMap<String, Document> =
            documents.into_iter().map(|document| (document.id.path.to_string(), document)).collect();
        let DocumentFiles { found: files, complete, twins } = self.find_files(dir, live.keys())?;
        if !complete {
            self.add_warning(format!(
                "there are more than {WALK_ENTRIES} files in {}: new ones do not become documents until there are fewer",
                self.context.folder.as_str()
            ));
        }
        self.seen.retain(|path, _| files.contains_key(path));
        self.missing.retain(|path, _| !files.contains_key(path));
        let writers = self.writers(&files);
        let mut paths: Vec<&String> = live.keys().chain(files.keys()).chain(self.rendered_paths()).collect();
        paths.sort();
        paths.dedup();
        for path in paths.into_iter().cloned().collect::<Vec<_>>() {
            let Ok(name) = DocumentPath::parse(&path) else { continue };
            if let Some(twin) = twins.get(&path) {
                self.add_warning(format!(
                    "{path} and {twin} are one file on this disk: document {path} is not written"
                ));
                continue;
            }
            let id = DocumentId::new(self.instance.run(), name);
            let known = live.get(&path).cloned();
            let done = match files.get(&path) {
                Some(stamp) => self.handle_present(engine, dir, &id, known, *stamp, &writers).await,
                None => self.handle_missing(engine, dir, &id, known).await,
            };
            self.report_failure(&format!("document {path} is not brought up to date"), done)?;
        }
        self.settle_swaps(engine, dir).await
    }

    /// The files that may be documents: those found in the folder, and those of known documents at any depth.
    pub(super) fn find_files<'a>(
        &'a self,
        dir: &InstanceDir,
        known: impl Iterator<Item = &'a String>,
    ) -> Result<DocumentFiles, RenderError> {
        let DirListing { mut found, complete } = dir.walk()?;
        let is_document = |path: &String| DocumentPath::parse(path).is_ok_and(|path| !self.context.is_channel(&path));
        found.retain(|path, _| is_document(path));
        let mut files = DocumentFiles { found, complete, twins: BTreeMap::new() };
        for path in known.chain(self.rendered_paths()) {
            if !files.found.contains_key(path)
                && let Ok(PathState::File(stamp)) = dir.look(path)
            {
                files.add(path, stamp);
            }
        }
        Ok(files)
    }

    /// The paths of documents whose files were rendered.
    fn rendered_paths(&self) -> impl Iterator<Item = &String> {
        self.state.documents.iter().filter(|(_, state)| state.hash.is_some()).map(|(path, _)| path)
    }

    /// The writers of changed files.
    fn writers(&self, files: &BTreeMap<String, FileStamp>) -> Writers {
        let changed = files.iter().filter(|(path, stamp)| self.stamps.get(*path) != Some(*stamp));
        let changed: Vec<FileId> = changed.map(|(_, stamp)| stamp.id()).collect();
        Writers::look(&changed)
    }

    /// Handles a document or file whose file exists.
    async fn handle_present(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        id: &DocumentId,
        known: Option<Document>,
        stamp: FileStamp,
        writers: &Writers,
    ) -> Result<(), RenderError> {
        let path = id.path.as_str();
        let mut known = known;
        if self.stamps.get(path) != Some(&stamp) {
            if !self.has_settled(path, stamp, writers) {
                return self.recheck_soon();
            }
            let Some(content) = dir.read(path, MAX_DOCUMENT_BYTES)?.filter(|content| content.stamp == stamp) else {
                return self.recheck_soon();
            };
            let Some(text) = self.read_text(id, &content) else { return Ok(()) };
            let hash = hash_of(&text);
            let version = match self.find_author(engine, id, known.as_ref(), &hash).await? {
                FileAuthor::Renderer(version) => version,
                FileAuthor::Edit => match self.save_version(engine, id, text).await? {
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
            self.remember_stamp(path, stamp);
        }
        match known {
            Some(document) => self.refresh(engine, dir, id, &document).await,
            None => self.remove_file(engine, dir, id).await,
        }
    }

    /// Handles a document whose file is missing.
    async fn handle_missing(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        id: &DocumentId,
        known: Option<Document>,
    ) -> Result<(), RenderError> {
        let path = id.path.as_str();
        self.stamps.remove(path);
        match dir.look(path)? {
            PathState::Nothing => {}
            PathState::Other => {
                self.add_warning(format!(
                    "{} is a link or a folder: the document is not written there until it is removed",
                    self.display_path(path)
                ));
                return Ok(());
            }
            // It appeared just now, maybe under another name; the next round handles it.
            PathState::File(_) => return self.recheck_soon(),
        }
        if known.is_none() {
            let deleted = engine.documents().get(id).await?.value;
            self.record_deleted(path, deleted.as_ref());
            return Ok(());
        }
        let was_there = self.state.documents.get(path).is_some_and(|state| state.hash.is_some());
        let since = *self.missing.entry(path.to_owned()).or_insert(self.now);
        if was_there && self.now.saturating_sub(since) < MISSING_MILLIS {
            return self.recheck_soon();
        }
        self.write(engine, dir, id).await
    }

    /// Whether a changed file has been unchanged for long enough, or has kept changing for too long.
    fn has_settled(&mut self, path: &str, stamp: FileStamp, writers: &Writers) -> bool {
        let now = self.now;
        let seen = self.seen.entry(path.to_owned()).or_insert(UnsettledFile { stamp, first: now, since: now });
        if seen.stamp != stamp {
            *seen = UnsettledFile { stamp, first: seen.first, since: now };
        }
        let (quiet, waited) = (now.saturating_sub(seen.since), now.saturating_sub(seen.first));
        if writers.has_writer(stamp.id()) {
            return waited >= MAX_OPEN_MILLIS;
        }
        // Reading half of a save by an invisible process costs at worst one extra version.
        let enough = match writers.visibility() {
            ProcessVisibility::All | ProcessVisibility::Some => SETTLE_MILLIS,
            ProcessVisibility::Nothing => BLIND_SETTLE_MILLIS,
        };
        quiet >= enough || waited >= MAX_CHANGING_MILLIS
    }

    /// Remembers the stamp of a file, unless it is so young that other content could get the same one.
    fn remember_stamp(&mut self, path: &str, stamp: FileStamp) {
        if self.wall.abs_diff(stamp.changed_millis()) > MIN_STAMP_AGE_MILLIS.unsigned_abs() {
            self.stamps.insert(path.to_owned(), stamp);
        } else {
            self.recheck = true;
        }
    }

    /// The text of a file, if it can be a document. Other files are left alone.
    fn read_text(&mut self, id: &DocumentId, content: &FileContent) -> Option<String> {
        let why = if !content.complete {
            format!("it is larger than {} bytes", limit::DOCUMENT_BYTES)
        } else {
            match std::str::from_utf8(&content.bytes) {
                Ok(text) => return Some(text.to_owned()),
                Err(_) => "it is not UTF-8 text".to_owned(),
            }
        };
        self.add_warning(format!("{} is left alone: {why}", self.display_path(id.path.as_str())));
        None
    }

    /// Finds out whether the renderer wrote a file's content. Content of a version after the last recorded one was rendered
    /// too: the daemon was killed before the state was saved.
    async fn find_author(
        &self,
        engine: &Engine,
        id: &DocumentId,
        known: Option<&Document>,
        hash: &str,
    ) -> Result<FileAuthor, RenderError> {
        let state = self.state.documents.get(id.path.as_str());
        if let Some(state) = state.filter(|state| state.hash.as_deref() == Some(hash)) {
            return Ok(FileAuthor::Renderer(state.version));
        }
        if let Some(document) = known.filter(|document| document.hash == hash) {
            return Ok(FileAuthor::Renderer(document.version));
        }
        let after = state.map_or(0, |state| state.version);
        Ok(self.version_with(engine, id, after, hash).await?.map_or(FileAuthor::Edit, FileAuthor::Renderer))
    }

    /// The first version after `after` whose text has this hash.
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
                .at_most(Some(VERSIONS_PER_PAGE));
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

    /// Saves an edit as a version; `None` if the rules reject it.
    pub(super) async fn save_version(
        &mut self,
        engine: &Engine,
        id: &DocumentId,
        text: String,
    ) -> Result<Option<Document>, RenderError> {
        let command = WriteDocument { id: id.clone(), text, writer: Writer::External, base: Base::Unsaid };
        match engine.commit(Submission::internal(Caller::watcher(), command)).await {
            Ok(committed) => Ok(committed.typed().map(|committed| committed.reply)),
            Err(SubmitError::Refused(refusal)) => {
                self.add_warning(format!("{} is left alone: {refusal}", self.display_path(id.path.as_str())));
                Ok(None)
            }
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    /// Writes a newer version into an unchanged file.
    async fn refresh(
        &mut self,
        engine: &Engine,
        dir: &InstanceDir,
        id: &DocumentId,
        document: &Document,
    ) -> Result<(), RenderError> {
        let state = self.state.documents.get(id.path.as_str()).cloned();
        let up_to_date = state.as_ref().is_some_and(|state| state.version == document.version);
        if up_to_date && !self.reread {
            return Ok(());
        }
        if up_to_date {
            // A part of the text may have been redacted.
            let text = engine.documents().text(id).await?;
            let hash = text.map(|text| hash_of(&text.text));
            if hash.is_none() || hash == state.and_then(|state| state.hash) {
                return Ok(());
            }
        }
        self.write(engine, dir, id).await
    }

    async fn write(&mut self, engine: &Engine, dir: &InstanceDir, id: &DocumentId) -> Result<(), RenderError> {
        let Some(text) = engine.documents().text(id).await? else { return self.recheck_soon() };
        self.ensure_swap_capacity(engine, dir).await?;
        let path = id.path.as_str();
        let mut draft = dir.draft(&engine.mint(""))?;
        dir.write(&mut draft, text.text.as_bytes())?;
        let swap = dir.keep(draft, path)?;
        let before = self.state.documents.get(path).and_then(|state| state.hash.clone());
        if dir.exchange(&swap)? {
            self.track_replaced(&swap, before);
        } else if !dir.place(&swap)? {
            // A file appeared there just now; the next round handles it.
            dir.remove_swap(&swap)?;
            return self.recheck_soon();
        }
        self.stamps.remove(path);
        self.missing.remove(path);
        let state = RenderedDocument { version: text.version.version, hash: Some(hash_of(&text.text)) };
        self.state.documents.insert(path.to_owned(), state);
        self.recheck_soon()
    }

    /// Removes the file of a deleted document.
    async fn remove_file(&mut self, engine: &Engine, dir: &InstanceDir, id: &DocumentId) -> Result<(), RenderError> {
        let path = id.path.as_str();
        let deleted = engine.documents().get(id).await?.value;
        if deleted.as_ref().is_some_and(Document::is_here) {
            return self.recheck_soon();
        }
        let before = self.state.documents.get(path).and_then(|state| state.hash.clone());
        if let Some(swap) = dir.take_away(&engine.mint(""), path)? {
            self.track_replaced(&swap, before);
        }
        self.stamps.remove(path);
        self.record_deleted(path, deleted.as_ref());
        Ok(())
    }

    fn record_deleted(&mut self, path: &str, deleted: Option<&Document>) {
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
    fn names_that_differ_in_case_count_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let inside =
            rookery_core::model::context_settings::TeamContext::of(&rookery_core::Instance::new("x"), None, None)
                .folder;
        let dir = InstanceDir::enter(folder.path(), &inside, Default::default()).unwrap();
        for name in ["Notes.md", "other.md"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let DirListing { found, complete } = dir.walk().unwrap();
        let (notes, other) = (found["Notes.md"], found["other.md"]);
        let mut files = DocumentFiles { found, complete, twins: BTreeMap::new() };
        files.add("notes.md", notes);
        files.add("deep.md", other);
        assert_eq!(files.twins, BTreeMap::from([("notes.md".to_owned(), "Notes.md".to_owned())]));
        assert_eq!(files.found.keys().collect::<Vec<_>>(), ["Notes.md", "deep.md", "other.md"]);
    }
}
