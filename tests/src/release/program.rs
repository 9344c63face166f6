//! The two programs, and what their images say of them. `agent/Containerfile` and `allocator/Containerfile` say the same.

use serde_json::{Value, json};

/// A program that has an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `mooring-agent`
    Agent,
    /// `mooring-allocator`
    Allocator,
}

impl Program {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Agent, Self::Allocator];

    /// The name of its package, its binary, its image and its chart.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "mooring-agent",
            Self::Allocator => "mooring-allocator",
        }
    }

    /// The folder of its package.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Allocator => "allocator",
        }
    }

    /// Its package's description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Agent => "Holds virtual IP addresses of a Kubernetes cluster on the nodes that should have them",
            Self::Allocator => "Hands out the addresses that Cluster API's claims ask for",
        }
    }

    /// Where it is in its image.
    #[must_use]
    pub fn path(self) -> String {
        format!("/{}", self.name())
    }

    /// The user and the group that it runs as, in numbers: an image from scratch has no names.
    #[must_use]
    pub const fn user(self) -> &'static str {
        match self {
            Self::Agent => "0:0",
            Self::Allocator => "65532:65532",
        }
    }

    /// The labels of its image.
    #[must_use]
    pub fn labels(self, version: &str, revision: &str) -> Value {
        json!({
            "org.opencontainers.image.title": self.name(),
            "org.opencontainers.image.description": self.description(),
            "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.revision": revision,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_containerfiles_say_the_same() {
        for program in Program::ALL {
            let file = super::super::root().join(program.folder()).join("Containerfile");
            let text = fs::read_to_string(file).unwrap();
            let has = |line: &str| assert!(text.contains(line), "{}: no {line}", program.name());
            for (key, value) in program.labels("${VERSION}", "${REVISION}").as_object().unwrap() {
                has(&format!("{key}={value}"));
            }
            has(&format!("\nUSER {}\n", program.user()));
            has(&format!("\nENTRYPOINT [\"{}\"]\n", program.path()));
            has(&format!("\nCOPY --from=build {0} {0}\n", program.path()));
            has(&format!("--package {} ", program.name()));
            has(&format!("\nARG RUST_IMAGE=docker.io/library/rust:{}\n", env!("CARGO_PKG_RUST_VERSION")));
        }
    }
}
