//! Templates of clusterctl's: `[${NAME}]` is no YAML before something else stands in its place.

use std::borrow::Cow;

use serde_json::Value;

/// What stands for the braces of a placeholder while a text is read. As long as they are, so that all else stays in its place.
const MARKS: [(&str, &str); 2] = [("${", "}"), ("$<", ">")];

/// A text that YAML's parser can read: the text itself, if it can.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let [braces, marks] = MARKS;
    let is_fine = serde_saphyr::from_str::<Value>(text).is_ok();
    if is_fine || text.contains(marks.0) { Cow::Borrowed(text) } else { Cow::Owned(exchanged(text, braces, marks)) }
}

/// The text that was made readable.
pub(super) fn original(text: &str) -> String {
    let [braces, marks] = MARKS;
    exchanged(text, marks, braces)
}

/// All texts of a value, as they were before.
pub(super) fn original_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(original(&text)),
        Value::Array(list) => list.into_iter().map(original_value).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (original(&name), original_value(value))).collect()
        }
        other => other,
    }
}

/// The text with other marks around each placeholder. It ends on its line.
fn exchanged(text: &str, from: (&str, &str), to: (&str, &str)) -> String {
    let mut parts = text.split(from.0);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| match part.split_once(from.1).filter(|(name, _)| !name.contains('\n')) {
        Some((name, rest)) => all + to.0 + name + to.1 + rest,
        None => all + from.0 + part,
    })
}
