//! `cargo lab`: see [`mooring_tests::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    mooring_tests::cli::main()
}
