//! The examples of the reference, played in order.

use std::collections::HashMap;

use rookery_surfaces::mcp::examples::{REPOSITORY, STORY, filled};
use serde_json::Value;

use crate::support::{Transport, connect, setup};
use crate::workspaces::project;

#[tokio::test]
async fn every_reference_example_succeeds() {
    let (_folder, root) = project();
    let daemon = setup().start_at(&root).unwrap();
    let agents = [
        ("ada", connect(&daemon, Transport::Session, Some("ada")).await),
        ("ben", connect(&daemon, Transport::Session, Some("ben")).await),
    ];
    let agents = HashMap::from(agents);
    let mut known: HashMap<&str, Value> = HashMap::from([(REPOSITORY, Value::from(root.to_str().unwrap()))]);
    for example in STORY {
        let arguments = filled(example.arguments, &|name| known.get(name).cloned());
        let arguments = arguments.unwrap_or_else(|| panic!("{}: {}", example.tool, example.arguments));
        let answer = agents[example.by].call(example.tool, arguments).await;
        for (name, pointer) in example.keeps {
            let value = answer.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {answer}"));
            known.insert(name, value.clone());
        }
        let rejected =
            ["success", "granted", "released", "accepted", "rejected"].iter().any(|word| answer[*word] == false);
        assert!(!rejected, "{}: {answer}", example.tool);
    }
}
