//! The record of a Service's addresses, written on the Service: `NAMESPACE/NAME=ADDRESS`, comma separated, in the
//! Service's order.

use std::net::IpAddr;

use mooring_allocator_core::names::Key;

use crate::notes::Notes;

/// An address that a Service has, and its `IPAddress`.
pub type Line = (Key, IpAddr);

/// Reads a record. Unreadable entries are left out: somebody has edited them, and they are written again.
#[must_use]
pub fn read(text: Option<&str>) -> Vec<Line> {
    mooring_names::record::read(text).map(line).collect()
}

/// The object that gave a Service this address, as its record says.
#[must_use]
pub fn object(notes: &Notes, ip: IpAddr) -> Option<Key> {
    read(notes.record.as_deref()).into_iter().find(|(_, one)| *one == ip).map(|(object, _)| object)
}

/// Whether the record on a Service names an address.
#[must_use]
pub fn names(notes: &Notes, ip: IpAddr) -> bool {
    object(notes, ip).is_some()
}

/// Whether one object gave two Services this address, as their records say: they shared it.
#[must_use]
pub fn shared(one: &Notes, other: &Notes, ip: IpAddr) -> bool {
    object(one, ip).is_some_and(|object_of_one| object(other, ip) == Some(object_of_one))
}

/// All lines by which agents advertise addresses for a Service.
#[must_use]
pub fn named(notes: &Notes) -> Vec<Line> {
    mooring_names::record::named(notes.record.as_deref(), notes.moving.as_deref()).map(line).collect()
}

fn line(line: mooring_names::record::Line<'_>) -> Line {
    (Key::new(line.namespace, line.name), line.address)
}

/// Writes a record.
#[must_use]
pub fn write(lines: &[Line]) -> String {
    lines.iter().map(|(key, ip)| format!("{key}={ip}")).collect::<Vec<_>>().join(",")
}

/// The addresses alone, in the format of [`crate::words::ADDRESSES`].
#[must_use]
pub fn addresses(lines: &[Line]) -> String {
    lines.iter().map(|(_, ip)| ip.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let lines: Vec<Line> =
            vec![(Key::new("a", "b"), "10.0.0.5".parse().unwrap()), (Key::new("a", "c"), "fd00::5".parse().unwrap())];
        assert_eq!(read(Some(&write(&lines))), lines);
        assert_eq!(addresses(&lines), "10.0.0.5,fd00::5");
        assert_eq!(read(Some("a/b=10.0.0.5,nonsense,a=b,c/d=x")), lines[..1]);
        assert!(read(None).is_empty());
    }
}
