//! `rookery demo`

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::run::{self as run_command};
use crate::cli::Failure;
use crate::cli::context::{self, Context, Start};
use crate::cli::output::{Format, TextStyle};
use crate::config::Flags;
use crate::process;
use crate::project::Project;

/// Watch a team of scripted agents work on a sample repository
///
/// Makes the repository in a new folder, starts its daemon, and runs a team that needs no model and no key: a plan, claims of
/// tasks and files, a conflict, a handoff, a review, a task that fails and is tried again. Takes some seconds; what happened
/// stays to be looked at.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder to make
    #[arg(value_name = "FOLDER", default_value = "rookery-demo")]
    folder: PathBuf,
}

/// What the repository begins with.
const FILES: [(&str, &str); 4] = [
    ("README.md", include_str!("../texts/demo/readme.md")),
    ("docs/wish.md", include_str!("../texts/demo/wish.md")),
    ("team.yaml", include_str!("../texts/demo/team.yaml")),
    (".gitignore", ".rookery/\n.workflow/\n__pycache__/\n"),
];

const INSTANCE: &str = "demo";

/// What to look at afterwards.
const NEXT: [(&str, &str); 7] = [
    ("rookery log", "everything that happened, in order"),
    ("rookery tasks", "the tasks, and who did them"),
    ("rookery handoffs", "what was handed over"),
    ("cat .workflow/demo/channel.md", "what they said to each other"),
    ("cat .workflow/demo/notes.md", "what they wrote down"),
    ("git status", "what they built"),
    ("cat team.yaml", "the file that describes the team"),
];

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let folder = make(&args.folder)?;
    let running = context::start(&Project::at(&folder)?, &Flags::default()).await?;
    let here = Context { out: context.out.clone(), dir: Some(folder.clone()), start: Start::Never };
    here.out.note(&format!("the sample repository is {}", folder.display()));
    here.out.note(&format!("watch it in a browser: {}", running.file.url));
    run_command::run(&here, run_command::Args::of(folder.join("team.yaml"), INSTANCE)).await?;
    tell(&here, &folder, &running.file.url)
}

/// Makes the repository, in a folder that nobody uses.
fn make(folder: &Path) -> anyhow::Result<PathBuf> {
    let is_used = folder.is_file() || folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        let failure = Failure::usage(format!("{} already exists and is not empty", folder.display()));
        return Err(failure.hint("name a new folder: rookery demo FOLDER").into());
    }
    for (name, text) in FILES {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    // Without git it is a folder like any other, which is enough.
    let _no_git = process::commit_all(&folder, "What we wish");
    Ok(folder)
}

fn tell(context: &Context, folder: &Path, url: &str) -> anyhow::Result<()> {
    let out = &context.out;
    if out.format() == Format::Json {
        return Ok(());
    }
    out.line("", TextStyle::Plain)?;
    out.line("Look at what they left:", TextStyle::Good)?;
    out.line(&format!("  cd {}", folder.display()), TextStyle::Plain)?;
    for (command, what) in NEXT {
        out.line(&format!("  {command:32} {what}"), TextStyle::Plain)?;
    }
    out.line(&format!("  {url:32} the same in a browser"), TextStyle::Plain)?;
    out.line("When you have seen enough: `rookery down` there, and delete the folder.", TextStyle::Dim)
}
