//! The annotations of a Service that Mooring uses.

use mooring_names::metallb::MetalLb;

use crate::words;

/// The longest text that is kept, in bytes: each counts against the memory of the allocator, and tenants write them.
const LONGEST: usize = 1024;

/// Annotations, as they are written. Empty ones are absent, long ones are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// [`words::ADDRESSES`]
    pub addresses: Option<Box<str>>,
    /// [`words::VIP_HOST`]
    pub host: Option<Box<str>>,
    /// [`words::IGNORE`] is `true`.
    pub ignore: bool,
    /// [`words::INTERFACE`]
    pub interface: Option<Box<str>>,
    /// [`words::LEASE_NAME`]
    pub lease_name: Option<Box<str>>,
    /// [`words::POOL`]
    pub pool: Option<Box<str>>,
    /// [`words::SHARING_KEY`]
    pub sharing_key: Option<Box<str>>,
    /// [`words::SHARING_NAMESPACES`]. Of a long one, the whole names that fit.
    pub sharing_namespaces: Option<Box<str>>,
    /// [`words::REALLOCATE`] is there.
    pub reallocate: bool,
    /// [`words::LEFT`] is `true`.
    pub left: bool,
    /// [`words::RECORD`]
    pub record: Option<Box<str>>,
    /// [`words::MOVING`]
    pub moving: Option<Box<str>>,
    /// [`words::REQUESTED`]
    pub requested: Option<Box<str>>,
    /// [`words::GIVEN_INTERFACE`]
    pub given_interface: Option<Box<str>>,
    /// Annotations of `MetalLB`'s, which have no effect.
    pub metallb: MetalLb,
}

impl Notes {
    /// Reads the annotations; `get` finds an annotation by its name.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |key: &str| {
            let text = get(key)?.trim();
            let cut = &text[..text.floor_char_boundary(LONGEST)];
            (!cut.is_empty()).then(|| Box::from(cut))
        };
        Self {
            addresses: text(words::ADDRESSES),
            host: text(words::VIP_HOST),
            ignore: get(words::IGNORE) == Some("true"),
            interface: text(words::INTERFACE),
            lease_name: text(words::LEASE_NAME),
            pool: text(words::POOL),
            sharing_key: text(words::SHARING_KEY),
            sharing_namespaces: whole_names(get(words::SHARING_NAMESPACES).unwrap_or_default()),
            reallocate: get(words::REALLOCATE).is_some(),
            left: get(words::LEFT) == Some("true"),
            record: text(words::RECORD),
            moving: text(words::MOVING),
            requested: text(words::REQUESTED),
            given_interface: text(words::GIVEN_INTERFACE),
            metallb: MetalLb::read(get),
        }
    }

    /// The present value of an annotation.
    #[must_use]
    pub fn written(&self, key: &str) -> Option<&str> {
        match key {
            words::ADDRESSES => self.addresses.as_deref(),
            words::VIP_HOST => self.host.as_deref(),
            words::INTERFACE => self.interface.as_deref(),
            words::RECORD => self.record.as_deref(),
            words::MOVING => self.moving.as_deref(),
            words::REQUESTED => self.requested.as_deref(),
            words::GIVEN_INTERFACE => self.given_interface.as_deref(),
            words::POOL => self.pool.as_deref(),
            words::SHARING_KEY => self.sharing_key.as_deref(),
            words::SHARING_NAMESPACES => self.sharing_namespaces.as_deref(),
            words::LEASE_NAME => self.lease_name.as_deref(),
            words::IGNORE => self.ignore.then_some("true"),
            words::REALLOCATE => self.reallocate.then_some("true"),
            words::LEFT => self.left.then_some("true"),
            _ => None,
        }
    }
}

/// The names of a list, comma separated. A name that is cut would be another one: it is left out.
fn whole_names(list: &str) -> Option<Box<str>> {
    let list = list.trim();
    let cut = &list[..list.floor_char_boundary(LONGEST)];
    let whole = if cut.len() < list.len() { cut.rsplit_once(',').map_or("", |(whole, _)| whole) } else { cut };
    (!whole.is_empty()).then(|| whole.into())
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::Key;

    use super::*;

    #[test]
    fn what_is_long_is_cut() {
        let long = "ä".repeat(100_000);
        let notes = Notes::read(|_| Some(long.as_str()));
        let texts = [&notes.addresses, &notes.host, &notes.pool, &notes.sharing_key, &notes.record, &notes.requested];
        for text in texts {
            assert!(text.as_ref().is_some_and(|text| text.len() <= 1024 && long.starts_with(&**text)));
        }
        // What the allocator itself writes is shorter.
        let line =
            (Key::new(&"n".repeat(63), &"c".repeat(253)), "2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap());
        let record = crate::record::write(&[line.clone(), line.clone()]);
        let notes = Notes::read(|_| Some(record.as_str()));
        assert_eq!(crate::record::read(notes.record.as_deref()), [line.clone(), line]);
    }

    #[test]
    fn a_name_that_is_cut_names_nobody() {
        // The last name that fits begins as another namespace's does.
        let long = format!("{},team-a-other", "n".repeat(LONGEST - 7));
        let whom =
            |list: &str| Notes::read(|key| (key == words::SHARING_NAMESPACES).then_some(list)).sharing_namespaces;
        assert_eq!(whom(&long), Some("n".repeat(LONGEST - 7).into()));
        assert_eq!(whom(&"n".repeat(LONGEST + 1)), None);
        assert_eq!(whom(" a, b "), Some("a, b".into()));
    }

    #[test]
    fn what_is_empty_is_absent() {
        let notes = Notes::read(|key| match key {
            words::ADDRESSES => Some(" 10.0.0.5 "),
            words::POOL => Some(" "),
            words::IGNORE => Some("yes"),
            words::REALLOCATE => Some(""),
            _ => None,
        });
        assert_eq!(notes.addresses.as_deref(), Some("10.0.0.5"));
        assert_eq!((notes.pool, notes.ignore, notes.reallocate), (None, false, true));
    }
}
