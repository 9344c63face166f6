//! Running a command on a host of another process's lab.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};

use super::Error;

/// What a command finds on a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The folders that are searched first for it.
    pub programs: Vec<PathBuf>,
    /// Its home: what it writes there is no business of the user's own.
    pub home: PathBuf,
}

/// Runs a command on the host whose init has this PID, and waits for its end. Call this before the process starts
/// threads: the process itself enters all the host's namespaces.
///
/// # Errors
/// The host is gone, this user may not enter it, or the command cannot be executed.
pub fn enter(init: u32, command: &[String], inside: &Inside) -> Result<ExitStatus, Error> {
    let open = |kind: &str| {
        let path = format!("/proc/{init}/ns/{kind}");
        File::open(&path).map_err(Error::io(format!("open {path} (is the lab down, or another user's?)")))
    };
    // All namespace files are opened first: once inside, /proc is the host's. The user namespace, if the host has its
    // own (an ordinary user's lab), is entered first: it gives the right to enter the others. A process cannot enter
    // the user namespace that it is already in.
    let own = File::open("/proc/self/ns/user").and_then(|file| file.metadata()).map_err(Error::io("look at /proc"))?;
    let user = open("user")?;
    let already = user.metadata().map_err(Error::io("look at a namespace"))?.ino() == own.ino();
    let mut doors = if already { Vec::new() } else { vec![(user, CloneFlags::CLONE_NEWUSER)] };
    for (kind, flag) in [
        ("net", CloneFlags::CLONE_NEWNET),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ] {
        doors.push((open(kind)?, flag));
    }
    for (door, flag) in doors {
        setns(door, flag).map_err(Error::namespace("enter the host's namespaces"))?;
    }
    let shell = ["/bin/sh".to_owned()];
    let [program, args @ ..] = (if command.is_empty() { &shell[..] } else { command }) else {
        return Err(Error::Unknown { what: "command", name: String::new() });
    };
    let found = inside.programs.iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    let mut command = found.map_or_else(|| Command::new(program), Command::new);
    // For what a shell is asked for.
    let rest = std::env::var_os("PATH").unwrap_or_default();
    if let Ok(path) = std::env::join_paths(inside.programs.iter().cloned().chain(std::env::split_paths(&rest))) {
        command.env("PATH", path);
    }
    command.env("HOME", &inside.home);
    command.args(args).status().map_err(Error::io(format!("execute {program}")))
}
