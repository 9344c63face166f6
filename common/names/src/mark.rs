//! What a name stands for, beside the name: the constants, their documentation and docs/src/reference/annotations.md are all
//! made from it.

/// Where an object has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// In `metadata.annotations`.
    Annotation,
    /// In `metadata.labels`.
    Label,
    /// In `metadata.finalizers`.
    Finalizer,
    /// The type of a condition in `status.conditions`.
    Condition,
}

/// A name on objects.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Where it is.
    pub form: Form,
    /// The name.
    pub name: &'static str,
    /// The kinds that have it.
    pub on: &'static str,
    /// What its value is. Empty: it has none.
    pub value: &'static str,
    /// Who writes it.
    pub written_by: &'static str,
    /// Who goes by it.
    pub read_by: &'static str,
    /// What it says, in lines.
    pub about: &'static [&'static str],
}

/// Makes a constant of each name, and `MARKS`, the table of all.
macro_rules! marks {
    ($($(#[doc = $about:literal])+ $form:ident $constant:ident = $name:literal { on: $on:literal, value: $value:literal, $writer:literal => $reader:literal })*) => {
        $(
            $(#[doc = $about])+
            #[doc = concat!("\n\nOn: ", $on, ". Value: ", $value, ". Written by: ", $writer, ". Read by: ", $reader, ".")]
            pub const $constant: &str = $name;
        )*

        /// All names of this module.
        pub const MARKS: &[$crate::mark::Mark] = &[$($crate::mark::Mark {
            form: $crate::mark::Form::$form,
            name: $name,
            on: $on,
            value: $value,
            written_by: $writer,
            read_by: $reader,
            about: &[$($about),+],
        }),*];
    };
}

pub(crate) use marks;
