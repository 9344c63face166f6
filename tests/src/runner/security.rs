//! The page on security: each row of its table has tests, and these exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rows of the table below a heading, without its head.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let below = page.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let rows = below.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The text of all sources below a folder.
fn sources(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_row_of_the_table_has_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/src/security.md")).unwrap();
    let told = rows(&page, "## What Mooring guards against, and what not");
    let shown = rows(&page, "### What shows it");
    let who = |rows: &[Vec<&str>]| rows.iter().map(|row| row[0].to_owned()).collect::<BTreeSet<_>>();
    assert!(told.len() > 5);
    assert_eq!(who(&told), who(&shown));
    let mut text = String::new();
    for folder in ["agent", "allocator", "common", "tests"] {
        sources(&root.join(folder), &mut text);
    }
    for row in &shown {
        let tests: Vec<&str> = row[2].split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{row:?}");
        for test in tests {
            let there = match test.split_once('/') {
                Some((group, story)) => {
                    text.contains(&format!("\"{story}\"")) && text.contains(&format!("\"{group}\""))
                }
                None => text.contains(&format!("fn {test}(")),
            };
            assert!(there, "{test} does not exist");
        }
    }
}
