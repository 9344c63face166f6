//! Which addresses agents advertise for a Service: the rule that the allocator writes by and the agents read by.
//!
//! A Service names `IPAddress` objects in [`RECORD`](crate::services::RECORD), which it has, and in
//! [`MOVING`](crate::services::MOVING), between which it moves. Each line is `NAMESPACE/NAME=ADDRESS`.

use std::net::IpAddr;

/// An `IPAddress` that a Service names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The object's namespace.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object's address.
    pub address: IpAddr,
}

/// Reads one of the two annotations. Lines that make no sense are left out: somebody has edited them, and the allocator writes
/// them again.
pub fn read(text: Option<&str>) -> impl Iterator<Item = Line<'_>> {
    let line = |line| {
        let (object, address) = str::trim(line).split_once('=')?;
        let (namespace, name) = object.split_once('/')?;
        Some(Line { namespace, name, address: address.parse::<IpAddr>().ok()?.to_canonical() })
    };
    text.into_iter().flat_map(|text| text.split(',')).filter_map(line)
}

/// All that a Service names: agents advertise these objects for it, and no others. `record` and `moving` are the texts of the
/// two annotations.
pub fn named<'a>(record: Option<&'a str>, moving: Option<&'a str>) -> impl Iterator<Item = Line<'a>> {
    read(record).chain(read(moving))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let lines: Vec<_> = read(Some("a/b=10.0.0.5, a/c=fd00::5,nonsense,a=b,c/d=x,=,/=10.0.0.6")).collect();
        let line = |namespace, name, address: &str| Line { namespace, name, address: address.parse().unwrap() };
        assert_eq!(lines, [line("a", "b", "10.0.0.5"), line("a", "c", "fd00::5"), line("", "", "10.0.0.6")]);
        assert_eq!(read(None).count(), 0);
        assert_eq!(named(Some("a/b=10.0.0.5"), Some("a/c=10.0.0.6")).count(), 2);
    }
}
