//! Text as YAML.

use std::fmt::Write as _;

/// A text as a YAML scalar within braces: plain where nobody can read it as anything but this text, otherwise in quotes.
pub(super) fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-:@".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    // A colon that something could follow, and what YAML 1.1 reads as a number in base 60.
    let colon = text.ends_with(':') || text.contains("::") || text.chars().all(|c| c.is_ascii_digit() || c == ':');
    let word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&text.to_lowercase().as_str());
    let number = text.parse::<f64>().is_ok() || text.starts_with("0x") || text.starts_with("0o");
    if begins && !colon && !word && !number && text.chars().all(plain) {
        return text.to_owned();
    }
    // What JSON puts in quotes, YAML reads as the same text.
    serde_json::Value::from(text).to_string()
}

/// The text with `by` spaces before each line.
pub(super) fn indented(text: &str, by: usize) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(all, "{:by$}{line}", "");
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_read_as_the_same_text() {
        for text in [
            "192.0.2.10",
            "fd00::10",
            "on",
            "off",
            "Yes",
            "1",
            "1e3",
            "0x10",
            "12:30:00",
            "5s",
            "a,b",
            "a: b",
            "#x",
            "",
            " ",
            "it's",
            "\"",
            "eth0.100",
            "default/kubernetes",
            "https://192.0.2.1:6443",
            "::",
            "-",
            "~",
            "null",
            "a\nb",
            "{a}",
        ] {
            let yaml = format!("{{value: {}}}", scalar(text));
            let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(read["value"], text, "{yaml}");
        }
        assert_eq!(scalar("192.0.2.10"), "192.0.2.10");
        assert_eq!(scalar("on"), "\"on\"");
    }
}
