//! Keeps the workspace in memory while rows are applied one after another, and writes the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::resolve::Resolver;
use super::sites::{Edit, Plan, plan};
use super::table::{Row, RowKind, TABLE};
use super::text::{self, TextFile};
use crate::process::Program;
use crate::source::{SourceFile, SourceTree, module_folder};

/// Endings of the files besides Rust that `text` and `test` rows can edit.
const TEXT_ENDINGS: [&str; 11] =
    [".md", ".toml", ".yaml", ".yml", ".json", ".sql", ".ts", ".tsx", ".py", ".snap", ".sh"];

/// The files with the rows that were accepted so far.
#[derive(Debug)]
pub(crate) struct Session {
    root: PathBuf,
    tree: SourceTree,
    texts: Vec<TextFile>,
    changed: BTreeSet<String>,
    /// Moves as old and new path, in order.
    moves: Vec<(String, String)>,
}

impl Session {
    pub(crate) fn new(root: &Path, tracked: Vec<String>) -> Result<Self> {
        let tree = SourceTree::read(root, &tracked)?;
        let is_text = |path: &&String| TEXT_ENDINGS.iter().any(|ending| path.ends_with(ending)) && *path != TABLE;
        let mut texts = Vec::new();
        for path in tracked.iter().filter(is_text) {
            let bytes = fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            // Test data may be in another encoding on purpose; such files are left alone.
            texts.extend(String::from_utf8(bytes).ok().map(|text| TextFile { path: path.clone(), text }));
        }
        Ok(Self { root: root.to_owned(), tree, texts, changed: BTreeSet::new(), moves: Vec::new() })
    }

    /// Reads everything again, because other programs changed it.
    pub(crate) fn reload(&mut self) -> Result<()> {
        *self = Self::new(&self.root, crate::source::tracked_files(&self.root)?)?;
        Ok(())
    }

    /// The edits of a row over the rows that were accepted before it.
    pub(crate) fn plan(&self, row: &Row) -> Result<Plan> {
        Ok(match row.kind {
            RowKind::Text => {
                let mut planned = text::plan_strings(&self.tree.files, row);
                let texts = self.texts.iter().filter(|file| text::in_scope(row, &file.path));
                planned.other_edits = texts.map(|file| text::count(file, row)).sum();
                planned.is_found |= planned.other_edits > 0;
                planned
            }
            RowKind::Test => text::plan_tests(&self.tree.files, row),
            RowKind::Module | RowKind::File => self.plan_move(row)?,
            _ => plan(&self.tree, &Resolver::new(&self.tree), row),
        })
    }

    /// A row that moves a file: paths are relative to the folder of the package.
    fn plan_move(&self, row: &Row) -> Result<Plan> {
        let (old, new) = (format!("{}{}", row.base(), row.old), format!("{}{}", row.base(), row.new));
        let mut planned = Plan { is_found: self.root.join(&old).exists(), ..Plan::default() };
        if self.root.join(&new).exists() {
            planned.clashes.push(format!("{new} exists"));
        }
        if row.kind == RowKind::Module {
            let parent = |path: &str| module_folder(path).rsplit_once('/').map(|(folder, _)| folder.to_owned());
            if parent(&old) != parent(&new) {
                bail!(
                    "{}: a module row keeps the parent folder; use a file row and edit the declarations",
                    row.title()
                );
            }
            planned.edits = self.module_edits(&old, &new);
        }
        Ok(planned)
    }

    /// The declaration of a module and the paths through it.
    fn module_edits(&self, old: &str, new: &str) -> BTreeSet<Edit> {
        let stem = |path: &str| module_folder(path).rsplit('/').next().unwrap_or_default().to_owned();
        let (old_name, new_name) = (stem(old), stem(new));
        let resolver = Resolver::new(&self.tree);
        let Some(target) = self.tree.files.iter().find(|file| module_folder(&file.path) == module_folder(old)) else {
            return BTreeSet::new();
        };
        super::modules::module_edits(&self.tree, &resolver, &super::resolve::module_of(target), &old_name, &new_name)
    }

    /// Takes the edits of a row over into memory.
    pub(crate) fn accept(&mut self, row: &Row, planned: Plan) {
        let mut by_file: BTreeMap<usize, Vec<Edit>> = BTreeMap::new();
        for edit in planned.edits {
            by_file.entry(edit.file).or_default().push(edit);
        }
        for (index, edits) in by_file {
            let file = &self.tree.files[index];
            let (path, is_test) = (file.path.clone(), file.is_test);
            let mut replaced = SourceFile::new(&path, edited(&file.text, &edits));
            replaced.is_test = is_test;
            self.tree.files[index] = replaced;
            self.changed.insert(path);
        }
        for file in &mut self.texts {
            let applies = match row.kind {
                RowKind::Text => text::in_scope(row, &file.path),
                RowKind::Test => file.path.ends_with(".md"),
                _ => false,
            };
            if applies && text::replace(file, row) > 0 {
                self.changed.insert(file.path.clone());
            }
        }
        if matches!(row.kind, RowKind::Module | RowKind::File) {
            self.moves.push((format!("{}{}", row.base(), row.old), format!("{}{}", row.base(), row.new)));
        }
    }

    /// Writes the changed files, then moves files with `git mv`.
    pub(crate) fn write(&mut self) -> Result<()> {
        let sources = self.tree.files.iter().map(|file| (&file.path, &file.text));
        let texts = self.texts.iter().map(|file| (&file.path, &file.text));
        for (path, text) in sources.chain(texts).filter(|(path, _)| self.changed.contains(*path)) {
            fs::write(self.root.join(path), text).with_context(|| format!("cannot write {path}"))?;
        }
        self.changed.clear();
        for (old, new) in self.moves.drain(..) {
            if let Some(folder) = self.root.join(&new).parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot create the folder of {new}"))?;
            }
            Program::new("git").args(["mv", &old, &new]).dir(&self.root).run()?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let texts = files.iter().filter(|(path, _)| !path.ends_with(".rs"));
        Self {
            root: PathBuf::new(),
            tree: SourceTree::of(&files.iter().copied().filter(|(path, _)| path.ends_with(".rs")).collect::<Vec<_>>()),
            texts: texts.map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() }).collect(),
            changed: BTreeSet::new(),
            moves: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn text(&self, path: &str) -> &str {
        let source = self.tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
        source.or_else(|| self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())).unwrap()
    }
}

/// The text with edits that are sorted and do not overlap.
fn edited(text: &str, edits: &[Edit]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        result.push_str(&text[at..edit.start]);
        result.push_str(&edit.text);
        at = edit.end;
    }
    result + &text[at..]
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    const AGENT: &str = "crates/core/src/agent/mod.rs";
    const RUN: &str = "crates/core/src/run.rs";
    const STORE: &str = "crates/store/src/lib.rs";

    /// Applies rows of the form `crate kind old new scope flags` and returns the session and the last plan's problems.
    fn apply(files: &[(&str, &str)], rows: &[&str]) -> (Session, Vec<String>) {
        let mut session = Session::of(files);
        let mut problems = Vec::new();
        for text in rows {
            let row = table::parse_row(&format!("g\t{}", text.replace(' ', "\t")));
            let planned = session.plan(&row).unwrap();
            problems.extend(planned.clashes.iter().cloned());
            problems.extend(planned.undecided.iter().map(|place| format!("undecided {place}")));
            if !planned.is_found {
                problems.push("not found".to_owned());
            }
            session.accept(&row, planned);
        }
        (session, problems)
    }

    fn check(files: &[(&str, &str)], rows: &[&str], expected: &[(&str, &str)]) {
        let (session, problems) = apply(files, rows);
        assert_eq!(problems, Vec::<String>::new());
        for (path, text) in expected {
            assert_eq!(session.text(path), *text, "{path}");
        }
    }

    #[test]
    fn types_of_one_name_get_different_names() {
        check(
            &[
                ("crates/core/src/lib.rs", "pub mod agent; pub mod run; pub use run::Status;"),
                (
                    AGENT,
                    "/// See [`Status`], not Status.\npub enum Status { Idle } fn a() -> Status { Status::Idle } // Status",
                ),
                (RUN, "use crate::agent; pub enum Status { Status(agent::Status), B } const S: &str = \"Status\";"),
                (STORE, "use rookery_core::{Status, agent::Status as S}; fn f(s: Status) { agent::Status }"),
            ],
            &["core type Status AgentStatus src/agent/mod.rs", "core type Status RunStatus src/run.rs"],
            &[
                ("crates/core/src/lib.rs", "pub mod agent; pub mod run; pub use run::RunStatus;"),
                (
                    AGENT,
                    "/// See [`AgentStatus`], not Status.\npub enum AgentStatus { Idle } fn a() -> AgentStatus { AgentStatus::Idle } // Status",
                ),
                (
                    RUN,
                    "use crate::agent; pub enum RunStatus { Status(agent::AgentStatus), B } const S: &str = \"Status\";",
                ),
                (STORE, "use rookery_core::{RunStatus, agent::AgentStatus as S}; fn f(s: RunStatus) { agent::Status }"),
            ],
        );
    }

    #[test]
    fn existing_target_is_a_clash_unless_the_row_merges() {
        let files = [
            ("crates/core/src/lib.rs", "mod agent; mod run;"),
            (AGENT, "pub struct Old; pub struct New;"),
            (RUN, "use crate::agent::Old; struct Other;"),
        ];
        let (_, problems) = apply(&files, &["core type Old New src/**"]);
        assert_eq!(problems, ["`New` exists: crates/core/src/agent/mod.rs:1"]);
        let (_, problems) = apply(&files, &["core type Old Other src/**"]);
        assert!(
            problems.iter().any(|problem| problem.contains("bound to something else in crates/core/src/run.rs")),
            "{problems:?}"
        );
        let (_, problems) = apply(&files, &["core type Old New src/** merge"]);
        assert_eq!(problems, Vec::<String>::new());
        let (_, problems) = apply(&files, &["core type Missing New src/**"]);
        assert_eq!(problems, ["not found"]);
    }

    #[test]
    fn variants_are_found_by_their_enum() {
        check(
            &[
                (
                    AGENT,
                    "pub enum Clock { Rest, Anew } impl Clock { fn a(self) { Self::Rest; Clock::Anew; } } enum Other { Rest }",
                ),
                (
                    RUN,
                    "use crate::agent::{Clock, Other}; fn f() { Clock::Rest; Other::Rest; crate::agent::Clock::Rest; }",
                ),
                ("crates/core/src/lib.rs", "mod agent; mod run;"),
            ],
            &["core variant Clock::Rest RetryBackoff"],
            &[
                (
                    AGENT,
                    "pub enum Clock { RetryBackoff, Anew } impl Clock { fn a(self) { Self::RetryBackoff; Clock::Anew; } } enum Other { Rest }",
                ),
                (
                    RUN,
                    "use crate::agent::{Clock, Other}; fn f() { Clock::RetryBackoff; Other::Rest; crate::agent::Clock::RetryBackoff; }",
                ),
            ],
        );
    }

    #[test]
    fn variant_with_the_name_of_a_type_stays() {
        let text =
            "struct Test; enum Kind { Test } impl FromStr for Kind { fn from_str() { Self::Test; Kind::Test; Test } }";
        check(
            &[(AGENT, text)],
            &["core type Test ColumnTest"],
            &[(
                AGENT,
                "struct ColumnTest; enum Kind { Test } impl FromStr for Kind { fn from_str() { Self::Test; Kind::Test; ColumnTest } }",
            )],
        );
    }

    #[test]
    fn fields_are_edited_where_they_are_certain() {
        let files = [
            (
                AGENT,
                "pub struct Agent { pub given: u8 } impl Agent { fn new(given: u8) -> Self { Self { given } } fn g(&self) { self.given; } }",
            ),
            (
                RUN,
                "use crate::agent::Agent; fn f(a: Agent) { let Agent { given, .. } = a; Agent { given: 1 }; a.given; a.given(); given; }",
            ),
            ("crates/core/src/lib.rs", "mod agent; mod run;"),
        ];
        let expected = "use crate::agent::Agent; fn f(a: Agent) { let Agent { last: given, .. } = a; Agent { last: 1 }; a.last; a.given(); given; }";
        check(
            &files,
            &["core field Agent::given last"],
            &[
                (
                    AGENT,
                    "pub struct Agent { pub last: u8 } impl Agent { fn new(given: u8) -> Self { Self { last: given } } fn g(&self) { self.last; } }",
                ),
                (RUN, expected),
            ],
        );
        let with_rival = [files[0], files[1], files[2], (STORE, "struct Other { given: u8 }")];
        let (session, problems) = apply(&with_rival, &["core field Agent::given last"]);
        assert_eq!(problems, ["undecided crates/core/src/run.rs:1"]);
        assert_eq!(session.text(RUN), expected.replace("a.last", "a.given"));
        let listed = "core field Agent::given last src/** sites=crates/core/src/run.rs";
        check(&with_rival, &[listed], &[(RUN, expected)]);
    }

    #[test]
    fn functions_differ_from_variables_and_methods() {
        let files = [
            (AGENT, "pub fn freed() {} impl A { fn freed(&self) {} } fn x() { freed(); self.freed(); map(freed); }"),
            (RUN, "use crate::agent::{self, freed}; fn f() { let freed = freed(); agent::freed(); go(freed); }"),
            ("crates/core/src/lib.rs", "mod agent; mod run;"),
        ];
        let (session, problems) = apply(&files, &["core fn freed free_files"]);
        assert_eq!(problems, ["undecided crates/core/src/run.rs:1"]);
        assert_eq!(
            session.text(AGENT),
            "pub fn free_files() {} impl A { fn freed(&self) {} } fn x() { free_files(); self.freed(); map(free_files); }"
        );
        assert_eq!(
            session.text(RUN),
            "use crate::agent::{self, free_files}; fn f() { let freed = free_files(); agent::free_files(); go(freed); }"
        );
    }

    #[test]
    fn methods_of_a_trait_change_in_its_implementations() {
        check(
            &[
                (
                    AGENT,
                    "pub trait Store { fn attend(&self); } struct A; impl Store for A { fn attend(&self) { self.attend() } }",
                ),
                (RUN, "fn f(s: &dyn Store) { s.attend(); }"),
                (STORE, "use rookery_core::agent::Store; struct B; impl Store for B { fn attend(&self) {} }"),
                ("crates/core/src/lib.rs", "pub mod agent;"),
            ],
            &["core fn Store::attend renew_lease"],
            &[
                (
                    AGENT,
                    "pub trait Store { fn renew_lease(&self); } struct A; impl Store for A { fn renew_lease(&self) { self.renew_lease() } }",
                ),
                (RUN, "fn f(s: &dyn Store) { s.renew_lease(); }"),
                (STORE, "use rookery_core::agent::Store; struct B; impl Store for B { fn renew_lease(&self) {} }"),
            ],
        );
    }

    #[test]
    fn text_rows_edit_strings_and_other_files_of_their_scope() {
        check(
            &[
                (AGENT, "const A: &str = \"task.moved\"; // task.moved"),
                ("crates/core/tests/a.json", "{\"kind\": \"task.moved\"}"),
                ("docs/a.md", "task.moved"),
            ],
            &["core text task.moved task.step_set src/**,tests/*.json"],
            &[
                (AGENT, "const A: &str = \"task.step_set\"; // task.moved"),
                ("crates/core/tests/a.json", "{\"kind\": \"task.step_set\"}"),
                ("docs/a.md", "task.moved"),
            ],
        );
    }

    #[test]
    fn test_rows_also_change_the_pages_that_name_the_test() {
        let files = [(AGENT, "#[test] fn a_b() {} fn c() { a_b }"), ("docs/a.md", "| `a_b` | a_b_c |")];
        check(
            &files,
            &["core test a_b subject_condition_result"],
            &[
                (AGENT, "#[test] fn subject_condition_result() {} fn c() { a_b }"),
                ("docs/a.md", "| `subject_condition_result` | a_b_c |"),
            ],
        );
        let (_, problems) = apply(&[(AGENT, "#[test] fn a() {} #[test] fn b() {}")], &["core test a b"]);
        assert_eq!(problems, ["a test `b` exists in crates/core/src/agent/mod.rs"]);
    }

    #[test]
    fn module_edits_follow_paths_and_links() {
        let session = Session::of(&[
            ("crates/core/src/lib.rs", "pub mod agent; pub mod kin;"),
            (AGENT, "use crate::kin::{self, A}; /// [`crate::kin::A`]\nfn f(kin: u8) { kin::A; kin }"),
            ("crates/core/src/kin.rs", "pub struct A;"),
        ]);
        let edits = session.module_edits("crates/core/src/kin.rs", "crates/core/src/process_tree.rs");
        let of_agent: Vec<Edit> = edits.iter().filter(|edit| edit.file == 1).cloned().collect();
        assert_eq!(
            edited(session.text(AGENT), &of_agent),
            "use crate::process_tree::{self, A}; /// [`crate::process_tree::A`]\nfn f(kin: u8) { process_tree::A; kin }"
        );
        assert_eq!(edits.len(), 4);
    }
}
