//! The `rookery` command; everything is in the library.

fn main() -> std::process::ExitCode {
    rookery::cli::main()
}
