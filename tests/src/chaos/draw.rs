//! The faults of a run, drawn from its seed: pure, and the same for the same seed.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::class::{Class, LONG};

/// A control plane, named by its role when a round begins: so the draw does not depend on the result of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The holder of the VIP.
    Holder,
    /// The first of the others, by name.
    Second,
    /// The last of the others.
    Third,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Holder, Self::Second, Self::Third];
}

/// A fault that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// The class of the fault.
    pub class: Class,
    /// The affected host; without meaning if the class has no host.
    pub on: Role,
    /// The other end of a cut.
    pub peer: Option<Role>,
    /// The delay from the beginning of the round.
    pub after: Duration,
    /// The fault is healed after this time.
    pub lasts: Duration,
    /// Percent of loss, or milliseconds of a pause.
    pub amount: u8,
}

/// Faults that overlap, or one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The number of the round, from 1.
    pub round: u64,
    /// Its faults, by their beginning.
    pub orders: Vec<Order>,
    /// An extra pause before the round, beyond the usual wait: so faults start at any moment between two renewals.
    pub pause: Duration,
}

/// An endless sequence of plans. Cards are dealt from a shuffled deck, so that every class is drawn.
#[derive(Clone, Debug)]
pub struct Draw {
    chance: Chance,
    deck: Vec<Class>,
    round: u64,
}

impl Draw {
    /// The sequence for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { chance: Chance(seed), deck: Vec::new(), round: 0 }
    }

    /// The next round.
    #[must_use]
    pub fn deal(&mut self) -> Plan {
        self.round += 1;
        let wanted = match self.chance.below(12) {
            0 => 3,
            1..=4 => 2,
            _ => 1,
        };
        let first = self.card(Duration::ZERO);
        let mut orders = vec![first];
        // A card that does not fit the others goes back into the deck.
        for _ in 0..wanted * 3 {
            if orders.len() >= wanted || first.class == Class::AgentsUpgraded {
                break;
            }
            let span = first.lasts.max(Duration::from_secs(1)).min(Duration::from_secs(3));
            let after = Duration::from_millis(self.chance.between((0, millis(span))));
            let order = self.card(after);
            if goes_with(&orders, &order) { orders.push(order) } else { self.deck.insert(0, order.class) }
        }
        orders.sort_by_key(|order| order.after);
        let pause = Duration::from_millis(self.chance.below(1_500));
        Plan { round: self.round, orders, pause }
    }

    fn card(&mut self, after: Duration) -> Order {
        if self.deck.is_empty() {
            self.deck = Class::ALL.into_iter().flat_map(|class| vec![class; class.about().cards]).collect();
            for i in (1..self.deck.len()).rev() {
                let other = usize::try_from(self.chance.below(i as u64 + 1)).unwrap_or_default();
                self.deck.swap(i, other);
            }
        }
        let class = self.deck.pop().unwrap_or(Class::Crash);
        let about = class.about();
        let on = match self.chance.below(8) {
            _ if class == Class::AddressDeleted || !class.has_host() => Role::Holder,
            0..=3 => Role::Holder,
            4 | 5 => Role::Second,
            _ => Role::Third,
        };
        let others: Vec<Role> = Role::ALL.into_iter().filter(|role| *role != on).collect();
        let peer = class.has_peer().then(|| others[usize::from(self.chance.below(2) == 1)]);
        let long = about.long && self.chance.below(6) == 0;
        let lasts = Duration::from_millis(self.chance.between(if long { LONG } else { about.lasts }));
        let amount = u8::try_from(self.chance.between((5, 25))).unwrap_or(5);
        Order { class, on, peer, after, lasts, amount }
    }
}

/// Whether the fault can happen together with the others: no two affect the same part, and one control plane stays in
/// service.
fn goes_with(orders: &[Order], one: &Order) -> bool {
    let parts = |order: &Order| order.class.parts(order.on, order.peer);
    let taken: BTreeSet<_> = orders.iter().flat_map(parts).collect();
    let disabled: BTreeSet<Role> =
        orders.iter().chain([one]).filter(|order| order.class.disables()).map(|order| order.on).collect();
    !parts(one).iter().any(|part| taken.contains(part)) && disabled.len() < Role::ALL.len()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to less than `end`, which must not be 0. The bias is far too small to matter here.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plans(seed: u64, count: usize) -> Vec<Plan> {
        let mut draw = Draw::new(seed);
        (0..count).map(|_| draw.deal()).collect()
    }

    #[test]
    fn a_seed_gives_one_sequence_and_another_seed_another() {
        assert_eq!(plans(7, 200), plans(7, 200));
        assert_ne!(plans(7, 200), plans(8, 200));
    }

    #[test]
    fn every_class_comes_up_and_often_enough() {
        let mut counts = BTreeMap::<Class, usize>::new();
        for order in plans(1, 300).into_iter().flat_map(|plan| plan.orders) {
            *counts.entry(order.class).or_default() += 1;
        }
        for class in Class::ALL {
            assert!(counts.get(&class).is_some_and(|count| *count >= 4), "{class:?}: {counts:?}");
        }
    }

    #[test]
    fn what_overlaps_never_takes_hold_of_the_same_nor_of_everybody() {
        let all = plans(3, 2_000);
        assert!(all.iter().any(|plan| plan.orders.len() == 3));
        for plan in &all {
            let parts: Vec<_> = plan.orders.iter().flat_map(|o| o.class.parts(o.on, o.peer)).collect();
            assert_eq!(parts.len(), parts.iter().collect::<BTreeSet<_>>().len(), "{plan:?}");
            let disabled: BTreeSet<_> = plan.orders.iter().filter(|o| o.class.disables()).map(|o| o.on).collect();
            assert!(disabled.len() < 3, "{plan:?}");
            assert!(plan.orders.iter().all(|o| o.peer != Some(o.on)), "{plan:?}");
        }
    }
}
