//! Settings as flags.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};

use super::spec::Spec;

/// The flag of a setting. Its help has lines of at most `width` characters.
#[must_use]
pub fn flag(spec: &'static Spec, width: usize) -> Arg {
    let default = if spec.default.is_empty() { spec.default_note } else { spec.default };
    let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
    let help = wrapped(&format!("{}{default}", spec.help), width);
    Arg::new(spec.name).long(spec.name).value_name(spec.value).help_heading(spec.group).help(help)
}

/// Of the flags with these names those that were given on the command line.
#[must_use]
pub fn given(matches: &ArgMatches, names: impl Iterator<Item = &'static str>) -> BTreeMap<String, String> {
    let value = |name: &'static str| {
        let said = matches.value_source(name) == Some(ValueSource::CommandLine);
        let value = matches.get_one::<String>(name).filter(|_| said)?;
        Some((name.to_owned(), value.clone()))
    };
    names.filter_map(value).collect()
}

/// Breaks a text into lines of at most `width` characters, where words allow it.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}
