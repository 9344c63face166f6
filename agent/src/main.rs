//! `mooring-agent`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mooring_agent::cli::main(std::env::args_os())
}
