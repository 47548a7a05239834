//! The `rookery` command; everything is in the library.

/// Requests are many small allocations on several threads, which is what this allocator is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    rookery::cli::main()
}
