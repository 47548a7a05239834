//! The `agent-worker` command: the same program as `rookery` under the name that workflow files and scripts know.

fn main() -> std::process::ExitCode {
    rookery::cli::main()
}
