//! Interfaces that are ports of a bridge, and interfaces of pods.

use super::*;

const ADVICE: &str = "eth0 is a port of br-ex: name br-ex instead";

fn port_of(above: Option<&str>) -> impl FnOnce(&mut State) {
    let above = above.map(str::to_owned);
    move |state| state.port_of = above
}

impl Ends {
    fn advises(&self) -> bool {
        self.ops.readiness.waits().iter().any(|text| text.contains(ADVICE))
    }

    /// The first interface becomes a port, or is none any more.
    async fn becomes_port_of(&mut self, above: Option<&str>) {
        self.model.set(port_of(above));
        let mac = Some(interface(ETH0, true).mac);
        self.event(KernelEvent::Link { index: ETH0, name: "eth0".into(), up: true, mac }).await;
        assert_eq!(self.interfaces().await[0].port_of.as_deref(), above);
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_of_a_bridge_is_a_reason_to_be_unready_and_is_used() {
    for policy in POLICIES {
        let needs = Needs { first: Some("eth0".into()), by_first: true, ..Needs::default() };
        beside_with(policy, needs, BTreeSet::new(), async |mut ends: Ends| {
            assert!(!ends.advises());
            ends.becomes_port_of(Some("br-ex")).await;
            assert!(ends.advises(), "{:?}", ends.ops.readiness.waits());
            ends.put(VIP).await;
            assert_eq!(ends.ours(), [(VIP, ETH0)]);
            ends.becomes_port_of(None).await;
            assert!(!ends.advises());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_from_the_start_is_a_reason_to_be_unready() {
    for policy in POLICIES {
        let needs = Needs { first: Some("eth0".into()), by_first: true, ..Needs::default() };
        let state = State { up: true, port_of: Some("br-ex".into()), ..State::default() };
        run_with(policy, needs, state, async |mut ends: Ends| {
            assert!(ends.interfaces().await[0].exists());
            assert!(ends.advises());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_that_no_vip_of_a_service_is_meant_for_is_no_reason() {
    beside(Policy::Services, async |mut ends: Ends| {
        ends.becomes_port_of(Some("br-ex")).await;
        assert!(!ends.advises());
        let named = Needs { named: BTreeSet::from(["eth0".into()]), ..Needs::default() };
        ends.jobs.send(Job::Needs(named)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(ends.advises());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_ethernet_addresses_of_pods_are_told() {
    beside(Policy::Services, async |mut ends: Ends| {
        ends.model.set(|state| state.pods = true);
        ends.event(KernelEvent::Link { index: ETH1 + 1, name: "eth2".into(), up: true, mac: None }).await;
        let Notice::Interfaces(found, macs) = ends.notice().await else { panic!("nothing about interfaces") };
        let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, macs.len()), (vec!["eth0"], 3));
    })
    .await;
}
