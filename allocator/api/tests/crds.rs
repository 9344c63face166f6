//! The CRDs in `manifests/crds` are those that the Rust types make. `UPDATE_CRDS=1 cargo test -p mooring-api --test crds`
//! writes them anew.

use std::path::Path;

use mooring_api::crds;

#[test]
fn the_manifests_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/crds");
    for file in crds::files().expect("the CRDs can be made") {
        let path = folder.join(&file.path);
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::write(&path, &file.text).expect("written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == file.text, "{} is out of date: UPDATE_CRDS=1 writes it anew", path.display());
    }
}
