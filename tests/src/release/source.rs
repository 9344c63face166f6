//! What commit a release is made of, and when that was: every file of a release has this time.

use std::path::Path;
use std::process::Command;

use super::Error;
use crate::assets;

/// The state of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its digest.
    pub revision: String,
    /// When it was made, in seconds since 1970.
    pub time: u64,
}

impl Commit {
    /// The last commit. `SOURCE_DATE_EPOCH`, where it is set, is the time instead of the commit's.
    ///
    /// # Errors
    /// The folder is no clone, or (unless `uncommitted`) has files that no commit has.
    pub fn last(root: &Path, uncommitted: bool) -> Result<Self, Error> {
        let git = |arguments: &[&str]| assets::run(Command::new("git").current_dir(root).args(arguments));
        let changed = git(&["status", "--porcelain"])?;
        if !changed.is_empty() && !uncommitted {
            return Err(Error::Uncommitted(changed));
        }
        let said = git(&["log", "-1", "--format=%H %ct"])?;
        let (revision, time) = said.trim().split_once(' ').unwrap_or_default();
        let wanted = std::env::var("SOURCE_DATE_EPOCH").ok();
        let time = wanted.as_deref().unwrap_or(time);
        let time = time
            .parse()
            .map_err(|_| Error::unexpected("SOURCE_DATE_EPOCH", format!("{time:?} is no number of seconds")))?;
        let mark = if changed.is_empty() { "" } else { "-uncommitted" };
        Ok(Self { revision: format!("{revision}{mark}"), time })
    }

    /// The time as images and SBOMs write it: `2026-01-02T03:04:05Z`.
    ///
    /// # Errors
    /// The time is thousands of years away.
    pub fn rfc3339(&self) -> Result<String, Error> {
        let time = i64::try_from(self.time).ok().and_then(|time| k8s_openapi::jiff::Timestamp::from_second(time).ok());
        time.map(|time| time.to_string())
            .ok_or_else(|| Error::unexpected("SOURCE_DATE_EPOCH", format!("{} is no time", self.time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let at = |time| Commit { revision: String::new(), time }.rfc3339();
        assert_eq!(at(1_767_323_045).unwrap(), "2026-01-02T03:04:05Z");
        assert!(at(u64::MAX).is_err());
    }

    #[test]
    fn the_last_commit_of_a_clone_and_what_it_does_not_have() {
        let clone = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let name = ["-c", "user.name=n", "-c", "user.email=e@example.org"];
            assets::run(Command::new("git").current_dir(clone.path()).args(name).args(arguments)).unwrap()
        };
        git(&["init", "--quiet"]);
        std::fs::write(clone.path().join("a"), "1").unwrap();
        git(&["add", "a"]);
        git(&["commit", "--quiet", "--message", "one"]);
        let commit = Commit::last(clone.path(), false).unwrap();
        assert_eq!(commit.revision.len(), 40);

        std::fs::write(clone.path().join("b"), "1").unwrap();
        let refused = Commit::last(clone.path(), false).unwrap_err().to_string();
        assert!(refused.contains("?? b"), "{refused}");
        let marked = Commit::last(clone.path(), true).unwrap();
        assert_eq!(marked.revision, format!("{}-uncommitted", commit.revision));
    }
}
