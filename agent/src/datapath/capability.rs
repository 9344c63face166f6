//! The capabilities of the process, from `/proc/self/status`.

use super::error::Error;

/// The capabilities the agent needs, and their bits (`linux/capability.h`).
const NEEDED: [(&str, u32); 2] = [("NET_ADMIN", 12), ("NET_RAW", 13)];

/// The needed capabilities the process does not have: `NET_ADMIN` to add addresses, `NET_RAW` for ARP and NDP frames.
pub fn missing_capabilities() -> Result<Vec<&'static str>, Error> {
    let path = "/proc/self/status";
    let failed = |source| Error::File { path: path.into(), source };
    let status = std::fs::read_to_string(path).map_err(failed)?;
    missing_in(&status).ok_or_else(|| {
        failed(std::io::Error::new(std::io::ErrorKind::InvalidData, "it has no CapEff line of hexadecimal digits"))
    })
}

fn missing_in(status: &str) -> Option<Vec<&'static str>> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(NEEDED.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_missing() {
        assert_eq!(missing_in("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(vec![]));
        assert_eq!(missing_in("CapEff:\t0000000000001000\n"), Some(vec!["NET_RAW"]));
        assert_eq!(missing_in("CapEff:\t0000000000000000\n"), Some(vec!["NET_ADMIN", "NET_RAW"]));
        assert_eq!(missing_in("CapEff:\tx\n"), None);
        assert_eq!(missing_in(""), None);
    }
}
