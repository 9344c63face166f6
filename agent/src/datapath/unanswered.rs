//! What became of changes that the kernel has refused or not answered: the agent looks at the addresses once.
//!
//! An answer can get lost although the kernel has done the change: the kernel answers late, or the socket's buffer is full.

use std::net::IpAddr;
use std::time::Duration;

use super::Datapath;
use super::address::Seen;
use super::error::Error;
use super::put::{Placed, Put, PutAll, copy};

/// What the kernel shows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing: the look failed.
    Failed,
    /// No such address of ours.
    Absent,
    /// An address of ours, with so many seconds left.
    Left(u32),
}

/// What became of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    /// It is there, with the lifetime that was asked for.
    There,
    /// It is there with the lifetime that it had before; or nobody knows.
    Unchanged,
    /// It is not there.
    Absent,
}

impl Datapath {
    /// Sorts changes whose result is not known. `ago`: when the changes were asked for. Returns the addresses that are there with
    /// the requested lifetime.
    pub(super) async fn look_after(
        &self,
        changes: Vec<((Placed, Put), Error)>,
        lifetime: u32,
        ago: impl Fn() -> Duration,
        out: &mut PutAll,
    ) -> Vec<(Placed, Put)> {
        let shown = self.families_of(changes.iter().map(|(((vip, _), _), _)| vip.address)).await;
        if let Err(error) = &shown {
            let addresses: Vec<IpAddr> = changes.iter().map(|(((vip, _), _), _)| vip.address).collect();
            tracing::debug!(?addresses, %error, "addresses whose change was not answered cannot be read");
        }
        let (shown, ago) = (shown.ok(), ago());
        let mut known = self.known.lock();
        let mut there = vec![];
        for (((vip, index), put), error) in changes {
            let here = |seen: &&Seen| seen.vip == vip && seen.index == index && known.is_ours(seen);
            let look = match &shown {
                None => Look::Failed,
                Some(all) => {
                    all.iter().find(here).map_or(Look::Absent, |seen| Look::Left(seen.valid.unwrap_or(u32::MAX)))
                }
            };
            match became(look, lifetime, ago) {
                Became::There => {
                    known.added(vip, index);
                    there.push(((vip, index), put));
                }
                Became::Unchanged => out.unchanged.push((vip.address, error)),
                Became::Absent => {
                    known.gone(vip, index);
                    out.failed.push((vip.address, error));
                }
            }
        }
        there
    }
}

/// `ago`: how long ago `lifetime`, in seconds, was asked for.
fn became(look: Look, lifetime: u32, ago: Duration) -> Became {
    let left = match look {
        Look::Failed => return Became::Unchanged,
        Look::Absent => return Became::Absent,
        Look::Left(left) => u64::from(left),
    };
    let lifetime = u64::from(lifetime);
    if (lifetime.saturating_sub(ago.as_secs())..=lifetime).contains(&left) { Became::There } else { Became::Unchanged }
}

/// The same failure for each of many changes.
pub(super) fn each(changes: Vec<(Placed, Put)>, error: &Error) -> Vec<((Placed, Put), Error)> {
    changes.into_iter().map(|change| (change, copy(error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn an_address_that_stands_is_not_taken_for_one_that_is_gone() {
        // The kernel has done the refresh, and its answer was lost.
        assert_eq!(became(Look::Left(13), 13, SECS(0)), Became::There);
        assert_eq!(became(Look::Left(11), 13, SECS(2)), Became::There);
        // The lifetime is that of the last refresh, two seconds ago: a longer or a shorter one was asked for.
        assert_eq!(became(Look::Left(10), 13, SECS(1)), Became::Unchanged);
        assert_eq!(became(Look::Left(10), 4, SECS(1)), Became::Unchanged);
        assert_eq!(became(Look::Failed, 13, SECS(1)), Became::Unchanged);
        assert_eq!(became(Look::Absent, 13, SECS(1)), Became::Absent);
    }
}
