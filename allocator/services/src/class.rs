//! Which Services Mooring handles, by `spec.loadBalancerClass`: kube-vip's rules, in both of kube-vip's modes.

use mooring_names::services::CLASS;

/// The rules. Source: `lbClassFilterLegacy` and `lbClassFilter` in kube-vip's `pkg/services`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRules {
    /// `lb_class_name`: the class. More than one class is Mooring's own extension. An empty name means Services without
    /// a class.
    pub names: Vec<String>,
    /// `lb_class_only`: leave out Services without a class. Without effect in the newer mode.
    pub only: bool,
    /// `lb_class_legacy_handling`: Services without a class are ours too.
    pub legacy: bool,
}

impl Default for ClassRules {
    fn default() -> Self {
        Self { names: vec![CLASS.to_owned()], only: false, legacy: true }
    }
}

impl ClassRules {
    /// Whether a Service of this class is ours.
    #[must_use]
    pub fn accept(&self, class: Option<&str>) -> bool {
        match class {
            None if self.legacy => !self.only,
            None => self.names.iter().any(String::is_empty),
            Some(class) => self.names.iter().any(|name| name == class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kube_vip_does() {
        let ours = Some("kube-vip.io/kube-vip-class");
        let legacy = ClassRules::default();
        assert_eq!([None, ours, Some("other")].map(|c| legacy.accept(c)), [true, true, false]);
        let only = ClassRules { only: true, ..ClassRules::default() };
        assert_eq!([None, ours, Some("other")].map(|c| only.accept(c)), [false, true, false]);
        let newer = ClassRules { legacy: false, ..ClassRules::default() };
        assert_eq!([None, ours, Some("other")].map(|c| newer.accept(c)), [false, true, false]);
        let none = ClassRules { legacy: false, names: vec![String::new()], ..ClassRules::default() };
        assert_eq!([None, ours].map(|c| none.accept(c)), [true, false]);
    }
}
