//! The output of `kubectl get`: the API server makes the table, and kubectl only aligns its columns.

use anyhow::{Context as _, Result};
use http::Method;
use serde_json::Value;

use super::server::Server;

/// The media type that `kubectl get` requests.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The lines of `kubectl get` for a list, or an object, at that path.
///
/// # Errors
/// The API server refuses the request.
pub async fn get(server: &Server, path: &str) -> Result<Vec<Vec<String>>> {
    let table = server.ask(Method::GET, path, None, TABLE).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let shown: Vec<usize> = (0..columns.len()).filter(|&place| columns[place]["priority"] == 0).collect();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut lines = vec![shown.iter().map(|&place| text(&columns[place]["name"]).to_uppercase()).collect()];
    for row in table["rows"].as_array().context("no rows")? {
        lines.push(shown.iter().map(|&place| text(&row["cells"][place])).collect());
    }
    Ok(lines)
}

/// Aligns columns, three blanks apart.
#[must_use]
pub fn set(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_kubectl_sets_it() {
        let line = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = super::set(&[line(["NAME", "ADDRESS", "AGE"]), line(["give-me-an-ip", "10.10.222.233", "0s"])]);
        assert_eq!(text, "NAME            ADDRESS         AGE\ngive-me-an-ip   10.10.222.233   0s\n");
    }
}
