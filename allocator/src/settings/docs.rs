//! docs/src/reference/allocator-settings.md, made from the table.

use mooring_common::settings::{Spec, docs};

use super::spec::SETTINGS;

const HEAD: &str = "\
# Settings of the allocator

<!-- Made from allocator/src/settings by its tests: UPDATE_DOCS=1 cargo test -p mooring-allocator settings::docs -->

A flag overrides the environment variable, which overrides the default. Times are numbers with a unit: `500ms`, `2s`, `1m30s`.
";

/// The whole page.
#[must_use]
pub fn page() -> String {
    let head = "| flag | environment | default | |\n| --- | --- | --- | --- |\n";
    let row = |spec: &Spec| {
        let (default, help) = (docs::default(spec), docs::help(spec));
        format!("| `--{}` | `{}` | {default} | {help} |", spec.name, spec.env())
    };
    HEAD.to_owned() + &docs::tables(SETTINGS, head, row)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/allocator-settings.md");
        let page = super::page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == page,
            "docs/src/reference/allocator-settings.md is stale: UPDATE_DOCS=1 cargo test -p mooring-allocator settings::docs"
        );
    }
}
