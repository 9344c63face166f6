//! `cargo lab kubeadm`

use std::process::ExitCode;

use anyhow::Result;

use crate::kubeadm::Act;
use crate::runner::Skip;
use crate::{guard, kubeadm, progress};

/// What to do with the cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Do only this, once the cluster is there [default: everything]
    #[arg(value_enum)]
    acts: Vec<Act>,
    /// Leave the cluster until Ctrl-C, and say how to use it
    #[arg(long)]
    stay: bool,
}

/// Runs it. A machine that cannot is told why; that is no failure.
pub fn run(args: &Args) -> Result<ExitCode> {
    match tokio::runtime::Runtime::new()?.block_on(guard::guarded(kubeadm::tell(args.acts.clone(), args.stay)))? {
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
