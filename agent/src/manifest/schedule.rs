//! The nodes on which the pods of a translated manifest run.

use serde_json::Value;

use super::yaml::field;

/// The fields of a pod that say on which nodes it runs. Null, or empty: it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// `nodeSelector`.
    pub node_selector: Value,
    /// `affinity`.
    pub affinity: Value,
    /// `tolerations`.
    pub tolerations: Value,
}

impl Schedule {
    /// That of a pod's `spec`, or of a chart's values.
    pub(super) fn of(spec: &Value) -> Self {
        let [node_selector, affinity, tolerations] =
            ["nodeSelector", "affinity", "tolerations"].map(|field| spec[field].clone());
        Self { node_selector, affinity, tolerations }
    }

    /// The fields that say something.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let all =
            [("nodeSelector", &self.node_selector), ("affinity", &self.affinity), ("tolerations", &self.tolerations)];
        all.into_iter().filter(|(_, value)| match value {
            Value::Object(fields) => !fields.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => false,
        })
    }

    /// Whether it chooses among the nodes, and does not only tolerate their taints.
    pub(super) fn chooses(&self) -> bool {
        self.fields().any(|(field, _)| field != "tolerations")
    }

    /// As fields of a pod's `spec`.
    pub(super) fn render(&self) -> String {
        self.fields().map(|(name, value)| field(name, value)).collect()
    }
}
