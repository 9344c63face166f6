//! The images of a kubeadm cluster, made of the binaries that the lab finds or builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::image::Image;
use super::proxy_image;
use crate::assets::{self, ETCD, KUBERNETES, Product, Profile};

/// Where kubeadm is told to find its images. They are imported: nothing is ever pulled.
pub const REPOSITORY: &str = "lab.mooring.dev/k8s";
/// The pause container's tag.
pub const PAUSE: &str = "3.10.2";
/// What a build of etcd's image adds to its version.
const ETCD_BUILD: &str = "-0";
/// The program behind Services.
pub const BACKEND: &str = "lab.mooring.dev/backend:1";
/// Where it answers.
pub const BACKEND_PORT: u16 = 8_080;
/// Where programs are in an image.
const BIN: &str = "/usr/local/bin";

/// The archives.
#[derive(Clone, Debug)]
pub struct Images {
    /// Those that every node needs.
    pub node: Vec<PathBuf>,
    /// Those that a control plane needs beside them.
    pub control_plane: Vec<PathBuf>,
    /// The agent, by the name that the manifests have.
    pub agent: String,
    /// The same under the name of a next version.
    pub agent_next: String,
    /// The allocator, by the name that the manifests have.
    pub allocator: String,
}

impl Images {
    /// Writes them into a folder; `profile`: how our programs are built. The first time binaries are fetched or built, which takes minutes.
    ///
    /// # Errors
    /// A binary cannot be had.
    pub fn write(folder: &Path, profile: Profile) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
        let save = |file: &str, image: &Image| -> Result<PathBuf> {
            let path = folder.join(format!("{file}.tar"));
            let archive = image.archive().with_context(|| format!("make the image {}", image.names.join(" ")))?;
            fs::write(&path, archive).with_context(|| format!("write {}", path.display()))?;
            Ok(path)
        };
        let pod = assets::go_program("pod")?;
        let mut control_plane = Vec::new();
        for product in [Product::KubeApiserver, Product::KubeControllerManager, Product::KubeScheduler] {
            let found = assets::one(product)?;
            ensure!(found.version == KUBERNETES, "{found}: a kubeadm cluster needs {KUBERNETES}");
            let name = format!("{REPOSITORY}/{product}:v{KUBERNETES}");
            control_plane.push(save(product.file(), &single(&[&name], &[], &in_path(product.file()), found.path))?);
        }
        let name = format!("{REPOSITORY}/etcd:{ETCD}{ETCD_BUILD}");
        let etcd = assets::one(Product::Etcd)?.path;
        control_plane.push(save("etcd", &single(&[&name], &[], &in_path("etcd"), etcd))?);

        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let agent = named_in(&root.join("manifests/agent/daemonset.yaml"))?;
        let agent_next = format!("{agent}-next");
        let name = named_in(&root.join("manifests/allocator/deployment.yaml"))?;
        let program = in_path("pod");
        let pause = single(&[&format!("{REPOSITORY}/pause:{PAUSE}")], &[&program], &program, pod.clone());
        let backend = single(&[BACKEND], &[&program, "serve", &format!(":{BACKEND_PORT}")], &program, pod);
        let ours = |names: &[&str], file: &str, path| -> Result<Image> {
            let mut image = single(names, &[&format!("/{file}")], &format!("/{file}"), path);
            // A release build is static and has none.
            image.files.extend(libraries(&image.files[0].1)?);
            Ok(image)
        };
        let agents = ours(&[&agent, &agent_next], "mooring-agent", assets::agent(profile)?)?;
        let allocator = ours(&[&name], "mooring-allocator", assets::allocator(profile)?)?;
        let node = vec![
            save("pause", &pause)?,
            save("kube-proxy", &proxy_image::image()?)?,
            save("mooring-agent", &agents)?,
            save("mooring-allocator", &allocator)?,
            save("backend", &backend)?,
        ];
        Ok(Self { node, control_plane, agent, agent_next, allocator: name })
    }
}

/// An image of one program.
fn single(names: &[&str], entry: &[&str], at: &str, program: PathBuf) -> Image {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Image { names: owned(names), entry: owned(entry), files: vec![(at.to_owned(), program)] }
}

/// Where a program is found by its name.
pub(super) fn in_path(program: &str) -> String {
    format!("{BIN}/{program}")
}

/// The libraries of a program, each where the program looks for it; a static one has none.
pub(super) fn libraries(program: &Path) -> Result<Vec<(String, PathBuf)>> {
    let output = Command::new("ldd").arg(program).output().context("run ldd")?;
    // "libnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x...)"
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = said.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    Ok(paths.map(|path| (path.to_owned(), PathBuf::from(path))).collect())
}

/// The image that a manifest of ours names.
fn named_in(manifest: &Path) -> Result<String> {
    let text = fs::read_to_string(manifest).with_context(|| format!("read {}", manifest.display()))?;
    let image = text.lines().find_map(|line| line.trim().strip_prefix("image: "));
    image.map(str::to_owned).with_context(|| format!("{} names no image", manifest.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_name_our_images_with_a_tag() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (manifest, program) in [
            ("manifests/agent/daemonset.yaml", "mooring-agent"),
            ("manifests/allocator/deployment.yaml", "mooring-allocator"),
            ("static-pod/mooring-agent.yaml", "mooring-agent"),
        ] {
            let image = named_in(&root.join(manifest)).unwrap();
            let (name, tag) = image.rsplit_once(':').unwrap();
            assert!(name.rsplit('/').next() == Some(program) && !tag.is_empty(), "{manifest}: {image}");
        }
    }
}
