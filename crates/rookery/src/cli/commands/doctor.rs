//! `rookery doctor`

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rookery_core::Code;
use rookery_runner::process::kernel_bounds;
use rookery_runner::sandbox::SandboxSupport;
use serde::Serialize;
use serde_json::Value;

use super::of_store::OfStore;
use super::status::brief;
use crate::cli::context::{self, Context, Running};
use crate::cli::output::{Cell, Table, TextStyle};
use crate::cli::{Failure, Report};
use crate::config::{Origin, ProjectSettings};
use crate::offline::{self, Integrity};
use crate::project::{DaemonFile, Holder, Project, ProjectLock};
use crate::stores::{CHECK_ADDRESS, Location, where_it_went};

/// Less room than this on the project's disk is worth a warning.
const LOW_DISK_BYTES: u64 = 256 << 20;

/// Check everything and say how to mend what is wrong
///
/// Never starts a daemon: without one it checks what it can, and the exit code is 3.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: OfStore,
}

/// What one check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

/// One line of the doctor's report.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, found: found.into(), mend: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, found: found.into(), mend: Some(mend.into()) }
    }

    fn bad(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, found: found.into(), mend: Some(mend.into()) }
    }

    /// What an error says, with the hint that comes with it.
    fn failed(name: &'static str, error: &anyhow::Error) -> Self {
        let report = Report::of(error);
        Self::bad(name, report.error, report.hint)
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let project = context.project()?;
    let mut checks = check_files(&project);
    let settings = ProjectSettings::load(&project, &args.of.flags());
    checks.push(match &settings {
        Ok(_) => Check::good("settings", "every value is right"),
        Err(error) => Check::bad("settings", error.to_string(), error.hint()),
    });
    checks.push(check_sandbox(SandboxSupport::of_this_machine(), &kernel_bounds()));
    let running = context::find(&project).await;
    match &running {
        Ok(running) => checks.extend(check_daemon(running).await),
        Err(error) => checks.push(without_daemon(&project, error)),
    }
    if let Ok(settings) = &settings {
        checks.extend(check_secrets(settings, &project, running.is_ok()));
        checks.extend(running.as_ref().ok().and_then(|running| check_same_store(settings, &project, &running.file)));
        checks.extend(check_store(settings, &project).await);
    }
    context.out.show(&checks, |_| Ok(table(&checks)))?;
    verdict(&checks, running.err())
}

/// The exit code: 3 without a daemon, 1 if anything is bad.
fn verdict(checks: &[Check], missing: Option<anyhow::Error>) -> anyhow::Result<()> {
    if let Some(error) = missing {
        return Err(error);
    }
    match checks.iter().filter(|check| check.verdict == Verdict::Bad).count() {
        0 => Ok(()),
        1 => Err(Failure::new("one check failed").hint("mend it as the list says, then check again").into()),
        count => {
            Err(Failure::new(format!("{count} checks failed")).hint("mend them as the list says, in that order").into())
        }
    }
}

/// The project's folder, its key and its disk.
fn check_files(project: &Project) -> Vec<Check> {
    let root = project.root().display();
    if !project.exists() {
        return vec![Check::warning(
            "project",
            format!("{root} has no .rookery folder"),
            "set it up with `rookery up`",
        )];
    }
    let mut checks = vec![Check::good("project", root.to_string())];
    checks.push(check_mode("folder", &project.folder(), 0o700));
    checks.push(check_mode("person's key", &project.person_key_file(), 0o600));
    let ignored = std::fs::read_to_string(project.folder().join(".gitignore")).is_ok_and(|text| text.contains('*'));
    if !ignored {
        checks.push(Check::warning("git", ".rookery is not ignored by git", "echo '*' > .rookery/.gitignore"));
    }
    checks.extend(check_disk(&project.folder()));
    checks
}

fn check_mode(name: &'static str, path: &Path, wanted: u32) -> Check {
    match std::fs::metadata(path).map(|file| file.permissions().mode() & 0o777) {
        Ok(mode) if mode & !wanted == 0 => Check::good(name, format!("only you may read it ({mode:o})")),
        Ok(mode) => {
            let mend = format!("chmod {wanted:o} {}", path.display());
            Check::bad(name, format!("other users may reach {} ({mode:o})", path.display()), mend)
        }
        Err(error) => Check::bad(
            name,
            format!("cannot read {}: {error}", path.display()),
            "`rookery up` creates it if it is missing",
        ),
    }
}

fn check_disk(path: &Path) -> Option<Check> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let text = format!("{} MiB free", free >> 20);
    Some(match free {
        0..LOW_DISK_BYTES => Check::warning("disk", text, "make room: with a full disk, writes are refused"),
        _ => Check::good("disk", text),
    })
}

/// Whether agents that this machine runs are kept apart from it.
fn check_sandbox(available: &SandboxSupport, kernel_bounds: &[&str]) -> Check {
    match available.fix_hint() {
        None if kernel_bounds.is_empty() => Check::good("sandbox", available.to_string()),
        None => {
            let bounds = kernel_bounds.join(" and ");
            Check::good("sandbox", format!("{available}; the kernel bounds the {bounds} of each"))
        }
        Some(mend) => Check::warning("sandbox", available.to_string(), mend),
    }
}

/// Why no daemon answers: none, one that hangs, or a stale address.
fn without_daemon(project: &Project, error: &anyhow::Error) -> Check {
    let stale = DaemonFile::load(project).is_ok_and(|file| file.is_some());
    match ProjectLock::holder(project) {
        Ok(Holder::Process(pid)) => Check::bad(
            "daemon",
            format!("process {pid} has the project and does not answer"),
            format!("read {}, then `rookery down`", project.daemon_log().display()),
        ),
        Ok(Holder::Nobody) if stale => {
            Check::bad("daemon", "the last daemon ended without tidying up", "start one with `rookery up`")
        }
        _ => Check::failed("daemon", error),
    }
}

/// What the daemon says about itself.
async fn check_daemon(running: &Running) -> Vec<Check> {
    let mut checks = vec![Check::good("daemon", format!("{} answers", running.file.url))];
    if running.file.version != env!("CARGO_PKG_VERSION") {
        let found =
            format!("the daemon is version {}, this program {}", running.file.version, env!("CARGO_PKG_VERSION"));
        checks.push(Check::warning("version", found, "restart it: `rookery down`, then `rookery up`"));
    }
    let info = running.client.get(&["admin", "info"], &[]).await;
    // Asked after the first read, which may meet damage that was not known.
    checks.push(match running.client.get(&["readyz"], &[]).await {
        Ok(_) => Check::good("writing", "the store takes writes"),
        Err(error) => Check::failed("writing", &error.into()),
    });
    match info {
        Ok(info) => checks.extend(check_info(&info)),
        Err(error) if error.code() == Some(Code::StoreCorrupt.as_str()) => {
            checks.push(Check::bad("reading", error.to_string(), "see the line `store`"));
        }
        Err(error) => checks.push(Check::failed("person's key", &error.into())),
    }
    checks
}

fn check_info(info: &Value) -> Vec<Check> {
    let mut checks = vec![Check::good("person's key", "the daemon accepts it")];
    let warnings = info["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The check `writing` says it with what to do.
    let others = warnings.iter().filter(|warning| !brief(warning).starts_with("the store cannot write: "));
    checks.extend(others.map(|warning| {
        let text = warning["message"].as_str().map_or_else(|| brief(warning), str::to_owned);
        let mend = warning["hint"].as_str().unwrap_or("the daemon's log says more: .rookery/log/daemon.log");
        Check::warning("daemon", text, mend)
    }));
    checks
}

/// The secrets of webhooks: without one of them no daemon starts.
fn check_secrets(settings: &ProjectSettings, project: &Project, is_served: bool) -> Vec<Check> {
    let missing = settings.hooks.missing_secrets(project.root(), |name| std::env::var(name).ok());
    let check = |(found, mend): (String, &str)| match is_served {
        // The running daemon found its secret when it started, perhaps in another environment.
        true => Check::warning("webhook", format!("{found}; a daemon cannot be started from here"), mend),
        false => Check::bad("webhook", found, mend),
    };
    missing.into_iter().map(check).collect()
}

/// Says that the store of the settings, which is checked, is not that of the daemon.
fn check_same_store(settings: &ProjectSettings, project: &Project, file: &DaemonFile) -> Option<Check> {
    let used = Location::parse(file.store.as_ref()?, settings, project).ok()?;
    let named = Location::of(settings, project).ok()?;
    if used.is_same(&named) {
        return None;
    }
    let mend = match settings.origin("store") {
        Origin::Environment(name) => {
            format!("unset {name}, or restart the daemon with it: `rookery down`, then `rookery up`")
        }
        Origin::Default => "name it as `store` in rookery.toml, and for this check with --store".to_owned(),
        Origin::Flag | Origin::File { .. } => "restart the daemon: `rookery down`, then `rookery up`".to_owned(),
    };
    let found =
        format!("the daemon uses {}; {} ({}) is checked", used.shown(), named.shown(), settings.origin("store"));
    Some(Check::warning("store", found, mend))
}

async fn check_store(settings: &ProjectSettings, project: &Project) -> Vec<Check> {
    if !project.exists() {
        return Vec::new();
    }
    match offline::check(settings, project).await {
        Ok(Integrity { moved_to: Some(to), .. }) => {
            vec![Check::bad("store", format!("it has moved to {to}"), where_it_went(&to))]
        }
        Ok(integrity) if integrity.problems.is_empty() => vec![Check::good("store", "its integrity is proven")],
        Ok(integrity) => {
            integrity.problems.into_iter().map(|problem| Check::bad("store", problem, integrity.mend)).collect()
        }
        Err(error) => {
            let mut check = Check::failed("store", &error);
            if let Origin::Environment(name) = settings.origin("store")
                && check.mend.as_deref() == Some(CHECK_ADDRESS)
            {
                check.mend = Some(format!("check the address in {name}, or unset it to use the project's own store"));
            }
            vec![check]
        }
    }
}

fn table(checks: &[Check]) -> Table {
    let rows = checks.iter().flat_map(|check| {
        let (word, tone) = match check.verdict {
            Verdict::Good => ("ok", TextStyle::Good),
            Verdict::Warning => ("warning", TextStyle::Warning),
            Verdict::Bad => ("bad", TextStyle::Bad),
        };
        let line = vec![Cell::new(word, tone), check.name.into(), check.found.clone().into()];
        let mend = check.mend.as_ref().map(|mend| vec!["".into(), "".into(), Cell::from(format!("mend: {mend}"))]);
        std::iter::once(line).chain(mend)
    });
    Table { headings: &[], rows: rows.collect(), empty: "" }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::Exit;

    fn project() -> (tempfile::TempDir, Project) {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        (temp, project)
    }

    fn bad(checks: &[Check]) -> Vec<&'static str> {
        checks.iter().filter(|check| check.verdict == Verdict::Bad).map(|check| check.name).collect()
    }

    #[test]
    fn a_fresh_project_is_well() {
        let (_temp, project) = project();
        assert_eq!(bad(&check_files(&project)), Vec::<&str>::new());
    }

    #[test]
    fn a_key_that_others_may_read_is_bad_and_the_mending_mends_it() {
        let (_temp, project) = project();
        fs::set_permissions(project.person_key_file(), fs::Permissions::from_mode(0o644)).unwrap();
        let checks = check_files(&project);
        assert_eq!(bad(&checks), ["person's key"]);
        let mend = checks.iter().find_map(|check| check.mend.as_ref()).unwrap();
        assert!(mend.starts_with("chmod 600 "), "{mend}");
    }

    #[tokio::test]
    async fn a_missing_daemon_is_told_from_one_that_hangs() {
        let (_temp, project) = project();
        let error = context::find(&project).await.unwrap_err();
        assert!(without_daemon(&project, &error).found.starts_with("no daemon runs"));
        let _lock = ProjectLock::acquire(&project).unwrap();
        let check = without_daemon(&project, &error);
        assert!(check.found.ends_with("has the project and does not answer"), "{check:?}");
        assert_eq!(Report::of(&verdict(&[], Some(error)).unwrap_err()).exit, Exit::Unreachable);
    }

    #[test]
    fn a_machine_without_sandboxes_is_warned_of() {
        let check = check_sandbox(&SandboxSupport::Missing, &[]);
        assert_eq!((check.name, check.verdict), ("sandbox", Verdict::Warning));
        assert!(check.mend.is_some_and(|mend| mend.starts_with("install bubblewrap")));
        let there = SandboxSupport::Yes {
            bwrap: "/usr/bin/bwrap".into(),
            version: "bubblewrap 1".into(),
            nested: rookery_runner::sandbox::NestedNamespaces::Off,
        };
        assert_eq!(check_sandbox(&there, &[]).verdict, Verdict::Good);
        let bounded = check_sandbox(&there, &["memory", "processes"]);
        assert!(bounded.found.ends_with("; the kernel bounds the memory and processes of each"), "{}", bounded.found);
    }

    #[test]
    fn every_mending_is_shown_below_its_finding() {
        let checks = [Check::good("a", "fine"), Check::bad("b", "broken", "glue it")];
        let rows = table(&checks).rows;
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2][2], Cell::from("mend: glue it"));
        assert!(verdict(&checks, None).is_err());
        assert!(verdict(&checks[..1], None).is_ok());
    }
}
