//! The binary `kstore-server`: parses the command line and calls the library.

use std::process::ExitCode;

/// Allocator that returns memory to the system after a busy time: see "Memory" in ARCHITECTURE.md.
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if let Some(code) = kstore_server::dropin::run(std::env::args_os()) {
        return code;
    }
    if let Some(code) = kstore_server::helper(std::env::args_os()) {
        return code;
    }
    match kstore_server::Cli::try_parse() {
        Ok(cli) => kstore_server::main(cli),
        Err(error) => kstore_server::refuse(&error, std::env::args_os().nth(1)),
    }
}
