//! `cargo lab kubeadm`

use std::process::ExitCode;

use anyhow::Result;

use super::door::{Door, free};
use crate::kubeadm::cluster::KubeadmCluster;
use crate::kubeadm::{Act, bare};
use crate::report::Report;
use crate::runner::Skip;
use crate::{guard, kubeadm, progress};

/// What to do with the cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Do only this, once the cluster is there [default: everything]
    #[arg(value_enum)]
    acts: Vec<Act>,
    /// Leave the cluster until Ctrl-C or `cargo lab down`, and say how to use it
    #[arg(long)]
    stay: bool,
    /// Make the machines only, with all that kubeadm needs, and leave the rest to a person
    #[arg(long, conflicts_with_all = ["acts", "stay"])]
    bare: bool,
}

/// Runs it; `name` is that of the lab, for `cargo lab enter`. A machine that cannot is told why; that is no failure.
pub fn run(name: &str, args: &Args) -> Result<ExitCode> {
    match tokio::runtime::Runtime::new()?.block_on(guard::guarded(work(name, args)))? {
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

/// Answers whether all was well.
async fn work(name: &str, args: &Args) -> Result<bool> {
    if args.stay || args.bare {
        // Known before the minutes that the cluster takes.
        free(name)?;
    }
    let other = if name == "default" { String::new() } else { format!(" --name {name}") };
    let (enter, down) = (format!("cargo lab{other} enter"), format!("cargo lab{other} down"));
    let mut report = Report::to_stdout();
    if args.bare {
        let (cluster, parts) = bare::machines().await?;
        report.title(&format!("The machines stay until Ctrl-C, or `{down}`"));
        report.detail(&bare::explain(&cluster, &parts, &enter));
        stay(name, cluster).await?;
        return Ok(true);
    }
    let (cluster, good) = kubeadm::tell(args.acts.clone()).await?;
    if args.stay {
        report.title(&format!("The cluster stays until Ctrl-C, or `{down}`"));
        report.detail(&cluster.way_in(&enter));
        stay(name, cluster).await?;
    } else {
        cluster.down();
    }
    Ok(good)
}

/// Lets others in until one of them wants the lab down.
async fn stay(name: &str, cluster: KubeadmCluster) -> Result<()> {
    let mut door = Door::open(name)?;
    let lab = cluster.rig.lab.clone();
    let leave = door.keep(&lab, || cluster.programs()).await?;
    let folder = lab.dir().to_owned();
    cluster.down();
    drop(lab);
    drop(door);
    leave.gone(&folder).await;
    Ok(())
}
