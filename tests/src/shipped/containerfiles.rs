//! What buildah makes of the Containerfiles: every instruction is carried out, on the files that git does not ignore.
//!
//! No registry is asked for the image with Rust, `RUST_IMAGE`. Another one stands for it, which has the system and the toolchain
//! of this machine mounted, and Cargo's crates, so that no network is needed. Either its `cargo` is the real one; or it is a
//! script that insists on the same arguments and compiles one small program with the same flags.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::container::Container;
use super::images;
use crate::release::{LARGEST, Program, root};
use crate::runner::Skip;
use crate::{assets, progress, userns};

/// What compiles in the image with Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// Cargo, the programs.
    Cargo,
    /// A script and rustc, a program that only knows its name and version. Seconds instead of minutes.
    StandIn,
}

/// The image with Rust.
const RUST: &str = "localhost/rust";
const RUST_FILE: &str = "FROM scratch
COPY . /
ENV CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true PATH=/usr/local/cargo/bin:/usr/local/rust/bin:/usr/bin:/bin
";
/// What of this machine it has at the same place, where it is there: shell and C compiler, with all that they need.
const SYSTEM: [&str; 7] =
    ["/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/etc/alternatives"];

/// The script. `cargo metadata` is not asked: the version is the workspace's.
const STAND_IN: &str = r#"#!/bin/sh
set -eu
[ "$1 $2 $3 $4 $6 $#" = "build --locked --release --package --target 7" ] || { echo "cargo $*: not expected" >&2; exit 1; }
[ -f Cargo.lock ] && [ -f "${5#mooring-}/Cargo.toml" ] || { echo "the source is not here" >&2; exit 1; }
version="$(sed -n '/^\[workspace.package\]/,/^version/ s/^version = "\(.*\)"/\1/p' Cargo.toml)"
echo "fn main() { println!(\"$5 $version\") }" > /tmp/main.rs
mkdir -p "target/$7/release"
rustc $RUSTFLAGS --target "$7" -C opt-level=s -C strip=symbols -o "target/$7/release/$5" /tmp/main.rs
"#;

/// Builds both images, looks at what is in them, and starts them.
pub fn build(folder: &Path, compiler: Compiler) -> Result<()> {
    if !userns::is_machine_root() {
        return Err(Skip("buildah is run as root only".into()).into());
    }
    let missing = "buildah is not installed: install the package buildah";
    let buildah = Buildah { program: assets::on_path("buildah").ok_or_else(|| Skip(missing.into()))?, folder };
    let source = folder.join("source");
    clean_checkout(&root(), &source)?;
    buildah.image_with_rust(compiler)?;
    for program in Program::ALL {
        let archive =
            progress::while_busy(&format!("building {}", program.name()), || buildah.image(program, &source))?;
        let container = Container::unpacked(&archive, &folder.join(program.name()))?;
        has_only_the_program(program, &container)?;
        images::says_version(program, &container)?;
        if compiler == Compiler::Cargo {
            images::runs(program, &container)?;
        }
    }
    Ok(())
}

/// What the image says of itself, and its only file.
fn has_only_the_program(program: Program, container: &Container) -> Result<()> {
    let config = &container.config["config"];
    ensure!(config["User"] == program.user(), "user: {config:#}");
    ensure!(config["Entrypoint"] == serde_json::json!([program.path()]), "entry point: {config:#}");
    ensure!(config["Cmd"].is_null(), "arguments: {config:#}");
    let labels = program.labels("1.2.3", "abc");
    for (key, value) in labels.as_object().into_iter().flatten() {
        ensure!(config["Labels"][key] == *value, "label {key}: {config:#}");
    }

    let names: Vec<OsString> =
        fs::read_dir(container.files())?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    ensure!(names == [program.name()], "{} has these files: {names:?}", program.name());
    let path = container.files().join(program.name());
    let mode = path.metadata()?.permissions().mode() & 0o7777;
    ensure!(mode & 0o7000 == 0 && mode & 0o111 == 0o111, "{}: mode {mode:o}", program.name());
    let bytes = fs::read(&path)?;
    ensure!(bytes.len() <= LARGEST, "{} has {} bytes", program.name(), bytes.len());
    Ok(())
}

/// Copies the files that git does not ignore, as they are now.
fn clean_checkout(root: &Path, to: &Path) -> Result<()> {
    let mut git = Command::new("git");
    let said =
        assets::run(git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]))?;
    let names = said.split('\0').filter(|name| !name.is_empty() && root.join(name).is_file());
    for name in names {
        let path = to.join(name);
        fs::create_dir_all(path.parent().context("a file has no folder")?)?;
        fs::copy(root.join(name), &path).with_context(|| format!("copy {name}"))?;
    }
    Ok(())
}

/// buildah, with all that it keeps in a folder of the test.
struct Buildah<'a> {
    program: PathBuf,
    folder: &'a Path,
}

impl Buildah<'_> {
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.folder.join("storage"));
        command.arg("--runroot").arg(self.folder.join("state")).arg(what);
        if what == "bud" {
            command.args(["--isolation", "chroot", "--pull-never", "--network", "host"]);
        }
        command
    }

    /// Makes the image with Rust: folders to mount into, and the script if it is wanted.
    fn image_with_rust(&self, compiler: Compiler) -> Result<()> {
        let folder = self.folder.join("rust");
        for path in ["tmp", "usr/local/cargo/bin"] {
            fs::create_dir_all(folder.join(path))?;
        }
        for name in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(name), folder.join(name))?;
        }
        if compiler == Compiler::StandIn {
            let script = folder.join("usr/local/cargo/bin/cargo");
            fs::write(&script, STAND_IN)?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        }
        let file = self.folder.join("Containerfile");
        fs::write(&file, RUST_FILE)?;
        assets::run(self.command("bud").args(["--tag", RUST, "--file"]).arg(file).arg(&folder))?;
        Ok(())
    }

    /// Carries out the Containerfile of a program. Returns the image as an OCI archive.
    fn image(&self, program: Program, source: &Path) -> Result<Vec<u8>> {
        let mut command = self.command("bud");
        for path in SYSTEM.into_iter().filter(|path| Path::new(path).is_dir()) {
            command.arg(format!("--volume={path}:{path}:ro"));
        }
        let toolchain = assets::run(Command::new(assets::rustc()).args(["--print", "sysroot"]))?;
        command.arg(format!("--volume={}:/usr/local/rust:ro", toolchain.trim()));
        let crates = assets::cargo_home().context("this user has no home")?.join("registry");
        if crates.is_dir() {
            command.arg(format!("--volume={}:/usr/local/cargo/registry:ro", crates.display()));
        }
        for (name, value) in [("RUST_IMAGE", RUST), ("VERSION", "1.2.3"), ("REVISION", "abc")] {
            command.arg(format!("--build-arg={name}={value}"));
        }
        command.args(["--tag", program.name(), "--file"]).arg(source.join(program.folder()).join("Containerfile"));
        assets::run(command.arg(source))?;

        let archive = self.folder.join(format!("{}.tar", program.name()));
        let to = format!("oci-archive:{}", archive.display());
        assets::run(self.command("push").arg(format!("localhost/{}", program.name())).arg(to))?;
        fs::read(&archive).with_context(|| format!("read {}", archive.display()))
    }
}
