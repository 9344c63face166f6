//! How many files this process has open, and may have: each watch and each call under way costs a connection, and container runtimes start
//! programs with a soft limit of 1,024 (`setrlimit(2)`, `RLIMIT_NOFILE`).

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as Go programs do for themselves.
pub fn raise() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) });
    if let Err(errno) = raised {
        tracing::warn!(%errno, "the limit of open files cannot be raised: with many Leases of Services, connections may fail");
    }
}

/// How many are open now; None: `/proc` is not there.
#[must_use]
pub fn open() -> Option<u64> {
    // The directory itself is one of them while it is read.
    let listed = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed).ok()?.checked_sub(1)
}

/// How many there may be.
#[must_use]
pub fn most() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard - 1), hard).unwrap();
        raise();
        assert_eq!(most(), Some(hard));
    }

    #[test]
    fn what_is_open_is_counted() {
        // Other tests of this process open and close files meanwhile.
        let before = open().unwrap();
        let files: Vec<_> = (0..200).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        assert!(open().unwrap() + 50 > before + 200, "{before} before");
        drop(files);
    }
}
