//! Bugs that can be switched on in this thread, to see that the simulator's checks find them. With the feature `planted` off,
//! nothing of this is in the program: `planted!` is `false`.

/// A bug that the simulators must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Addresses have a lifetime of more than a day.
    NoFence,
    /// The lifetime is all that is left until the deadline.
    FenceWithoutMargin,
    /// The Lease counts from when the answer came.
    FenceFromAnswer,
    /// A Lease ends when its `renewTime` is too long ago by this node's wall clock.
    WallClocks,
    /// Blind time counts, and what is known is always fresh.
    BlindTimeCounts,
    /// Writes carry no resourceVersion.
    WriteWithoutVersion,
    /// A miss counts though no third party answered.
    DeafWitness,
    /// What other hosts say unasked counts as an answer.
    ClaimsEntitle,
    /// A third party's answer counts for a probe of another form.
    AnyForm,
    /// A third party's IPv6 answer counts for the silence of an IPv4 VIP, and the other way round.
    AnyFamily,
    /// An answer to a broadcast counts, whether or not the host that it names answers.
    BelievesBroadcasts,
    /// The same, if the answer comes later than most do.
    BelievesLateAnswers,
    /// Whoever answers for a VIP of a holder is the holder.
    AnyOwnerIsHolder,
    /// The node that handed the VIPs over, and serves until it hears its successor, is taken for another owner.
    ContestsItsGiver,
    /// A look goes on with a sender whose probes the network has begun to drop.
    GoesOnAsDropped,
    /// What a node says unasked shows that it is reached, however long it has not answered.
    ClaimsClearForEver,
    /// A holder that is to end gives up when one release was not answered.
    GivesUpRelease,
    /// A Lease whose VIPs nobody wants any more is handed over like any other.
    HandsOverNothing,
    /// A VIP that another node has is looked for as seldom as one that a foreign host has.
    WaitsForNodes,
    /// An expired Lease is taken from a holder that answers, whether or not writes work.
    TakesFromTheLiving,
    /// Sessions expire though nobody can renew them.
    RefusedTimeCounts,
    /// A VIP whose record was deleted is taken while the fence of the node may last that carries it.
    TakesFromTheHanging,
    /// Who was never heard counts as gone as soon as the API falls silent.
    UnheardAreGone,
    /// Whoever carries VIPs provisionally is a foreign owner to those that look for them.
    OnlyHoldersCarry,
    /// What a router with proxy ARP answers for a VIP counts, whoever has the VIP.
    BelievesProxies,
    /// Whoever answers a probe from 0.0.0.0 for a node's address, and whichever probe, shows that these pass.
    BelievesProofs,
    /// A node that took VIPs by silence keeps them though nobody answers it.
    MuteKeeps,
    /// A holder that nobody answers does not offer the VIPs.
    KeepsUnheard,
    /// A candidate takes offered VIPs though their holder answers.
    TakesFromWhoAnswers,
    /// A candidate takes offered VIPs though nobody answers it either.
    UnheardTakesOffers,
    /// What a session declared does not count once it has ended.
    ForgetsEndedOwners,
    /// A node that nobody answers takes free VIPs like any other.
    MuteTakes,
    /// An unhealthy holder hands over only to a participant that it hears on the segment.
    OnlyWhoIsHeard,
    /// Silence to probes of one sender rules out a foreign owner, though no third party answers these.
    OneSenderIsEnough,
    /// A holder that was never heard in its tenure is taken for silent.
    NeverHeard,
    /// The last holder's silence counts for the next holder.
    StaleWitness,
    /// What an agent declared counts for the kube-vip that has adopted the Lease since.
    BelievesKeptDeclaration,
    /// The VIP may move early as often as it likes.
    NoMoveLimit,
    /// A challenge is answered by the remembered Lease.
    DefendFromMemory,
    /// A challenged holder whose calls are not answered goes on.
    NeverYields,
    /// A lapsed or provisional holder goes on when it hears another.
    KeepsOnBesideOther,
    /// Holders without the API do not ask whether anybody else has the VIP.
    NoSelfProbe,
    /// A leaving holder does not stop when it hears its successor.
    ReleaseWithoutRemove,
    /// A free VIP is taken without asking the segment for another owner.
    TakesWithoutLooking,
    /// A VIP that is new to a holder is carried without asking the segment for another owner.
    CarriesNewUnasked,
    /// The Lease is released before the VIPs are known to be gone from the interface.
    ReleasesAtOnce,
    /// A late step makes nothing unsure, and is followed by announcements.
    AnnouncesWhenLate,
    /// A lapsed or provisional holder goes on announcing.
    LapsedAnnounces,
    /// A provisional holder that lets go does not say so.
    LetsGoInSilence,
    /// A lapsed or provisional holder goes on however few other nodes it hears.
    LapsedAlone,
    /// A holder lets a VIP go when one refresh of the VIP's fence has failed.
    LetsGoOnFailedRefresh,
    /// With the settings `release`, a left-over or provisional hold is refreshed while the API is away.
    HoldsThoughReleased,
    /// The Lease is never read: only the watch is believed, even when it is broken.
    TrustsTheWatch,
    /// A member object that names an earlier version of the Lease than the one that is known is believed.
    BelievesOldCopies,
    /// A node takes VIPs before others were told that its session has begun.
    TakesUnpublished,
    /// A member object that differs from its Lease stays so, unless the node that wrote the Lease puts it right.
    NobodyRepairs,
    /// A node judges sessions expired whose Leases it does not follow. Nobody is ended by that, for the version that it names is old:
    /// this one has a run of its own.
    JudgesUnfollowed,
    /// A node that sees that the store was set back writes member objects by what it knew of Leases before.
    TellsFromBefore,
    /// A node that was cut off, or yielded to another node, defends its VIPs against strangers by the session that it had.
    DefendsWhenCutOff,
    /// A node that knows less than a member object says, or knows a session by a list alone, writes it without listing first.
    TellsUnlisted,
    /// What a node happens to know of sessions is written for all of them at once, whatever came of the last write.
    TellsAllAtOnce,
    /// While the API is away, member objects of other nodes are written too.
    TellsOthersWithoutApi,
    /// The end of a session whose Lease is gone is not told.
    LeavesDeletedUntold,
    /// A session that lives has no member object, and nobody who does not follow its Lease writes one.
    LeavesUntold,
    /// Who judges a session is chosen anew when it has ended, by links that it has no longer.
    ChoosesJudgesAnew,
    /// The judges of a session are the nodes that share most of its segments, and they alone.
    JudgesNearbyOnly,
    /// A node that hands over goes on beside the new holder that it hears, when somebody has removed the record.
    CarriesOnWhenStripped,
    /// A node that follows a Lease no longer does not take in what the member object says.
    ForgetsWhatWasTold,
    /// What is unclear about a session is never asked.
    AsksNothing,
    /// A node that sees in a list that the store was set back goes on by what it knew.
    NeverSetBack,
    /// A read that failed is tried again at once.
    ReadStorm,
    /// A node without an API server is judged unhealthy like one whose API server is dead.
    JudgesWithoutServer,
    /// A peer's API server is looked for only at the peer's own address on the VIPs' interface.
    MatchesByInterface,
    /// An unhealthy node leaves a free VIP to healthier ones for ever.
    HealthForbids,
    /// An unhealthy holder hands over after one question to its peers. Drawn outages seldom end just then: this one has a run of its own.
    LooksOnce,
    /// Blind time counts for sessions.
    SessionBlindTimeCounts,
    /// The session counts from when the answer came.
    SessionFenceFromAnswer,
    /// A session that looks expired has ended, though nobody has written that.
    EndsByLooking,
    /// The end of another's session is written without a resourceVersion.
    EndWithoutVersion,
    /// Records are written without a resourceVersion.
    RecordWithoutVersion,
    /// A node that is not the first in order takes at once.
    PlacesFromMemory,
    /// A session that began after the holder's had ended takes part like any other.
    LatecomersRank,
    /// The end of the own session is not noticed.
    IgnoresOwnEnd,
    /// A node that loses the write of the record goes on.
    KeepsAfterLostWrite,
    /// A node that remembers that it holds a VIP goes on when the record names another node.
    MemoryOverRecord,
    /// VIPs are taken up by what is remembered as soon as their link is up again.
    TakesUpAtLinkUp,
    /// A challenge is answered by the remembered record.
    DefendsFromRecord,
    /// A challenged holder of a VIP whose calls are not answered goes on.
    VipNeverYields,
    /// A lapsed or provisional holder of a VIP goes on when it hears another.
    KeepsVipBesideOther,
    /// Holders in doubt do not ask whether anybody else has their VIPs.
    NoSessionProbe,
    /// A VIP is taken without asking the segment where that is due.
    TakesVipWithoutLooking,
    /// A late step makes nothing unsure.
    AnnouncesVipWhenLate,
    /// A holder that hands a VIP over does not stop when it hears its successor.
    ServesOnAfterHandover,
    /// A holder without a ready endpoint does not hand its VIP over.
    StaysWithoutEndpoint,
    /// A VIP whose holder found no node to give it to is not looked at again when another node may have it.
    ForgetsStranded,
    /// A node that is silent on one segment is abandoned.
    OneSegmentIsEnough,
    /// Who knows more gateways than are asked looks for a peer to ask, though there is none.
    ManyGateways,
    /// The watch over other nodes does not keep to the limit of frames. Drawn runs have no limit: this one has a run of its own.
    WatchBeyondLimit,
    /// Links that are known to be down are watched.
    WatchesDownLinks,
    /// A frame for a VIP counts on whatever segment it is heard.
    HearsOtherSegments,
    /// A node whose agent renews its session is abandoned if watchers ask for VIPs that it let go.
    AbandonsWhoLetGo,
    /// A node is known only by the MAC addresses that it has declared.
    MacsAreFixed,
    /// Silence before a provisional hold counts though no third party was heard.
    DeafWatcher,
    /// With the API away, all ends are tried again, each time.
    EndsStorm,
    /// An address that a node declares as its own is taken as a VIP.
    TakesOwnedAddresses,
    /// A record whose writes fail is written again and again.
    NoBackOff,
    /// The own session is written without a resourceVersion.
    RenewsWithoutVersion,
    /// Sessions are judged expired without a proven watch.
    EndsWhenBlind,
    /// VIPs move to where they would be if they were placed anew, unasked.
    Rebalances,
    /// A node that hands a VIP over drops it when the record names the successor.
    DropsBeforeSuccessor,
}

impl Bug {
    /// Those of the evidence that drawn runs find (the witness's own tests find the others): runs on networks that filter ARP, or answer for others, find them in the core of one Lease.
    pub const ELECTOR_ON_NETWORKS: [Self; 3] = [Self::ClaimsEntitle, Self::BelievesBroadcasts, Self::OnlyWhoIsHeard];

    /// The same, in the core of sessions.
    pub const SESSIONS_ON_NETWORKS: [Self; 2] = [Self::ClaimsEntitle, Self::BelievesBroadcasts];

    /// Bugs of the elector.
    pub const ELECTOR: [Self; 29] = [
        Self::NoFence,
        Self::FenceWithoutMargin,
        Self::FenceFromAnswer,
        Self::WallClocks,
        Self::BlindTimeCounts,
        Self::WriteWithoutVersion,
        Self::DeafWitness,
        Self::NeverHeard,
        Self::StaleWitness,
        Self::BelievesKeptDeclaration,
        Self::NoMoveLimit,
        Self::DefendFromMemory,
        Self::NeverYields,
        Self::KeepsOnBesideOther,
        Self::NoSelfProbe,
        Self::ReleaseWithoutRemove,
        Self::TakesWithoutLooking,
        Self::CarriesNewUnasked,
        Self::ReleasesAtOnce,
        Self::AnnouncesWhenLate,
        Self::LapsedAnnounces,
        Self::LetsGoInSilence,
        Self::LapsedAlone,
        Self::LetsGoOnFailedRefresh,
        Self::HoldsThoughReleased,
        Self::TrustsTheWatch,
        Self::ReadStorm,
        Self::JudgesWithoutServer,
        Self::HealthForbids,
    ];

    /// Bugs of session VIPs, and of what they share with the elector.
    pub const SESSION_VIPS: [Self; 45] = [
        Self::TakesUnpublished,
        Self::DefendsWhenCutOff,
        Self::SessionBlindTimeCounts,
        Self::SessionFenceFromAnswer,
        Self::EndsByLooking,
        Self::EndWithoutVersion,
        Self::RecordWithoutVersion,
        Self::PlacesFromMemory,
        Self::LatecomersRank,
        Self::IgnoresOwnEnd,
        Self::KeepsAfterLostWrite,
        Self::MemoryOverRecord,
        Self::TakesUpAtLinkUp,
        Self::DefendsFromRecord,
        Self::VipNeverYields,
        Self::KeepsVipBesideOther,
        Self::NoSessionProbe,
        Self::TakesVipWithoutLooking,
        Self::AnnouncesVipWhenLate,
        Self::ServesOnAfterHandover,
        Self::StaysWithoutEndpoint,
        Self::ForgetsStranded,
        Self::OneSegmentIsEnough,
        Self::MacsAreFixed,
        Self::WatchesDownLinks,
        Self::HearsOtherSegments,
        Self::AbandonsWhoLetGo,
        Self::ManyGateways,
        Self::DeafWatcher,
        Self::EndsStorm,
        Self::TakesOwnedAddresses,
        Self::NoBackOff,
        Self::RenewsWithoutVersion,
        Self::EndsWhenBlind,
        Self::Rebalances,
        Self::DropsBeforeSuccessor,
        Self::NoFence,
        Self::FenceWithoutMargin,
        Self::DeafWitness,
        Self::NeverHeard,
        Self::LapsedAnnounces,
        Self::LapsedAlone,
        Self::LetsGoOnFailedRefresh,
        Self::HoldsThoughReleased,
        Self::BelievesOldCopies,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use mooring_lease::planted::Bug as OfLease;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// From now on the cores of this thread have this bug, or none.
    pub fn plant(bug: Option<Bug>) {
        BUG.set(bug);
        mooring_lease::planted::plant(match bug {
            Some(Bug::BlindTimeCounts) => Some(OfLease::BlindTimeCounts),
            Some(Bug::BelievesKeptDeclaration) => Some(OfLease::BelievesKeptDeclaration),
            _ => None,
        });
    }

    /// Whether a test fails with this bug.
    #[cfg(test)]
    pub(crate) fn is_found_by(bug: Bug, test: fn()) -> bool {
        plant(Some(bug));
        let failed = std::panic::catch_unwind(test).is_err();
        plant(None);
        failed
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }
}

#[cfg(all(test, feature = "planted"))]
pub(crate) use switch::is_found_by;
#[cfg(feature = "planted")]
pub use switch::{is, plant};

/// Whether a bug is switched on.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is($crate::planted::Bug::$bug)
    };
}

/// Whether a bug is switched on: never, in what ships.
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

pub(crate) use planted;
