//! Annotations as text. An invalid value is ignored and logged.

use std::collections::BTreeMap;

use crate::core::placement::Interface;

/// `auto`, or a name.
pub(super) fn interface(text: &str) -> Option<Interface> {
    match text.trim() {
        "" => None,
        "auto" => Some(Interface::Subnet),
        name => Some(Interface::Named(name.to_owned())),
    }
}

/// `node1=100,node2`: a node without a weight has 1.
pub(super) fn weights(text: &str) -> BTreeMap<String, u32> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let weights = parts.filter_map(|part| {
        let (node, weight) = part.split_once('=').map_or((part, Ok(1)), |(node, w)| (node.trim(), w.trim().parse()));
        match weight {
            Ok(weight) => Some((node.to_owned(), weight)),
            Err(error) => {
                tracing::warn!(part, %error, "a weight that is no number is left out");
                None
            }
        }
    });
    weights.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_and_nonsense_is_left_out() {
        assert_eq!(weights("a=5, b ,c=x,"), [("a".to_owned(), 5), ("b".to_owned(), 1)].into());
        assert_eq!((interface("auto"), interface(" ")), (Some(Interface::Subnet), None));
    }
}
