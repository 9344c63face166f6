//! A chart's package, as `helm package` lays it out: the chart's folder under the chart's name, packed.

use std::fs;
use std::path::Path;

use super::{Error, replaced};
use crate::image::archive::{self, Entry};

/// Packs the chart in a folder; `name` is the chart's name and the folder's. With a registry, its values name the image there.
///
/// # Errors
/// A file cannot be read, or the values do not name the image.
pub fn package(folder: &Path, name: &str, registry: Option<&str>, time: u64) -> Result<Vec<u8>, Error> {
    let ignored = text(&folder.join(".helmignore"))?;
    let ignored: Vec<&str> = ignored.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut entries = Vec::new();
    for file in super::files_below(folder)? {
        let path = file.to_string_lossy().into_owned();
        if ignored.iter().any(|pattern| matches(pattern, &path)) {
            continue;
        }
        let mut content = text(&folder.join(&file))?;
        if let (Some(registry), "values.yaml") = (registry, path.as_str()) {
            let (old, new) = (format!("\n  repository: {name}\n"), format!("\n  repository: {registry}/{name}\n"));
            content = replaced(&content, &old, &new, &format!("{name}/values.yaml"))?;
        }
        entries.push(Entry::new(format!("{name}/{path}"), content));
    }
    let packed = archive::tar(entries, time).and_then(|files| archive::gzip(&files));
    packed.map_err(Error::io(format!("pack the chart {name}")))
}

/// Whether a line of `.helmignore` matches a file: the forms that our charts use.
fn matches(pattern: &str, path: &str) -> bool {
    if let Some(folder) = pattern.strip_suffix('/') {
        return path.split('/').rev().skip(1).any(|part| part == folder);
    }
    match pattern.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path.split('/').any(|part| part == pattern),
    }
}

fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::super::program::Program;
    use super::*;

    #[test]
    fn ignored() {
        assert!(matches("ci/", "ci/all-values.yaml") && matches("*.tgz", "a/b.tgz") && matches(".git", ".git/config"));
        assert!(!matches("ci/", "templates/ci") && !matches("*.tgz", "a.tgz.yaml") && !matches(".git", ".gitignore"));
    }

    #[test]
    fn a_package_has_what_is_needed_and_names_the_registry() {
        for program in Program::ALL {
            let folder = super::super::root().join("charts").join(program.name());
            let packed = package(&folder, program.name(), Some("registry.example.org/mooring"), 0).unwrap();
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
            let mut files = std::collections::BTreeMap::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                let mut text = String::new();
                std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
                files.insert(path, text);
            }
            let name = program.name();
            for needed in
                ["Chart.yaml", "values.yaml", "values.schema.json", "templates/_helpers.tpl", "files/rules.yaml"]
            {
                assert!(files.contains_key(&format!("{name}/{needed}")), "{needed} in {:#?}", files.keys());
            }
            assert!(!files.keys().any(|path| path.contains("/ci/")), "{:#?}", files.keys());
            let repository = format!("\n  repository: registry.example.org/mooring/{name}\n");
            assert!(files[&format!("{name}/values.yaml")].contains(&repository));
        }
    }
}
