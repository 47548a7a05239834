//! The corpus: files of `good/` have a preview, files of `bad/` have their faults, both as snapshots.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::date;
use jiff::tz::TimeZone;
use rookery_runner::file::{Blocker, Ready, Refused, RunPreview, Surroundings, WorkflowSource};
use rookery_runner::sandbox::{NestedNamespaces, SandboxSupport};

/// Some of the tools of agents.
const TOOLS: [&str; 8] = [
    "channel_send",
    "channel_read",
    "inbox_check",
    "document_read",
    "document_write",
    "document_append",
    "workflow_next_tasks",
    "task_claim",
];

pub fn folder(name: &str) -> PathBuf {
    // Relative, so that messages do not depend on the location of the crate.
    Path::new("tests/files").join(name)
}

/// The workflow files of a folder, by name.
pub fn files(name: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// The source of a file in its folder.
pub fn source(kind: &str, file: &str, text: &str) -> WorkflowSource {
    WorkflowSource { file: file.into(), folder: folder(kind), text: text.to_owned() }
}

pub fn surroundings() -> Surroundings<'static> {
    Surroundings {
        env: [("HOME", "/home/ada"), ("HOSTNAME", "nest"), ("MODEL_KEY", "k")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        tools: TOOLS.map(str::to_owned).to_vec(),
        now: date(2026, 3, 6).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap(),
        find_program: &|name| (name != "codex").then(|| Path::new("/usr/bin").join(name)),
        sandbox: SandboxSupport::Yes {
            bwrap: "/usr/bin/bwrap".into(),
            version: "bubblewrap 0.11".to_owned(),
            nested: NestedNamespaces::Off,
        },
    }
}

pub fn ready(source: &WorkflowSource, arguments: &[&str]) -> Result<Ready, Refused> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Ready::check(source, "pr-1", &arguments, &surroundings())
}

fn good(file: &str) -> Ready {
    ready(&source("good", file, &files("good")[file]), &[]).unwrap_or_else(|refused| panic!("{file}:\n{refused}"))
}

fn snapshot(kind: &str, file: &str) -> String {
    format!("{kind}_{}", file.trim_end_matches(".yaml"))
}

#[test]
fn previews_of_good_files_match_snapshots() {
    for file in files("good").keys() {
        let plan = RunPreview::of(&good(file), &surroundings());
        insta::assert_snapshot!(snapshot("good", file), plan);
    }
}

#[test]
fn faults_of_bad_files_match_snapshots() {
    for (file, text) in files("bad") {
        match ready(&source("bad", &file, &text), &[]) {
            Err(Refused::File(faults)) => insta::assert_snapshot!(snapshot("bad", &file), faults),
            other => panic!("{file}: {other:?}"),
        }
    }
}

#[test]
fn preview_lists_all_blockers_of_the_machine() {
    let text = "agents:\n  ada: {backend: codex, sandbox: false}\n  ben: {backend: command, command: [./lint, --all]}\n  \
        eve: {model: openai/gpt-5}\n  zoe: {backend: mock, script: [pass]}\nparams: [{name: pr, required: true}]\nkickoff: '@ada hello'\n";
    let here = Surroundings { sandbox: SandboxSupport::Missing, find_program: &|_| None, ..surroundings() };
    let ready = Ready::check(&source("good", "here.yaml", text), "pr-1", &[], &here).unwrap();
    let plan = RunPreview::of(&ready, &here);
    let named: Vec<String> = plan.blockers.iter().map(ToString::to_string).collect();
    let beginnings = [
        "missing required parameter `pr`: -- --pr VALUE",
        "ada: the program `codex` is not on the PATH",
        "ben: the program `./lint` does not exist or is not executable",
        "eve: ",
    ];
    assert_eq!(named.len(), beginnings.len(), "{named:?}");
    for (named, beginning) in named.iter().zip(beginnings) {
        assert!(named.starts_with(beginning), "{named}");
    }
    assert!(!plan.can_be_started());
    let note = plan.notes.last().map(String::as_str).unwrap_or_default();
    assert!(note.starts_with("ben, eve run without a sandbox (bubblewrap is not installed)"), "{note}");
    let waits = source("good", "waits.yaml", "agents:\n  zoe: {backend: mock, script: [pass]}\n");
    let plan = RunPreview::of(&Ready::check(&waits, "pr-1", &[], &here).unwrap(), &here);
    assert!(plan.can_be_started() && plan.blockers == [Blocker::NoKickoff]);
}

#[test]
fn preview_as_json_matches_snapshot() {
    let plan = RunPreview::of(&good("everything.yaml"), &surroundings());
    insta::assert_json_snapshot!("plan_as_json", plan);
}

#[test]
fn arguments_are_filled_in() {
    let source = source("good", "everything.yaml", &files("good")["everything.yaml"]);
    let complete = ready(&source, &["-p", "12", "--dry-run"]).unwrap();
    assert!(complete.kickoff().unwrap().starts_with("Pull request 12 on ‹branch›, home /home/ada.\n"));
    assert_eq!(complete.blockers(), []);
    assert_eq!(complete.variables.params["dry_run"].as_deref(), Some("true"));
    assert!(matches!(ready(&source, &["--rp", "12"]), Err(Refused::Argument(_))));
    let incomplete = ready(&source, &[]).unwrap();
    assert_eq!(incomplete.blockers(), [Blocker::MissingParam { name: "pr".to_owned() }]);
}

#[test]
fn setup_output_is_filled_in_without_parsing() {
    let mut ready = good("basic.yaml");
    ready.variables.setup.insert("diff".to_owned(), Some("${{ env.HOME }} ${{ diff }}".to_owned()));
    let kickoff = ready.kickoff().unwrap();
    assert!(kickoff.starts_with("PR diff:\n${{ env.HOME }} ${{ diff }}\n"), "{kickoff}");
    assert_eq!(ready.mentioned_agents(&kickoff), ["reviewer", "coder"]);
}

#[test]
fn commands_get_known_variables() {
    let source = source("good", "everything.yaml", &files("good")["everything.yaml"]);
    let mut ready = ready(&source, &["-p", "12"]).unwrap();
    let known = ready.variables.for_commands();
    for (name, value) in [
        ("params_pr", "12"),
        ("params_dry_run", "false"),
        ("workflow_name", "everything"),
        ("workflow_instance", "pr-1"),
        ("instance", "pr-1"),
        ("context_channel", "team/pr-1/discussion.md"),
    ] {
        assert_eq!(known[name], value);
    }
    assert!(!known.contains_key("branch") && !known.contains_key("env_HOME"), "{known:?}");
    ready.variables.setup.insert("branch".to_owned(), Some("main".to_owned()));
    assert_eq!(ready.variables.for_commands()["branch"], "main");
}

#[test]
fn complete_files_in_the_documentation_are_valid() {
    let page = fs::read_to_string("../../docs/workflow-files.md").unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole: Vec<&str> = blocks.filter(|block| block.contains("agents:")).collect();
    assert_eq!(whole.len(), 2);
    for block in whole {
        if let Err(refused) = ready(&source("good", "docs.yaml", block), &[]) {
            panic!("{refused}\n{block}");
        }
    }
}

#[test]
fn kickoff_without_mention_blocks_a_run() {
    assert_eq!(good("anchors.yaml").blockers(), [Blocker::NoAgentMentioned]);
    assert_eq!(good("no_context.yaml").blockers(), [Blocker::NoKickoff]);
    assert!(!Blocker::NoKickoff.blocks_start());
}

#[test]
fn instance_name_is_escaped_in_its_folder() {
    let source = source("good", "everything.yaml", &files("good")["everything.yaml"]);
    let ready = Ready::check(&source, "a/../b", &[], &surroundings()).unwrap();
    assert_eq!(ready.folder.as_deref(), Some("team/a%2F..%2Fb"));
    for bad in ["", "a b", "a@b", "\u{202e}"] {
        assert!(matches!(Ready::check(&source, bad, &[], &surroundings()), Err(Refused::Instance(_))), "{bad:?}");
    }
}

#[test]
fn unreadable_file_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("bytes.yaml"), [0xff]).unwrap();
    fs::write(path("huge.yaml"), "x".repeat((1 << 20) + 1)).unwrap();
    fs::create_dir(path("folder.yaml")).unwrap();
    for (file, message) in [
        ("none.yaml", "the file does not exist"),
        ("bytes.yaml", "is not UTF-8"),
        ("huge.yaml", "is longer than 1048576 bytes"),
        ("folder.yaml", "is a folder"),
    ] {
        let faults = WorkflowSource::load(&path(file)).unwrap_err().to_string();
        assert!(faults.contains(&format!("{file}:1:1: {message}")), "{faults}");
    }
}
