//! The objects in a YAML text.

use serde_json::Value;

/// Each object, in order. A text may begin with a separator, and documents that have only comments do not count.
///
/// # Errors
/// One of them is no YAML.
pub fn objects(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    let all = text.split("\n---\n").map(serde_saphyr::from_str::<Value>);
    all.filter(|one| !matches!(one, Ok(Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_comments() {
        let text = "---\n# Source: a\na: 1\n---\n# nothing\n---\nb: |\n  x\n  y\n";
        let all = objects(text).unwrap();
        assert_eq!(all, [serde_json::json!({"a": 1}), serde_json::json!({"b": "x\ny\n"})]);
        assert!(objects("a: [").is_err());
    }
}
