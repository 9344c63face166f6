//! What is written into a floating IP's description: whose it is. Neutron takes the description in the request that creates the
//! floating IP, which it does not with tags: so there is no moment at which an address is ours and does not say so.
//!
//! ```text
//! Ingress of the shop | mooring claim=UID pool=UID for=CLAIM.NAMESPACE
//! mooring made claim=UID pool=UID for=CLAIM.NAMESPACE
//! mooring made pool=UID                                 kept, for the next claim
//! ```

use std::fmt;

/// The longest description that Neutron takes, in characters.
const LONGEST: usize = 255;
/// The word at which a mark begins.
const WORD: &str = "mooring ";
/// What stands between a person's text and a mark.
const BETWEEN: &str = " | ";

/// A mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The person's text before it. Floating IPs that this program makes have none.
    pub kept: String,
    /// The pool's uid.
    pub pool: String,
    /// The claim that has the floating IP; None: it is free.
    pub claim: Option<Holder>,
    /// This program made the floating IP, or the pool's former controller did: it may delete it.
    pub made: bool,
}

/// A claim in a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its uid.
    pub uid: String,
    /// Its name for people: `CLAIM.NAMESPACE`, cut if it is too long.
    pub name: String,
}

/// A person's text leaves no room for a mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its description is so long that the claim cannot be written behind it: shorten it to {0} characters")]
pub struct NoRoom(usize);

impl Mark {
    /// Reads a description. None: it bears no mark.
    #[must_use]
    pub fn read(description: &str) -> Option<Self> {
        let at = description.rfind(WORD)?;
        let (before, mark) = description.split_at(at);
        if !before.is_empty() && !before.ends_with(BETWEEN) {
            return None;
        }
        let kept = before.strip_suffix(BETWEEN).unwrap_or_default().to_owned();
        let mut found = Self { kept, ..Self::default() };
        let mut name = String::new();
        let mut claim = None;
        for word in mark[WORD.len()..].split(' ') {
            match word.split_once('=') {
                Some(("pool", uid)) => uid.clone_into(&mut found.pool),
                Some(("claim", uid)) => claim = Some(uid.to_owned()),
                Some(("for", text)) => text.clone_into(&mut name),
                _ if word == "made" => found.made = true,
                _ => {}
            }
        }
        found.claim = claim.map(|uid| Holder { uid, name });
        (!found.pool.is_empty()).then_some(found)
    }

    /// The description, with the name cut so that Neutron takes it. The same mark has always the same text.
    ///
    /// # Errors
    /// The person's text leaves no room.
    pub fn description(&self) -> Result<String, NoRoom> {
        let text = self.to_string();
        let name = self.claim.as_ref().map_or(0, |claim| claim.name.chars().count());
        let long = text.chars().count();
        if long.saturating_sub(name) > LONGEST {
            let kept = self.kept.chars().count();
            return Err(NoRoom(kept.saturating_sub(long - name - LONGEST)));
        }
        Ok(text.chars().take(LONGEST).collect())
    }

    /// The description after the claim has let go of a floating IP that is not deleted.
    #[must_use]
    pub fn freed(&self) -> String {
        if self.made { Self { claim: None, ..self.clone() }.to_string() } else { self.kept.clone() }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kept.is_empty() {
            write!(f, "{}{BETWEEN}", self.kept)?;
        }
        f.write_str(WORD)?;
        if self.made {
            f.write_str("made ")?;
        }
        if let Some(Holder { uid, .. }) = &self.claim {
            write!(f, "claim={uid} ")?;
        }
        write!(f, "pool={}", self.pool)?;
        if let Some(Holder { name, .. }) = &self.claim {
            // At the end: it alone may be cut.
            write!(f, " for={name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(kept: &str, made: bool) -> Mark {
        let claim = Some(Holder { uid: "c".repeat(36), name: "web-0.shop".into() });
        Mark { kept: kept.into(), pool: "p".repeat(36), claim, made }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for one in [mark("", true), mark("Ingress | of the shop", false), Mark { claim: None, ..mark("", true) }] {
            assert_eq!(Mark::read(&one.description().unwrap()), Some(one));
        }
        for other in ["", "mooring", "the mooring of ships", "mooring made", "a mooring pool=x"] {
            assert_eq!(Mark::read(other), None, "{other}");
        }
    }

    #[test]
    fn the_name_alone_is_cut() {
        let mut one = mark("", true);
        one.claim.as_mut().unwrap().name = "n".repeat(300);
        let text = one.description().unwrap();
        assert_eq!(text.len(), LONGEST);
        let read = Mark::read(&text).unwrap();
        assert_eq!((read.pool, read.claim.unwrap().uid), (one.pool, one.claim.unwrap().uid));
        assert!(mark(&"x".repeat(150), false).description().is_ok());
        assert!(mark(&"x".repeat(250), false).description().is_err());
    }

    #[test]
    fn what_a_person_wrote_comes_back() {
        assert_eq!(mark("Ingress", false).freed(), "Ingress");
        let free = Mark::read(&mark("", true).freed()).unwrap();
        assert_eq!((free.claim, free.made), (None, true));
    }
}
