//! The texts a pool may give about the nodes that hold its addresses, and their syntax check.

use crate::names::is_object_name;

/// A property that describes the place of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// The interface: a name, or `auto`.
    Interface,
    /// Labels that a node must have: `key=value,key!=value,key,!key`.
    NodeSelector,
    /// Nodes that are preferred, with weights: `node1=100,node2`.
    PreferredNodes,
}

/// All hints, in the order of [`Texts`].
pub const HINTS: [Hint; 3] = [Hint::Interface, Hint::NodeSelector, Hint::PreferredNodes];

/// A text for each [`Hint`]; None: the pool gives none.
pub type Texts = [Option<Box<str>>; 3];

/// The error in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// Not the name of an interface.
    #[error("{0:?} is not the name of an interface: at most 15 characters, no space, slash or colon; or auto")]
    Interface(Box<str>),
    /// Not a part of a selector.
    #[error("{0:?} is no part of a node selector: write key=value, key!=value, key or !key, with commas between them")]
    Selector(Box<str>),
    /// Not a node with its weight.
    #[error("{0:?} is not a node with a weight: write NODE=NUMBER, with commas between them")]
    Preference(Box<str>),
}

/// Longest name of an interface (`IFNAMSIZ` less the end).
const INTERFACE: usize = 15;
/// Longest name in a label, and longest value.
const LABEL: usize = 63;

impl Hint {
    /// The hint's place in [`Texts`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Checks whether agents can read the text.
    ///
    /// # Errors
    /// The invalid part.
    pub fn check(self, text: &str) -> Result<(), HintError> {
        match self {
            Self::Interface if is_interface(text.trim()) => Ok(()),
            Self::Interface => Err(HintError::Interface(text.into())),
            Self::NodeSelector => parts(text)
                .find(|part| !is_requirement(part))
                .map_or(Ok(()), |bad| Err(HintError::Selector(bad.into()))),
            Self::PreferredNodes => parts(text)
                .find(|part| !is_preference(part))
                .map_or(Ok(()), |bad| Err(HintError::Preference(bad.into()))),
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Source: `dev_valid_name` of Linux; a colon would be an alias.
fn is_interface(name: &str) -> bool {
    let sound = |c: char| !c.is_whitespace() && !matches!(c, '/' | ':' | ',');
    !name.is_empty() && name.len() <= INTERFACE && !matches!(name, "." | "..") && name.chars().all(sound)
}

fn is_requirement(part: &str) -> bool {
    if let Some(key) = part.strip_prefix('!') {
        is_key(key.trim())
    } else if let Some((key, value)) =
        part.split_once("!=").or_else(|| part.split_once("==")).or_else(|| part.split_once('='))
    {
        is_key(key.trim()) && (value.trim().is_empty() || is_name(value.trim()))
    } else {
        is_key(part)
    }
}

fn is_preference(part: &str) -> bool {
    let (node, weight) =
        part.split_once('=').map_or((part, Ok(1)), |(node, weight)| (node.trim(), weight.trim().parse::<u32>()));
    weight.is_ok() && is_domain(node)
}

/// A label's key: a name, with an optional DNS name and slash before it.
fn is_key(key: &str) -> bool {
    key.split_once('/').map_or_else(|| is_name(key), |(domain, name)| is_domain(domain) && is_name(name))
}

/// Source: `IsQualifiedName` and `IsValidLabelValue` of Kubernetes.
fn is_name(text: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= LABEL && end(text.chars().next()) && end(text.chars().last()) && text.chars().all(inner)
}

fn is_domain(text: &str) -> bool {
    is_object_name(text) && text.split('.').all(|part| part.len() <= LABEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_can_read_is_sound() {
        for (hint, text) in [
            (Hint::Interface, "eth0"),
            (Hint::Interface, "bond0.200"),
            (Hint::Interface, "auto"),
            (Hint::NodeSelector, "zone=a, edge,!example.com/old ,rack!=r1,tier==x,empty="),
            (Hint::NodeSelector, ""),
            (Hint::PreferredNodes, "n1=100, n2.example.com,n3=0"),
        ] {
            assert_eq!(hint.check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_they_cannot_read_is_named() {
        for (hint, text, bad) in [
            (Hint::Interface, "eth 0", "eth 0"),
            (Hint::Interface, "eth0:1", "eth0:1"),
            (Hint::Interface, "averyveryverylong", "averyveryverylong"),
            (Hint::Interface, "", ""),
            (Hint::NodeSelector, "zone=a,zone in (b)", "zone in (b)"),
            (Hint::NodeSelector, "!", "!"),
            (Hint::NodeSelector, "a=b=c", "a=b=c"),
            (Hint::PreferredNodes, "n1=100,n2=high", "n2=high"),
            (Hint::PreferredNodes, "N1", "N1"),
            (Hint::PreferredNodes, "n1=-1", "n1=-1"),
        ] {
            let hints = hint.check(text).map_err(|error| error.to_string());
            assert!(hints.as_ref().is_err_and(|hints| hints.contains(&format!("{bad:?}"))), "{text}: {hints:?}");
        }
    }
}
