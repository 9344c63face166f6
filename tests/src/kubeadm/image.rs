//! Images FROM scratch, as archives that `ctr images import` and `docker load` accept: files, an entry point, nothing else. The
//! same files give the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::json;

use crate::assets::hex;

/// The size of a block of a tar archive.
const BLOCK: usize = 512;

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its names, each with a tag.
    pub names: Vec<String>,
    /// What it runs, unless the pod says otherwise.
    pub entry: Vec<String>,
    /// Where each file is in the image, and on this machine. All are executable.
    pub files: Vec<(String, PathBuf)>,
}

impl Image {
    /// Its archive.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]},
            "config": {"Entrypoint": self.entry, "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        });
        let config = config.to_string().into_bytes();
        let name = format!("{}.json", digest(&config));
        let manifest = json!([{"Config": name, "RepoTags": self.names, "Layers": ["layer.tar"]}]).to_string();
        let mut tar = Tar(Vec::with_capacity(layer.len() + 16 * BLOCK));
        tar.file(&name, 0o644, &config);
        tar.file("layer.tar", 0o644, &layer);
        tar.file("manifest.json", 0o644, manifest.as_bytes());
        Ok(tar.end())
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut files: Vec<_> = self.files.iter().map(|(to, from)| (to.trim_start_matches('/'), from)).collect();
        files.sort();
        let parents = files.iter().flat_map(|(to, _)| Path::new(to).ancestors().skip(1));
        let folders: BTreeSet<_> = parents.filter(|path| !path.as_os_str().is_empty()).collect();
        let mut tar = Tar(Vec::new());
        for folder in folders {
            tar.folder(&folder.to_string_lossy(), 0o755);
        }
        tar.folder("tmp", 0o1777);
        for (to, from) in files {
            let content =
                fs::read(from).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", from.display())))?;
            tar.file(to, 0o755, &content);
        }
        Ok(tar.end())
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hex(context)
}

/// An archive in the format of POSIX (ustar). Owners and times are 0.
struct Tar(Vec<u8>);

impl Tar {
    fn folder(&mut self, name: &str, mode: u32) {
        self.header(&format!("{name}/"), mode, 0, b'5');
    }

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.header(name, mode, content.len(), b'0');
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// A name has at most 100 bytes: those of an image of ours do.
    fn header(&mut self, name: &str, mode: u32, size: usize, kind: u8) {
        let mut block = [0_u8; BLOCK];
        let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, &name[..name.len().min(100)]);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        // The sum is made with blanks in its own place.
        put(148, "        ");
        put(257, "ustar\x0000");
        block[156] = kind;
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_archive_is_what_tar_reads_and_always_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, vec![7; 700]).unwrap();
        let image = Image {
            names: vec!["test/program:1".into()],
            entry: vec!["/usr/bin/program".into()],
            files: vec![("/usr/bin/program".into(), program)],
        };
        let archive = image.archive().unwrap();
        assert_eq!(archive, image.archive().unwrap());
        let file = folder.path().join("image.tar");
        fs::write(&file, &archive).unwrap();
        let tar = |args: &[&str]| {
            let output = Command::new("tar").current_dir(folder.path()).args(args).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let names = tar(&["-tf", "image.tar"]);
        assert!(names.ends_with("layer.tar\nmanifest.json\n"), "{names}");
        tar(&["-xf", "image.tar"]);
        let config = fs::read(folder.path().join(names.lines().next().unwrap())).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        let layer = fs::read(folder.path().join("layer.tar")).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", digest(&layer)));
        let layer = tar(&["-tvf", "layer.tar"]);
        let lines: Vec<_> = layer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        let seen: Vec<_> = lines.iter().map(|line| (line[0], line[1], line[2], line[5])).collect();
        assert_eq!(
            seen,
            [
                ("drwxr-xr-x", "0/0", "0", "usr/"),
                ("drwxr-xr-x", "0/0", "0", "usr/bin/"),
                ("drwxrwxrwt", "0/0", "0", "tmp/"),
                ("-rwxr-xr-x", "0/0", "700", "usr/bin/program"),
            ]
        );
    }
}
