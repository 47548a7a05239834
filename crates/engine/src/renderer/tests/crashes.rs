//! Ends at every step, with a person who acts before any of them.

use super::*;

/// What a person does right before a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Person {
    Rests,
    SavesInPlace,
    SavesByRenaming,
    Deletes,
}

const PERSONS: [Person; 4] = [Person::Rests, Person::SavesInPlace, Person::SavesByRenaming, Person::Deletes];

/// What the file system can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disk {
    Usual,
    /// No two files can change places in one step.
    Poor,
}

/// A story with every kind of change, told until a step at which we are ended, with a person who acts before another one.
/// Returns whether the end came.
async fn ended(disk: Disk, at: usize, person: Person, acts_at: usize) -> bool {
    let site = Site1::new();
    // Too long for a name in `.swap`.
    let (gone, new) = (format!("sub/{}.md", "gone".repeat(60)), format!("{}.md", "new".repeat(80)));
    site.writes("notes.md", "one").await;
    site.writes(&gone, "one").await;
    site.says("ada@pr-1", "hello").await;
    drop(site.settled().await);
    let (taken, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, dead, file) = (taken.clone(), over.clone(), site.file("notes.md"));
    let steps = Steps::through(move |taken: Step| {
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
            (Disk::Poor, Step::Exchange) => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(()),
        }
    });
    site.writes("notes.md", "two").await;
    site.says("ada@pr-1", "a longer entry,\nof two lines").await;
    site.deletes(&gone).await;
    site.writes(&new, "new").await;
    let mut sitting = site.sit_with(steps).await;
    for _ in 0..12 {
        site.turn(&mut sitting).await;
    }
    drop(sitting);
    site.says("ada@pr-1", "after the end").await;
    drop(site.settled().await);
    let told = format!("{disk:?} disk, ended at {at}, {person:?} at {acts_at}");
    site.check(&["notes.md", &gone, &new]).await;
    let saved = matches!(person, Person::SavesInPlace | Person::SavesByRenaming);
    if saved && taken.load(Ordering::Relaxed) > acts_at {
        assert!(site.can_find("by hand", &["notes.md"]).await, "{told}");
        assert_eq!(site.text("notes.md").await.as_deref(), Some("by hand"), "{told}");
    } else {
        assert_eq!(site.text("notes.md").await.as_deref(), Some("two"), "{told}");
        assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1"], "{told}");
    }
    assert_eq!((site.text(&gone).await, site.text(&new).await.as_deref()), (None, Some("new")), "{told}");
    assert!(site.names().iter().all(|name| !name.contains("edited")), "{told}: {:?}", site.names());
    over.load(Ordering::Relaxed)
}

#[tokio::test]
async fn ended_before_any_step_it_loses_nothing() {
    for disk in [Disk::Usual, Disk::Poor] {
        let mut at = 0;
        while ended(disk, at, Person::Rests, usize::MAX).await {
            at += 1;
        }
        assert!(at > 10, "only {at} steps were taken");
    }
}

#[tokio::test]
async fn whatever_a_person_does_before_any_step_is_kept() {
    for acts_at in 0..20 {
        for person in PERSONS {
            ended(Disk::Usual, usize::MAX, person, acts_at).await;
        }
        ended(Disk::Poor, usize::MAX, Person::SavesInPlace, acts_at).await;
    }
}

#[tokio::test]
async fn a_person_and_an_end_at_once_lose_nothing() {
    for acts_at in 0..14 {
        for at in [acts_at, acts_at + 1, acts_at + 2, acts_at + 3] {
            ended(Disk::Usual, at, Person::SavesInPlace, acts_at).await;
            ended(Disk::Poor, at, Person::SavesByRenaming, acts_at).await;
        }
    }
}
