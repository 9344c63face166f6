//! How the health of the API server is probed, and what happens in crashes and outages.

use mooring_common::settings::Gathered;

use super::super::parse;
use super::super::types::{ApiLoss, Health, HealthAddress, Provisional, Witness};
use super::{MINUTE, MS, SECOND, field, small, time, time_or_off};

pub(super) fn health(g: &mut Gathered) -> Option<Health> {
    let address = field(g, "health-address", |text| match text {
        "auto" => Ok(HealthAddress::Found),
        "off" => Ok(HealthAddress::Off),
        url => parse::url(url).map(HealthAddress::At),
    });
    let interval = time(g, "health-interval", 100 * MS, MINUTE);
    let timeout = time(g, "health-timeout", 50 * MS, MINUTE);
    let rise = small(g, "health-rise", 1, 100);
    let fall = small(g, "health-fall", 1, 100);
    let server_name = field(g, "health-server-name", |text| match text.parse::<std::net::IpAddr>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => parse::subdomain(text),
    });
    Some(Health {
        address: address?,
        interval: interval?,
        timeout: timeout?,
        rise: rise?,
        fall: fall?,
        server_name: server_name?,
    })
}

pub(super) fn witness(g: &mut Gathered) -> Option<Option<Witness>> {
    let interval = time_or_off(g, "witness-interval", 5 * MS, 5 * SECOND);
    let misses = small(g, "witness-misses", 2, 20);
    let (interval, misses) = (interval?, misses?);
    Some(interval.map(|interval| Witness { interval, misses }))
}

/// What a holder may do while the API is away.
pub(super) const API_LOSS: [(&str, ApiLoss); 3] =
    [("hold", ApiLoss::Hold), ("hold-alone", ApiLoss::HoldAlone), ("release", ApiLoss::Release)];

/// A node that gives a VIP up when the API is away does not take the VIP either: by default, `release` switches it off.
pub(super) fn provisional(g: &mut Gathered, api_loss: Option<ApiLoss>) -> Option<Option<Provisional>> {
    if api_loss == Some(ApiLoss::Release) {
        g.default("provisional", "off".into());
    }
    let on = field(g, "provisional", parse::on_off);
    let delay = time(g, "provisional-delay", 10 * MS, 10 * SECOND);
    let (on, delay) = (on?, delay?);
    if on && api_loss == Some(ApiLoss::Release) {
        g.refuse(
            "provisional",
            "on, while api-loss is release",
            "a VIP that is given up while the API is away would be taken again without it: leave provisional out, or set api-loss to hold",
        );
    }
    Some(on.then_some(Provisional { delay }))
}
