//! The images start as the manifests start them: the release's archives, in a [`Container`].

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::container::Container;
use crate::release::{Binary, Program, Release, Target};
use crate::runner::Skip;
use crate::userns;

/// What the manifests let the agent keep.
const KEPT: [&str; 2] = ["CAP_NET_ADMIN", "CAP_NET_RAW"];

/// Builds both programs, packs them, and starts them.
pub fn start(folder: &Path) -> Result<()> {
    if !userns::is_machine_root() {
        return Err(Skip("runc is run as root only".into()).into());
    }
    let target = Target::of_host().context("no release is for this machine")?;
    let release = Release::of_last_commit(env!("CARGO_PKG_VERSION"), None, true)?;
    for program in Program::ALL {
        let binary: Binary = release.build(program, target)?;
        let container = Container::unpacked(&release.archive(&binary)?, &folder.join(program.name()))?;
        says_version(program, &container)?;
        runs(program, &container)?;
    }
    Ok(())
}

/// It starts, so it is static: no other file is there. And it says what it is.
pub(super) fn says_version(program: Program, container: &Container) -> Result<()> {
    let (ended, said) = container.run(&["version"], &[])?;
    let wanted = format!("{} {}\n", program.name(), env!("CARGO_PKG_VERSION"));
    ensure!(ended && said == wanted, "{program:?} version: {said}");
    Ok(())
}

/// With its two capabilities the agent runs until it is asked to end; without one it says which. The allocator starts.
pub(super) fn runs(program: Program, container: &Container) -> Result<()> {
    if program == Program::Allocator {
        let (ended, said) = container.run(&["run"], &[])?;
        // There is no cluster: it says so, with a reason that names it.
        ensure!(said.contains("mooring-allocator starts"), "{ended}: {said}");
        return Ok(());
    }
    let arguments = ["run", "--address", "192.0.2.10", "--kubeconfig", "/none"];
    let (_, said) = container.run(&arguments, &KEPT)?;
    for wanted in ["mooring-agent starts", "kubeconfig /none does not exist", "asked to end"] {
        ensure!(said.contains(wanted), "{wanted:?} is not in what the agent says:\n{said}");
    }
    let (ended, said) = container.run(&arguments, &KEPT[..1])?;
    ensure!(!ended && said.contains("missing NET_RAW"), "without NET_RAW: {said}");
    Ok(())
}
