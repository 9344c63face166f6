//! The official releases.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Error, Product, digest, tools};
use crate::progress;

/// Downloads a product's pinned version, and checks it against the sums that are published beside it.
pub fn download(product: Product, to: &Path) -> Result<(), Error> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => {
            let detail = format!("there is no official release for {other}");
            return Err(Error::Missing { program: product.to_string(), detail });
        }
    };
    let version = product.pinned();
    let folder = to.parent().unwrap_or_else(|| Path::new("/"));
    if product == Product::Etcd {
        let base = format!("https://github.com/etcd-io/etcd/releases/download/v{version}");
        let name = format!("etcd-v{version}-linux-{arch}");
        let archive = format!("{name}.tar.gz");
        let sums = fetch_text(&format!("{base}/SHA256SUMS"), folder)?;
        let sum = sums.lines().filter_map(|line| line.split_once(' ')).find(|(_, file)| file.trim() == archive);
        let (url, local) = (format!("{base}/{archive}"), folder.join(&archive));
        fetch(&url, &local)?;
        verify(&local, sum.map_or("", |(sum, _)| sum), &url)?;
        let member = format!("{name}/etcd");
        let mut unpack = Command::new("tar");
        unpack.arg("--extract").arg("--gzip").arg("--file").arg(&local).arg("--directory").arg(folder);
        return tools::run(unpack.args(["--no-same-owner", "--strip-components=1", &member])).map(drop);
    }
    let url = format!("https://dl.k8s.io/v{version}/bin/linux/{arch}/{product}");
    let sum = fetch_text(&format!("{url}.sha256"), folder)?;
    fetch(&url, to)?;
    verify(to, sum.trim(), &url)
}

/// On a machine without a network the next way is tried within seconds.
fn fetch(url: &str, to: &Path) -> Result<(), Error> {
    let Some(curl) = tools::on_path("curl") else {
        return Err(Error::Missing { program: "curl".into(), detail: "install the package curl".into() });
    };
    let mut command = Command::new(curl);
    command.args(["--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--connect-timeout", "3"]);
    // Less than 10 kB in 20 s: a network that drops everything after the first packets.
    command.args(["--max-time", "900", "--speed-limit", "500", "--speed-time", "20", "--output"]).arg(to).arg(url);
    let fetched = progress::while_busy(&format!("downloading {url}"), || tools::run(&mut command));
    fetched.map(drop).map_err(|error| match error {
        Error::Failed { detail, .. } => Error::Failed { command: format!("download of {url}"), detail },
        other => other,
    })
}

fn fetch_text(url: &str, folder: &Path) -> Result<String, Error> {
    let to = folder.join("sum");
    fetch(url, &to)?;
    fs::read_to_string(&to).map_err(Error::io(format!("read {}", to.display())))
}

fn verify(file: &Path, sum: &str, url: &str) -> Result<(), Error> {
    let found = digest::of_file(file).map_err(Error::io(format!("read {}", file.display())))?;
    if found == sum {
        return Ok(());
    }
    let detail = format!("SHA-256 is {found}, published is {sum:?}: it is broken, or not what it seems; try again");
    Err(Error::Failed { command: format!("download of {url}"), detail })
}
