//! Why a release cannot be made.

use crate::assets;

/// Something is wrong with the source, or a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source is of another version.
    #[error(
        "the release is {wanted}, but the source says otherwise:\n{others}\n`cargo lab version {wanted}` writes {wanted} everywhere; commit that first"
    )]
    OtherVersion {
        /// The version of the release.
        wanted: String,
        /// A line for each place that names another one.
        others: String,
    },
    /// No version at all.
    #[error("{0:?} is no version: MAJOR.MINOR.PATCH is needed, for example 0.2.0 or 0.2.0-rc.1")]
    NoVersion(String),
    /// Files that no commit has.
    #[error(
        "these files differ from the last commit:\n{0}Commit them, or say --uncommitted to make something that nobody can make again"
    )]
    Uncommitted(String),
    /// A file does not have what a release writes into it, or reads from it.
    #[error("{file}: {problem}")]
    Unexpected {
        /// The file, or the command.
        file: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A file or folder.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A program that is needed: missing, or it failed.
    #[error(transparent)]
    Tool(#[from] assets::Error),
}

impl Error {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(super) fn unexpected(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unexpected { file: file.into(), problem: problem.into() }
    }
}
