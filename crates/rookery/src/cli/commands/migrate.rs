//! `rookery migrate`

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline::{self, Migrated, Stays};
use crate::project::Project;
use crate::stores::{Location, in_a_shell};

/// Move the store to another database, with its whole log
///
/// Everything goes: the log, artifacts, tokens, remembered requests, and when agents were last seen. What arrived is
/// folded again and compared before anything else happens. Then the old store is closed: it can be read and exported, and
/// no daemon opens it any more. The daemon must not run, and the new store must be empty. The log keeps its id, so that
/// listeners go on where they were.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The store to move, such as sqlite:FILE; the project's own if none is named
    #[arg(long, value_name = "URL")]
    from: Option<String>,

    /// Where it goes, such as postgres://HOST/NAME or sqlite:FILE
    #[arg(long, value_name = "URL")]
    to: String,

    /// Leave the old store in use, also by a running daemon; the new one gets a log id of its own
    #[arg(long)]
    copy: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = context.settled()?;
    let from = match &args.from {
        Some(from) => Location::parse(from, &settings, &project)?,
        None => Location::of(&settings, &project)?,
    };
    let to = Location::parse(&args.to, &settings, &project)?;
    if from.is_same(&to) {
        return Err(Failure::usage(format!("{} is both the store to move and where it goes", to.shown()))
            .hint("name another store with --to")
            .into());
    }
    prepare(&project, &to)?;
    let (stays, what) = if args.copy { (Stays::InUse, "copying events") } else { (Stays::Closed, "moving events") };
    let migrated = offline::migrate(from, to, stays, context.out.progress(what)).await?;
    tell(context, &migrated)
}

/// A store in the project's own folder needs that folder, for its owner only.
fn prepare(project: &Project, to: &Location) -> anyhow::Result<()> {
    match to {
        Location::Sqlite(files) if files.path.starts_with(project.folder()) => Ok(project.prepare()?),
        _ => Ok(()),
    }
}

fn tell(context: &Context, migrated: &Migrated) -> anyhow::Result<()> {
    let Migrated { from, to, events, artifacts, tokens, replies, .. } = migrated;
    let done = match migrated.source {
        Stays::Closed => "moved",
        Stays::InUse => "copied",
    };
    let text = format!(
        "{done} {events} events, {artifacts} artifacts, {tokens} tokens and {replies} remembered replies to {to}; the \
         new store agrees with its log"
    );
    context.out.missing(&migrated.missing);
    context.out.done(migrated, &text)?;
    if migrated.source == Stays::Closed {
        context
            .out
            .note(&format!("{from} is closed and can be read; start with `rookery up --store {}`", in_a_shell(to)));
    }
    Ok(())
}
