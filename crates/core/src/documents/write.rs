//! Writing a document: as a whole, by appending, or anew.

use serde::{Deserialize, Serialize};

use super::{author, writer_agent};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::instance::Instance;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::context_settings::keys as context_keys;
use crate::model::document::{Change, Document, DocumentId, DocumentStatus, Version, hash_of, text_of};
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Puts a text in the place of the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
    pub base: Base,
}

/// Adds to the end; a document that is not there begins with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
}

/// Makes a document that must not be there yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateDocument {
    pub id: DocumentId,
    pub text: String,
    pub writer: Writer,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Writer {
    Named(AgentId),
    /// Somebody edited the file.
    External,
}

/// The version that the writer has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// It does not say: its text replaces whatever is there, which stays readable as a version.
    Unsaid,
    /// None newer than this may be there; 0 if there was none.
    Version(u64),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DocumentWritten {
    #[serde(flatten)]
    pub id: DocumentId,
    pub version: u64,
    /// The version with the whole text that this one belongs to: itself, unless it is a piece.
    pub base: u64,
    pub change: Change,
    pub author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    pub hash: String,
    /// How long the whole text is.
    pub bytes: u64,
    pub text: String,
}

impl Event for DocumentWritten {
    const KIND: &'static str = "document.written";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.id.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        self.id.keys_at(self.version)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let document = Document {
            id: self.id.clone(),
            version: self.version,
            base: self.base,
            status: DocumentStatus::Here,
            bytes: self.bytes,
            hash: self.hash.clone(),
            author: self.author.clone(),
            changed_at: stamp.at,
        };
        rows.put(self.id.clone(), document);
        let version = Version {
            id: self.id.clone(),
            version: self.version,
            base: self.base,
            change: self.change,
            author: self.author.clone(),
            at: stamp.at,
            seq: stamp.seq,
            before: self.before.clone(),
            hash: Some(self.hash.clone()),
            text: self.text.clone(),
        };
        rows.put(self.id.version_id(self.version), version);
    }
}

impl Command for WriteDocument {
    const NAME: &'static str = "WriteDocument";

    type Reply = Document;

    fn read_set(&self) -> ReadSet {
        read_set(&self.id, &self.writer)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Document>, Undecided> {
        let (author, known) = admitted(cx.view, cx.caller, &self.id, &self.writer, &self.text)?;
        let version = known.map_or(0, |known| known.version);
        if let Base::Version(base) = self.base
            && base != version
        {
            return Err(stale(&self.id, base, version).into());
        }
        let change = if known.is_some_and(Document::is_here) { Change::Written } else { Change::Created };
        Ok(whole(&self.id, known, change, author, self.text.clone()))
    }

    fn queued_bytes(&self) -> usize {
        self.text.len()
    }
}

impl Command for CreateDocument {
    const NAME: &'static str = "CreateDocument";

    type Reply = Document;

    fn read_set(&self) -> ReadSet {
        read_set(&self.id, &self.writer)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Document>, Undecided> {
        let (author, known) = admitted(cx.view, cx.caller, &self.id, &self.writer, &self.text)?;
        if known.is_some_and(Document::is_here) {
            return Err(Rejection::new(Code::AlreadyExists, format!("document '{}' exists", self.id.path))
                .hint("write or append to it, or choose another name")
                .into());
        }
        Ok(whole(&self.id, known, Change::Created, author, self.text.clone()))
    }

    fn queued_bytes(&self) -> usize {
        self.text.len()
    }
}

impl Command for AppendDocument {
    const NAME: &'static str = "AppendDocument";

    type Reply = Document;

    fn read_set(&self) -> ReadSet {
        read_set(&self.id, &self.writer)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Document>, Undecided> {
        let (author, found) = admitted(cx.view, cx.caller, &self.id, &self.writer, &self.text)?;
        let Some(known) = found.filter(|known| known.is_here()) else {
            return Ok(whole(&self.id, found, Change::Created, author, self.text.clone()));
        };
        if self.text.is_empty() {
            return Ok(Decision::unchanged(ReplySource::row(self.id.clone())));
        }
        let text = text_of(cx.view.pieces(&self.id, known.base)?) + &self.text;
        limit::text("the document with it", &text, limit::DOCUMENT_BYTES)?;
        let version = known.version.saturating_add(1);
        if version.saturating_sub(known.base) >= limit::DOCUMENT_PIECES {
            return Ok(whole(&self.id, Some(known), Change::Appended, author, text));
        }
        let fact = DocumentWritten {
            id: self.id.clone(),
            version,
            base: known.base,
            change: Change::Appended,
            author,
            before: Some(known.hash.clone()),
            hash: hash_of(&text),
            bytes: text.len() as u64,
            text: self.text.clone(),
        };
        Ok(decision(fact))
    }

    fn queued_bytes(&self) -> usize {
        self.text.len()
    }
}

/// Who writes, and the document as it is known, if this may be written at all.
fn admitted<'a>(
    view: &'a View,
    caller: &Caller,
    id: &DocumentId,
    writer: &Writer,
    text: &str,
) -> Result<(String, Option<&'a Document>), Undecided> {
    check(id, text)?;
    let author = author(view, caller, writer)?;
    view.needs_room_for(id)?;
    Ok((author, view.document(id)?))
}

fn read_set(id: &DocumentId, writer: &Writer) -> ReadSet {
    let agent = writer_agent(writer).map(|agent| Key::Agent(agent.clone()));
    let context = context_keys(&Instance::of_run(&id.run));
    [Key::Document(id.clone()), Key::lead()].into_iter().chain(context).chain(agent).map(ReadItem::from).collect()
}

fn check(id: &DocumentId, text: &str) -> Result<(), Rejection> {
    limit::name("run", id.run.as_str(), limit::NAME_BYTES)?;
    limit::text("content", text, limit::DOCUMENT_BYTES)
}

/// A new document that nobody has written anything in.
pub(crate) fn begun(id: DocumentId) -> AnyEvent {
    AnyEvent::new(whole_text(&id, None, Change::Created, Actor::System.to_string(), String::new()))
}

fn whole(
    id: &DocumentId,
    known: Option<&Document>,
    change: Change,
    author: String,
    text: String,
) -> Decision<Document> {
    decision(whole_text(id, known, change, author, text))
}

/// A version that holds a whole text.
fn whole_text(
    id: &DocumentId,
    known: Option<&Document>,
    change: Change,
    author: String,
    text: String,
) -> DocumentWritten {
    let version = known.map_or(0, |known| known.version).saturating_add(1);
    DocumentWritten {
        id: id.clone(),
        version,
        base: version,
        change,
        author,
        before: known.filter(|known| known.is_here()).map(|known| known.hash.clone()),
        hash: hash_of(&text),
        bytes: text.len() as u64,
        text,
    }
}

fn decision(fact: DocumentWritten) -> Decision<Document> {
    let reply = ReplySource::row(fact.id.clone());
    Decision::new(vec![AnyEvent::new(fact)], reply)
}

pub(super) fn stale(id: &DocumentId, base: u64, version: u64) -> Rejection {
    Rejection::new(
        Code::StaleVersion,
        format!("document '{}' is at version {version}, and you have seen version {base}", id.path),
    )
    .hint("read it again, put your change into the newer text, and write that with its version")
}

impl View {
    fn pieces(&self, id: &DocumentId, base: u64) -> Result<Vec<&Version>, Undecided> {
        use crate::model::Row;
        let rows = self.all(&Lookup::document_pieces(id, base))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Version(piece) = row { Some(piece) } else { None }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::DeleteDocument;
    use crate::redaction::{REDACTED, Redact, Target};
    use crate::registry::EventRef;
    use crate::testing::{World, anna, by, document};

    pub(crate) fn named(agent: &str) -> Writer {
        Writer::Named(agent.into())
    }

    fn write(path: &str, agent: &str, text: &str) -> WriteDocument {
        WriteDocument { id: document(path), text: text.to_owned(), writer: named(agent), base: Base::Unsaid }
    }

    fn append(path: &str, agent: &str, text: &str) -> AppendDocument {
        AppendDocument { id: document(path), text: text.to_owned(), writer: named(agent) }
    }

    fn create(path: &str, agent: &str, text: &str) -> CreateDocument {
        CreateDocument { id: document(path), text: text.to_owned(), writer: named(agent) }
    }

    fn delete(path: &str, agent: &str) -> DeleteDocument {
        DeleteDocument { id: document(path), writer: named(agent), base: Base::Unsaid }
    }

    #[test]
    fn every_version_is_kept_with_author_and_the_text_before() {
        let mut w = World::of(&["a", "b"]);
        let id = document("notes.md");
        w.does(&by("a"), write("notes.md", "a", "one\n"));
        w.does(&by("b"), append("notes.md", "b", "two\n"));
        w.does(&by("a"), append("notes.md", "a", "three\n"));
        w.does(&by("b"), write("notes.md", "b", "four\n"));
        w.does(&by("b"), append("notes.md", "b", "five\n"));
        let texts: Vec<String> = (1..=5).map(|version| w.text(&id, version)).collect();
        assert_eq!(texts, ["one\n", "one\ntwo\n", "one\ntwo\nthree\n", "four\n", "four\nfive\n"]);
        let known = w.document(&id);
        assert_eq!((known.version, known.base, known.author.as_str()), (5, 4, "b"));
        assert_eq!((known.hash.clone(), known.bytes), (hash_of("four\nfive\n"), 10));
        for (row, before) in w.log.iter().filter_map(|row| match row.event.typed() {
            EventRef::DocumentWritten(fact) => {
                Some((fact, (fact.version > 1).then(|| hash_of(&texts[fact.version as usize - 2]))))
            }
            _ => None,
        }) {
            assert_eq!(row.before, before, "version {}", row.version);
        }
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn one_that_has_not_seen_the_newest_version_is_refused() {
        let mut w = World::of(&["a", "b"]);
        let seen = |version| WriteDocument { base: Base::Version(version), ..write("notes.md", "a", "mine") };
        assert_eq!(w.refuses(&by("a"), seen(1)), Code::StaleVersion);
        w.does(&by("a"), seen(0));
        assert_eq!(w.refuses(&by("a"), seen(0)), Code::StaleVersion);
        w.does(&by("b"), append("notes.md", "b", " and theirs"));
        let refusal = w.run(&by("a"), seen(1)).unwrap_err();
        assert!(refusal.code == Code::StaleVersion && refusal.message.contains("version 2"), "{}", refusal.message);
        w.does(&by("a"), seen(2));
        let late = DeleteDocument { base: Base::Version(2), ..delete("notes.md", "b") };
        assert_eq!(w.refuses(&by("b"), late), Code::StaleVersion);
    }

    #[test]
    fn creating_needs_a_free_name_and_appending_makes_one() {
        let mut w = World::of(&["a"]);
        let a = by("a");
        w.does(&a, create("findings/leak.md", "a", "# Leak"));
        assert_eq!(w.refuses(&a, create("findings/leak.md", "a", "again")), Code::AlreadyExists);
        w.does(&a, append("todo.txt", "a", "- all of it"));
        assert_eq!(w.text(&document("todo.txt"), 1), "- all of it");
        assert_eq!(w.does(&a, append("todo.txt", "a", "")), [""; 0]);
    }

    #[test]
    fn a_deleted_document_keeps_its_history_and_can_be_made_anew() {
        let mut w = World::of(&["a"]);
        let (a, id) = (by("a"), document("notes.md"));
        assert_eq!(w.refuses(&a, delete("notes.md", "a")), Code::DocumentNotFound);
        w.does(&a, write("notes.md", "a", "one"));
        w.does(&a, delete("notes.md", "a"));
        assert!(!w.document(&id).is_here());
        assert_eq!(w.refuses(&a, delete("notes.md", "a")), Code::DocumentNotFound);
        w.does(&a, append("notes.md", "a", "two"));
        assert_eq!((w.document(&id).version, w.text(&id, 3), w.text(&id, 1)), (3, "two".to_owned(), "one".to_owned()));
        w.does(&a, delete("notes.md", "a"));
        w.does(&a, create("notes.md", "a", "three"));
        assert_eq!(w.text(&id, 5), "three");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn many_pieces_become_one_text() {
        let mut w = World::of(&["a"]);
        let id = document("log.md");
        for at in 0..200 {
            w.does(&by("a"), append("log.md", "a", &format!("{at}\n")));
        }
        let known = w.document(&id);
        assert!(known.version == 200 && known.version - known.base < limit::DOCUMENT_PIECES, "{known:?}");
        let wanted: String = (0..200).map(|at| format!("{at}\n")).collect();
        assert_eq!((w.text(&id, 200), known.hash.clone()), (wanted.clone(), hash_of(&wanted)));
    }

    #[test]
    fn texts_and_names_are_limited() {
        let mut w = World::of(&["a"]);
        let long = "x".repeat(limit::DOCUMENT_BYTES);
        assert_eq!(w.refuses(&by("a"), write("notes.md", "a", &format!("{long}x"))), Code::TooLarge);
        w.does(&by("a"), write("notes.md", "a", &long));
        assert_eq!(w.refuses(&by("a"), append("notes.md", "a", "x")), Code::TooLarge);
        let mut spaced = write("notes.md", "a", "x");
        spaced.id.run = "run x".into();
        assert_eq!(w.refuses(&by("a"), spaced), Code::Invalid);
    }

    #[test]
    fn authors_are_who_they_are_and_edits_of_files_are_told_by_the_daemon() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), write("notes.md", "a", "x")), Code::Forbidden);
        assert_eq!(w.refuses(&by("b"), write("notes.md", "external", "x")), Code::Forbidden);
        let outside = || WriteDocument { writer: Writer::External, ..write("notes.md", "a", "by hand") };
        for caller in [by("lead"), anna(), Caller::anonymous()] {
            assert_eq!(w.refuses(&caller, outside()), Code::Forbidden, "{:?}", caller.actor);
        }
        w.does(&Caller::system(), outside());
        assert_eq!(w.document(&document("notes.md")).author, "external");
        w.does(&Caller { actor: Actor::Watcher, ..Caller::system() }, outside());
        w.does(&anna(), write("notes.md", "person:anna", "x"));
    }

    #[test]
    fn a_redaction_clears_exactly_the_words_of_its_fact() {
        let mut w = World::of(&["a"]);
        let id = document("notes.md");
        for text in ["open ", "secret ", "end"] {
            w.does(&by("a"), append("notes.md", "a", text));
        }
        let row = w.log.iter().find(|row| String::from_utf8_lossy(&row.event.encode()).contains("secret")).unwrap();
        let target = Target { seq: row.seq, fact: row.event.clone(), artifact: None };
        w.does(&anna(), Redact { rows: vec![target] });
        assert_eq!(w.text(&id, 3), format!("open {REDACTED}end"));
        assert_eq!(w.rebuilt(), *w.rows());
        w.does(&by("a"), append("notes.md", "a", " of it"));
        assert_eq!((w.text(&id, 4), w.rebuilt()), (format!("open {REDACTED}end of it"), w.rows().clone()));
    }
}
