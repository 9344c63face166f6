//! Queries in URLs.

use std::fmt::Write as _;

/// The query of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(String);

impl Query {
    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let mark = if self.0.is_empty() { '?' } else { '&' };
        let _ = write!(self.0, "{mark}{name}=");
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                let _ = write!(self.0, "%{byte:02X}");
            }
        }
        self
    }

    /// Adds a parameter, if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The query with its question mark; empty: none.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn values_are_escaped() {
        let query = Query::default().with("a", "x=1 & ü").with_some("b", None).with("c", "2001:db8::1");
        assert_eq!(query.text(), "?a=x%3D1%20%26%20%C3%BC&c=2001%3Adb8%3A%3A1");
        assert_eq!(Query::default().text(), "");
    }
}
