//! The lab's cache: `$XDG_CACHE_HOME/mooring` or `~/.cache/mooring`. Files appear in it whole or not at all.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Error;
use crate::progress;

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// The user's.
    ///
    /// # Errors
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn of_user() -> Result<Self, Error> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        let missing = || std::io::Error::other("set XDG_CACHE_HOME or HOME to a folder");
        Ok(Self(base.ok_or_else(missing).map_err(Error::io("find the cache"))?.join("mooring")))
    }

    /// One at that place.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// A folder of the cache.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Waits until no other lab makes `what`. The lock ends with the answer, and with the process.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn lock(&self, what: &str) -> Result<File, Error> {
        fs::create_dir_all(&self.0).map_err(Error::io(format!("make the folder {}", self.0.display())))?;
        let path = self.0.join(format!(".{what}.lock"));
        let file = File::create(&path).map_err(Error::io(format!("open {}", path.display())))?;
        let locking = || Error::io(format!("lock {}", path.display()));
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("waiting for another lab that fetches or builds {what}");
                progress::while_busy(&what, || file.lock()).map_err(locking())?;
            }
            Err(TryLockError::Error(error)) => return Err(locking()(error)),
        }
        Ok(file)
    }

    /// Lets `make` write an executable file under another name and renames it to `path` when that worked.
    ///
    /// # Errors
    /// What `make` says, or the folder cannot be written.
    pub fn fill<T>(&self, path: &Path, make: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
        let folder = path.parent().unwrap_or(&self.0);
        let writing = |what: &str| Error::io(format!("{what} {}", path.display()));
        fs::create_dir_all(folder).map_err(writing("make the folder of"))?;
        let temporary = tempfile::Builder::new().prefix(".making-").tempdir_in(folder).map_err(writing("make"))?;
        let to = temporary.path().join(path.file_name().unwrap_or_default());
        let result = make(&to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(writing("make executable"))?;
        fs::rename(&to, path).map_err(writing("rename to"))?;
        Ok(result)
    }
}
