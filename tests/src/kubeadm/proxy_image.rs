//! The image of kube-proxy: with the programs that it runs, nft and, where the machine has them, those of iptables and ipset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result};

use super::image::Image;
use super::images::{REPOSITORY, in_path, libraries};
use crate::assets::{self, KUBERNETES, Product};

/// Where the image has the programs.
const SBIN: &str = "/usr/sbin";
/// What iptables mode runs. On most systems all are one program, which looks at its name.
const IPTABLES: [&str; 6] =
    ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];
/// What IPVS mode runs beside them.
const IPSET: &str = "ipset";
/// Their library, which loads matches and targets out of a folder beside it.
const XTABLES: &str = "libxtables.so";
/// The names of protocols. Without them nft lists 6 for tcp, and a kube-proxy that starts again takes its own elements for others, and
/// deletes them.
const PROTOCOLS: &str = "/etc/protocols";

/// The image.
///
/// # Errors
/// nft or kube-proxy cannot be had, or `ldd` cannot be run.
pub fn image() -> Result<Image> {
    let nft = assets::ensure("nft", "nftables")?;
    let more = IPTABLES.into_iter().chain([IPSET]);
    let programs: Vec<_> = more.filter_map(|name| Some((name, assets::on_path(name)?))).chain([("nft", nft)]).collect();
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, program) in programs {
        files.extend(libraries(&program)?);
        files.insert(format!("{SBIN}/{name}"), program);
    }
    let xtables = files.iter().find(|(to, _)| to.contains(XTABLES)).map(|(_, from)| from.clone());
    for extension in xtables.map(|library| extensions(&library)).transpose()?.unwrap_or_default() {
        files.extend(libraries(&extension)?);
        files.insert(extension.display().to_string(), extension);
    }
    if Path::new(PROTOCOLS).is_file() {
        files.insert(PROTOCOLS.to_owned(), PROTOCOLS.into());
    }
    files.insert(in_path("kube-proxy"), assets::one(Product::KubeProxy)?.path);
    let name = format!("{REPOSITORY}/kube-proxy:v{KUBERNETES}");
    Ok(Image { names: vec![name], entry: Vec::new(), files: files.into_iter().collect() })
}

/// The matches and targets of iptables: none where only nft, which needs the library too, is installed.
fn extensions(library: &Path) -> Result<Vec<PathBuf>> {
    let library = fs::canonicalize(library).with_context(|| format!("find {}", library.display()))?;
    let folder = library.with_file_name("xtables");
    let files = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.with_context(|| format!("read {}", folder.display()))?.flatten(),
    };
    Ok(files.map(|file| file.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_iptables_has_the_library_and_no_extensions() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libxtables.so.12");
        fs::write(&library, "").unwrap();
        assert!(extensions(&library).unwrap().is_empty());
        fs::create_dir(dir.path().join("xtables")).unwrap();
        fs::write(dir.path().join("xtables/libxt_tcp.so"), "").unwrap();
        assert_eq!(extensions(&library).unwrap().len(), 1);
    }
}
