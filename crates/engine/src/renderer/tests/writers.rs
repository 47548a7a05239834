//! Whoever has a file open while it is replaced, and saves late.

use super::*;

#[tokio::test]
async fn whoever_is_still_writing_when_the_file_is_replaced_is_waited_for() {
    let site = Site1::new();
    site.writes("notes.md", "one").await;
    let mut sitting = site.settled().await;
    let mut slow = fs::File::options().write(true).truncate(true).open(site.file("notes.md")).unwrap();
    site.writes("notes.md", "two").await;
    // It is not waited for longer than a while: then what it has written so far is taken, and the file changes places.
    for _ in 0..40 {
        site.turn(&mut sitting).await;
    }
    slow.write_all(b"what took so long").unwrap();
    for _ in 0..4 {
        site.turn(&mut sitting).await;
    }
    drop(slow);
    site.settle(&mut sitting).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("what took so long"));
    assert!(site.can_find("two", &["notes.md"]).await);
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn a_file_that_is_saved_again_and_again_is_read_all_the_same() {
    let site = Site1::new();
    site.writes("notes.md", "one").await;
    let mut sitting = site.settled().await;
    let saved: Vec<String> = (1..=16).map(|times| "saved ".repeat(times)).collect();
    for text in &saved {
        fs::write(site.file("notes.md"), text).unwrap();
        site.turn(&mut sitting).await;
    }
    // Sixteen turns are eight seconds, and it never rested for one of them.
    let taken: Vec<String> = site.authors("notes.md").await.into_iter().filter(|author| author == "external").collect();
    assert_eq!(taken.len(), 2, "not every time either");
    site.settle(&mut sitting).await;
    assert_eq!(site.text("notes.md").await.as_ref(), saved.last());
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn whoever_has_the_replaced_file_open_can_still_save_it() {
    let site = Site1::new();
    site.writes("notes.md", "one").await;
    let mut sitting = site.settled().await;
    // Opened before and written after the file has changed places, as by an editor that is slow for a moment.
    let file = site.file("notes.md");
    let mut held = fs::File::options().write(true).open(&file).unwrap();
    site.writes("notes.md", "two").await;
    site.turn(&mut sitting).await;
    assert_eq!(site.read("notes.md").as_deref(), Some("two"));
    held.set_len(0).unwrap();
    held.write_all(b"late").unwrap();
    for _ in 0..4 {
        site.turn(&mut sitting).await;
    }
    drop(held);
    site.settle(&mut sitting).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("late"));
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn whoever_has_it_open_by_another_path_can_still_save_it() {
    let site = Site1::new();
    site.writes("notes.md", "one").await;
    let mut sitting = site.settled().await;
    // As from a container, or through a bind mount: the path of the process is not ours.
    let elsewhere = site.root.join("elsewhere");
    fs::hard_link(site.file("notes.md"), &elsewhere).unwrap();
    let mut held = fs::File::options().write(true).open(&elsewhere).unwrap();
    fs::remove_file(&elsewhere).unwrap();
    site.writes("notes.md", "two").await;
    // It is waited for, but not for ever.
    for _ in 0..40 {
        site.turn(&mut sitting).await;
    }
    assert_eq!(site.read("notes.md").as_deref(), Some("two"));
    site.pace.monotonic.fetch_add(LONGER_THAN_ANYTHING_STAYS, Ordering::Relaxed);
    site.turn(&mut sitting).await;
    held.set_len(0).unwrap();
    held.write_all(b"late").unwrap();
    drop(held);
    site.settle(&mut sitting).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("late"));
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1", "external"]);
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn what_somebody_saves_late_whom_nobody_saw_is_kept() {
    let site = Site1::new();
    site.writes("notes.md", "one").await;
    let mut sitting = site.settled().await;
    for (text, late) in [("two", "late"), ("three", "later")] {
        site.writes("notes.md", text).await;
        for _ in 0..10 {
            site.turn(&mut sitting).await;
        }
        let [out] = site.waiting().try_into().unwrap();
        fs::write(out, late).unwrap();
        // A restart forgets nothing of it.
        sitting = site.settled().await;
        assert_eq!(site.text("notes.md").await.as_deref(), Some(late));
        site.check(&["notes.md"]).await;
    }
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1", "external", "ada@pr-1", "external"]);
}

#[tokio::test]
async fn not_everything_that_came_out_stays() {
    let site = Site1::new();
    let paths: Vec<String> = (0..510).map(|number| format!("{number}.md")).collect();
    for path in &paths {
        site.writes(path, "one").await;
    }
    let mut sitting = site.settled().await;
    for path in &paths {
        site.writes(path, "two").await;
    }
    for _ in 0..3 {
        site.turn(&mut sitting).await;
    }
    assert!(paths.iter().all(|path| site.read(path).as_deref() == Some("two")));
    assert_eq!((site.waiting().len(), sitting.service.warnings()), (500, vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_saves_while_agents_write_loses_nothing() {
    let site = Arc::new(Site1::new());
    site.writes("notes.md", "begin").await;
    let mut sitting = site.settled().await;
    let (done, writer) = (Arc::new(AtomicBool::new(false)), site.clone());
    let stop = done.clone();
    let agent = tokio::spawn(async move {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            writer.writes("notes.md", &format!("agent {number}")).await;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        number
    });
    let file = site.file("notes.md");
    let mut saved = BTreeSet::new();
    for number in 0..40 {
        let text = format!("person {number}");
        let (path, words) = (file.clone(), text.clone());
        // In a thread of its own, so that it falls into the middle of a round.
        let saving = std::thread::spawn(move || match number % 2 {
            0 => fs::write(path, words).unwrap(),
            _ => save_by_renaming(&path, &words),
        });
        site.turn(&mut sitting).await;
        saving.join().unwrap();
        while !site.history("notes.md").await.iter().any(|version| version.hash.as_deref() == Some(&hash_of(&text))) {
            assert!(site.can_find(&text, &["notes.md"]).await, "{text} is nowhere");
            site.turn(&mut sitting).await;
        }
        saved.insert(text);
    }
    done.store(true, Ordering::Relaxed);
    let written = agent.await.unwrap();
    site.settle(&mut sitting).await;
    site.check(&["notes.md"]).await;
    let known: BTreeSet<String> =
        site.history("notes.md").await.into_iter().filter_map(|version| version.hash).collect();
    assert!(saved.iter().all(|text| known.contains(&hash_of(text))));
    assert!(written > 0 && (1..=written).all(|number| known.contains(&hash_of(&format!("agent {number}")))));
}
