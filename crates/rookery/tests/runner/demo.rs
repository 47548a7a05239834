//! `rookery demo`: the log contains every announced event afterwards.

use std::path::Path;

use serde_json::Value;

use crate::stage::Stage;

#[tokio::test]
async fn demo_leaves_every_announced_event_in_the_log() -> anyhow::Result<()> {
    // The stage provides only a temporary folder: the demo creates its own project.
    let stage = Stage::new()?;
    let output = stage.run(&["demo", "shown"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("rookery log") && output.stdout.contains("http://"), "{output:?}");
    let folder = stage.daemon.root().join("shown");
    let log = stage.run(&["--dir", "shown", "--json", "log", "-n", "1000"]).await?;
    let down = stage.run(&["--dir", "shown", "down"]).await?;
    assert_eq!(down.code, Some(0), "{down:?}");
    let events: Vec<Value> = log.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_logged = |action: &str| log.stdout.contains(action);
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
        assert!(is_logged(action), "{action} is not in {} events: {}", events.len(), log.stdout);
    }
    for file in ["src/greet.py", "src/shop.py", "README.md", ".workflow/demo/channel.md", ".git/HEAD"] {
        assert!(Path::new(&folder).join(file).exists(), "{file}");
    }
    let again = stage.run(&["demo", "shown"]).await?;
    assert_eq!(again.code, Some(2), "a used folder is not touched: {again:?}");
    Ok(())
}
