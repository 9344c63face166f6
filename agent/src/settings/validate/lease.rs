//! The Lease and its three times.

use std::collections::BTreeMap;
use std::time::Duration;

use mooring_common::settings::Gathered;
use mooring_names::annotations::OURS;

use super::super::parse::{self, Problem};
use super::super::types::LeaseSettings;
use super::services::lease_name;
use super::{HOUR, MS, SECOND, field, time};
use crate::core::fence::LIFETIME_MARGIN;
use crate::core::rules::Rules;

pub(super) fn lease(g: &mut Gathered) -> Option<LeaseSettings> {
    let namespace = field(g, "namespace", parse::subdomain);
    let name = field(g, "lease-name", lease_name);
    let duration = field(g, "lease-duration", |text| {
        let value = parse::duration_within(text, 3 * SECOND, HOUR, false)?;
        if value.subsec_nanos() == 0 {
            Ok(value)
        } else {
            Err(("not whole seconds".into(), "a Lease counts in seconds: give 3s to 1h".into()))
        }
    });
    let renew_deadline = time(g, "renew-deadline", 100 * MS, HOUR);
    let retry_period = time(g, "retry-period", 50 * MS, HOUR);
    let annotations = field(g, "lease-annotations", annotations);
    if let (Some(duration), Some(renew), Some(retry)) = (duration, renew_deadline, retry_period) {
        timing(g, duration, renew, retry);
    }
    let (own, name) = name?;
    if let Some(own) = &own {
        g.overrule("namespace", own, "lease-name");
    }
    Some(LeaseSettings {
        namespace: own.or(namespace)?,
        name,
        duration: duration?,
        renew_deadline: renew_deadline?,
        retry_period: retry_period?,
        annotations: annotations?,
    })
}

/// Checks the three times against each other.
fn timing(g: &mut Gathered, duration: Duration, renew: Duration, retry: Duration) {
    // client-go spreads retries by a factor of up to 1.2.
    let spread = retry * 6 / 5;
    if renew >= duration {
        g.refuse(
            "renew-deadline",
            format!("not shorter than lease-duration ({duration:?})"),
            "a holder must give up before others may take over: give two thirds of it, as in 10s of 15s",
        );
    }
    if spread >= renew {
        g.refuse(
            "retry-period",
            format!("1.2 times it is not shorter than renew-deadline ({renew:?})"),
            "give a fifth of renew-deadline, as in 2s of 10s",
        );
    }
    // The kernel gets whole seconds.
    let fence = Duration::from_secs(duration.saturating_sub(LIFETIME_MARGIN).as_secs());
    if spread >= fence && renew < duration && spread < renew {
        let problem =
            format!("with lease-duration {duration:?} the kernel drops the VIP after {fence:?}, between two renewals");
        g.refuse("retry-period", problem, "give a shorter one, or a longer lease-duration");
    } else if spread < renew && renew < duration {
        let rules = Rules { lease_duration: duration, renew_deadline: renew, retry_period: retry, ..Rules::default() };
        if !rules.can_tell_an_outage() {
            let problem =
                format!("with lease-duration {duration:?} a short outage of the API would look like a dead holder");
            g.refuse("retry-period", problem, "give at most two thirds of lease-duration less 1s");
        }
    }
}

fn annotations(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let advice = r#"give a JSON object of strings, as in {"example.com/owner": "network team"}"#;
    let text = if text.is_empty() { "{}" } else { text };
    let all: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|error| (format!("not a JSON object of strings ({error})"), advice.to_owned()))?;
    for key in all.keys() {
        if key.starts_with(OURS) {
            return Err((format!("{key:?} is Mooring's own"), format!("leave out keys that begin with {OURS}")));
        }
        let (prefix, name) = key.rsplit_once('/').map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
        let inner = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        let named = inner && name.len() <= 63 && ends(name.bytes().next()) && ends(name.bytes().last());
        if !named || prefix.is_some_and(|prefix| parse::subdomain(prefix).is_err()) {
            return Err((format!("{key:?} is not a key of an annotation"), advice.into()));
        }
    }
    Ok(all)
}
