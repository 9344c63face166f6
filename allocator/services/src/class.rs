//! Which Services are ours, by `spec.loadBalancerClass`: kube-vip's rules, in both its modes.

/// The rules. Source: `lbClassFilterLegacy` and `lbClassFilter` in kube-vip's `pkg/services`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRules {
    /// `lb_class_name`: the class; more than one are a setting of Mooring's own. An empty name stands for no class.
    pub names: Vec<String>,
    /// `lb_class_only`: not those without a class. In the newer mode without effect.
    pub only: bool,
    /// `lb_class_legacy_handling`: those without a class are ours too.
    pub legacy: bool,
}

impl Default for ClassRules {
    fn default() -> Self {
        Self { names: vec!["kube-vip.io/kube-vip-class".to_owned()], only: false, legacy: true }
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
