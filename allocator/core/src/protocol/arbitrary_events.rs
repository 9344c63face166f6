//! Arbitrary events, also events that no API server would send: the machine must not panic, and each step must end.

use std::sync::Arc;
use std::time::Duration;

use crate::in_cluster::InCluster;
use crate::names::{ClaimKind, Key, PoolKind, PoolRef, Uid, Version};
use crate::pool::{PoolSpec, PrefixSpec, SpecError};
use crate::retained_meta::RetainedMeta;

use super::sim::Dice;
use super::{
    Action, Address, Attempt, Claim, Condition, Done, Event, Failure, Hold, Links, Machine, Moment, Object, Paused,
    Pool, Reason, Rest,
};

/// Makes random objects.
struct Arbitrary(Dice);

impl Arbitrary {
    fn uid(&mut self) -> Uid {
        Uid(format!("u{}", self.0.roll(12)).into())
    }

    fn version(&mut self) -> Version {
        Version(self.0.roll(6).to_string().into())
    }

    fn key(&mut self) -> Key {
        let name = if self.0.one_in(9) { format!("rest-u{}", self.0.roll(12)) } else { format!("c{}", self.0.roll(5)) };
        let namespace = ["a", "b"][self.0.pick(2)];
        if self.0.one_in(4) { Key::of_metal3(namespace, &name) } else { Key::new(namespace, &name) }
    }

    fn pool_ref(&mut self) -> Arc<PoolRef> {
        let kinds = [
            PoolKind::InClusterIPPool,
            PoolKind::GlobalInClusterIPPool,
            PoolKind::InClusterPrefixPool,
            PoolKind::Metal3IPPool,
        ];
        Arc::new(PoolRef::new(kinds[self.0.pick(4)], ["a", "b"][self.0.pick(2)], "p"))
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.0.one_in(3)).then(|| make(self))
    }

    fn flag(&mut self) -> bool {
        self.0.one_in(2)
    }

    fn number(&mut self) -> u64 {
        [0, 1, 2, 1_000_000, u64::MAX][self.0.pick(5)]
    }

    fn text(&mut self) -> String {
        let all = ["10.0.0.1", "10.0.0.2", "fd00::", "fd00::/126", "", "x", "node 7 heard it", "10.0.0.9/24"];
        all[self.0.pick(all.len())].into()
    }

    fn count(&mut self) -> u32 {
        [0, 1, 2, u32::MAX][self.0.pick(4)]
    }

    fn condition(&mut self) -> Condition {
        let reason = [Reason::AddressAllocated, Reason::PoolExhausted, Reason::Other][self.0.pick(3)];
        Condition { ready: self.flag(), reason, message: self.text() }
    }

    fn claim(&mut self) -> Claim {
        let hold = [Hold::None, Hold::None, Hold::Paused, Hold::NoCluster("x".into())][self.0.pick(4)].clone();
        Claim {
            key: self.key(),
            uid: self.uid(),
            version: self.version(),
            created: self.number(),
            pool: self.pool_ref(),
            deleting: self.0.one_in(4),
            finalizer: self.flag(),
            others: self.0.one_in(4),
            bound: self.maybe(|o| o.key().name),
            voided: self.count(),
            had: None,
            requested: self.maybe(|o| o.text().into()),
            hold,
            condition: self.maybe(Self::condition),
            retained: RetainedMeta::default(),
        }
    }

    fn address(&mut self) -> Address {
        let key = self.key();
        Address {
            object: (key.claim_kind() == ClaimKind::Metal3).then(|| self.text().into()),
            key,
            uid: self.uid(),
            version: self.version(),
            pool: self.pool_ref(),
            address: self.text().parse().ok(),
            prefix: [0, 24, 126, 128, 255][self.0.pick(5)],
            claim: self.key().name,
            owner: self.maybe(Self::uid),
            deleting: self.0.one_in(4),
            finalizer: self.flag(),
            attempt: self.maybe(|o| Attempt { claim: o.uid(), number: o.count(), adopted: o.flag() }),
            rest: if self.0.one_in(5) { Some(Rest { of: self.uid(), until: self.number() }) } else { None },
            conflict: if self.0.one_in(5) { Some(self.text().into()) } else { None },
            holder: None,
            hints: None,
            links: Links { pool: self.maybe(Self::uid), outdated: self.0.one_in(5) },
        }
    }

    fn pool(&mut self) -> Pool {
        let reference = self.pool_ref();
        let plan = if self.0.one_in(4) {
            Err(vec![SpecError::Empty { field: "addresses" }])
        } else if reference.kind.of_prefixes() {
            let prefixes = vec!["fd00::/120".into()];
            let mut spec = PrefixSpec { prefixes, allocation_prefix_length: 126, ..PrefixSpec::default() };
            spec.policy.quarantine_seconds = i64::MAX;
            spec.plan()
        } else {
            let mut spec = PoolSpec { addresses: vec!["10.0.0.1-10.0.0.3".into()], prefix: 24, ..PoolSpec::default() };
            spec.policy.quarantine_seconds = [0, 5, i64::MAX][self.0.pick(3)];
            spec.plan()
        };
        Pool {
            reference,
            uid: self.uid(),
            version: self.version(),
            generation: self.0.roll(3),
            plan,
            remote: None,
            paused: self.0.one_in(6).then_some(Paused::Annotation),
            deleting: self.0.one_in(6),
            finalizer: self.flag(),
            status: None,
        }
    }

    fn many<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.0.roll(5)).map(|_| make(self)).collect()
    }

    fn failure(&mut self) -> Failure {
        let all =
            [Failure::Conflict, Failure::Exists, Failure::NotFound, Failure::Refused("no".into()), Failure::Unknown];
        all[self.0.pick(5)].clone()
    }

    fn event(&mut self, asked: &[u64]) -> Event {
        let id = if asked.is_empty() || self.0.one_in(6) { self.0.roll(50) } else { asked[self.0.pick(asked.len())] };
        match self.0.roll(20) {
            19 => {
                let of = [PoolKind::InClusterIPPool, PoolKind::PHPIPAMIPPool][self.0.pick(2)];
                Event::PoolsRefused(of, self.maybe(|_| "no".into()))
            }
            16 => Event::Metal3Listed,
            17 => Event::Metal3Claims(self.many(Self::claim)),
            18 => Event::Metal3Addresses(self.many(Self::address), if self.flag() { Some(id) } else { None }),
            0 => Event::Tick,
            1 => {
                let at = self.number();
                Event::Leading(self.maybe(|_| Duration::from_millis(at)))
            }
            2 => Event::Claims(self.many(Self::claim)),
            3 => Event::Addresses(self.many(Self::address), if self.flag() { Some(id) } else { None }),
            4 => Event::Pools(self.many(Self::pool)),
            5 | 6 => Event::Claim(self.claim()),
            7 => Event::ClaimGone(self.key(), self.uid()),
            8 | 9 => Event::Address(self.address()),
            10 => Event::AddressGone(self.uid()),
            11 => Event::Pool(Box::new(self.pool())),
            12 => Event::PoolGone(self.pool_ref(), self.uid()),
            13 => {
                let result = if self.flag() { Ok(self.maybe(Self::claim)) } else { Err(self.failure()) };
                Event::ClaimRead { id, result }
            }
            _ => {
                let result = match self.0.roll(5) {
                    0 => Ok(Done::There(Object::Claim(self.claim()))),
                    1 => Ok(Done::There(Object::Address(self.address()))),
                    2 => Ok(Done::There(Object::NotShown)),
                    3 => Ok(Done::Gone),
                    _ => Err(self.failure()),
                };
                Event::Answer { id, result }
            }
        }
    }
}

#[test]
fn no_event_is_too_much() {
    for seed in 0..150 {
        let mut any = Arbitrary(Dice::new(seed << 20));
        let mut machine = Machine::new(InCluster::default(), seed);
        for event in [Event::Claims(vec![]), Event::Addresses(vec![], None), Event::Pools(vec![])] {
            machine.step(Moment::default(), event);
        }
        let mut now = Duration::ZERO;
        let mut asked = Vec::new();
        machine.step(Moment::default(), Event::Leading(Some(Duration::MAX)));
        for _ in 0..300 {
            now += Duration::from_millis(any.0.roll(3000));
            let wall = any.number();
            let event = any.event(&asked);
            let actions = machine.step(Moment { now, wall }, event);
            assert!(actions.len() < 200, "seed {seed}: {} actions at once", actions.len());
            asked.extend(actions.iter().filter_map(|action| match action {
                Action::Write { id, .. } | Action::ListAddresses { id, .. } | Action::ReadClaim { id, .. } => Some(*id),
                Action::Report(_) | Action::Remote(_) => None,
            }));
        }
    }
}
