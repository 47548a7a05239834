//! The files in `examples/`: each is valid, and each runs. Scripts replace agents that need a model or a program;
//! everything else is
//! as in the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::stage::{CommandResult, Stage};

type Outcome = anyhow::Result<()>;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A project with the examples and a small repository.
async fn example_project() -> anyhow::Result<Stage> {
    let stage = Stage::new()?;
    let root = stage.daemon.root().to_path_buf();
    for folder in ["", "prompts", "scripts"] {
        std::fs::create_dir_all(root.join("examples").join(folder))?;
        for entry in std::fs::read_dir(examples().join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), root.join("examples").join(folder).join(entry.file_name()))?;
            }
        }
    }
    stage.save("main.txt", "one\n")?;
    stage.save(".gitignore", ".rookery/\n.workflow/\n")?;
    for line in ["git init -q", "git add -A", "git commit -q -m one", "echo two >> main.txt", "git commit -q -a -m two"]
    {
        stage.shell(line)?;
    }
    Ok(stage)
}

/// Runs an example with a script in place of each agent; fields of the original backend are removed.
async fn run_with_scripts(
    stage: &Stage,
    name: &str,
    scripts: Value,
    arguments: &[&str],
) -> anyhow::Result<CommandResult> {
    let text = std::fs::read_to_string(examples().join(name))?;
    let mut file: Value = serde_saphyr::from_str(&text)?;
    let agents = file["agents"].as_object_mut().context("it has agents")?;
    let scripts: BTreeMap<String, Value> = serde_json::from_value(scripts)?;
    assert_eq!(agents.keys().collect::<Vec<_>>(), scripts.keys().collect::<Vec<_>>(), "a script for each agent");
    for (agent, script) in scripts {
        let fields = agents[&agent].as_object_mut().context("an agent has fields")?;
        for own in ["backend", "model", "provider", "max_tokens", "command", "tools", "workspace"] {
            fields.remove(own);
        }
        fields.insert("backend".to_owned(), json!("mock"));
        fields.insert("script".to_owned(), script);
    }
    stage.save(&format!("examples/{name}"), &serde_json::to_string(&file)?)?;
    let file = format!("examples/{name}");
    stage.run(&[&["run", &file][..], arguments].concat()).await
}

/// The channel messages of agents, with their authors.
async fn agent_messages(stage: &Stage) -> anyhow::Result<Vec<(String, String)>> {
    let channel = stage.channel("default").await?;
    Ok(channel.into_iter().filter(|(from, _)| from != "system").collect())
}

#[tokio::test]
async fn every_example_file_is_valid() -> Outcome {
    let stage = example_project().await?;
    let mut checked = 0;
    for entry in std::fs::read_dir(examples())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".yaml") {
            continue;
        }
        let output = stage.run(&["check", &format!("examples/{name}"), "--json"]).await?;
        // Programs that the file names may be missing on this machine.
        let plan = output.json()?;
        let blockers = plan["hindrances"].as_array().into_iter().flatten().map(|one| &one["what"]);
        let missing: Vec<&Value> = blockers.filter(|what| *what != "no_kickoff").collect();
        let expected = ["missing_param", "missing_program", "backend"];
        let only_missing_here = missing.iter().all(|what| expected.iter().any(|expected| *what == expected));
        assert!(only_missing_here && output.code == Some(i32::from(!missing.is_empty())), "{name}: {output:?}");
        checked += 1;
    }
    assert!(checked >= 7, "{checked} files");
    Ok(())
}

#[tokio::test]
async fn review_example_reviews_a_diff() -> Outcome {
    let stage = example_project().await?;
    let scripts = json!({
        "reviewer": [
            {"do": [{"append": "- main.txt:2 is not tested\n"}, {"send": "@coder main.txt:2 is not tested"}]},
            {"when": "mended", "say": "Nothing is left."},
        ],
        "coder": [{"do": [{"save": {"path": "test.txt", "text": "two"}}, {"say": "Mended, @reviewer please look again"}]}],
    });
    let output = run_with_scripts(&stage, "review.yaml", scripts, &["--", "--since", "HEAD~1"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout, "- main.txt:2 is not tested\n");
    let channel = stage.channel("default").await?;
    assert!(channel[1].1.contains("+two") && channel[1].1.contains("What changed since HEAD~1"), "{channel:?}");
    assert_eq!(agent_messages(&stage).await?.last().map(|(_, text)| text.as_str()), Some("Nothing is left."));
    Ok(())
}

#[tokio::test]
async fn build_team_example_plans_builds_and_tests() -> Outcome {
    let stage = example_project().await?;
    let task = "${{ got.next.tasks.0.id }}";
    let scripts = json!({
        "planner": [{"do": [
            {"call": "workflow_create", "with": {"name": "orders", "source_type": "prompt", "source_content": "${{ params.wish }}"}, "as": "wf"},
            {"call": "workflow_set_plan", "with": {"id": "${{ got.wf.id }}", "plan": {"summary": "one step", "tasks": [{"name": "page", "description": "the page"}]}}},
            {"send": "@builder please take `page`"},
        ]}],
        "builder": [{"do": [
            {"call": "workflow_next_tasks", "as": "next"},
            {"call": "task_claim", "with": {"task_id": task}},
            {"call": "task_update_status", "with": {"id": task, "status": "in_progress"}},
            {"save": {"path": "page.txt", "text": "orders"}},
            {"call": "checkpoint_add", "with": {"task_id": task, "type": "progress", "summary": "the page is there"}},
            {"call": "task_update_status", "with": {"id": task, "status": "completed", "outcome": "page.txt"}},
            {"send": "@tester please test `page`"},
        ]}],
        "tester": [{"say": "It shows the orders."}],
    });
    let output = run_with_scripts(&stage, "build-team.yaml", scripts, &["--", "--wish", "A page of orders"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let tasks = stage.daemon.get("/tasks").await?.body;
    assert_eq!((&tasks[0]["title"], &tasks[0]["state"]), (&json!("page"), &json!("completed")), "{tasks}");
    assert!(stage.channel("default").await?[1].1.contains("A page of orders"));
    Ok(())
}

#[tokio::test]
async fn research_example_rejects_result_that_breaks_its_schema() -> Outcome {
    let stage = example_project().await?;
    let task = "task_default_1_research";
    let half = json!({"findings": ["MIT"]});
    let whole = json!({"findings": ["MIT"], "citations": ["Cargo.lock"]});
    let complete =
        |detail: Value| json!({"id": task, "status": "completed", "outcome": "MIT", "outcome_detail": detail});
    let scripts = json!({
        "researcher": [{"do": [
            {"call": "task_claim", "with": {"task_id": task}},
            {"call": "task_update_status", "with": {"id": task, "status": "in_progress"}},
            {"call": "task_update_status", "with": complete(half), "may_fail": true, "as": "first"},
            {"send": "refused: ${{ got.first.error }}"},
            {"call": "task_update_status", "with": complete(whole)},
            {"send": "@editor please write it up"},
        ]}],
        "editor": [{"when": "write it up", "do": [{"write": "# Licences\n\nMIT (Cargo.lock)\n"}, {"say": "Written."}]}],
    });
    let output = run_with_scripts(&stage, "research.yaml", scripts, &["--", "--question", "Which licences?"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let messages = agent_messages(&stage).await?;
    assert!(
        messages.iter().any(|(_, text)| text.starts_with("refused: ") && text.contains("citations")),
        "{messages:?}"
    );
    let done = stage.daemon.get(&format!("/tasks/{task}")).await?.body;
    assert_eq!(
        (&done["state"], &done["outcome_detail"]["citations"]),
        (&json!("completed"), &json!(["Cargo.lock"])),
        "{done}"
    );
    assert_eq!(output.stdout, "# Licences\n\nMIT (Cargo.lock)\n");
    Ok(())
}

#[tokio::test]
async fn mixed_example_runs_two_backends_in_one_team() -> Outcome {
    let stage = example_project().await?;
    let scripts = json!({
        "writer": [{"send": "@critic please review"}, {"when": "comma", "send": "@critic mended, please look again"}],
        "critic": [{"send": "@writer main.txt:1 lacks a comma"}, {"when": "mended", "say": "approved"}],
    });
    let output = run_with_scripts(&stage, "mixed.yaml", scripts, &["--", "--task", "Accept trailing commas"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let authors: Vec<String> = agent_messages(&stage).await?.into_iter().map(|(from, _)| from).collect();
    assert_eq!(authors, ["writer", "critic", "writer", "critic"]);
    Ok(())
}

#[tokio::test]
async fn nightly_example_wakes_its_agent_on_schedule() -> Outcome {
    let stage = example_project().await?;
    let text = std::fs::read_to_string(examples().join("nightly.yaml"))?;
    let mut file: Value = serde_saphyr::from_str(&text)?;
    file["agents"]["watchman"] = json!({
        "backend": "mock",
        "wakeup": "1s",
        "wakeup_prompt": file["agents"]["watchman"]["wakeup_prompt"],
        "script": [{"do": [{"append": "- red\n"}, {"send": "@mender the build is red"}]}],
    });
    file["agents"]["mender"] = json!({"backend": "mock", "script": [{"say": "Mended on a branch."}]});
    stage.save("examples/nightly.yaml", &serde_json::to_string(&file)?)?;
    let started = stage.start(&["start", "examples/nightly.yaml"])?;
    rookery_testkit::wait::eventually("the repair is reported", async || {
        let messages = agent_messages(&stage).await?;
        Ok(messages.iter().any(|(from, text)| from == "mender" && text == "Mended on a branch.").then_some(()))
    })
    .await?;
    started.interrupt()?;
    assert_eq!(started.finish().await?.code, Some(130));
    Ok(())
}

#[tokio::test]
async fn shell_team_example_runs_scripts_as_agents() -> Outcome {
    let stage = example_project().await?;
    let output = stage.run(&["run", "examples/shell-team.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    let messages = agent_messages(&stage).await?;
    assert_eq!(
        messages.iter().map(|(from, _)| from.as_str()).collect::<Vec<_>>(),
        ["counter", "scribe"],
        "{messages:?}"
    );
    assert!(messages[1].1.starts_with("Written down: ") && messages[1].1.ends_with(" lines."), "{messages:?}");
    assert!(output.stdout.contains("lines, counted by the team"), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn channel_and_unread_messages_of_a_finished_run_are_archived() -> Outcome {
    let stage = Stage::new()?;
    let script = |script: &str| {
        format!(
            "agents:\n  ada: {{backend: mock, script: [{script}]}}\n  bob: {{backend: mock, script: [{{say: bob works}}]}}\nkickoff: '@ada go'\n"
        )
    };
    stage.save("one.yaml", &script("{say: 'the first run'}"))?;
    stage.save("two.yaml", &script("{say: 'the second run'}"))?;
    let announced = stage.daemon.post("/agents/announce", json!({"id": "ada", "tool": "custom"})).await?;
    assert_eq!(announced.status, 201, "a standalone agent has the name of one of the team");
    let ran = stage.run(&["run", "one.yaml"]).await?;
    assert!(ran.code == Some(0) && !ran.stderr.contains("archived"), "{ran:?}");
    let announced = stage.daemon.post("/agents/announce", json!({"id": "bob@default", "tool": "custom"})).await?;
    assert_eq!(announced.status, 201);
    // The agent of the next run must not be woken by it.
    stage
        .as_person("/channels/default/messages", json!({"text": "@bob late for the first run, @agent:ada too"}))
        .await?;
    let ran = stage.run(&["run", "two.yaml"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("archived what one.yaml left in default as default.1"), "{ran:?}");
    let texts = async |instance: &str| -> anyhow::Result<Vec<String>> {
        let entries = stage.daemon.get(&format!("/channels/{instance}/messages")).await?.body;
        let entries = entries.as_array().cloned().unwrap_or_default();
        Ok(entries.iter().map(|entry| entry["text"].as_str().unwrap_or_default().to_owned()).collect())
    };
    let first = ["Workflow started", "@ada go", "the first run", "@bob late for the first run, @agent:ada too"];
    assert_eq!(texts("default.1").await?, first);
    assert_eq!(texts("default").await?, ["Workflow started", "@ada go", "the second run"], "bob was not woken");
    let read = stage.run(&["context", "read", "--instance", "default.1"]).await?;
    assert!(read.stdout.contains("the first run") && !read.stdout.contains("the second run"), "{read:?}");
    let file = async |instance: &str| {
        let path = stage.daemon.root().join(".workflow").join(instance).join("channel.md");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Ok(Some(text).filter(|text| text.contains(if instance == "default" { "second run" } else { "first run" })))
    };
    let (now, archived) =
        (eventually("the file", || file("default")).await?, eventually("the archive", || file("default.1")).await?);
    assert!(!now.contains("the first run") && !archived.contains("the second run"), "{now}\n{archived}");
    let refused = stage.as_person("/channels/default.1/messages", json!({"text": "hello"})).await;
    assert!(refused.is_err(), "nothing can be said in an archive");
    let waiting = stage.run(&["context", "inbox", "--agent", "ada"]).await?;
    assert!(waiting.stdout.contains("@agent:ada too"), "a standalone agent keeps its inbox: {waiting:?}");
    let ran = stage.run(&["run", "one.yaml", "--continue"]).await?;
    assert!(ran.code == Some(0) && !ran.stderr.contains("archived"), "{ran:?}");
    assert_eq!(texts("default").await?.len(), 6);
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn documents_of_a_finished_run_are_archived_before_another_run_in_default() -> Outcome {
    let stage = Stage::new()?;
    let write = |text: &str| {
        format!(
            "agents:\n  ada: {{backend: mock, script: [{{do: [{{call: document_write, with: {{content: {text}}}}}, {{say: done}}]}}]}}\nkickoff: '@ada go'\n"
        )
    };
    for name in ["one", "two"] {
        stage.save(&format!("{name}.yaml"), &write(name))?;
    }
    stage.save("quiet.yaml", "agents: {ada: {backend: mock, script: [{say: hi}]}}\nkickoff: '@ada go'\n")?;
    for (arguments, result) in [
        (&["run", "one.yaml"][..], "one"),
        (&["run", "two.yaml"], "two"),
        (&["run", "quiet.yaml", "--continue"], "two"),
        (&["run", "quiet.yaml"], ""),
        (&["context", "doc", "read", "--instance", "default.1"], "one"),
        (&["context", "doc", "read", "--instance", "default.2"], "two"),
    ] {
        let output = stage.run(arguments).await?;
        assert_eq!((output.code, output.stdout.trim()), (Some(0), result), "{arguments:?}: {output:?}");
    }
    // A named instance keeps its documents.
    for _ in 0..2 {
        let output = stage.run(&["run", "one.yaml", "--instance", "own"]).await?;
        assert_eq!((output.code, output.stdout.trim()), (Some(0), "one"), "{output:?}");
    }
    let output = stage.run(&["context", "doc", "list", "--instance", "own.1", "--json"]).await?;
    assert!(!output.stdout.contains("notes.md"), "{output:?}");
    stage.daemon.replay_verify()
}

#[tokio::test]
async fn scripted_example_needs_no_model_or_program() -> Outcome {
    let stage = example_project().await?;
    let output = stage.run(&["run", "examples/scripted.yaml"]).await?;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout, "- line 42 has no check\n- verified what coder said\n");
    Ok(())
}
