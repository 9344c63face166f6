//! kube-vip's rules: which Services count by the addresses they state themselves, judged by `spec.loadBalancerClass`.

use mooring_names::services::CLASS;

/// The rules. Source: `lbClassFilterLegacy` and `lbClassFilter` in kube-vip's `pkg/services`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// `lb_class_name`.
    pub name: String,
    /// `lb_class_only`: a Service without a class does not count. This applies with `legacy` alone.
    pub only: bool,
    /// `lb_class_legacy_handling`: a Service without a class counts.
    pub legacy: bool,
}

impl Default for Classes {
    fn default() -> Self {
        Self { name: CLASS.into(), only: false, legacy: true }
    }
}

impl Classes {
    /// Whether a Service of this class counts.
    #[must_use]
    pub fn accept(&self, class: Option<&str>) -> bool {
        match class {
            None if self.legacy => !self.only,
            None => self.name.is_empty(),
            Some(class) => self.name == class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kube_vip_does() {
        let all = |classes: &Classes| {
            [None, Some("kube-vip.io/kube-vip-class"), Some("my/class")].map(|class| classes.accept(class))
        };
        let usual = Classes::default();
        assert_eq!(all(&usual), [true, true, false]);
        assert_eq!(all(&Classes { only: true, ..usual.clone() }), [false, true, false]);
        assert_eq!(all(&Classes { name: "my/class".into(), ..usual.clone() }), [true, false, true]);
        assert_eq!(all(&Classes { legacy: false, ..usual.clone() }), [false, true, false]);
        assert_eq!(all(&Classes { legacy: false, name: String::new(), ..usual }), [true, false, false]);
    }
}
