//! The Services that have or share a claim: the claim's annotation [`crate::words::SERVICES`], `NAMESPACE/NAME=UID`,
//! comma separated.

use mooring_allocator_core::names::{Key, Uid};

use crate::objects::Member;

/// Reads the annotation, in order. Unreadable entries are left out: somebody has edited them, and they are written
/// again.
#[must_use]
pub fn read(text: &str) -> Vec<Member> {
    let one = |part: &str| {
        let (key, uid) = part.split_once('=')?;
        let (namespace, name) = key.split_once('/')?;
        let whole = !namespace.is_empty() && !name.is_empty() && !uid.is_empty();
        whole.then(|| (Key::new(namespace, name), Uid::from(uid)))
    };
    let mut all: Vec<Member> = text.split(',').filter_map(one).collect();
    all.sort();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// Writes the annotation.
#[must_use]
pub fn write(all: &[Member]) -> String {
    all.iter().map(|(key, uid)| format!("{key}={uid}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all = vec![(Key::new("a", "x"), Uid::from("1")), (Key::new("b", "y"), Uid::from("2"))];
        assert_eq!(read(&write(&all)), all);
        assert_eq!(read("b/y=2,a/x=1,nonsense,/=,c/d=,=,a/x=1"), all);
        assert!(read("").is_empty());
    }
}
