//! Root for an ordinary user: a user namespace in which he is root, and which owns all namespaces of the lab.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::host::Error;

/// Set in the environment of the program that runs inside.
const INSIDE: &str = "MOORING_LAB_IN_USER_NAMESPACE";

/// Returns at once for root. For anybody else starts this program again inside a new user namespace, and returns only
/// when that fails. To be called before there are threads.
///
/// # Errors
/// The kernel does not allow user namespaces; the message says what to do.
pub fn become_root() -> Result<(), Error> {
    if geteuid().is_root() || std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(Error::namespace("make a user namespace"))?;
    let write = |path: &str, text: String| fs::write(path, text).map_err(Error::io(format!("write {path}")));
    // Without this the kernel refuses the group map of somebody who is not root.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))?;
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(Error::io("start again inside a user namespace")(error))
}

/// Whether this is the machine's own root, who may install packages.
#[must_use]
pub fn is_machine_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}
