//! Random operations in random order, against what must be true whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_allocator_core::names::{Key, Uid};

use super::classes::{OTHER, unbalanced};
use super::several::{of_class, of_namespaces};
use super::world::{BOTH, Queue, World, ip, settings};
use crate::machine::testing::{StoredClaim, ports, service};
use crate::machine::{Done, Event, Failure, Kind, Settings, Write};
use crate::objects::{FamilyPolicy, Ingress, Pool, Reserved, Service};
use crate::ports::{Protocol, clash};
use crate::record;

/// splitmix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn one<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

const CONFIGS: &[&[(&str, &str)]] = &[
    &[("range-global", "10.0.0.1-10.0.0.6"), ("range-a", "10.0.0.4-10.0.0.9"), ("cidr-global", "fd00::10/126")],
    &[("range-global", "10.0.0.1-10.0.0.6,nonsense"), ("allow-share-global", "true"), ("interface-a", "eth1")],
    &[
        ("range-global", "10.0.0.5-10.0.0.8"),
        ("range-a", "10.0.0.4-10.0.0.6"),
        ("allow-share-a", "true"),
        ("search-order", "desc"),
    ],
    &[("cidr-global", "192.168.0.8/29,fd00::10/125"), ("interface-global", "eth2")],
    &[],
];
const ASKED: &[&str] = &[
    "10.0.0.1",
    "10.0.0.5",
    " 10.0.0.9",
    "10.0.0.5,fd00::11",
    "fd00::12",
    "192.168.0.9",
    "10.7.7.7",
    "lb.example.com",
    "0.0.0.0",
    "",
];

fn random_service(dice: &mut Dice, serial: u64) -> Service {
    let namespace = *dice.one(&["a", "b"]);
    let name = *dice.one(&["one", "two", "three", "four"]);
    let mut one = service(namespace, name);
    one.uid = Uid::from(&*format!("uid-{serial}"));
    edit(dice, &mut one);
    edit(dice, &mut one);
    one
}

fn edit(dice: &mut Dice, one: &mut Service) {
    let maybe = |dice: &mut Dice, list: &[&str]| Some(*dice.one(list)).filter(|text| !text.is_empty()).map(Box::from);
    match dice.below(12) {
        0 | 1 => one.notes.addresses = maybe(dice, ASKED),
        2 => one.load_balancer_ip = maybe(dice, &["10.0.0.2", "", "", "fd00::11", "nonsense"]),
        3 => one.notes.sharing_key = maybe(dice, &["k", "l", "b/k", "", ""]),
        4 => {
            let number = *dice.one(&[53, 80, 443]);
            one.notes.sharing_namespaces = (number != 53).then(|| Box::from(if number == 80 { "a" } else { "c, *" }));
            one.ports = ports(&[(number, if dice.chance(50) { Protocol::Tcp } else { Protocol::Udp })]);
        }
        5 => {
            one.families = BOTH.to_vec();
            one.policy = *dice.one(&[FamilyPolicy::PreferDualStack, FamilyPolicy::RequireDualStack]);
            if dice.chance(30) {
                one.families.reverse();
            }
        }
        6 => {
            one.families.truncate(1);
            one.policy = FamilyPolicy::SingleStack;
        }
        7 => {
            one.load_balancer = dice.chance(60);
            if !one.load_balancer {
                one.ingress.clear();
            }
        }
        8 => one.notes.ignore = dice.chance(40),
        9 => one.notes.pool = maybe(dice, &["kubevip-a-ipv4", "kubevip-global-ipv4", "nowhere", "", "", ""]),
        10 => one.notes.reallocate = true,
        _ => {
            one.local = dice.chance(50);
            // Somebody's hand where it does not belong.
            if dice.chance(30) {
                one.ingress.clear();
            }
        }
    }
}

/// Services as kube-vip and its cloud provider leave them, and the address that each shows.
fn leftovers(dice: &mut Dice) -> Vec<(Service, IpAddr)> {
    let mut all = Vec::new();
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        if dice.chance(60) {
            continue;
        }
        let namespace: &&str = dice.one(&["a", "b"]);
        let mut old = service(namespace, name);
        old.uid = Uid::from(&*format!("uid-old-{number}"));
        let ip = ip(&format!("10.0.0.{}", number * 3 + 1));
        old.ingress = vec![Ingress { ip, vip: dice.chance(50) }];
        (old.implementation, old.cleanup) = (true, dice.chance(50));
        old.notes.host = dice.chance(70).then(|| "node-z".into());
        let asked = format!("{ip}");
        let nonsense = format!("{ip},10.0.0.99");
        old.notes.addresses = match *dice.one(&[&*asked, "", "lb.example.com", &*nonsense]) {
            "" => None,
            text => Some(text.into()),
        };
        old.load_balancer_ip = dice.chance(50).then(|| asked.into());
        all.push((old, ip));
    }
    all
}

/// One thing that people, or fate, do.
fn operation(dice: &mut Dice, world: &mut World, serial: u64) {
    let keys: Vec<Key> = world.services.keys().cloned().collect();
    let some = |dice: &mut Dice| (!keys.is_empty()).then(|| dice.one(&keys).clone());
    match dice.below(21) {
        20 => {
            if let Some(key) = some(dice) {
                let before = world.services[&key].clone();
                if !before.cleanup && !before.deleting {
                    world.delete(&key);
                    world.apply(restored(before, serial));
                }
            }
        }
        0..=4 => {
            let new = random_service(dice, serial);
            if !world.services.contains_key(&new.key) {
                world.apply(new);
            }
        }
        5..=11 => {
            if let Some(key) = some(dice) {
                let mut changed = world.services[&key].clone();
                edit(dice, &mut changed);
                if changed != world.services[&key] {
                    world.apply(changed);
                }
            }
        }
        12 | 13 => {
            if let Some(key) = some(dice) {
                world.delete(&key);
            }
        }
        14 => {
            let data: &[(&str, &str)] = dice.one::<&[(&str, &str)]>(CONFIGS);
            world.configure(data);
        }
        15 => {
            let nodes: &[&[(&str, Reserved)]] =
                &[&[], &[("10.0.0.6", Reserved::Node("n".into()))], &[("10.0.0.5", Reserved::ControlPlane)]];
            let all = (*dice.one(nodes)).to_vec();
            world.reserve(&all);
        }
        16 => {
            if let Some(key) = some(dice) {
                let nodes: &[&[&str]] = &[&[], &["n1"], &["n2"], &["n1", "n2"]];
                let nodes = *dice.one(nodes);
                world.endpoints(&key, nodes);
            }
        }
        17 => {
            let claims: Vec<Key> =
                world.claims.iter().filter(|(_, c)| c.bound.is_some()).map(|(key, _)| key.clone()).collect();
            if !claims.is_empty() && world.others.len() < 2 {
                world.conflict(dice.one(&claims));
            }
        }
        18 if dice.chance(50) => world.start(),
        18 => world.fail_over(),
        _ => {
            world.now += std::time::Duration::from_secs(dice.below(4));
            world.tick();
        }
    }
}

/// A Service as a backup, or exported YAML, brings it back.
fn restored(mut one: Service, serial: u64) -> Service {
    one.uid = Uid::from(&*format!("uid-restored-{serial}"));
    (one.ingress, one.condition) = (Vec::new(), None);
    one
}

/// One thing that goes on meanwhile; whether there was any.
fn go_on(dice: &mut Dice, world: &mut World, late: &[Queue]) -> bool {
    world.change_places(dice.chance(50));
    match dice.below(6) {
        5 => return world.make_list(usize::try_from(dice.below(6)).unwrap()),
        // One that led before thaws.
        4 if !world.ghosts.is_empty() => {
            let at = usize::try_from(dice.below(world.ghosts.len() as u64)).unwrap();
            let write = world.ghosts.swap_remove(at);
            let result = world.execute(&write);
            world.trace(&format!("ghost {write:?}: {result:?}"));
        }
        0 | 1 if !world.busy_queues().is_empty() => {
            let queue = *dice.one(&world.busy_queues());
            // Some kinds are late for a while.
            if late.contains(&queue) {
                return false;
            }
            let event = world.pop_of(queue).unwrap();
            world.deliver(event);
        }
        2 if !world.todo.is_empty() => {
            let at = usize::try_from(dice.below(world.todo.len() as u64)).unwrap();
            let (id, write) = world.todo.remove(at).unwrap();
            let result: Result<Done, Failure> = match dice.below(20) {
                0 => Err(Failure::Unknown),
                // It has taken effect, and nobody says so.
                1 => world.execute(&write).and(Err(Failure::Unknown)),
                // As the API server names the object.
                2 => match &write {
                    Write::CreateClaim(new) => Err(Failure::Refused(format!("{:?} is forbidden", new.key.name))),
                    _ => Err(Failure::Refused("no".into())),
                },
                _ => world.execute(&write),
            };
            let answer = Event::Answer { id, result };
            // An answer may come before what the watch shows, or after.
            if dice.chance(50) { world.push_first(answer) } else { world.push(answer) }
        }
        3 => {
            let claims: Vec<Key> = world.claims.keys().cloned().collect();
            if claims.is_empty() {
                return false;
            }
            let claim = dice.one(&claims).clone();
            return if dice.chance(60) { world.allocate(&claim) } else { world.advertise(&claim) };
        }
        _ => return false,
    }
    true
}

/// What is true at any moment.
fn always(world: &World, edited: &BTreeSet<Key>) {
    let mut has: BTreeMap<std::net::IpAddr, Vec<&Service>> = BTreeMap::new();
    for service in world.services.values() {
        for (object, ip) in record::read(service.notes.record.as_deref()) {
            // A Service that was restored has its record from before, and perhaps no claim.
            let member = (service.key.clone(), service.uid.clone());
            let given = world.addresses.get(&object).is_some_and(|address| address.address == Some(ip));
            if given && world.claims.get(&object).is_some_and(|claim| claim.members.contains(&member)) {
                has.entry(ip).or_default().push(service);
            }
        }
    }
    for service in world.services.values().filter(|_| !world.is_haunted()) {
        dark_for_nobody(service);
    }
    for (ip, services) in has {
        for (at, one) in services.iter().enumerate() {
            for other in &services[at + 1..] {
                // Their ports were disjoint when they came together.
                let may = clash(&one.ports, &other.ports).is_none()
                    || edited.contains(&one.key)
                    || edited.contains(&other.key);
                assert!(may, "{ip} is {one:?}\nand {other:?}\n{:#?}", world.claims);
            }
        }
    }
}

/// Whether no agent advertises an address, because a Service that has it is `Local` and has no endpoint.
fn is_dark(world: &World, line: &record::Line) -> bool {
    let is_held = world.addresses.get(&line.0).is_some_and(|address| address.holder.is_some());
    let mut users = world.services.values().filter(|service| record::named(&service.notes).contains(line));
    !is_held && users.any(|service| service.local)
}

/// Agents advertise every address that the status of a Service shows, if Mooring gave it.
fn dark_for_nobody(service: &Service) {
    if service.notes.record.is_none() || !service.load_balancer || service.uid.to_string().starts_with("uid-old") {
        return;
    }
    let named = record::named(&service.notes);
    let unnamed = service.ingress.iter().find(|shown| named.iter().all(|(_, ip)| *ip != shown.ip));
    assert!(unnamed.is_none(), "no agent advertises {unnamed:?}: {service:?}");
}

/// Whether a Service that has the key of another namespace may have these claims, as far as its allocator can know.
fn is_invited(world: &World, service: &Service, claims: &[&StoredClaim]) -> bool {
    let key = service.notes.sharing_key.as_deref();
    let of_b = |one: &&Service| *one.key.namespace == *"b" && one.notes.sharing_key.as_deref() == Some("b/k");
    let mut hosts = world.services.values().filter(of_b).peekable();
    let by_key = key == Some("b/k") && &*service.key.namespace == "a" && !world.has_peer();
    let [a, b] = ["a", "b"].map(|namespace| world.machine.config().shares(&namespace.into()));
    let by_key = by_key && (a.is_none() || a != b);
    let shares = claims.iter().any(|claim| &*claim.key.namespace == "mooring" && claim.members.len() > 1);
    !(by_key && shares) || hosts.peek().is_none() || hosts.any(|host| host.notes.sharing_namespaces.is_some())
}

/// What is true when nothing goes on any more.
fn at_rest(world: &World, edited: &BTreeSet<Key>) {
    always(world, edited);
    let ours = |service: &Service| {
        service.load_balancer && !service.notes.ignore && world.accepts_class(service.class.as_deref())
    };
    // Nothing is leaked: each claim is somebody's, and each Service has one for each family.
    for claim in world.claims.values() {
        assert!(!claim.deleting && !claim.members.is_empty(), "{claim:?}");
        for (key, uid) in &claim.members {
            let service = world.services.get(key).filter(|service| service.uid == *uid && ours(service));
            assert!(service.is_some_and(|service| service.families.contains(&claim.family)), "{claim:?}");
        }
    }
    for (key, service) in &world.services {
        let claims = world.claims_of(key);
        for family in BOTH {
            let own: Vec<_> = claims.iter().filter(|claim| claim.family == family).collect();
            // A second one only as long as it is refused what it wants instead of the first, or lacks a family that it requires:
            // then it names no address.
            let lacks = service.policy == FamilyPolicy::RequireDualStack && service.notes.record.is_none();
            // One moves only to what a node advertises.
            let dark = |claim: &&StoredClaim| {
                let address = world.addresses.get(&claim.key).and_then(|address| address.address);
                address.is_some_and(|ip| is_dark(world, &(claim.key.clone(), ip)))
            };
            let waits = lacks || own.iter().any(|claim| claim.bound.is_none() || dark(claim));
            assert!(own.len() <= 1 + usize::from(waits), "{key}: {own:?}");
        }
        assert!(is_invited(world, service, &claims), "{service:?}: {claims:?}");
        let lines = record::read(service.notes.record.as_deref());
        if !ours(service) {
            // Of a Service without a claim, an allocator that starts does not know who wrote on it.
            let bare = lines.is_empty() && service.condition.is_none();
            let unknown = world.changes_classes
                && (world.starts > 1 + usize::from(world.has_peer())
                    || service.uid.to_string().starts_with("uid-restored"));
            assert!(claims.is_empty() && (bare || (unknown && service.load_balancer)), "{service:?}");
            assert!(world.standing(key).is_none());
            continue;
        }
        // Each has a reason, on the object too, and the status shows what it has.
        let standing = world.standing(key).unwrap_or_else(|| panic!("no reason: {service:?}"));
        assert_eq!(service.condition.as_ref(), Some(standing), "{service:?}");
        assert!(!standing.reason.is_empty() && !standing.message.is_empty());
        // One that was restored waits for the address that it had, and keeps the record of it, until a pool has the address.
        // One that shared waits for the invitation of before.
        let told = ["NoPool", "PoolNotUsable", "AddressNotInPool", "SharingNotAllowed"].contains(&&*standing.reason);
        // Of two families, the condition tells the worst.
        let waits = !standing.ready && (told || service.families.len() > 1);
        let lacks =
            |(object, ip): &record::Line| world.addresses.get(object).is_none_or(|one| one.address != Some(*ip));
        // So does one that comes back to its class before its record is taken off, perhaps from another allocator.
        let from_before = service.uid.to_string().starts_with("uid-restored") || world.changes_classes;
        if waits && from_before && lines.iter().any(lacks) {
            let of_before = |shown: &Ingress| lines.iter().any(|(_, ip)| *ip == shown.ip);
            assert!(service.ingress.iter().all(of_before), "{service:?}");
            continue;
        }
        // One that is `Local` may have no endpoint, or none on a node with the others that share its address.
        let (dark, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| is_dark(world, line));
        assert!(
            standing.ready || !dark.is_empty() || !crate::reason::passes(&standing.reason),
            "it hangs: {standing:?}\n{service:?}\n{claims:?}"
        );
        let shown: Vec<_> = service.ingress.iter().map(|i| i.ip).collect();
        let recorded: Vec<_> = lines.iter().map(|(_, ip)| *ip).collect();
        // What a Service had before stays although it asks for something else, until it gets that.
        let from_before = recorded.is_empty() && service.uid.to_string().starts_with("uid-old");
        // So do further addresses that an invalid request names.
        let named = crate::request::named(service);
        let further: Vec<_> = shown.iter().filter(|ip| !recorded.contains(ip)).collect();
        let further = service.uid.to_string().starts_with("uid-old")
            && &*standing.reason == "InvalidRequest"
            && shown.starts_with(&recorded)
            && further.iter().all(|ip| named.contains(ip));
        assert!(shown == recorded || from_before || further, "{service:?}");
        assert!(!standing.ready || !shown.is_empty());
        for (object, ip) in lines.iter().chain(&dark) {
            let address = world.addresses.get(object).filter(|address| address.address == Some(*ip));
            assert!(address.is_some() && claims.iter().any(|claim| claim.key == *object), "{service:?}");
        }
        if &*standing.reason == "PoolExhausted" {
            let waiting = claims.iter().filter(|claim| claim.bound.is_none());
            for claim in waiting {
                // Of two families, one may ask for an address that is taken.
                let taken = claim.requested.is_some_and(|ip| world.used().contains(&ip));
                assert!(taken || world.free(&claim.pool).is_none(), "{claim:?}");
            }
        }
        let both = service.policy == FamilyPolicy::RequireDualStack && service.families.len() == 2;
        assert!(!standing.ready || !both || shown.len() == 2);
    }
    // Every pool that was made is wanted, or in use.
    for (reference, (pool, _)) in &world.pools {
        let used = world.claims.values().any(|claim| claim.pool == *reference);
        let wanted = pool.made.as_ref().is_some_and(|made| world.wants(made));
        assert!(used || wanted, "{reference} is left over");
    }
}

/// Addresses from before stay where they are, until somebody touches their Services.
fn kept(world: &World, live: &BTreeMap<IpAddr, Service>) {
    for (ip, old) in live {
        let shows = |service: &Service| service.ingress.iter().any(|one| one.ip == *ip);
        assert!(world.services.get(&old.key).is_some_and(shows), "{} lost {ip}", old.key);
        let shares =
            |other: &Service| world.claims_of(&old.key).iter().any(|c| c.members.iter().any(|(m, _)| *m == other.key));
        let other = world.services.values().find(|other| other.key != old.key && shows(other) && !shares(other));
        assert!(other.is_none(), "{ip} is {}'s, and {:?} shows it", old.key, other);
    }
}

/// A Service gets another class, or goes back: its type changes for a moment. Watches show both edits, or what came of them.
fn another_class(dice: &mut Dice, world: &mut World) {
    let keys: Vec<Key> = world.services.keys().cloned().collect();
    if keys.is_empty() {
        return;
    }
    let key = dice.one(&keys);
    let class =
        *dice.one(&[None, None, Some(OTHER), Some(OTHER), Some("nobodys.io/lb"), Some("kube-vip.io/kube-vip-class")]);
    if dice.chance(50) {
        world.edit(key, unbalanced);
    }
    world.edit(key, |service| {
        unbalanced(service);
        (service.load_balancer, service.class) = (true, class.map(Into::into));
    });
}

fn life(seed: u64, operations: u64) {
    some_life(seed, operations, false);
}

/// One in which Services change their classes, and perhaps with an allocator of another class.
fn life_with_classes(seed: u64, operations: u64) {
    some_life(seed, operations, true);
}

fn some_life(seed: u64, operations: u64, classes: bool) {
    let mut dice = Dice(seed);
    let mut world = World::before(dice.one::<&[(&str, &str)]>(CONFIGS));
    let mut live: BTreeMap<IpAddr, Service> = BTreeMap::new();
    world.two_steps = true;
    world.changes_classes = classes;
    if classes && dice.chance(50) {
        world.start();
        world.start_another(of_class(OTHER));
    } else if dice.chance(25) {
        world.set(of_namespaces(&["a"]));
        world.start();
        world.start_another(of_namespaces(&["b"]));
    } else {
        for (old, ip) in leftovers(&mut dice) {
            live.insert(ip, old.clone());
            world.apply(old);
        }
        world.set(Settings { outside_pools: seed % 4 == 1, ..settings() });
        world.start();
    }
    let mut late: Vec<Queue> = Vec::new();
    let mut edited: BTreeSet<Key> = BTreeSet::new();
    for serial in 0..operations {
        let before: BTreeMap<Key, _> = world.services.iter().map(|(key, s)| (key.clone(), s.ports.clone())).collect();
        let services = world.services.clone();
        world.change_places(dice.chance(50));
        if classes && dice.chance(25) {
            another_class(&mut dice, &mut world);
        } else {
            operation(&mut dice, &mut world, serial);
        }
        live.retain(|ip, old| services.get(&old.key) == world.services.get(&old.key) && !world.others.contains(ip));
        // Those whose ports somebody changed while they may have shared.
        edited.extend(
            world
                .services
                .iter()
                .filter(|(key, s)| before.get(*key).is_some_and(|p| *p != s.ports))
                .map(|(key, _)| key.clone()),
        );
        if dice.chance(30) {
            late = [Kind::Services, Kind::Claims, Kind::Addresses, Kind::Pools, Kind::Config, Kind::Reserved]
                .map(Queue::Of)
                .into_iter()
                .filter(|_| dice.chance(25))
                .collect();
        }
        for _ in 0..dice.below(30) {
            go_on(&mut dice, &mut world, &late);
            always(&world, &edited);
            kept(&world, &live);
        }
        if dice.chance(10) {
            // What failed is tried again after at most half a minute.
            for _ in 0..4 {
                world.later(40);
            }
            at_rest(&world, &edited);
        }
    }
    for _ in 0..4 {
        world.later(40);
    }
    at_rest(&world, &edited);
    restore_all(&mut dice, &mut world, &edited);
}

/// All Services are deleted, and restored from a backup: they have the addresses of before.
fn restore_all(dice: &mut Dice, world: &mut World, edited: &BTreeSet<Key>) {
    let mut all: Vec<Service> = world.services.values().filter(|one| !one.cleanup).cloned().collect();
    for one in &all {
        world.delete(&one.key);
    }
    world.run();
    if dice.chance(50) {
        world.start();
        world.run();
    }
    // Pools whose last address was released may be gone. One that the ConfigMap no longer has stays as long as a claim has an
    // address of it, and gives no more.
    let listed = |world: &World, namespace: &str, text: &str| {
        let gives = |pool: &Pool| pool.serves(namespace) && pool.made.as_ref().is_none_or(|made| world.wants(made));
        let in_a_pool = |one: &str| world.pools.values().any(|(pool, _)| gives(pool) && pool.lists(ip(one)));
        text.split(',').filter(|one| !one.is_empty()).all(in_a_pool)
    };
    let before = all.clone();
    while !all.is_empty() {
        let at = usize::try_from(dice.below(all.len() as u64)).unwrap();
        world.apply(restored(all.swap_remove(at), 1000));
    }
    // A running allocator may serve one without a record, one that asks for another address or is to move, or one whose address
    // is in no pool any more, before it knows of another whose record names that address.
    let comes_back = |one: &Service| {
        let had = record::addresses(&record::read(one.notes.record.as_deref()));
        let ready = one.condition.as_ref().is_some_and(|condition| condition.ready);
        ready && !one.notes.reallocate && listed(world, &one.key.namespace, &had)
    };
    if dice.chance(50) || !before.iter().all(comes_back) {
        world.start();
    }
    for _ in 0..4 {
        world.later(40);
    }
    at_rest(world, edited);
    if world.has_peer() {
        // The other allocator does not know the records of Services that it does not handle.
        return;
    }
    for one in &before {
        let had = record::addresses(&record::read(one.notes.record.as_deref()));
        let plain = one.condition.as_ref().is_some_and(|condition| condition.ready && *condition.message == *had);
        let shared = before.iter().any(|other| {
            let theirs = record::read(other.notes.record.as_deref());
            other.key != one.key && theirs.iter().any(|(_, ip)| had.contains(&ip.to_string()))
        });
        let plain = plain && one.notes.sharing_key.is_none() && one.notes.pool.is_none();
        // One that was not deleted may have waited for the address. It may have the address and not show it: one that requires
        // both families waits for the other family.
        let stayed = world.services.values().filter(|other| before.iter().all(|one| one.key != other.key));
        let has = |other: &Service| {
            let claims = world.claims_of(&other.key).into_iter();
            let claimed = claims.filter_map(|claim| world.addresses.get(&claim.key)?.address);
            claimed.chain(other.ingress.iter().map(|shown| shown.ip)).collect::<Vec<_>>()
        };
        let mut stayed = stayed.flat_map(has).map(|has| has.to_string());
        let plain = plain && !stayed.any(|has| had.split(',').any(|ip| ip == has));
        if plain && !shared && !world.is_reserved(&had) && listed(world, &one.key.namespace, &had) {
            // Its endpoints may be gone: then its status does not show what it has.
            let has = record::addresses(&record::read(world.services[&one.key].notes.record.as_deref()));
            assert_eq!(has, had, "{one:?}\n{:?}", world.services[&one.key]);
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// `SIM_FIRST` and `SIM_SEEDS` choose the seeds; `SERVICES_TRACE` prints what happens.
#[test]
fn whatever_happens() {
    lives(life);
}

#[test]
fn whatever_happens_with_classes() {
    lives(life_with_classes);
}

fn lives(life: fn(u64, u64)) {
    let first = number("SIM_FIRST", 0);
    for seed in first..first + number("SIM_SEEDS", 150) {
        let result = std::panic::catch_unwind(|| life(seed, 60));
        if let Err(error) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
    }
}

/// Seeds whose lives once found a defect.
const FOUND: [u64; 10] = [1591, 1648, 5422, 6626, 11_788, 12_235, 14_998, 17_749, 23_697, 27_721];

#[test]
fn what_was_found() {
    for seed in FOUND {
        life(seed, 60);
    }
}

/// A few short lives.
pub(super) fn some_lives() {
    for seed in 0..60 {
        life(seed, 60);
    }
}

#[test]
fn the_naive_model_gives_the_same_addresses_where_order_decides() {
    // One after another, nothing shared: the lowest free one, or the one that is asked for.
    let mut dice = Dice(7);
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.8")]);
    let mut naive: BTreeMap<Key, String> = BTreeMap::new();
    for serial in 0..400 {
        let mut one = service("a", &format!("s{}", dice.below(12)));
        one.uid = Uid::from(&*format!("uid-{serial}"));
        if naive.remove(&one.key).is_some() || world.services.contains_key(&one.key) {
            world.delete(&one.key);
            world.run();
            // Whoever waited has it now: the model asks.
            naive = world
                .services
                .keys()
                .map(|key| (key.clone(), world.shows(key)))
                .filter(|(_, ip)| !ip.is_empty())
                .collect();
            continue;
        }
        let all: Vec<String> = (1..=8).map(|last| format!("10.0.0.{last}")).collect();
        let free = |ip: &String| !naive.values().any(|taken| taken == ip);
        let asked = dice.chance(30).then(|| dice.one(&all).clone());
        let expected = match &asked {
            Some(ip) => Some(ip.clone()).filter(free),
            None => all.iter().find(|ip| free(ip)).cloned(),
        };
        one.notes.addresses = asked.map(Into::into);
        let key = world.apply(one);
        world.run();
        assert_eq!(world.shows(&key), expected.clone().unwrap_or_default(), "{serial}");
        naive.extend(expected.map(|ip| (key, ip)));
        let values: BTreeSet<&String> = naive.values().collect();
        assert_eq!(values.len(), naive.len());
        assert!(naive.values().all(|text| world.used().contains(&ip(text))));
    }
}
