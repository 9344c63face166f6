//! Archives with the same bytes for the same content: entries in the order of their names, one time, no owners.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write as _};
use tar::{Builder, EntryType, Header};

/// A file of an archive, or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path in the archive; that of a folder ends with a slash.
    pub path: String,
    /// Who may do what with it.
    pub mode: u32,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl Entry {
    /// A file with that content.
    #[must_use]
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes: bytes.into() }
    }

    /// A folder.
    #[must_use]
    pub fn folder(path: &str, mode: u32) -> Self {
        Self { path: format!("{path}/"), mode, bytes: Vec::new() }
    }

    /// The same, as a program.
    #[must_use]
    pub fn executable(self) -> Self {
        Self { mode: 0o755, ..self }
    }
}

/// A tar archive of these, all from that time, in seconds since 1970.
///
/// # Errors
/// A path is too long for a tar archive.
pub fn tar(mut entries: Vec<Entry>, time: u64) -> io::Result<Vec<u8>> {
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let mut archive = Builder::new(Vec::new());
    for entry in &entries {
        let writing = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", entry.path));
        let mut header = Header::new_ustar();
        header.set_entry_type(if entry.path.ends_with('/') { EntryType::Directory } else { EntryType::Regular });
        header.set_path(&entry.path).map_err(writing)?;
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(time);
        header.set_cksum();
        archive.append(&header, entry.bytes.as_slice()).map_err(writing)?;
    }
    archive.into_inner()
}

/// Packs bytes, without a name or a time.
///
/// # Errors
/// None that is known: it writes to memory.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    packed.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_order_of_the_entries_does_not_count_and_all_is_found_again() {
        let a = Entry::new("a/one", "1");
        let b = Entry::new("b", vec![7; 1000]).executable();
        let folder = Entry::folder("a", 0o1777);
        let one = tar(vec![a.clone(), folder.clone(), b.clone()], 1_700_000_000).unwrap();
        assert_eq!(one, tar(vec![b, a, folder], 1_700_000_000).unwrap());
        assert_eq!(gzip(&one).unwrap(), gzip(&one).unwrap());

        let packed = gzip(&one).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let header = entry.header();
            let (mode, time) = (header.mode().unwrap(), header.mtime().unwrap());
            assert_eq!((header.uid().unwrap(), time), (0, 1_700_000_000));
            seen.push((entry.path().unwrap().display().to_string(), mode, bytes.len()));
        }
        let seen: Vec<_> = seen.iter().map(|(path, mode, size)| (path.as_str(), *mode, *size)).collect();
        assert_eq!(seen, [("a/", 0o1777, 0), ("a/one", 0o644, 1), ("b", 0o755, 1000)]);
    }

    #[test]
    fn a_path_that_does_not_fit_is_an_error() {
        let long = tar(vec![Entry::new("x".repeat(300), "")], 0).unwrap_err().to_string();
        assert!(long.contains("xxx"), "{long}");
    }
}
