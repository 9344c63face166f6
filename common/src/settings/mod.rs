//! Settings: a program's table ([`spec`]), values and sources ([`gathered`]), and the flags ([`flags`]) and pages
//! ([`docs`]) that are made from the table; mistyped variables ([`variables`]). The forms of values are in [`crate::values`].

pub mod docs;
pub mod flags;
pub mod gathered;
pub mod host;
pub mod spec;
pub mod variables;

pub use gathered::{Effective, Gathered, Origin, SettingsError, Warning, summary};
pub use host::Host;
pub use spec::{Spec, noted};
