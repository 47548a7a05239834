//! `rookery demo`: everything that it promises is in the log afterwards.

use std::path::Path;

use serde_json::Value;

use crate::stage::Stage;

#[tokio::test]
async fn the_demo_shows_everything_in_less_than_a_minute() -> anyhow::Result<()> {
    // Only for its temporary folder: the demo makes a project of its own.
    let stage = Stage::new()?;
    let ran = stage.run(&["demo", "shown"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("rookery log") && ran.stdout.contains("http://"), "{ran:?}");
    let folder = stage.daemon.root().join("shown");
    let log = stage.run(&["--dir", "shown", "--json", "log", "-n", "1000"]).await?;
    let down = stage.run(&["--dir", "shown", "down"]).await?;
    assert_eq!(down.code, Some(0), "{down:?}");
    let events: Vec<Value> = log.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let happened = |action: &str| log.stdout.contains(action);
    for action in [
        "x.team.started",
        "x.run.planned",
        "task.assigned",
        "resource.claimed",
        "resource.conflict_detected",
        "resource.conflict_resolved",
        "handoff.initiated",
        "handoff.accepted",
        "task.blocked",
        "task.completed",
        "x.turn.ended",
        "x.team.ended",
    ] {
        assert!(happened(action), "{action} is not in {} events: {}", events.len(), log.stdout);
    }
    for file in ["src/greet.py", "src/shop.py", "README.md", ".workflow/demo/channel.md", ".git/HEAD"] {
        assert!(Path::new(&folder).join(file).exists(), "{file}");
    }
    let again = stage.run(&["demo", "shown"]).await?;
    assert_eq!(again.code, Some(2), "a folder that is used is left alone: {again:?}");
    Ok(())
}
