//! Which Services count by what they state themselves, by `spec.loadBalancerClass`: kube-vip's rules.

/// The rules. Source: `lbClassFilterLegacy` and `lbClassFilter` in kube-vip's `pkg/services`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// `lb_class_name`.
    pub name: String,
    /// `lb_class_only`: not those without a class. Counts with `legacy` alone.
    pub only: bool,
    /// `lb_class_legacy_handling`: those without a class count.
    pub legacy: bool,
}

impl Default for Classes {
    fn default() -> Self {
        Self { name: "kube-vip.io/kube-vip-class".into(), only: false, legacy: true }
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
