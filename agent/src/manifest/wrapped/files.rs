//! Files of a machine, as Cluster API's bootstrap and control-plane kinds (and cloud-init) write them: `KubeadmControlPlane`,
//! `KubeadmConfigTemplate`, `RKE2ControlPlane`, `KThreesControlPlane` and others, each at another depth.

use serde_json::Value;

use super::{Coding, Place, Step};

/// The contents of all files in the object.
pub(super) fn places(object: &Value) -> Vec<Place> {
    let mut all = Vec::new();
    search(object, &mut Vec::new(), &mut all);
    all
}

/// A file is whatever has a path and a content.
fn search(value: &Value, path: &mut Vec<Step>, all: &mut Vec<Place>) {
    if let (Some(_), Some(content)) = (value["path"].as_str(), value["content"].as_str()) {
        path.push(Step::Field("content".to_owned()));
        all.extend(place(value, content, path));
        path.pop();
        return;
    }
    let mut inside = |step, inner| {
        path.push(step);
        search(inner, path, all);
        path.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| inside(Step::Field(name.clone()), inner)),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, inner)| inside(Step::Entry(at), inner)),
        _ => {}
    }
}

fn place(file: &Value, content: &str, path: &[Step]) -> Option<Place> {
    let coding = match file["encoding"].as_str().unwrap_or_default() {
        "" | "text/plain" => Coding::Plain,
        "base64" | "b64" => Coding::Base64,
        other => {
            let name = file["path"].as_str().unwrap_or_default();
            return Some(Place::Packed(format!("the file {name} with the encoding {other}")));
        }
    };
    Some(Place::Text { path: path.to_vec(), text: coding.decoded(content)?, coding })
}
