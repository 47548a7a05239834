//! Programs that have a file open while it is replaced, and save late.

use super::*;

#[tokio::test]
async fn slow_writer_of_a_replaced_file_saves_a_version() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    let mut slow = fs::File::options().write(true).truncate(true).open(site.file("notes.md")).unwrap();
    site.writes("notes.md", "two").await;
    // The wait is bounded. After it, the content so far becomes a version, and the file is replaced.
    for _ in 0..40 {
        site.turn(&mut renderer).await;
    }
    slow.write_all(b"what took so long").unwrap();
    for _ in 0..4 {
        site.turn(&mut renderer).await;
    }
    drop(slow);
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("what took so long"));
    assert!(site.can_find("two", &["notes.md"]).await);
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn file_saved_continuously_is_read_after_the_longest_wait() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    let saved: Vec<String> = (1..=16).map(|times| "saved ".repeat(times)).collect();
    for text in &saved {
        fs::write(site.file("notes.md"), text).unwrap();
        site.turn(&mut renderer).await;
    }
    // Sixteen turns are eight seconds, and it never rested for one of them.
    let taken: Vec<String> = site.authors("notes.md").await.into_iter().filter(|author| author == "external").collect();
    assert_eq!(taken.len(), 2, "not every time either");
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_ref(), saved.last());
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn late_save_into_a_replaced_file_becomes_a_version() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    // Opened before and written after the file was replaced, as by a slow editor.
    let file = site.file("notes.md");
    let mut held = fs::File::options().write(true).open(&file).unwrap();
    site.writes("notes.md", "two").await;
    site.turn(&mut renderer).await;
    assert_eq!(site.read("notes.md").as_deref(), Some("two"));
    held.set_len(0).unwrap();
    held.write_all(b"late").unwrap();
    for _ in 0..4 {
        site.turn(&mut renderer).await;
    }
    drop(held);
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("late"));
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn late_save_by_another_path_becomes_a_version() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    // As from a container, or through a bind mount: the path of the process is not ours.
    let elsewhere = site.root.join("elsewhere");
    fs::hard_link(site.file("notes.md"), &elsewhere).unwrap();
    let mut held = fs::File::options().write(true).open(&elsewhere).unwrap();
    fs::remove_file(&elsewhere).unwrap();
    site.writes("notes.md", "two").await;
    // The wait is bounded.
    for _ in 0..40 {
        site.turn(&mut renderer).await;
    }
    assert_eq!(site.read("notes.md").as_deref(), Some("two"));
    site.clock.monotonic.fetch_add(LONGER_THAN_ANY_RETENTION, Ordering::Relaxed);
    site.turn(&mut renderer).await;
    held.set_len(0).unwrap();
    held.write_all(b"late").unwrap();
    drop(held);
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("late"));
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1", "external"]);
    site.check(&["notes.md"]).await;
}

#[tokio::test]
async fn late_save_by_an_unseen_process_becomes_a_version() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    for (text, late) in [("two", "late"), ("three", "later")] {
        site.writes("notes.md", text).await;
        for _ in 0..10 {
            site.turn(&mut renderer).await;
        }
        let [out] = site.replaced_files().try_into().unwrap();
        fs::write(out, late).unwrap();
        // A restart forgets nothing of it.
        renderer = site.start_settled().await;
        assert_eq!(site.text("notes.md").await.as_deref(), Some(late));
        site.check(&["notes.md"]).await;
    }
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1", "external", "ada@pr-1", "external"]);
}

#[tokio::test]
async fn replaced_files_beyond_the_limit_are_removed() {
    let site = TestSite::new();
    let paths: Vec<String> = (0..510).map(|number| format!("{number}.md")).collect();
    for path in &paths {
        site.writes(path, "one").await;
    }
    let mut renderer = site.start_settled().await;
    for path in &paths {
        site.writes(path, "two").await;
    }
    for _ in 0..3 {
        site.turn(&mut renderer).await;
    }
    assert!(paths.iter().all(|path| site.read(path).as_deref() == Some("two")));
    assert_eq!((site.replaced_files().len(), renderer.service.warnings()), (500, vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_saves_of_person_and_agent_are_all_kept() {
    let site = Arc::new(TestSite::new());
    site.writes("notes.md", "begin").await;
    let mut renderer = site.start_settled().await;
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
        // In its own thread, so that it happens in the middle of a round.
        let saving = std::thread::spawn(move || match number % 2 {
            0 => fs::write(path, words).unwrap(),
            _ => save_by_renaming(&path, &words),
        });
        site.turn(&mut renderer).await;
        saving.join().unwrap();
        while !site.history("notes.md").await.iter().any(|version| version.hash.as_deref() == Some(&hash_of(&text))) {
            assert!(site.can_find(&text, &["notes.md"]).await, "{text} is nowhere");
            site.turn(&mut renderer).await;
        }
        saved.insert(text);
    }
    done.store(true, Ordering::Relaxed);
    let written = agent.await.unwrap();
    site.settle(&mut renderer).await;
    site.check(&["notes.md"]).await;
    let known: BTreeSet<String> =
        site.history("notes.md").await.into_iter().filter_map(|version| version.hash).collect();
    assert!(saved.iter().all(|text| known.contains(&hash_of(text))));
    assert!(written > 0 && (1..=written).all(|number| known.contains(&hash_of(&format!("agent {number}")))));
}
