//! The status document: what `mooring-agent status` reads from a socket, and shows on a terminal.

use mooring_agent::ops::status_client::decode;

pub fn check(data: &[u8]) {
    let status = match decode(data) {
        Ok(status) => status,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let text = serde_json::to_vec(&status).unwrap();
    assert_eq!(decode(&text).unwrap(), status);
    let tables = status.tables();
    assert!(tables.len() <= 64 * data.len() + 4096, "{} bytes of {}", tables.len(), data.len());
    let active = tables.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}'));
    assert_eq!(active, None, "{tables:?}");
    assert!(tables.lines().count() <= 40 + data.len());
}
