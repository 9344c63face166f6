//! What a static program has in it beside its crates: Rust's standard library, the C library, and the C compiler's own. Their
//! versions are those of the toolchain that links the program.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{Error, Target};
use crate::assets;

/// How a C library names itself, before what its distribution calls it.
const BANNER: &[u8] = b"GNU C Library (";

/// The parts, as `CycloneDX` components.
///
/// # Errors
/// The toolchain has no static C library for the target, or does not say what it is.
pub fn components(target: Target) -> Result<Vec<Value>, Error> {
    Ok(vec![c_compiler(target)?, c_library(target)?, rust_std()?])
}

/// Rust's standard library. It has crates of its own in it, which no tool of a toolchain lists.
fn rust_std() -> Result<Value, Error> {
    let said = assets::run(Command::new(assets::rustc()).arg("-vV"))?;
    let line = |key: &str| {
        let unexpected = || Error::unexpected("rustc -vV", format!("it has no line {key:?}"));
        said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).ok_or_else(unexpected)
    };
    let (version, commit) = (line("release")?, line("commit-hash")?);
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:github/rust-lang/rust@{version}"),
        "name": "rust-std",
        "version": version,
        "description": "Rust's standard library",
        "purl": format!("pkg:github/rust-lang/rust@{version}"),
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "externalReferences": [{"type": "vcs", "url": format!("https://github.com/rust-lang/rust/tree/{commit}")}],
    }))
}

/// The C library, as the linker finds it.
fn c_library(target: Target) -> Result<Value, Error> {
    let path = assets::run(compiler(target).arg("-print-file-name=libc.a"))?;
    let path = path.trim();
    // Without it the compiler answers the bare name.
    let bytes = fs::read(path).map_err(Error::io(format!("read {path}, the static C library (package libc6-dev)")))?;
    let (version, build) = glibc(&bytes)
        .ok_or_else(|| Error::unexpected(path, "it does not say which version of the GNU C Library it is"))?;
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/glibc@{version}"),
        "name": "glibc",
        "version": version,
        "description": format!("The GNU C Library ({build})"),
        "purl": format!("pkg:generic/glibc@{version}"),
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
        "hashes": [{"alg": "SHA-256", "content": assets::sha256_of(&bytes)}],
    }))
}

/// libgcc: arithmetic and unwinding.
fn c_compiler(target: Target) -> Result<Value, Error> {
    let version = assets::run(compiler(target).args(["-dumpfullversion", "-dumpversion"]))?;
    let version = version.trim();
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/libgcc@{version}"),
        "name": "libgcc",
        "version": version,
        "description": "The runtime library of the C compiler",
        "purl": format!("pkg:generic/libgcc@{version}"),
        "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
    }))
}

/// What links for the target.
fn compiler(target: Target) -> Command {
    target.linker().map_or_else(|| Command::new("cc"), |(_, linker)| Command::new(linker))
}

/// A library's version, and what its distribution calls it: `2.36`, `Debian GLIBC 2.36-9`.
fn glibc(library: &[u8]) -> Option<(String, String)> {
    let begin = library.windows(BANNER.len()).position(|part| part == BANNER)? + BANNER.len();
    let rest = &library[begin..];
    let line = String::from_utf8_lossy(&rest[..rest.iter().position(|byte| *byte == b'\n')?]);
    let (build, rest) = line.split_once(')')?;
    let version = rest.split_once("version ")?.1.trim_end_matches('.');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    version.split('.').all(digits).then(|| (version.to_owned(), build.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_says_which_it_is() {
        let library = b"\0x\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nCopyright\0";
        assert_eq!(glibc(library), Some(("2.36".to_owned(), "Debian GLIBC 2.36-9+deb12u14".to_owned())));
        for other in [&b"musl libc"[..], b"GNU C Library (x) version 2.36", b"GNU C Library (x) version soon.\n"] {
            assert_eq!(glibc(other), None);
        }
    }

    #[test]
    fn the_toolchain_of_this_machine_has_all_three() {
        let Some(target) = Target::of_host() else { return };
        let all = components(target).unwrap();
        let names: Vec<&str> = all.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["libgcc", "glibc", "rust-std"]);
        for one in &all {
            assert!(one["version"].as_str().unwrap().starts_with(|c: char| c.is_ascii_digit()), "{one}");
            assert!(one["licenses"][0]["expression"].is_string(), "{one}");
        }
    }
}
