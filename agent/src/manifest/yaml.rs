//! Text as YAML.

use std::fmt::Write as _;

use serde_json::Value;

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

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    let joined = |all: Vec<String>| all.join(", ");
    match value {
        Value::String(text) => scalar(text),
        Value::Array(list) => format!("[{}]", joined(list.iter().map(flow).collect())),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", scalar(name), flow(value));
            format!("{{{}}}", joined(fields.iter().map(field).collect()))
        }
        _ => value.to_string(),
    }
}

/// The longest value that stands on one line, in characters.
const LINE: usize = 90;

/// A value on lines of its own.
fn block(value: &Value) -> String {
    match value {
        Value::Object(fields) if flow(value).len() > LINE => {
            fields.iter().map(|(name, value)| field(name, value)).collect()
        }
        Value::Array(list) => list.iter().fold(String::new(), |all, item| {
            let item = indented(&block(item), 2);
            format!("{all}- {}", item.get(2..).unwrap_or_default())
        }),
        _ => flow(value) + "\n",
    }
}

/// A field of a map, on one line if it is short.
pub(super) fn field(name: &str, value: &Value) -> String {
    let (name, short) = (scalar(name), flow(value));
    match value {
        _ if short.len() <= LINE => format!("{name}: {short}\n"),
        Value::Array(_) => format!("{name}:\n{}", block(value)),
        _ => format!("{name}:\n{}", indented(&block(value), 2)),
    }
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
    fn a_value_is_read_as_the_same_on_one_line_and_on_several() {
        let long = "x".repeat(80);
        let value = serde_json::json!({
            "nodeAffinity": {"terms": [{"key": "a/b", "in": ["1", "on", 2, true, null], "more": long}, {"empty": {}, "none": []}]},
            "selector": {"node-role.kubernetes.io/master": "true", "odd key: ": long},
        });
        for yaml in [flow(&value), block(&value)] {
            assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), value, "{yaml}");
        }
        assert!(block(&value).lines().count() > 4, "{}", block(&value));
    }

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
