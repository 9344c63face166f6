//! The image of a program of ours, with what a release says of it.

use serde_json::json;

use super::program::Program;
use super::source::Commit;
use super::{Error, Target, Version};
use crate::image;
use crate::image::archive::Entry;

/// What an image is made of.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The program in it.
    pub program: Program,
    /// Its binary.
    pub binary: &'a [u8],
    /// For which machines.
    pub target: Target,
    /// Its version.
    pub version: &'a Version,
    /// The name that it gets where it is loaded: `mooring-agent:0.1.0`.
    pub name: &'a str,
    /// What it was made of.
    pub commit: &'a Commit,
}

impl Image<'_> {
    /// The archive.
    ///
    /// # Errors
    /// The commit's time cannot be written.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let time = self.commit.rfc3339()?;
        let labels = self.program.labels(&self.version.to_string(), &self.commit.revision);
        let config = json!({
            "created": time,
            "config": {
                "User": self.program.user(),
                "Entrypoint": [self.program.path()],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "history": [{"created": time, "created_by": "cargo lab release"}],
        });
        let entries = vec![Entry::new(self.program.name(), self.binary).executable()];
        let image = image::Image {
            names: vec![self.name.to_owned()],
            architecture: self.target.arch(),
            config,
            annotations: json!(labels),
            layer: image::Layer { entries, packed: true },
            time: self.commit.time,
        };
        image.archive().map_err(Error::io(format!("make the image {}", self.name)))
    }
}
