//! The part of the machine's cgroups that a lab has: a folder in each hierarchy, deleted with the lab.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where they are.
const ROOT: &str = "/sys/fs/cgroup";
/// Followed by the PID of the lab.
const PREFIX: &str = "mooring-lab-";

/// The handle; deletes the folders when it is dropped. Hosts must have ended by then.
#[derive(Debug)]
pub struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Those of this lab. Deletes what labs have left that were killed.
    #[must_use]
    pub fn new() -> Self {
        for hierarchy in hierarchies() {
            for folder in folders(&hierarchy) {
                let name = folder.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(PREFIX));
                let gone = |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
                if name.is_some_and(gone) {
                    delete(&folder);
                }
            }
        }
        Self { name: format!("{PREFIX}{}", std::process::id()) }
    }

    /// The part of a host.
    #[must_use]
    pub fn of(&self, host: &str) -> String {
        format!("{}/{host}", self.name)
    }
}

impl Default for Cgroups {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            delete(&hierarchy.join(&self.name));
        }
    }
}

/// All of them: one with version 2, one for each set of controllers with version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    if root.join("cgroup.controllers").exists() { vec![root] } else { folders(&root) }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Deletes a group and those in it. One with a process stays, and the next lab deletes it.
fn delete(group: &Path) {
    for inner in folders(group) {
        delete(&inner);
    }
    if group.is_dir()
        && let Err(error) = fs::remove_dir(group)
    {
        tracing::debug!(%error, group = %group.display(), "a cgroup stays");
    }
}
