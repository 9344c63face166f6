//! Placement hints (interface and nodes) on pools and on addresses: annotations to values and back.

use std::collections::BTreeMap;

use mooring_allocator_core::placement_hints::{Facts, HINTS, Hint, Hints, Texts, Write};
use mooring_api::annotations;
use serde_json::{Map, Value, json};

use super::address::AddressJson;
use super::pool::Seen;
use super::text::Text;

/// The name of a hint's annotation.
#[must_use]
pub const fn annotation(hint: Hint) -> &'static str {
    match hint {
        Hint::Interface => annotations::INTERFACE,
        Hint::NodeSelector => annotations::NODE_SELECTOR,
        Hint::PreferredNodes => annotations::PREFERRED_NODES,
    }
}

/// The annotation's name without our prefix: the key of the hint in the record.
fn short(hint: Hint) -> &'static str {
    annotation(hint).trim_start_matches(annotations::OURS)
}

/// The trimmed text; None: it is empty, which means absent.
fn filled(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.into())
}

/// The record of the copied hints, as JSON; None: nothing was copied.
#[must_use]
pub fn record(given: &Texts) -> Option<String> {
    let all =
        HINTS.into_iter().filter_map(|hint| Some((short(hint).to_owned(), given[hint.place()].as_deref()?.into())));
    let all: Map<String, Value> = all.collect();
    (!all.is_empty()).then(|| Value::from(all).to_string())
}

/// Reads the record. An invalid record counts as empty: then the address's annotations count as set by people.
fn read_record(text: &str) -> Texts {
    let all: BTreeMap<String, String> = serde_json::from_str(text).unwrap_or_default();
    HINTS.map(|hint| all.get(short(hint)).map(|text| text.as_str().into()))
}

/// The annotations that a new address gets from its pool's hints.
#[must_use]
pub fn copied(hints: &Hints) -> BTreeMap<String, String> {
    let texts = hints.sound();
    let words =
        HINTS.into_iter().filter_map(|hint| Some((annotation(hint), texts[hint.place()].as_deref()?.to_owned())));
    let record = record(&texts).map(|text| (annotations::FROM_POOL, text));
    words.chain(record).map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The merge patch of a write.
#[must_use]
pub fn patch(write: &Write) -> Value {
    let texts = write.texts.iter().map(|(hint, text)| (annotation(*hint), json!(text)));
    let record = write.given.iter().map(|given| (annotations::FROM_POOL, json!(record(given))));
    let holder = write.let_go.then_some((annotations::HOLDER, Value::Null));
    let all: Map<String, Value> =
        texts.chain(record).chain(holder).map(|(name, value)| (name.to_owned(), value)).collect();
    let target = &write.target;
    json!({"metadata": {"uid": &*target.uid.0, "resourceVersion": &*target.version.0, "annotations": all}})
}

impl AddressJson<'_> {
    /// The fields on which the placement hints depend.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let meta = &self.metadata;
        let (labels, notes) = (meta.labels.as_ref(), meta.annotations.as_ref());
        let text = |text: Option<&Text<'_>>| text.and_then(|text| filled(text));
        Facts {
            by_label: labels.and_then(|all| all.advertise.as_deref()) == Some("true"),
            for_service: labels.is_some_and(|all| all.family.is_some()),
            held: notes.is_some_and(|all| all.holder.is_some()),
            deleting: meta.deletion_timestamp.is_some(),
            texts: notes.map_or_else(Texts::default, |all| {
                [text(all.interface.as_ref()), text(all.node_selector.as_ref()), text(all.preferred_nodes.as_ref())]
            }),
            given: notes.and_then(|all| all.from_pool.as_deref()).map(read_record).unwrap_or_default(),
        }
    }
}

impl Seen {
    /// The pool's hints for the nodes that hold its addresses.
    #[must_use]
    pub fn hints(&self) -> Hints {
        Hints(HINTS.map(|hint| self.annotation(annotation(hint)).and_then(filled)))
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::{Key, Uid, Version};
    use mooring_allocator_core::protocol::Target;

    use super::*;

    fn facts(annotations: &Value) -> Facts {
        let text = json!({"metadata": {"labels": {"mooring.dev/service-family": "ipv4"}, "annotations": annotations}})
            .to_string();
        serde_json::from_str::<AddressJson<'_>>(&text).unwrap().facts()
    }

    #[test]
    fn what_is_copied_is_read_as_copied() {
        let hints = Hints([Some("eth1".into()), Some("zone=\"a".into()), Some("n1=5,n2".into())]);
        let copied = copied(&hints);
        assert_eq!(
            copied.keys().collect::<Vec<_>>(),
            ["mooring.dev/from-pool", "mooring.dev/interface", "mooring.dev/preferred-nodes"]
        );
        let facts = facts(&json!(copied));
        assert_eq!((&facts.texts, &facts.given), (&hints.sound(), &hints.sound()));
        assert!(facts.for_service && !facts.by_label && !facts.held && facts.matters());
        assert!(super::copied(&Hints::default()).is_empty());
    }

    #[test]
    fn nonsense_in_the_record_is_nothing() {
        for text in ["", "eth1", "[]", r#"{"interface":7}"#] {
            let facts = facts(
                &json!({"mooring.dev/from-pool": text, "mooring.dev/interface": " eth1 ", "mooring.dev/node-selector": " "}),
            );
            assert_eq!((facts.texts, facts.given), ([Some("eth1".into()), None, None], Texts::default()), "{text}");
        }
    }

    #[test]
    fn a_write_changes_only_what_it_says() {
        let target = Target { key: Key::new("n", "a"), uid: Uid::from("u"), version: Version::from("5") };
        let write = Write {
            target: target.clone(),
            texts: vec![(Hint::Interface, None), (Hint::NodeSelector, Some("edge".into()))],
            given: Some([None, Some("edge".into()), None]),
            let_go: false,
        };
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "5", "annotations": {
            "mooring.dev/interface": null, "mooring.dev/node-selector": "edge",
            "mooring.dev/from-pool": "{\"node-selector\":\"edge\"}"}}});
        assert_eq!(patch(&write), expected);
        let gone = Write { target, texts: Vec::new(), given: Some(Texts::default()), let_go: true };
        assert_eq!(
            patch(&gone)["metadata"]["annotations"],
            json!({"mooring.dev/from-pool": null, "mooring.dev/holder": null})
        );
    }
}
