//! The kept corpus, as it is and changed at random.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use proptest::prelude::{Strategy, any};
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use proptest::{collection, prop_oneof};

use crate::check::{CORPUS, TARGETS};

/// Kept files of a target, each an input; each has been found by the fuzzer, or stands for a mended fault.
fn kept(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS).join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths.map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn the_kept_corpus_holds() {
    let mut failed = Vec::new();
    for (name, check) in TARGETS {
        let all = kept(name);
        assert!(!all.is_empty(), "no corpus of {name}");
        let fails = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| check(bytes))).is_err();
        failed.extend(all.into_iter().filter(|(_, bytes)| fails(bytes)).map(|(path, _)| path));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_corpus_is_small_and_of_targets_only() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|(there, _)| *there == name), "{name} is no target");
        let all = kept(&name);
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(all.len() <= 64 && bytes <= 64 << 10, "{name}: {} files of {bytes} bytes", all.len());
    }
}

/// One change of an input.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    Double(Index, usize),
    /// A piece of another kept input.
    Splice(Index, Index, Index, usize),
    Number(Index, i64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<Index>;
    let number = select(vec![0, -1, 1, 255, 65_536, i64::MIN, i64::MAX, i64::from(i32::MAX), i64::from(u32::MAX) + 1]);
    let change = prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => at().prop_map(Change::Cut),
        2 => (at(), 1..16_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        1 => (at(), 1..64_usize).prop_map(|(at, length)| Change::Double(at, length)),
        3 => (at(), at(), at(), 1..64_usize).prop_map(|(at, of, from, length)| Change::Splice(at, of, from, length)),
        2 => (at(), number).prop_map(|(at, number)| Change::Number(at, number)),
    ];
    collection::vec(change, 1..6)
}

fn apply(mut bytes: Vec<u8>, change: &Change, all: &[(String, Vec<u8>)]) -> Vec<u8> {
    let within = |at: &Index, length: usize| at.index(length + 1);
    match change {
        Change::Byte(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Byte(_, byte) => bytes.push(*byte),
        Change::Cut(at) => bytes.truncate(within(at, bytes.len())),
        Change::Remove(at, length) => {
            let at = within(at, bytes.len());
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Change::Double(at, length) => {
            let at = within(at, bytes.len());
            let piece = bytes[at..(at + length).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        Change::Splice(at, of, from, length) => {
            let other = &all[of.index(all.len())].1;
            let from = within(from, other.len());
            let at = within(at, bytes.len());
            bytes.splice(at..at, other[from..(from + length).min(other.len())].iter().copied());
        }
        Change::Number(at, number) => {
            // In the place of the digits at or after that point; where there are none, as bytes.
            let at = within(at, bytes.len());
            let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) else {
                bytes.splice(at..at, number.to_be_bytes());
                return bytes;
            };
            let end = bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
            bytes.splice(start..end, number.to_string().into_bytes());
        }
    }
    bytes
}

/// `PROPTEST_CASES` makes it longer.
fn cases(name: &str, strategy: impl Strategy<Value = Vec<u8>>, check: fn(&[u8])) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |bytes| {
        check(&bytes);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{name}: {error}");
    }
}

#[test]
fn random_changes_of_it_hold() {
    for (name, check) in TARGETS {
        let all = kept(name);
        let start = select(all.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>());
        let changed = (start, changes())
            .prop_map(|(start, changes)| changes.iter().fold(start, |bytes, change| apply(bytes, change, &all)));
        cases(name, changed, *check);
    }
}

#[test]
fn random_bytes_hold() {
    for (name, check) in TARGETS {
        cases(name, collection::vec(any::<u8>(), 0..512), *check);
    }
}
