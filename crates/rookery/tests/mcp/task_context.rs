//! Task contexts: never larger than requested, with every omission named.

use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, create_planned_workflow, first_text, setup};

/// A claimed task with many tasks before and beside it, long outcomes, many checkpoints and held files.
async fn task_with_large_context(agent: &Client) -> String {
    let long = "a sentence of some length about what was done. ".repeat(40);
    let before = (1..=40).map(|n| json!({"name": format!("before {n}"), "description": long, "parallel_group": "g"}));
    let names: Vec<String> = (1..=40).map(|n| format!("before {n}")).collect();
    let now = json!({"name": "now", "description": long, "parallel_group": "g", "depends_on": names});
    let (_, tasks) = create_planned_workflow(agent, before.chain([now]).collect()).await;
    for name in &names {
        let task = &tasks[name];
        agent.call("task_claim", json!({"task_id": task})).await;
        agent.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
        let done = json!({"id": task, "status": "completed", "outcome": long, "outcome_detail": {"told": long}});
        agent.call("task_update_status", done).await;
    }
    let now = tasks["now"].clone();
    agent.call("task_claim", json!({"task_id": now})).await;
    let how = json!({"approach": long, "steps": [long, long]});
    agent.call("task_set_plan", json!({"id": now, "plan": how, "context": {"note": long}})).await;
    for number in 1..=60 {
        let kind = if number % 10 == 0 { "decision" } else { "progress" };
        let step = json!({"task_id": now, "type": kind, "summary": format!("step {number}"), "detail": {"told": long}});
        agent.call("checkpoint_add", step).await;
    }
    for file in 0..20 {
        agent.call("resource_claim", json!({"path": format!("src/{file}.rs"), "task_id": now})).await;
    }
    now
}

#[tokio::test]
async fn task_context_fits_its_budget_and_names_omissions() {
    let daemon = setup().start().unwrap();
    let agent = connect(&daemon, Transport::Stateless, Some("a")).await;
    agent.register("a").await;
    let task = task_with_large_context(&agent).await;
    let other = connect(&daemon, Transport::Stateless, Some("b")).await;
    other.call("channel_send", json!({"message": "@a are you there?"})).await;
    let mut seen = 0;
    for include in
        [json!({}), json!({"all_checkpoints": true, "prior_task_full": true}), json!({"recent_checkpoints": 20})]
    {
        for max_tokens in [500, 501, 640, 800, 1_000, 1_500, 2_000, 4_000, 8_000, 12_000, 20_000] {
            let asked = json!({"task_id": task, "include": include, "max_tokens": max_tokens});
            let result = agent.call_raw("task_load_context", asked).await;
            let context = result.structured_content.clone().unwrap();
            let estimate = usize::try_from(context["token_estimate"].as_u64().unwrap()).unwrap();
            let texts: usize = result.content.iter().map(|block| block.as_text().unwrap().text.chars().count()).sum();
            // A program shows its model either the texts or the structure; neither may exceed the announced size.
            for shown in [texts, context.to_string().chars().count()] {
                let fits = shown.div_ceil(4) <= estimate && estimate <= max_tokens;
                assert!(fits, "{shown} characters for {max_tokens}: {estimate}");
            }
            let mut shown_context: Value = serde_json::from_str(&first_text(&result)).unwrap();
            shown_context["notes"] = context["notes"].clone();
            assert_eq!(shown_context, context);
            assert_eq!(
                (&context["unread"], result.content.len()),
                (&json!(1), 2),
                "unread messages are announced, and counted"
            );
            let newest = context["current_task"]["checkpoints"].as_array().unwrap().last().unwrap().clone();
            assert_eq!((&newest["sequence"], &newest["summary"]), (&json!(60), &json!("step 60")), "{max_tokens}");
            for omitted in context["omitted"].as_array().into_iter().flatten() {
                assert!(omitted["count"].as_u64().unwrap() > 0, "{omitted}");
                for tool in omitted["get"].as_str().unwrap().split(", ") {
                    let listed = agent.service.list_all_tools().await.unwrap();
                    assert!(listed.iter().any(|known| known.name == tool), "there is no {tool}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 20, "small budgets omit parts");
    let usual = agent.call("task_load_context", json!({"task_id": task})).await;
    assert!(usual["token_estimate"].as_u64().unwrap() <= 8_000);
    assert!(usual["omitted"].as_array().unwrap().iter().any(|one| one["what"] == "checkpoints"), "{usual}");
    let page = agent.call("checkpoint_list", json!({"task_id": task, "since_sequence": 50, "limit": 3})).await;
    let sequences: Vec<_> = page["checkpoints"].as_array().unwrap().iter().map(|one| one["sequence"].clone()).collect();
    assert_eq!((sequences, &page["more"]), (vec![json!(51), json!(52), json!(53)], &json!(true)));
    let last = agent.call("task_get", json!({"id": task, "include_checkpoints": true, "checkpoint_limit": 2})).await;
    assert_eq!(last["checkpoints"].as_array().unwrap().len(), 2);
    assert_eq!(last["checkpoints"][1]["sequence"], 60);
}

#[tokio::test]
async fn every_part_of_the_task_context_is_optional() {
    let daemon = setup().start().unwrap();
    let agent = connect(&daemon, Transport::Stateless, Some("a")).await;
    agent.register("a").await;
    let tasks = json!([
        {"name": "one", "description": "first", "parallel_group": "g"},
        {"name": "two", "depends_on": ["one"], "parallel_group": "g"},
    ]);
    let (_, tasks) = create_planned_workflow(&agent, tasks).await;
    agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    agent.call("task_update_status", json!({"id": tasks["one"], "status": "in_progress"})).await;
    let done = json!({"id": tasks["one"], "status": "completed", "outcome": "out", "outcome_detail": {"n": 1}});
    agent.call("task_update_status", done).await;
    agent.call("task_claim", json!({"task_id": tasks["two"]})).await;
    for number in 0..7 {
        let step = json!({"task_id": tasks["two"], "type": "progress", "summary": number.to_string()});
        agent.call("checkpoint_add", step).await;
    }
    agent.call("resource_claim", json!({"path": "src/x", "task_id": tasks["two"]})).await;
    let load = async |include: Value| {
        agent.call("task_load_context", json!({"task_id": tasks["two"], "include": include})).await
    };
    let all = load(json!({})).await;
    assert_eq!(all["workflow"]["plan_summary"], "the plan");
    for part in ["prior_tasks", "dependency_outcomes", "sibling_tasks"] {
        assert_eq!(all[part][0]["outcome"], "out", "{part}");
    }
    assert_eq!((&all["held_files"], &all["unread"]), (&json!(["src/x"]), &json!(0)));
    let count = |context: &Value| context["current_task"]["checkpoints"].as_array().unwrap().len();
    assert_eq!((count(&all), count(&load(json!({"recent_checkpoints": 2})).await)), (5, 2));
    assert_eq!(count(&load(json!({"all_checkpoints": true, "recent_checkpoints": 2})).await), 7);
    assert!(load(json!({"workflow_plan": false})).await.get("workflow").is_none());
    assert!(load(json!({"workflow_summary": false})).await.get("workflow").is_none());
    for (flag, part) in [
        ("prior_task_outcomes", "prior_tasks"),
        ("dependency_outcomes", "dependency_outcomes"),
        ("sibling_status", "sibling_tasks"),
    ] {
        assert_eq!(load(json!({flag: false})).await[part], json!([]), "{flag}");
    }
    let full = load(json!({"prior_task_full": true})).await;
    assert_eq!(
        (&full["prior_tasks"][0]["description"], &full["prior_tasks"][0]["outcome_detail"]),
        (&json!("first"), &json!({"n": 1}))
    );
    assert!(all["prior_tasks"][0].get("description").is_none());
}
