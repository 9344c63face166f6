//! From text to values. Every error names valid values.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What is wrong with a text, and which values are valid.
pub type Problem = (String, String);

/// An error.
///
/// # Errors
/// Always.
pub fn problem<T>(what: impl Into<String>, advice: impl Into<String>) -> Result<T, Problem> {
    Err((what.into(), advice.into()))
}

/// A time: `500ms`, `2s`, `1.5s`, `1m30s`, `0`.
pub fn duration(text: &str) -> Result<Duration, Problem> {
    let advice = "give a number with a unit (ms, s, m, h), as in 500ms, 2s or 1m30s";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let scale: u64 = match unit {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if !number.is_empty() => return problem("a number without a unit", advice),
            _ => return problem("not a time", advice),
        };
        let Some(part) = scaled(number, scale) else {
            return problem("not a time below a day", advice);
        };
        sum += part;
        if tail.is_empty() {
            return Ok(sum);
        }
        rest = tail;
    }
}

/// `number` units of `scale` nanoseconds, if that is a day at most (which also keeps sums from overflowing).
fn scaled(number: &str, scale: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut scale = scale;
    for digit in fraction.chars() {
        scale /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?) * scale)?;
    }
    Some(Duration::from_nanos(nanos)).filter(|part| *part <= Duration::from_hours(24))
}

/// A time within bounds; `off` allows zero as well.
pub fn duration_within(text: &str, low: Duration, high: Duration, off: bool) -> Result<Duration, Problem> {
    let value = duration(text)?;
    if (low..=high).contains(&value) || (off && value.is_zero()) {
        return Ok(value);
    }
    let zero = if off { ", or 0 for off" } else { "" };
    problem("out of range", format!("give {} to {}{zero}", shown(low), shown(high)))
}

/// A time in the form of a setting.
#[must_use]
pub fn shown(time: Duration) -> String {
    match time.as_secs() {
        _ if time.is_zero() => "0".into(),
        seconds if time.subsec_nanos() > 0 || !seconds.is_multiple_of(60) => format!("{time:?}"),
        seconds if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds => format!("{}m", seconds / 60),
    }
}

/// A whole number within bounds.
pub fn number(text: &str, low: u32, high: u32) -> Result<u32, Problem> {
    let value = text.parse::<u32>().ok().filter(|n| (low..=high).contains(n));
    value.map_or_else(|| problem("not a number in range", format!("give {low} to {high}")), Ok)
}

/// The value is one of a few words.
pub fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let found = words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    found.map_or_else(
        || problem("not one of the choices", format!("give one of {}", all.join(", "))),
        |(_, value)| Ok(*value),
    )
}

/// Where to listen: `:2112`, `127.0.0.1:2112`, `[::1]:2112`, `localhost:2112`; empty or `off`: nowhere.
pub fn listen(text: &str) -> Result<Option<Listen>, Problem> {
    if text.is_empty() || text == "off" {
        return Ok(None);
    }
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port != 0) {
        return Ok(Some(Listen::Any(port)));
    }
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    address.map_or_else(
        || {
            problem(
                "not an address to listen at",
                "give :PORT or ADDRESS:PORT, with brackets around an IPv6 address; empty for nowhere",
            )
        },
        |address| Ok(Some(Listen::At(address))),
    )
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On every address of the host, IPv6 and IPv4.
    Any(u16),
    /// On this one.
    At(SocketAddr),
}

impl Listen {
    /// Where the host itself reaches it: on loopback, if it listens on every address.
    #[must_use]
    pub const fn from_the_host(self) -> SocketAddr {
        match self {
            Self::At(address) if !address.ip().is_unspecified() => address,
            Self::Any(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            Self::At(address) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// `on` or `off`, in any of the usual words.
pub fn on_off(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "t" | "1" => Ok(true),
        "off" | "no" | "false" | "f" | "0" => Ok(false),
        _ => problem("neither on nor off", "give on or off"),
    }
}
