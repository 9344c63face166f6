//! The interface that the default route names, for VIPs that name none, and for those of the control plane when no interface is set.
//!
//! The kernel does not report routes here, and a default route is away for a moment whenever a network manager sets the
//! interface up anew. VIPs would move to another segment and stay there. So the interface stays the first one until another
//! interface has had the default route for a while.

use std::time::Duration;

use tokio::time::Instant;

/// Another interface has the default route for this long before VIPs follow. A DHCP client that starts anew takes some
/// seconds for its route.
const SETTLED: Duration = Duration::from_secs(10);

/// Which interface counts, and since when the default route has named another one.
#[derive(Debug, Default)]
pub struct ByRoute {
    first: Option<u32>,
    other: Option<(u32, Instant)>,
}

impl ByRoute {
    /// The first interface, by what the default route names now, if that exists; None: there was no default route yet, or that
    /// interface is gone.
    pub fn first(&mut self, now: Instant, route: Option<u32>, exists: impl Fn(u32) -> bool) -> Option<u32> {
        let stays = self.first.filter(|first| exists(*first));
        let other = route.filter(|route| stays.is_some_and(|first| first != *route));
        self.other =
            other.map(|index| (index, self.other.filter(|(known, _)| *known == index).map_or(now, |(_, since)| since)));
        let settled = self.other.filter(|(_, since)| now >= *since + SETTLED).map(|(index, _)| index);
        if settled.is_some() {
            self.other = None;
        }
        self.first = settled.or(stays).or(route);
        self.first
    }

    /// The first interface, as it was last told.
    pub const fn current(&self) -> Option<u32> {
        self.first
    }

    /// Whether the default route names another interface than the first one: look again soon.
    pub const fn is_in_doubt(&self) -> bool {
        self.other.is_some()
    }
}
