//! The commands, one file each.

mod agents;
mod artifacts;
mod assign;
mod backup;
mod cancel;
mod check;
mod check_payloads;
mod completions;
mod config;
mod context;
mod deliveries;
mod demo;
mod doctor;
mod down;
mod endpoints;
mod envelope;
mod exec;
mod export;
mod handoffs;
mod import;
mod instructions;
mod keys;
mod list;
mod log;
mod man;
mod mcp;
mod migrate;
mod mock_agent;
mod new;
mod of_store;
mod open;
mod pause;
mod peek;
mod redact;
mod reference;
mod relay;
mod release;
mod replay;
mod resolve;
mod resources;
mod restore;
mod resume;
mod retry;
mod route;
mod run;
mod run_tree;
mod runs;
mod schema;
mod send;
mod sessions;
mod start;
mod status;
mod stop;
mod tasks;
mod token;
mod up;
mod worktree;

use clap::Subcommand;

use super::context::{Context, Start};
pub(super) use status::brief;

#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::Args),
    Down(down::Args),
    Open(open::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    Check(check::Args),
    Demo(demo::Args),
    Run(run::Args),
    Start(start::Args),
    Stop(stop::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    New(new::Args),
    Send(send::Args),
    Peek(peek::Args),
    Agents(agents::Args),
    Tasks(tasks::Args),
    Runs(runs::Args),
    RunTree(run_tree::Args),
    Route(route::Args),
    Resources(resources::Args),
    Handoffs(handoffs::Args),
    Deliveries(deliveries::Args),
    Endpoints(endpoints::Args),
    Log(log::Args),
    Resolve(resolve::Args),
    Release(release::Args),
    Assign(assign::Args),
    Retry(retry::Args),
    Cancel(cancel::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Replay(replay::Args),
    Redact(redact::Args),
    Export(export::Args),
    Import(import::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Migrate(migrate::Args),
    Artifacts(artifacts::Args),
    Envelope(envelope::Args),
    Token(token::Args),
    Sessions(sessions::Args),
    Keys(keys::Args),
    Context(context::Args),
    Mcp(mcp::Args),
    Worktree(worktree::Args),
    Instructions(instructions::Args),
    Config(config::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    Reference(reference::Args),
    #[command(hide = true)]
    Exec(exec::Args),
    #[command(hide = true)]
    Relay(relay::Args),
    #[command(hide = true)]
    CheckPayloads(check_payloads::Args),
    MockAgent(mock_agent::Args),
}

impl Command {
    /// Whether the command starts the daemon that it needs. Only those that put agents to work do: one that asks or changes
    /// something in a folder without a daemon is most likely typed in the wrong folder.
    pub fn start(&self) -> Start {
        match self {
            Command::Up(_)
            | Command::Demo(_)
            | Command::Run(_)
            | Command::Start(_)
            | Command::New(_)
            | Command::Mcp(_) => Start::IfNeeded,
            _ => Start::Never,
        }
    }
}

/// Runs one command.
pub async fn run(context: &Context, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(args) => up::run(context, args).await,
        Command::Down(args) => down::run(context, args).await,
        Command::Open(args) => open::run(context, args).await,
        Command::Status(args) => status::run(context, args).await,
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Check(args) => check::run(context, args),
        Command::Demo(args) => demo::run(context, args).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Start(args) => start::run(context, args).await,
        Command::Stop(args) => stop::run(context, args).await,
        Command::List(args) => list::run(context, args).await,
        Command::New(args) => new::run(context, args).await,
        Command::Send(args) => send::run(context, args).await,
        Command::Peek(args) => peek::run(context, args).await,
        Command::Agents(args) => agents::run(context, args).await,
        Command::Tasks(args) => tasks::run(context, args).await,
        Command::Runs(args) => runs::run(context, args).await,
        Command::RunTree(args) => run_tree::run(context, args).await,
        Command::Route(args) => route::run(context, args).await,
        Command::Resources(args) => resources::run(context, args).await,
        Command::Handoffs(args) => handoffs::run(context, args).await,
        Command::Deliveries(args) => deliveries::run(context, args).await,
        Command::Endpoints(args) => endpoints::run(context, args).await,
        Command::Log(args) => log::run(context, args).await,
        Command::Resolve(args) => resolve::run(context, args).await,
        Command::Release(args) => release::run(context, args).await,
        Command::Assign(args) => assign::run(context, args).await,
        Command::Retry(args) => retry::run(context, args).await,
        Command::Cancel(args) => cancel::run(context, args).await,
        Command::Pause(args) => pause::run(context, args).await,
        Command::Resume(args) => resume::run(context, args).await,
        Command::Replay(args) => replay::run(context, args).await,
        Command::Redact(args) => redact::run(context, args).await,
        Command::Export(args) => export::run(context, args).await,
        Command::Import(args) => import::run(context, args).await,
        Command::Backup(args) => backup::run(context, args).await,
        Command::Restore(args) => restore::run(context, args).await,
        Command::Migrate(args) => migrate::run(context, args).await,
        Command::Artifacts(args) => artifacts::run(context, args).await,
        Command::Envelope(args) => envelope::run(context, args),
        Command::Token(args) => token::run(context, args).await,
        Command::Sessions(args) => sessions::run(context, args).await,
        Command::Keys(args) => keys::run(context, args).await,
        Command::Context(args) => context::run(context, args).await,
        Command::Mcp(args) => mcp::run(context, args).await,
        Command::Worktree(args) => worktree::run(context, args).await,
        Command::Instructions(args) => instructions::run(context, args),
        Command::Config(args) => config::run(context, args),
        Command::Schema(args) => schema::run(context, args).await,
        Command::Completions(args) => completions::run(context, args),
        Command::Man(args) => man::run(context, args),
        Command::Reference(args) => reference::run(context, args),
        Command::Exec(args) => exec::run(context, &args),
        Command::Relay(args) => relay::run(context, args).await,
        Command::CheckPayloads(args) => check_payloads::run(&args),
        Command::MockAgent(args) => mock_agent::run(args).await,
    }
}
