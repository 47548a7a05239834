//! Git tricks: repositories, filters, hooks and worktrees that make git outside of the sandbox run or write something.

use std::fs;

use crate::target::{Attack, Seat, Target};

/// Shell lines that turn the repository in the current folder into one that runs a program at every turn.
const HOSTILE: &str = r#"
hostile() {
    run="sh -c 'touch $TROPHY; cat'"
    for name in filter.e.clean filter.e.smudge core.fsmonitor diff.external merge.e.driver core.pager; do git config $name "$run"; done
    printf '#!/bin/sh\ntouch %s\n' $TROPHY >.git/hooks/post-checkout; chmod +x .git/hooks/*
    echo '* filter=e merge=e' >.gitattributes
}
commit() { git -c user.name=e -c user.email=e@example.invalid commit -qm "$1"; }
"#;

/// Python that requests every workspace operation of the daemon, and prints the answers.
const EVERYTHING: &str = r#"
def everything(workspace, merge=True):
    print(rk.tool("workspace_list", include_changes=True))
    if merge:
        print(rk.tool("workspace_merge", id=workspace, commit_changes=True))
    print(rk.tool("workspace_update", id=workspace, status="abandoned", cleanup_worktree=True))
    print("all asked")
def made(answer):
    return ((answer or {}).get("result") or {}).get("structuredContent") or {}
"#;

/// Runs shell lines, then Python, as one agent.
async fn attack(target: &Target, seat: &Seat, shell: &str, python: &str) -> Attack {
    let shell = format!("{HOSTILE}\n{shell}");
    let script =
        format!("import subprocess\nsubprocess.run(['sh', '-c', {shell:?}])\n{EVERYTHING}\n{python}\nprint('done')");
    let attack = target.attack_in_python(seat, &script).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    attack
}

#[tokio::test]
async fn filter_of_own_repository_does_not_run() {
    let target = Target::new();
    let shell = "mkdir own && cd own && git init -qb main && echo 1 >f && git add f && commit f && hostile; echo 2 >f";
    let python = r#"
own = os.path.join(os.getcwd(), "own")
for asked in [{"path": own, "branch": "main"}, {"path": own, "branch": "main", "repo_path": own},
              {"branch": "x", "create_worktree": True, "repo_path": own}]:
    answer = rk.tool("workspace_create", **asked)
    print(answer)
    everything(made(answer).get("id", "ws_none"))
"#;
    let attack = attack(&target, &Seat::shared(), shell, python).await;
    assert_eq!(attack.transcript.matches("FORBIDDEN").count(), 3, "{attack:?}");
}

#[tokio::test]
async fn filter_of_nested_repository_does_not_run() {
    // A merge by the agent in a worktree would change the project, as it should.
    for (seat, merge) in [(Seat::shared(), "True"), (Seat::worktree(), "False")] {
        let target = Target::new();
        let shell = "mkdir n && cd n && git init -qb main && echo 1 >f && git add f && commit f && hostile; \
            cd .. && git add n && commit n; echo 2 >n/f; echo changed >>src/lib.rs";
        let python = r#"
answer = rk.tool("workspace_create", branch="b", create_worktree=True, repo_path=os.environ["PROJECT"])
for workspace in rk.tool("workspace_list")["result"]["structuredContent"]["workspaces"]:
    everything(workspace["id"], MERGE)
"#;
        attack(&target, &seat, shell, &python.replace("MERGE", merge)).await;
    }
}

#[tokio::test]
async fn worktree_is_not_made_where_the_person_keeps_settings() {
    let target = Target::new();
    let shell = "mkdir -p x && echo evil >evil.desktop && git add evil.desktop && commit evil";
    let python = r#"
home, project = os.environ["PERSON_HOME"], os.environ["PROJECT"]
for number, path in enumerate([home + "/.config/autostart", home + "/bin", project + "/.vscode", "../.config/a", project + "/.rookery/x",
                               project + "/.git/x", project + "/.worktrees/../../.config/b", project + "/.worktrees", "/tmp/escaped"]):
    print(rk.tool("workspace_create", branch=f"b{number}", path=path, create_worktree=True, repo_path=project))
"#;
    let attack = attack(&target, &Seat::worktree(), shell, python).await;
    assert!(!attack.transcript.contains("ws_"), "{attack:?}");
    assert!(!target.root().join(".vscode").exists() && !target.home().join("bin").exists());
}

#[tokio::test]
async fn worktree_is_not_made_through_a_link() {
    let target = Target::new();
    let shell = "ln -s $PERSON_HOME/.config .worktrees; mkdir real; ln -s $PERSON_HOME real/link";
    let python = r#"
project = os.environ["PROJECT"]
for number, path in enumerate([".worktrees/autostart", ".worktrees/a/b", "real/link/x"]):
    print(rk.tool("workspace_create", branch=f"b{number}", path=path, create_worktree=True, repo_path=project))
os.unlink(".worktrees")
"#;
    attack(&target, &Seat::shared(), shell, python).await;
}

#[tokio::test]
async fn worktree_folder_that_becomes_a_link_leads_nowhere() {
    let target = Target::new();
    let python = r#"
import threading
stop, home, project = threading.Event(), os.environ["PERSON_HOME"], os.environ["PROJECT"]
def swap():
    while not stop.is_set():
        try:
            os.makedirs(".worktrees", exist_ok=True)
            os.rename(".worktrees", "aside")
            os.symlink(home + "/.config", ".worktrees")
            os.unlink(".worktrees")
            os.rename("aside", ".worktrees")
        except OSError:
            pass
thread = threading.Thread(target=swap)
thread.start()
for number in range(12):
    answer = rk.tool("workspace_create", branch=f"r{number}", path=f".worktrees/r{number}", create_worktree=True, repo_path=project)
    if made(answer):
        everything(made(answer)["id"])
stop.set()
thread.join()
"#;
    attack(&target, &Seat::shared(), "true", python).await;
}

#[tokio::test]
async fn links_in_the_git_folder_are_not_written_through() {
    let target = Target::new();
    let python = r#"
project, home = os.environ["PROJECT"], os.environ["PERSON_HOME"]
git = project + "/.git/"
def link(path):
    path = git + path
    for step in [lambda: os.makedirs(os.path.dirname(path), exist_ok=True), lambda: os.rename(path, path + ".was"),
                 lambda: os.symlink(home + "/.bashrc", path)]:
        try:
            step()
        except OSError as error:
            print(error)
own = made(rk.tool("workspace_create", branch="b", create_worktree=True, repo_path=project))["id"]
for path in [f"rookery/{own}.lock", f"rookery/{own}.json", f"rookery/{own}.new", "worktrees/b/rookery-workspace", "index", "index.lock",
             "worktrees/b/index", "logs/refs/heads/main", "logs/refs/heads/b", "logs/HEAD", "packed-refs", "packed-refs.lock", "ORIG_HEAD"]:
    link(path)
    print(rk.tool("workspace_merge", id=own, commit_changes=True))
everything(own)
"#;
    attack(&target, &Seat::shared(), "true", python).await;
}

#[tokio::test]
async fn refs_and_objects_that_are_links_lead_nowhere() {
    for name in ["refs", "refs/heads", "objects", "objects/info", "worktrees"] {
        let target = Target::new();
        let shell =
            format!("mkdir -p .git/{name}; mv .git/{name} .git/aside && ln -s $PERSON_HOME/.config .git/{name}");
        let python = r#"
project = os.environ["PROJECT"]
everything(made(rk.tool("workspace_create", branch="evil.desktop", create_worktree=True, repo_path=project)).get("id", "ws_none"))
"#;
        attack(&target, &Seat::shared(), &shell, python).await;
    }
}

#[tokio::test]
async fn folder_of_the_person_is_not_removed_as_a_worktree() {
    let target = Target::new();
    let python = r#"
project, home = os.environ["PROJECT"], os.environ["PERSON_HOME"]
own = made(rk.tool("workspace_create", branch="b", create_worktree=True, repo_path=project))["id"]
for place in [home + "/.ssh", home + "/.config", home, project]:
    try:
        with open(project + "/.git/worktrees/b/gitdir", "w") as file:
            file.write(place + "/.git\n")
    except OSError as error:
        print(error)
    everything(own)
    print(rk.tool("workspace_create", branch="main", path=place))
"#;
    attack(&target, &Seat::shared(), "true", python).await;
    assert!(target.home().join(".ssh/id_ed25519").is_file());
}

#[tokio::test]
async fn merged_branch_does_not_replace_the_key() {
    let target = Target::new();
    let shell = "mkdir -p .rookery; echo known >.rookery/person.key; git add -f .rookery/person.key; commit key; git log --oneline -1 --stat";
    let python = r#"
for workspace in rk.tool("workspace_list")["result"]["structuredContent"]["workspaces"]:
    everything(workspace["id"])
"#;
    let attack = attack(&target, &Seat::worktree(), shell, python).await;
    assert!(attack.transcript.contains("person.key"), "{attack:?}");
}

#[tokio::test]
async fn objects_of_other_repositories_cannot_be_read() {
    let target = Target::new();
    let text = "only-in-the-other-repository";
    let line = format!(
        "git init -qb main ~/private && cd ~/private && echo {text} >f && git add f && git commit -qm f && git rev-parse HEAD"
    );
    let commit = target.as_person(&line).trim().to_owned();
    assert_eq!(commit.len(), 40, "{commit}");
    let shell = format!(
        "echo $PERSON_HOME/private/.git/objects >.git/objects/info/alternates; echo {commit} >.git/refs/heads/steal"
    );
    let python = r#"
print(rk.tool("workspace_create", branch="steal", path=".worktrees/steal", create_worktree=True, repo_path=os.environ["PROJECT"]))
"#;
    let attack = attack(&target, &Seat::shared(), &shell, python).await;
    let stolen = fs::read_to_string(target.root().join(".worktrees/steal/f")).unwrap_or_default();
    assert!(!stolen.contains(text) && !attack.transcript.contains(text), "{attack:?}");
}

#[tokio::test]
async fn worktree_that_leads_to_another_repository_is_not_used() {
    let target = Target::new();
    let shell =
        "mkdir evil && cd evil && git init -qb main && echo 1 >f && git add f && commit f && hostile; echo 2 >f";
    let python = r#"
project = os.environ["PROJECT"]
evil = project + "/evil/.git"
answer = made(rk.tool("workspace_create", branch="b", path=".worktrees/b", create_worktree=True, repo_path=project))
def write(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        print(error)
for path, text in [(answer["path"] + "/.git", f"gitdir: {evil}\n"), (project + "/.git/worktrees/b/commondir", evil + "\n"),
                   (project + "/.git/worktrees/b/config.worktree", open(evil + "/config").read())]:
    write(path, text)
    everything(answer["id"])
"#;
    attack(&target, &Seat::shared(), shell, python).await;
}
