//! docs/src/reference/settings.md, made from the tables.

use std::fmt::Write as _;

use mooring_common::settings::docs;

use super::kube_vip::{ENTRIES, Entry, Meaning, Part};
use super::spec::{SETTINGS, Spec};

const HEAD: &str = "\
# Settings

<!-- Made from agent/src/settings by its tests: UPDATE_DOCS=1 cargo test -p mooring-agent settings::docs -->

A flag overrides the `MOORING_*` environment variable, which overrides kube-vip's variable, which overrides the default.
`mooring-agent config` prints each effective setting and where it came from.

kube-vip itself lets its environment override its flags. If a flag and kube-vip's variable disagree, a warning names both.

Times are numbers with a unit: `500ms`, `2s`, `1m30s`.
";

const KUBE_VIP: &str = "
## kube-vip's settings

If you change only the image in a manifest of kube-vip, it works, or the agent refuses to start and names the settings that prevent it.
kube-vip's subcommand `manager` means `run`; the others are refused by name. Where two names mean the same setting, the upper one wins.

| environment | flag | here |
| --- | --- | --- |
";

/// The whole page.
#[must_use]
pub fn page() -> String {
    let head = "| flag | environment | kube-vip | default | |\n| --- | --- | --- | --- | --- |\n";
    let mut page = HEAD.to_owned() + &docs::tables(SETTINGS, head, row);
    page.push_str(KUBE_VIP);
    for entry in ENTRIES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {} | {} | {} |", code(entry.env), code(&dashed(entry.flag)), here(entry));
    }
    page
}

fn row(spec: &Spec) -> String {
    let theirs: Vec<String> = ENTRIES.iter().filter(|e| e.setting() == Some(spec.name)).map(|e| code(e.env)).collect();
    let (default, help) = (docs::default(spec), docs::help(spec));
    format!("| `--{}` | `{}` | {} | {default} | {help} |", spec.name, spec.env(), theirs.join(", "))
}

fn here(entry: &Entry) -> String {
    match entry.meaning {
        Meaning::Same(name) => format!("`--{name}`"),
        Meaning::Seconds(name) => format!("`--{name}`, in whole seconds"),
        Meaning::SlogLevel(name) => format!("`--{name}`, as a number: -4 debug, 0 info, 4 warn, 8 error"),
        Meaning::Either(name, [yes, no]) => format!("`--{name}`: true is {yes}, false is {no}"),
        Meaning::Only([""], advice) => format!("refused{}: {advice}", judged(entry.part)),
        Meaning::Only(fine, advice) => format!("{} only{}: {advice}", fine.join(", "), judged(entry.part)),
        Meaning::NoEffect(_, why) => format!("no effect: {why}"),
    }
}

/// Where a setting that is not supported is an error. Elsewhere there is a warning.
const fn judged(part: Part) -> &'static str {
    match part {
        Part::Any => "",
        Part::ControlPlane => ", if control-plane is on",
        Part::Services => ", if services is on",
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn dashed(flag: &str) -> String {
    if flag.is_empty() { String::new() } else { format!("--{flag}") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/settings.md");
        let page = super::page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        let must = page.lines().filter(|line| line.contains("must be given"));
        assert!(must.eq(page.lines().filter(|line| line.starts_with("| `--address`"))), "only the VIPs must be given");
        assert!(
            stored == page,
            "docs/src/reference/settings.md is stale: UPDATE_DOCS=1 cargo test -p mooring-agent settings::docs"
        );
    }
}
