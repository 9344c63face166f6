//! docs/src/reference/annotations.md, made from the names.

use std::fmt::Write as _;
use std::path::Path;

use crate::mark::{Form, Mark};
use crate::{
    annotations, endpoints, finalizers, kube_vip, labels, machines, metal3, metallb, openstack, services, sessions,
};

const HEAD: &str = "\
# Annotations, labels and finalizers

<!-- Made from common/names by its tests: UPDATE_DOCS=1 cargo test -p mooring-names reference -->

All names that Mooring reads or writes on objects, and some that it must know. \"Pools\" are all kinds of pools. What the allocator or
an agent writes is theirs: do not change it.
";

const KUBE_VIP: &str = "
## kube-vip's annotations without effect

Mooring does not do what these ask for. An Event on the Service says so (`AnnotationNotHonoured`).

| annotation | instead |
| --- | --- |
";

const METALLB: &str = "
## MetalLB's annotations without effect

The allocator says so of a Service that it serves, in an Event (`AnnotationNotHonoured`), unless the Service says the same in Mooring's words.

| annotation | instead |
| --- | --- |
";

/// The modules of names.
const ALL: [&[Mark]; 9] = [
    annotations::MARKS,
    labels::MARKS,
    finalizers::MARKS,
    services::MARKS,
    sessions::MARKS,
    endpoints::MARKS,
    machines::MARKS,
    metal3::MARKS,
    openstack::MARKS,
];

fn heading(form: Form) -> &'static str {
    match form {
        Form::Annotation => "Annotations",
        Form::Label => "Labels",
        Form::Finalizer => "Finalizers",
        Form::Condition => "Conditions",
    }
}

/// The whole page. Writing to a String cannot fail.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut marks: Vec<&Mark> = ALL.into_iter().flatten().collect();
    marks.sort_by_key(|mark| (mark.form, mark.name));
    let mut before = None;
    for mark in marks {
        if before.replace(mark.form) != Some(mark.form) {
            let heading = heading(mark.form);
            let _ = write!(
                page,
                "\n## {heading}\n\n| name | on | value | written by | read by | |\n| --- | --- | --- | --- | --- | --- |\n"
            );
        }
        let lines: Vec<&str> = mark.about.iter().map(|line| line.trim()).collect();
        // Where a name comes from is for those who read the code.
        let (about, _) =
            lines.split_at(lines.iter().position(|line| line.starts_with("Source:")).unwrap_or(lines.len()));
        let cells = [mark.on, mark.value, mark.written_by, mark.read_by, &about.join(" ")].join(" | ");
        let _ = writeln!(page, "| `{}` | {cells} |", mark.name);
    }
    page.push_str(KUBE_VIP);
    for (name, instead) in kube_vip::not_honoured() {
        let _ = writeln!(page, "| `{name}` | {instead} |");
    }
    page.push_str(METALLB);
    for (name, instead) in metallb::not_honoured() {
        let _ = writeln!(page, "| `{name}` | {instead} |");
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/annotations.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/src/reference/annotations.md is stale: UPDATE_DOCS=1 cargo test -p mooring-names reference"
    );
}

#[test]
fn each_name_is_there_once_and_says_what_is_to_know() {
    let mut seen = std::collections::BTreeSet::new();
    for mark in ALL.into_iter().flatten() {
        assert!(seen.insert((mark.form, mark.name)), "{mark:?} is there twice");
        assert_eq!(mark.value.is_empty(), mark.form == Form::Finalizer, "{mark:?}");
        let cells = [mark.on, mark.value, mark.written_by, mark.read_by];
        assert!(!cells.iter().any(|cell| cell.contains('|')), "{mark:?} would break the table");
        assert!(!mark.about.iter().any(|line| line.contains("[`")), "{mark:?} has a link of rustdoc's");
    }
}
