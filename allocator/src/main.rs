//! `mooring-allocator`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mooring_allocator::cli::main(std::env::args_os())
}
