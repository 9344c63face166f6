//! Images of programs as the lab finds them: files, an entry point, nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::image;
use crate::image::archive::Entry;

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
    /// A file cannot be read, or its path is too long for an archive.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let config = json!({
            "config": {"Entrypoint": self.entry, "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        });
        let image = image::Image {
            names: self.names.clone(),
            architecture: if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            config,
            annotations: Value::Null,
            // It is read on this machine, once: packing would cost more than it saves.
            layer: image::Layer { entries: self.entries()?, packed: false },
            time: 0,
        };
        image.archive()
    }

    /// The files, and the folders that they are in.
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let files = self.files.iter().map(|(to, from)| (to.trim_start_matches('/'), from));
        let parents = files.clone().flat_map(|(to, _)| Path::new(to).ancestors().skip(1));
        let folders: BTreeSet<_> = parents.filter(|path| !path.as_os_str().is_empty()).collect();
        let mut entries: Vec<_> =
            folders.into_iter().map(|folder| Entry::folder(&folder.to_string_lossy(), 0o755)).collect();
        entries.push(Entry::folder("tmp", 0o1777));
        for (to, from) in files {
            let content =
                fs::read(from).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", from.display())))?;
            entries.push(Entry::new(to, content).executable());
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::Value;

    use super::*;
    use crate::assets;

    #[test]
    fn an_archive_is_what_tar_reads_and_always_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, vec![7; 700]).unwrap();
        let image = Image {
            names: vec!["lab.test/program:1".into(), "lab.test/program:2".into()],
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
        tar(&["-xf", "image.tar"]);
        let json =
            |path: &str| -> Value { serde_json::from_slice(&fs::read(folder.path().join(path)).unwrap()).unwrap() };
        let blob =
            |of: &Value| format!("blobs/sha256/{}", of["digest"].as_str().unwrap().trim_start_matches("sha256:"));
        let index = json("index.json");
        let names: Vec<_> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["annotations"]["io.containerd.image.name"])
            .collect();
        assert_eq!(names, ["lab.test/program:1", "lab.test/program:2"]);
        let manifest = json(&blob(&index["manifests"][1]));
        let (config, layer) = (json(&blob(&manifest["config"])), blob(&manifest["layers"][0]));
        let digest = assets::sha256_of(&fs::read(folder.path().join(&layer)).unwrap());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{digest}"));
        let layer = tar(&["-tvf", &layer]);
        let lines: Vec<_> = layer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        let seen: Vec<_> = lines.iter().map(|line| (line[0], line[1], line[2], line[5])).collect();
        assert_eq!(
            seen,
            [
                ("drwxrwxrwt", "0/0", "0", "tmp/"),
                ("drwxr-xr-x", "0/0", "0", "usr/"),
                ("drwxr-xr-x", "0/0", "0", "usr/bin/"),
                ("-rwxr-xr-x", "0/0", "700", "usr/bin/program"),
            ]
        );
    }
}
