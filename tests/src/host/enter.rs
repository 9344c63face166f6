//! Running a command on a host of another process's lab.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use nix::sched::{CloneFlags, setns};

use super::Error;

/// Runs a command on the host whose init has this PID, and waits for its end. Call this before the process starts
/// threads: the process itself enters all the host's namespaces. `programs`: a folder that is searched first for the
/// command.
///
/// # Errors
/// The host is gone, this user may not enter it, or the command cannot be executed.
pub fn enter(init: u32, command: &[String], programs: Option<&Path>) -> Result<ExitStatus, Error> {
    let open = |kind: &str| {
        let path = format!("/proc/{init}/ns/{kind}");
        File::open(&path).map_err(Error::io(format!("open {path} (is the lab down, or another user's?)")))
    };
    // All namespace files are opened first: once inside, /proc is the host's. The user namespace, if the host has its
    // own (an ordinary user's lab), is entered first: it gives the right to enter the others. A process cannot enter
    // the user namespace that it is already in.
    let own = File::open("/proc/self/ns/user").and_then(|file| file.metadata()).map_err(Error::io("look at /proc"))?;
    let user = open("user")?;
    let inside = user.metadata().map_err(Error::io("look at a namespace"))?.ino() == own.ino();
    let mut doors = if inside { Vec::new() } else { vec![(user, CloneFlags::CLONE_NEWUSER)] };
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
    let found = programs.map(|folder| folder.join(program)).filter(|path| path.is_file());
    let mut command = found.map_or_else(|| Command::new(program), Command::new);
    if let Some(folder) = programs {
        // For what a shell is asked for.
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&rest));
        if let Ok(path) = std::env::join_paths(path) {
            command.env("PATH", path);
        }
    }
    command.args(args).status().map_err(Error::io(format!("execute {program}")))
}
