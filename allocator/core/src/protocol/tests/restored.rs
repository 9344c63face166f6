//! A restore under a running allocator: claims, without status and with new uids, and `IPAddress` objects come back one by one, in
//! every order. Nothing changes hands. One thing does not hold: an `IPAddress` that comes long before its claim is released, and where the
//! pool lets addresses rest, this one rests; so there claims come first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::*;
use crate::protocol::sim::Dice;

/// The claims and the `IPAddress` objects of a backup, and what each claim had.
struct Backup {
    claims: Vec<Claim>,
    addresses: Vec<Address>,
    had: BTreeMap<Key, IpAddr>,
}

fn pools() -> [(&'static str, Result<Plan, Vec<SpecError>>); 2] {
    let mut rests = spec("10.1.0.1-10.1.0.20");
    rests.policy.quarantine_seconds = 600;
    [("p", Ok(plan("10.0.0.1-10.0.0.20"))), ("rests", rests.plan())]
}

fn backup(of_pools: &[&str]) -> Backup {
    let mut bench = Bench::new(&pools());
    bench.start();
    for of in of_pools {
        for name in ["z", "gone-1", "m", "gone-2", "a", "gone-3", "k", "b"] {
            bench.make(claim(&format!("{of}-{name}"), of));
        }
        for name in ["gone-1", "gone-2", "gone-3"] {
            bench.change(&format!("{of}-{name}"), |claim| claim.deleting = true);
        }
    }
    bench.rest(700);
    let store = bench.store;
    let had = store.addresses.iter().map(|(key, address)| (key.clone(), address.address.unwrap())).collect();
    let claims = store.claims.into_values().collect();
    Backup { claims, addresses: store.addresses.into_values().collect(), had }
}

#[derive(Clone)]
enum Piece {
    Claim(Box<Claim>),
    Address(Box<Address>),
}

fn restore(pieces: Vec<Piece>, dice: &mut Dice) -> Bench {
    let mut bench = Bench::new(&pools());
    bench.start();
    for piece in pieces {
        match piece {
            Piece::Claim(claim) => {
                let uid = format!("{}-again", claim.uid).as_str().into();
                bench.store.put_claim(Claim { uid, bound: None, condition: None, ..*claim });
            }
            // One that is there already is left as it is.
            Piece::Address(address) if bench.store.addresses.contains_key(&address.key) => {}
            Piece::Address(address) => {
                let uid = bench.store.uid();
                bench.store.put_address(Address { uid, ..*address });
            }
        }
        match dice.pick(6) {
            0 => {}
            1 => bench.rest(40),
            2 => bench.start(),
            _ => bench.rest(1),
        }
    }
    bench.rest(60);
    bench
}

fn has_all(bench: &Bench, had: &BTreeMap<Key, IpAddr>, order: &str) {
    for (key, ip) in had {
        let claim = &bench.store.claims[key];
        assert_eq!(bench.has(&key.name), Some(*ip), "{order}: {key}: {claim:?}");
    }
    assert_eq!(bench.store.addresses.len(), had.len(), "{order}");
}

#[test]
fn nothing_changes_hands_where_claims_come_first() {
    let Backup { claims, addresses, had } = backup(&["p", "rests"]);
    let claims = || claims.iter().cloned().map(|claim| Piece::Claim(Box::new(claim)));
    let addresses = || addresses.iter().cloned().map(|address| Piece::Address(Box::new(address)));
    let mut dice = Dice::new(29);
    has_all(&restore(claims().collect(), &mut dice), &had, "claims alone");
    has_all(&restore(claims().chain(addresses()).collect(), &mut dice), &had, "claims first");
}

#[test]
fn nothing_changes_hands_in_any_order() {
    let Backup { claims, addresses, had } = backup(&["p"]);
    let claims = || claims.iter().cloned().map(|claim| Piece::Claim(Box::new(claim)));
    let addresses = || addresses.iter().cloned().map(|address| Piece::Address(Box::new(address)));
    let mut dice = Dice::new(29);
    has_all(&restore(addresses().chain(claims()).collect(), &mut dice), &had, "addresses first");
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut left: Vec<Piece> = claims().chain(addresses()).collect();
        let mut pieces = Vec::new();
        while !left.is_empty() {
            pieces.push(left.swap_remove(dice.pick(left.len())));
        }
        has_all(&restore(pieces, &mut dice), &had, &format!("seed {seed}"));
    }
}
