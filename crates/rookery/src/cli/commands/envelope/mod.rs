//! `rookery envelope`

mod check;
pub(super) mod key;
mod sign;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rookery_core::kernel::limit;

use crate::cli::Failure;
use crate::cli::context::Context;

/// Check and sign envelopes of the Clutch protocol, without a daemon
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Tell everything that is wrong with an envelope, an array of them or one on each line
    Check {
        /// The file, or - for what comes in
        #[arg(default_value = "-")]
        file: PathBuf,

        /// The sender's card: the signature must be by one of its keys
        #[arg(long, value_name = "FILE")]
        card: Option<PathBuf>,
    },
    /// Make a key and print what of it belongs on the agent's card, into security.keys; `rookery keys create` also puts it there
    Keygen {
        /// The file to write the key to, which must not exist; whoever can read it can sign
        #[arg(long, value_name = "FILE")]
        key: PathBuf,

        /// The key's name among those of its agent
        #[arg(long, default_value = "key_01")]
        kid: String,
    },
    /// Sign an envelope and print it
    Sign {
        /// The file that `keygen` or `rookery keys create` wrote
        #[arg(long, value_name = "FILE")]
        key: PathBuf,

        /// The envelope, or - for what comes in
        #[arg(default_value = "-")]
        file: PathBuf,
    },
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Check { file, card } => check::run(context, &file, card.as_deref()),
        Command::Keygen { key, kid } => key::make(context, &key, &kid),
        Command::Sign { key, file } => sign::run(context, &key, &file),
    }
}

/// As many bytes as the daemon would take at most.
const MAX_INPUT_BYTES: usize = limit::ENVELOPE_BYTES * limit::BATCH_ENVELOPES;

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MAX_INPUT_BYTES as u64 + 1;
    let taken = if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(most).read_to_end(&mut bytes))
    };
    taken.with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() > MAX_INPUT_BYTES {
        return Err(Failure::new(format!("more than {MAX_INPUT_BYTES} bytes"))
            .hint("check fewer envelopes at a time")
            .into());
    }
    Ok(bytes)
}
