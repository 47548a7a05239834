//! Starting workflow files out of the daemon, by this same program's own commands: what a person could type, and no other way.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use rookery_core::kernel::instance::Instance;
use rookery_core::model::team::{StartTime, Team, TeamStartSpec};
use rookery_core::{SiteId, TeamId};
use rookery_engine::ports::team_starter::{Refusing, TeamStarter, WorkflowFile};
use rookery_store::Pending;
use serde_json::Value;

use crate::process;

/// How deep below the project workflow files are looked for, and how many of them are told.
const DEPTH: usize = 4;
const MAX_FILES: usize = 200;
/// How much of a file is looked at to see whether it is one.
const HEAD_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub struct CommandTeamStarter {
    root: PathBuf,
    site: SiteId,
}

impl CommandTeamStarter {
    pub fn of(root: &Path, site: SiteId) -> CommandTeamStarter {
        CommandTeamStarter { root: root.to_path_buf(), site }
    }

    /// Has one of our commands see to a file.
    async fn command(
        &self,
        name: &str,
        options: &[&str],
        instance: &Instance,
        launch: &TeamStartSpec,
    ) -> Result<Value, FailedCommand> {
        let mut arguments: Vec<OsString> = vec![name.into(), self.root.join(&launch.file).into()];
        arguments.extend(options.iter().map(OsString::from));
        arguments.extend(["--instance".into(), instance.name().into()]);
        if !launch.params.is_empty() {
            arguments.push("--".into());
            arguments.extend(launch.params.iter().map(OsString::from));
        }
        self.run(&arguments).await
    }

    /// Runs one of our commands in the project and takes what it prints.
    async fn run(&self, arguments: &[OsString]) -> Result<Value, FailedCommand> {
        let arguments: Vec<OsString> = std::iter::once("--json".into()).chain(arguments.iter().cloned()).collect();
        let ran = process::own_command(&self.root, &arguments).await;
        let ran = ran.map_err(|error| FailedCommand {
            why: Refusing { reason: format!("the command cannot be run: {error}"), faults: None },
            code: None,
        })?;
        let printed = serde_json::from_slice(&ran.stdout).ok();
        if ran.status.success() {
            return Ok(printed.unwrap_or(Value::Null));
        }
        let why = Refusing { reason: said(&String::from_utf8_lossy(&ran.stderr)), faults: printed };
        Err(FailedCommand { why, code: ran.status.code() })
    }
}

/// A command that did not succeed.
struct FailedCommand {
    why: Refusing,
    code: Option<i32>,
}

impl TeamStarter for CommandTeamStarter {
    fn files(&self) -> Pending<'_, Vec<WorkflowFile>> {
        let root = self.root.clone();
        Box::pin(async move { tokio::task::spawn_blocking(move || workflow_files(&root)).await.unwrap_or_default() })
    }

    fn check(&self, instance: Instance, launch: TeamStartSpec) -> Pending<'_, Result<Value, Refusing>> {
        Box::pin(async move {
            match self.command("check", &[], &instance, &launch).await {
                // The file has no errors; its plan names everything that is missing here.
                Err(FailedCommand { why: Refusing { faults: Some(plan), .. }, code: Some(1) }) => Ok(plan),
                checked => checked.map_err(|refused| refused.why),
            }
        })
    }

    fn start(&self, instance: Instance, launch: TeamStartSpec) -> Pending<'_, Result<(), Refusing>> {
        Box::pin(async move {
            self.command("start", &["--background"], &instance, &launch).await.map(drop).map_err(|refused| refused.why)
        })
    }

    fn is_lost(&self, team: &Team) -> bool {
        let runner = &team.runner;
        let started_at = match &runner.started_at {
            StartTime::Ticks(ticks) => *ticks,
            // No runner of ours tells it so.
            StartTime::Text(_) => return false,
        };
        let is_here = runner.site.as_ref() == Some(&self.site);
        team.is_live() && is_here && !rookery_runner::process::is_alive(&runner.boot_id, runner.pid, started_at)
    }

    fn force_end(&self, team: TeamId) -> Pending<'_, Result<(), Refusing>> {
        Box::pin(async move {
            self.run(&["stop".into(), team.as_str().into()]).await.map(drop).map_err(|refused| refused.why)
        })
    }
}

/// What a command that failed says why, without the words for a terminal around it.
fn said(stderr: &str) -> String {
    let told = serde_json::from_str::<Value>(stderr.trim()).ok();
    let part = |name: &str| told.as_ref().and_then(|told| told[name].as_str());
    match (part("error"), part("hint")) {
        (Some(error), Some(hint)) => format!("{error}; {hint}"),
        (Some(error), None) => error.to_owned(),
        (None, _) => stderr.trim().to_owned(),
    }
}

/// The files of a project that look like workflow files, by their paths. What git ignores is none.
fn workflow_files(root: &Path) -> Vec<WorkflowFile> {
    let entries = WalkBuilder::new(root).max_depth(Some(DEPTH)).sort_by_file_path(Path::cmp).build();
    let files = entries.flatten().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let yaml = |path: &Path| matches!(path.extension().and_then(|end| end.to_str()), Some("yaml" | "yml"));
    let known = files.map(ignore::DirEntry::into_path).filter(|path| yaml(path)).filter_map(|path| {
        let text = head(&path)?;
        let name = workflow_name(&text)?.map(str::to_owned);
        Some(WorkflowFile { path: path.strip_prefix(root).ok()?.to_str()?.to_owned(), name })
    });
    known.take(MAX_FILES).collect()
}

fn head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a workflow file calls itself, if it does. None of a file that is no workflow file: one says who is in the team.
#[expect(clippy::option_option, reason = "no workflow file, one without a name, and one with a name")]
fn workflow_name(text: &str) -> Option<Option<&str>> {
    text.lines().find(|line| line.starts_with("agents:"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name:"));
    Some(name.map(|name| name.trim().trim_matches(['"', '\''])).filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflow_files_are_found_where_people_keep_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("review.yaml", "name: \"code-review\"\nagents:\n  a: {}\n");
        write("teams/nightly.yml", "agents:\n  a: {}\n");
        write("compose.yaml", "services:\n  agents: 3\n");
        write("notes.md", "agents:\n");
        write(".hidden/other.yaml", "agents:\n");
        let found = workflow_files(folder.path());
        let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.name.as_deref())).collect();
        assert_eq!(found, [("review.yaml", Some("code-review")), ("teams/nightly.yml", None)]);
    }

    #[test]
    fn what_a_command_says_is_told_without_its_wrapping() {
        assert_eq!(said("{\"error\":\"no\",\"hint\":\"do\"}\n"), "no; do");
        assert_eq!(said("{\"error\":\"no\"}"), "no");
        assert_eq!(said("plain words\n"), "plain words");
    }
}
