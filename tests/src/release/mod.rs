//! `cargo lab release`: all that a release is, into `dist/`. The same commit, toolchain and registry give the same bytes.
//!
//! [`version`] and [`source`] say of what; [`oci`], [`sbom`], [`charts`] and [`manifests`] make one kind of file each.

mod charts;
mod error;
mod manifests;
mod oci;
mod program;
mod runtime;
mod sbom;
mod source;
mod target;
mod version;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use error::Error;
pub use manifests::kustomize;
pub use program::Program;
pub use source::Commit;
pub use target::Target;
pub use version::Version;

use crate::assets;

/// The most that a program may take: what is in an image is the program.
pub(crate) const LARGEST: usize = 12_000_000;

/// What a release is made of, besides the source's files.
#[derive(Clone, Debug)]
pub struct Release {
    /// The top folder of the source.
    pub root: PathBuf,
    /// Its version: the source must name it everywhere.
    pub version: Version,
    /// Where the images will be pushed to: `registry.example.org/mooring`. None: manifests name the images without a registry.
    pub registry: Option<String>,
    /// The commit.
    pub commit: Commit,
}

/// A program that was built.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Which.
    pub program: Program,
    /// For which machines.
    pub target: Target,
    /// What the file is.
    pub bytes: Vec<u8>,
}

/// A file of the release.
struct File {
    bytes: Vec<u8>,
    executable: bool,
}

/// The top folder of the source.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// Writes a version to every place of the source that names it. Returns how many there are.
///
/// # Errors
/// It is no version, or a file cannot be written.
pub fn write_version(version: &str) -> Result<usize, Error> {
    version::write(&root(), &Version::read(version)?)
}

impl Release {
    /// The release of the last commit, when it says what was asked for.
    ///
    /// # Errors
    /// The source names another version, or has files that no commit has.
    pub fn of_last_commit(version: &str, registry: Option<String>, uncommitted: bool) -> Result<Self, Error> {
        let (root, version) = (root(), Version::read(version)?);
        version::check(&root, &version)?;
        if let Some(name) = &registry {
            let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "./:-_".contains(c);
            if name.is_empty() || name.ends_with('/') || !name.chars().all(letter) {
                return Err(Error::unexpected("--registry", format!("{name:?} is no HOST/PATH in small letters")));
            }
        }
        let commit = Commit::last(&root, uncommitted)?;
        Ok(Self { root, version, registry, commit })
    }

    /// The name of a program's image.
    #[must_use]
    pub fn image(&self, program: Program) -> String {
        let registry = self.registry.as_ref().map(|registry| format!("{registry}/")).unwrap_or_default();
        format!("{registry}{}:{}", program.name(), self.version)
    }

    /// Builds a program.
    ///
    /// # Errors
    /// The build fails, or the program is too large.
    pub fn build(&self, program: Program, target: Target) -> Result<Binary, Error> {
        let mut variables = Vec::from_iter(target.linker());
        if self.registry.is_some() {
            // `mooring-agent manifest` prints the name of its image, which without a registry it knows itself.
            variables.push(("MOORING_IMAGE".to_owned(), self.image(Program::Agent)));
        }
        let file = assets::static_program(program.name(), target.triple(), &variables)?;
        let bytes = fs::read(&file).map_err(Error::io(format!("read {}", file.display())))?;
        if bytes.len() > LARGEST {
            let problem = format!("it has {} bytes, at most {LARGEST} are allowed", bytes.len());
            return Err(Error::unexpected(file.display().to_string(), problem));
        }
        Ok(Binary { program, target, bytes })
    }

    /// The image of a program, as an OCI archive.
    ///
    /// # Errors
    /// The commit's time cannot be written.
    pub fn archive(&self, binary: &Binary) -> Result<Vec<u8>, Error> {
        let image = oci::Image {
            program: binary.program,
            binary: &binary.bytes,
            target: binary.target,
            version: &self.version,
            name: &self.image(binary.program),
            commit: &self.commit,
        };
        image.archive()
    }

    /// Writes all files into that folder, in place of what was there. Returns their names and sizes.
    ///
    /// # Errors
    /// A part cannot be made, or the folder cannot be written.
    pub fn write(&self, binaries: &[Binary], folder: &Path) -> Result<Vec<(String, usize)>, Error> {
        let files = self.files(binaries)?;
        let writing = |path: &Path| Error::io(format!("write {}", path.display()));
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(Error::io(format!("remove {}", folder.display())))?;
        }
        fs::create_dir_all(folder).map_err(writing(folder))?;
        for (name, file) in &files {
            let path = folder.join(name);
            fs::write(&path, &file.bytes).map_err(writing(&path))?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(writing(&path))?;
        }
        Ok(files.into_iter().map(|(name, file)| (name, file.bytes.len())).collect())
    }

    fn files(&self, binaries: &[Binary]) -> Result<BTreeMap<String, File>, Error> {
        let mut all = BTreeMap::new();
        let mut put = |name: String, bytes, executable| all.insert(name, File { bytes, executable });
        for binary in binaries {
            let (program, target) = (binary.program, binary.target);
            let name = format!("{}-{}-linux-{}", program.name(), self.version, target.arch());
            let digest = assets::sha256_of(&binary.bytes);
            let parts = sbom::of(&self.root, program, target, &digest, &self.commit)?;
            put(format!("{name}.cdx.json"), format!("{parts:#}\n").into_bytes(), false);
            put(format!("{name}.oci.tar"), self.archive(binary)?, false);
            put(name, binary.bytes.clone(), true);
        }
        let registry = self.registry.as_deref();
        for program in Program::ALL {
            let name = program.name();
            let chart = charts::package(&self.root.join("charts").join(name), name, registry, self.commit.time)?;
            put(format!("{name}-{}.tgz", self.version), chart, false);
        }
        for (name, bytes) in manifests::all(&self.root, &self.version, registry)? {
            put(name, bytes, false);
        }
        let lines = all.iter().map(|(name, file)| format!("{}  {name}\n", assets::sha256_of(&file.bytes)));
        let sums: String = lines.collect();
        all.insert("SHA256SUMS".to_owned(), File { bytes: sums.into_bytes(), executable: false });
        Ok(all)
    }
}

/// Every file below a folder, by its path from there, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let path = folder.join(&inner);
        let reading = || Error::io(format!("read {}", path.display()));
        for entry in fs::read_dir(&path).map_err(reading())? {
            let entry = entry.map_err(reading())?;
            let name = inner.join(entry.file_name());
            let list = if entry.file_type().map_err(reading())?.is_dir() { &mut open } else { &mut found };
            list.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// The text with the only `old` in it replaced.
fn replaced(text: &str, old: &str, new: &str, file: &str) -> Result<String, Error> {
    if text.matches(old).count() != 1 {
        return Err(Error::unexpected(file, format!("it should have {old:?} once")));
    }
    Ok(text.replacen(old, new, 1))
}

#[cfg(test)]
mod tests;
