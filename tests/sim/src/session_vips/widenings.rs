//! What was added to the drawn runs later: odder settings, and faults at odder moments. Each widening draws apart from those before.

use super::api::Of;
use super::fault::{Fault, Old};
use super::{Plan, SessionVips};
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault as Any, How, Planned};
use crate::network::Mute;
use crate::rng::Rng;
use crate::subject::Subject as _;

/// Faults that came later are drawn apart, so that seeds which once found something go on to be what they were.
pub fn widen(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 13);
    plan.settings.own.apart = rng.chance(600);
    let apart = plan.settings.own.apart;
    let some = |rng: &mut Rng| rng.chance(700).then(|| rng.pick(&[Of::Sessions, Of::Others]));
    for planned in &mut plan.faults {
        match &mut planned.fault {
            Any::Own(Fault::WatchBreak(_, of) | Fault::WatchHang(_, of) | Fault::WatchLag(_, _, of)) if apart => {
                *of = some(&mut rng);
            }
            Any::Own(Fault::Delete(vip)) if rng.chance(400) => {
                (planned.fault, planned.lasts) = (Any::Own(Fault::Remake(*vip)), 0);
            }
            Any::Own(Fault::Delete(vip)) if rng.chance(500) => planned.fault = Any::Own(Fault::Withdraw(*vip)),
            Any::LinkDown(host, segment, true) if rng.chance(300) => {
                let (host, segment) = (*host, *segment);
                if plan.settings.is_on(host, segment) {
                    planned.fault = Any::Unplug(host, segment);
                }
            }
            Any::Api(_, How::Errors | How::Slow(_)) if rng.chance(300) => {
                planned.fault = Any::Own(Fault::Nudge(rng.pick(&[100, 500, 1_000])));
            }
            _ => {}
        }
    }
}

/// In some runs a partition cuts one node off from all others and from the API, for longer than its session lasts.
pub fn cut_off_one(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 17);
    let lease = plan.settings.rules.lease_duration.as_secs().max(8) * SECOND;
    for planned in &mut plan.faults {
        if matches!(planned.fault, Any::Partition(..)) && rng.chance(400) {
            planned.fault = Any::Partition(1 << rng.index(plan.settings.nodes), None, true);
            planned.lasts = lease + rng.between(5, 12) * SECOND;
        }
    }
}

/// Nodes that are odder than those before, drawn apart again: several gateways, a port that is down all the time, bonds that change
/// their Ethernet address.
pub fn widen_nodes(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 14);
    let settings = &mut plan.settings;
    settings.gateways = rng.pick(&[1, 1, 1, 5]);
    let (node, segment) = (rng.index(settings.nodes), rng.index(settings.segments));
    if settings.segments > 1 && rng.chance(400) && settings.is_on(node, segment) {
        settings.down = Some((node, segment));
    }
    let end = plan.faults.last().map_or(0, |last| last.at);
    if rng.chance(400) {
        for _ in 0..rng.between(1, 3) {
            let at = rng.between(12 * SECOND, end.max(13 * SECOND));
            plan.faults.push(Planned { at, lasts: 0, fault: Any::NewMac(rng.index(plan.settings.nodes)) });
        }
        plan.faults.sort_by_key(|planned| planned.at);
    }
}

/// In some runs a node loses many VIPs together while others see that late; and in some a host on another segment has the address
/// of a VIP, while an API server fails.
pub fn widen_segments(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 18);
    let (nodes, vips, segments) = (plan.settings.nodes, plan.settings.own.vips, plan.settings.segments);
    let of = plan.settings.own.apart.then_some(Of::Others);
    let mut more = vec![];
    for planned in &plan.faults {
        let at = planned.at;
        match planned.fault {
            Any::Own(Fault::Delete(_) | Fault::Remake(_) | Fault::Withdraw(_) | Fault::Burst(_)) if rng.chance(600) => {
                let (node, late) = (rng.index(nodes), rng.pick(&[300, 900, 3_000]));
                for other in (0..nodes).filter(|other| *other != node) {
                    let fault = Any::Own(Fault::WatchLag(other, late, of));
                    more.push(Planned { at, lasts: 5 * SECOND, fault });
                }
                let lasts = rng.between(2, 12) * SECOND;
                more.push(Planned { at: at + SECOND, lasts, fault: Any::Own(Fault::Namespace(node)) });
            }
            Any::Api(..) | Any::ApiOf(..) if segments > 1 && rng.chance(600) => {
                for _ in 0..rng.between(1, 4) {
                    let fault = Any::Own(Fault::Elsewhere(rng.index(vips)));
                    more.push(Planned { at: at + rng.below(planned.lasts.max(SECOND)), lasts: 0, fault });
                }
            }
            _ => {}
        }
    }
    plan.faults.extend(more);
    plan.faults.sort_by_key(|planned| planned.at);
}

/// In some runs all nodes lose their interfaces on one segment, for some time at once, and get them back one by one.
pub fn darken_a_segment(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 19);
    if !rng.chance(200) {
        return;
    }
    let (nodes, segment) = (plan.settings.nodes, rng.index(plan.settings.segments));
    let at = plan.faults_end() + rng.between(8, 20) * SECOND;
    let dark = at + 4 * SECOND;
    let gone = rng.chance(500);
    for node in (0..nodes).filter(|node| plan.settings.is_on(*node, segment)) {
        let at = at + rng.below(3 * SECOND);
        let until = dark + rng.below(SECOND) + rng.index(nodes) as u64 * 20 * SECOND;
        let fault = if gone { Any::Unplug(node, segment) } else { Any::LinkDown(node, segment, true) };
        plan.faults.push(Planned { at, lasts: until - at, fault });
    }
    plan.faults.sort_by_key(|planned| planned.at);
}

/// In some runs the address of the last VIP is a node's own.
pub fn widen_addresses(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 20);
    let vip = plan.settings.own.vips - 1;
    let node = rng.index(plan.settings.nodes);
    if rng.chance(150) && plan.settings.is_on(node, SessionVips::segment_of(&plan.settings, vip)) {
        plan.settings.own.owned = Some((node, vip));
    }
}

/// In some runs agents of before are there, some of them until they are started again. And what happens to one of a node's watches
/// may happen to that of member objects, or to a member object itself.
pub fn widen_membership(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 22);
    let nodes = plan.settings.nodes;
    if rng.chance(250) {
        // In all runs of this kind; one in four has agents of before only.
        let all = rng.chance(250);
        plan.settings.own.of_before =
            (0..nodes).map(|_| if all || rng.chance(500) { rng.pick(&[1, 1, u32::MAX]) } else { 0 }).collect();
    }
    // Agents of before tell no labels.
    plan.settings.own.labelled = plan.settings.own.of_before.is_empty() && Rng::new(plan.seed, 23).chance(500);
    let apart = plan.settings.own.apart;
    for planned in &mut plan.faults {
        match &mut planned.fault {
            Any::Own(Fault::WatchBreak(_, of) | Fault::WatchHang(_, of) | Fault::WatchLag(_, _, of))
                if apart && rng.chance(400) =>
            {
                *of = Some(Of::Members);
            }
            Any::Own(Fault::StripSession(node) | Fault::DeleteSession(node)) if rng.chance(400) => {
                let node = *node;
                planned.fault = Any::Own(if rng.chance(500) {
                    Fault::DeleteMember(node)
                } else {
                    Fault::SetMemberBack(node, Old::Backup)
                });
            }
            _ => {}
        }
    }
}

/// In some runs nodes stand in racks: most of them are on one segment, and few on both.
pub fn widen_racks(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 25);
    let settings = &plan.settings;
    if settings.segments != 2 || settings.nodes < 4 || !settings.absent.is_empty() || !rng.chance(500) {
        return;
    }
    let owned = settings.own.owned.map(|(node, vip)| (node, SessionVips::segment_of(settings, vip)));
    let other = (0..settings.nodes).map(|node| (node, node % 2));
    let other = other.filter(|pair| settings.down != Some(*pair) && owned != Some(*pair));
    plan.settings.absent = other.filter(|_| rng.chance(800)).collect();
}

/// Somebody who changes a member object puts back more than a backup has. In some runs that happens at any time.
pub fn widen_copies(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 24);
    let old = |rng: &mut Rng| rng.pick(&[Old::Backup, Old::OtherLease, Old::Earlier, Old::Unreadable]);
    for planned in &mut plan.faults {
        if let Any::Own(Fault::SetMemberBack(_, of)) = &mut planned.fault {
            *of = old(&mut rng);
        }
    }
    if rng.chance(300) {
        let end = plan.faults_end();
        for _ in 0..rng.between(1, 3) {
            let at = rng.between(12 * SECOND, end.max(13 * SECOND));
            let fault = Any::Own(Fault::SetMemberBack(rng.index(plan.settings.nodes), old(&mut rng)));
            plan.faults.push(Planned { at, lasts: 0, fault });
        }
        plan.faults.sort_by_key(|planned| planned.at);
    }
}

/// In some runs the port of a node fails for a moment: its links and its traffic with the API pass there. What happens
/// meanwhile is told late, so the node may not know that its session was ended.
pub fn fail_ports(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 21);
    if !rng.chance(250) {
        return;
    }
    let end = plan.faults_end();
    let settled = end + 2 * SessionVips::bounds(&plan.settings).informed + rng.below(5 * SECOND);
    for at in [SessionVips::PACE.first + rng.below(end), settled] {
        let node = rng.index(plan.settings.nodes);
        let lasts = rng.between(100, 1_000) * MS;
        for segment in (0..plan.settings.segments).filter(|segment| plan.settings.is_on(node, *segment)) {
            plan.faults.push(Planned { at, lasts, fault: Any::LinkDown(node, segment, true) });
        }
        // Connections go on when their next packet is sent again.
        let lasts = lasts + rng.pick(&[0, 1, 20, 200, 700]) * MS;
        plan.faults.push(Planned { at, lasts, fault: Any::ApiOf(node, How::Hangs) });
    }
    plan.faults.sort_by_key(|planned| planned.at);
}

/// So long after a node's MAC address has changed, all others have been told.
const LEARNED_AFTER: Nanos = 3 * SECOND;

/// In some runs a node's other port is a network card that nobody knew before. Not where the node's agent cannot tell its new MAC
/// address at that moment. Others who have lost the API keep their VIPs beside a node that they do not know, and an agent that starts
/// takes its own session for another machine's.
pub fn replace_cards(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 26);
    let keeps_from_telling = |fault: &Any<Fault>, node: usize| match fault {
        Any::Api(..) | Any::ApiOf(..) | Any::Partition(_, _, true) | Any::Upgrade(_) => true,
        Any::Crash(of) | Any::Freeze(of) | Any::Kill(of) | Any::Restart(of) | Any::Starve(of, _) => *of == node,
        Any::Suspend(of) | Any::Stun(of, _) => *of == node,
        _ => false,
    };
    let told = |changes: &Planned<Fault>, node: usize| {
        let mut others = plan.faults.iter().filter(|planned| keeps_from_telling(&planned.fault, node));
        others.all(|f| f.at > changes.at + LEARNED_AFTER || f.at + f.lasts + LEARNED_AFTER < changes.at)
    };
    let all_told = plan.faults.iter().all(|planned| match planned.fault {
        Any::NewMac(node) => told(planned, node),
        _ => true,
    });
    plan.settings.replaced = all_told && rng.chance(500);
}

/// In some runs another node crashes while one is mute for good, or for long: it may not get the other's VIPs.
pub fn crash_beside_a_mute(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 29);
    let mute = plan.faults.iter().rev().find_map(|planned| match planned.fault {
        Any::Mute(host, None, Mute::Frames) if planned.lasts == 0 || planned.lasts >= 30 * SECOND => {
            Some((planned.at, host))
        }
        _ => None,
    });
    let Some((at, host)) = mute.filter(|_| plan.settings.nodes > 2 && rng.chance(600)) else { return };
    let nodes = plan.settings.nodes;
    let other = (host + 1 + rng.index(nodes - 1)) % nodes;
    let at = at + rng.between(500, 20_000) * MS;
    plan.faults.push(Planned { at, lasts: 30 * SECOND, fault: Any::Crash(other) });
    plan.faults.sort_by_key(|planned| planned.at);
}
