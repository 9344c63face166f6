//! The entries of the table of settings.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The prefix of all environment variables of this program.
    pub prefix: &'static str,
    /// Its name: the flag without the dashes.
    pub name: &'static str,
    /// The heading it stands under.
    pub group: &'static str,
    /// What its value is called in `--help`.
    pub value: &'static str,
    /// Its default, in the form in which it could be given; empty: none.
    pub default: &'static str,
    /// What the default is, where it cannot be given in that form.
    pub default_note: &'static str,
    /// Whether an empty value has a meaning; otherwise an empty environment variable counts as unset.
    pub empty_counts: bool,
    /// What it does.
    pub help: &'static str,
}

impl Spec {
    /// The name of the environment variable.
    #[must_use]
    pub fn env(&self) -> String {
        format!("{}{}", self.prefix, self.name.to_uppercase().replace('-', "_"))
    }
}

/// The setting, with a default that cannot be given.
#[must_use]
pub const fn noted(spec: Spec, default_note: &'static str) -> Spec {
    Spec { default_note, ..spec }
}
