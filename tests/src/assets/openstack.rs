//! Neutron and Keystone: Python packages, of pinned versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cache, Error, sha256, tools};
use crate::progress;

/// What pins the versions, and the programs that start them.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/openstack");

/// Neutron and Keystone, installed.
#[derive(Clone, Debug)]
pub struct OpenStackPrograms {
    /// The folder of the Python environment.
    pub environment: PathBuf,
    /// The folder of the programs that start them.
    pub starters: PathBuf,
}

impl OpenStackPrograms {
    /// Python of the environment.
    #[must_use]
    pub fn python(&self) -> PathBuf {
        self.environment.join("bin/python")
    }
}

/// Neutron and Keystone from the cache; the first time they are installed by pip: about a minute, and 400 MB.
///
/// # Errors
/// There is no Python with `venv`, or no way to the packages.
pub fn openstack() -> Result<OpenStackPrograms, Error> {
    let pins = Path::new(FOLDER).join("requirements.txt");
    let cache = Cache::of_user()?;
    let environment = cache.folder(&format!("openstack-{}", &sha256(&pins)?[..12]));
    let found = OpenStackPrograms { environment, starters: FOLDER.into() };
    if found.python().is_file() {
        return Ok(found);
    }
    let missing = |program: &str, error: &dyn std::fmt::Display| Error::Missing {
        program: program.to_owned(),
        detail: format!("real OpenStack needs it: {error}"),
    };
    let python = tools::on_path("python3").ok_or_else(|| missing("python3", &"install python3 with python3-venv"))?;
    let _lock = cache.lock("openstack")?;
    if found.python().is_file() {
        return Ok(found);
    }
    // It appears whole: with its name it has its packages.
    let making = found.environment.with_extension("making");
    if making.exists() {
        fs::remove_dir_all(&making).map_err(Error::io(format!("remove {}", making.display())))?;
    }
    progress::while_busy("installing Neutron and Keystone with pip (about 1 min, 400 MB)", || {
        tools::run(Command::new(python).args(["-m", "venv"]).arg(&making))
            .map_err(|error| missing("python3-venv", &error))?;
        let pip =
            [&["-m", "pip", "install", "--quiet", "--no-deps", "--retries=1", "--timeout=20"], &["-r"][..]].concat();
        tools::run(Command::new(making.join("bin/python")).args(pip).arg(&pins))
            .map_err(|error| missing("the packages of Neutron and Keystone", &error))
    })?;
    fs::rename(&making, &found.environment).map_err(Error::io(format!(
        "rename {} to {}",
        making.display(),
        found.environment.display()
    )))?;
    Ok(found)
}
