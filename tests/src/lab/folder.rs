//! The folder of a lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::host::Error;

/// A folder that is deleted with the lab.
#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub(super) keep: AtomicBool,
}

impl Folder {
    const PREFIX: &'static str = "mooring-lab-";
    pub(super) const KEPT: &'static str = "kept";

    /// Makes `mooring-lab-PID-...` in the folder for temporary files, and deletes the folders of labs that were killed.
    pub fn new() -> Result<Self, Error> {
        let all = std::env::temp_dir();
        for entry in fs::read_dir(&all).map_err(Error::io(format!("read {}", all.display())))?.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(Self::PREFIX)?.split('-').next());
            if pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
                && !entry.path().join(Self::KEPT).exists()
            {
                // The system refuses to delete another user's folder; that is no error here.
                drop(fs::remove_dir_all(entry.path()));
            }
        }
        let path = tempfile::Builder::new()
            .prefix(&format!("{}{}-", Self::PREFIX, std::process::id()))
            .tempdir_in(&all)
            .map_err(Error::io(format!("make a folder in {}", all.display())))?
            .keep();
        Ok(Self { path, keep: AtomicBool::new(false) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.keep.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            crate::progress::line(format_args!("cannot delete {}: {error}", self.path.display()));
        }
    }
}
