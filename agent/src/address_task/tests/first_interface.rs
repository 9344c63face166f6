//! The interface for VIPs of Services that name none is missing, or not known yet.

use super::*;

const MISSING: &str = "services-interface";

fn needs(first: Option<&str>, by_first: bool, all_known: bool) -> Needs {
    Needs { first: first.map(str::to_owned), by_first, all_known, ..Needs::default() }
}

/// Nothing has a default route.
fn no_route(ours: &[(IpAddr, u32)]) -> State {
    State { up: true, ours: ours.iter().copied().collect(), ..State::default() }
}

impl Ends {
    fn waits_for_first(&self) -> bool {
        self.ops.readiness.waits().iter().any(|text| text.contains(MISSING))
    }

    fn looks(&self) -> usize {
        self.model.0.borrow().looks
    }

    fn told(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.notices.try_recv().ok()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn vips_of_an_interface_that_is_gone_belong_on_no_other() {
    let needs = Needs { first: Some("eth0".into()), named: BTreeSet::from(["eth1".into()]), ..Needs::default() };
    beside_with(Policy::Services, needs, BTreeSet::new(), async |mut ends: Ends| {
        ends.model.set(|state| state.lost = true);
        ends.event(KernelEvent::LinkGone { index: ETH0, name: "eth0".into() }).await;
        let found = loop {
            let found = ends.interfaces().await;
            if found[0].index != ETH0 {
                break found;
            }
        };
        let seen: Vec<_> = found.iter().map(|one| (one.index, one.name.as_str(), one.up)).collect();
        assert_eq!(seen, [(0, "eth0", false), (ETH1, "eth1", true)]);
        ends.model.set(|state| state.lost = false);
        assert_eq!(ends.interfaces().await[0].index, ETH0, "it is looked for");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_stays_until_the_default_route_is_there() {
    for all_known in [false, true] {
        let needs = needs(None, all_known, all_known);
        run_with(Policy::Services, needs, no_route(&[(VIP, ETH0), (OTHER, ETH1)]), async |mut ends: Ends| {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let told = ends.told();
            assert!(told.is_empty(), "nobody decides yet: {told:?}");
            assert_eq!((ends.ours().len(), ends.waits_for_first()), (2, true));
            ends.model.set(|state| state.route = Some(ETH0));
            let found = ends.interfaces().await;
            assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), [ETH0, ETH1]);
            let Notice::LeftOver(vips) = ends.notice().await else { panic!("they are the core's now") };
            assert_eq!((vips.len(), ends.waits_for_first()), (2, false));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_is_waited_for_no_longer_than_it_lives() {
    run_with(Policy::Services, needs(None, true, true), no_route(&[(VIP, ETH1)]), async |mut ends: Ends| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(ends.told().is_empty());
        let named = Needs { named: BTreeSet::from(["eth1".into()]), ..needs(None, true, true) };
        ends.jobs.send(Job::Needs(named)).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(ends.told().is_empty());
        ends.model.set(|state| state.ours.clear());
        ends.event(KernelEvent::AddressGone { address: VIP, index: ETH1 }).await;
        let found = ends.interfaces().await;
        assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), [0, ETH1]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_does_not_wait_where_it_needs_no_default_route() {
    for by_first in [false, true] {
        run_with(Policy::Services, needs(None, false, false), no_route(&[(VIP, ETH1)]), async |mut ends: Ends| {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(ends.told().is_empty());
            let (named, by_name) = (BTreeSet::from(["eth1".into()]), BTreeSet::from([VIP]));
            let named = Needs { named, by_name, ..needs(None, by_first, true) };
            ends.jobs.send(Job::Needs(named)).unwrap();
            assert_eq!(ends.interfaces().await[1].index, ETH1);
            assert!(matches!(ends.notice().await, Notice::LeftOver(_)));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_interface_is_a_reason_to_be_unready_if_a_vip_needs_it() {
    for (first, lost) in [(Some("eth0"), true), (None, false)] {
        let named = |by_first| Needs { named: BTreeSet::from(["eth1".into()]), ..needs(first, by_first, true) };
        run_with(Policy::Services, named(false), State { lost, ..no_route(&[]) }, async |mut ends: Ends| {
            assert!(!ends.interfaces().await[0].exists());
            assert!(!ends.waits_for_first(), "no VIP needs it");
            ends.jobs.send(Job::Needs(named(true))).unwrap();
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(ends.waits_for_first(), "{:?}", ends.ops.readiness.waits());
            ends.model.set(|state| (state.lost, state.route) = (false, Some(ETH0)));
            assert_eq!(ends.interfaces().await[0].index, ETH0);
            assert!(!ends.waits_for_first());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_route_is_looked_for_each_second_only_if_a_vip_needs_it() {
    for (by_first, least, most) in [(false, 1, 5), (true, 50, 70)] {
        run_with(Policy::Services, needs(None, by_first, true), no_route(&[]), async |mut ends: Ends| {
            ends.interfaces().await;
            tokio::time::sleep(Duration::from_mins(1)).await;
            let looks = ends.looks();
            assert!((least..=most).contains(&looks), "{looks} looks in a minute");
            // A link or an address may bring a route.
            ends.model.set(|state| state.route = Some(ETH1));
            ends.event(KernelEvent::NodeAddress { index: ETH1 }).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(
                ends.told()
                    .iter()
                    .any(|notice| matches!(notice, Notice::Interfaces(found, _) if found[0].index == ETH1))
            );
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_route_through_a_tunnel_names_no_interface() {
    const TUNNEL: u32 = 9;
    let named = Needs { named: BTreeSet::from(["eth1".into()]), ..needs(None, true, true) };
    run_with(Policy::Services, named, State { route: Some(TUNNEL), ..no_route(&[]) }, async |mut ends: Ends| {
        let found = ends.interfaces().await;
        assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), [0, ETH1]);
        assert!(ends.waits_for_first());
        ends.model.set(|state| state.route = Some(ETH0));
        assert_eq!(ends.interfaces().await[0].index, ETH0);
        assert!(!ends.waits_for_first());
        // A tunnel that takes the default route over moves no VIPs.
        ends.model.set(|state| state.route = Some(TUNNEL));
        ends.event(KernelEvent::NodeAddress { index: ETH0 }).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(ends.told().is_empty() && !ends.waits_for_first());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_interface_is_told_before_the_search_for_left_overs_was_answered() {
    let first = needs(Some("eth0"), true, true);
    let state = State { hides: true, ..no_route(&[(VIP, ETH0)]) };
    run_with(Policy::Services, first, state, async |mut ends: Ends| {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let told = ends.told();
        assert!(told.is_empty(), "{told:?}");
        ends.model.set(|state| state.hides = false);
        assert_eq!(ends.interfaces().await[0].index, ETH0);
        assert!(matches!(ends.notice().await, Notice::LeftOver(vips) if vips[0].address == VIP));
    })
    .await;
}
