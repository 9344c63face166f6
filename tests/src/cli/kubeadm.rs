//! `cargo lab kubeadm`

use std::process::ExitCode;

use anyhow::Result;

use crate::runner::Skip;
use crate::{guard, kubeadm, progress};

/// Runs it. A machine that cannot is told why; that is no failure.
pub fn run() -> Result<ExitCode> {
    match tokio::runtime::Runtime::new()?.block_on(guard::guarded(kubeadm::tell()))? {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => match error.downcast::<Skip>() {
            Ok(Skip(why)) => {
                progress::line(format_args!("skipped: {why}"));
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        },
    }
}
