//! A disk that another program changes between any two disk changes of the renderer: folders and files become links to the
//! outside, pipes or folders, or are removed. Nothing outside of the project may be changed or read.

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const SECRET: &str = "a private text outside of the project";
const FOLDERS: [&str; 4] = [".workflow", ".workflow/pr-1", ".workflow/pr-1/.swap", ".workflow/pr-1/sub"];
const FILES: [&str; 5] = ["notes.md", "sub/deep.md", "channel.md", "mcp.json", "new.md"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trick {
    /// A folder is replaced by a link to the outside.
    LinkFolder(&'static str),
    /// A folder that was exchanged is back.
    Restore(&'static str),
    RemoveFolder(&'static str),
    /// A file becomes a link to a private file outside.
    LinkFile(&'static str),
    Pipe(&'static str),
    FolderForFile(&'static str),
    /// All files in `.swap` become links to a private file outside.
    LinkSwaps,
}

fn trick() -> impl Strategy<Value = Trick> {
    let (folder, file) = (prop::sample::select(FOLDERS.to_vec()), prop::sample::select(FILES.to_vec()));
    prop_oneof![
        4 => folder.clone().prop_map(Trick::LinkFolder),
        3 => folder.clone().prop_map(Trick::Restore),
        1 => folder.prop_map(Trick::RemoveFolder),
        3 => file.clone().prop_map(Trick::LinkFile),
        1 => file.clone().prop_map(Trick::Pipe),
        1 => file.prop_map(Trick::FolderForFile),
        1 => Just(Trick::LinkSwaps),
    ]
}

/// Whether a path leads through a link, so that a trick would play outside itself.
fn leads_through_link(root: &Path, path: &Path) -> bool {
    path.ancestors().skip(1).take_while(|folder| *folder != root).any(Path::is_symlink)
}

/// Plays a trick. It may fail, because its file need not exist.
fn play(trick: Trick, root: &Path, outside: &Path) -> io::Result<()> {
    let about = match trick {
        Trick::LinkFolder(folder) | Trick::Restore(folder) | Trick::RemoveFolder(folder) => root.join(folder),
        Trick::LinkFile(name) | Trick::Pipe(name) | Trick::FolderForFile(name) => {
            root.join(".workflow/pr-1").join(name)
        }
        Trick::LinkSwaps => root.join(".workflow/pr-1/.swap/any"),
    };
    if leads_through_link(root, &about) {
        return Ok(());
    }
    let file = |name: &str| root.join(".workflow/pr-1").join(name);
    let aside = |folder: &str| root.join(format!("aside-{}", folder.replace('/', "-")));
    match trick {
        Trick::LinkFolder(folder) => {
            fs::rename(root.join(folder), aside(folder))?;
            symlink(outside, root.join(folder))
        }
        Trick::Restore(folder) => {
            fs::remove_file(root.join(folder))?;
            fs::rename(aside(folder), root.join(folder))
        }
        Trick::RemoveFolder(folder) => fs::remove_dir_all(root.join(folder)),
        Trick::LinkFile(name) => {
            fs::remove_file(file(name)).ok();
            symlink(outside.join("private.md"), file(name))
        }
        Trick::Pipe(name) => {
            fs::remove_file(file(name)).ok();
            Ok(mknodat(CWD, file(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
        }
        Trick::FolderForFile(name) => {
            fs::remove_file(file(name)).ok();
            fs::create_dir(file(name))
        }
        Trick::LinkSwaps => {
            for entry in fs::read_dir(file(".swap"))? {
                let path = entry?.path();
                fs::remove_file(&path)?;
                symlink(outside.join("private.md"), &path)?;
            }
            Ok(())
        }
    }
}

/// Renders a series of changes while the tricks are played, each before the disk change with its number.
async fn story(site: &TestSite, outside: &Path, tricks: Vec<(usize, Trick)>) {
    site.writes("notes.md", "one").await;
    site.writes("sub/deep.md", "one").await;
    site.says("ada@pr-1", "hello").await;
    drop(site.start_settled().await);
    let (taken, root, outside) = (AtomicUsize::new(0), site.root.clone(), outside.to_owned());
    let steps = FaultPoints::with_hook(move |_| {
        let now = taken.fetch_add(1, Ordering::Relaxed);
        tricks.iter().filter(|(at, _)| *at == now).for_each(|(_, trick)| drop(play(*trick, &root, &outside)));
        Ok(())
    });
    let mut renderer = site.start_with(steps).await;
    for round in 0..6 {
        site.writes("notes.md", &format!("round {round}")).await;
        site.writes("sub/deep.md", &format!("deep {round}")).await;
        site.says("ada@pr-1", "more").await;
        match round {
            2 => site.deletes("sub/deep.md").await,
            3 => site.writes("new.md", "new").await,
            _ => {}
        }
        for _ in 0..3 {
            site.turn(&mut renderer).await;
        }
    }
}

/// Everything below a folder, with its kind and text.
fn listing(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        found.push((path, text));
    }
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn renderer_on_a_changing_disk_never_leaves_the_project(
        tricks in prop::collection::vec((0_usize..60, trick()), 1..12),
    ) {
        let outside = tempfile::tempdir().unwrap();
        for folder in ["pr-1", "sub", ".swap"] {
            fs::create_dir(outside.path().join(folder)).unwrap();
        }
        for file in ["private.md", "notes.md", "deep.md", "mcp.json", "pr-1/notes.md", "channel.md"] {
            fs::write(outside.path().join(file), SECRET).unwrap();
        }
        let before = listing(outside.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let site = TestSite::new();
            story(&site, outside.path(), tricks).await;
            for file in ["notes.md", "sub/deep.md", "new.md", "private.md", "deep.md"] {
                let versions = site.history(file).await;
                let leaked = versions.iter().any(|version| version.hash.as_deref() == Some(&hash_of(SECRET)));
                assert!(!leaked, "{file} was read from outside");
            }
        });
        prop_assert_eq!(listing(outside.path()), before);
    }
}
