//! The examples of the reference, played one after the other: each of them works.

use std::collections::HashMap;

use rookery_surfaces::mcp::examples::{REPOSITORY, STORY, filled};
use serde_json::Value;

use crate::support::{Way, connect, setup};
use crate::workspaces::project;

#[tokio::test]
async fn every_example_works() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let agents = [
        ("ada", connect(&daemon, Way::Session, Some("ada")).await),
        ("ben", connect(&daemon, Way::Session, Some("ben")).await),
    ];
    let agents = HashMap::from(agents);
    let mut known: HashMap<&str, Value> = HashMap::from([(REPOSITORY, Value::from(root.to_str().unwrap()))]);
    for example in STORY {
        let arguments = filled(example.arguments, &|name| known.get(name).cloned());
        let arguments = arguments.unwrap_or_else(|| panic!("{}: {}", example.tool, example.arguments));
        let answer = agents[example.by].call(example.tool, arguments).await;
        for (name, place) in example.keeps {
            let kept = answer.pointer(place).unwrap_or_else(|| panic!("{place} in {answer}"));
            known.insert(name, kept.clone());
        }
        let refused =
            ["success", "granted", "released", "accepted", "rejected"].iter().any(|word| answer[*word] == false);
        assert!(!refused, "{}: {answer}", example.tool);
    }
}
