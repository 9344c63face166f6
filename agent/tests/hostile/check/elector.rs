//! The core, told anything in any order: what watches, reads, frames, links and clocks may say, by a store that keeps the
//! laws of a store and others who keep none.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use mooring_agent::core::action::Action;
use mooring_agent::core::elector::Elector;
use mooring_agent::core::event::{Event, Failure, Moment, Node};
use mooring_agent::core::evidence::{Form, Sender};
use mooring_agent::core::health::Verdict;
use mooring_agent::core::lease::{Declaration, Handover, LeaseView, Notes, Participant, Record, Tenure};
use mooring_agent::core::mac::Mac;
use mooring_agent::core::peers::Quorum;
use mooring_agent::core::rules::{Rules, SHORT_FENCE};
use mooring_agent::core::time::{Time, WallTime};

use super::bytes::Bytes;

const ME: &str = "cp1";
const FORMS: [Form; 3] = [Form::Answer(Sender::Own), Form::Answer(Sender::Unspecified), Form::Claim];
const MY_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Milliseconds between two steps.
const STEPS: [u64; 12] = [0, 1, 25, 50, 100, 200, 250, 500, 1_000, 2_000, 10_000, 3_600_000];

pub fn check(data: &[u8]) {
    let mut bytes = Bytes(data);
    let rules = Rules {
        node: ME.into(),
        hold_without_api: bytes.yes(),
        quorum: if bytes.yes() { Quorum::Most } else { Quorum::Nobody },
        provisional: bytes.yes(),
        conflict_probe: bytes.yes(),
        refresh: Duration::ZERO,
        frames_per_second: None,
        witness_interval: Duration::from_millis(u64::from(bytes.pick(&[0_u8, 20, 100]))),
        link_down_delay: Duration::from_millis(u64::from(bytes.pick(&[0_u8, 200]))),
        ..Rules::default()
    };
    let mut world = World { elector: Elector::new(rules.clone()), rules, ..World::default() };
    let vips: Vec<IpAddr> = [vip(0), vip(1)][..=usize::from(bytes.yes())].to_vec();
    world.tell(Event::Node(node(&mut bytes)));
    world.tell(Event::Vips(vips));
    world.tell(Event::Link { up: true });
    for _ in 0..256 {
        if bytes.is_empty() {
            break;
        }
        world.wait(bytes.pick(&STEPS));
        let event = world.event(&mut bytes);
        world.tell(event);
    }
}

struct World {
    elector: Elector,
    rules: Rules,
    now: Time,
    /// What the store has, and every version that the elector was shown.
    lease: Option<LeaseView>,
    version: u64,
    shown: BTreeSet<Option<String>>,
    /// Calls that have no answer.
    calls: Vec<Action>,
    vips: BTreeSet<IpAddr>,
    asked_to_end: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            elector: Elector::new(Rules::default()),
            rules: Rules::default(),
            now: Time::from_nanos(1_000_000_000_000),
            lease: None,
            version: 0,
            shown: BTreeSet::new(),
            calls: Vec::new(),
            vips: BTreeSet::new(),
            asked_to_end: false,
        }
    }
}

impl World {
    /// Time passes, with the steps that the elector wants in between, as the driver gives them.
    fn wait(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        for _ in 0..8 {
            let Some(wake) = self.elector.wake().filter(|wake| *wake < until) else { break };
            self.now = wake;
            self.tell(Event::Tick);
        }
        self.now = until;
    }

    fn tell(&mut self, event: Event) {
        match &event {
            Event::Vips(vips) => self.vips.extend(vips),
            Event::Shutdown => self.asked_to_end = true,
            Event::Seen(view) | Event::Read { result: Ok(view), .. } => self.show(view.clone()),
            Event::Wrote { result: Ok(view), .. } => self.show(Some(view.clone())),
            _ => {}
        }
        let wall = WallTime(i64::try_from(self.now.as_nanos() / 1000).unwrap());
        let actions = self.elector.step(Moment { now: self.now, wall }, event);
        assert!(actions.len() <= 64, "{actions:?}");
        assert!(self.elector.wake().is_none_or(|wake| wake > self.now), "it would never sleep");
        for action in actions {
            self.act(action);
        }
    }

    fn show(&mut self, view: Option<LeaseView>) {
        self.shown.insert(view.map(|view| view.version));
    }

    fn act(&mut self, action: Action) {
        match &action {
            Action::Write { base, record, notes, within, .. } => {
                assert!(self.shown.contains(base), "a compare-and-swap on what was never shown: {base:?}");
                assert!(!within.is_zero());
                // A write of this node's own; one that only says that it takes part leaves what it found.
                let now = WallTime(i64::try_from(self.now.as_nanos() / 1000).unwrap());
                let own = record.holder == ME && record.renewed == Some(now);
                let declared = notes.tenure.as_ref().filter(|_| own);
                assert!(declared.is_none_or(|tenure| {
                    let said = &tenure.declared;
                    said.holder == ME && said.transitions == record.transitions && tenure.renewed == record.renewed
                }));
                self.calls.push(action);
            }
            Action::Read { within, .. } | Action::AskPeers { within, .. } => {
                assert!(!within.is_zero());
                self.calls.push(action);
            }
            Action::Carry { address, deadline } => {
                let most = self.rules.lease_duration.max(SHORT_FENCE);
                assert!(self.vips.contains(address) && *deadline <= self.now + most, "{deadline}");
            }
            Action::Drop { address } | Action::Announce { address } => assert!(self.vips.contains(address)),
            Action::Exit => assert!(self.asked_to_end),
            Action::Probe { .. } | Action::Report(_) => {}
        }
        // The driver has a task for each; the elector has ended them for itself.
        if self.calls.len() > 16 {
            self.calls.remove(0);
        }
    }

    fn event(&mut self, bytes: &mut Bytes<'_>) -> Event {
        match bytes.byte() % 20 {
            0 | 2 => Event::Tick,
            1 => Event::Seen(self.lease.clone()),
            3 => Event::WatchLost,
            4..=7 => self.answer(bytes),
            8 => {
                self.others_write(bytes);
                Event::Seen(self.lease.clone())
            }
            9 => {
                self.others_write(bytes);
                Event::Tick
            }
            10 => Event::Health(bytes.pick(&[Verdict::Healthy, Verdict::Unhealthy, Verdict::NoServer])),
            11 => Event::Heard { address: place(bytes), mac: mac(bytes), form: bytes.pick(&FORMS) },
            12 => Event::Put { address: place(bytes) },
            13 if bytes.yes() => Event::NotRefreshed { address: place(bytes) },
            13 => Event::PutFailed { address: place(bytes), reason: "no".into() },
            14 => Event::Gone { address: place(bytes) },
            15 => Event::Link { up: bytes.yes() },
            16 => Event::ClockJump(Duration::from_millis(bytes.pick(&STEPS))),
            17 => Event::Node(node(bytes)),
            18 => match bytes.byte() % 4 {
                0 => Event::Shutdown,
                1 => Event::LeftOver(vec![place(bytes)]),
                2 => Event::Vips(vec![]),
                _ => Event::Vips(vec![place(bytes)]),
            },
            // Nothing of this was asked for.
            _ => match bytes.byte() % 4 {
                0 => Event::Read { id: u64::from(bytes.byte()), result: Ok(self.lease.clone()) },
                1 => Event::Wrote { id: u64::from(bytes.byte()), result: Err(Failure::Conflict) },
                2 => Event::Removed { address: place(bytes) },
                _ => Event::Peers { id: u64::from(bytes.byte()), healthy: vec![place(bytes)] },
            },
        }
    }

    /// The answer to a call: what the store says, or none, and then a write may have been applied or not.
    fn answer(&mut self, bytes: &mut Bytes<'_>) -> Event {
        if self.calls.is_empty() {
            return Event::Tick;
        }
        let nth = usize::from(bytes.byte()) % self.calls.len();
        let (lost, applied) = (bytes.byte() % 4 == 3, bytes.yes());
        match self.calls.remove(nth) {
            Action::Read { id, .. } if lost => Event::Read { id, result: Err(Failure::Away) },
            Action::Read { id, .. } => Event::Read { id, result: Ok(self.lease.clone()) },
            Action::AskPeers { id, .. } => Event::Peers { id, healthy: if lost { vec![] } else { vec![place(bytes)] } },
            Action::Write { id, base, record, notes, .. } => {
                let fits = self.lease.as_ref().map(|view| view.version.clone()) == base;
                let result = match (lost, fits) {
                    (true, _) if !(fits && applied) => Err(Failure::Away),
                    (_, false) => Err(Failure::Conflict),
                    _ => {
                        let view = self.store(record, notes);
                        if lost { Err(Failure::Away) } else { Ok(view) }
                    }
                };
                Event::Wrote { id, result }
            }
            _ => Event::Tick,
        }
    }

    fn store(&mut self, record: Record, notes: Notes) -> LeaseView {
        self.version += 1;
        let view = LeaseView { version: self.version.to_string(), record, notes };
        self.lease = Some(view.clone());
        view
    }

    fn others_write(&mut self, bytes: &mut Bytes<'_>) {
        let now = WallTime(i64::from(bytes.byte()));
        let (mut record, mut notes) = self.lease.clone().map(|l| (l.record, l.notes)).unwrap_or_default();
        match bytes.byte() % 8 {
            0 => {
                self.lease = None;
                return;
            }
            1 => record.renewed = Some(now),
            2 => record.holder = String::new(),
            3 => record.holder = ME.into(),
            4 => record.duration = Duration::from_secs(bytes.pick(&[0, 1, 15, 3600, u64::MAX])),
            5 => record.transitions = bytes.pick(&[0, 1, u32::MAX]),
            6 => {
                notes.handover = Some(Handover {
                    from: "cp2".into(),
                    to: bytes.pick(&["cp1", "cp3", ""]).into(),
                    transitions: record.transitions,
                    acquired: record.acquired,
                });
            }
            _ => {
                record.holder = "cp2".into();
                record.acquired = Some(now);
                record.transitions = record.transitions.saturating_add(1);
                let declared = Declaration {
                    holder: "cp2".into(),
                    transitions: record.transitions,
                    acquired: record.acquired,
                    macs: vec![mac(bytes); usize::from(bytes.byte() % 3)],
                    vips: vec![place(bytes); usize::from(bytes.byte() % 3)],
                };
                notes.tenure = Some(Tenure { declared, renewed: record.renewed, unheard: false });
                let peer =
                    Participant { macs: vec![mac(bytes)], addresses: vec![place(bytes)], ..Participant::default() };
                notes.participants.insert("cp2".into(), peer);
            }
        }
        self.store(record, notes);
    }
}

fn vip(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, 100 + n])
}

fn place(bytes: &mut Bytes<'_>) -> IpAddr {
    bytes.pick(&[vip(0), vip(1), IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]), IpAddr::from([0_u16; 8])])
}

fn mac(bytes: &mut Bytes<'_>) -> Mac {
    bytes.pick(&[MY_MAC, Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 3]), Mac::BROADCAST])
}

fn node(bytes: &mut Bytes<'_>) -> Node {
    let macs = if bytes.byte() % 8 == 7 { vec![] } else { vec![MY_MAC] };
    let participant =
        Participant { macs: macs.clone(), addresses: vec![IpAddr::from([192, 0, 2, 11])], ..Participant::default() };
    let gateways = vec![IpAddr::from([192, 0, 2, 1]); usize::from(bytes.byte() % 2)];
    Node { participant, macs, gateways, bare: bytes.byte().is_multiple_of(4) }
}
