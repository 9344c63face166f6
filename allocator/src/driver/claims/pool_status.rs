//! Translates the protocol's pool status to conditions and counts, and back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mooring_allocator_core::book;
use mooring_allocator_core::pool::Network;
use mooring_allocator_core::protocol::PoolStatus;
use mooring_api::conditions::{self, Condition};
use mooring_api::patch;
use mooring_api::pool::Counts;

use super::super::index::KnownPool;
use crate::decode::placement_hints::annotation;
use crate::decode::pool::Spec;
use crate::decode::{floating_ips, outside};

/// The counts, as written to the object.
#[must_use]
pub fn counts(counts: &book::Counts) -> Counts {
    Counts {
        total: counts.total,
        free: counts.free,
        used: counts.used,
        out_of_range: counts.out_of_range,
        quarantined: (counts.resting > 0).then_some(counts.resting),
    }
}

/// The conditions, as written to the object.
#[must_use]
pub fn conditions(pool: &KnownPool, status: &PoolStatus, now: &Time) -> Vec<Condition> {
    let meta = &pool.seen.meta;
    let condition = |kind, status, reason, message: &str| {
        Condition::new(kind, status, reason, message, now).of_generation(meta.generation)
    };
    let deleting = meta.deletion_timestamp.is_some();
    let ready = if deleting {
        let message = format!("it is being deleted, and goes with the last of its {} addresses", status.counts.used);
        condition(conditions::READY, false, conditions::DELETING, &message)
    } else if status.ready {
        condition(conditions::READY, true, conditions::POOL_READY, &status.message)
    } else {
        let outside = match &pool.seen.spec {
            Spec::PhpIpam(spec) => outside::phpipam(spec, Network::Common, None).is_ok(),
            Spec::FloatingIps(spec, _) => floating_ips::plan(spec, Network::Common).is_ok(),
            Spec::Addresses(_) | Spec::Prefixes(_) | Spec::Metal3(..) => false,
        };
        let reason = if outside { conditions::PROVIDER_FAILED } else { conditions::INVALID_SPEC };
        condition(conditions::READY, false, reason, &status.message)
    };
    let counts = &status.counts;
    let exhausted = if status.ready && counts.available == 0 && counts.total > 0 {
        let inside = counts.used - counts.out_of_range + counts.resting;
        let whose = if inside < counts.total && !status.overlapping.is_empty() {
            ". Claims of other pools may have some: see the condition Overlapping"
        } else {
            ""
        };
        let message =
            format!("all {} addresses are taken, rest, or are kept: add some, or release some{whose}", counts.total);
        condition(conditions::EXHAUSTED, true, conditions::POOL_EXHAUSTED, &message)
    } else {
        condition(conditions::EXHAUSTED, false, conditions::ADDRESSES_FREE, "")
    };
    let outside = if counts.out_of_range > 0 {
        let message = format!(
            "{} addresses are in use that are not the pool's to hand out; they stay with their claims",
            counts.out_of_range
        );
        condition(conditions::OUT_OF_RANGE, true, conditions::ADDRESSES_OUT_OF_RANGE, &message)
    } else {
        condition(conditions::OUT_OF_RANGE, false, conditions::ALL_IN_RANGE, "")
    };
    let (type_, yes, no) = (conditions::OVERLAPPING, conditions::SHARED_WITH_OTHER_POOLS, conditions::NO_OVERLAP);
    let text = &status.overlapping;
    let overlapping = condition(type_, !text.is_empty(), if text.is_empty() { no } else { yes }, text);
    let (type_, yes, no) = (conditions::DUPLICATES, conditions::DUPLICATES_FOUND, conditions::NO_DUPLICATES);
    let text = &status.duplicates;
    let duplicates = condition(type_, !text.is_empty(), if text.is_empty() { no } else { yes }, text);
    let annotations = annotations(pool).map(|text| {
        let (type_, yes, no) =
            (conditions::ANNOTATIONS_INVALID, conditions::ANNOTATION_IGNORED, conditions::ALL_ANNOTATIONS_VALID);
        condition(type_, !text.is_empty(), if text.is_empty() { no } else { yes }, &text)
    });
    let (type_, yes, no) = (
        conditions::PRE_ALLOCATIONS_INVALID,
        conditions::PRE_ALLOCATION_REFUSED,
        conditions::ALL_PRE_ALLOCATIONS_VALID,
    );
    let text = &status.misplaced;
    let misplaced = (was(pool, type_) || !text.is_empty())
        .then(|| condition(type_, !text.is_empty(), if text.is_empty() { no } else { yes }, text));
    [ready, exhausted, outside, overlapping, duplicates].into_iter().chain(annotations).chain(misplaced).collect()
}

/// Whether the object has a condition of this type, which only some pools have.
fn was(pool: &KnownPool, type_: &str) -> bool {
    pool.seen.status.as_ref().is_some_and(|status| conditions::find(&status.conditions, type_).is_some())
}

/// The error in the pool's annotations; None: no error, now or before.
fn annotations(pool: &KnownPool) -> Option<String> {
    let wrong = pool.seen.hints();
    let wrong: Vec<String> = wrong.wrong().map(|(hint, error)| format!("{}: {error}", annotation(hint))).collect();
    (was(pool, conditions::ANNOTATIONS_INVALID) || !wrong.is_empty()).then(|| conditions::fitting(wrong.join("; ")))
}

/// The message of a true condition; otherwise nothing.
fn message_if_true(all: &[Condition], type_: &str) -> String {
    conditions::find(all, type_).filter(|one| one.is_true()).map(|one| one.message.clone()).unwrap_or_default()
}

/// The readable part of an object's status, in the protocol's terms.
#[must_use]
pub fn read(pool: &KnownPool) -> Option<PoolStatus> {
    let status = pool.seen.status.as_ref()?;
    // A condition with another message about the annotations must be rewritten.
    if annotations(pool)
        .is_some_and(|text| message_if_true(&status.conditions, conditions::ANNOTATIONS_INVALID) != text)
    {
        return None;
    }
    let counts = status.ip_addresses?;
    // Of pools of addresses, those out of range count against what is free; not of pools of prefixes.
    let available = match &pool.seen.spec {
        Spec::Prefixes(_) => counts.free,
        _ => counts.free.saturating_add(counts.out_of_range),
    };
    let exhausted =
        conditions::find(&status.conditions, conditions::EXHAUSTED).is_some_and(conditions::Condition::is_true);
    // A condition that was judged before the spec changed means nothing.
    let ready = conditions::find(&status.conditions, conditions::READY)
        .filter(|one| one.observed_generation == pool.seen.meta.generation)?;
    Some(PoolStatus {
        counts: book::Counts {
            total: counts.total,
            used: counts.used,
            free: counts.free,
            out_of_range: counts.out_of_range,
            resting: counts.quarantined.unwrap_or(0),
            available: if exhausted { 0 } else { available.max(0) },
        },
        ready: ready.is_true(),
        message: ready.message.clone(),
        misplaced: message_if_true(&status.conditions, conditions::PRE_ALLOCATIONS_INVALID),
        overlapping: message_if_true(&status.conditions, conditions::OVERLAPPING),
        duplicates: message_if_true(&status.conditions, conditions::DUPLICATES),
        holders: 0,
    })
}

/// Whether the object shows exactly this status.
pub fn says(pool: &KnownPool, status: &PoolStatus) -> bool {
    let conditions = conditions(pool, status, &Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    let patch = patch::pool_status(&pool.seen.meta, pool.seen.status.as_ref(), counts(&status.counts), &conditions);
    pool.seen.status.is_some() && matches!(patch, Ok(None))
}
