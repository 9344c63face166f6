//! What the API server itself refuses: CEL rules of the CRDs.
//!
//! They are those of the in-cluster provider's webhook, as far as CEL can say them: not, what depends on other objects. Every
//! rule holds its peace about what another one refuses, so that a person reads one message and not an evaluation error.
//!
//! The API server estimates the cost of each rule from `maxItems` and `maxLength`, and refuses a CRD with a rule above
//! 10,000,000. It takes `string(int)` for unbounded: [`cel::number`] writes numbers otherwise. Only what
//! Kubernetes 1.31 accepts in new expressions is used: the functions for addresses and networks are of 1.30, which accepts
//! them in stored expressions only.

mod address;
pub(crate) mod cel;
mod floating_ip_pool;
mod ip_pool;
mod metal3;
mod php_ipam_pool;
mod prefix_pool;

use serde_json::{Map, Value, json};

pub(crate) use address::{address, claim};
pub(crate) use floating_ip_pool::floating_ip_pool;
pub(crate) use ip_pool::ip_pool;
pub(crate) use metal3::{metal3_address, metal3_claim, metal3_pool};
pub(crate) use php_ipam_pool::php_ipam_pool;
pub(crate) use prefix_pool::prefix_pool;

/// A rule and what it is about.
#[derive(Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "rule is what Kubernetes calls it")]
pub(crate) struct Rule {
    /// True where all is well.
    rule: String,
    /// What is said otherwise.
    message: String,
    /// An expression for a better text; `message` where that fails.
    says: Option<String>,
    /// The field it is about, `.prefix`; all of it otherwise.
    field: Option<&'static str>,
}

impl Rule {
    pub(crate) fn new(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule: rule.into(), message: message.into(), says: None, field: None }
    }

    /// With a text that CEL makes.
    pub(crate) fn says(mut self, expression: impl Into<String>) -> Self {
        self.says = Some(expression.into());
        self
    }

    /// About that field.
    pub(crate) fn about(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// As `x-kubernetes-validations` has it.
    fn to_json(&self) -> Value {
        let mut all =
            Map::from_iter([("rule".to_owned(), json!(self.rule)), ("message".to_owned(), json!(self.message))]);
        if let Some(says) = &self.says {
            all.insert("messageExpression".to_owned(), json!(says));
        }
        if let Some(field) = self.field {
            all.insert("fieldPath".to_owned(), json!(field));
        }
        Value::Object(all)
    }
}

/// The rules of a spec: where, and which. The place is a JSON pointer within the spec's schema.
pub(crate) type Rules = Vec<(&'static str, Vec<Rule>)>;

/// Puts rules into the schema of a spec. Answers the places that it lacks.
pub(crate) fn put(spec: &mut Value, rules: &Rules) -> Result<(), &'static str> {
    for (place, rules) in rules {
        let schema = spec.pointer_mut(place).and_then(Value::as_object_mut).ok_or(*place)?;
        let list = schema.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        let list = list.as_array_mut().ok_or(*place)?;
        list.extend(rules.iter().map(Rule::to_json));
    }
    Ok(())
}
