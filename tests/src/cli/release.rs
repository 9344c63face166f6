//! `cargo lab release` and `cargo lab version`

use anyhow::{Context, Result};

use crate::progress;
use crate::release::{Binary, Program, Release, Target, root, write_version as write};

/// What to make.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The version: the source must name it everywhere
    version: String,
    /// Where the images will be pushed to, for example registry.example.org/mooring: manifests and charts then name them there
    #[arg(long)]
    registry: Option<String>,
    /// Go on although files differ from the last commit: to try something out
    #[arg(long)]
    uncommitted: bool,
}

/// Makes a release in `dist/`.
pub fn run(order: Args) -> Result<()> {
    let release = Release::of_last_commit(&order.version, order.registry, order.uncommitted)?;
    let mut binaries: Vec<Binary> = Vec::new();
    for target in Target::ALL {
        if let Some(why) = target.missing()? {
            progress::line(format_args!("without {}: {why}", target.arch()));
            continue;
        }
        for program in Program::ALL {
            binaries.push(release.build(program, target)?);
        }
    }
    anyhow::ensure!(!binaries.is_empty(), "nothing can be built here: see above");
    let dist = root().join("dist");
    let files = progress::while_busy("packing", || release.write(&binaries, &dist)).context("make the release")?;
    for (name, size) in files {
        println!("{size:>10}  {name}");
    }
    println!("release {} of {} is in {}", release.version, release.commit.revision, dist.display());
    Ok(())
}

/// Writes a version to every place that names it.
pub fn write_version(version: &str) -> Result<()> {
    let count = write(version)?;
    println!("{count} places name {version} now, and the lock files follow: see `git diff`");
    Ok(())
}
