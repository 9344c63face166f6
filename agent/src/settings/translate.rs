//! What a setting of kube-vip's becomes here, for one value.

use super::kube_vip::{Entry, Meaning, go_bool, slog_level};
use super::parse;

/// What a value of kube-vip's setting becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Our setting of this name gets this value.
    Ours {
        /// Our setting.
        name: &'static str,
        /// The value in our form.
        value: String,
    },
    /// What Mooring does anyway.
    Fine,
    /// Not supported, and this is what to do instead.
    Refused(&'static str),
    /// Without effect here; this is why that does no harm. `quiet`: kube-vip's usual value, of which nobody needs to be told.
    NoEffect {
        /// The reason.
        why: &'static str,
        /// Whether it goes without saying.
        quiet: bool,
    },
    /// A value that cannot be read.
    Invalid {
        /// Our setting.
        name: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// What can be given.
        advice: &'static str,
    },
}

/// What this value of this setting becomes.
#[must_use]
pub fn translate(entry: &'static Entry, value: &str) -> Translation {
    let plain = match go_bool(value).filter(|_| entry.boolean) {
        Some(true) => "true",
        Some(false) => "false",
        None => value.trim(),
    };
    let ours = |name, value| Translation::Ours { name, value };
    match entry.meaning {
        Meaning::Same(name) => ours(name, plain.to_owned()),
        Meaning::Seconds(name) => plain.parse::<u32>().map_or(
            Translation::Invalid { name, problem: "not a whole number of seconds", advice: "give one, as in 15" },
            |seconds| ours(name, format!("{seconds}s")),
        ),
        Meaning::SlogLevel(name) => plain.parse().map_or(
            Translation::Invalid {
                name,
                problem: "not a level",
                advice: "give a number: -4 debug, 0 info, 4 warn, 8 error",
            },
            |number| ours(name, parse::log_level_name(slog_level(number)).to_owned()),
        ),
        Meaning::Either(name, [yes, no]) => match plain {
            "true" => ours(name, yes.to_owned()),
            "false" => ours(name, no.to_owned()),
            _ => Translation::Invalid { name, problem: "neither true nor false", advice: "give one of them" },
        },
        Meaning::Only(fine, _) if fine.contains(&plain) => Translation::Fine,
        Meaning::Only(_, advice) => Translation::Refused(advice),
        Meaning::NoEffect(quiet, why) => Translation::NoEffect { why, quiet: quiet.contains(&plain) },
    }
}
