//! Counts over the committed expectations: how many acts there are, and on how many of them the surfaces disagree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::acts;
use crate::drivers::Surface;

/// The counts of today. An act that becomes equal on all surfaces lowers the disagreements, which never rise; a new act,
/// or one that a surface gains, raises the performed pairs, which never fall.
const TODAY: Counts = Counts { acts: 267, performed: 626, lacking: 442, disagreements: 0, disagreements_by_design: 33 };

#[derive(PartialEq, Eq, Debug)]
struct Counts {
    acts: usize,
    /// Pairs of an act and a surface that performs it.
    performed: usize,
    /// Pairs of an act and a surface that has no such act.
    lacking: usize,
    /// Acts whose surfaces disagree and should not.
    disagreements: usize,
    /// Acts whose surfaces disagree for a reason that the table names.
    disagreements_by_design: usize,
}

/// The expectations about one act.
#[derive(Debug)]
struct Entry {
    name: String,
    performed: Vec<String>,
    lacking: Vec<String>,
    outcomes: usize,
    is_by_design: bool,
}

#[test]
fn expectation_files_cover_every_act_and_surface() {
    let mut all: Vec<&str> = Surface::ALL.iter().map(|surface| surface.name()).collect();
    all.sort_unstable();
    for family in acts::all() {
        let entries = read(&file(family.name));
        let expected: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let table: Vec<&str> = family.acts.iter().map(|act| act.name).collect();
        assert_eq!(expected, table, "{}", family.name);
        let unique: BTreeSet<&str> = table.iter().copied().collect();
        assert_eq!(unique.len(), table.len(), "{}: two acts have one name", family.name);
        for entry in entries {
            let mut surfaces = [entry.performed, entry.lacking].concat();
            surfaces.sort();
            assert_eq!(surfaces, all, "{}: {}", family.name, entry.name);
        }
    }
}

#[test]
fn expectation_files_belong_to_a_family() {
    let known: BTreeSet<PathBuf> = acts::all().iter().map(|family| file(family.name)).collect();
    let found = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_stray = |path: &PathBuf| path.extension().is_some_and(|end| end == "snap") && !known.contains(path);
    assert_eq!(found.filter(is_stray).collect::<Vec<PathBuf>>(), Vec::<PathBuf>::new());
}

#[test]
fn surface_disagreements_never_increase() {
    let entries: Vec<Entry> = acts::all().iter().flat_map(|family| read(&file(family.name))).collect();
    let (by_design, disagreeing): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().filter(|entry| entry.outcomes > 1).partition(|entry| entry.is_by_design);
    let counts = Counts {
        acts: entries.len(),
        performed: entries.iter().map(|entry| entry.performed.len()).sum(),
        lacking: entries.iter().map(|entry| entry.lacking.len()).sum(),
        disagreements: disagreeing.len(),
        disagreements_by_design: by_design.len(),
    };
    let names: Vec<&str> = disagreeing.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(counts, TODAY, "the surfaces disagree on {}", names.join(", "));
}

#[test]
fn acts_that_differ_by_design_disagree() {
    let entries = acts::all().into_iter().flat_map(|family| read(&file(family.name)));
    let agreeing: Vec<String> =
        entries.filter(|entry| entry.is_by_design && entry.outcomes < 2).map(|entry| entry.name).collect();
    assert_eq!(agreeing, Vec::<String>::new(), "their surfaces agree: remove the reason from the table");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/expected")
}

fn file(family: &str) -> PathBuf {
    folder().join(format!("{family}.snap"))
}

/// Reads the entries of a file that [`crate::report`] wrote.
fn read(file: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut entries: Vec<Entry> = vec![];
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            let (performed, lacking) = (vec![], vec![]);
            entries.push(Entry { name: name.to_owned(), performed, lacking, outcomes: 0, is_by_design: false });
        }
        let Some(entry) = entries.last_mut() else { continue };
        if line.starts_with(' ') {
            continue;
        }
        if let Some((surfaces, _)) = line.split_once(" -> ") {
            entry.performed.extend(surfaces.split(", ").map(str::to_owned));
            entry.outcomes += 1;
        } else if let Some((surface, _)) = line.split_once(" lacks: ") {
            entry.lacking.push(surface.to_owned());
        }
        entry.is_by_design |= line.starts_with("by design: ");
    }
    entries
}
