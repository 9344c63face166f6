//! The file of a static pod into which an address is put: perhaps half written, perhaps not one.

use std::net::IpAddr;

use mooring_allocator_endpoints::manifest::{Manifest, ManifestError, put};
use serde_json::Value;

/// What names the address, in the environment and as arguments.
const NAMES: [&str; 3] = ["MOORING_ADDRESS", "vip_address", "address"];
const ARGUMENTS: [&str; 2] = ["--address", "--vip"];
/// The longest message, but for the parser's own words.
const MESSAGE: usize = 300;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (four, six) = (IpAddr::from([10, 0, 0, 5]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 5]));
    for (ip, other) in [(four, six), (six, four)] {
        match put(text, ip) {
            Ok(Manifest::NotOurs | Manifest::Carries) | Err(ManifestError::Unreadable(_)) => {}
            Err(error) => assert!(error.to_string().len() < MESSAGE, "{error}"),
            Ok(Manifest::Changed { text: new, .. }) => {
                assert_eq!(put(&new, ip), Ok(Manifest::Carries), "{new}");
                same_but_for_the_address(text, &new);
                // There and back: from then on only the address changes.
                let once = changed(&changed(&new, other), ip);
                assert_eq!(changed(&changed(&once, other), ip), once);
            }
        }
    }
}

fn changed(text: &str, ip: IpAddr) -> String {
    match put(text, ip) {
        Ok(Manifest::Changed { text: new, .. }) => new,
        other => panic!("{other:?}\n{text}"),
    }
}

/// Another reader of YAML, which knows what aliases mean, sees no change but at the places of the address.
fn same_but_for_the_address(before: &str, after: &str) {
    let read = |text: &str| serde_saphyr::from_multiple::<Value>(text);
    // It refuses more, twice the same key for example.
    let Ok(mut old) = read(before) else { return };
    let mut new = read(after).unwrap_or_else(|error| panic!("{error}\n{after}"));
    old.iter_mut().chain(&mut new).for_each(without_address);
    assert_eq!(old, new, "{before}\n{after}");
}

/// Takes the address out of a pod.
fn without_address(document: &mut Value) {
    if document["kind"] != "Pod" {
        return;
    }
    let containers = document.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
        let env = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in env.into_iter().flatten().filter_map(Value::as_object_mut) {
            if variable.get("name").and_then(Value::as_str).is_some_and(|name| NAMES.contains(&name)) {
                variable.remove("value");
            }
        }
        for field in ["command", "args"] {
            let mut follows = false;
            for item in container.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
                let text = item.as_str().unwrap_or_default().to_owned();
                if follows || ARGUMENTS.iter().any(|name| text.strip_prefix(name).is_some_and(|r| r.starts_with('='))) {
                    *item = Value::Null;
                }
                follows = ARGUMENTS.contains(&text.as_str());
            }
        }
    }
}
