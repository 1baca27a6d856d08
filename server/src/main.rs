//! The entry point of `kstore-server`: parses the command line and hands over to the library.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    kstore_server::main(kstore_server::Cli::parse())
}
