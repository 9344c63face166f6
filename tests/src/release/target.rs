//! The machines that a release is for.

use std::path::Path;
use std::process::Command;

use super::Error;
use crate::assets;

/// A kind of machine, always with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Target {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// As images and files name it.
    #[must_use]
    pub const fn arch(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust names it.
    #[must_use]
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// That of this machine; None: a machine that no release is for.
    #[must_use]
    pub fn of_host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// The linker for it on a machine of another kind; Debian's package `gcc-aarch64-linux-gnu` has the second.
    const fn cross_linker(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// The variable that tells Cargo the linker; None: on a machine of this kind the usual one will do.
    #[must_use]
    pub fn linker(self) -> Option<(String, String)> {
        let name = format!("CARGO_TARGET_{}_LINKER", self.triple().to_uppercase().replace('-', "_"));
        (Self::of_host() != Some(self)).then(|| (name, self.cross_linker().to_owned()))
    }

    /// Why nothing can be built for it here; None: it can.
    ///
    /// # Errors
    /// rustc cannot be asked.
    pub fn missing(self) -> Result<Option<String>, Error> {
        let triple = self.triple();
        let library =
            assets::run(Command::new(assets::rustc()).args(["--print", "target-libdir", "--target", triple]))?;
        if !Path::new(library.trim()).is_dir() {
            return Ok(Some(format!("the Rust toolchain has no {triple}: rustup target add {triple}")));
        }
        let linker = self.cross_linker();
        if Self::of_host() != Some(self) && assets::on_path(linker).is_none() {
            return Ok(Some(format!("there is no {linker}: install the C compiler for {triple}")));
        }
        Ok(None)
    }
}
