//! The tables of a page of settings.

use std::fmt::Write as _;

use super::spec::Spec;

/// A heading and a table for each group. `head`: the table's first two lines; `row`: a setting's line.
#[must_use]
pub fn tables(settings: &[Spec], head: &str, row: impl Fn(&Spec) -> String) -> String {
    let mut page = String::new();
    let mut group = "";
    for spec in settings {
        if spec.group != group {
            group = spec.group;
            // Writing to a String cannot fail; nor can the write below.
            let _ = write!(page, "\n## {group}\n\n{head}");
        }
        let _ = writeln!(page, "{}", row(spec));
    }
    page
}

/// A setting's default, for a cell.
#[must_use]
pub fn default(spec: &Spec) -> String {
    match (spec.default, spec.default_note) {
        ("", "") => "none: must be given".to_owned(),
        ("", note) => note.to_owned(),
        (default, _) => format!("`{default}`"),
    }
}

/// What a setting does, for a cell.
#[must_use]
pub fn help(spec: &Spec) -> String {
    spec.help.replace('|', "\\|")
}
