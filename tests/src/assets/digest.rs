//! SHA-256 of files and bytes.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, SHA256};

/// The digest of a file, in hexadecimal.
pub fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut context, mut buffer) = (File::open(path)?, Context::new(&SHA256), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(context)),
            n => context.update(&buffer[..n]),
        }
    }
}

/// The digest of these bytes, in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hex(context)
}

/// The digest of what was put into the context, in hexadecimal.
#[must_use]
pub fn hex(context: Context) -> String {
    context.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}
