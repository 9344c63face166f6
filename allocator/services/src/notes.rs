//! The annotations of a Service that Mooring uses.

use crate::words;

/// Annotations, as they are written. Empty ones are absent.
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
    /// [`words::REALLOCATE`] is there.
    pub reallocate: bool,
    /// [`words::RECORD`]
    pub record: Option<Box<str>>,
    /// [`words::REQUESTED`]
    pub requested: Option<Box<str>>,
    /// [`words::GIVEN_INTERFACE`]
    pub given_interface: Option<Box<str>>,
}

impl Notes {
    /// Reads the annotations; `get` finds an annotation by its name.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |key: &str| get(key).map(str::trim).filter(|t| !t.is_empty()).map(Box::from);
        Self {
            addresses: text(words::ADDRESSES),
            host: text(words::VIP_HOST),
            ignore: get(words::IGNORE) == Some("true"),
            interface: text(words::INTERFACE),
            lease_name: text(words::LEASE_NAME),
            pool: text(words::POOL),
            sharing_key: text(words::SHARING_KEY),
            reallocate: get(words::REALLOCATE).is_some(),
            record: text(words::RECORD),
            requested: text(words::REQUESTED),
            given_interface: text(words::GIVEN_INTERFACE),
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
            words::REQUESTED => self.requested.as_deref(),
            words::GIVEN_INTERFACE => self.given_interface.as_deref(),
            words::POOL => self.pool.as_deref(),
            words::SHARING_KEY => self.sharing_key.as_deref(),
            words::LEASE_NAME => self.lease_name.as_deref(),
            words::IGNORE => self.ignore.then_some("true"),
            words::REALLOCATE => self.reallocate.then_some("true"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
