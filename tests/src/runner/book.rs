//! Every link of the book and of the pages beside it leads to a file and a heading that exist, and no link of the book leaves
//! the book: mdBook renders `docs/src` alone, and a page elsewhere may go. Files of the source tree are named as code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that are not in the book, and whose links are looked at too.
const BESIDE: [&str; 7] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "manifests/README.md",
    "charts/mooring-agent/README.md",
    "charts/mooring-allocator/README.md",
    "vagrant/README.md",
];

/// The target of each Markdown link (`[text](target)`) outside code.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The text without blocks and spans of code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ")
    });
    let lines = lines.map(|line| line.split('`').step_by(2).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchors that mdBook and GitHub make of the headings. Of headings with one text, the later ones get a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let anchor: String = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

/// The pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// What is wrong with a link on a page; the page may link to what is below `bounds`. A URL is no such file.
fn wrong(page: &Path, target: &str, bounds: &Path) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let Ok(path) = path.canonicalize() else { return Some("there is no such file") };
    if !path.starts_with(bounds) {
        return Some("it leaves the book");
    }
    let anchor = anchor?;
    (!anchors(&fs::read_to_string(path).unwrap()).contains(anchor)).then_some("the page has no such heading")
}

#[test]
fn every_link_leads_somewhere_and_none_leaves_the_book() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let book = root.join("docs/src");
    let mut all: Vec<(PathBuf, &Path)> = pages(&book).into_iter().map(|page| (page, book.as_path())).collect();
    all.extend(BESIDE.map(|page| (root.join(page), root.as_path())));
    let mut count = 0;
    for (page, bounds) in &all {
        let text = fs::read_to_string(page).unwrap();
        assert!(!prose(&text).contains("<http"), "{}: a link to a URL", page.display());
        for target in links(&text) {
            count += 1;
            let problem = wrong(page, &target, bounds);
            assert_eq!(problem, None, "{}: {target}", page.display());
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn the_summary_names_every_page() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src");
    let summary = links(&fs::read_to_string(book.join("SUMMARY.md")).unwrap());
    for page in pages(&book) {
        let name = page.strip_prefix(&book).unwrap().to_str().unwrap().to_owned();
        assert!(name == "SUMMARY.md" || summary.contains(&name), "SUMMARY.md does not name {name}");
    }
}

#[test]
fn anchors_are_made_as_mdbook_makes_them() {
    let text = "# A VIP, `svc_x` & two\n## Once\n```text\n# no heading\n```\n## Once\n";
    let made: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(made, ["a-vip-svc_x--two", "once", "once-1"]);
}
