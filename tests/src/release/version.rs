//! The version, and every place of the source that names it.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;
use crate::assets;

/// A version as Cargo and Helm know it: `MAJOR.MINOR.PATCH`, and perhaps `-rc.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Reads one; a `v` before it, as tags have it, does not count.
    ///
    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> Result<Self, Error> {
        let plain = text.strip_prefix('v').unwrap_or(text);
        let (numbers, pre) = plain.split_once('-').map_or((plain, None), |(numbers, pre)| (numbers, Some(pre)));
        let number = |part: &str| part.parse::<u32>().is_ok_and(|number| number.to_string() == part);
        let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let good = numbers.split('.').count() == 3
            && numbers.split('.').all(number)
            && pre.is_none_or(|pre| pre.split('.').all(word));
        if good { Ok(Self(plain.to_owned())) } else { Err(Error::NoVersion(text.to_owned())) }
    }

    /// `MAJOR.MINOR`, as numbers.
    #[must_use]
    pub fn series(&self) -> (u32, u32) {
        let mut numbers = self.0.split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The files and folders that name the version. `Cargo.lock` follows `Cargo.toml`.
const NAMED_IN: [&str; 4] = ["Cargo.toml", "charts", "manifests", "static-pod"];

/// The lock files that have the packages' versions, by the folders of their workspaces.
const LOCKED_IN: [&str; 2] = [".", "fuzz"];

/// Where a line of that file names the version: that of the workspace, of a chart, or of an image.
fn named(file: &Path, line: &str) -> Option<Range<usize>> {
    let name = file.file_name()?.to_str()?;
    let begin = match name {
        "Cargo.toml" => line.starts_with("version = \"").then_some("version = \"".len()),
        "Chart.yaml" => ["version: ", "appVersion: \""].iter().find(|key| line.starts_with(**key)).map(|key| key.len()),
        _ => ["image: mooring-agent:", "image: mooring-allocator:"]
            .iter()
            .find_map(|image| line.find(image).map(|place| place + image.len())),
    }?;
    let length = line[begin..].find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-');
    Some(begin..length.map_or(line.len(), |length| begin + length))
}

/// A place that names a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, from the top folder.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The version.
    pub version: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}:{} says {}", self.file.display(), self.line, self.version)
    }
}

/// Every place that names the version, in the order of the files.
///
/// # Errors
/// A file cannot be read.
pub fn places(root: &Path) -> Result<Vec<Place>, Error> {
    let mut all = Vec::new();
    for file in files(root)? {
        let text = read(&root.join(&file))?;
        let lines = text.lines().enumerate().filter_map(|(line, text)| Some((line, &text[named(&file, text)?])));
        all.extend(lines.map(|(line, version)| Place {
            file: file.clone(),
            line: line + 1,
            version: version.to_owned(),
        }));
    }
    Ok(all)
}

/// Whether every place names that version.
///
/// # Errors
/// [`Error::OtherVersion`] names those that do not.
pub fn check(root: &Path, version: &Version) -> Result<(), Error> {
    let others = places(root)?.into_iter().filter(|place| place.version != version.0);
    let others: Vec<String> = others.map(|place| place.to_string()).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::OtherVersion { wanted: version.to_string(), others: others.join("\n") })
}

/// Writes that version to every place, and into the lock files. Returns how many places there were.
///
/// # Errors
/// A file cannot be read or written, or Cargo does not write its lock file.
pub fn write(root: &Path, version: &Version) -> Result<usize, Error> {
    let count = write_places(root, version)?;
    for folder in LOCKED_IN {
        let mut cargo = Command::new(assets::cargo()?);
        cargo.current_dir(root.join(folder)).args(["update", "--quiet", "--workspace"]);
        assets::run(&mut cargo)?;
    }
    Ok(count)
}

fn write_places(root: &Path, version: &Version) -> Result<usize, Error> {
    let mut count = 0;
    for file in files(root)? {
        let path = root.join(&file);
        let old = read(&path)?;
        let mut new = String::with_capacity(old.len());
        for line in old.split_inclusive('\n') {
            match named(&file, line) {
                Some(place) => {
                    count += 1;
                    new.extend([&line[..place.start], &version.0, &line[place.end..]]);
                }
                None => new.push_str(line),
            }
        }
        if new != old {
            fs::write(&path, new).map_err(Error::io(format!("write {}", path.display())))?;
        }
    }
    Ok(count)
}

/// The files that may name it, from the top folder.
fn files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for name in NAMED_IN {
        let path = root.join(name);
        let found = if path.is_dir() { super::files_below(&path)? } else { vec![PathBuf::new()] };
        all.extend(
            found
                .into_iter()
                .map(|file| if file.as_os_str().is_empty() { name.into() } else { Path::new(name).join(file) }),
        );
    }
    Ok(all)
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for good in ["0.1.0", "1.20.3", "0.2.0-rc.1", "v0.1.0"] {
            assert_eq!(Version::read(good).unwrap().to_string(), good.trim_start_matches('v'));
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-a..b", "1.2.3+b", "latest", "1.2.3 "]
        {
            assert!(Version::read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Version::read("0.12.0-rc.1").unwrap().series(), (0, 12));
    }

    #[test]
    fn the_source_names_one_version_everywhere() {
        let root = super::super::root();
        let version = Version::read(env!("CARGO_PKG_VERSION")).unwrap();
        check(&root, &version).unwrap();
        let all = places(&root).unwrap();
        let names = |end: &str| all.iter().filter(|place| place.file.ends_with(end)).count();
        let wanted = [
            ("Cargo.toml", 1),
            ("Chart.yaml", 4),
            ("static-pod/mooring-agent.yaml", 1),
            ("daemonset.yaml", 2),
            ("deployment.yaml", 1),
        ];
        for (file, count) in wanted {
            assert_eq!(names(file), count, "{file} in {all:#?}");
        }
    }

    #[test]
    fn another_version_is_refused_and_written_everywhere() {
        let copy = tempfile::tempdir().unwrap();
        for file in files(&super::super::root()).unwrap() {
            let to = copy.path().join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(super::super::root().join(&file), to).unwrap();
        }
        let next = Version::read("7.8.9-rc.1").unwrap();
        let refused = check(copy.path(), &next).unwrap_err().to_string();
        for place in ["Cargo.toml:", "charts/mooring-agent/Chart.yaml:", "static-pod/mooring-agent.yaml:"] {
            assert!(refused.contains(place), "{refused}");
        }
        let count = write_places(copy.path(), &next).unwrap();
        assert_eq!(count, places(copy.path()).unwrap().len());
        check(copy.path(), &next).unwrap();
    }
}
