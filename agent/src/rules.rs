//! Makes the cores' rules from the settings.

use std::time::Duration;

use crate::core::peers::Quorum;
use crate::core::rules::Rules;
use crate::settings::{ApiLoss, Settings};

/// The rules of one Lease and its VIPs.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        node: settings.node_name.clone(),
        lease_duration: settings.lease.duration,
        renew_deadline: settings.lease.renew_deadline,
        retry_period: settings.lease.retry_period,
        witness_interval: settings.witness.map_or(Duration::ZERO, |w| w.interval),
        witness_misses: settings.witness.map_or(3, |w| u32::from(w.misses)),
        hold_without_api: settings.api_loss != ApiLoss::Release,
        quorum: if settings.api_loss == ApiLoss::HoldAlone { Quorum::Nobody } else { Quorum::Most },
        provisional: settings.provisional.is_some(),
        provisional_spread: settings.provisional.map_or(Duration::ZERO, |p| p.delay),
        handover_grace: settings.handover_grace,
        link_down_delay: settings.link_down_delay,
        announce_refresh: settings.announce.refresh.unwrap_or_default(),
        conflict_probe: settings.conflict_probe,
        refresh: Duration::ZERO,
        frames_per_second: settings.rate_limit_each(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

    use super::*;
    use crate::settings::{Given, Host};

    /// Times that settings may name: round ones, odd ones, and those at the limits.
    fn times(most: u64) -> impl Strategy<Value = u64> {
        prop_oneof![1..most, (1..most).prop_map(|ms| ms / 1_000 * 1_000), (1..30_000_u64), Just(most)]
    }

    fn load(duration: u64, renew: u64, retry: u64, hold: bool) -> Option<Rules> {
        let loss = if hold { "hold" } else { "release" };
        let given = [
            ("address", "192.0.2.10".to_owned()),
            ("lease-duration", format!("{duration}s")),
            ("renew-deadline", format!("{renew}ms")),
            ("retry-period", format!("{retry}ms")),
            ("api-loss", loss.to_owned()),
        ];
        let given = Given(given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        let host = Host { name: Some("cp1".into()), pod_namespace: None };
        Some(rules(&Settings::load(&given, [], &host).ok()?.settings))
    }

    fn check(rules: &Rules) {
        let (lease, retry) = (rules.lease_duration, rules.retry_period);
        // The kernel gets whole seconds of what the fence's margin leaves.
        let kernel_drops = Duration::from_secs(lease.saturating_sub(Duration::from_millis(1_500)).as_secs());
        assert!(rules.lapses_after() <= rules.renew_deadline && rules.renew_deadline < lease, "{rules:?}");
        assert!(rules.lapses_after() >= retry * 6 / 5, "it lapses between two renewals: {rules:?}");
        assert!(
            !rules.hold_without_api || rules.lapses_after() <= kernel_drops,
            "the kernel drops it first: {rules:?}"
        );
        assert!(rules.blind_after() + retry / 2 < lease, "blind time counts: {rules:?}");
        assert!(rules.blind_after() > rules.stale_after(), "it is always blind: {rules:?}");
    }

    #[test]
    fn usual_timers_are_taken() {
        for (duration, renew, retry) in [(15, 10, 2), (5, 3, 1), (60, 40, 5), (15, 10, 8), (3, 2, 0)] {
            let rules = load(duration, renew * 1_000, if retry == 0 { 500 } else { retry * 1_000 }, true);
            check(&rules.unwrap_or_else(|| panic!("{duration} {renew} {retry}")));
        }
        assert_eq!(load(15, 14_900, 10_500, true), None, "an outage looks like a dead holder");
    }

    proptest! {
        #[test]
        fn timers_that_are_taken_obey_the_law(
            duration in prop_oneof![3..30_u64, 3..3_600_u64],
            renew in times(3_600_000),
            share in 1..1_000_u64,
            free in times(3_600_000),
            hold in any::<bool>(),
        ) {
            // Most random ones are refused: the shares make some that are not.
            for (renew, retry) in [(renew, free), (duration * 1_000 * 9 / 10, duration * share), (duration * share, duration * share * 8 / 10)] {
                if let Some(rules) = load(duration, renew, retry, hold) {
                    check(&rules);
                }
            }
        }
    }
}
