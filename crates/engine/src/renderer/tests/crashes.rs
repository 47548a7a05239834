//! Crashes before every disk change, with a person who acts before any of them.

use super::*;

/// The action of a person right before a disk change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Person {
    Rests,
    SavesInPlace,
    SavesByRenaming,
    Deletes,
}

const PERSONS: [Person; 4] = [Person::Rests, Person::SavesInPlace, Person::SavesByRenaming, Person::Deletes];

/// The abilities of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disk {
    Usual,
    /// No two files can change places in one step.
    Poor,
}

/// Renders every kind of change, crashes before disk change `at`, and lets a person act before another one. Returns whether
/// the crash happened.
async fn run_until_crash(disk: Disk, at: usize, person: Person, acts_at: usize) -> bool {
    let site = TestSite::new();
    // Too long for a name in `.swap`.
    let (gone, new) = (format!("sub/{}.md", "gone".repeat(60)), format!("{}.md", "new".repeat(80)));
    site.writes("notes.md", "one").await;
    site.writes(&gone, "one").await;
    site.says("ada@pr-1", "hello").await;
    drop(site.start_settled().await);
    let (taken, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, dead, file) = (taken.clone(), over.clone(), site.file("notes.md"));
    let steps = FaultPoints::with_hook(move |taken: FaultPoint| {
        let step = count.fetch_add(1, Ordering::Relaxed);
        if step == acts_at {
            match person {
                Person::Rests => {}
                Person::SavesInPlace => fs::write(&file, "by hand").unwrap(),
                Person::SavesByRenaming => save_by_renaming(&file, "by hand"),
                Person::Deletes => drop(fs::remove_file(&file)),
            }
        }
        if step >= at {
            dead.store(true, Ordering::Relaxed);
            return Err(io::Error::other("killed"));
        }
        match (disk, taken) {
            (Disk::Poor, FaultPoint::Exchange) => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(()),
        }
    });
    site.writes("notes.md", "two").await;
    site.says("ada@pr-1", "a longer entry,\nof two lines").await;
    site.deletes(&gone).await;
    site.writes(&new, "new").await;
    let mut renderer = site.start_with(steps).await;
    for _ in 0..12 {
        site.turn(&mut renderer).await;
    }
    drop(renderer);
    site.says("ada@pr-1", "after the end").await;
    drop(site.start_settled().await);
    let case = format!("{disk:?} disk, crash at {at}, {person:?} at {acts_at}");
    site.check(&["notes.md", &gone, &new]).await;
    let saved = matches!(person, Person::SavesInPlace | Person::SavesByRenaming);
    if saved && taken.load(Ordering::Relaxed) > acts_at {
        assert!(site.can_find("by hand", &["notes.md"]).await, "{case}");
        assert_eq!(site.text("notes.md").await.as_deref(), Some("by hand"), "{case}");
    } else {
        assert_eq!(site.text("notes.md").await.as_deref(), Some("two"), "{case}");
        assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1"], "{case}");
    }
    assert_eq!((site.text(&gone).await, site.text(&new).await.as_deref()), (None, Some("new")), "{case}");
    assert!(site.names().iter().all(|name| !name.contains("edited")), "{case}: {:?}", site.names());
    over.load(Ordering::Relaxed)
}

#[tokio::test]
async fn crash_before_any_disk_change_loses_nothing() {
    for disk in [Disk::Usual, Disk::Poor] {
        let mut at = 0;
        while run_until_crash(disk, at, Person::Rests, usize::MAX).await {
            at += 1;
        }
        assert!(at > 10, "only {at} disk changes were made");
    }
}

#[tokio::test]
async fn concurrent_edit_before_any_disk_change_is_kept() {
    for acts_at in 0..20 {
        for person in PERSONS {
            run_until_crash(Disk::Usual, usize::MAX, person, acts_at).await;
        }
        run_until_crash(Disk::Poor, usize::MAX, Person::SavesInPlace, acts_at).await;
    }
}

#[tokio::test]
async fn concurrent_edit_and_crash_lose_nothing() {
    for acts_at in 0..14 {
        for at in [acts_at, acts_at + 1, acts_at + 2, acts_at + 3] {
            run_until_crash(Disk::Usual, at, Person::SavesInPlace, acts_at).await;
            run_until_crash(Disk::Poor, at, Person::SavesByRenaming, acts_at).await;
        }
    }
}
