//! The command line: its parsing, and the commands that answer at once.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use mooring_common::print::{complain, say};
use mooring_common::settings::flags::flag;
use mooring_common::settings::summary;

use crate::ops::{status_client, table};
use crate::settings::kube_vip::ENTRIES;
use crate::settings::spec::{self, ENV_PREFIX, SETTINGS, Spec};
use crate::settings::{Effective, Given, Host, Loaded, Settings, SettingsErrors};

const ABOUT: &str = "Holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.";

const EXAMPLES: &str = "\
Times are numbers with a unit: 500ms, 2s, 1m30s.

Every setting --some-name can be given as MOORING_SOME_NAME instead. Where the meaning is the same, kube-vip's environment
names and flags are understood as well, after ours. `mooring-agent config` shows what came out and why.

Examples:
  mooring-agent --address 192.0.2.10                          one VIP on the interface of the default route
  mooring-agent --address 192.0.2.10,2001:db8::10 --interface eth0
  mooring-agent --address api.example.com --dns-mode dual     follow a name
  mooring-agent config --address 192.0.2.10 -o json           check settings, change nothing
  mooring-agent status --watch                                see it work";

/// The output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tables, for eyes.
    Table,
    /// JSON, for programs.
    Json,
}

/// The requested command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the agent.
    Run(Given),
    /// Print the effective settings.
    Config(Given, Output),
    /// Print the status of the agent behind this socket.
    Status {
        /// The agent's status socket.
        socket: PathBuf,
        /// The output format.
        output: Output,
        /// Repeat the output.
        watch: bool,
    },
    /// Print the version.
    Version,
    /// Say why this cannot be done.
    Refuse(String),
}

/// kube-vip's subcommands that have no counterpart here, and what to do instead.
const NOT_HERE: &[(&str, &str)] = &[
    ("manifest", "take static-pod/ or manifests/agent/ of Mooring, or change only the image in a manifest of kube-vip"),
    ("kubeadm", "take static-pod/ of Mooring, or change only the image in a manifest of kube-vip"),
    ("sample", "see `mooring-agent --help`"),
    ("service", "use `mooring-agent run --services on`"),
];

/// Reads the command line; `env` gives the default of the status socket.
///
/// # Errors
/// clap's errors, which print themselves; `--help` is one of them.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Action, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    Ok(match matches.subcommand() {
        Some(("config", config)) => Action::Config(Given::from_matches(config), output(config)),
        Some(("status", status)) => {
            let said = |name: &'static str| {
                let flag = status.get_one::<String>(name).cloned();
                flag.or_else(|| spec::find(name).and_then(|s| env(&s.env())).filter(|v| !v.is_empty()))
            };
            let run_dir =
                said("run-dir").or_else(|| spec::find("run-dir").map(|s| s.default.to_owned())).unwrap_or_default();
            let socket = said("status-socket").map_or_else(|| Path::new(&run_dir).join("agent.sock"), PathBuf::from);
            Action::Status { socket, output: output(status), watch: status.get_flag("watch") }
        }
        Some(("version", _)) => Action::Version,
        Some((name, _)) if not_here(name).is_some() => {
            let instead = not_here(name).unwrap_or_default();
            Action::Refuse(format!("kube-vip's subcommand {name} does not exist here: {instead}"))
        }
        Some((_, run)) => Action::Run(Given::from_matches(run)),
        None => Action::Run(Given::from_matches(&matches)),
    })
}

fn not_here(name: &str) -> Option<&'static str> {
    NOT_HERE.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// The command line as clap knows it.
#[must_use]
pub fn command() -> Command {
    let settings = |command: Command| command.args(SETTINGS.iter().map(ours)).args(theirs()).after_help(EXAMPLES);
    let output = Arg::new("output").short('o').long("output").value_name("FORMAT").default_value("table");
    let output = output.value_parser(PossibleValuesParser::new(["table", "json"])).help("How to print");
    let own = |name| SETTINGS.iter().filter(move |spec| spec.name == name).map(ours);
    let watch = Arg::new("watch").short('w').long("watch").action(ArgAction::SetTrue).help("Print again every second");
    let run = settings(Command::new("run")).about("Be the agent (the default)").alias("manager");
    let config = settings(Command::new("config")).about("Print each effective setting and where it came from");
    let status =
        Command::new("status").about("Print what the agent on this host is doing").args([output.clone(), watch]);
    let status = status.args(own("status-socket")).args(own("run-dir"));
    let version = Command::new("version").about("Print the version");
    settings(Command::new("mooring-agent"))
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .subcommands([run, config.arg(output), status, version])
        .subcommands(NOT_HERE.iter().map(|(name, _)| refused(name)))
}

/// A subcommand with any arguments.
fn refused(name: &'static str) -> Command {
    let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new(name).hide(true).disable_help_flag(true).arg(rest)
}

fn ours(spec: &'static Spec) -> Arg {
    let arg = flag(spec, 100);
    match spec.name {
        "namespace" => arg.short('n'),
        // kube-vip's flag of that name may stand without a value.
        "services" => arg.num_args(0..=1).default_missing_value("on"),
        _ => arg,
    }
}

/// kube-vip's flags, understood and not shown.
fn theirs() -> impl Iterator<Item = Arg> {
    ENTRIES.iter().filter(|entry| !entry.flag.is_empty()).map(|entry| {
        let arg = Arg::new(entry.flag).long(entry.flag).hide(true).allow_negative_numbers(true);
        if entry.boolean { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
    })
}

fn output(matches: &ArgMatches) -> Output {
    if matches.get_one::<String>("output").is_some_and(|o| o == "json") { Output::Json } else { Output::Table }
}

/// Runs the requested command.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let action = match parse(args, |name| std::env::var(name).ok()) {
        Ok(action) => action,
        Err(error) => {
            // If even the message cannot be printed, there is nothing left to do.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match action {
        Action::Run(given) => load(&given).map_or_else(|errors| refuse(&errors), run),
        Action::Config(given, output) => load(&given).map_or_else(
            |errors| refuse(&errors),
            |loaded| {
                loaded.warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
                said(&config(&loaded.effective, output))
            },
        ),
        Action::Status { socket, output, watch } => status_client::print(&socket, output, watch),
        Action::Version => said(concat!("mooring-agent ", env!("CARGO_PKG_VERSION"))),
        Action::Refuse(text) => {
            complain(&format!("mooring-agent: {text}"));
            ExitCode::from(2)
        }
    }
}

fn load(given: &Given) -> Result<Loaded, SettingsErrors> {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    Settings::load(given, std::env::vars_os().map(|(name, value)| (text(name), text(value))), &Host::read())
}

fn said(text: &str) -> ExitCode {
    if say(text) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(errors: &SettingsErrors) -> ExitCode {
    complain(&format!("mooring-agent: {errors}"));
    ExitCode::from(2)
}

fn run(loaded: Loaded) -> ExitCode {
    mooring_common::log::init("mooring_agent", loaded.settings.log);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        settings = summary(&loaded.effective, SETTINGS),
        "mooring-agent starts; all other settings have their defaults, which `mooring-agent config` prints"
    );
    for warning in &loaded.warnings {
        tracing::warn!(setting = %warning.setting, "{}", warning.text);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| Ok(runtime.block_on(crate::run::run(loaded.settings))?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "mooring-agent ends");
            ExitCode::FAILURE
        }
    }
}

/// The effective settings, as `mooring-agent config` prints them.
#[must_use]
pub fn config(effective: &[Effective], output: Output) -> String {
    if output == Output::Json {
        return serde_json::to_string_pretty(effective).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    }
    let rows = effective.iter().map(|e| {
        let note = spec::find(e.name).map_or("", |s| s.default_note);
        let value = if e.value.is_empty() && !note.is_empty() { format!("({note})") } else { e.value.clone() };
        vec![e.name.to_owned(), value, e.source.to_string()]
    });
    let mut text = table::render(&["SETTING", "VALUE", "FROM"], rows, usize::MAX);
    // Writing to a String cannot fail.
    let _ = write!(text, "\nEach can be given as --NAME or {ENV_PREFIX}NAME.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Action {
        parse(std::iter::once("mooring-agent").chain(args.iter().copied()).map(OsString::from), |_| None).unwrap()
    }

    #[test]
    fn clap_finds_nothing_wrong_with_the_tables() {
        command().debug_assert();
    }

    #[test]
    fn run_is_the_default_and_kube_vips_manager_is_run() {
        let given = Given([("address".to_owned(), "192.0.2.1".to_owned())].into());
        assert_eq!(parsed(&["--address", "192.0.2.1"]), Action::Run(given.clone()));
        assert_eq!(parsed(&["run", "--address=192.0.2.1"]), Action::Run(given.clone()));
        assert_eq!(parsed(&["manager", "--address", "192.0.2.1"]), Action::Run(given));
        assert_eq!(parsed(&[]), Action::Run(Given::default()));
    }

    #[test]
    fn kube_vips_flags_are_understood() {
        let flags =
            ["manager", "--arp", "--controlplane=true", "--leaseDuration", "5", "--log", "-4", "-n", "kube-system"];
        let Action::Run(given) = parsed(&flags) else { panic!("not run") };
        let expect = [
            ("arp", "true"),
            ("controlplane", "true"),
            ("leaseDuration", "5"),
            ("log", "-4"),
            ("namespace", "kube-system"),
        ];
        assert_eq!(given.0, expect.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn kube_vips_flags_for_zebra_are_understood() {
        let Action::Run(given) = parsed(&["manager", "--zebra", "--zebraUrl", "unix:/z", "--zebraVersion", "6"]) else {
            panic!("not run")
        };
        assert_eq!(given.0.keys().collect::<Vec<_>>(), ["zebra", "zebraUrl", "zebraVersion"]);
    }

    #[test]
    fn kube_vips_other_subcommands_are_refused_by_name() {
        for args in [
            &["manifest", "pod", "--interface", "eth0"][..],
            &["kubeadm", "init"],
            &["sample"],
            &["service", "-c", "x"],
        ] {
            let Action::Refuse(text) = parsed(args) else { panic!("{args:?} is not refused") };
            assert!(text.contains(&format!("kube-vip's subcommand {}", args[0])), "{text}");
        }
    }

    #[test]
    fn status_finds_the_socket_by_flag_environment_and_directory() {
        let socket = |action| {
            if let Action::Status { socket, .. } = action { socket } else { panic!("not status") }
        };
        assert_eq!(socket(parsed(&["status"])), Path::new("/run/mooring/agent.sock"));
        assert_eq!(socket(parsed(&["status", "--run-dir", "/x"])), Path::new("/x/agent.sock"));
        let env = |name: &str| (name == "MOORING_STATUS_SOCKET").then(|| "/y/s".to_owned());
        let args = || ["mooring-agent", "status", "--run-dir", "/x"].map(OsString::from);
        assert_eq!(socket(parse(args(), env).unwrap()), Path::new("/y/s"));
    }

    #[test]
    fn the_help_names_every_setting_and_none_of_kube_vips() {
        let help = command().render_help().to_string();
        for spec in SETTINGS {
            assert!(help.contains(&format!("--{}", spec.name)), "{}", spec.name);
        }
        assert!(!help.contains("leaseRenewDuration"));
    }
}
