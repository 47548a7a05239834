//! `rookery up`

use std::path::PathBuf;

use serde_json::json;

use crate::cli::Failure;
use crate::cli::context::{self, Context};
use crate::cli::output::{Format, TextStyle};
use crate::config::{Flags, ProjectSettings};
use crate::{daemon, process};

/// Start the daemon of this project
///
/// Listens on this machine only, on port 4700 or, if that is taken, on a free one; prints the address first. A port
/// that you ask for is that port or an error.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; anything but loopback needs --require-token
    #[arg(long)]
    host: Option<String>,

    /// Port to listen on; 0 takes a free one
    #[arg(long)]
    port: Option<u16>,

    /// Where the log is kept: sqlite:FILE or postgres://HOST/NAME
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Return once the daemon answers; it goes on in the background
    #[arg(long, short)]
    background: bool,

    /// Refuse callers without a token
    #[arg(long)]
    require_token: bool,

    /// Do not watch the project's files for conflicting changes
    #[arg(long)]
    no_watch: bool,

    /// PEM file with the certificate for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// PEM file with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    #[command(flatten)]
    set: Set,

    /// This process is the daemon in the background
    #[arg(long, hide = true)]
    detached: bool,
}

/// Any setting, by the name it has in `rookery.toml`.
#[derive(Debug, clap::Args)]
pub(super) struct Set {
    /// Give any setting a value, as `rookery config` lists them; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl Set {
    pub(super) fn apply(&self, flags: &mut Flags) -> anyhow::Result<()> {
        for text in &self.set {
            let Some((name, value)) = text.split_once('=') else {
                let failure = Failure::usage(format!("--set {text} has no value"));
                return Err(failure.hint("write it as NAME=VALUE, for example --set offline_after=2m").into());
            };
            flags.set(name.trim(), value.trim());
        }
        Ok(())
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let project = context.project()?;
    let flags = args.flags()?;
    let settings = ProjectSettings::load(&project, &flags)?;
    if args.background {
        let running = match context::find(&project).await {
            Ok(running) if flags.is_empty() => {
                context.out.note("a daemon already runs for this project");
                running
            }
            Ok(running) => {
                let message = format!("a daemon already runs for this project, at {}", running.file.url);
                return Err(Failure::new(message)
                    .hint("it keeps the settings it was started with: `rookery down`, then start it with these")
                    .into());
            }
            Err(_) => context::start(&project, &flags).await?,
        };
        return context.out.done(&running.file, &format!("listening on {}", running.file.url));
    }
    if args.detached {
        process::detach()?;
    }
    let ready = |ready: daemon::Ready<'_>| {
        let file = ready.file;
        match context.out.format() {
            Format::Json => {
                context.out.json_line(&json!({ "url": file.url, "pid": file.pid, "project": file.project }))?
            }
            Format::Human => context.out.line(&format!("listening on {}", file.url), TextStyle::Plain)?,
        }
        announce_ui(context, &ready, args.detached);
        if let Some(port) = ready.bound.instead_of {
            context.out.note(&format!("port {port} is taken by another program, so a free one is used"));
        }
        Ok(())
    };
    daemon::run(&settings, &project, ready).await
}

/// Prints a sign-in link, but only to a terminal: in a file or a log it would sign in whoever reads it.
fn announce_ui(context: &Context, ready: &daemon::Ready<'_>, detached: bool) {
    if detached {
        return;
    }
    if !context.out.notes_are_on_terminal() {
        context.out.note(&format!("web UI: {} (`rookery open` makes a sign-in link)", ready.file.url));
    } else if let Some(link) = ready.links.issue() {
        context.out.note(&format!("web UI, signed in: {link} (once; `rookery open` prints another)"));
    }
}

impl Args {
    fn flags(&self) -> anyhow::Result<Flags> {
        let mut flags = Flags::default();
        self.set.apply(&mut flags)?;
        // The daemon runs in the project's root, wherever this command was typed.
        let path = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
        let given = [
            ("host", self.host.clone()),
            ("port", self.port.map(|port| port.to_string())),
            ("store", self.store.clone()),
            ("require_token", self.require_token.then(|| "true".into())),
            ("watch", self.no_watch.then(|| "false".into())),
            ("tls_cert", self.tls_cert.as_ref().map(path)),
            ("tls_key", self.tls_key.as_ref().map(path)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                flags.set(name, value);
            }
        }
        Ok(flags)
    }
}
