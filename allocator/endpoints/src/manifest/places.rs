//! Where in a static pod the VIP stands.

use std::net::IpAddr;
use std::ops::Range;

use super::ManifestError;
use super::tree::{Content, Node};

/// Environment variables that name the VIP, whatever the container.
/// Source: kube-vip's `pkg/kubevip/config_envvar.go`; Mooring's settings.
const OWN_NAMES: [&str; 2] = ["MOORING_ADDRESS", "vip_address"];
/// One that names the VIP in a container of kube-vip: it is too common otherwise.
const COMMON_NAME: &str = "address";
/// Arguments that name the VIP in a container of kube-vip or of Mooring. Source: kube-vip's `cmd/kube-vip.go`.
const ARGUMENTS: [&str; 2] = ["--address", "--vip"];
/// Parts of the names, and of the images, of these containers.
const KNOWN: [&str; 2] = ["kube-vip", "mooring-agent"];

/// A place of the address.
pub(super) struct Place<'a> {
    /// What stands there now; None: nothing.
    pub(super) text: Option<&'a str>,
    pub(super) edit: Edit,
}

/// How the address is put there.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// In place of this scalar.
    Value(Range<usize>, Form),
    /// After the colon that follows this name.
    AfterColon(Range<usize>),
    /// As a new entry `value` of the map that starts there; after the entry that ends at `after`.
    Entry { map: usize, after: usize, column: usize, flow: bool },
}

/// What a scalar holds besides the address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Nothing.
    Alone,
    /// `--address=` or `--vip=` before it.
    Argument(&'static str),
}

/// Whether a text names no address: nothing stands there, or what means none.
pub(crate) fn is_empty(text: &str) -> bool {
    text.trim().is_empty() || text.trim().parse().is_ok_and(|ip: IpAddr| ip.is_unspecified())
}

impl Place<'_> {
    /// Whether nothing stands there.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_none_or(is_empty)
    }

    /// Whether the address stands there. Mooring's agent takes several, comma separated.
    pub(super) fn carries(&self, ip: IpAddr) -> bool {
        self.text.is_some_and(|text| text.split(',').any(|one| one.trim().parse() == Ok(ip)))
    }
}

/// The places in a document; none, if it is no static pod that holds a VIP.
///
/// # Errors
/// The pod is of kube-vip or Mooring, and has no place for the address, or one that cannot be written.
pub(super) fn places(document: &Node) -> Result<Vec<Place<'_>>, ManifestError> {
    if document.get("kind").and_then(Node::text) != Some("Pod") {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    let containers = document.get("spec").and_then(|spec| spec.get("containers"));
    for container in containers.map(Node::items).unwrap_or_default() {
        let name = container.get("name").and_then(Node::text).unwrap_or_default();
        let known = is_known(container);
        let before = all.len();
        for variable in container.get("env").map(Node::items).unwrap_or_default() {
            if let Some(place) = of_variable(variable, known, name)? {
                all.push(place);
            }
        }
        if known {
            for field in ["command", "args"] {
                of_arguments(container.get(field).map(Node::items).unwrap_or_default(), name, &mut all)?;
            }
            if all.len() == before {
                return Err(ManifestError::NoPlace { container: shown(name) });
            }
        }
    }
    Ok(all)
}

/// The name of a container, for people; not if it is no name at all: the text may be a `Secret`'s.
fn shown(name: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = !name.is_empty() && name.len() <= 63 && name.chars().all(fits);
    if is_name { name.to_owned() } else { "without a proper name".to_owned() }
}

fn is_known(container: &Node) -> bool {
    let image = container.get("image").and_then(Node::text).unwrap_or_default();
    let image = image.rsplit('/').next().unwrap_or_default();
    let name = container.get("name").and_then(Node::text).unwrap_or_default();
    KNOWN.iter().any(|known| image.contains(known) || name.contains(known))
}

fn of_variable<'a>(variable: &'a Node, known: bool, container: &str) -> Result<Option<Place<'a>>, ManifestError> {
    let Some(name) = variable.get("name").filter(|name| {
        let text = name.text().unwrap_or_default();
        OWN_NAMES.contains(&text) || (known && text == COMMON_NAME)
    }) else {
        return Ok(None);
    };
    let cannot =
        || ManifestError::NotWritable { container: shown(container), name: name.text().unwrap_or_default().to_owned() };
    if variable.get("valueFrom").is_some() {
        return Err(cannot());
    }
    let Content::Map { flow, entries } = &variable.content else { return Ok(None) };
    let Some((key, value)) = variable.entry("value") else {
        let column = entries.first().map_or(0, |(key, _)| key.column);
        let edit = Edit::Entry { map: variable.at.start, after: name.at.end, column, flow: *flow };
        return Ok(Some(Place { text: None, edit }));
    };
    of_scalar(value, Some(key)).map(Some).ok_or_else(cannot)
}

/// The place of a value. `key`: its name, if it has one.
fn of_scalar<'a>(value: &'a Node, key: Option<&Node>) -> Option<Place<'a>> {
    match (&value.content, key) {
        (Content::Scalar { text, plain: true, special: false }, Some(key))
            if text.is_empty() || value.at.is_empty() =>
        {
            Some(Place { text: None, edit: Edit::AfterColon(key.at.clone()) })
        }
        (Content::Scalar { text, special: false, .. }, _) if !value.at.is_empty() => {
            Some(Place { text: Some(text), edit: Edit::Value(value.at.clone(), Form::Alone) })
        }
        _ => None,
    }
}

fn of_arguments<'a>(items: &'a [Node], container: &str, all: &mut Vec<Place<'a>>) -> Result<(), ManifestError> {
    let cannot = |name: &str| ManifestError::NotWritable { container: shown(container), name: name.to_owned() };
    for (at, item) in items.iter().enumerate() {
        let Some(text) = item.text() else { continue };
        for argument in ARGUMENTS {
            if text == argument {
                let value = items.get(at + 1).and_then(|value| of_scalar(value, None));
                all.push(value.ok_or_else(|| cannot(argument))?);
            } else if let Some(value) = text.strip_prefix(argument).and_then(|rest| rest.strip_prefix('=')) {
                if matches!(item.content, Content::Scalar { special: true, .. }) {
                    return Err(cannot(argument));
                }
                let edit = Edit::Value(item.at.clone(), Form::Argument(argument));
                all.push(Place { text: Some(value), edit });
            }
        }
    }
    Ok(())
}
