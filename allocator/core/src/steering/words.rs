//! What a pool may say of the nodes that hold its addresses, and whether it makes sense.

/// Something that is said of where an address belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// On which interface: a name, or `auto`.
    Interface,
    /// Labels that a node must have: `key=value,key!=value,key,!key`.
    NodeSelector,
    /// Nodes that should rather have it, with weights: `node1=100,node2`.
    PreferredNodes,
}

/// All of them, in the order of [`Texts`].
pub const WORDS: [Word; 3] = [Word::Interface, Word::NodeSelector, Word::PreferredNodes];

/// A text for each [`Word`]; None: nothing is said.
pub type Texts = [Option<Box<str>>; 3];

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
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
/// Longest DNS name.
const DOMAIN: usize = 253;

impl Word {
    /// Its place in [`Texts`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Whether agents can make sense of it.
    ///
    /// # Errors
    /// The part that makes none.
    pub fn check(self, text: &str) -> Result<(), WordError> {
        match self {
            Self::Interface if is_interface(text.trim()) => Ok(()),
            Self::Interface => Err(WordError::Interface(text.into())),
            Self::NodeSelector => parts(text)
                .find(|part| !is_requirement(part))
                .map_or(Ok(()), |bad| Err(WordError::Selector(bad.into()))),
            Self::PreferredNodes => parts(text)
                .find(|part| !is_preference(part))
                .map_or(Ok(()), |bad| Err(WordError::Preference(bad.into()))),
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

/// A label's key: a name, perhaps with a DNS name and a slash before it.
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
    let part =
        |part: &str| is_name(part) && !part.contains(['_', '.']) && !part.contains(|c: char| c.is_ascii_uppercase());
    text.len() <= DOMAIN && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_can_read_is_sound() {
        for (word, text) in [
            (Word::Interface, "eth0"),
            (Word::Interface, "bond0.200"),
            (Word::Interface, "auto"),
            (Word::NodeSelector, "zone=a, edge,!example.com/old ,rack!=r1,tier==x,empty="),
            (Word::NodeSelector, ""),
            (Word::PreferredNodes, "n1=100, n2.example.com,n3=0"),
        ] {
            assert_eq!(word.check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_they_cannot_read_is_named() {
        for (word, text, bad) in [
            (Word::Interface, "eth 0", "eth 0"),
            (Word::Interface, "eth0:1", "eth0:1"),
            (Word::Interface, "averyveryverylong", "averyveryverylong"),
            (Word::Interface, "", ""),
            (Word::NodeSelector, "zone=a,zone in (b)", "zone in (b)"),
            (Word::NodeSelector, "!", "!"),
            (Word::NodeSelector, "a=b=c", "a=b=c"),
            (Word::PreferredNodes, "n1=100,n2=high", "n2=high"),
            (Word::PreferredNodes, "N1", "N1"),
            (Word::PreferredNodes, "n1=-1", "n1=-1"),
        ] {
            let said = word.check(text).map_err(|error| error.to_string());
            assert!(said.as_ref().is_err_and(|said| said.contains(&format!("{bad:?}"))), "{text}: {said:?}");
        }
    }
}
