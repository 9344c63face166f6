use super::*;
use crate::names::PoolKind;

fn pool(name: &str) -> Arc<PoolRef> {
    Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", name))
}

fn hints(interface: Option<&str>, selector: Option<&str>) -> Hints {
    Hints([interface.map(Box::from), selector.map(Box::from), None])
}

fn address(n: usize, version: &str, facts: Facts) -> HintedAddress {
    let name = format!("a{n:03}");
    HintedAddress {
        key: Key::new("shop", &name),
        uid: Uid::from(name.as_str()),
        version: Version::from(version),
        pool: pool("p"),
        claim: name.as_str().into(),
        facts,
    }
}

fn for_service() -> Facts {
    Facts { for_service: true, ..Facts::default() }
}

const SECOND: Duration = Duration::from_secs(1);

/// The API server: what is written is there, and shown.
struct World {
    placement_hints: PlacementHints,
    now: Duration,
    objects: BTreeMap<Uid, HintedAddress>,
    versions: u32,
}

impl World {
    fn new() -> Self {
        let mut placement_hints = PlacementHints::default();
        placement_hints.step(Duration::ZERO, Event::Leading(Some(Duration::MAX)));
        Self { placement_hints, now: Duration::ZERO, objects: BTreeMap::new(), versions: 0 }
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        self.placement_hints.step(self.now, event)
    }

    fn show(&mut self, object: HintedAddress) -> Vec<Action> {
        self.objects.insert(object.uid.clone(), object.clone());
        self.tell(Event::Address(Box::new(object)))
    }

    /// Writes, shows, answers, and so on until nothing is to be written any more; how many writes that took.
    fn settle(&mut self, mut actions: Vec<Action>) -> usize {
        let mut writes = 0;
        while let Some(action) = actions.pop() {
            let Action::Write(write) = action else { continue };
            writes += 1;
            let object = self.objects.get_mut(&write.target.uid).unwrap();
            assert_eq!(object.version, write.target.version, "decided on what is known");
            self.versions += 1;
            object.version = Version::from(format!("w{}", self.versions).as_str());
            for (hint, text) in write.texts {
                object.facts.texts[hint.place()] = text;
            }
            if let Some(given) = write.given {
                object.facts.given = given;
            }
            object.facts.held &= !write.let_go;
            let shown = object.clone();
            actions.extend(self.tell(Event::Answer { uid: shown.uid.clone(), result: Ok(()) }));
            actions.extend(self.tell(Event::Address(Box::new(shown))));
        }
        writes
    }

    fn texts(&self, n: usize) -> &Texts {
        &self.objects[&Uid::from(format!("a{n:03}").as_str())].facts.texts
    }
}

#[test]
fn what_a_pool_says_comes_onto_its_addresses_and_follows_it() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), hints(Some("eth1"), None)));
    let actions = world.show(address(0, "1", for_service()));
    assert_eq!(world.settle(actions), 1);
    assert_eq!(*world.texts(0), hints(Some("eth1"), None).0);
    let actions = world.tell(Event::Pool(pool("p"), hints(Some("eth2"), Some("edge"))));
    assert_eq!(world.settle(actions), 1, "one write for both");
    assert_eq!(*world.texts(0), hints(Some("eth2"), Some("edge")).0);
    let actions = world.tell(Event::Pool(pool("p"), Hints::default()));
    world.settle(actions);
    assert_eq!(*world.texts(0), Texts::default());
    // The same once more is nothing, nor is a pool that goes.
    assert_eq!(world.tell(Event::Pool(pool("p"), Hints::default())), []);
    assert_eq!(world.tell(Event::PoolGone(pool("p"))), []);
}

#[test]
fn an_address_that_was_made_with_it_is_not_written_to() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), hints(Some("eth1"), None)));
    let texts = hints(Some("eth1"), None).0;
    let made = Facts { texts: texts.clone(), given: texts, ..for_service() };
    assert_eq!(world.show(address(0, "1", made)), []);
}

#[test]
fn what_people_write_on_an_address_stays() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), hints(Some("eth1"), Some("edge"))));
    let own = Facts { texts: hints(Some("vlan7"), None).0, ..for_service() };
    let actions = world.show(address(0, "1", own));
    world.settle(actions);
    assert_eq!(*world.texts(0), hints(Some("vlan7"), Some("edge")).0);
    let actions = world.tell(Event::Pool(pool("p"), Hints::default()));
    world.settle(actions);
    assert_eq!(*world.texts(0), hints(Some("vlan7"), None).0);
    // What was copied and then edited is somebody's own too; what was copied and taken off comes back.
    let actions = world.tell(Event::Pool(pool("p"), hints(Some("eth1"), Some("edge"))));
    world.settle(actions);
    let mut edited = world.objects.values().next().unwrap().clone();
    edited.facts.texts = [None, Some("rack=2".into()), None];
    edited.version = Version::from("edited");
    let actions = world.show(edited);
    world.settle(actions);
    assert_eq!(*world.texts(0), hints(Some("eth1"), Some("rack=2")).0);
}

#[test]
fn nonsense_is_told_once_and_what_was_right_before_stays() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), hints(Some("eth1"), None)));
    let actions = world.show(address(0, "1", for_service()));
    world.settle(actions);
    let actions = world.tell(Event::Pool(pool("p"), hints(Some("eth 1"), Some("edge"))));
    assert!(matches!(&actions[0], Action::Wrong(_, Hint::Interface, HintError::Interface(_))), "{actions:?}");
    world.settle(actions);
    assert_eq!(*world.texts(0), hints(Some("eth1"), Some("edge")).0);
    let actions = world.tell(Event::Tick);
    assert_eq!(actions, []);
    assert_eq!(hints(Some("eth 1"), Some("edge")).sound(), hints(None, Some("edge")).0);
}

#[test]
fn a_pool_with_many_addresses_is_followed_a_few_at_a_time() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), Hints::default()));
    for n in 0..100 {
        assert_eq!(world.show(address(n, "1", for_service())), []);
    }
    let actions = world.tell(Event::Pool(pool("p"), hints(Some("eth1"), None)));
    assert_eq!(actions.len(), UNDER_WAY);
    // One that goes while it is written makes room.
    let Action::Write(first) = &actions[0] else { panic!("{actions:?}") };
    let gone = first.target.uid.clone();
    let mut more = world.tell(Event::AddressGone(gone.clone()));
    assert_eq!(more.len(), 1);
    more.extend(actions.into_iter().skip(1));
    assert_eq!(world.settle(more), 99);
    assert_eq!(world.tell(Event::Answer { uid: gone, result: Ok(()) }), []);
    assert!((1..100).all(|n| *world.texts(n) == hints(Some("eth1"), None).0));
}

#[test]
fn nothing_is_written_by_one_that_does_not_lead_or_that_does_not_know_the_pool() {
    let mut placement_hints = PlacementHints::default();
    let has = Facts { texts: hints(Some("eth1"), None).0, given: hints(Some("eth1"), None).0, ..for_service() };
    let event = || Event::Address(Box::new(address(0, "1", has.clone())));
    assert_eq!(placement_hints.step(SECOND, Event::Leading(Some(SECOND * 10))), []);
    assert_eq!(placement_hints.step(SECOND, event()), [], "its pool is not known");
    assert_eq!(placement_hints.step(SECOND * 10, Event::Pool(pool("p"), Hints::default())), [], "its time is up");
    assert_eq!(placement_hints.step(SECOND * 11, Event::Leading(Some(SECOND * 20))).len(), 1);
}

#[test]
fn a_write_that_fails_is_tried_again_and_a_conflict_waits_for_what_is_new() {
    let mut world = World::new();
    world.tell(Event::Pool(pool("p"), hints(Some("eth1"), None)));
    let uid = Uid::from("a000");
    assert_eq!(world.show(address(0, "1", for_service())).len(), 1);
    let answer = |result| Event::Answer { uid: uid.clone(), result };
    assert_eq!(world.tell(answer(Err(Failure::Unknown))), []);
    let again = world.placement_hints.next_tick().unwrap();
    assert_eq!(again, RETRY.first);
    world.now = again;
    assert_eq!(world.tell(Event::Tick).len(), 1);
    assert_eq!(world.tell(answer(Err(Failure::Conflict))), []);
    assert_eq!(world.tell(Event::Tick), [], "nothing newer is known");
    assert_eq!(world.show(address(0, "2", for_service())).len(), 1);
    // An answer, and then nothing is shown: once more, after a while.
    assert_eq!(world.tell(answer(Ok(()))), []);
    world.now = world.placement_hints.next_tick().unwrap();
    assert_eq!(world.tell(Event::Tick).len(), 1);
}

#[test]
fn who_held_what_is_advertised_no_more_is_forgotten_after_a_while() {
    let mut world = World::new();
    let held = Facts { held: true, ..for_service() };
    assert_eq!(world.show(address(0, "1", held.clone())), []);
    let claim = Key::new("shop", "a000");
    assert_eq!(world.tell(Event::ClaimGoing(claim.clone(), true)), [], "not at once: the node has to see it too");
    assert_eq!(world.placement_hints.next_tick(), Some(LET_GO));
    // Back in time: nothing happens.
    assert_eq!(world.tell(Event::ClaimGoing(claim.clone(), false)), []);
    world.now = LET_GO;
    assert_eq!(world.tell(Event::Tick), []);
    assert_eq!(world.tell(Event::Going(vec![claim])), []);
    world.now = LET_GO * 2;
    let actions = world.tell(Event::Tick);
    assert!(matches!(&actions[..], [Action::Write(write)] if write.let_go), "{actions:?}");
    assert_eq!(world.settle(actions), 1);
    // Without any label.
    let actions = world.show(address(1, "1", Facts { held: true, ..Facts::default() }));
    assert_eq!(actions, []);
    world.now = LET_GO * 3;
    assert_eq!(world.tell(Event::Tick).len(), 1);
}
