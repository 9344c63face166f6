//! A trace: what it replays to replays to itself.

use mooring_agent::core::trace::replay;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match replay(text) {
        Ok(out) => {
            assert_eq!(replay(&out).ok().as_ref(), Some(&out));
            // A step says a few things about each VIP, each participant and itself.
            let inputs = text.lines().count();
            assert!(
                out.lines().count() <= (inputs + 1) * (64 + text.len()),
                "{} lines of {inputs}",
                out.lines().count()
            );
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("line ") && error.len() < 1024 + text.len(), "{error}");
        }
    }
}
